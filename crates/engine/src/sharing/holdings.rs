//! This engine's holdings: by partition the term of its tenure, and how far the hot set has been filled.
//! Trusts the last answer; if that is outdated, tasks may be late, but none is lost.

use parking_lot::Mutex;
use punctual_contract::ownership::{Live, Tenure};
use punctual_domain::{place::Partition, time::Millis};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

#[derive(Debug)]
pub(crate) struct Holdings {
    /// This engine is the only one on its store.
    sole: bool,
    partitions: Vec<Holding>,
    held: AtomicUsize,
    /// True if no other engine is alive, as of the last heartbeats.
    is_only: AtomicBool,
    /// The live engines, as of the last heartbeats; empty: none were received yet.
    live: Mutex<Vec<Live>>,
    /// Partitions that were lost and whose tasks are not yet removed here.
    lost: Mutex<Vec<Partition>>,
}

#[derive(Debug)]
struct Holding {
    inner: Mutex<HoldingsState>,
}

#[derive(Debug)]
struct HoldingsState {
    term: Option<i64>,
    /// The partition was acquired, and is not scanned yet.
    is_new: bool,
    /// Everything due at or before this is in the hot set, or on its way there.
    frontier: Millis,
    /// The number of resets of the frontier: a load that began earlier may not move it.
    beginnings: u64,
}

const NOWHERE: Millis = Millis(i64::MIN);

/// The frontier has been raised, from here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Raised {
    pub(crate) from: Millis,
    beginnings: u64,
}

impl Holdings {
    /// `sole`: no engine shares, and everything is held from the beginning.
    pub(crate) fn new(partitions: u16, sole: bool) -> Self {
        let inner =
            || HoldingsState { term: sole.then_some(0), is_new: sole, frontier: NOWHERE, beginnings: 0 };
        let holding = |_| Holding { inner: Mutex::new(inner()) };
        let held = if sole { usize::from(partitions) } else { 0 };
        Self {
            sole,
            partitions: (0..partitions).map(holding).collect(),
            held: AtomicUsize::new(held),
            is_only: AtomicBool::new(sole),
            live: Mutex::default(),
            lost: Mutex::default(),
        }
    }

    pub(crate) const fn is_sole(&self) -> bool {
        self.sole
    }

    fn at(&self, partition: Partition) -> &Holding {
        self.partitions.get(usize::from(partition.0)).expect("places name partitions of this store")
    }

    fn all(&self) -> impl Iterator<Item = (Partition, &Holding)> {
        (0..).map(Partition).zip(&self.partitions)
    }

    /// The tenure by which this engine drains due tasks, or `None` if it has none.
    pub(crate) fn tenure(&self, partition: Partition) -> Option<Tenure> {
        self.at(partition).inner.lock().term.map(|term| Tenure { partition, term })
    }

    pub(crate) fn tenures(&self) -> Vec<Tenure> {
        self.all().filter_map(|(partition, _)| self.tenure(partition)).collect()
    }

    /// The partitions that this engine does not hold.
    pub(crate) fn others(&self) -> Vec<Partition> {
        let free = |pair: &(Partition, &Holding)| pair.1.inner.lock().term.is_none();
        self.all().filter(free).map(|(partition, _)| partition).collect()
    }

    pub(crate) fn set_live(&self, live: Vec<Live>) {
        self.is_only.store(live.len() <= 1, SeqCst);
        *self.live.lock() = live;
    }

    pub(crate) fn live(&self) -> Vec<Live> {
        self.live.lock().clone()
    }

    /// Gives a tenure up: from now on it is not renewed, and nothing is drained there. Returns false if it was given
    /// up before.
    pub(crate) fn is_lost(&self, tenure: Tenure) -> bool {
        if self.tenure(tenure.partition) != Some(tenure) {
            return false;
        }
        self.lose(tenure.partition);
        self.lost.lock().push(tenure.partition);
        true
    }

    /// Some live engine besides this one reports that it lacks the hot set.
    pub(crate) fn some_lack_hot(&self, own: &str) -> bool {
        self.live.lock().iter().any(|live| live.engine != own && !live.has_hot)
    }

    /// Lost partitions that were not regained meanwhile; the caller must remove their tasks.
    pub(crate) fn take_lost(&self) -> Vec<Partition> {
        let mut lost = std::mem::take(&mut *self.lost.lock());
        lost.retain(|partition| self.tenure(*partition).is_none());
        lost
    }

    /// Other engines are alive, as of the last heartbeats.
    pub(crate) fn has_others(&self) -> bool {
        !self.is_only.load(SeqCst)
    }

    pub(crate) fn len(&self) -> usize {
        self.held.load(SeqCst)
    }

    /// Acquires a partition, and resets earlier knowledge of it: another engine may have worked there.
    pub(crate) fn gain(&self, Tenure { partition, term }: Tenure) {
        let mut inner = self.at(partition).inner.lock();
        if inner.term.replace(term).is_none() {
            self.held.fetch_add(1, SeqCst);
        }
        (inner.is_new, inner.frontier, inner.beginnings) = (true, NOWHERE, inner.beginnings + 1);
    }

