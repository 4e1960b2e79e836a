//! The reachability of each database and its last change, by the answers of its writers. Sends no query.

use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// A check without a good answer for this long counts as failed.
const SAID_AFTER: Duration = Duration::from_secs(1);
/// The time without a good answer after which the partitions there are given to an engine that reaches the database.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(3);
/// A database that answers again is trusted after this long: an unstable path moves no partitions.
const TRUSTED_AFTER: Duration = Duration::from_secs(5);

/// States if a database is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    Yes,
    /// Recently lost or recently back: it is reported as unavailable, and partitions stay where they are.
    Unsettled,
    No,
}

#[derive(Debug, Default)]
pub(crate) struct Reachability(Mutex<Vec<DatabaseReachability>>);

/// The way to one database.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DatabaseReachability {
    /// The question that is out.
    asked_at: Option<Instant>,
    /// The first question since the last good answer that was refused, or not answered.
    away_since: Option<Instant>,
    /// It had been unavailable for long enough to be reported, and then answered again.
    back_at: Option<Instant>,
}

impl DatabaseReachability {
    fn away_for(&self, now: Instant) -> Duration {
        let since = self.away_since.or(self.asked_at);
        since.map_or(Duration::ZERO, |instant| now.saturating_duration_since(instant))
    }

    fn reached(&self, now: Instant) -> Reached {
        let away_for = self.away_for(now);
        let is_young = |instant: &Instant| now.saturating_duration_since(*instant) < TRUSTED_AFTER;
        if away_for > GIVEN_UP_AFTER {
            Reached::No
        } else if away_for > SAID_AFTER || self.back_at.as_ref().is_some_and(is_young) {
            Reached::Unsettled
        } else {
            Reached::Yes
        }
    }

    /// False if one is out.
    pub(super) fn ask(&mut self, now: Instant) -> bool {
        let is_free = self.asked_at.is_none();
        self.asked_at.get_or_insert(now);
        is_free
    }

    pub(super) fn answered(&mut self, is_good: bool, now: Instant) {
        let away_for = self.away_for(now);
        let asked_at = self.asked_at.take();
        if is_good {
            self.away_since = None;
            if away_for > SAID_AFTER {
                self.back_at = Some(now);
            }
        } else {
            self.away_since = self.away_since.or(asked_at);
        }
    }
}

impl Reachability {
    pub(super) fn with<T>(&self, part: usize, work: impl FnOnce(&mut DatabaseReachability) -> T) -> T {
        let mut ways = self.0.lock();
        let count = ways.len().max(part + 1);
        ways.resize(count, DatabaseReachability::default());
        work(ways.get_mut(part).expect("there are so many"))
    }

    pub(crate) fn of(&self, part: usize) -> Reached {
        self.with(part, |way| way.reached(Instant::now()))
    }

    /// The databases that this engine reports as unreachable.
    pub(crate) fn without(&self) -> Vec<usize> {
        let (ways, now) = (self.0.lock(), Instant::now());
        let away = ways.iter().enumerate().filter(|away| away.1.reached(now) != Reached::Yes);
        away.map(|pair| pair.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sharing::database_reachability::PERIOD;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_database_that_is_silent_or_refuses_is_said_and_later_given_up() {
        for is_silent in [true, false] {
            let (mut way, began) = (DatabaseReachability::default(), Instant::now());
            let mut at = |now: Instant| {
                if way.ask(now) && !is_silent {
                    way.answered(false, now);
                }
                way.reached(now)
            };
            let seen: Vec<Reached> = (0..8).map(|nth| at(began + PERIOD * nth + MS * nth)).collect();
            let (yes, unsettled, no) = (Reached::Yes, Reached::Unsettled, Reached::No);
            assert_eq!(seen, [yes, yes, unsettled, unsettled, unsettled, unsettled, no, no], "{is_silent}");
        }
    }

    #[test]
    fn one_that_comes_and_goes_is_not_given_up_and_one_that_is_back_is_trusted_after_a_while() {
        let (mut way, mut now) = (DatabaseReachability::default(), Instant::now());
        for _ in 0..3 {
            assert!(way.ask(now) && !way.ask(now));
            now += SAID_AFTER * 2;
            assert_eq!(way.reached(now), Reached::Unsettled);
            way.answered(true, now);
            assert_eq!(way.reached(now), Reached::Unsettled, "it has just come back");
        }
        assert_eq!(way.reached(now + TRUSTED_AFTER), Reached::Yes);
        way.ask(now);
        way.answered(false, now + MS);
        assert_eq!(way.reached(now + TRUSTED_AFTER + MS), Reached::No, "nobody asked since");
        way.ask(now + TRUSTED_AFTER);
        way.answered(true, now + TRUSTED_AFTER + MS);
        assert_eq!(way.reached(now + TRUSTED_AFTER + 2 * MS), Reached::Unsettled);
    }
}
