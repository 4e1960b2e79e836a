//! Entries in the order of one of their instants, found by their id as well. Built to be small, because a million
//! of them wait here: the entry stands once, in a slab; order and index hold four-byte slots of it.
//! Never decides whether an entry may come or go.

use hashbrown::{DefaultHashBuilder, HashTable, hash_table};
use punctual_contract::hot::HotEntry;
use punctual_domain::time::Millis;
use std::{collections::BTreeMap, hash::BuildHasher as _};

/// A slab that has emptied gives its memory back above this many slots; below, it is kept for the next entry.
const KEPT_SLOTS: usize = 1_024;

#[derive(Debug)]
pub(crate) struct Line {
    /// The instant that this line is ordered by.
    at: fn(&HotEntry) -> Millis,
    slots: Vec<Option<HotEntry>>,
    free: Vec<u32>,
    order: BTreeMap<(Millis, i64), u32>,
    /// Slots, hashed by the id of the entry that is in them.
    by_id: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// Of what hand-overs need, which its entries bring.
    ask_bytes: usize,
}

impl Line {
    pub(crate) fn by(at: fn(&HotEntry) -> Millis) -> Self {
        Self {
            at,
            slots: Vec::new(),
            free: Vec::new(),
            order: BTreeMap::new(),
            by_id: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            ask_bytes: 0,
        }
    }

    pub(crate) const fn ask_bytes(&self) -> usize {
        self.ask_bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn get(&self, id: i64) -> Option<&HotEntry> {
        let slot = self.by_id.find(self.hasher.hash_one(id), |it| id_in(&self.slots, *it) == Some(id))?;
        entry_in(&self.slots, *slot)
    }

    /// What stood under the same id goes.
    pub(crate) fn put(&mut self, entry: HotEntry) {
        let id = entry.place.id;
        self.remove(id);
        let key = ((self.at)(&entry), id);
        let slot = self.fill_slot(entry);
        self.order.insert(key, slot);
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.by_id
            .insert_unique(hasher.hash_one(id), slot, |it| hasher.hash_one(id_in(slots, *it).unwrap_or(0)));
    }

    pub(crate) fn remove(&mut self, id: i64) -> Option<HotEntry> {
        let key = ((self.at)(self.get(id)?), id);
        let slot = self.order.remove(&key)?;
        self.empty_slot(id, slot)
    }

    /// The first entry, if its instant is at or before `until`.
    pub(crate) fn pop_until(&mut self, until: Millis) -> Option<HotEntry> {
        let first = self.order.first_entry().filter(|it| it.key().0 <= until)?;
        let ((_, id), slot) = first.remove_entry();
        self.empty_slot(id, slot)
    }

    /// In order, after a position, up to and with `until`.
    #[cfg(test)]
    fn range(&self, after: Option<(Millis, i64)>, until: Millis) -> impl Iterator<Item = &HotEntry> + '_ {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let last = (until, i64::MAX);
        let (from, to) = match after {
            // A range that ends before it begins would panic.
            Some(it) if it >= last => (Included(last), Excluded(last)),
            Some(it) => (Excluded(it), Included(last)),
            None => (Unbounded, Included(last)),
        };
        self.order.range((from, to)).filter_map(|(_, slot)| entry_in(&self.slots, *slot))
    }

    fn fill_slot(&mut self, entry: HotEntry) -> u32 {
        self.ask_bytes += ask_bytes(&entry);
        if let Some(slot) = self.free.pop() {
            if let Some(place) = index(slot).and_then(|it| self.slots.get_mut(it)) {
                *place = Some(entry);
            }
            return slot;
        }
        if self.slots.len() == self.slots.capacity() {
            // By an eighth, not by doubling: at a million entries the spare half would be 88 MB.
            self.slots.reserve_exact((self.slots.len() / 8).max(16));
        }
        let slot = u32::try_from(self.slots.len()).expect("memory ends before 2^32 entries of 88 bytes");
        self.slots.push(Some(entry));
        slot
    }

    fn empty_slot(&mut self, id: i64, slot: u32) -> Option<HotEntry> {
        if let Ok(it) = self.by_id.find_entry(self.hasher.hash_one(id), |it| *it == slot) {
            hash_table::OccupiedEntry::remove(it);
        }
        let entry = index(slot).and_then(|it| self.slots.get_mut(it)).and_then(Option::take);
        self.free.push(slot);
        self.ask_bytes -= entry.as_ref().map_or(0, ask_bytes);
        if self.order.is_empty() && self.slots.len() > KEPT_SLOTS {
            *self = Self::by(self.at);
        }
        entry
    }
}

/// With what the allocator and the map of labels take besides, about.
fn ask_bytes(entry: &HotEntry) -> usize {
    const BESIDES: usize = 256;
    entry.ask().map_or(0, |ask| ask.bytes() + BESIDES)
}

fn index(slot: u32) -> Option<usize> {
    usize::try_from(slot).ok()
}

fn entry_in(slots: &[Option<HotEntry>], slot: u32) -> Option<&HotEntry> {
    slots.get(index(slot)?)?.as_ref()
}

fn id_in(slots: &[Option<HotEntry>], slot: u32) -> Option<i64> {
    entry_in(slots, slot).map(|it| it.place.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::sample;

    fn ids<'a>(entries: impl Iterator<Item = &'a HotEntry>) -> Vec<i64> {
        entries.map(|it| it.place.id).collect()
    }

    #[test]
    fn order_and_index_agree_after_any_mix_of_steps() {
        let mut line = Line::by(|it| it.due_at);
        for id in 0..3_000 {
            line.put(sample(id, (id * 7_919) % 1_000, 1));
        }
        for id in (0..3_000).step_by(3) {
            assert_eq!(line.remove(id).unwrap().place.id, id);
        }
        for id in (0..3_000).step_by(2) {
            line.put(sample(id, id % 10, 2));
        }
        let left: Vec<i64> = (0..3_000).filter(|id| id % 3 != 0 || id % 2 == 0).collect();
        assert_eq!(line.len(), left.len());
        let mut found = ids(line.range(None, Millis::MAX));
        assert!(line.range(None, Millis::MAX).map(HotEntry::key).is_sorted());
        found.sort_unstable();
        assert_eq!(found, left);
        assert!(left.iter().all(|id| line.get(*id).is_some()));
        while line.pop_until(Millis::MAX).is_some() {}
        assert_eq!((line.len(), line.slots.len(), line.by_id.len()), (0, 0, 0), "memory is given back");
    }

    #[test]
    fn a_range_that_is_empty_or_turned_round_yields_nothing() {
        let mut line = Line::by(|it| it.due_at);
        line.put(sample(i64::MAX, 5, 1));
        assert_eq!(ids(line.range(None, Millis(5))), [i64::MAX]);
        assert_eq!(ids(line.range(Some((Millis(5), i64::MAX)), Millis(5))), [0; 0]);
        assert_eq!(ids(line.range(Some((Millis(9), 0)), Millis(5))), [0; 0]);
    }
}
