//! The pace of the store's preleases, and the queues with preleased tasks without an executor. Losing any of it costs
//! some preleases that are made too late.

use crate::arrivals::state::QueueWaiters;
use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_domain::time::Millis;
use std::sync::Arc;
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// Queues with preleased tasks that found no executor.
    pub(super) shelves: Mutex<Vec<Arc<QueueWaiters>>>,
    pub(crate) something: Notify,
    /// The paces by part of the store.
    pace: Mutex<HashMap<usize, Pace>>,
}

/// The pause of preleasing after a late answer; it doubles with each further one.
const PAUSE_MS: i64 = 200;
const PAUSE_MAX_MS: i64 = 6_400;

/// The state of a store's part: its answers are in time or late.
#[derive(Debug, Default)]
struct Pace {
    not_before: Millis,
    late_in_a_row: u32,
}

impl Ahead {
    /// The store has answered, in time or not.
    pub(super) fn answered(&self, part: usize, in_time: bool, now: Millis) {
        let mut paces = self.pace.lock();
        let pace = paces.entry(part).or_default();
        if in_time {
            pace.late_in_a_row = 0;
        } else if now >= pace.not_before {
            // Those that were asked together count once.
            pace.not_before = now.plus((PAUSE_MS << pace.late_in_a_row.min(5)).min(PAUSE_MAX_MS));
            pace.late_in_a_row += 1;
        }
    }

    /// Time was set back.
    pub(super) fn begin_anew(&self) {
        *self.pace.lock() = HashMap::default();
    }

    /// The store was recently too slow: further requests would slow it down more.
    pub(super) fn is_too_slow(&self, part: usize, now: Millis) -> bool {
        self.pace.lock().get(&part).is_some_and(|pace| now < pace.not_before)
    }

    pub(super) fn has_no_shelves(&self) -> bool {
        self.shelves.lock().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_answers_late_is_asked_less_and_less_until_it_is_in_time() {
        let ahead = Ahead::default();
        let mut at = Millis(1_000);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            ahead.answered(0, false, at);
            ahead.answered(0, false, at.plus(1));
            let end =
                (0..=PAUSE_MAX_MS).map(|ms| at.plus(ms)).find(|now| !ahead.is_too_slow(0, *now)).unwrap();
            pauses.push(end.since(at));
            at = end;
        }
        assert_eq!(pauses, [200, 400, 800, 1_600, 3_200, 6_400, 6_400, 6_400]);
        ahead.answered(0, true, at);
        ahead.answered(0, false, at);
        assert!(ahead.is_too_slow(0, at.plus(PAUSE_MS - 1)) && !ahead.is_too_slow(0, at.plus(PAUSE_MS)));
        assert!(!ahead.is_too_slow(1, at), "another part answers in time");
    }
}
