//! Callers' facts about rows: a move with facts equals the move without them. A row that differs from its
//! facts is read, together with all others of the call.

use super::sample::{
    EXECUTOR, KEEP, LATER, LEASE_END, NEXT, NOW, apply, beat, dispatch, extend, facts, full, grant, insert,
    moved, queue, read, scan, step, version,
};
use punctual_contract::{
    Ask, Store,
    settings::SaveSetting,
    store::{Applied, Assignment, Change, Dispatched, Extended, Facts, Grant, LeaseFacts, Step},
};
use punctual_domain::{
    history::Note,
    name::Name,
    settings::{Pause, QueueSettings, Scope, Setting},
    state::{Event, State},
    task::{Content, NewTask, Task, TaskResult},
    time::Millis,
};
use std::sync::Arc;
use tokio::task::JoinSet;

/// One row, few, and many: stores may name them in other ways.
const COUNTS: [i64; 4] = [1, 5, 40, 300];

fn knowing(task: &Task, fired_at: Millis) -> Grant {
    Grant { known: Some(facts(task)), ..grant(task, fired_at) }
}

fn success(lease: &Assignment, known: Option<LeaseFacts>) -> Step {
    Step {
        place: lease.place,
        fence: Some(lease.fence),
        change: Change::Succeed { result: TaskResult::default(), keep_until: KEEP },
        note: Note { by: EXECUTOR.to_owned(), ..Note::default() },
        fired_at: None,
        known,
    }
}

fn known_success(lease: &Assignment) -> Step {
    success(lease, Some(LeaseFacts::of(lease, &Arc::new(lease.queue.clone()))))
}

async fn inserted(store: &dyn Store, asks: impl Iterator<Item = NewTask>) -> Vec<Task> {
    let inserted = store.insert(asks.collect(), "test", NOW).await.unwrap();
    inserted.into_iter().map(|inserted| inserted.task).collect()
}

async fn leased(store: &dyn Store, grants: Vec<Grant>) -> Vec<Assignment> {
    let made = store.dispatch(grants, NOW).await.unwrap();
    made.into_iter().map(|dispatched| dispatched.made().unwrap()).collect()
}

/// The task without the fields that identify it.
fn as_any(store_task: Task, ask: &NewTask) -> Task {
    let task_id = ask.task_id;
    let place = punctual_domain::place::TaskRef {
        partition: punctual_domain::place::Partition(0),
        due_at: NOW,
        id: 0,
    };
    Task { place, ask: NewTask { task_id, ..store_task.ask }, ..store_task }
}

/// Covers each state that a task may leave, and batches of different sizes.
pub async fn a_hand_over_with_facts_is_one_without(store: Arc<dyn Store>) {
    for (round, count) in (0..).zip(COUNTS) {
        for (turn, is_claimed) in [(0, false), (1, true)] {
            let first = 10_000 * round + 1_000 * turn;
            let mut tasks = inserted(&*store, (first..first + 2 * count).map(full)).await;
            if is_claimed {
                let claims = tasks.iter().map(|task| step(task, Change::Claim)).collect();
                store.apply(claims, NOW).await.unwrap();
                let places: Vec<_> = tasks.iter().map(|task| task.place).collect();
                tasks = store.read(&places).await.unwrap().into_iter().flatten().collect();
            }
            let half = tasks.len() / 2;
            let (known, looked_at) = tasks.split_at(half);
            let with = leased(&*store, known.iter().map(|task| knowing(task, NOW.plus(3))).collect()).await;
            let without =
                leased(&*store, looked_at.iter().map(|task| grant(task, NOW.plus(3))).collect()).await;
            for (one, other) in with.iter().zip(&without) {
                let (place, task_id) = (other.place, other.task_id);
                assert_eq!(Assignment { place, task_id, ..one.clone() }, *other, "{count} {is_claimed}");
                let rows = (read(&*store, one.place).await, read(&*store, other.place).await);
                let ask = &tasks[0].ask;
                assert_eq!(as_any(rows.0, ask), as_any(rows.1, ask), "{count} {is_claimed}");
            }
        }
    }
}

