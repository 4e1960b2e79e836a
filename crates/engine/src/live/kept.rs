//! What has fired and this engine looks after: the lines of executors that are busy, what is set aside while its database does not
//! answer, and what the store is asked for on behalf of an executor. Must not decide which of it goes first.

use super::{
    stage::{Event, Gate, Stage},
    steps::{IN_LINE, has_lease, is_kept},
    table::Table,
};
use punctual_contract::hot::HotEntry;
use punctual_domain::place::Partition;

impl Table {
    /// These have fired, and are kept in the line of their queue. Returns those that are not kept already.
    pub(crate) fn keep_in_line(&mut self, mut entries: Vec<HotEntry>) -> Vec<HotEntry> {
        entries.retain(|entry| self.keep(entry, IN_LINE));
        entries
    }

    /// These have fired, and their database does not answer. No more are kept than `most`; the rest is left to whoever offers
    /// again what has fired.
    pub(crate) fn set_aside(&mut self, entries: &[HotEntry], most: usize) {
        for entry in entries {
            if self.gated.len() >= most {
                return;
            }
            let is_kept_here = self.at(entry).is_some_and(|nth| self.is_kept_at(nth));
            if is_kept_here {
                self.at(entry).and_then(|nth| self.advance(nth, Event::Blocked(Gate::Database)));
            } else {
                self.keep(entry, Stage::Ready { gate: Some(Gate::Database) });
            }
        }
    }

    /// Takes out what was set aside.
    pub(crate) fn take_aside(&mut self, which: impl Fn(&HotEntry) -> bool) -> Vec<HotEntry> {
        let those = self.gated.values().copied();
        let those = those.filter(|nth| self.slots.get(*nth).is_some_and(|slot| which(&slot.entry)));
        let those: Vec<usize> = those.collect();
        those.into_iter().filter_map(|nth| Some(self.advance(nth, Event::Taken)?.gone?.entry)).collect()
    }

    /// Partitions of which something is set aside, some of them more than once.
    pub(crate) fn aside(&self) -> impl Iterator<Item = Partition> {
        self.gated.values().filter_map(|nth| Some(self.slots.get(*nth)?.entry.place.partition))
    }

    /// These are taken out of their line, to be offered elsewhere or to an executor.
    pub(crate) fn leave_line<'e>(&mut self, entries: impl Iterator<Item = &'e HotEntry>) {
        for entry in entries {
            let in_line =
                self.at(entry).filter(|nth| self.slots.get(*nth).is_some_and(|slot| slot.stage == IN_LINE));
            in_line.and_then(|nth| self.advance(nth, Event::Taken));
        }
    }

    /// The store is asked for the leases of an executor. Returns those that nobody else asks for here; they are named again
    /// when the call has ended.
    pub(crate) fn begin_grants(&mut self, entries: &[HotEntry]) -> Vec<(i64, i64)> {
        let mut begun = Vec::with_capacity(entries.len());
        for entry in entries {
            let is_begun = match self.at(entry).filter(|nth| self.is_kept_at(*nth)) {
                Some(nth) => self.advance(nth, Event::GrantBegun).is_some(),
                None => self.keep(entry, Stage::Granting),
            };
            if is_begun {
                begun.push((entry.place.id, entry.fence));
            }
        }
        begun
    }

    /// What was set aside meanwhile stays.
    pub(crate) fn end_grants(&mut self, grants: &[(i64, i64)]) {
        for (id, fence) in grants {
            let nth = self.by_id.get(id).copied().filter(|nth| self.fence(*nth) == Some(*fence));
            nth.and_then(|nth| self.advance(nth, Event::GrantEnded));
        }
    }

    /// It has fired, and this engine looks after it, or after a newer attempt of it: in a line, behind a gate, or while the
    /// store is asked for its lease. Nobody else has to.
    pub(crate) fn keeps(&self, entry: &HotEntry) -> bool {
        let slot = self.by_id.get(&entry.place.id).and_then(|nth| self.slots.get(*nth));
        slot.is_some_and(|slot| slot.entry.fence >= entry.fence && is_kept(slot.stage))
    }

    fn is_kept_at(&self, nth: usize) -> bool {
        self.slots.get(nth).is_some_and(|slot| is_kept(slot.stage))
    }

    /// False: it is kept already or has its own lease, or something newer is here.
    fn keep(&mut self, entry: &HotEntry, stage: Stage) -> bool {
        let ask = self.take_known(entry);
        if let Some((nth, slot)) =
            self.by_id.get(&entry.place.id).and_then(|nth| Some((*nth, self.slots.get(*nth)?)))
        {
            let is_there = slot.entry.fence == entry.fence && (is_kept(slot.stage) || has_lease(slot.stage));
            if is_there || slot.entry.fence > entry.fence {
                return false;
            }
            self.remove(nth);
        }
        let nth = self.insert(entry.clone(), stage);
        ask.into_iter().for_each(|ask| self.set_ask(nth, ask));
        true
    }
}
