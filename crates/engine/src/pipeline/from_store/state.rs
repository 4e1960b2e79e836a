//! Whether the hot set answers, and what has fired without it. Asks neither the hot set nor the store.

use crate::pipeline::request::{LeaseRequest, may_run};
use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::hot::HotEntry;
use punctual_domain::{name::QueueKey, place::Partition, time::Millis};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::time::Instant;

/// An engine whom the hot set has not answered for so long gives its partitions to one whom it answers. By then every other
/// one that has lost it too has noticed and said so.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(3);
/// An engine whom it answers again takes part again after so long: a way to Redis that comes and goes moves no partitions.
const TRUSTED_AFTER: Duration = Duration::from_secs(5);

/// What an engine says of the hot set to those that it shares the partitions with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HasHot {
    Yes,
    /// Lately lost or lately back: it says no, and keeps what it has.
    Unsettled,
    No,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Since {
    Away(Instant),
    Back(Instant),
}

type Order = (u8, Millis, i64);

#[derive(Debug, Default)]
pub(crate) struct FromStore {
    pub(super) is_away: AtomicBool,
    /// When that changed. None: it has always answered.
    pub(super) since: Mutex<Option<Since>>,
    /// Something was not loaded because the hot set was away, or has fired without it.
    pub(super) has_passed_by: AtomicBool,
    ready: Mutex<HashMap<Arc<QueueKey>, BTreeMap<Order, HotEntry>>>,
    /// By partition, where to go on.
    pub(super) positions: Mutex<HashMap<Partition, (Millis, i64)>>,
}

fn order(it: &HotEntry) -> Order {
    (it.priority.level(), it.due_at, it.place.id)
}

impl FromStore {
    /// The hot set did not answer when last asked.
    pub(crate) fn is_away(&self) -> bool {
        self.is_away.load(SeqCst)
    }

    pub(crate) fn has_hot(&self) -> HasHot {
        match *self.since.lock() {
            None => HasHot::Yes,
            Some(Since::Back(at)) if at.elapsed() >= TRUSTED_AFTER => HasHot::Yes,
            Some(Since::Away(at)) if at.elapsed() >= GIVEN_UP_AFTER => HasHot::No,
            Some(_) => HasHot::Unsettled,
        }
    }

    pub(crate) fn passes_by(&self) {
        self.has_passed_by.store(true, SeqCst);
    }

    pub(super) fn holds(&self, entry: &HotEntry) -> bool {
        let ready = self.ready.lock();
        let known = ready.get(&entry.queue).and_then(|it| it.get(&order(entry)));
        known.is_some_and(|it| it.fence >= entry.fence)
    }

    pub(super) fn put(&self, entries: Vec<HotEntry>) {
        let mut ready = self.ready.lock();
        for it in entries {
            ready.entry(Arc::clone(&it.queue)).or_default().insert(order(&it), it);
        }
    }

    /// The most urgent of those that the caller may run.
    pub(super) fn pop(&self, request: &LeaseRequest, limit: usize) -> Vec<HotEntry> {
        let mut ready = self.ready.lock();
        let Some(waiting) = ready.get_mut(&request.queue) else { return Vec::new() };
        let popped = waiting.extract_if(.., |_, it| may_run(it, request)).take(limit);
        let popped = popped.map(|it| it.1).collect();
        if waiting.is_empty() {
            ready.remove(&request.queue);
        }
        popped
    }

    pub(super) fn forget(&self) {
        self.ready.lock().clear();
        self.positions.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::claim::tests::entry;

    #[test]
    fn what_is_ready_comes_by_priority_and_age_and_each_once() {
        let it = FromStore::default();
        let queue = Arc::clone(&entry(1, 1).queue);
        let asks =
            LeaseRequest { queue, max: 2, wait_ms: 0, lease_ms: 1, executor: String::new(), version: None };
        it.put(vec![entry(1, 30), entry(2, 10), entry(3, 20), entry(2, 10)]);
        assert!(it.holds(&entry(2, 10)) && !it.holds(&HotEntry { fence: 2, ..entry(2, 10) }));
        let ids = |entries: Vec<HotEntry>| entries.iter().map(|it| it.place.id).collect::<Vec<_>>();
        assert_eq!(ids(it.pop(&asks, 2)), [2, 3]);
        assert_eq!(ids(it.pop(&asks, 2)), [1]);
        assert!(it.pop(&asks, 2).is_empty() && it.ready.lock().is_empty());
    }
}
