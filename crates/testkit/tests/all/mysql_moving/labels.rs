//! The indexes of tasks move with their partition, however far either database has got with its index; an
//! engine that does not know a declaration follows it nevertheless.

use super::*;
use punctual_contract::{
    BulkStore as _, LabelStore as _, SettingStore as _,
    bulk::TaskFilter,
    settings::SaveSetting,
    store::{Along, Page},
};
use punctual_domain::settings::{QueueSettings, Scope, Setting};

async fn declare(store: &MysqlStore) {
    let settings = QueueSettings { indexed_labels: ["team".to_owned()].into(), ..QueueSettings::default() };
    let setting = Some(Setting::Queue(Box::new(settings)));
    let save = SaveSetting { scope: Scope::Queue(queue()), setting, expected: None, by: "test".to_owned() };
    store.save_setting(save, NOW).await.unwrap();
}

fn labelled(task_id: i64) -> NewTask {
    NewTask { labels: [("team".to_owned(), "blue".to_owned())].into(), ..ask(task_id) }
}

/// Ids of callers, and how they were found.
async fn found(store: &MysqlStore, state: Option<State>) -> (Vec<i64>, Along) {
    let label = state.is_none().then(|| ("team".to_owned(), "blue".to_owned()));
    let query = Query {
        namespace: Some(Name::default_namespace()),
        queue: Some(queue().queue),
        label,
        state,
        limit: 1_000,
        ..Query::default()
    };
    let Page { tasks, along, next_before_id, .. } = store.list(&query).await.unwrap();
    assert_eq!(next_before_id, None);
    let mut ids: Vec<i64> = tasks.iter().map(Task::task_id).collect();
    ids.sort_unstable();
    (ids, along)
}

async fn index(store: &MysqlStore, part: usize) {
    while store.index_labels_in(part, 50).await.unwrap() > 0 {}
}

