//! The gaps of each partition, and the positions of the check of overdue tasks. Reads no row itself.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::hot::HotEntry;
use punctual_domain::{place::Partition, time::Millis};
use tokio::sync::Notify;

/// The time before the last check in which tasks that became overdue are read again: they may have been committed
/// after it.
const OVERLAP_MS: i64 = 3_000;

pub(super) type Key = (Millis, i64);

/// A time span of a partition, including both ends.
pub(crate) type Span = (Millis, Millis);

/// Spans whose tasks may be neither in the table nor in the hot set: one a partition, which has all of them.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    spans: Mutex<HashMap<Partition, Span>>,
    asked: Notify,
}

impl Gaps {
    /// It is closed ahead of the next run.
    pub(crate) fn note(&self, partition: Partition, span: Span) {
        self.keep(partition, span);
        self.asked.notify_one();
    }

    /// The next run closes it.
    pub(super) fn keep(&self, partition: Partition, (from, until): Span) {
        let mut spans = self.spans.lock();
        let span = spans.entry(partition).or_insert((from, until));
        *span = (span.0.min(from), span.1.max(until));
    }

    /// These could not be loaded. The next run of the preloader closes the gap: a hot set that refuses one entry refuses many, and
    /// each would have the store read.
    pub(crate) fn note_entries<'e>(&self, entries: impl Iterator<Item = &'e HotEntry>) {
        entries.for_each(|entry| self.keep(entry.place.partition, (entry.due_at, entry.due_at)));
    }

    pub(crate) async fn asked(&self) {
        self.asked.notified().await;
    }

    pub(super) fn are_none(&self) -> bool {
        self.spans.lock().is_empty()
    }

    pub(super) fn take(&self, is_wanted: impl Fn(Partition) -> bool) -> Vec<(Partition, Span)> {
        self.spans.lock().extract_if(|partition, _| is_wanted(*partition)).collect()
    }
}

/// The positions of the check of overdue tasks.
#[derive(Debug, Default)]
pub(crate) struct OverdueLooks {
    /// The positions by partition.
    positions: Mutex<Positions>,
    asked: Notify,
}

#[derive(Debug, Default)]
struct Positions {
    positions: HashMap<Partition, Position>,
    /// The number of requests for checks that begin with the oldest.
    asks: u64,
}

/// The position where a check continues in a partition.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Position {
    /// The term of the position's tenure.
    term: i64,
    /// `Positions::asks` when the check began.
    asks: u64,
    /// All earlier tasks were read. `None` if the next run begins with the oldest.
    pub(super) front: Option<Key>,
    /// The position, before the front, where the repeated check continues.
    pub(super) again: Option<Key>,
    /// A task was missing since the oldest was read.
    was_missing: bool,
}

impl OverdueLooks {
    /// Requests a check that begins with the oldest, immediately: tasks were left to the store, and now fit.
    pub(crate) fn ask(&self) {
        {
            let mut positions = self.positions.lock();
            positions.positions.clear();
            positions.asks += 1;
        }
        self.asked.notify_one();
    }

    pub(crate) async fn asked(&self) {
        self.asked.notified().await;
    }

    pub(super) fn position(&self, partition: Partition, term: i64) -> Position {
        let positions = self.positions.lock();
        let known = positions.positions.get(&partition).copied();
        known.filter(|position| position.term == term).unwrap_or_else(|| Position {
            term,
            asks: positions.asks,
            ..Position::default()
        })
    }

    /// Stores the position of a check. A check that began before the last request leaves no position: the next one
    /// begins with the oldest.
    pub(super) fn remember(&self, partition: Partition, position: Position) {
        let mut positions = self.positions.lock();
        if position.asks == positions.asks {
            positions.positions.insert(partition, position);
        }
    }
}

impl Position {
    /// Records that the check has read from the front up to `next`, or to the end if it is `None`. Returns true if
    /// tasks before the front are read next.
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

    /// Records that the check has read some tasks before the front, up to `next`, or to the last of them if it is
    /// `None`.
    pub(super) fn looked_again(&mut self, next: Option<Key>, is_missing: bool) {
        let are_few = self.again.is_none() && next.is_none();
        self.again = next;
        if are_few || is_missing {
            (self.front, self.again) = (None, None);
        }
    }
}

/// The next run reads tasks after this key, whatever was read.
pub(super) fn recent(until: Millis) -> Key {
    (until.plus(-OVERLAP_MS), i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::drain::tests::entry;

    const UNTIL: Millis = Millis(100_000);

    #[test]
    fn a_look_that_began_before_the_ask_leaves_no_position() {
        let (looks, partition) = (OverdueLooks::default(), Partition(1));
        let mut under_way = looks.position(partition, 7);
        under_way.front = key(5);
        looks.ask();
        looks.remember(partition, under_way);
        assert_eq!(looks.position(partition, 7).front, None);
        let mut next = looks.position(partition, 7);
        next.front = key(6);
        looks.remember(partition, next);
        assert_eq!(looks.position(partition, 7).front, key(6));
    }

    #[test]
    fn of_each_partition_the_span_of_all_gaps_is_remembered() {
        let gaps = Gaps::default();
        gaps.note_entries([entry(1, 30), entry(2, 10), entry(3, 20)].iter());
        gaps.note(Partition(1), (Millis(5), Millis(6)));
        let mut taken = gaps.take(|partition| partition == Partition(0));
        assert_eq!(taken.pop(), Some((Partition(0), (Millis(10), Millis(30)))));
        assert!(!gaps.are_none() && taken.is_empty());
    }

    fn key(at: i64) -> Option<Key> {
        Some((Millis(at), 1))
    }

    #[test]
    fn what_fits_into_one_look_is_looked_at_from_the_oldest_on_each_time() {
        let mut position = Position::default();
        assert!(!position.looked(None, false, UNTIL) && position.front.is_none());
        assert!(!position.looked(None, true, UNTIL) && position.front.is_none() && !position.was_missing);
    }

    #[test]
    fn of_a_long_backlog_only_a_few_are_looked_at_again_beside_what_is_new() {
        let mut position = Position::default();
        assert!(!position.looked(key(10), false, UNTIL) && !position.looked(key(20), false, UNTIL));
        assert_eq!(position.front, key(20));
        assert!(position.looked(None, false, UNTIL), "all has been seen");
        assert_eq!(position.front, Some((UNTIL.plus(-OVERLAP_MS), i64::MAX)));
        position.looked_again(key(5), false);
        assert!(
            position.looked(None, false, UNTIL.plus(1_000)) && position.again == key(5),
            "it goes on there"
        );
        position.looked_again(None, false);
        assert!(position.again.is_none() && position.front.is_some(), "and begins anew at the end");
        position.looked_again(None, false);
        assert!(position.front.is_none(), "the backlog is gone");
    }

    #[test]
    fn all_are_looked_at_anew_until_none_is_missing() {
        let mut position = Position::default();
        position.looked(key(10), false, UNTIL);
        position.looked(None, false, UNTIL);
        position.looked_again(key(5), true);
        assert_eq!((position.front, position.again), (None, None));
        position.looked(key(10), true, UNTIL);
        assert!(
            !position.looked(None, false, UNTIL) && position.front.is_none(),
            "once more: something was missing"
        );
        position.looked(key(10), false, UNTIL);
        assert!(position.looked(None, false, UNTIL) && position.front.is_some());
    }
}
