//! Preleases: requested before their tasks fire. Must not decide for which tasks: the caller chooses among
//! the candidates.

use super::{
    fired::{Granted, Ready},
    index::{Group, Rank},
    stage::{Stage, TaskEvent},
    table::{Moved, Slot, Table},
};
use crate::clock::steady_reading::SteadyReading;
use hashbrown::HashMap;
use punctual_contract::{hot::HotEntry, store::Assignment};
use punctual_domain::{name::QueueKey, time::Millis};
use std::sync::Arc;

impl Table {
    /// Takes the tasks that are due until then and were not yet considered for a prelease. Each is returned
    /// once.
    pub(crate) fn take_candidates(&mut self, until: Millis) -> Vec<HotEntry> {
        let near: Vec<usize> = self.index.until(Group::Candidate, until).collect();
        let entry = |nth| Some(self.slots.get(nth)?.entry.clone());
        let near: Vec<HotEntry> = near.into_iter().filter_map(entry).collect();
        let candidate = |entry: &HotEntry| Rank::At(Group::Candidate, entry.due_at, entry.place.id);
        near.iter().for_each(|entry| self.index.remove(&candidate(entry)));
        near
    }

    /// The store is about to be asked for these leases. Returns the tasks that wait.
    pub(crate) fn begin_leases(&mut self, mut entries: Vec<HotEntry>, asked: SteadyReading) -> Vec<HotEntry> {
        entries.retain(|entry| {
            let Some(nth) = self.at(entry).filter(|nth| self.advance(*nth, TaskEvent::LeaseBegun).is_some())
            else {
                return false;
            };
            if let Some(slot) = self.slots.get_mut(nth) {
                slot.asked = Some(asked);
            }
            true
        });
        entries
    }

    /// The store has made these leases.
    pub(crate) fn granted(&mut self, assignments: Vec<Assignment>) -> Vec<Granted> {
        assignments.into_iter().map(|assignment| self.granted_one(assignment)).collect()
    }

    fn granted_one(&mut self, assignment: Assignment) -> Granted {
        let asked_for = self.by_id.get(&assignment.place.id).copied();
        let asked_for = asked_for.filter(|nth| self.fence(*nth) == Some(assignment.fence - 1));
        let Some((nth, moved)) =
            asked_for.and_then(|nth| Some((nth, self.advance(nth, TaskEvent::Granted)?)))
        else {
            return Granted::Unwanted(Box::new(assignment));
        };
        match moved {
            Moved { before: Stage::Leasing { .. }, gone: Some(Slot { entry, asked: Some(asked), .. }) } => {
                Granted::Fired(Box::new(Ready { entry, assignment, asked }))
            }
            Moved { gone: Some(_), .. } => Granted::Kept,
            Moved { gone: None, .. } => {
                // And no other call has made one.
                self.set_doubt(nth, None);
                if let Some(slot) = self.slots.get_mut(nth) {
                    slot.lease = Some(Box::new(assignment));
                }
                Granted::Kept
            }
        }
    }

    /// These leases were refused, or not answered. Returns tasks that fired meanwhile.
    pub(crate) fn not_granted(&mut self, entries: &[HotEntry]) -> Vec<HotEntry> {
        let mut fired = Vec::new();
        for entry in entries {
            let moved = self.at(entry).and_then(|nth| self.advance(nth, TaskEvent::NotGranted));
            if let Some(Moved { before: Stage::Leasing { due: true }, gone: Some(slot) }) = moved {
                self.keep_doubt(&slot.entry, slot.doubt);
                fired.push(slot.entry);
            }
        }
        fired
    }

    /// Drops leases of unfired tasks. Returns the leases that were made, and the tasks that fired meanwhile.
    /// A lease that is still being requested becomes unwanted.
    pub(crate) fn drop_leases(
        &mut self,
        which: impl Fn(&HotEntry) -> bool,
    ) -> (Vec<Assignment>, Vec<HotEntry>) {
        let is_one = |nth: &usize| self.slots.get(*nth).is_some_and(|slot| which(&slot.entry));
        let numbers = self.index.all(Group::Leased).filter(is_one).collect();
        self.drop_numbered(numbers)
    }

    fn drop_numbered(&mut self, numbers: Vec<usize>) -> (Vec<Assignment>, Vec<HotEntry>) {
        let (mut made, mut fired) = (Vec::new(), Vec::new());
        for nth in numbers {
            made.extend(self.slots.get_mut(nth).and_then(|slot| slot.lease.take()).map(|lease| *lease));
            let moved = self.advance(nth, TaskEvent::LeaseDropped);
            if let Some(Moved { before: Stage::Leasing { due: true }, gone: Some(slot) }) = moved {
                self.keep_doubt(&slot.entry, slot.doubt);
                fired.push(slot.entry);
            }
        }
        (made, fired)
    }

    /// The same for all. Tasks that are claimed now are no longer considered for a prelease.
    pub(crate) fn drop_all_leases(&mut self) -> (Vec<Assignment>, Vec<HotEntry>) {
        self.take_candidates(Millis::MAX);
        self.drop_leases(|_| true)
    }

    /// True if no task is preleased or considered for it, and the store knows all holders.
    pub(crate) fn is_ahead_idle(&self) -> bool {
        let has_no_leases = self.index.is_empty(Group::Candidate) && self.index.is_empty(Group::Leased);
        has_no_leases && self.is_all_reported()
    }

    /// Per queue, how many leases are requested or made.
    pub(crate) fn leases_by_queue(&self) -> HashMap<Arc<QueueKey>, usize> {
        let mut counts: HashMap<Arc<QueueKey>, usize> = HashMap::new();
        for slot in self.index.all(Group::Leased).filter_map(|nth| self.slots.get(nth)) {
            *counts.entry(Arc::clone(&slot.entry.queue)).or_default() += 1;
        }
        counts
    }
}
