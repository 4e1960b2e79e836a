//! Every task that this engine has claimed, exactly once. Each call is a batch.
//! The only place where a stage changes is `Table::advance`; what a move leads to is decided by `steps` alone. Must not keep a
//! second copy of an entry: the two orders hold numbers of slots.

use super::{
    fired::{Closed, Confirmed, Fired, Granted, Loaded, Ready},
    known::{HandedOver, bytes_of},
    span::Span,
    stage::{Event, Stage},
    steps::{Next, goes_on, has_lease, is_claimed, step},
};
use crate::clock::moment::Moment;
use hashbrown::{HashMap, HashSet};
use punctual_contract::{
    hot::HotEntry,
    store::{Ask, Assignment},
};
use punctual_domain::{name::QueueKey, place::Partition, time::Millis};
use punctual_wheel::Key;
use slab::Slab;
use std::{collections::BTreeMap, mem, sync::Arc};

/// Slots by the instant of their entry.
pub(super) type Order = BTreeMap<(Millis, i64), usize>;

#[derive(Debug)]
pub(crate) struct Table {
    pub(super) slots: Slab<Slot>,
    pub(super) by_id: HashMap<i64, usize>,
    /// Those that wait, and were not yet looked at for a lease ahead of their instant.
    candidates: Order,
    /// Those whose lease is asked for or made.
    leases: Order,
    /// Those that have fired and stand behind a gate.
    pub(super) gated: Order,
    /// How many have not fired.
    unfired: usize,
    /// Of what was asked for, as far as it is known.
    pub(super) ask_bytes: usize,
    /// How many are with executors, and known.
    pub(super) handed_over: usize,
    spans: Vec<Span>,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) entry: HotEntry,
    pub(super) stage: Stage,
    on_wheel: Option<Key>,
    /// When its lease was asked for.
    asked: Option<Moment>,
    pub(super) lease: Option<Box<Assignment>>,
    /// What was asked for, if it is known.
    pub(super) ask: Option<Arc<Ask>>,
    pub(super) handed_over: Option<Box<HandedOver>>,
}

/// A move that was made.
pub(super) struct Moved {
    pub(super) before: Stage,
    /// The slot, if the task has left the table.
    pub(super) gone: Option<Slot>,
}

