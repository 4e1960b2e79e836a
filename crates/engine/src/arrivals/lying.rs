//! The line of what has fired and waits in the engine for executors that are busy, in the order in which it fired. The live
//! table has each of these tasks in its stage `Ready`, so that nobody else looks after it. What the table refuses is not in
//! the line; what a newer attempt has replaced there is still in the line, and its lease is refused by the store.

use crate::live::Live;
use punctual_contract::hot::HotEntry;
use punctual_domain::time::Millis;
use std::collections::VecDeque;

/// So far behind in the line, memory is dearer than a read of a row: what a hand-over needs is left out.
const ASKS_MAX: usize = 20_000;

#[derive(Debug, Default)]
pub(super) struct Lying {
    queue: VecDeque<(Millis, HotEntry)>,
}

impl Lying {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Behind what is in the line. What has fired twice, because the hot set forgot it meanwhile, is there once.
    pub(super) fn push(&mut self, live: &Live, mut entries: Vec<HotEntry>, now: Millis) {
        let far = entries.iter_mut().skip(ASKS_MAX.saturating_sub(self.queue.len()));
        far.for_each(HotEntry::leave_out_ask);
        let kept = live.lock().keep_in_line(entries);
        self.queue.extend(kept.into_iter().map(|entry| (now, entry)));
    }

    /// They were taken from the front a moment ago, and nobody wants them.
    pub(super) fn put_back(&mut self, live: &Live, entries: Vec<HotEntry>, now: Millis) {
        for entry in live.lock().keep_in_line(entries).into_iter().rev() {
            self.queue.push_front((now, entry));
        }
    }

    pub(super) fn take(&mut self, live: &Live, most: usize) -> Vec<HotEntry> {
        let most = most.min(self.queue.len());
        let taken: Vec<HotEntry> = self.queue.drain(..most).map(|(_, entry)| entry).collect();
        if !taken.is_empty() {
            live.lock().leave_line(taken.iter());
        }
        taken
    }

    pub(super) fn has_some_since_before(&self, before: Millis) -> bool {
        self.queue.front().is_some_and(|(since, _)| *since < before)
    }

    pub(super) fn take_before(&mut self, live: &Live, before: Millis) -> Vec<HotEntry> {
        let old = self.queue.iter().take_while(|(since, _)| *since < before).count();
        self.take(live, old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::claim::tests::entry;

    fn ids(entries: &[HotEntry]) -> Vec<i64> {
        entries.iter().map(|entry| entry.place.id).collect()
    }

    #[test]
    fn each_task_is_in_the_line_once_in_its_order_until_it_is_taken() {
        let (live, mut lying) = (Live::new(1, true), Lying::default());
        let keeps = |entry: &HotEntry| live.lock().keeps(entry);
        lying.push(&live, vec![entry(1, 9), entry(2, 8)], Millis(10));
        lying.push(&live, vec![entry(3, 7), entry(1, 9)], Millis(20));
        assert!(keeps(&entry(1, 9)) && keeps(&entry(3, 7)));
        assert!(!keeps(&HotEntry { fence: entry(1, 9).fence + 1, ..entry(1, 9) }), "another, and newer");
        assert_eq!(ids(&lying.take_before(&live, Millis(10))), Vec::<i64>::new());
        assert_eq!(ids(&lying.take(&live, 1)), [1]);
        assert!(!keeps(&entry(1, 9)));
        lying.put_back(&live, vec![entry(1, 9)], Millis(15));
        assert!(keeps(&entry(1, 9)));
        assert_eq!((ids(&lying.take_before(&live, Millis(20))), lying.len()), (vec![1, 2], 1));
        assert_eq!(ids(&lying.take(&live, 9)), [3]);
        assert!(lying.is_empty() && !keeps(&entry(3, 7)));
    }

    #[test]
    fn a_newer_fence_takes_the_place_of_an_older_one_in_the_table() {
        let (live, mut lying) = (Live::new(1, true), Lying::default());
        let newer = HotEntry { fence: entry(1, 9).fence + 1, ..entry(1, 9) };
        lying.push(&live, vec![entry(1, 9), entry(2, 9)], Millis(1));
        lying.push(&live, vec![newer.clone()], Millis(2));
        lying.push(&live, vec![entry(1, 9)], Millis(3));
        assert!(live.lock().keeps(&newer) && live.lock().keeps(&entry(1, 9)));
        assert_eq!(
            lying.take(&live, 9),
            [entry(1, 9), entry(2, 9), newer.clone()],
            "the store refuses the older"
        );
        assert!(!live.lock().keeps(&newer));
    }
}
