//! What was handed over and is to leave the hot set with the next call. Makes none.

use parking_lot::Mutex;
use punctual_domain::place::Partition;
use std::mem;

pub(super) type Settled = (Partition, i64, i64);

/// Handed over, and still in the hot set. What comes while a call is under way goes with the next one.
#[derive(Debug, Default)]
pub(crate) struct Settling(Mutex<Pending>);

#[derive(Debug, Default)]
struct Pending {
    entries: Vec<Settled>,
    is_under_way: bool,
}

impl Settling {
    /// True: the caller is to see that they go.
    pub(super) fn add(&self, settled: Vec<Settled>) -> bool {
        let mut pending = self.0.lock();
        pending.entries.extend(settled);
        !mem::replace(&mut pending.is_under_way, true)
    }

    pub(super) fn take(&self) -> Vec<Settled> {
        let mut pending = self.0.lock();
        let entries = mem::take(&mut pending.entries);
        pending.is_under_way = !entries.is_empty();
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_takes_all_that_came_meanwhile() {
        let (it, of) = (Settling::default(), |id| vec![(Partition(0), id, 1)]);
        assert!(it.add(of(1)) && !it.add(of(2)));
        assert_eq!(it.take().len(), 2);
        assert!(!it.add(of(3)), "a call is under way");
        assert_eq!(it.take().len(), 1);
        assert!(it.take().is_empty() && it.add(of(4)), "it had ended");
    }
}
