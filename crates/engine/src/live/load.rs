//! Loads from the store into the hot set, as far as the table has to know of them (`span` says why). Must not load anything itself.

use super::{
    Live,
    span::{NEAR_MS, Range},
    stage::{Event, Stage},
    steps::has_lease,
    table::Table,
};
use hashbrown::HashMap;
use punctual_contract::{hot::HotEntry, store::Assignment};
use punctual_domain::{place::Partition, time::Millis};
use std::mem;

/// A load that is under way, until it is dropped.
#[derive(Debug)]
pub(crate) struct Load<'a> {
    live: &'a Live,
    ranges: Vec<(Partition, Range)>,
    /// None: it was answered.
    unanswered_at: Option<Millis>,
}

impl Load<'_> {
    /// Nothing of it comes any more.
    pub(crate) fn answered(mut self) {
        self.unanswered_at = None;
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        let mut table = self.live.lock();
        for (partition, range) in mem::take(&mut self.ranges) {
            table.span_mut(partition).end_load(range, self.unanswered_at);
        }
    }
}

impl Live {
    /// These were found in the store and are about to be loaded into the hot set: takes out of them what is leased ahead.
    /// Returns the leases of these, which are good for nothing any more: given back, the store says whether they were still
    /// there, and only then they are loaded.
    pub(crate) fn begin_load(&self, entries: &mut Vec<HotEntry>, now: Millis) -> (Load<'_>, Vec<Assignment>) {
        let mut table = self.lock();
        let is_leased = |table: &Table, entry: &HotEntry| {
            table.at(entry).and_then(|nth| table.slots.get(nth)).is_some_and(|slot| has_lease(slot.stage))
        };
        let (leased, others): (Vec<_>, Vec<_>) =
            mem::take(entries).into_iter().partition(|entry| is_leased(&table, entry));
        let mut made = Vec::new();
        for nth in leased.iter().filter_map(|entry| table.at(entry)).collect::<Vec<_>>() {
            let is_made = table.slots.get(nth).is_some_and(|slot| matches!(slot.stage, Stage::Leased { .. }));
            if is_made {
                made.extend(table.slots.get_mut(nth).and_then(|slot| slot.lease.take()).map(|lease| *lease));
                table.advance(nth, Event::LeaseDropped);
            }
        }
        let mut ranges: HashMap<Partition, Range> = HashMap::new();
        for entry in others.iter().filter(|entry| entry.due_at <= now.plus(NEAR_MS)) {
            let range = ranges.entry(entry.place.partition);
            let range = range.or_insert(Range { from: entry.due_at, until: entry.due_at });
            *range = Range { from: range.from.min(entry.due_at), until: range.until.max(entry.due_at) };
        }
        let ranges: Vec<(Partition, Range)> = ranges.into_iter().collect();
        ranges.iter().for_each(|(partition, range)| table.span_mut(*partition).begin_load(*range));
        *entries = others;
        (Load { live: self, ranges, unanswered_at: Some(now) }, made)
    }
}
