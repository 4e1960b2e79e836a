//! How far the sweep has come in each partition. Looks at no row itself.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_domain::{place::Partition, time::Millis};

/// What became overdue so long before the last look is looked at once more: a commit may have come after it.
const OVERLAP_MS: i64 = 3_000;

pub(super) type Key = (Millis, i64);

#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// By partition.
    positions: Mutex<HashMap<Partition, Position>>,
}

/// Where to go on in a partition.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Position {
    /// Of the tenure that it is of.
    term: i64,
    /// All before has been looked at. None: the next run begins with the oldest.
    pub(super) front: Option<Key>,
    /// Of those before the front, where to go on looking once more.
    pub(super) again: Option<Key>,
    /// Something was missing since the oldest was looked at.
    was_missing: bool,
}

impl Sweep {
    pub(super) fn position(&self, partition: Partition, term: i64) -> Position {
        let known = self.positions.lock().get(&partition).copied();
        known.filter(|it| it.term == term).unwrap_or_else(|| Position { term, ..Position::default() })
    }

    pub(super) fn remember(&self, partition: Partition, position: Position) {
        self.positions.lock().insert(partition, position);
    }
}

impl Position {
    /// From the front on, up to `next`; None: to the end. Whether it is the turn of those before the front.
    pub(super) fn looked(&mut self, next: Option<Key>, is_missing: bool, until: Millis) -> bool {
        self.was_missing |= is_missing;
        if next.is_some() {
            self.front = next;
            return false;
        }
        let goes_on = self.front.is_some() && !self.was_missing;
        self.front = goes_on.then(|| recent(until));
        self.was_missing = false;
        goes_on
    }

    /// At some before the front, up to `next`; None: to the last of them.
    pub(super) fn looked_again(&mut self, next: Option<Key>, is_missing: bool) {
        let are_few = self.again.is_none() && next.is_none();
        self.again = next;
        if are_few || is_missing {
            (self.front, self.again) = (None, None);
        }
    }
}

/// The next run looks at what comes after this, whatever was seen.
pub(super) fn recent(until: Millis) -> Key {
    (until.plus(-OVERLAP_MS), i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNTIL: Millis = Millis(100_000);

    fn key(at: i64) -> Option<Key> {
        Some((Millis(at), 1))
    }

    #[test]
    fn what_fits_into_one_look_is_looked_at_from_the_oldest_on_each_time() {
        let mut it = Position::default();
        assert!(!it.looked(None, false, UNTIL) && it.front.is_none());
        assert!(!it.looked(None, true, UNTIL) && it.front.is_none() && !it.was_missing);
    }

    #[test]
    fn of_a_long_backlog_only_a_few_are_looked_at_again_beside_what_is_new() {
        let mut it = Position::default();
        assert!(!it.looked(key(10), false, UNTIL) && !it.looked(key(20), false, UNTIL));
        assert_eq!(it.front, key(20));
        assert!(it.looked(None, false, UNTIL), "all has been seen");
        assert_eq!(it.front, Some((UNTIL.plus(-OVERLAP_MS), i64::MAX)));
        it.looked_again(key(5), false);
        assert!(it.looked(None, false, UNTIL.plus(1_000)) && it.again == key(5), "it goes on there");
        it.looked_again(None, false);
        assert!(it.again.is_none() && it.front.is_some(), "and begins anew at the end");
        it.looked_again(None, false);
        assert!(it.front.is_none(), "the backlog is gone");
    }

    #[test]
    fn all_are_looked_at_anew_until_none_is_missing() {
        let mut it = Position::default();
        it.looked(key(10), false, UNTIL);
        it.looked(None, false, UNTIL);
        it.looked_again(key(5), true);
        assert_eq!((it.front, it.again), (None, None));
        it.looked(key(10), true, UNTIL);
        assert!(!it.looked(None, false, UNTIL) && it.front.is_none(), "once more: something was missing");
        it.looked(key(10), false, UNTIL);
        assert!(it.looked(None, false, UNTIL) && it.front.is_some());
    }
}
