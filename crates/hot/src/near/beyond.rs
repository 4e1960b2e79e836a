//! What may be due in the shared hot set of one partition, as far as this process has seen: so that it is not asked in
//! vain at each instant at which something else is due. Never sure of what other processes put there: it is asked
//! every quarter of a second in any case.

use punctual_contract::{hot::HotEntry, ownership::Tenure};
use punctual_domain::time::Millis;
use std::collections::BTreeSet;

/// What another process has put in without this one knowing of it is taken this late at most, where something is
/// taken at all.
const ASKED_EVERY_MS: i64 = 250;

#[derive(Debug, Default)]
pub(super) struct Beyond {
    /// Everything due at or before this has been looked at; None: nothing has.
    seen_until: Option<Millis>,
    /// The furthest to which a look has gone, or is going.
    looked_until: Option<Millis>,
    /// When something is due there; no later than `looked_until`.
    instants: BTreeSet<Millis>,
    /// When it was last asked for what is due, and the term by which.
    asked: Option<(Millis, i64)>,
    /// How often something was put in.
    arrivals: u64,
}

impl Beyond {
    pub(super) fn must_be_asked(&self, tenure: Tenure, now: Millis) -> bool {
        let is_fresh =
            |(at, term): (Millis, i64)| term == tenure.term && (0..ASKED_EVERY_MS).contains(&now.since(at));
        self.seen_until.is_none_or(|it| it < now)
            || self.instants.first().is_some_and(|it| *it <= now)
            || !self.asked.is_some_and(is_fresh)
    }

    /// It has been asked by this term.
    pub(super) fn knows(&self, tenure: Tenure) -> bool {
        self.asked.is_some_and(|(_, term)| term == tenure.term)
    }

    pub(super) fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// All that was due by then has been taken, by a take that began after so many arrivals.
    pub(super) fn is_empty_until(&mut self, tenure: Tenure, now: Millis, arrivals: u64) {
        self.asked = Some((now, tenure.term));
        if self.arrivals != arrivals {
            // It may have come after what was taken.
            return;
        }
        while self.instants.first().is_some_and(|it| *it <= now) {
            self.instants.pop_first();
        }
    }

    /// Something has been put in there: told after it is there.
    pub(super) fn has(&mut self, due_at: Millis) {
        self.arrivals += 1;
        if self.looked_until.is_some_and(|it| due_at <= it) {
            self.instants.insert(due_at);
        }
    }

    pub(super) fn look_begins(&mut self, until: Millis) {
        self.looked_until = self.looked_until.max(Some(until));
    }

    /// What was found there after a position; `is_all`: of what is due until then.
    pub(super) fn looked(
        &mut self,
        after: Option<(Millis, i64)>,
        found: &[HotEntry],
        until: Millis,
        is_all: bool,
    ) {
        self.instants.extend(found.iter().map(|it| it.due_at));
        let is_next = after.is_none_or(|(from, _)| self.seen_until.is_some_and(|it| from <= it));
        // Of the last instant that was found there may be more.
        let reached = if is_all { Some(until) } else { found.last().map(|it| it.due_at.plus(-1)) };
        if is_next {
            self.seen_until = self.seen_until.max(reached);
        }
    }

    /// Nothing is known any more.
    pub(super) fn forget(&mut self) {
        *self = Self { looked_until: self.looked_until, arrivals: self.arrivals, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::sample;
    use punctual_domain::place::Partition;

    const TENURE: Tenure = Tenure { partition: Partition(0), term: 3 };

    fn seen(until: i64, found: &[HotEntry]) -> Beyond {
        let mut it = Beyond::default();
        it.look_begins(Millis(until));
        it.looked(None, found, Millis(until), true);
        it.is_empty_until(TENURE, Millis(0), 0);
        it
    }

    fn asked_at(it: &Beyond, now: i64) -> bool {
        it.must_be_asked(TENURE, Millis(now))
    }

    #[test]
    fn it_is_asked_where_nothing_is_known_and_where_something_is_due() {
        assert!(asked_at(&Beyond::default(), 0));
        let mut it = seen(100, &[sample(1, 50, 1)]);
        assert_eq!([0, 49, 50, 101].map(|now| asked_at(&it, now)), [false, false, true, true]);
        it.is_empty_until(TENURE, Millis(50), 0);
        assert_eq!([51, 100].map(|now| asked_at(&it, now)), [false, false]);
        it.has(Millis(60));
        it.has(Millis(101));
        assert_eq!([59, 60, 101].map(|now| asked_at(&it, now)), [false, true, true]);
        it.forget();
        assert!(asked_at(&it, 51));
    }

    #[test]
    fn it_is_asked_now_and_then_and_by_each_term() {
        let it = seen(10_000, &[]);
        assert_eq!([249, 250].map(|now| asked_at(&it, now)), [false, true]);
        assert!(it.must_be_asked(Tenure { term: 4, ..TENURE }, Millis(1)));
        assert!(asked_at(&it, -1), "the clock went back");
    }

    #[test]
    fn a_look_that_is_not_next_or_not_whole_teaches_only_what_it_found() {
        let mut it = seen(100, &[]);
        it.look_begins(Millis(240));
        it.looked(Some((Millis(150), 0)), &[sample(1, 160, 1)], Millis(240), true);
        assert!(asked_at(&it, 101), "what lies between has not been looked at");
        it.looked(Some((Millis(100), 0)), &[sample(1, 120, 1), sample(2, 130, 1)], Millis(240), false);
        it.is_empty_until(TENURE, Millis(120), 0);
        assert_eq!([129, 130].map(|now| asked_at(&it, now)), [false, true], "there may be more at 130");
    }

    #[test]
    fn what_comes_while_something_is_taken_may_be_there_still() {
        let mut it = seen(100, &[sample(1, 50, 1)]);
        let before = it.arrivals();
        it.has(Millis(40));
        it.is_empty_until(TENURE, Millis(60), before);
        assert!(asked_at(&it, 60));
        it.is_empty_until(TENURE, Millis(60), it.arrivals());
        assert!(!asked_at(&it, 60));
    }

    #[test]
    fn what_comes_while_a_look_is_under_way_is_not_missed() {
        let mut it = seen(100, &[]);
        it.look_begins(Millis(200));
        it.has(Millis(150));
        it.looked(Some((Millis(100), 0)), &[], Millis(200), true);
        assert_eq!([149, 150].map(|now| asked_at(&it, now)), [false, true]);
    }
}
