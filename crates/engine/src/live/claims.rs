//! What this engine has claimed and has not fired: from the hot set into the table, onto the wheel, and out of it at its instant or when
//! a caller withdraws it. Must not ask whether a lease is worth it.

use super::{
    fired::{Fired, Ready},
    index::Group,
    stage::{Event, Stage},
    steps::{is_claimed, is_executors},
    table::{Moved, Slot, Table},
};
use hashbrown::HashSet;
use punctual_contract::{hot::HotEntry, store::Assignment};
use punctual_domain::{
    place::{Partition, TaskRef},
    time::Millis,
};
use punctual_wheel::Key;

/// What a batch of entries met.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// New here, or newer: to be claimed.
    pub(crate) accepted: Vec<HotEntry>,
    /// Withdrawn and put back while their leases are on the way: only the wheel is missing.
    pub(crate) put_back: Vec<HotEntry>,
    /// Keys of older entries on the wheel, which newer ones have replaced.
    pub(crate) stale: Vec<Key>,
}

/// What entries met that the wheel has now.
#[derive(Debug, Default)]
pub(crate) struct Confirmed {
    pub(crate) count: usize,
    /// Before, nothing was to be looked at for a lease ahead.
    pub(crate) has_first_candidate: bool,
    /// Keys of entries that are not to be on the wheel: they have fired meanwhile, or were withdrawn.
    pub(crate) stale: Vec<Key>,
    /// Fired while their claim was on its way: to be offered.
    pub(crate) fired: Vec<HotEntry>,
}

/// What the table had of a partition that this engine works on no more.
#[derive(Debug, Default)]
pub(crate) struct Closed {
    pub(crate) keys: Vec<Key>,
    /// Claimed and not fired, with the fence.
    pub(crate) claimed: Vec<(TaskRef, i64)>,
    /// Fired while their claim or lease was on its way.
    pub(crate) fired: Vec<HotEntry>,
    /// Leases of what has not fired: to be given back.
    pub(crate) leased: Vec<Assignment>,
}

impl Table {
    /// Work on the partition begins: nothing has been looked at there.
    pub(crate) fn open(&mut self, partition: Partition) {
        let span = self.span_mut(partition);
        (span.is_open, span.claimed_until) = (true, Millis::ZERO);
    }

    /// Work on the partition ends. A claim or a lease that is on its way finds, when it is answered, that nobody wants it.
    pub(crate) fn close(&mut self, partition: Partition) -> Closed {
        let span = self.span_mut(partition);
        (span.is_open, span.claimed_until) = (false, Millis::ZERO);
        let there = |slot: &Slot| slot.entry.place.partition == partition;
        let mut closed = Closed::default();
        for nth in self.those(there) {
            let Some(Moved { before, gone: Some(slot) }) = self.advance(nth, Event::GivenUp) else {
                continue;
            };
            match before {
                Stage::Claiming { due: true } | Stage::Leasing { due: true } => closed.fired.push(slot.entry),
                _ => closed.claimed.extend(slot.on_wheel.map(|_| (slot.entry.row(), slot.entry.fence))),
            }
            closed.keys.extend(slot.on_wheel);
            closed.leased.extend(slot.lease.map(|lease| *lease));
        }
        closed
    }

    /// Of entries that come now, those that the claims have passed by.
    pub(crate) fn passed_by(&self, mut entries: Vec<HotEntry>) -> Vec<HotEntry> {
        entries.retain(|entry| {
            let span = self.span(entry.place.partition);
            span.is_open && entry.due_at <= span.claimed_until
        });
        entries
    }

    /// All that is due until then is going to be claimed. Returns from where on it was not yet.
    pub(crate) fn reach(&mut self, partition: Partition, until: Millis) -> Millis {
        let span = self.span_mut(partition);
        let from = span.claimed_until;
        if span.is_open {
            span.claimed_until = from.max(until);
        }
        from
    }

    /// The newest fence wins, the same fence is refused, and so is what lies in a partition of another engine.
    pub(crate) fn load(&mut self, entries: Vec<HotEntry>) -> Loaded {
        let mut loaded = Loaded::default();
        for entry in entries {
            if !self.span(entry.place.partition).is_open {
                continue;
            }
            // A claim that comes after the hand-over is of no use, and what is known of the attempt is.
            self.make_way(entry.place.id, entry.fence);
            match self.by_id.get(&entry.place.id).copied() {
                Some(nth) if self.is_refused(nth, &entry) => {
                    if self.advance(nth, Event::PutBack).is_some() {
                        loaded.put_back.push(entry);
                    }
                    continue;
                }
                Some(nth) if self.fence(nth) > Some(entry.fence) => continue,
                // Its lease, if it had one, has ended in the store with the older fence, or was given back.
                Some(nth) => loaded.stale.extend(self.remove(nth).and_then(|older| older.on_wheel)),
                None => {}
            }
            self.insert(entry.clone(), Stage::Claiming { due: false });
            loaded.accepted.push(entry);
        }
        loaded
    }

    /// The same fence is here already, and not with a lease that an executor had and that was given back.
    fn is_refused(&self, nth: usize, entry: &HotEntry) -> bool {
        self.slots.get(nth).is_some_and(|slot| slot.entry.fence == entry.fence && !is_executors(slot.stage))
    }

