//! Spans of time of each partition whose tasks could not be loaded into the hot set. Loads nothing itself.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::hot::HotEntry;
use punctual_domain::{place::Partition, time::Millis};

#[derive(Debug, Default)]
pub(crate) struct Missed {
    pub(super) spans: Mutex<HashMap<Partition, (Millis, Millis)>>,
}

impl Missed {
    pub(crate) fn note<'e>(&self, entries: impl Iterator<Item = &'e HotEntry>) {
        let mut spans = self.spans.lock();
        entries.for_each(|it| widen(&mut spans, it.place.partition, (it.due_at, it.due_at)));
    }
}

pub(super) fn widen(
    spans: &mut HashMap<Partition, (Millis, Millis)>,
    partition: Partition,
    (from, until): (Millis, Millis),
) {
    let span = spans.entry(partition).or_insert((from, until));
    *span = (span.0.min(from), span.1.max(until));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::claim::tests::entry;

    #[test]
    fn of_each_partition_the_span_of_all_is_remembered() {
        let it = Missed::default();
        it.note([entry(1, 30), entry(2, 10), entry(3, 20)].iter());
        assert_eq!(it.spans.lock().get(&Partition(0)), Some(&(Millis(10), Millis(30))));
    }
}
