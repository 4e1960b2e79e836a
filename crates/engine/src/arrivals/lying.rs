//! What has fired and lies in the engine for executors that are busy, in the order in which it fired. Says of an entry
//! whether it lies here: then it is in good hands, and nobody has to look after it in the hot set or in the store.

use hashbrown::HashMap;
use punctual_contract::hot::HotEntry;
use punctual_domain::time::Millis;
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(super) struct Lying {
    queue: VecDeque<(Millis, HotEntry)>,
    /// By id, the fence. An id lies here once.
    fences: HashMap<i64, i64>,
}

impl Lying {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn holds(&self, entry: &HotEntry) -> bool {
        self.fences.get(&entry.place.id).is_some_and(|it| *it >= entry.fence)
    }

    /// Behind what lies here already. What has fired twice, because the hot set forgot it meanwhile, lies here once; of
    /// an older fence nothing would be handed over.
    pub(super) fn push(&mut self, entries: Vec<HotEntry>, now: Millis) {
        for it in entries {
            if self.holds(&it) {
                continue;
            }
            if self.fences.insert(it.place.id, it.fence).is_some() {
                self.queue.retain(|other| other.1.place.id != it.place.id);
            }
            self.queue.push_back((now, it));
        }
    }

    /// They were taken from the front a moment ago, and nobody wants them.
    pub(super) fn put_back(&mut self, entries: Vec<HotEntry>, now: Millis) {
        for it in entries.into_iter().rev() {
            self.fences.insert(it.place.id, it.fence);
            self.queue.push_front((now, it));
        }
    }

    pub(super) fn take(&mut self, most: usize) -> Vec<HotEntry> {
        let most = most.min(self.queue.len());
        let taken: Vec<HotEntry> = self.queue.drain(..most).map(|it| it.1).collect();
        for it in &taken {
            self.fences.remove(&it.place.id);
        }
        taken
    }

    pub(super) fn has_some_since_before(&self, before: Millis) -> bool {
        self.queue.front().is_some_and(|it| it.0 < before)
    }

    pub(super) fn take_before(&mut self, before: Millis) -> Vec<HotEntry> {
        let old = self.queue.iter().take_while(|it| it.0 < before).count();
        self.take(old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::claim::tests::entry;

    fn ids(entries: &[HotEntry]) -> Vec<i64> {
        entries.iter().map(|it| it.place.id).collect()
    }

    #[test]
    fn it_lies_in_its_order_until_it_is_taken_and_each_once() {
        let mut lying = Lying::default();
        lying.push(vec![entry(1, 9), entry(2, 8)], Millis(10));
        lying.push(vec![entry(3, 7), entry(1, 9)], Millis(20));
        assert!(lying.holds(&entry(1, 9)) && lying.holds(&entry(3, 7)));
        assert!(
            !lying.holds(&HotEntry { fence: entry(1, 9).fence + 1, ..entry(1, 9) }),
            "another, and newer"
        );
        assert_eq!(ids(&lying.take_before(Millis(10))), Vec::<i64>::new());
        assert_eq!(ids(&lying.take(1)), [1]);
        assert!(!lying.holds(&entry(1, 9)));
        lying.put_back(vec![entry(1, 9)], Millis(15));
        assert!(lying.holds(&entry(1, 9)));
        assert_eq!((ids(&lying.take_before(Millis(20))), lying.len()), (vec![1, 2], 1));
        assert_eq!(ids(&lying.take(9)), [3]);
        assert!(lying.is_empty() && lying.fences.is_empty());
    }

    #[test]
    fn a_newer_fence_takes_the_place_of_an_older_one() {
        let mut lying = Lying::default();
        let newer = HotEntry { fence: entry(1, 9).fence + 1, ..entry(1, 9) };
        lying.push(vec![entry(1, 9), entry(2, 9)], Millis(1));
        lying.push(vec![newer.clone()], Millis(2));
        lying.push(vec![entry(1, 9)], Millis(3));
        assert!(lying.holds(&newer) && lying.holds(&entry(1, 9)));
        assert_eq!(lying.take(9), [entry(2, 9), newer]);
    }
}
