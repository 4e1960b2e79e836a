//! What was committed here and could not be loaded, because the hot set did not answer this engine: it lies behind its owner's
//! frontier, and only the owner's sweep would find it, late. Remembered as one span of time a partition, and loaded from the
//! store as soon as the hot set answers again, whoever owns the partition. Never the only way: a crash forgets it, and the
//! sweep finds what is overdue.

use crate::{core::Core, parts, pipeline::preload};
use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::{Error, hot::HotEntry};
use punctual_domain::{place::Partition, time::Millis};
use std::sync::Arc;

#[derive(Debug, Default)]
pub(crate) struct Missed {
    spans: Mutex<HashMap<Partition, (Millis, Millis)>>,
}

impl Missed {
    pub(crate) fn note<'e>(&self, entries: impl Iterator<Item = &'e HotEntry>) {
        let mut spans = self.spans.lock();
        entries.for_each(|it| widen(&mut spans, it.place.partition, (it.due_at, it.due_at)));
    }
}

fn widen(
    spans: &mut HashMap<Partition, (Millis, Millis)>,
    partition: Partition,
    (from, until): (Millis, Millis),
) {
    let span = spans.entry(partition).or_insert((from, until));
    *span = (span.0.min(from), span.1.max(until));
}

/// Entries loaded, each part of the store by itself. What fails is tried again with the next run.
pub(crate) async fn load(core: &Arc<Core>) -> Result<usize, Error> {
    if core.missed.spans.lock().is_empty() {
        return Ok(0);
    }
    parts::each(core, "missed", parts::PATIENCE, |core, part| async move { load_in(&core, part).await }).await
}

async fn load_in(core: &Arc<Core>, part: usize) -> Result<usize, Error> {
    let is_there = |it: &Partition, _: &mut (Millis, Millis)| parts::is_in(core, part, *it);
    let spans: Vec<_> = core.missed.spans.lock().extract_if(is_there).collect();
    let (mut loaded, mut result) = (0, Ok(()));
    for (partition, span) in spans {
        match preload::load_span(core, partition, span).await {
            Ok(count) => loaded += count,
            Err(error) => {
                widen(&mut core.missed.spans.lock(), partition, span);
                result = Err(error);
            }
        }
    }
    result.map(|()| loaded)
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
