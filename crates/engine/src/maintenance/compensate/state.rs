//! Tasks that could not be sent, and when each is retried, as far as this engine knows. Retries none itself.

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use punctual_contract::hot::HotEntry;
use punctual_domain::{name::QueueKey, place::Partition, state::State, time::Millis};
use std::sync::Arc;

/// The pause after the second consecutive failure; it doubles with each further one.
const PAUSE_MS: i64 = 10_000;
/// The maximum time after the return of the bus until the last of its tasks is sent again.
const PAUSE_MAX_MS: i64 = 60_000;
/// The maximum number of tasks in memory; the refill finds the others again.
const REMEMBERED_MAX: usize = 100_000;
/// A task that was retried and has not failed again for this long was sent, or has ended otherwise.
const FORGET_AFTER_MS: i64 = 10 * 60_000;

/// This engine's memory of tasks that could not be sent.
#[derive(Debug, Default)]
pub(crate) struct Unsent {
    inner: Mutex<CompensatorState>,
}

#[derive(Debug, Default)]
struct CompensatorState {
    /// The tasks by id.
    failed: HashMap<i64, Failed>,
    /// The queues whose last message was refused.
    failing: HashSet<Arc<QueueKey>>,
}

#[derive(Debug)]
struct Failed {
    entry: HotEntry,
    /// The number of consecutive failures, as far as this engine knows.
    failures: u32,
    /// The task is not retried before.
    again_at: Millis,
    /// It is on its way: seen failing with the same fence after `again_at`, it was lost on it.
    is_back: bool,
}

/// The first retry is in the next run.
fn pause_ms(failures: u32) -> i64 {
    match failures {
        0 | 1 => 0,
        more => (PAUSE_MS << (more - 2).min(8)).min(PAUSE_MAX_MS),
    }
}

impl Unsent {
    /// Takes unsent tasks out of the results of a scan, and returns the others.
    pub(crate) fn sort_out(&self, mut found: Vec<HotEntry>, now: Millis) -> Vec<HotEntry> {
        let is_unsent = |entry: &mut HotEntry| entry.state == State::DispatchFailed;
        let mut inner = self.inner.lock();
        found.extract_if(.., is_unsent).for_each(|entry| inner.saw(entry, now));
        found
    }

    /// Returns the tasks to retry now, the longest overdue first. Removes tasks of other engines' partitions.
    pub(super) fn take_due(
        &self,
        now: Millis,
        limit: usize,
        is_mine: impl Fn(Partition) -> bool,
    ) -> Vec<HotEntry> {
        let mut inner = self.inner.lock();
        inner.failed.retain(|_, failed| {
            is_mine(failed.entry.place.partition)
                && !(failed.is_back && failed.again_at.plus(FORGET_AFTER_MS) < now)
        });
        let mut due: Vec<&mut Failed> =
            inner.failed.values_mut().filter(|failed| !failed.is_back && failed.again_at <= now).collect();
        due.sort_unstable_by_key(|failed| failed.entry.key());
        let back = due.into_iter().take(limit).map(|failed| {
            (failed.is_back, failed.again_at) = (true, now.plus(pause_ms(failed.failures).max(PAUSE_MS)));
            failed.entry.clone()
        });
        back.collect()
    }

    /// These could not be retried.
    pub(super) fn still_here(&self, entries: &[HotEntry], now: Millis) {
        let mut inner = self.inner.lock();
        for entry in entries {
            if let Some(failed) = inner.failed.get_mut(&entry.place.id) {
                (failed.is_back, failed.again_at) = (false, now);
            }
        }
    }

    /// The instant of the task's retry, as far as this engine knows.
    pub(crate) fn again_at(&self, id: i64, fence: i64) -> Option<Millis> {
        let inner = self.inner.lock();
        inner.failed.get(&id).filter(|failed| failed.entry.fence == fence).map(|failed| failed.again_at)
    }

    pub(crate) fn is_failing(&self, queue: &QueueKey) -> bool {
        self.inner.lock().failing.contains(queue)
    }

