//! The unanswered lease requests to a database, and how long its answers usually take. A database that takes
//! much longer than usual is doubted, long before it counts as failing: a caller that could get tasks of
//! other databases does not wait for it. Only counts; must not ask anything itself.

use std::{collections::BTreeSet, time::Duration};
use tokio::time::Instant;

/// An answer that takes this many times the usual time is too slow.
const TIMES: u32 = 4;
/// A fast database is not doubted before this: any disk pauses now and then.
const AT_LEAST: Duration = Duration::from_millis(25);
/// A slow or unknown database is not waited for longer than this.
pub(super) const AT_MOST: Duration = Duration::from_millis(300);
/// The weight of one answer in the usual time, as a divisor.
const SHARE: u32 = 8;

#[derive(Debug, Default)]
pub(super) struct Pace {
    usual: Option<Duration>,
    /// The queries without an answer, the oldest first; numbered, because two may be sent at one instant.
    asked: BTreeSet<(Instant, u64)>,
    last: u64,
    /// Anything was answered then.
    answered_at: Option<Instant>,
}

impl Pace {
    /// The time limit of the wait of a caller with nothing else to do.
    pub(super) fn patience(&self) -> Duration {
        self.usual.map_or(AT_MOST, |usual| (usual * TIMES).clamp(AT_LEAST, AT_MOST))
    }

    /// The oldest request since the last answer has taken too long.
    pub(super) fn is_doubtful(&self, now: Instant) -> bool {
        let since = |pair: &&(Instant, u64)| self.answered_at.is_none_or(|at| pair.0 > at);
        let oldest = self.asked.iter().find(since);
        oldest.is_some_and(|(at, _)| now.saturating_duration_since(*at) > self.patience())
    }

    pub(super) fn asks(&mut self, now: Instant) -> (Instant, u64) {
        self.last += 1;
        self.asked.insert((now, self.last));
        (now, self.last)
    }

    /// However it ended.
    pub(super) fn ended(&mut self, asked: (Instant, u64)) {
        self.asked.remove(&asked);
    }

    pub(super) fn leased(&mut self, asked: (Instant, u64), now: Instant) {
        let took = now.saturating_duration_since(asked.0).min(AT_MOST);
        self.usual = Some(self.usual.map_or(took, |usual| (usual * (SHARE - 1) + took) / SHARE));
        self.answers(now);
    }

    /// It was asked something else.
    pub(super) fn answers(&mut self, now: Instant) {
        self.answered_at = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn answered(pace: &mut Pace, now: &mut Instant, took: Duration) {
        let asked = pace.asks(*now);
        *now += took;
        pace.leased(asked, *now);
        pace.ended(asked);
    }

    #[test]
    fn a_part_is_doubted_when_it_takes_much_longer_than_it_usually_does() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        let first = pace.asks(now);
        assert!(!pace.is_doubtful(now + AT_MOST) && pace.is_doubtful(now + AT_MOST + MS), "nothing is known");
        pace.ended(first);
        for (usual, wanted) in [(2 * MS, AT_LEAST), (20 * MS, 80 * MS), (200 * MS, AT_MOST)] {
            for _ in 0..100 {
                answered(&mut pace, &mut now, usual);
            }
            let patience = pace.patience();
            assert!(patience > wanted - MS && patience <= wanted, "{usual:?}: {patience:?}");
        }
    }

    #[test]
    fn an_answer_to_anything_that_was_asked_later_ends_the_doubt_and_one_that_was_given_up_does_not() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        answered(&mut pace, &mut now, 2 * MS);
        let (stuck, given_up) = (pace.asks(now + MS), pace.asks(now + 2 * MS));
        now += AT_LEAST * 2;
        assert!(pace.is_doubtful(now));
        pace.ended(given_up);
        assert!(pace.is_doubtful(now), "an error says nothing");
        let later = pace.asks(now);
        pace.leased(later, now + MS);
        pace.ended(later);
        assert!(!pace.is_doubtful(now + AT_MOST), "it is one connection that is stuck");
        let again = pace.asks(now + 2 * MS);
        assert!(pace.is_doubtful(now + AT_MOST + 3 * MS));
        pace.answers(now + AT_MOST + 3 * MS);
        assert!(!pace.is_doubtful(now + AT_MOST * 2));
        pace.ended(stuck);
        pace.ended(again);
        assert!(pace.asked.is_empty());
    }
}
