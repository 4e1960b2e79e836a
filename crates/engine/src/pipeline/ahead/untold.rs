//! What one engine has handed over without the store knowing to whom, and how well the store keeps up with leases ahead of
//! their instant. Losing any of it costs the rest of a short lease.

use crate::arrivals::state::Arrival;
use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::store::Beat;
use punctual_domain::time::Millis;
use std::sync::Arc;
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// Handed over; the store does not know to whom.
    pub(super) untold: Mutex<HashMap<i64, Untold>>,
    /// Where something lies that found nobody.
    pub(super) shelves: Mutex<Vec<Arc<Arrival>>>,
    pub(crate) something: Notify,
    /// By the part of the store.
    pace: Mutex<HashMap<usize, Pace>>,
}

/// Nothing is leased ahead for so long after an answer that came too late, twice as long after each further one.
const PAUSE_MS: i64 = 200;
const PAUSE_MAX_MS: i64 = 6_400;

/// Whether the store answers in time.
#[derive(Debug, Default)]
struct Pace {
    not_before: Millis,
    late_in_a_row: u32,
}

/// Who has a task, and since when.
#[derive(Debug)]
pub(crate) struct Untold {
    pub(super) since: Millis,
    pub(super) beat: Beat,
    /// The store is being told. Until it has answered, an outcome may still be first.
    pub(super) is_being_told: bool,
}

impl Untold {
    /// When the attempt fired, by task and fence.
    pub(crate) fn fired(&self) -> Option<((i64, i64), Millis)> {
        Some(((self.beat.place.id, self.beat.fence), self.beat.handed_over_at?))
    }
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

    /// The store was too slow lately: what is asked of it besides would make it slower.
    pub(super) fn is_too_slow(&self, part: usize, now: Millis) -> bool {
        self.pace.lock().get(&part).is_some_and(|it| now < it.not_before)
    }

    /// The outcomes of these attempts are here: nothing needs to be told of them. Answers what would have been.
    pub(crate) fn ended(&self, attempts: impl Iterator<Item = (i64, i64)>) -> Vec<Untold> {
        let mut untold = self.untold.lock();
        if untold.is_empty() {
            return Vec::new();
        }
        let is_its = |it: &Untold, fence| it.beat.fence == fence;
        let ended = attempts.filter_map(|(id, fence)| {
            let has_ended = untold.get(&id).is_some_and(|it| is_its(it, fence));
            if has_ended { untold.remove(&id) } else { None }
        });
        ended.collect()
    }

    /// This attempt was handed over here, and the store may not know to whom.
    pub(crate) fn has_handed_over(&self, id: i64, fence: i64) -> bool {
        self.untold.lock().get(&id).is_some_and(|untold| untold.beat.fence == fence)
    }

    /// What was handed over until then, and the store does not know to whom: it is told now.
    pub(super) fn untold_since(&self, until: Millis) -> Vec<Beat> {
        let mut untold = self.untold.lock();
        let old = untold.values_mut().filter(|it| it.since <= until && !it.is_being_told);
        let tell = |it: &mut Untold| {
            it.is_being_told = true;
            it.beat.clone()
        };
        old.map(tell).collect()
    }

    /// The store knows of these.
    pub(super) fn told(&self, beats: &[Beat]) {
        let mut untold = self.untold.lock();
        for beat in beats {
            let id = beat.place.id;
            if untold.get(&id).is_some_and(|it| it.beat.fence == beat.fence) {
                untold.remove(&id);
            }
        }
    }

    /// It may not: those handed over since then are told again.
    pub(super) fn not_told(&self, beats: &[Beat], since: Millis) {
        let mut untold = self.untold.lock();
        for beat in beats {
            let id = beat.place.id;
            match untold.get_mut(&id).filter(|it| it.beat.fence == beat.fence) {
                Some(it) if it.since > since => it.is_being_told = false,
                Some(_) => drop(untold.remove(&id)),
                None => {}
            }
        }
    }

    /// They are to be told after all.
    pub(crate) fn not_ended(&self, ended: Vec<Untold>) {
        let mut untold = self.untold.lock();
        for it in ended {
            untold.entry(it.beat.place.id).or_insert(Untold { is_being_told: false, ..it });
        }
        self.something.notify_one();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.untold.lock().is_empty() && self.shelves.lock().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_answers_late_is_asked_less_and_less_until_it_is_in_time() {
        let it = Ahead::default();
        let mut at = Millis(1_000);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            it.answered(0, false, at);
            it.answered(0, false, at.plus(1));
            let end = (0..=PAUSE_MAX_MS).map(|ms| at.plus(ms)).find(|now| !it.is_too_slow(0, *now)).unwrap();
            pauses.push(end.since(at));
            at = end;
        }
        assert_eq!(pauses, [200, 400, 800, 1_600, 3_200, 6_400, 6_400, 6_400]);
        it.answered(0, true, at);
        it.answered(0, false, at);
        assert!(it.is_too_slow(0, at.plus(PAUSE_MS - 1)) && !it.is_too_slow(0, at.plus(PAUSE_MS)));
        assert!(!it.is_too_slow(1, at), "another part answers in time");
    }
}