    pub(crate) fn set_failing(&self, queue: &Arc<QueueKey>, is_failing: bool) {
        let mut inner = self.inner.lock();
        if is_failing {
            inner.failing.insert(Arc::clone(queue));
        } else {
            inner.failing.remove(queue);
        }
    }

    /// The number of unsent tasks in memory.
    pub(crate) fn len(&self) -> usize {
        self.inner.lock().failed.values().filter(|failed| !failed.is_back).count()
    }
}

impl CompensatorState {
    fn saw(&mut self, entry: HotEntry, now: Millis) {
        let room = self.failed.len() < REMEMBERED_MAX;
        let Some(failed) = self.failed.get_mut(&entry.place.id) else {
            if room {
                let failed = Failed { failures: 1, again_at: now, is_back: false, entry };
                self.failed.insert(failed.entry.place.id, failed);
            }
            return;
        };
        if entry.fence > failed.entry.fence {
            failed.failures = failed.failures.saturating_add(1);
            (failed.again_at, failed.is_back) = (now.plus(pause_ms(failed.failures)), false);
            failed.entry = entry;
        } else if entry.fence == failed.entry.fence && failed.is_back && failed.again_at <= now {
            failed.is_back = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::drain::tests::entry;

    const ANY: fn(Partition) -> bool = |_| true;

    fn failed(id: i64, fence: i64) -> HotEntry {
        HotEntry { state: State::DispatchFailed, fence, ..entry(id, id) }
    }

    fn ids(entries: &[HotEntry]) -> Vec<i64> {
        entries.iter().map(|entry| entry.place.id).collect()
    }

    #[test]
    fn each_failure_in_a_row_is_followed_by_a_longer_pause_up_to_a_minute() {
        let pauses: Vec<i64> = [1, 2, 3, 4, 5, u32::MAX].into_iter().map(pause_ms).collect();
        assert_eq!(pauses, [0, 10_000, 20_000, 40_000, 60_000, 60_000]);
        let unsent = Unsent::default();
        for (fence, seen_at, again_at) in [(1, 0, 0), (2, 50, 10_050), (3, 20_000, 40_000)] {
            unsent.sort_out(vec![failed(7, fence)], Millis(seen_at));
            assert!(unsent.take_due(Millis(again_at - 1), 9, ANY).is_empty(), "{fence}");
            assert_eq!(ids(&unsent.take_due(Millis(again_at), 9, ANY)), [7], "{fence}");
        }
    }

    #[test]
    fn what_is_on_its_way_is_not_brought_back_twice_unless_it_was_lost_on_it() {
        let unsent = Unsent::default();
        unsent.sort_out(vec![failed(7, 1)], Millis(0));
        assert_eq!(unsent.take_due(Millis(0), 9, ANY).len(), 1);
        unsent.sort_out(vec![failed(7, 1)], Millis(PAUSE_MS - 1));
        assert!(unsent.take_due(Millis(PAUSE_MS - 1), 9, ANY).is_empty());
        unsent.sort_out(vec![failed(7, 1)], Millis(PAUSE_MS));
        assert_eq!(
            unsent.take_due(Millis(PAUSE_MS), 9, ANY).len(),
            1,
            "the store still says that it was not sent"
        );
    }

    #[test]
    fn a_run_is_bounded_takes_the_longest_overdue_first_and_leaves_others_theirs() {
        let unsent = Unsent::default();
        let rest = unsent.sort_out(vec![failed(3, 1), entry(4, 4), failed(1, 1), failed(2, 1)], Millis(9));
        assert_eq!(ids(&rest), [4], "what waits for its time is none of it");
        let first = unsent.take_due(Millis(9), 2, ANY);
        assert_eq!(ids(&first), [1, 2]);
        unsent.still_here(&first, Millis(9));
        assert_eq!(unsent.len(), 3);
        assert!(unsent.take_due(Millis(9), 9, |_| false).is_empty());
        assert_eq!(unsent.len(), 0, "another engine will see them");
    }
}
