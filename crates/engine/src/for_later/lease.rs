//! A lease as a JSON record in the journal: which executor has which attempt while its database is
//! unavailable. A durable format: later releases must read it. Must not record how the lease ended.

use punctual_contract::{
    hot::{Details, HotEntry},
    journal::{AttemptKey, NewRecord},
    store::{Assignment, Grant},
};
use punctual_domain::{
    name::{Name, QueueKey},
    place::TaskRef,
    state::State,
    task::{Demands, Priority, Task},
    time::Millis,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An attempt that an executor has, and that the store does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JournalledLease {
    pub(crate) place: TaskRef,
    /// The due time of the task's row, which locates it.
    pub(crate) due_at: Millis,
    /// The fence of the lease.
    pub(crate) fence: i64,
    pub(crate) attempt: u32,
    pub(crate) queue: Arc<QueueKey>,
    pub(crate) task_id: i64,
    pub(crate) task_version: i64,
    pub(crate) fired_at: Millis,
    pub(crate) executor: String,
    pub(crate) until: Millis,
    /// The latest end of the lease: no heartbeat extends it further.
    pub(crate) longest: Millis,
    /// The concurrency key of the limits that the lease counts for.
    pub(crate) concurrency_key: Option<String>,
}

/// A lease with the number of its record.
pub(super) type WaitingLease = (u64, JournalledLease);

#[derive(Serialize, Deserialize)]
struct LeaseRecord {
    r#ref: String,
    due_at_ms: i64,
    fence: i64,
    attempt: u32,
    namespace: String,
    queue: String,
    task_id: i64,
    task_version: i64,
    fired_at_ms: i64,
    executor: String,
    until_ms: i64,
    longest_ms: i64,
    /// Present since 0.3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    concurrency_key: Option<String>,
}

/// The attempt's state in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttemptStatus {
    /// The row of the task is unchanged: the lease can be made.
    Open,
    /// The lease, until then.
    Made(Millis),
    /// It has ended, or a later one has.
    Ended,
    /// The task was cancelled or changed, or is with another executor.
    Refused,
}

impl JournalledLease {
    pub(crate) fn of(lease: &Assignment, demands: &Demands, executor: &str, longest: Millis) -> Self {
        Self {
            place: lease.place,
            due_at: lease.due_at,
            fence: lease.fence,
            attempt: lease.attempt,
            queue: Arc::new(lease.queue.clone()),
            task_id: lease.task_id,
            task_version: lease.task_version,
            fired_at: lease.fired_at,
            executor: executor.to_owned(),
            until: lease.lease_until,
            longest,
            concurrency_key: demands.concurrency_key.clone(),
        }
    }

    /// The key of the attempt's outcome.
    pub(crate) const fn key(&self) -> AttemptKey {
        AttemptKey { task: self.place.id, fence: self.fence }
    }

    /// Returns `None` if the lease cannot be encoded.
    pub(crate) fn record(&self) -> Option<NewRecord> {
        let wire = LeaseRecord {
            r#ref: self.place.to_string(),
            due_at_ms: self.due_at.0,
            fence: self.fence,
            attempt: self.attempt,
            namespace: self.queue.namespace.to_string(),
            queue: self.queue.queue.to_string(),
            task_id: self.task_id,
            task_version: self.task_version,
            fired_at_ms: self.fired_at.0,
            executor: self.executor.clone(),
            until_ms: self.until.0,
            longest_ms: self.longest.0,
            concurrency_key: self.concurrency_key.clone(),
        };
        // Each hand-over of an attempt gets its own digest, so that none is taken for a repetition of
        // another.
        let digest = fastrand::u64(..);
        Some(NewRecord { key: self.key().of_hand_over(), digest, body: serde_json::to_vec(&wire).ok()? })
    }