    pub(crate) fn lose(&self, partition: Partition) {
        let mut inner = self.at(partition).inner.lock();
        if inner.term.take().is_some() {
            self.held.fetch_sub(1, SeqCst);
        }
        (inner.is_new, inner.frontier, inner.beginnings) = (false, NOWHERE, inner.beginnings + 1);
    }

    /// Partitions that were acquired, and are not scanned yet.
    pub(crate) fn new_ones(&self) -> Vec<Tenure> {
        let new = self.all().filter(|(_, holding)| holding.inner.lock().is_new);
        new.filter_map(|(partition, _)| self.tenure(partition)).collect()
    }

    pub(crate) fn looked_through(&self, tenure: Tenure) {
        let mut inner = self.at(tenure.partition).inner.lock();
        if inner.term == Some(tenure.term) {
            inner.is_new = false;
        }
    }

    pub(crate) fn frontier(&self, partition: Partition) -> Millis {
        self.at(partition).inner.lock().frontier
    }

    /// Returns `None` if the frontier is already there, or the partition is not held.
    pub(crate) fn raise_frontier(&self, partition: Partition, until: Millis) -> Option<Raised> {
        let mut inner = self.at(partition).inner.lock();
        if inner.term.is_none() || until <= inner.frontier {
            return None;
        }
        let from = std::mem::replace(&mut inner.frontier, until);
        Some(Raised { from, beginnings: inner.beginnings })
    }

    /// Tasks due after `to` may be missing from the hot set.
    pub(crate) fn cap_frontier(&self, partition: Partition, to: Millis) {
        let mut inner = self.at(partition).inner.lock();
        if inner.frontier > to {
            inner.frontier = to;
        }
    }

    /// The hot set has lost the partition, or missed tasks: it is scanned as if it had just been taken over. False if
    /// that is still to be done anyway, or the partition is no longer held.
    pub(crate) fn begin_anew(&self, tenure: Tenure) -> bool {
        let mut inner = self.at(tenure.partition).inner.lock();
        let begins = inner.term == Some(tenure.term) && !inner.is_new;
        if begins {
            (inner.is_new, inner.frontier, inner.beginnings) = (true, NOWHERE, inner.beginnings + 1);
        }
        begins
    }

    /// The window could not be filled beyond `to`.
    pub(crate) fn lower_frontier(&self, partition: Partition, raised: Raised, to: Millis) {
        let mut inner = self.at(partition).inner.lock();
        if inner.beginnings == raised.beginnings {
            inner.frontier = to.min(inner.frontier);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: Partition = Partition(1);

    #[test]
    fn a_partition_that_comes_back_is_looked_through_from_the_beginning() {
        let holdings = Holdings::new(2, false);
        assert!(holdings.raise_frontier(P, Millis(5)).is_none(), "it is not held");
        holdings.gain(Tenure { partition: P, term: 1 });
        let before = holdings.raise_frontier(P, Millis(5)).unwrap();
        holdings.looked_through(Tenure { partition: P, term: 1 });
        holdings.lose(P);
        holdings.gain(Tenure { partition: P, term: 3 });
        holdings.lower_frontier(P, before, Millis(4));
        holdings.looked_through(Tenure { partition: P, term: 1 });
        assert_eq!(holdings.frontier(P), NOWHERE, "a scan that began before does not count");
        assert_eq!(holdings.new_ones(), [Tenure { partition: P, term: 3 }]);
        assert_eq!((holdings.len(), holdings.others()), (1, vec![Partition(0)]));
    }

    #[test]
    fn what_is_lost_is_told_once_and_only_by_the_term_that_was_held() {
        let holdings = Holdings::new(2, false);
        holdings.gain(Tenure { partition: P, term: 2 });
        assert!(!holdings.is_lost(Tenure { partition: P, term: 1 }), "of before");
        assert!(holdings.is_lost(Tenure { partition: P, term: 2 }));
        assert!(!holdings.is_lost(Tenure { partition: P, term: 2 }));
        assert_eq!((holdings.take_lost(), holdings.take_lost(), holdings.len()), (vec![P], vec![], 0));
    }

    #[test]
    fn what_was_lost_and_is_gained_again_is_not_put_away() {
        let holdings = Holdings::new(2, false);
        holdings.gain(Tenure { partition: P, term: 2 });
        assert!(holdings.is_lost(Tenure { partition: P, term: 2 }));
        holdings.gain(Tenure { partition: P, term: 3 });
        assert_eq!((holdings.take_lost(), holdings.len()), (vec![], 1));
    }

    #[test]
    fn who_shares_with_nobody_holds_everything() {
        let holdings = Holdings::new(2, true);
        assert_eq!(holdings.tenures(), [Tenure::sole(Partition(0)), Tenure::sole(P)]);
        assert_eq!((holdings.len(), holdings.others()), (2, vec![]));
    }
}
