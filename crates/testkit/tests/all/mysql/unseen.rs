//! Moves of rows that were not read, or not with locks: how the guard of the move handles rows that differ
//! from the expected state.

use super::{NOW, ask, fresh, name, open, sql};
use punctual_contract::{
    Happened, Store,
    store::{Applied, Assignment, Beat, Change, Dispatched, Facts, Grant, LeaseFacts, Step},
};
use punctual_domain::{
    history::Note,
    name::Name,
    place::{Partition, TaskRef, partition_of},
    state::{Event, State},
    task::{Content, NewTask, Priority, Task, TaskResult},
    time::Millis,
};
use punctual_store::{MysqlOptions, MysqlStore};
use punctual_testkit::{
    conformance::store::{balanced, facts},
    patience::until,
};
use std::{sync::Arc, time::Duration};
use tokio::{task::JoinSet, time::Instant};

const LEASE_END: Millis = Millis(NOW.0 + 30_000);

/// Two engines on one database, and tasks that wait.
struct UnseenSetup {
    url: String,
    here: Arc<MysqlStore>,
    elsewhere: MysqlStore,
    tasks: Vec<Task>,
}

impl UnseenSetup {
    async fn new(tasks: i64) -> Self {
        Self::of((1..=tasks).map(ask)).await
    }

    async fn of(asks: impl Iterator<Item = NewTask>) -> Self {
        let urls = fresh(1).await;
        let (here, elsewhere) = (open(&urls).await, open(&urls).await);
        let inserted = here.insert(asks.collect(), "test", NOW).await.unwrap();
        let tasks = inserted.into_iter().map(|inserted| inserted.task).collect();
        Self { url: urls[0].clone(), here: Arc::new(here), elsewhere, tasks }
    }

    fn grants(&self, executor: &str) -> Vec<Grant> {
        let grant = |task: &Task| Grant {
            place: task.place,
            fence: task.fence,
            fired_at: NOW,
            lease_until: LEASE_END,
            executor: executor.to_owned(),
            namespace: punctual_domain::name::Name::default_namespace(),
            has_begun: false,
            known: Some(facts(task)),
        };
        self.tasks.iter().map(grant).collect()
    }

    async fn hand_over(&self) -> Vec<Assignment> {
        let made = self.here.dispatch(self.grants("x"), NOW).await.unwrap();
        made.into_iter().map(|dispatched| dispatched.made().unwrap()).collect()
    }

    async fn read(&self) -> Vec<Task> {
        let places: Vec<TaskRef> = self.tasks.iter().map(|task| task.place).collect();
        self.here.read(&places).await.unwrap().into_iter().map(Option::unwrap).collect()
    }
}

fn step(lease: &Assignment, change: Change) -> Step {
    Step {
        place: lease.place,
        fence: Some(lease.fence),
        change,
        note: Note { by: "x".to_owned(), ..Note::default() },
        fired_at: None,
        known: None,
    }
}

/// By an engine that has handed it over.
fn success(lease: &Assignment) -> Step {
    let known = LeaseFacts::of(lease, &Arc::new(lease.queue.clone()));
    Step { known: Some(known), ..success_to_look_at(lease) }
}

fn success_to_look_at(lease: &Assignment) -> Step {
    let result = TaskResult { status_code: 7, status_msg: "done".to_owned(), content: None };
    step(lease, Change::Succeed { result, keep_until: NOW.plus(1_000_000) })
}

