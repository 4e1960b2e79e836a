//! How far each partition has been read from the store. Reads nothing, and keeps no task.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::ownership::Tenure;
use punctual_domain::{place::Partition, time::Millis};

/// Due time and id.
pub(super) type Key = (Millis, i64);

/// Of each partition, as long as its tasks come from the store.
#[derive(Debug, Default)]
pub(crate) struct Watermarks(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    marks: HashMap<Partition, Watermark>,
    /// How often all began anew.
    era: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Watermark {
    /// Of the tenure that it is of: another one begins with the oldest.
    term: i64,
    /// What was read before all began anew says nothing any more.
    era: u64,
    /// All up to here was read. None: nothing was.
    pub(super) read_to: Option<Key>,
    /// The look at what was committed behind the watermark goes on here. None: it begins anew.
    pub(super) looked_to: Option<Key>,
    /// Up to here the last of these looks has come to its end.
    pub(super) looked_until: Option<Millis>,
}

impl Watermarks {
    pub(super) fn of(&self, tenure: Tenure) -> Watermark {
        let inner = self.0.lock();
        let known = inner.marks.get(&tenure.partition).copied();
        let anew = || Watermark { term: tenure.term, era: inner.era, ..Watermark::default() };
        known.filter(|known| known.term == tenure.term).unwrap_or_else(anew)
    }

    /// What was lowered meanwhile, since `before` was read, stays low. Where all began anew meanwhile, nothing is remembered.
    pub(super) fn remember(&self, partition: Partition, before: Watermark, after: Watermark) {
        let mut inner = self.0.lock();
        if before.era != inner.era {
            return;
        }
        let mark = inner.marks.entry(partition).or_insert(before);
        let is_lower = mark.term == before.term && mark.read_to < before.read_to;
        let read_to = if is_lower { mark.read_to } else { after.read_to };
        *mark = Watermark { read_to, ..after };
    }

    /// Something of this instant did not come into the table: it is read again.
    pub(crate) fn lower(&self, partition: Partition, due_at: Millis) {
        if let Some(mark) = self.0.lock().marks.get_mut(&partition) {
            mark.read_to = mark.read_to.min(Some((due_at.plus(-1), i64::MAX)));
        }
    }

    /// All is read again, also what is being read while this is called.
    pub(crate) fn begin_anew(&self) {
        let mut inner = self.0.lock();
        inner.marks.clear();
        inner.era += 1;
    }
}

impl Watermark {
    pub(super) fn read_until(self, key: Key) -> Self {
        Self { read_to: Some(key), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: Partition = Partition(3);

    fn key(at: i64) -> Option<Key> {
        Some((Millis(at), i64::MAX))
    }

    #[test]
    fn another_tenure_begins_with_the_oldest() {
        let (marks, tenure) = (Watermarks::default(), Tenure { partition: P, term: 4 });
        let before = marks.of(tenure);
        assert_eq!(before.read_to, None);
        marks.remember(P, before, Watermark { read_to: key(9), ..before });
        assert_eq!(marks.of(tenure).read_to, key(9));
        assert_eq!(marks.of(Tenure { term: 5, ..tenure }).read_to, None);
        marks.begin_anew();
        assert_eq!(marks.of(tenure).read_to, None);
    }

    #[test]
    fn what_was_lowered_during_a_read_is_read_again() {
        let (marks, tenure) = (Watermarks::default(), Tenure { partition: P, term: 4 });
        let before = marks.of(tenure);
        marks.lower(P, Millis(5));
        marks.remember(P, before, Watermark { read_to: key(9), ..before });
        let before = marks.of(tenure);
        marks.lower(P, Millis(5));
        marks.remember(P, before, Watermark { read_to: key(20), ..before });
        assert_eq!(marks.of(tenure).read_to, key(4));
        let before = marks.of(tenure);
        marks.remember(P, before, Watermark { read_to: key(20), ..before });
        assert_eq!(marks.of(tenure).read_to, key(20));
    }

    #[test]
    fn a_read_that_was_under_way_when_all_began_anew_moves_nothing() {
        let (marks, tenure) = (Watermarks::default(), Tenure { partition: P, term: 4 });
        let before = marks.of(tenure);
        marks.remember(P, before, Watermark { read_to: key(9), ..before });
        let (read, looked_back) = (marks.of(tenure), marks.of(tenure));
        marks.begin_anew();
        marks.remember(P, read, Watermark { read_to: key(20), ..read });
        marks.remember(P, looked_back, Watermark { looked_to: key(7), ..looked_back });
        let anew = marks.of(tenure);
        assert_eq!((anew.read_to, anew.looked_to), (None, None));
        marks.remember(P, anew, Watermark { read_to: key(5), ..anew });
        assert_eq!(marks.of(tenure).read_to, key(5), "what is read since then counts");
    }
}
