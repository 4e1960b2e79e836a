//! Fired tasks that this engine keeps: those deferred while their database does not answer, and those whose
//! lease the store is being asked for. Must not decide their order.

use super::{
    index::Group,
    stage::{Stage, TaskEvent},
    steps::{AWAITING_RETRY, BLOCKED, GATED, RETRY, awaits_executor, has_lease, is_executors, is_kept},
    table::{Slot, Table},
};
use punctual_contract::hot::HotEntry;
use punctual_domain::{
    place::{Partition, TaskRef},
    time::Millis,
};

/// The table's information about an overdue task.
#[derive(Debug)]
pub(crate) enum Overdue {
    /// The table knows nothing, or only an older fence.
    Unknown,
    /// It has fired and was offered; as it is here.
    Offered(HotEntry),
    /// This engine continues with it.
    InHand,
}

impl Table {
    /// Fired tasks that no executor is known to have: place, fence, and firing time. Leaves out offered tasks
    /// that the store knows to be ready.
    pub(crate) fn fired(&self) -> Vec<(TaskRef, i64, Millis)> {
        let is_fired = |slot: &Slot| {
            awaits_executor(slot.stage) && (slot.stage != Stage::Offered || slot.is_unpersisted)
        };
        let fired = self.slots.iter().filter(|(_, slot)| is_fired(slot));
        fired.map(|(_, slot)| (slot.entry.place, slot.entry.fence, slot.entry.fired_at)).collect()
    }

    /// The number of tasks that have fired, and are not with an executor as far as is known here.
    pub(crate) fn count_fired(&self) -> usize {
        self.slots.iter().filter(|(_, slot)| awaits_executor(slot.stage)).count()
    }

    pub(crate) fn overdue(&self, entry: &HotEntry) -> Overdue {
        let slot = self.by_id.get(&entry.place.id).and_then(|nth| self.slots.get(*nth));
        match slot {
            Some(slot) if slot.entry.fence > entry.fence => Overdue::InHand,
            Some(slot) if slot.entry.fence < entry.fence || is_executors(slot.stage) => Overdue::Unknown,
            Some(slot) if slot.stage == Stage::Offered => Overdue::Offered(slot.entry.clone()),
            Some(_) => Overdue::InHand,
            None => Overdue::Unknown,
        }
    }

    /// Defers fired tasks whose database does not answer. At most `most` are stored; the service that offers
    /// fired tasks again finds the rest.
    pub(crate) fn set_aside(&mut self, entries: &[HotEntry], most: usize) {
        for entry in entries {
            if self.index.len(Group::Database) >= most {
                return;
            }
            self.keep(entry, BLOCKED, GATED);
        }
    }

    /// Takes out deferred tasks.
    pub(crate) fn take_aside(&mut self, which: impl Fn(&HotEntry) -> bool) -> Vec<HotEntry> {
        let is_one = |nth: &usize| self.slots.get(*nth).is_some_and(|slot| which(&slot.entry));
        let those: Vec<usize> = self.index.all(Group::Database).filter(is_one).collect();
        those.into_iter().filter_map(|nth| self.take(nth)).collect()
    }

    /// These have fired, and could not be offered.
    pub(crate) fn hold_back(&mut self, entries: &[HotEntry]) {
        for entry in entries {
            if self.keep(entry, AWAITING_RETRY, RETRY) {
                self.refresh(entry);
            }
        }
    }

    /// Updates the slot: the caller's state and firing time are the latest.
    pub(super) fn refresh(&mut self, entry: &HotEntry) {
        if let Some(slot) = self.at(entry).and_then(|nth| self.slots.get_mut(nth)) {
            (slot.entry.state, slot.entry.fired_at) = (entry.state, entry.fired_at);
        }
    }

    /// Takes out the tasks that wait for a retry.
    pub(crate) fn take_held_back(&mut self) -> Vec<HotEntry> {
        let those: Vec<usize> = self.index.all(Group::Retry).collect();
        those.into_iter().filter_map(|nth| self.take(nth)).collect()
    }

    pub(super) fn take(&mut self, nth: usize) -> Option<HotEntry> {
        let entry = self.slots.get(nth)?.entry.clone();
        self.let_go(nth, TaskEvent::Taken).then_some(entry)
    }

    /// Partitions with deferred tasks; a partition may occur several times.
    pub(crate) fn aside(&self) -> impl Iterator<Item = Partition> {
        self.index.all(Group::Database).filter_map(|nth| Some(self.slots.get(nth)?.entry.place.partition))
    }

