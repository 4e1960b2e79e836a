//! Takes and admissions whose answers were lost. Looks for none of them itself.

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use punctual_contract::{Error, Happened};
use punctual_domain::{name::QueueKey, place::Partition, time::Millis};
use std::{collections::BTreeSet, sync::Arc};
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Unanswered {
    pub(super) lost: Mutex<Lost>,
    asked: Notify,
}

#[derive(Debug, Default)]
pub(super) struct Lost {
    pub(super) takes: HashMap<Partition, Takes>,
    pub(super) admissions: HashSet<Arc<QueueKey>>,
}

/// Of one partition.
#[derive(Debug, Default)]
pub(super) struct Takes {
    /// When they were: what they popped says so.
    pub(super) at: BTreeSet<Millis>,
    /// What was leased ahead, by id and fence, and would leave the hot set with them.
    pub(super) leased: HashSet<(i64, i64)>,
}

impl Unanswered {
    pub(crate) fn take(&self, error: &Error, partition: Partition, at: Millis, leased: &HashSet<(i64, i64)>) {
        if error.happened == Happened::Maybe {
            let mut lost = self.lost.lock();
            let takes = lost.takes.entry(partition).or_default();
            takes.at.insert(at);
            takes.leased.extend(leased);
            self.asked.notify_one();
        }
    }

    pub(crate) fn admission(&self, error: &Error, queue: &Arc<QueueKey>) {
        if error.happened == Happened::Maybe {
            self.lost.lock().admissions.insert(Arc::clone(queue));
            self.asked.notify_one();
        }
    }

    /// What could not be offered is held back by this engine.
    pub(crate) fn offer(&self, error: &Error) {
        if error.happened == Happened::Maybe {
            self.asked.notify_one();
        }
    }

    pub(crate) async fn asked(&self) {
        self.asked.notified().await;
    }

    /// It could not be looked for: the next run does it.
    pub(super) fn keep(&self, partition: Partition, takes: Takes) {
        let mut lost = self.lost.lock();
        let known = lost.takes.entry(partition).or_default();
        known.at.extend(takes.at);
        known.leased.extend(takes.leased);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_have_happened_is_looked_for() {
        let it = Unanswered::default();
        let leased = HashSet::from([(7, 1)]);
        it.take(&Error::did_not_happen("take", "refused"), Partition(0), Millis(5), &leased);
        assert!(it.lost.lock().takes.is_empty());
        let lost = Error::may_have_happened("take", "no answer");
        it.take(&lost, Partition(0), Millis(5), &leased);
        it.take(&lost, Partition(0), Millis(9), &HashSet::new());
        let takes = it.lost.lock().takes.remove(&Partition(0)).unwrap();
        assert_eq!((takes.at, takes.leased), (BTreeSet::from([Millis(5), Millis(9)]), leased));
    }
}