fn successes(leases: &[Assignment]) -> Vec<Step> {
    leases.iter().map(success).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_success_without_a_look_is_the_same_as_one_with() {
    for tasks in [2, 16, 17, 400] {
        let stand = UnseenSetup::new(tasks).await;
        let leases = stand.hand_over().await;
        let (unseen, looked_at) = leases.split_at(leases.len() / 2);
        let now = NOW.plus(5);
        assert!(
            stand
                .here
                .apply(successes(unseen), now)
                .await
                .unwrap()
                .iter()
                .all(|stepped| *stepped == Applied::Moved)
        );
        let looked_at = looked_at.iter().map(success_to_look_at).collect();
        let there = stand.elsewhere.apply(looked_at, now).await.unwrap();
        assert!(there.iter().all(|stepped| *stepped == Applied::Moved));
        let of_none_in_particular =
            |task: Task| Task { place: stand.tasks[0].place, ask: stand.tasks[0].ask.clone(), ..task };
        let all: Vec<Task> = stand.read().await.into_iter().map(of_none_in_particular).collect();
        assert!(all.iter().all(|task| *task == all[0] && task.state == State::Succeeded), "{tasks}: {all:?}");
        balanced(&*stand.here).await;
        let again = stand.here.apply(successes(&leases), now).await.unwrap();
        assert!(again.iter().all(|stepped| *stepped == Applied::Lost), "once only");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_began_elsewhere_is_looked_at_after_all() {
    let stand = UnseenSetup::new(40).await;
    let leases = stand.hand_over().await;
    let beat = Beat {
        place: leases[3].place,
        fence: leases[3].fence,
        lease_until: LEASE_END,
        progress: None,
        log: None,
        executor: "x".to_owned(),
        handed_over_at: None,
    };
    stand.elsewhere.extend(vec![beat], NOW.plus(1)).await.unwrap();
    let applied = stand.here.apply(successes(&leases), NOW.plus(2)).await.unwrap();
    assert!(applied.iter().all(|stepped| *stepped == Applied::Moved));
    for (nth, task) in stand.read().await.iter().enumerate() {
        let last = task.history.last().unwrap();
        let from = if nth == 3 { State::Running } else { State::Dispatched };
        assert_eq!((last.event, last.from, last.to), (Some(Event::Succeed), Some(from), State::Succeeded));
    }
    balanced(&*stand.here).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_somebody_else_has_now_is_not_reported_on() {
    let stand = UnseenSetup::new(40).await;
    let leases = stand.hand_over().await;
    let retry = step(&leases[3], Change::Retry { due_at: NOW.plus(50), result: None });
    assert_eq!(stand.elsewhere.apply(vec![retry], NOW.plus(1)).await.unwrap(), [Applied::Moved]);
    let waiting = stand.read().await.remove(3);
    let grant = Grant { fence: waiting.fence, known: None, ..stand.grants("y").remove(3) };
    let other = stand.elsewhere.dispatch(vec![grant], NOW.plus(60)).await.unwrap().remove(0).made().unwrap();
    assert!(other.fence > leases[3].fence);
    let applied = stand.here.apply(successes(&leases), NOW.plus(70)).await.unwrap();
    for (nth, task) in stand.read().await.iter().enumerate() {
        let (wanted, state) =
            if nth == 3 { (Applied::Lost, State::Dispatched) } else { (Applied::Moved, State::Succeeded) };
        assert_eq!((applied[nth].applied, task.state), (wanted, state), "{nth}");
    }
    balanced(&*stand.here).await;
    assert_eq!(stand.here.apply(vec![success(&other)], NOW.plus(80)).await.unwrap(), [Applied::Moved]);
    let ended = stand.here.leases_ended(LEASE_END.plus(100_000), 100).await.unwrap();
    assert!(ended.is_empty(), "{ended:?}");
    assert_eq!(sql(&stand.url, "SELECT COUNT(*) FROM lease_batch").await, "0", "nothing is left of them");
}

/// A row that another holds, in a transaction that ends when it is let go.
pub(super) struct Holder {
    url: String,
    holder: JoinSet<String>,
    /// Keeps the holder waiting; it is killed, which is an error to who runs it.
    gate: JoinSet<String>,
}

impl Holder {
    /// Holds what a statement locks.
    pub(super) async fn of(url: &str, statement: &str) -> Self {
        let lock = format!("'gate-{}'", name(url));
        let session = |text: String| {
            let (url, mut sessions) = (url.to_owned(), JoinSet::new());
            sessions.spawn(async move { sql(&url, &text).await });
            sessions
        };
        let gate = session(format!("DO GET_LOCK({lock}, 20); DO SLEEP(120)"));
        until_one(url, &running(url, "DO SLEEP(120)")).await;
        let wait = format!("DO GET_LOCK({lock}, 120)");
        let holder = session(format!(
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN; {statement}; {wait}; COMMIT"
        ));
        until_one(url, &running(url, "DO GET_LOCK(%, 120)")).await;
        Self { url: url.to_owned(), holder, gate }
    }

    pub(super) async fn let_go(mut self) {
        let gate = running(&self.url, "DO SLEEP(120)").replace("COUNT(*)", "CONCAT('KILL ', id)");
        let kill = sql(&self.url, &gate).await;
        sql(&self.url, &kill).await;
        assert!(self.gate.join_next().await.unwrap().is_err(), "it was killed");
        self.holder.join_all().await;
    }
}

/// How many statements like this run in the database.
pub(super) fn running(url: &str, like: &str) -> String {
    format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = '{}' AND INFO LIKE '{like}'",
        name(url)
    )
}

/// Before the move, another engine changes one of the tasks: it holds its row until the move waits for it. Who knows them
/// knows them as they were; for any other they are read.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_task_that_changes_just_before_its_move_is_not_handed_over_as_it_was() {
    for are_known in [true, false] {
        changes_before_its_move(are_known).await;
    }
}

async fn changes_before_its_move(are_known: bool) {
    let stand = UnseenSetup::new(10).await;
    let id = stand.tasks[3].place.id;
    let change = format!("UPDATE task SET fence = fence + 1, payload = '42' WHERE id = {id}");
    let holder = Holder::of(&stand.url, &change).await;
    let (here, mut grants) = (Arc::clone(&stand.here), stand.grants("x"));
    grants.iter_mut().filter(|_| !are_known).for_each(|grant| grant.known = None);
    let mut callers = JoinSet::new();
    callers.spawn(async move { here.dispatch(grants, NOW).await.unwrap() });
    // It is past its read: what waits is the move.
    until_one(&stand.url, &running(&stand.url, "UPDATE task FORCE%fired_at%")).await;
    holder.let_go().await;
    let made = callers.join_next().await.unwrap().unwrap();
    for (nth, dispatched) in made.iter().enumerate() {
        assert_eq!(matches!(dispatched, Dispatched::Made(_)), nth != 3, "{nth}: {dispatched:?}");
    }
    for (nth, task) in stand.read().await.iter().enumerate() {
        let wanted = if nth == 3 { (State::Scheduled, 0) } else { (State::Dispatched, 1) };
        assert_eq!((task.state, task.attempt), wanted, "{nth}");
    }
    balanced(&*stand.here).await;
}

/// The lease's move waits for a row for more than a third of the lease, or the caller has hung up meanwhile.
/// A caller that returned the lease would be too late as well, and the attempt would be spent. Other calls at
/// the same time are done.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lease_that_comes_too_late_to_be_had_is_not_made() {
    for is_hung_up in [false, true] {
        let stand = UnseenSetup::new(6).await;
        let held = format!("SELECT id FROM task WHERE id = {} FOR UPDATE", stand.tasks[3].place.id);
        let holder = Holder::of(&stand.url, &held).await;
        let (long, mut short) = (stand.grants("x"), stand.grants("x"));
        short.iter_mut().filter(|_| !is_hung_up).for_each(|grant| grant.lease_until = NOW.plus(1_200));
        let (here, began) = (Arc::clone(&stand.here), Instant::now());
        let mut callers = JoinSet::new();
        callers.spawn(async move { here.dispatch(short, NOW).await });
        until_one(&stand.url, &running(&stand.url, "UPDATE task FORCE%fired_at%")).await;
        if is_hung_up {
            callers.shutdown().await;
        } else {
            until("more than a third of the lease is over", || async {
                began.elapsed() > Duration::from_millis(700)
            })
            .await;
        }
        holder.let_go().await;
        if let Some(answer) = callers.join_next().await {
            assert_eq!(answer.unwrap().unwrap_err().happened, Happened::No);
        }
        // Whatever became of it is committed before this.
        let made = stand.here.dispatch(long, NOW.plus(1)).await.unwrap();
        assert!(
            made.iter().all(|dispatched| matches!(dispatched, Dispatched::Made(_))),
            "{is_hung_up}: {made:?}"
        );
        assert!(stand.read().await.iter().all(|task| task.attempt == 1), "{is_hung_up}");
        balanced(&*stand.here).await;
    }
}

/// A separate look would wait for a row that another connection holds; here the move waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_success_is_written_without_a_look() {
    let stand = UnseenSetup::new(10).await;
    let leases = stand.hand_over().await;
    let held = format!("SELECT id FROM task WHERE id = {} FOR UPDATE", stand.tasks[3].place.id);
    let holder = Holder::of(&stand.url, &held).await;
    let (here, steps) = (Arc::clone(&stand.here), successes(&leases));
    let mut callers = JoinSet::new();
    callers.spawn(async move { here.apply(steps, NOW.plus(1)).await.unwrap() });
    until_one(&stand.url, &running(&stand.url, "UPDATE task FORCE%keep_until%")).await;
    holder.let_go().await;
    let applied = callers.join_next().await.unwrap().unwrap();
    assert!(applied.iter().all(|stepped| *stepped == Applied::Moved), "{applied:?}");
    balanced(&*stand.here).await;
}

