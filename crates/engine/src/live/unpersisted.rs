//! Fired tasks that the store does not know to be ready. They are written shortly afterwards, in batches
//! (`maintenance::mark_ready`), because only displays depend on it. A crash loses them, and the next owner of
//! the partition offers the tasks again. Must not decide which are worth the write.

use super::{index::Group, kept::is_decided, stage::Stage, steps::awaits_executor, table::Table};
use hashbrown::HashSet;
use punctual_contract::hot::HotEntry;
use punctual_domain::time::Millis;

impl Table {
    /// Notes fired tasks. Returns the ids of those already noted: the refill loaded them again, because their
    /// lease was slow.
    pub(crate) fn note_fired(&mut self, fired: &[HotEntry]) -> HashSet<i64> {
        let mut known = HashSet::new();
        for entry in fired {
            let Some(nth) = self.slot_of_fired(entry) else { continue };
            let Some(slot) = self.slots.get_mut(nth) else { continue };
            if slot.is_unpersisted {
                known.insert(entry.place.id);
            }
            slot.is_unpersisted = true;
            (slot.entry.state, slot.entry.fired_at) = (entry.state, entry.fired_at);
            slot.unpersisted_rank().into_iter().for_each(|rank| self.index.insert(rank, nth));
        }
        known
    }

    /// Returns `None` if the task has its own lease, or the table has a newer fence.
    pub(super) fn slot_of_fired(&mut self, entry: &HotEntry) -> Option<usize> {
        self.make_way(entry.place.id, i64::MAX);
        let there = self.by_id.get(&entry.place.id).copied();
        match there.and_then(|nth| Some((nth, self.slots.get(nth)?))) {
            Some((_, slot)) if slot.entry.fence > entry.fence => return None,
            Some((nth, slot)) if slot.entry.fence == entry.fence && is_decided(slot.stage) => {
                return awaits_executor(slot.stage).then_some(nth);
            }
            Some((nth, _)) => drop(self.remove(nth)),
            None => {}
        }
        Some(self.insert(entry.clone(), Stage::Offered))
    }

    /// The store knows of these, or they do not count as fired: neither they nor older attempts are written.
    pub(crate) fn persisted<'e>(&mut self, entries: impl IntoIterator<Item = &'e HotEntry>) {
        entries.into_iter().for_each(|entry| self.persisted_until(entry.place.id, entry.fence));
    }

    /// The same of one task.
    pub(crate) fn persisted_until(&mut self, id: i64, fence: i64) {
        let there = self.by_id.get(&id).copied();
        let Some(nth) = there.filter(|nth| self.fence(*nth).is_some_and(|known| known <= fence)) else {
            return;
        };
        if let Some(slot) = self.slots.get_mut(nth) {
            slot.unpersisted_rank().iter().for_each(|rank| self.index.remove(rank));
            slot.is_unpersisted = false;
        }
        self.finish(nth);
    }

    /// All of which the store does not know, by their due times.
    pub(crate) fn unpersisted(&self) -> impl Iterator<Item = &HotEntry> {
        self.index.all(Group::Unpersisted).filter_map(|nth| Some(&self.slots.get(nth)?.entry))
    }

    /// The unpersisted tasks that have fired until an instant, by their due times.
    pub(crate) fn unpersisted_until(&self, until: Millis) -> impl Iterator<Item = &HotEntry> {
        let due = self.index.until(Group::Unpersisted, until);
        let entries = due.filter_map(|nth| Some(&self.slots.get(nth)?.entry));
        entries.filter(move |entry| entry.fired_at <= until)
    }

    /// The instant at which this attempt fired, if the store does not know it.
    pub(crate) fn unpersisted_at(&self, id: i64, fence: i64) -> Option<Millis> {
        let slot = self.at_fence(id, fence).and_then(|nth| self.slots.get(nth))?;
        slot.is_unpersisted.then_some(slot.entry.fired_at)
    }
}
