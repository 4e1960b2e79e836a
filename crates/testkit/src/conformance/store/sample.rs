//! Tasks to play with, and the shortest way to each call of the contract. Holds no expectation of its own beyond
//! that a call does not fail.

use punctual_contract::{
    Ask, Store,
    hot::HotEntry,
    store::{Applied, Assignment, Beat, Change, Extended, Facts, Grant, Inserted, Scan, Step},
};
use punctual_domain::{
    history::Note,
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    task::{Content, NewTask, Task, TaskResult},
    time::Millis,
};
use std::sync::Arc;

pub(super) const NOW: Millis = Millis(1_700_000_000_000);
/// Well after `NOW`, well before a lease ends.
pub(super) const LATER: Millis = Millis(NOW.0 + 5_000);
pub(super) const LEASE_END: Millis = Millis(NOW.0 + 60_000);
/// The time of a next attempt.
pub(super) const NEXT: Millis = Millis(NOW.0 + 120_000);
pub(super) const KEEP: Millis = Millis(NOW.0 + 86_400_000);
pub(super) const CALLER: &str = "caller-1";
pub(super) const ENGINE: &str = "engine-1";
pub(super) const EXECUTOR: &str = "executor-1";

pub(super) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(super) fn queue(text: &str) -> QueueKey {
    QueueKey { namespace: Name::default_namespace(), queue: name(text) }
}

/// Due at `NOW`.
pub(super) fn ask(task_id: i64) -> NewTask {
    let ask = NewTask::new(queue("mail"), name("send"), NOW);
    NewTask { task_id: Some(task_id), payload: Content::json("{}"), ..ask }
}

pub(super) fn version(task_id: i64, task_version: i64) -> NewTask {
    NewTask { task_version, ..ask(task_id) }
}

/// A task with every optional part set.
pub(super) fn full(task_id: i64) -> NewTask {
    NewTask {
        task_version: 3,
        priority: punctual_domain::task::Priority::HIGHEST,
        payload: Content::json(r#"{"to":"a@b"}"#),
        max_attempts: 7,
        retry: punctual_domain::retry::RetryPolicy::List { delays_ms: vec![5, 10] },
        timeout_ms: Some(30_000),
        deadline_ms: Some(600_000),
        labels: [("team".to_owned(), "blue".to_owned()), ("env".to_owned(), "test".to_owned())].into(),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        demands: punctual_domain::task::Demands {
            concurrency_key: Some("customer 7".to_owned()),
            handler_versions: Some(">=2, <3".to_owned()),
        },
        ..ask(task_id)
    }
}

pub(super) async fn insert(store: &dyn Store, ask: NewTask) -> Inserted {
    insert_at(store, ask, NOW).await
}

pub(super) async fn insert_at(store: &dyn Store, ask: NewTask, now: Millis) -> Inserted {
    let mut inserted = store.insert(vec![ask], CALLER, now).await.unwrap();
    assert_eq!(inserted.len(), 1);
    inserted.remove(0)
}

pub(super) async fn find(store: &dyn Store, place: TaskRef) -> Option<Task> {
    let mut found = store.read(&[place]).await.unwrap();
    assert_eq!(found.len(), 1);
    found.remove(0)
}

pub(super) async fn read(store: &dyn Store, place: TaskRef) -> Task {
    find(store, place).await.unwrap()
}

pub(super) fn note() -> Note {
    Note { by: ENGINE.to_owned(), ..Note::default() }
}

pub(super) fn step(task: &Task, change: Change) -> Step {
    Step { place: task.place, fence: Some(task.fence), change, note: note(), fired_at: None, known: None }
}

pub(super) async fn apply(store: &dyn Store, step: Step, now: Millis) -> Applied {
    let applied = store.apply(vec![step], now).await.unwrap();
    assert_eq!(applied.len(), 1);
    applied[0].applied
}

/// Makes a move that must succeed, and reads the task afterwards.
pub(super) async fn moved(store: &dyn Store, task: &Task, change: Change, now: Millis) -> Task {
    let wanted = step(task, change);
    assert_eq!(apply(store, wanted.clone(), now).await, Applied::Moved, "{wanted:?} of {task:?}");
    read(store, task.place).await
}

pub(super) fn grant(task: &Task, fired_at: Millis) -> Grant {
    Grant {
        place: task.place,
        fence: task.fence,
        fired_at,
        lease_until: LEASE_END,
        executor: EXECUTOR.to_owned(),
        namespace: punctual_domain::name::Name::default_namespace(),
        has_begun: false,
        known: None,
    }
}

/// The known facts of a task, from its current state.
///
/// # Panics
/// When the payload is too long to be known.
#[must_use]
pub fn facts(task: &Task) -> Facts {
    Facts {
        state: task.state,
        place: task.place,
        queue: Arc::new(task.ask.queue.clone()),
        task_id: task.task_id(),
        task_version: task.ask.task_version,
        priority: task.ask.priority,
        attempt: task.attempt,
        kind: task.ask.kind.clone(),
        ask: Arc::new(Ask::of(&task.ask).unwrap()),
    }
}

pub(super) async fn dispatch(store: &dyn Store, grant: Grant, now: Millis) -> Option<Assignment> {
    let mut assigned = store.dispatch(vec![grant], now).await.unwrap();
    assert_eq!(assigned.len(), 1);
    assigned.remove(0).made()
}

pub(super) fn beat(task: &Task, lease_until: Millis) -> Beat {
    Beat {
        place: task.place,
        fence: task.fence,
        lease_until,
        progress: None,
        log: None,
        executor: EXECUTOR.to_owned(),
        handed_over_at: None,
    }
}

pub(super) async fn extend(store: &dyn Store, beat: Beat, now: Millis) -> Extended {
    let extended = store.extend(vec![beat], now).await.unwrap();
    assert_eq!(extended.len(), 1);
    extended[0]
}

/// Everything that a scan finds in a partition.
pub(super) async fn scan(store: &dyn Store, partition: Partition, until: Millis) -> Vec<HotEntry> {
    store.scan(Scan { partition, until, after: None, limit: 10_000 }).await.unwrap()
}

pub(super) fn result(content: Content) -> TaskResult {
    TaskResult { status_code: -7, status_msg: "sent".to_owned(), content: Some(content) }
}

/// A place where nothing is.
pub(super) fn nowhere() -> TaskRef {
    TaskRef { partition: Partition(0), due_at: NOW, id: 987_654_321_987 }
}