/// A database that fails over to a copy may lose its last commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_whose_outcome_the_database_lost_is_found_when_it_ends() {
    // Few, and so many that they are looked for by the range in which they lie.
    for tasks in [10, 400] {
        let stand = UnseenSetup::new(tasks).await;
        let leases = stand.hand_over().await;
        stand.here.apply(successes(&leases), NOW.plus(1)).await.unwrap();
        let lost = leases[3].place.id;
        let lease = format!("lease_executor = 'x', lease_since = {}, lease_until = {}", NOW.0, LEASE_END.0);
        let back = format!("UPDATE task SET state = 4, keep_until = NULL, {lease} WHERE id = {lost}");
        sql(&stand.url, &back).await;
        let ended = stand.here.leases_ended(LEASE_END.plus(1), 100).await.unwrap();
        assert_eq!(ended.iter().map(|task| task.place.id).collect::<Vec<_>>(), [lost], "of {tasks}");
    }
}

async fn until_one(url: &str, count: &str) {
    until(count, || async { sql(url, count).await != "0" }).await;
}

/// More partitions than a statement has ranges for, right after one that has counted how near rows are to each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_in_more_partitions_than_ranges_are_all_moved() {
    let options = MysqlOptions { partitions: 70, ..MysqlOptions::default() };
    let store = MysqlStore::open(&fresh(1).await, options).await.unwrap();
    let grant = |task: &Task| Grant {
        place: task.place,
        fence: task.fence,
        fired_at: NOW,
        lease_until: LEASE_END,
        executor: "x".to_owned(),
        namespace: punctual_domain::name::Name::default_namespace(),
        has_begun: false,
        known: Some(facts(task)),
    };
    let in_one = (1..).filter(|number| partition_of(&Name::default_namespace(), *number, 70) == Partition(7));
    let (few, many): (Vec<i64>, Vec<i64>) = (in_one.take(20).collect(), (1_000_000..1_000_400).collect());
    for ids in [few, many] {
        let asks = ids.into_iter().map(|id| NewTask { execute_at: NOW.plus(id), ..ask(id) }).collect();
        let tasks: Vec<Task> = store
            .insert(asks, "test", NOW)
            .await
            .unwrap()
            .into_iter()
            .map(|inserted| inserted.task)
            .collect();
        let made = store.dispatch(tasks.iter().map(grant).collect(), NOW).await.unwrap();
        let leases: Vec<Assignment> = made.into_iter().map(|dispatched| dispatched.made().unwrap()).collect();
        let done = store.apply(successes(&leases), NOW).await.unwrap();
        assert!(done.iter().all(|stepped| *stepped == Applied::Moved), "{done:?}");
        let places: Vec<TaskRef> = tasks.iter().map(|task| task.place).collect();
        let rows = store.read(&places).await.unwrap();
        assert!(rows.into_iter().all(|task| task.unwrap().state == State::Succeeded));
    }
    balanced(&store).await;
    store.close().await;
}