/// Covers a next attempt, whose row is not where its reference states.
pub async fn a_next_attempt_is_handed_over_with_facts(store: Arc<dyn Store>) {
    let task = insert(&*store, full(1)).await.task;
    let first = dispatch(&*store, knowing(&task, NOW), NOW).await.unwrap();
    let running = read(&*store, first.place).await;
    let retried = moved(&*store, &running, Change::Retry { due_at: NEXT, result: None }, NOW).await;
    let row = punctual_domain::place::TaskRef { due_at: retried.due_at, ..retried.place };
    let second = dispatch(&*store, Grant { place: row, ..knowing(&retried, NEXT) }, NEXT).await.unwrap();
    let wanted = (2, first.place, NEXT, retried.fence + 1);
    assert_eq!((second.attempt, second.place, second.due_at, second.fence), wanted);
    assert_eq!(apply(&*store, known_success(&second), NEXT).await, Applied::Moved);
    let last = read(&*store, task.place).await.history.pop().unwrap();
    assert_eq!((last.event, last.attempt), (Some(Event::Succeed), 2));
}

/// A task that a scan finds needs no read before it is handed over, if it is short.
pub async fn what_is_scanned_brings_what_a_hand_over_needs(store: Arc<dyn Store>) {
    let long = |id, bytes| {
        let mut task = full(id);
        task.payload = Content::binary(vec![7; bytes]);
        task
    };
    let mut plain = version(3, 0);
    plain.labels.clear();
    let new = vec![
        full(1),
        long(2, Ask::PAYLOAD_LEN_MAX),
        plain,
        long(4, Ask::PAYLOAD_LEN_MAX + 1),
        long(5, 70_000),
    ];
    let tasks = inserted(&*store, new.into_iter()).await;
    for task in &tasks {
        let found = scan(&*store, task.place.partition, Millis::MAX).await;
        let entry = found.iter().find(|entry| entry.place == task.place).unwrap();
        assert_eq!(entry.kind(), Some(&task.ask.kind));
        let is_short = task.ask.payload.bytes.len() <= Ask::PAYLOAD_LEN_MAX;
        assert_eq!(Facts::of(entry), is_short.then(|| facts(task)));
    }
}

/// Wrong facts that no move can detect are used as given: nothing was read.
pub async fn what_is_known_is_not_looked_at(store: Arc<dyn Store>) {
    for (round, count) in (0..).zip(COUNTS) {
        let first = 1_000 * round;
        let tasks = inserted(&*store, (first..first + count).map(|id| version(id, 0))).await;
        let said = |task: &Task| {
            let kind = Name::new("said").unwrap();
            Grant { known: Some(Facts { kind, ..facts(task) }), ..grant(task, NOW) }
        };
        for lease in leased(&*store, tasks.iter().map(said).collect()).await {
            assert_eq!(lease.kind.as_str(), "said", "{count}");
            let known = LeaseFacts::of(&lease, &Arc::new(lease.queue.clone()));
            let known = LeaseFacts { leased_since: NOW.plus(-77), ..known };
            let stepped = store.apply(vec![success(&lease, Some(known))], LATER).await.unwrap().remove(0);
            assert_eq!(stepped.attempt.unwrap().leased_since, NOW.plus(-77), "{count}");
        }
    }
}

/// Covers rows that differ in all fields that they may, and so are written in another way.
pub async fn rows_that_are_not_alike_are_handed_over_with_facts(store: Arc<dyn Store>) {
    let tasks = inserted(&*store, (0..60).map(full)).await;
    let claim = |task: &Task| step(task, Change::Claim);
    store.apply(tasks.iter().take(30).map(claim).collect(), NOW).await.unwrap();
    // Each is another executor's, and half of the facts are out of date.
    let grants = tasks.iter().zip(0..).map(|(task, nth)| {
        let lease_until = LEASE_END.plus(-nth);
        Grant { executor: format!("executor-{nth}"), lease_until, ..knowing(task, NOW) }
    });
    let leases = leased(&*store, grants.collect()).await;
    for (nth, lease) in leases.iter().enumerate() {
        let task = read(&*store, lease.place).await;
        let from = if nth < 30 { State::Dispatching } else { State::Scheduled };
        let last = task.history.last().unwrap();
        assert_eq!((last.event, last.from), (Some(Event::Dispatch), Some(from)), "{nth}");
        assert_eq!((task.attempt, task.lease.unwrap().executor), (1, format!("executor-{nth}")));
    }
    let result = |nth: i64| {
        let content = match nth % 4 {
            0 => None,
            1 => Some(Content::json(format!("{{\"nth\":{nth},\"said\":\"it's \u{1F980} \\\\\"}}").as_str())),
            2 => {
                Some(Content { bytes: vec![0, 255, b'\'', u8::try_from(nth).unwrap()], ..Content::default() })
            }
            _ => Some(Content::json(format!("\"{}\"", "x".repeat(900)).as_str())),
        };
        TaskResult { status_code: nth, status_msg: format!("{nth}'s \u{1F980}\n"), content }
    };
    let successes = leases.iter().zip(0..).map(|(lease, nth)| {
        let result = result(nth);
        let change = Change::Succeed { result, keep_until: KEEP.plus(nth) };
        Step { change, ..known_success(lease) }
    });
    let applied = store.apply(successes.collect(), LATER).await.unwrap();
    assert!(applied.iter().all(|stepped| *stepped == Applied::Moved));
    for (nth, lease) in (0..).zip(&leases) {
        let task = read(&*store, lease.place).await;
        assert_eq!((task.result.unwrap(), task.keep_until), (result(nth), Some(KEEP.plus(nth))));
    }
}