    /// The claims of these were made, or need none, and the wheel has them: they say in which state the store has them now.
    /// `may_lease`: by the entry, whether it may be leased ahead of its instant.
    pub(crate) fn confirm(
        &mut self,
        entries: impl Iterator<Item = (HotEntry, Key)>,
        may_lease: impl Fn(&HotEntry) -> bool,
    ) -> Confirmed {
        let mut confirmed = Confirmed::default();
        let had_candidates = !self.index.is_empty(Group::Candidate);
        for (entry, key) in entries {
            let moved = self.at(&entry).and_then(|nth| Some((nth, self.advance(nth, Event::Claimed)?)));
            let Some((nth, moved)) = moved else {
                confirmed.stale.push(key);
                continue;
            };
            if let Some(slot) = moved.gone {
                confirmed.stale.push(key);
                confirmed.fired.push(HotEntry { state: entry.state, ..slot.entry });
                continue;
            }
            confirmed.count += 1;
            if let Some(slot) = self.slots.get_mut(nth) {
                slot.on_wheel = Some(key);
                slot.entry.state = entry.state;
                if slot.stage == Stage::Waiting && may_lease(&entry) {
                    self.index.insert(slot.as_candidate(), nth);
                }
            }
        }
        confirmed.has_first_candidate = !had_candidates && !self.index.is_empty(Group::Candidate);
        confirmed
    }

    /// The claims of these were refused, or not answered. Returns what has fired meanwhile.
    pub(crate) fn not_claimed(&mut self, entries: &[HotEntry]) -> Vec<HotEntry> {
        let mut fired = Vec::new();
        for entry in entries {
            let moved = self.at(entry).and_then(|nth| self.advance(nth, Event::NotClaimed));
            if let Some(Moved { before: Stage::Claiming { due: true }, gone: Some(slot) }) = moved {
                fired.push(slot.entry);
            }
        }
        fired
    }

    /// These have come out of the hot set at their instant. `settled`: those of them, by id and fence, of which the hot set
    /// has nothing any more.
    pub(crate) fn fire(&mut self, popped: Vec<HotEntry>, settled: &HashSet<(i64, i64)>) -> Vec<Fired> {
        popped.into_iter().map(|entry| self.fire_one(entry, settled)).collect()
    }

    fn fire_one(&mut self, entry: HotEntry, settled: &HashSet<(i64, i64)>) -> Fired {
        let Some(nth) = self.at(&entry) else { return Fired::Unclaimed(entry) };
        let Some(moved) = self.advance(nth, Event::Due) else {
            // It comes a second time, or was withdrawn.
            let is_awaited =
                |slot: &Slot| matches!(slot.stage, Stage::Claiming { .. } | Stage::Leasing { .. });
            let is_awaited = self.slots.get(nth).is_some_and(is_awaited);
            return if is_awaited { Fired::Awaited } else { Fired::Unclaimed(entry) };
        };
        match moved.gone {
            Some(Slot { lease: Some(lease), asked: Some(asked), .. }) => {
                let is_settled = settled.contains(&(entry.place.id, entry.fence));
                Fired::Leased(Box::new(Ready { entry, assignment: *lease, asked, is_settled }))
            }
            Some(slot) => Fired::Claimed(HotEntry { state: slot.entry.state, ..entry }),
            None => {
                if let Some(slot) = self.slots.get_mut(nth) {
                    slot.entry = HotEntry { state: slot.entry.state, ..entry };
                }
                Fired::Awaited
            }
        }
    }

    /// A caller has taken the entry out of the hot set before its instant: should it be found there once more, this lease
    /// does not go with it. Who withdrew it takes the lease back, also one that the store is about to make. Returns its key on
    /// the wheel.
    pub(crate) fn withdrawn(&mut self, id: i64, fence: i64) -> Option<Key> {
        self.end(id, fence, &[Event::Withdrawn, Event::Forgotten])
    }

    /// The entry is not on the wheel any more, whatever became of its claim. Returns its key there.
    pub(crate) fn forget(&mut self, id: i64, fence: i64) -> Option<Key> {
        self.end(id, fence, &[Event::Forgotten])
    }

    fn end(&mut self, id: i64, fence: i64, events: &[Event]) -> Option<Key> {
        let nth = *self.by_id.get(&id)?;
        self.fence(nth).filter(|known| *known <= fence)?;
        let key = self.slots.get_mut(nth).and_then(|slot| slot.on_wheel.take());
        events.iter().find(|event| self.advance(nth, **event).is_some());
        key
    }

    /// Forgets what was due before this and did not fire here: another engine has withdrawn it, or taken it. Returns what had
    /// fired, and whose claim was never answered.
    pub(crate) fn forget_old(&mut self, before: Millis) -> Vec<HotEntry> {
        let mut fired = Vec::new();
        let old: Vec<usize> = self.index.until(Group::Claimed, before.plus(-1)).collect();
        for nth in old {
            let moved = self.advance(nth, Event::Forgotten);
            if let Some(Moved { before: Stage::Claiming { due: true }, gone: Some(slot) }) = moved {
                fired.push(slot.entry);
            }
        }
        fired
    }

    /// It is claimed with this fence, and has not fired.
    pub(crate) fn holds(&self, entry: &HotEntry) -> bool {
        self.at(entry).and_then(|nth| self.slots.get(nth)).is_some_and(|slot| is_claimed(slot.stage))
    }

    /// How many are claimed and have not fired.
    pub(crate) const fn len(&self) -> usize {
        self.unfired
    }
}