/// With all that a task may bring along, due now and soon.
fn richly(id: i64) -> NewTask {
    NewTask {
        task_version: id % 3,
        priority: Priority::HIGHEST,
        payload: Content {
            is_json: false,
            is_outside: false,
            bytes: vec![0, 255, u8::try_from(id).unwrap()],
        },
        execute_at: NOW.plus(50 * id - 200),
        max_attempts: 4,
        timeout_ms: (id % 2 == 0).then_some(20_000),
        labels: [("team".to_owned(), "blue".to_owned())].into(),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        ..ask(id)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_known_is_handed_over_as_if_it_had_been_read() {
    for others in [false, true] {
        let stand = UnseenSetup::of((1..=20).map(if others { richly } else { ask })).await;
        // Not by anybody who keeps to the rules: who knows it does not see it, who reads does.
        sql(&stand.url, "UPDATE task SET kind = 'other'").await;
        let grants: Vec<Grant> = stand.grants("x");
        let made = stand.here.dispatch(grants.clone(), NOW).await.unwrap();
        let released = made.iter().map(|dispatched| {
            let Dispatched::Made(lease) = dispatched else { panic!("{dispatched:?}") };
            step(lease, Change::Release)
        });
        assert_eq!(stand.here.apply(released.collect(), NOW).await.unwrap(), [Applied::Moved; 20]);
        let again =
            grants.into_iter().map(|grant| Grant { fence: grant.fence + 1, known: None, ..grant }).collect();
        let read = stand.here.dispatch(again, NOW).await.unwrap();
        for (known, read) in made.into_iter().zip(read) {
            let (known, read) = (known.made().unwrap(), read.made().unwrap());
            assert_eq!((known.kind.as_str(), read.kind.as_str()), ("send", "other"));
            let as_known = Assignment { kind: known.kind.clone(), fence: known.fence, ..read };
            assert_eq!(as_known, known);
        }
        balanced(&*stand.here).await;
    }
}

/// The owner of its partition has claimed it elsewhere; who says so has it handed over as it is known, and where it is said to be
/// otherwise, or nothing is, it is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_claimed_elsewhere_is_handed_over_as_the_grant_says() {
    for (state, kind) in
        [(Some(State::Dispatching), "send"), (Some(State::Scheduled), "other"), (None, "other")]
    {
        let stand = UnseenSetup::new(20).await;
        let claim = |task: &Task| Step {
            place: task.place,
            fence: Some(task.fence),
            change: Change::Claim,
            note: Note::default(),
            fired_at: None,
            known: None,
        };
        let claims = stand.tasks.iter().map(claim).collect();
        assert_eq!(stand.elsewhere.apply(claims, NOW).await.unwrap(), [Applied::Moved; 20]);
        // As above: who knows it does not see it.
        sql(&stand.url, "UPDATE task SET kind = 'other'").await;
        let known = |facts: Option<Facts>| Some(Facts { state: state?, ..facts? });
        let grants =
            stand.grants("x").into_iter().map(|grant| Grant { known: known(grant.known.clone()), ..grant });
        for dispatched in stand.here.dispatch(grants.collect(), NOW).await.unwrap() {
            assert_eq!(dispatched.made().unwrap().kind.as_str(), kind, "{state:?}");
        }
        for task in stand.read().await {
            assert_eq!(
                (task.state, task.history.last().unwrap().from),
                (State::Dispatched, Some(State::Dispatching))
            );
        }
        balanced(&*stand.here).await;
    }
}

/// Known facts of a task do not count when its row differs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_changed_elsewhere_is_not_handed_over_as_it_was_inserted() {
    let stand = UnseenSetup::new(40).await;
    let tasks = &stand.tasks;
    let change = |task: &Task, change| Step {
        place: task.place,
        fence: Some(task.fence),
        change,
        note: Note { by: "y".to_owned(), ..Note::default() },
        fired_at: None,
        known: None,
    };
    let later =
        Change::Reschedule { execute_at: Some(NOW.plus(9)), priority: None, payload: None, queue: None };
    let keep_until = NOW.plus(1_000_000);
    let steps = vec![
        change(&tasks[3], Change::Claim),
        change(&tasks[4], Change::Cancel { keep_until }),
        change(&tasks[5], later),
    ];
    assert_eq!(stand.elsewhere.apply(steps, NOW).await.unwrap(), [Applied::Moved; 3]);
    let other = stand.elsewhere.dispatch(vec![stand.grants("y").remove(6)], NOW).await.unwrap();
    assert!(matches!(other[..], [Dispatched::Made(_)]));
    let payload = Content::json(r#"{"newer":true}"#);
    let replaced = NewTask { payload: payload.clone(), ..ask(8) };
    stand.elsewhere.insert(vec![replaced], "y", NOW).await.unwrap();
    let made = stand.here.dispatch(stand.grants("x"), NOW).await.unwrap();
    for (nth, dispatched) in made.iter().enumerate() {
        assert_eq!(
            matches!(dispatched, Dispatched::Made(_)),
            !(4..=7).contains(&nth),
            "{nth}: {dispatched:?}"
        );
    }
    let claimed = stand.read().await.remove(3);
    let last = claimed.history.last().unwrap();
    assert_eq!((last.event, last.from), (Some(Event::Dispatch), Some(State::Dispatching)));
    let again = Grant { fence: stand.tasks[7].fence + 1, known: None, ..stand.grants("x").remove(7) };
    let made = stand.here.dispatch(vec![again], NOW).await.unwrap().remove(0).made().unwrap();
    assert_eq!(made.payload, payload);
    balanced(&*stand.here).await;
}