    /// Returns `None` if a later release wrote the body, or it is not a record.
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        let wire: LeaseRecord = serde_json::from_slice(body).ok()?;
        let (namespace, queue) = (Name::new(&wire.namespace).ok()?, Name::new(&wire.queue).ok()?);
        Some(Self {
            place: wire.r#ref.parse().ok()?,
            due_at: Millis(wire.due_at_ms),
            fence: wire.fence,
            attempt: wire.attempt,
            queue: Arc::new(QueueKey { namespace, queue }),
            task_id: wire.task_id,
            task_version: wire.task_version,
            fired_at: Millis(wire.fired_at_ms),
            executor: wire.executor,
            until: Millis(wire.until_ms),
            longest: Millis(wire.longest_ms),
            concurrency_key: wire.concurrency_key,
        })
    }

    /// The entry of the task, with the fence of the lease.
    pub(crate) fn entry(&self) -> HotEntry {
        let demands = Demands { concurrency_key: self.concurrency_key.clone(), ..Demands::default() };
        HotEntry {
            place: self.place,
            due_at: self.due_at,
            fence: self.fence,
            queue: Arc::clone(&self.queue),
            priority: Priority::default(),
            task_id: self.task_id,
            task_version: self.task_version,
            deadline_at: Millis::MAX,
            state: State::Dispatched,
            fired_at: self.fired_at,
            attempt: self.attempt,
            details: Arc::new(Details { demands, ..Details::default() }),
        }
    }

    /// The grant that the store is now asked for. Without known facts, the store must read the row: it may
    /// have changed.
    pub(super) fn grant(&self, until: Millis) -> Grant {
        Grant {
            place: TaskRef { due_at: self.due_at, ..self.place },
            fence: self.fence - 1,
            fired_at: self.fired_at,
            lease_until: until,
            executor: self.executor.clone(),
            namespace: self.queue.namespace.clone(),
            has_begun: true,
            known: None,
        }
    }

    /// Derives the status of the attempt from its row. The lease may have been made by a call whose answer was lost:
    /// the fence and the executor show that.
    pub(super) fn status_of(&self, task: Option<&Task>) -> AttemptStatus {
        let Some(task) = task else { return AttemptStatus::Refused };
        match &task.lease {
            _ if task.fence > self.fence => AttemptStatus::Ended,
            Some(lease) if task.fence == self.fence && task.state.is_in_flight() => {
                if lease.executor == self.executor {
                    AttemptStatus::Made(lease.until)
                } else {
                    AttemptStatus::Refused
                }
            }
            _ if task.fence == self.fence => AttemptStatus::Ended,
            _ if task.fence == self.fence - 1 && task.state.is_pending() => AttemptStatus::Open,
            _ => AttemptStatus::Refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{live::model::lease_of, pipeline::drain::tests::entry};

    fn lease() -> JournalledLease {
        let assignment = Assignment { lease_until: Millis(90), ..lease_of(&entry(7, 5)) };
        JournalledLease::of(&assignment, &Demands::default(), "ann", Millis(500))
    }

    #[test]
    fn the_key_whose_limits_it_counts_for_is_written_where_there_is_one() {
        let keyed = JournalledLease { concurrency_key: Some("k".to_owned()), ..lease() };
        assert_eq!(JournalledLease::read(&keyed.record().unwrap().body), Some(keyed.clone()));
        assert_eq!(keyed.entry().demands().concurrency_key.as_deref(), Some("k"));
    }

    #[test]
    fn what_is_written_is_read_again_and_its_key_is_that_of_no_outcome() {
        let lease = lease();
        let record = lease.record().unwrap();
        assert_eq!(JournalledLease::read(&record.body), Some(lease.clone()));
        assert_eq!(record.key, lease.key().of_hand_over());
        assert!(record.key.is_of_hand_over() && !lease.key().is_of_hand_over());
        assert_eq!(record.key.of_hand_over(), lease.key());
        for len in 0..record.body.len() {
            assert_eq!(JournalledLease::read(&record.body[..len]), None, "{len}");
        }
    }

    #[test]
    fn the_bytes_are_pinned_because_files_were_written_so() {
        let place = lease().place;
        let json = format!(
            r#"{{"ref":"{place}","due_at_ms":5,"fence":2,"attempt":1,"namespace":"default","queue":"q","task_id":7,"task_version":0,"fired_at_ms":0,"executor":"ann","until_ms":90,"longest_ms":500}}"#
        );
        let written = String::from_utf8(lease().record().unwrap().body).unwrap();
        let said = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        let mut wanted = said(&json);
        for field in ["queue", "namespace", "task_id"] {
            wanted[field] = said(&written)[field].clone();
        }
        assert_eq!(said(&written), wanted);
    }
}
