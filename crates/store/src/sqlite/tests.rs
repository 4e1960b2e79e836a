//! Tests of the store beyond the conformance suite: how it opens, groups, isolates, plans and counts. `files` has
//! everything with a file under it; `plans` the scripts themselves; `account` books against rows; `ledger` what a count finds.

mod account;
mod chunks;
mod files;
mod ledger;
mod plans;
mod tasks;

use super::{Options, SqliteStore};
use punctual_contract::{
    Store as _,
    store::{Applied, Change, Grant, Step},
};
use punctual_domain::{
    history::Note,
    name::{Name, QueueKey},
    task::{NewTask, Task},
    time::Millis,
};
use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

const NOW: Millis = Millis(1_900_000_000_000);
const LATER: Millis = Millis(1_900_000_100_000);

/// Runs what never waits: a store in memory needs no runtime.
fn now<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("a store in memory waited"),
    }
}

fn memory() -> SqliteStore {
    SqliteStore::in_memory(&Options::default()).unwrap()
}

fn ask(queue: &str) -> NewTask {
    let queue = QueueKey { namespace: Name::default_namespace(), queue: Name::new(queue).unwrap() };
    NewTask::new(queue, Name::new("greet").unwrap(), NOW)
}

fn numbered(task_id: i64, task_version: i64) -> NewTask {
    NewTask { task_id: Some(task_id), task_version, ..ask("mail") }
}

async fn one(store: &SqliteStore, ask: NewTask) -> Task {
    store.insert(vec![ask], "test", NOW).await.unwrap().remove(0).task
}

async fn read(store: &SqliteStore, task: &Task) -> Option<Task> {
    store.read(&[task.place]).await.unwrap().remove(0)
}

async fn go(store: &SqliteStore, task: &Task, change: Change) -> Applied {
    let note = Note { by: "test".to_owned(), ..Note::default() };
    let step = Step { place: task.place, fence: None, change, note, fired_at: None, known: None };
    store.apply(vec![step], NOW).await.unwrap().remove(0).applied
}

fn grant(task: &Task, fence: i64) -> Grant {
    Grant {
        place: task.place,
        fence,
        fired_at: NOW,
        lease_until: LATER,
        executor: "executor".to_owned(),
        namespace: punctual_domain::name::Name::default_namespace(),
        has_begun: false,
        known: None,
    }
}