impl Table {
    pub(super) fn new(partitions: usize, are_open: bool) -> Self {
        let span = || Span::new(are_open);
        Self {
            slots: Slab::new(),
            by_id: HashMap::new(),
            candidates: Order::new(),
            leases: Order::new(),
            gated: Order::new(),
            unfired: 0,
            ask_bytes: 0,
            handed_over: 0,
            spans: (0..partitions).map(|_| span()).collect(),
        }
    }

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
            let ask = self.take_known(&entry);
            match self.by_id.get(&entry.place.id).copied() {
                Some(nth) if self.fence(nth) == Some(entry.fence) => {
                    if self.advance(nth, Event::PutBack).is_some() {
                        loaded.put_back.push(entry);
                    }
                    continue;
                }
                Some(nth) if self.fence(nth) > Some(entry.fence) => continue,
                // Its lease, if it had one, has ended in the store with the older fence.
                Some(nth) => loaded.stale.extend(self.remove(nth).and_then(|older| older.on_wheel)),
                None => {}
            }
            let nth = self.insert(entry.clone(), Stage::Claiming { due: false });
            ask.into_iter().for_each(|ask| self.set_ask(nth, ask));
            loaded.accepted.push(entry);
        }
        loaded
    }

    /// The claims of these were made, or need none, and the wheel has them: they say in which state the store has them now.
    /// `may_lease`: by the entry, whether it may be leased ahead of its instant.
    pub(crate) fn confirm(
        &mut self,
        entries: impl Iterator<Item = (HotEntry, Key)>,
        may_lease: impl Fn(&HotEntry) -> bool,
    ) -> Confirmed {
        let mut confirmed = Confirmed::default();
        let had_candidates = !self.candidates.is_empty();
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
                    self.candidates.insert(entry.key(), nth);
                }
            }
        }
        confirmed.has_first_candidate = !had_candidates && !self.candidates.is_empty();
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

    /// Those that are due until then and were not looked at for a lease ahead. Each is answered once.
    pub(crate) fn take_candidates(&mut self, until: Millis) -> Vec<HotEntry> {
        let later = self.candidates.split_off(&(until, i64::MAX));
        let near = mem::replace(&mut self.candidates, later);
        near.into_values().filter_map(|nth| Some(self.slots.get(nth)?.entry.clone())).collect()
    }

    /// The store is about to be asked for the leases of these. Returns those that wait and are not being loaded from an older
    /// look at the store.
    pub(crate) fn begin_leases(
        &mut self,
        mut entries: Vec<HotEntry>,
        now: Millis,
        asked: Moment,
    ) -> Vec<HotEntry> {
        entries.retain(|entry| {
            if self.span(entry.place.partition).is_being_loaded(entry.due_at, now) {
                return false;
            }
            let Some(nth) = self.at(entry).filter(|nth| self.advance(*nth, Event::LeaseBegun).is_some())
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
        let Some((nth, moved)) = asked_for.and_then(|nth| Some((nth, self.advance(nth, Event::Granted)?)))
        else {
            return Granted::Unwanted(Box::new(assignment));
        };
        match moved {
            Moved { before: Stage::Leasing { .. }, gone: Some(Slot { entry, asked: Some(asked), .. }) } => {
                Granted::Fired(Box::new(Ready { entry, assignment, asked, is_settled: false }))
            }
            Moved { gone: Some(_), .. } => Granted::Kept,
            Moved { gone: None, .. } => {
                if let Some(slot) = self.slots.get_mut(nth) {
                    slot.lease = Some(Box::new(assignment));
                }
                Granted::Kept
            }
        }
    }

    /// The leases of these were refused, or not answered. Returns what has fired meanwhile.
    pub(crate) fn not_granted(&mut self, entries: &[HotEntry]) -> Vec<HotEntry> {
        let mut fired = Vec::new();
        for entry in entries {
            let moved = self.at(entry).and_then(|nth| self.advance(nth, Event::NotGranted));
            if let Some(Moved { before: Stage::Leasing { due: true }, gone: Some(slot) }) = moved {
                fired.push(slot.entry);
            }
        }
        fired
    }

    /// Gives up leases of what has not fired. Returns those that were made, and what has fired meanwhile. A lease that is
    /// being asked for finds that nobody wants it.
    pub(crate) fn drop_leases(
        &mut self,
        which: impl Fn(&HotEntry) -> bool,
    ) -> (Vec<Assignment>, Vec<HotEntry>) {
        let entries =
            self.leases.values().filter(|nth| self.slots.get(**nth).is_some_and(|slot| which(&slot.entry)));
        let numbers: Vec<usize> = entries.copied().collect();
        let (mut made, mut fired) = (Vec::new(), Vec::new());
        for nth in numbers {
            made.extend(self.slots.get_mut(nth).and_then(|slot| slot.lease.take()).map(|lease| *lease));
            let moved = self.advance(nth, Event::LeaseDropped);
            if let Some(Moved { before: Stage::Leasing { due: true }, gone: Some(slot) }) = moved {
                fired.push(slot.entry);
            }
        }
        (made, fired)
    }

    /// The same for all, and nothing more is leased ahead of what is claimed now.
    pub(crate) fn drop_all_leases(&mut self) -> (Vec<Assignment>, Vec<HotEntry>) {
        self.candidates.clear();
        self.drop_leases(|_| true)
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
    /// fired, and whose claim was never answered. Of hand-overs nothing is known any more whose time is over.
    pub(crate) fn forget_old(&mut self, before: Millis, now: Millis) -> Vec<HotEntry> {
        let mut fired = Vec::new();
        let is_old = |slot: &Slot| match &slot.handed_over {
            Some(handed_over) => handed_over.until <= now,
            None => slot.entry.due_at < before && !has_lease(slot.stage),
        };
        for nth in self.those(is_old) {
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

    /// Nothing is leased ahead, and nothing is to be looked at for it.
    pub(crate) fn has_no_leases(&self) -> bool {
        self.candidates.is_empty() && self.leases.is_empty()
    }

    /// Of each queue, how many leases are asked for or made.
    pub(crate) fn leases_by_queue(&self) -> HashMap<Arc<QueueKey>, usize> {
        let mut counts: HashMap<Arc<QueueKey>, usize> = HashMap::new();
        for slot in self.leases.values().filter_map(|nth| self.slots.get(*nth)) {
            *counts.entry(Arc::clone(&slot.entry.queue)).or_default() += 1;
        }
        counts
    }

    /// Those that are leased and due by then, by partition, id and fence: when they fire, their hand-over is known.
    pub(crate) fn leased_until(&self, until: Millis) -> HashMap<Partition, HashSet<(i64, i64)>> {
        let mut leased: HashMap<Partition, HashSet<(i64, i64)>> = HashMap::new();
        let due = self.leases.range(..=(until, i64::MAX)).filter_map(|(_, nth)| self.slots.get(*nth));
        for Slot { entry, .. } in due.filter(|slot| slot.stage == Stage::Leased) {
            leased.entry(entry.place.partition).or_default().insert((entry.place.id, entry.fence));
        }
        leased
    }

    /// Each task: id, fence, stage, and whether each of the orders has it.
    #[cfg(test)]
    pub(super) fn of_model(&self) -> Vec<(i64, i64, Stage, bool, bool)> {
        let is_in = |order: &Order, slot: &Slot, nth| order.get(&slot.entry.key()) == Some(&nth);
        assert_eq!(self.by_id.len(), self.slots.len());
        assert!(self.candidates.len() + self.leases.len() + self.gated.len() <= self.slots.len());
        assert_eq!(self.ask_bytes, self.slots.iter().map(|(_, slot)| bytes_of(slot.ask.as_ref())).sum::<usize>());
        let is_handed_over = |slot: &Slot| slot.stage == Stage::HandedOver;
        assert_eq!(self.handed_over, self.slots.iter().filter(|(_, slot)| is_handed_over(slot)).count());
        assert_eq!(self.unfired, self.slots.iter().filter(|(_, slot)| is_claimed(slot.stage)).count());
        assert!(self.gated.values().all(|nth| self.slots.get(*nth).is_some_and(|slot| is_gated(slot.stage))));
        let of = |(nth, slot): (usize, &Slot)| {
            let (candidate, leases) = (is_in(&self.candidates, slot, nth), is_in(&self.leases, slot, nth));
            (slot.entry.place.id, slot.entry.fence, slot.stage, candidate, leases)
        };
        self.slots.iter().map(of).collect()
    }

    /// The only place where a stage changes. None: the event is not legal here, and changes nothing.
    pub(super) fn advance(&mut self, nth: usize, event: Event) -> Option<Moved> {
        let slot = self.slots.get_mut(nth)?;
        let before = slot.stage;
        let Next::To(after) = step(before, event)? else {
            let gone = self.remove(nth);
            if let Some(slot) = gone.as_ref().filter(|slot| slot.lease.is_none() && goes_on(event)) {
                self.remember(slot);
            }
            return Some(Moved { before, gone });
        };
        slot.stage = after;
        let key = slot.entry.key();
        if before != after {
            self.candidates.remove(&key);
        }
        self.count(before, after);
        for (order, is_in) in [(&mut self.leases, has_lease(after)), (&mut self.gated, is_gated(after))] {
            _ = if is_in { order.insert(key, nth) } else { order.remove(&key) };
        }
        Some(Moved { before, gone: None })
    }

    fn count(&mut self, before: Stage, after: Stage) {
        self.unfired += usize::from(is_claimed(after));
        self.unfired -= usize::from(is_claimed(before));
        self.handed_over += usize::from(after == Stage::HandedOver);
        self.handed_over -= usize::from(before == Stage::HandedOver);
    }

    pub(super) fn insert(&mut self, entry: HotEntry, stage: Stage) -> usize {
        let (id, key) = (entry.place.id, entry.key());
        let slot =
            Slot { entry, stage, on_wheel: None, asked: None, lease: None, ask: None, handed_over: None };
        let nth = self.slots.insert(slot);
        self.by_id.insert(id, nth);
        self.unfired += usize::from(is_claimed(stage));
        self.handed_over += usize::from(stage == Stage::HandedOver);
        if is_gated(stage) {
            self.gated.insert(key, nth);
        }
        nth
    }

    pub(super) fn remove(&mut self, nth: usize) -> Option<Slot> {
        let slot = self.slots.try_remove(nth)?;
        self.by_id.remove(&slot.entry.place.id);
        self.candidates.remove(&slot.entry.key());
        self.leases.remove(&slot.entry.key());
        self.gated.remove(&slot.entry.key());
        self.unfired -= usize::from(is_claimed(slot.stage));
        self.handed_over -= usize::from(slot.stage == Stage::HandedOver);
        self.ask_bytes -= bytes_of(slot.ask.as_ref());
        Some(slot)
    }

    pub(super) fn those(&self, which: impl Fn(&Slot) -> bool) -> Vec<usize> {
        self.slots.iter().filter(|(_, slot)| which(slot)).map(|(nth, _)| nth).collect()
    }

    /// The slot of this task at this fence.
    pub(super) fn at(&self, entry: &HotEntry) -> Option<usize> {
        let nth = *self.by_id.get(&entry.place.id)?;
        (self.fence(nth) == Some(entry.fence)).then_some(nth)
    }

    pub(super) fn fence(&self, nth: usize) -> Option<i64> {
        self.slots.get(nth).map(|slot| slot.entry.fence)
    }

    fn span(&self, partition: Partition) -> &Span {
        self.spans.get(usize::from(partition.0)).expect("places name partitions of this store")
    }

    pub(super) fn span_mut(&mut self, partition: Partition) -> &mut Span {
        self.spans.get_mut(usize::from(partition.0)).expect("places name partitions of this store")
    }
}

const fn is_gated(stage: Stage) -> bool {
    matches!(stage, Stage::Ready { gate: Some(_) })
}
