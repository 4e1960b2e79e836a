//! The overdue tasks that the checks of all partitions have found, and the positions of the checks. Checks nothing
//! itself.

use parking_lot::Mutex;
use punctual_contract::store::Overdue;
use punctual_domain::{name::QueueKey, place::Partition, time::Millis};
use std::collections::BTreeMap;

pub(super) type Key = (Millis, i64);

/// The oldest task of a partition that should have fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverdueTask {
    pub partition: Partition,
    /// The number of the database that has the partition.
    pub database: usize,
    pub due_at: Millis,
    pub id: i64,
}

/// A partition, its database, and its oldest overdue task, or `None` if it has none.
pub type OverduePartition = (Partition, usize, Option<OverdueTask>);

#[derive(Debug, Default)]
pub(crate) struct OverdueWatch {
    pub(super) partitions: Mutex<BTreeMap<Partition, Watched>>,
    /// The time of the last check, by the clock of the caller that runs the engine manually.
    pub(super) looked_at: Mutex<Option<Millis>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Watched {
    pub(super) database: usize,
    /// The position of the walk that follows the present.
    pub(super) followed: Option<Key>,
    /// The same for the walk over all rows, or `None` if it begins.
    pub(super) lap: Option<Key>,
    pub(super) suspects: BTreeMap<Key, Suspect>,
}

#[derive(Clone, Debug)]
pub(super) struct Suspect {
    pub(super) overdue: Overdue,
    /// `None` if the queue was not read yet. The walks read keys only; more is read of a row that is found twice.
    pub(super) queue: Option<QueueKey>,
    /// The instant at which the row was first found: a row that is found once may be about to fire, for example after
    /// a start.
    pub(super) seen_at: Millis,
}

impl OverdueWatch {
    /// The overdue tasks of each partition, as of the last check.
    pub(crate) fn list(&self, now: Millis) -> Vec<OverduePartition> {
        let all = self.partitions.lock();
        all.iter()
            .map(|(partition, watched)| (*partition, watched.database, watched.oldest(*partition, now)))
            .collect()
    }

    /// The oldest of each queue, of those that are remembered.
    pub(crate) fn by_queue(&self, now: Millis) -> BTreeMap<QueueKey, Millis> {
        let mut oldest: BTreeMap<QueueKey, Millis> = BTreeMap::new();
        for watched in self.partitions.lock().values() {
            for ((due_at, _), suspect) in watched.suspects.iter().filter(|suspect| suspect.1.seen_at < now) {
                let Some(queue) = &suspect.queue else { continue };
                let first = oldest.entry(queue.clone()).or_insert(*due_at);
                *first = (*first).min(*due_at);
            }
        }
        oldest
    }

    pub(super) fn take(&self, partition: Partition) -> Watched {
        self.partitions.lock().get(&partition).cloned().unwrap_or_default()
    }
}

impl Watched {
    fn oldest(&self, partition: Partition, now: Millis) -> Option<OverdueTask> {
        let (key, _) = self.suspects.iter().find(|suspect| suspect.1.seen_at < now)?;
        Some(OverdueTask { partition, database: self.database, due_at: key.0, id: key.1 })
    }
}
