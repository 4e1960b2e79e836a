//! The watermark up to which each partition has been read from the store. Reads nothing, and stores no task.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::ownership::Tenure;
use punctual_domain::{place::Partition, time::Millis};

/// Due time and id.
pub(super) type Key = (Millis, i64);

/// The watermark of each partition, while its tasks are read from the store.
#[derive(Debug, Default)]
pub(crate) struct Watermarks(Mutex<Marks>);

#[derive(Debug, Default)]
struct Marks {
    of: HashMap<Partition, Watermark>,
    /// Grows with each reset of all watermarks.
    generation: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Watermark {
    /// The term of the owner that made it. The next owner begins with the oldest task.
    term: i64,
    /// A read that began before the last reset moves nothing.
    generation: u64,
    /// Everything up to here was read. `None` if nothing was.
    pub(super) read_to: Option<Key>,
    /// The position where the scan for late commits behind the watermark resumes. `None` is its beginning.
    pub(super) looked_to: Option<Key>,
    /// Up to here the last of these scans was completed.
    pub(super) looked_until: Option<Millis>,
}

impl Watermarks {
    pub(super) fn of(&self, tenure: Tenure) -> Watermark {
        let marks = self.0.lock();
        let known = marks.of.get(&tenure.partition).copied().filter(|known| known.term == tenure.term);
        let (term, generation) = (tenure.term, marks.generation);
        known.unwrap_or_else(|| Watermark { term, generation, ..Watermark::default() })
    }

    /// A watermark that was lowered since `before` was read stays low.
    pub(super) fn remember(&self, partition: Partition, before: Watermark, after: Watermark) {
        let mut marks = self.0.lock();
        if before.generation != marks.generation {
            return;
        }
        let mark = marks.of.entry(partition).or_insert(before);
        let is_lower = mark.term == before.term && mark.read_to < before.read_to;
        let read_to = if is_lower { mark.read_to } else { after.read_to };
        *mark = Watermark { read_to, ..after };
    }

    /// A task with this due time was not loaded into the table: it must be read again.
    pub(crate) fn lower(&self, partition: Partition, due_at: Millis) {
        if let Some(mark) = self.0.lock().of.get_mut(&partition) {
            mark.read_to = mark.read_to.min(Some((due_at.plus(-1), i64::MAX)));
        }
    }

    /// All is read again.
    pub(crate) fn begin_anew(&self) {
        let mut marks = self.0.lock();
        marks.of.clear();
        marks.generation += 1;
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
    fn a_read_that_began_before_all_was_begun_anew_moves_nothing() {
        let (marks, tenure) = (Watermarks::default(), Tenure { partition: P, term: 4 });
        let before = marks.of(tenure);
        marks.begin_anew();
        marks.remember(P, before, Watermark { read_to: key(9), ..before });
        assert_eq!(marks.of(tenure).read_to, None);
        let before = marks.of(tenure);
        marks.remember(P, before, Watermark { read_to: key(9), ..before });
        assert_eq!(marks.of(tenure).read_to, key(9));
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
}