/// Meanwhile some tasks were claimed, cancelled, changed, handed over and replaced.
pub async fn tasks_that_are_otherwise_are_looked_at(store: Arc<dyn Store>) {
    for (round, count) in (0..).zip([8, 40, 300]) {
        let first = 1_000 * round;
        let tasks = inserted(&*store, (first..first + count).map(|id| version(id, 0))).await;
        let later =
            Change::Reschedule { execute_at: Some(NOW.plus(9)), priority: None, payload: None, queue: None };
        let changes = [Change::Claim, Change::Cancel { keep_until: KEEP }, later];
        for (task, change) in tasks.iter().skip(2).zip(changes) {
            moved(&*store, task, change, NOW).await;
        }
        leased(&*store, vec![grant(&tasks[5], NOW)]).await;
        let payload = Content::json(r#"{"newer":true}"#);
        let replaced = NewTask { payload: payload.clone(), ..version(first + 6, 0) };
        insert(&*store, replaced).await;
        let grants = tasks.iter().map(|task| knowing(task, NOW)).collect();
        let dispatched = store.dispatch(grants, NOW).await.unwrap();
        for (nth, (dispatched, task)) in dispatched.iter().zip(&tasks).enumerate() {
            let is_made = matches!(dispatched, Dispatched::Made(_));
            assert_eq!(is_made, !(3..=6).contains(&nth), "{nth} of {count}: {dispatched:?}");
            let row = read(&*store, task.place).await;
            let wanted = if (3..=6).contains(&nth) && nth != 5 { 0 } else { 1 };
            assert_eq!(row.attempt, wanted, "{nth} of {count}");
        }
        let claimed = read(&*store, tasks[2].place).await;
        assert_eq!(claimed.history.last().unwrap().from, Some(State::Dispatching));
        let newer = read(&*store, tasks[6].place).await;
        assert_eq!(dispatch(&*store, knowing(&newer, NOW), NOW).await.unwrap().payload, payload);
    }
}

pub async fn facts_of_an_old_fence_hand_nothing_over(store: Arc<dyn Store>) {
    let task = insert(&*store, version(1, 0)).await.task;
    let later = Change::Reschedule { execute_at: None, priority: None, payload: None, queue: None };
    let changed = moved(&*store, &task, later, NOW).await;
    assert_eq!(dispatch(&*store, knowing(&task, NOW), NOW).await, None);
    assert_eq!(read(&*store, task.place).await, changed);
    let finished = Facts { state: State::Cancelled, ..facts(&changed) };
    let odd = Grant { known: Some(finished), ..grant(&changed, NOW) };
    assert!(dispatch(&*store, odd, NOW).await.is_some(), "facts that say nothing of use are as none");
}

pub async fn of_many_who_know_one_task_one_gets_it(store: Arc<dyn Store>) {
    for id in 0..10 {
        let task = insert(&*store, version(id, 0)).await.task;
        let mut engines = JoinSet::new();
        for number in 0..16 {
            let executor = format!("executor-{number}");
            let (store, grant) = (Arc::clone(&store), Grant { executor, ..knowing(&task, NOW) });
            engines.spawn(async move { (grant.executor.clone(), dispatch(&*store, grant, NOW).await) });
        }
        let won: Vec<_> = engines.join_all().await.into_iter().filter(|(_, made)| made.is_some()).collect();
        assert_eq!(won.len(), 1);
        let row = read(&*store, task.place).await;
        assert_eq!((row.attempt, &row.lease.unwrap().executor), (1, &won[0].0));
    }
}

pub async fn a_paused_queue_hands_nothing_over_to_who_knows_its_tasks(store: Arc<dyn Store>) {
    let task = insert(&*store, version(1, 0)).await.task;
    let pause = Some(Pause { at: NOW, by: "test".to_owned(), reason: None });
    let save = |pause| SaveSetting {
        scope: Scope::Queue(queue("mail")),
        setting: Some(Setting::Queue(Box::new(QueueSettings { pause, ..QueueSettings::default() }))),
        expected: None,
        by: "test".to_owned(),
    };
    store.save_setting(save(pause), NOW).await.unwrap();
    let refused = store.dispatch(vec![knowing(&task, NOW)], NOW).await.unwrap();
    assert_eq!(refused, [Dispatched::Paused]);
    assert_eq!(read(&*store, task.place).await, task);
    store.save_setting(save(None), NOW).await.unwrap();
    assert!(dispatch(&*store, knowing(&task, NOW), NOW).await.is_some(), "the grant is as good as it was");
}

/// The success happens once, whatever is known.
pub async fn a_success_with_facts_is_one_without(store: Arc<dyn Store>) {
    for (round, count) in (0..).zip(COUNTS) {
        let first = 1_000 * round;
        let tasks = inserted(&*store, (first..first + 2 * count).map(full)).await;
        let leases = leased(&*store, tasks.iter().map(|task| knowing(task, NOW)).collect()).await;
        let (known, looked_at) = leases.split_at(leases.len() / 2);
        let with = store.apply(known.iter().map(known_success).collect(), LATER).await.unwrap();
        let without = looked_at.iter().map(|lease| success(lease, None)).collect();
        let without = store.apply(without, LATER).await.unwrap();
        assert_eq!(with, without, "{count}");
        assert!(with.iter().all(|stepped| *stepped == Applied::Moved), "{count}");
        let ask = &tasks[0].ask;
        for (one, other) in known.iter().zip(looked_at) {
            let rows = (read(&*store, one.place).await, read(&*store, other.place).await);
            assert_eq!(as_any(rows.0, ask), as_any(rows.1, ask), "{count}");
        }
        let again = store.apply(leases.iter().map(known_success).collect(), LATER).await.unwrap();
        assert!(again.iter().all(|stepped| *stepped == Applied::Lost), "{count}: once only");
    }
}

/// Meanwhile one has begun, one is tried again, one was given back, and one has another attempt.
pub async fn attempts_that_are_otherwise_are_looked_at(store: Arc<dyn Store>) {
    for (round, count) in (0..).zip([6, 40, 300]) {
        let first = 1_000 * round;
        let tasks = inserted(&*store, (first..first + count).map(|id| version(id, 0))).await;
        let leases = leased(&*store, tasks.iter().map(|task| knowing(task, NOW)).collect()).await;
        let begun = read(&*store, tasks[1].place).await;
        assert!(matches!(extend(&*store, beat(&begun, LEASE_END), NOW).await, Extended::Held { .. }));
        let retry = || Change::Retry { due_at: NOW.plus(50), result: None };
        for (nth, change) in [(2, retry()), (3, Change::Release), (4, retry())] {
            let row = read(&*store, tasks[nth].place).await;
            moved(&*store, &row, change, NOW).await;
        }
        let waiting = read(&*store, tasks[4].place).await;
        let other = dispatch(&*store, knowing(&waiting, NOW.plus(60)), NOW.plus(60)).await.unwrap();
        let applied = store.apply(leases.iter().map(known_success).collect(), LATER).await.unwrap();
        for (nth, (stepped, task)) in applied.iter().zip(&tasks).enumerate() {
            let row = read(&*store, task.place).await;
            let (wanted, state) = match nth {
                2 => (Applied::Lost, State::Retrying),
                3 => (Applied::Lost, State::Ready),
                4 => (Applied::Lost, State::Dispatched),
                _ => (Applied::Moved, State::Succeeded),
            };
            assert_eq!((stepped.applied, row.state), (wanted, state), "{nth} of {count}");
        }
        let last = read(&*store, tasks[1].place).await.history.pop().unwrap();
        assert_eq!((last.event, last.from), (Some(Event::Succeed), Some(State::Running)));
        assert_eq!(apply(&*store, known_success(&other), LATER).await, Applied::Moved);
    }
}