async fn entries(url: &str, partition: u16) -> String {
    sql(url, &format!("SELECT COUNT(*) FROM lookup WHERE partition_no = {partition}")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn labels_and_the_dead_are_found_after_a_move_whichever_database_was_further() {
    let urls = fresh(2).await;
    let store = open(&urls).await;
    let mut ids: Vec<i64> = (0..2).flat_map(|partition| ids_in(partition).take(40)).collect();
    let tasks = insert(&store, ids.iter().copied().map(labelled).collect(), NOW).await;
    ids.sort_unstable();
    let bury =
        |task: &Task| step(task.place, task.fence, Change::DeadLetter { keep_until: NOW.plus(3_600_000) });
    let buried = store.apply(tasks.iter().step_by(8).map(bury).collect(), NOW).await.unwrap();
    assert!(buried.iter().all(|stepped| *stepped == Applied::Moved));
    let mut dead: Vec<i64> = tasks.iter().step_by(8).map(Task::task_id).collect();
    dead.sort_unstable();
    declare(&store).await;
    // From one that has entered nothing to one that is whole, because it had no tasks.
    index(&store, 1).await;
    move_to(&store, 0, 1).await.unwrap();
    assert_eq!(entries(&urls[0], 0).await, "0", "nothing is left behind");
    assert_eq!(found(&store, None).await, (ids.clone(), Along::Chunks));
    index(&store, 0).await;
    assert_eq!(found(&store, None).await, (ids.clone(), Along::Label));
    assert_eq!(found(&store, Some(State::Dead)).await, (dead.clone(), Along::Dead));
    // And back.
    move_to(&store, 0, 0).await.unwrap();
    assert_eq!(entries(&urls[1], 0).await, "0", "nothing is left behind");
    assert_eq!(entries(&urls[0], 0).await, "45", "forty labels, five dead");
    assert_eq!(found(&store, None).await, (ids, Along::Label));
    assert_eq!(found(&store, Some(State::Dead)).await, (dead, Along::Dead));
    all_is_sound(&store).await;
    store.close().await;
}

/// A look asks only the databases that hold the partitions, as far as this engine knows; their answers count.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_look_at_a_partition_finds_it_after_a_move_that_nobody_told_of() {
    let urls = fresh(2).await;
    let (store, other) = (open(&urls).await, open(&urls).await);
    let ids: Vec<i64> = (0..2).flat_map(|partition| ids_in(partition).take(20)).collect();
    let tasks = insert(&store, ids.iter().copied().map(ask).collect(), NOW).await;
    let of_first = tasks.iter().filter(|task| task.place.partition == Partition(0)).count();
    let look = TaskFilter {
        states: State::ALL.to_vec(),
        partitions: Some([Partition(0)].into()),
        limit: 100,
        ..TaskFilter::default()
    };
    for to in [1, 0, 1] {
        move_to(&other, 0, to).await.unwrap();
        assert_eq!(store.matching(&look).await.unwrap().places.len(), of_first, "now in {to}");
    }
    store.close().await;
    other.close().await;
}

/// Engines of an older version store and bury without an entry.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_not_entered_is_found_after_a_repair_and_then_along_its_entries() {
    let urls = fresh(1).await;
    let store = open(&urls).await;
    declare(&store).await;
    let ids: Vec<i64> = (1..=40).collect();
    let tasks = insert(&store, ids.iter().copied().map(labelled).collect(), NOW).await;
    let bury =
        |task: &Task| step(task.place, task.fence, Change::DeadLetter { keep_until: NOW.plus(3_600_000) });
    store.apply(tasks.iter().take(5).map(bury).collect(), NOW).await.unwrap();
    index(&store, 0).await;
    sql(&urls[0], "DELETE FROM lookup").await;
    assert_eq!(found(&store, None).await, (vec![], Along::Label));
    store.repair(true).await.unwrap();
    assert_eq!(
        found(&store, Some(State::Dead)).await,
        (vec![], Along::Dead),
        "that only says what it would do"
    );
    store.repair(false).await.unwrap();
    assert_eq!(found(&store, None).await, (ids.clone(), Along::Chunks));
    assert_eq!(found(&store, Some(State::Dead)).await, (vec![1, 2, 3, 4, 5], Along::Chunks));
    index(&store, 0).await;
    assert_eq!(found(&store, None).await, (ids, Along::Label));
    assert_eq!(found(&store, Some(State::Dead)).await, (vec![1, 2, 3, 4, 5], Along::Dead));
    all_is_sound(&store).await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_engine_that_has_heard_nothing_of_a_declaration_enters_what_it_stores() {
    let urls = fresh(2).await;
    let (one, other) = (open(&urls).await, open(&urls).await);
    insert(&other, vec![labelled(1)], NOW).await;
    declare(&one).await;
    insert(&other, (2..50).map(labelled).collect(), NOW).await;
    for part in 0..2 {
        index(&one, part).await;
    }
    assert_eq!(found(&one, None).await, ((1..50).collect(), Along::Label));
    assert_eq!(found(&other, None).await, ((1..50).collect(), Along::Label));
    one.close().await;
    other.close().await;
}

/// Ids of callers in the queue, over all pages, and how they were found.
async fn in_queue(store: &MysqlStore) -> (Vec<i64>, Along) {
    let mut query = Query {
        namespace: Some(Name::default_namespace()),
        queue: Some(queue().queue),
        limit: 30,
        ..Query::default()
    };
    let mut ids = Vec::new();
    loop {
        let Page { tasks, along, next_before_id, .. } = store.list(&query).await.unwrap();
        ids.extend(tasks.iter().map(Task::task_id));
        query.before_id = next_before_id;
        if next_before_id.is_none() {
            ids.sort_unstable();
            return (ids, along);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_queue_is_found_after_a_move_and_before_all_is_entered_that_stood() {
    let urls = fresh(2).await;
    let store = open(&urls).await;
    let mut ids: Vec<i64> = (0..2).flat_map(|partition| ids_in(partition).take(40)).collect();
    insert(&store, ids.iter().copied().map(ask).collect(), NOW).await;
    ids.sort_unstable();
    assert_eq!(in_queue(&store).await, (ids.clone(), Along::Chunks));
    // As an upgrade leaves it.
    sql(&urls[0], "DELETE FROM task_chunk").await;
    sql(&urls[0], "UPDATE meta SET value = (SELECT MAX(id) + 1 FROM registry) WHERE name = 'chunks_below'")
        .await;
    assert_eq!(in_queue(&store).await.0, ids, "walked to");
    move_to(&store, 0, 1).await.unwrap();
    assert_eq!(in_queue(&store).await.0, ids, "entered as it was copied");
    let moved = sql(&urls[1], "SELECT COUNT(*) FROM task_chunk WHERE slot = -2").await;
    assert_ne!(moved, "0");
    move_to(&store, 0, 0).await.unwrap();
    for part in 0..2 {
        index(&store, part).await;
    }
    assert_eq!(sql(&urls[0], "SELECT value FROM meta WHERE name = 'chunks_below'").await, "0");
    assert_eq!(in_queue(&store).await, (ids, Along::Chunks));
    all_is_sound(&store).await;
    store.close().await;
}

/// The older engine adds no entries to the index: its inserts would be hidden.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_index_of_queues_is_not_begun_while_an_engine_of_an_older_release_lives() {
    let urls = fresh(1).await;
    let store = open(&urls).await;
    insert(&store, (1..=40).map(ask).collect(), NOW).await;
    sql(&urls[0], "DELETE FROM task_chunk").await;
    sql(&urls[0], "DELETE FROM meta WHERE name = 'chunks_below'").await;
    sql(&urls[0], "INSERT INTO engine (name, alive_until) VALUES ('old', 9000000000000)").await;
    let ids: Vec<i64> = (1..=40).collect();
    index(&store, 0).await;
    assert_eq!(in_queue(&store).await, (ids.clone(), Along::Ids));
    sql(&urls[0], "DELETE FROM engine WHERE name = 'old'").await;
    index(&store, 0).await;
    assert_eq!(in_queue(&store).await, (ids.clone(), Along::Chunks));
    // What an older one has inserted all the same is found after a repair.
    sql(&urls[0], "DELETE FROM task_chunk").await;
    store.repair(false).await.unwrap();
    assert_eq!(in_queue(&store).await.0, ids);
    index(&store, 0).await;
    assert_eq!(in_queue(&store).await.0, ids);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn chunks_without_tasks_are_forgotten_when_no_writer_remembers_them() {
    let urls = fresh(1).await;
    let store = open(&urls).await;
    insert(&store, (1..=40).map(ask).collect(), NOW).await;
    let old = "INSERT INTO task_chunk VALUES ('default', 'gone', 900, 'k', 0, 1), ('default', 'young', 900, 'k', 0, 9000000000000)";
    sql(&urls[0], old).await;
    // Empty chunks behind one that has tasks, more rows than one statement removes.
    let many = "INSERT INTO task_chunk SELECT 'default', 'many', seq DIV 4, seq % 4, 0, 1 FROM seq_0_to_4999";
    sql(&urls[0], many).await;
    sql(&urls[0], "UPDATE task_chunk SET noted_at = 1 WHERE queue <> 'young'").await;
    index(&store, 0).await;
    let left =
        "SELECT GROUP_CONCAT(DISTINCT queue ORDER BY queue) FROM task_chunk WHERE queue NOT IN ('', 'many')";
    assert_eq!(sql(&urls[0], left).await, format!("{},young", queue().queue.as_str()));
    let left = "SELECT COUNT(*) FROM task_chunk WHERE queue = 'many'";
    let filled = "SELECT COUNT(DISTINCT id DIV 1024) * 4 FROM registry WHERE id < 1024 * 1250";
    assert_eq!(sql(&urls[0], left).await, sql(&urls[0], filled).await, "a chunk with tasks of others stays");
    store.close().await;
}
