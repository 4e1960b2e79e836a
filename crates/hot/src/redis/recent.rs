//! What this process did lately with what fires: saves questions to Redis that were answered already. Never decides:
//! forgetting any of it costs a question, and what is out of date here (another engine acted) leaves at worst a name
//! in a ready set, which `admit` passes over.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::hot::HotEntry;
use punctual_domain::place::Partition;

/// Above this many (about 10 MB) all is forgotten.
const KNOWN_MAX: usize = 200_000;

#[derive(Clone, Copy, Debug)]
struct Fires {
    fence: i64,
    is_ready: bool,
}

/// Entries that fire, as far as this process has seen.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    known: Mutex<HashMap<(Partition, i64), Fires>>,
}

impl Recent {
    /// Taken, or seen to fire; not in a ready set.
    pub(crate) fn fire<'e>(&self, entries: impl Iterator<Item = &'e HotEntry>) {
        self.put(entries, false);
    }

    pub(crate) fn are_ready(&self, entries: &[HotEntry]) {
        self.put(entries.iter(), true);
    }

    fn put<'e>(&self, entries: impl Iterator<Item = &'e HotEntry>, is_ready: bool) {
        let mut known = self.known.lock();
        let most = entries.size_hint().1.unwrap_or_default();
        if known.len() + most > KNOWN_MAX {
            *known = HashMap::new();
        }
        known.extend(entries.map(|it| (key(it), Fires { fence: it.fence, is_ready })));
    }

    pub(crate) fn fires(&self, entry: &HotEntry) -> bool {
        self.known.lock().get(&key(entry)).is_some_and(|it| it.fence == entry.fence)
    }

    /// Whether it may be in a ready set; from now on it does not fire.
    pub(crate) fn settle(&self, partition: Partition, id: i64, fence: i64) -> bool {
        let mut known = self.known.lock();
        let Some(it) = known.get(&(partition, id)).copied() else { return true };
        if it.fence <= fence {
            known.remove(&(partition, id));
        }
        it.is_ready
    }

    pub(crate) fn forget(&self, entries: &[HotEntry]) {
        let mut known = self.known.lock();
        for it in entries {
            known.remove(&key(it));
        }
    }
}

const fn key(entry: &HotEntry) -> (Partition, i64) {
    (entry.place.partition, entry.place.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::sample;

    #[test]
    fn what_is_not_known_may_be_ready_and_is_not_said_to_fire() {
        let recent = Recent::default();
        assert!(recent.settle(Partition(0), 1, 1) && !recent.fires(&sample(1, 1, 1)));
        recent.fire([sample(1, 1, 1)].iter());
        assert!(recent.fires(&sample(1, 1, 1)) && !recent.fires(&sample(1, 1, 2)));
        assert!(!recent.settle(Partition(0), 1, 0), "a newer fence stays");
        recent.are_ready(&[sample(1, 1, 1)]);
        assert!(recent.settle(Partition(0), 1, 1));
        assert!(!recent.fires(&sample(1, 1, 1)));
    }

    #[test]
    fn it_does_not_grow_for_ever() {
        let recent = Recent::default();
        for id in 0..=i64::try_from(KNOWN_MAX).unwrap() {
            recent.fire([sample(id, 1, 1)].iter());
        }
        assert!(recent.known.lock().len() <= KNOWN_MAX);
    }
}