    /// The store has withdrawn or buried the task: its fired entries are removed. A pending answer does not
    /// restore them (`still_here`).
    pub(crate) fn forget_fired(&mut self, id: i64, fence: i64) {
        let there = self.by_id.get(&id).and_then(|nth| Some((*nth, self.slots.get(*nth)?)));
        if let Some((nth, _)) =
            there.filter(|(_, slot)| slot.entry.fence <= fence && awaits_executor(slot.stage))
        {
            self.remove(nth);
        }
    }

    /// Among tasks whose leases were requested, keeps those that the table still has at the same fence.
    pub(crate) fn still_here(&self, mut entries: Vec<HotEntry>) -> Vec<HotEntry> {
        entries.retain(|entry| self.at(entry).is_some());
        entries
    }

    /// Begins a request for an executor's leases. Returns the tasks that no other call requests here; the
    /// caller passes them to `end_grants`.
    pub(crate) fn begin_grants(&mut self, entries: &[HotEntry]) -> Vec<(i64, i64)> {
        let mut begun = Vec::with_capacity(entries.len());
        for entry in entries {
            if self.keep(entry, TaskEvent::GrantBegun, Stage::Granting) {
                begun.push((entry.place.id, entry.fence));
            }
        }
        begun
    }

    /// Tasks that were deferred meanwhile stay.
    pub(crate) fn end_grants(&mut self, grants: &[(i64, i64)]) {
        for (id, fence) in grants {
            let Some(nth) = self.at_fence(*id, *fence) else { continue };
            self.let_go(nth, TaskEvent::GrantEnded);
        }
    }

    /// The task has fired, and this engine keeps it, or a newer attempt of it: behind the gate of its
    /// database, or while the store is asked for its lease.
    pub(crate) fn keeps(&self, entry: &HotEntry) -> bool {
        let slot = self.by_id.get(&entry.place.id).and_then(|nth| self.slots.get(*nth));
        slot.is_some_and(|slot| slot.entry.fence >= entry.fence && is_kept(slot.stage))
    }

    /// Stores an entry. `stage` applies to an entry that is new in the table. Returns false if the entry is already
    /// stored, or has its own lease, or the table has a newer fence.
    pub(super) fn keep(&mut self, entry: &HotEntry, event: TaskEvent, stage: Stage) -> bool {
        self.make_way(entry.place.id, i64::MAX);
        let there = self.by_id.get(&entry.place.id).copied();
        match there.and_then(|nth| Some((nth, self.slots.get(nth)?))) {
            Some((_, slot)) if slot.entry.fence > entry.fence => return false,
            Some((nth, slot)) if slot.entry.fence == entry.fence && is_decided(slot.stage) => {
                return self.advance(nth, event).is_some();
            }
            Some((nth, _)) => drop(self.remove(nth)),
            None => {}
        }
        self.insert(entry.clone(), stage);
        true
    }
}

/// An entry with the same fence does not replace it.
pub(super) const fn is_decided(stage: Stage) -> bool {
    awaits_executor(stage) || has_lease(stage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        live::{Live, served::tests::plain},
        pipeline::drain::tests::entry,
    };

    #[test]
    fn what_was_withdrawn_after_it_fired_is_nowhere_and_comes_back_with_no_answer() {
        let live = Live::new(1, true);
        let all: Vec<HotEntry> = (1..8).map(|id| entry(id, 1)).collect();
        live.lock().set_aside(&all[..1], 9);
        live.lock().hold_back(&all[1..2]);
        live.lock().serve(&all[2..3], plain);
        live.lock().serve(&all[3..4], plain);
        drop(live.lock().note_fired(&all[4..5]));
        live.lock().doubt_asked(&all[5..6], "ann", Millis(9), Millis(1));
        let grants = live.grants(&all[6..]);
        let newer = HotEntry { fence: 2, ..entry(9, 1) };
        live.lock().set_aside(std::slice::from_ref(&newer), 9);
        assert_eq!(live.lock().count_fired(), 8);
        for entry in all.iter().chain([&entry(9, 1)]) {
            live.lock().forget_fired(entry.place.id, entry.fence);
        }
        assert!(
            live.lock().still_here(all).is_empty(),
            "the answer finds nothing to set aside or to hand over"
        );
        drop(grants);
        assert_eq!(live.lock().still_here(vec![newer.clone()]), [newer], "another attempt is here");
        assert_eq!(live.lock().slots.len(), 1);
        assert_eq!(live.lock().of_model().len(), 1, "nothing of them is in the index");
    }
}
