//! The mover is killed after each of its steps: the partition can be written to again by itself, when the time is over that
//! the catalog has for it, and the mover continues where it was, or the move is undone.

use super::*;
use tokio::{sync::Barrier, task::JoinSet};

/// How long a partition stays closed when its mover is gone, in milliseconds: the catalog never has a later end.
const CLOSED_MS_MAX: i64 = 10_000;
/// By the catalog's clock, as the steps of a move are.
const CLOCK: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000";

const STEPS: [MoveStep; 12] = [
    MoveStep::Recorded,
    MoveStep::Copying,
    MoveStep::Tidied,
    MoveStep::Announced,
    MoveStep::Closed,
    MoveStep::Comparing,
    MoveStep::Entered,
    MoveStep::Decided,
    MoveStep::Left,
    MoveStep::Opened,
    MoveStep::Deleting,
    MoveStep::Over,
];

/// Ends the mover at a step.
async fn killed(store: &MysqlStore, at: MoveStep) {
    let mut until = |progress: &MoveProgress| {
        if progress.step == at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let ended = store.move_partition(Partition(0), 1, &mut until).await.unwrap_err();
    assert!(ended.to_string().contains("run it again"), "{at:?}: {ended}");
}

/// Work in the partition after the kill is never refused: it waits for as long as the partition is closed.
async fn works_on(store: &MysqlStore, at: MoveStep, ids: &[i64]) -> Vec<Task> {
    let tasks = insert(store, ids.iter().copied().map(ask).collect(), NOW).await;
    let waiting = waiting(store, 0, NOW).await;
    let handed = hand_over(store, &waiting, NOW).await;
    let done = handed.iter().map(|lease| step(lease.place, lease.fence, success(NOW))).collect();
    let done = store.apply(done, NOW).await.unwrap();
    assert!(done.iter().all(|stepped| *stepped == Applied::Moved), "{at:?}");
    tasks
}

/// Of a partition that is closed: its end as the catalog has it, and the catalog's clock, in milliseconds.
async fn closing(catalog: &str) -> Option<(i64, i64)> {
    let row = sql(
        catalog,
        &format!(
            "SELECT closed_until, {CLOCK} FROM partition_move JOIN hosted USING (partition_no)
             WHERE partition_no = 0 AND step = 2 AND state = 2"
        ),
    )
    .await;
    let (end, now) = row.split_once('\t')?;
    Some((end.parse().unwrap(), now.parse().unwrap()))
}

/// As `works_on`, just after the kill. A closed partition has an end in the catalog, and calls wait until
/// then and no longer. At any other step there is nothing to wait for.
async fn works_on_by_itself(store: &MysqlStore, at: MoveStep, ids: &[i64], catalog: &str) -> Vec<Task> {
    let closed = closing(catalog).await;
    let is_closed = matches!(at, MoveStep::Closed | MoveStep::Comparing | MoveStep::Entered);
    assert_eq!(closed.is_some(), is_closed, "{at:?}: {closed:?}");
    let tasks = works_on(store, at, ids).await;
    if let Some((end, now)) = closed {
        assert!(end - now <= CLOSED_MS_MAX, "{at:?}: closed for {} ms more", end - now);
        let after: i64 = sql(catalog, &format!("SELECT {CLOCK}")).await.parse().unwrap();
        assert!(after >= end, "{at:?}: opened before the mover had lost its time");
        assert_eq!(closing(catalog).await, None, "{at:?}: nobody has said again that it is closed");
    }
    tasks
}

/// `filled`: none is killed before all have their databases, which take the machine for seconds.
async fn one(at: MoveStep, undo: bool, filled: Arc<Barrier>) {
    let urls = fresh(2).await;
    let (engine, operator) = (open(&urls).await, open(&urls).await);
    let ids: Vec<i64> = ids_in(0).take(60).collect();
    let mut tasks = insert(&engine, ids[..40].iter().copied().map(ask).collect(), NOW).await;
    insert(&engine, ids_in(1).take(40).map(ask).collect(), NOW).await;
    let others: Vec<i64> = ids_in(1).take(40).collect();
    filled.wait().await;
    killed(&operator, at).await;
    let standing = Move { partition: Partition(0), from: 0, to: 1 };
    let expected = if at < MoveStep::Over { vec![standing] } else { Vec::new() };
    assert_eq!(ClusterStore::moves(&*engine).await.unwrap(), expected, "{at:?}");
    tasks.extend(works_on_by_itself(&engine, at, &ids[40..50], &urls[0]).await);
    if undo {
        let mut go_on = |_: &MoveProgress| ControlFlow::Continue(());
        let undone = operator.undo_move(Partition(0), &mut go_on).await;
        assert_eq!(undone.is_ok(), at < MoveStep::Decided, "{at:?}: {undone:?}");
        if undone.is_ok() {
            assert_eq!(
                sql(&urls[1], "SELECT COUNT(*) FROM task WHERE partition_no = 0").await,
                "0",
                "{at:?}"
            );
            all_is_sound(&operator).await;
        }
    }
    tasks.extend(works_on(&engine, at, &ids[50..]).await);
    move_to(&operator, 0, 1).await;
    assert_eq!(sql(&urls[0], "SELECT COUNT(*) FROM task WHERE partition_no = 0").await, "0", "{at:?}");
    let mut all: HashMap<i64, TaskRef> =
        tasks.iter().map(|task| (task.ask.task_id.unwrap(), task.place)).collect();
    assert_eq!(all.len(), 60);
    for task_id in others {
        let found = engine.versions(&Name::default_namespace(), task_id, None, 2).await.unwrap();
        all.insert(task_id, found[0].place);
    }
    each_is_found_once(&engine, &all).await;
    all_is_sound(&engine).await;
    let states = engine.read(&tasks.iter().map(|task| task.place).collect::<Vec<_>>()).await.unwrap();
    assert!(states.iter().all(|state| state.as_ref().unwrap().state == State::Succeeded), "{at:?}");
}

async fn each(steps: &[MoveStep], undo: bool) {
    let filled = Arc::new(Barrier::new(steps.len()));
    let mut all = JoinSet::new();
    for at in steps.iter().copied() {
        all.spawn(one(at, undo, Arc::clone(&filled)));
    }
    all.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_killed_mover_is_run_again_after_every_step() {
    each(&STEPS, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_killed_move_is_undone_after_every_step_up_to_the_decision() {
    let steps: Vec<MoveStep> = STEPS.into_iter().filter(|step| *step < MoveStep::Over).collect();
    each(&steps, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_mover_that_was_overtaken_changes_nothing_any_more() {
    let urls = fresh(2).await;
    let store = open(&urls).await;
    let tasks = insert(&store, ids_in(0).take(30).map(ask).collect(), NOW).await;
    // Its record is taken over while it copies, as by a mover on another machine after a split.
    let url = urls[0].clone();
    let mut taken = false;
    let mut take = |progress: &MoveProgress| {
        if progress.step == MoveStep::Closed && !taken {
            taken = true;
            let text = "UPDATE partition_move SET term = term + 1000, step = 1; UPDATE meta SET value = value + 1000 WHERE name = 'move_term'";
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(sql(&url, text)));
        }
        ControlFlow::Continue(())
    };
    let refused = store.move_partition(Partition(0), 1, &mut take).await.unwrap_err();
    assert!(refused.to_string().contains("taken over"), "{refused}");
    assert_eq!(sql(&urls[0], "SELECT shard_no FROM placement WHERE partition_no = 0").await, "0");
    works_on(&store, MoveStep::Copying, &[]).await;
    move_to(&store, 0, 1).await.unwrap();
    let all = tasks.iter().map(|task| (task.ask.task_id.unwrap(), task.place)).collect();
    each_is_found_once(&store, &all).await;
    all_is_sound(&store).await;
}
