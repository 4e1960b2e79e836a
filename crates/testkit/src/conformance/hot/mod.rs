//! The requirements on every hot set. In reading order: due entries, drained or withdrawn ones; and `model`,
//! which plays random steps against a plain model of both. Must not require more than the contract promises.

mod cases;
pub mod drain;
pub mod due;

pub mod model;

use punctual_contract::{
    Hot,
    hot::{Details, HotEntry},
    ownership::Tenure,
};
use punctual_domain::{
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    state::State,
    task::Priority,
    time::Millis,
};
use std::sync::Arc;

/// The cases use partitions below this.
pub const PARTITIONS: u16 = 8;

/// An entry in partition 0, of a task with the same id, in queue "mail".
///
/// # Panics
/// Never.
#[must_use]
pub fn entry(id: i64, due_at: i64, fence: i64) -> HotEntry {
    HotEntry {
        place: TaskRef { partition: Partition(0), due_at: Millis(due_at), id },
        due_at: Millis(due_at),
        fence,
        queue: Arc::new(queue("mail")),
        priority: Priority::default(),
        task_id: id,
        task_version: 0,
        deadline_at: Millis::MAX,
        state: State::Scheduled,
        fired_at: Millis::ZERO,
        attempt: 0,
        details: Arc::new(Details {
            kind: Some(Name::new("k").expect("a plain name")),
            ..Details::default()
        }),
    }
}

fn queue(name: &str) -> QueueKey {
    QueueKey { namespace: Name::default_namespace(), queue: Name::new(name).unwrap() }
}

fn in_partition(partition: u16, entry: HotEntry) -> HotEntry {
    let place = TaskRef { partition: Partition(partition), ..entry.place };
    HotEntry { place, ..entry }
}

fn ids(entries: &[HotEntry]) -> Vec<i64> {
    entries.iter().map(|entry| entry.place.id).collect()
}

/// Drains one partition, by an engine that shares with none.
async fn drain_in(hot: &dyn Hot, partition: u16, until: i64, limit: usize) -> Vec<HotEntry> {
    let mut answers = hot.drain(&[Tenure::sole(Partition(partition))], Millis(until), limit).await;
    assert_eq!(answers.len(), 1, "an answer a tenure");
    answers.remove(0).unwrap()
}

async fn drain_until(hot: &dyn Hot, until: i64, limit: usize) -> Vec<HotEntry> {
    drain_in(hot, 0, until, limit).await
}

async fn drain_all(hot: &dyn Hot) -> Vec<HotEntry> {
    drain_until(hot, Millis::MAX.0, 1_000).await
}

/// The number of due entries.
async fn due_count(hot: &dyn Hot) -> usize {
    hot.count_due().await.unwrap()
}
