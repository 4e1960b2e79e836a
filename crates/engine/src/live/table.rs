//! Every task of this engine, exactly once. Each call is a batch; `waiting`, `leases`, `kept`, `served`,
//! `unpersisted`, `doubt`, `handed_over` and `for_later` have the calls. A stage changes only in
//! `Table::advance`; `steps` alone decides what a move leads to. Must not keep a second copy of an entry: the
//! index holds numbers of slots.

use super::{
    doubt::Doubt,
    handed_over::Attempt,
    index::{Group, Index, Rank},
    line::ParkedIn,
    stage::{Gate, HolderReport, Stage, TaskEvent},
    steps::{
        FOR_LATER, Next, PARKED, REPORTED, SERVED, has_lease, has_not_fired, is_before_lease, is_served, step,
    },
};
use crate::clock::steady_reading::SteadyReading;
use hashbrown::HashMap;
use punctual_contract::{hot::HotEntry, store::Assignment};
use punctual_domain::{
    chooser::Level, order::Versioned as _, place::Partition, settings::Retries, state::State, time::Millis,
};
use slab::Slab;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Table {
    pub(super) slots: Slab<Slot>,
    pub(super) by_id: HashMap<i64, usize>,
    pub(super) index: Index,
    /// The number of tasks that have not fired.
    pub(super) unfired: usize,
    /// The number of attempts at executors of which something is known.
    pub(super) known_attempts: usize,
    /// By partition: true if this engine works on it. In the other partitions no task waits to fire.
    open: Vec<bool>,
    /// The number of times that each move was made.
    #[cfg(test)]
    pub(super) moves: HashMap<(Stage, TaskEvent), usize>,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) entry: HotEntry,
    pub(super) stage: Stage,
    /// The store has made the claim.
    pub(super) is_claimed: bool,
    /// The instant of the request for the lease.
    pub(super) asked: Option<SteadyReading>,
    pub(super) lease: Option<Box<Assignment>>,
    /// Fired, and the store does not know yet that it is ready.
    pub(super) is_unpersisted: bool,
    /// A lease of the task may have been made that never reached its executor.
    pub(super) doubt: Option<Box<Doubt>>,
    /// The attempt of a task that is handed over.
    pub(super) attempt: Option<Box<Attempt>>,
    /// The level of a task in a line.
    pub(super) level: Level,
    /// The lane of a parked task.
    pub(super) aside: ParkedIn,
    /// The instant at which the task was passed to another engine.
    pub(super) passed_at: Millis,
}

impl Slot {
    pub(super) fn new(entry: HotEntry, stage: Stage) -> Self {
        Self {
            level: Level::of(entry.priority, entry.attempt, Retries::default()),
            is_claimed: entry.state == State::Dispatching,
            entry,
            stage,
            asked: None,
            lease: None,
            is_unpersisted: false,
            doubt: None,
            attempt: None,
            aside: None,
            passed_at: Millis::ZERO,
        }
    }

    /// True if facts of the attempt are known, if the task is handed over.
    pub(super) fn has_facts(&self) -> bool {
        self.attempt.as_ref().is_some_and(|attempt| attempt.facts.is_some())
    }

    /// Something about it is unsettled with the store.
    const fn is_unsettled(&self) -> bool {
        self.is_unpersisted || self.doubt.is_some()
    }

    /// The rank of the slot in the index, by its stage.
    pub(super) fn rank(&self) -> Option<Rank> {
        let due = |group| Some(Rank::At(group, self.entry.due_at, self.entry.place.id));
        match self.stage {
            stage if is_before_lease(stage) => due(Group::Claimed),
            stage if has_lease(stage) => due(Group::Leased),
            FOR_LATER => due(Group::ForLater),
            Stage::Passed => Some(Rank::At(Group::Passed, self.passed_at, self.entry.place.id)),
            Stage::Ready { gate: Some(Gate::Database) } => due(Group::Database),
            Stage::Ready { gate: Some(Gate::Retry) } => due(Group::Retry),
            SERVED => Some(self.served_rank(None)),
            PARKED => Some(self.served_rank(self.aside.clone())),
            Stage::HandedOver { report } => {
                let attempt = self.attempt.as_ref()?;
                let since = || attempt.holder.as_ref().map(|holder| holder.since);
                let (group, at) = match report {
                    HolderReport::Owed => (Group::Unreported, since()?),
                    HolderReport::Asked => (Group::Reporting, since()?),
                    HolderReport::Done => (Group::Reported, attempt.facts.as_ref()?.until),
                    HolderReport::ForLater => return None,
                };
                Some(Rank::At(group, at, self.entry.place.id))
            }
            _ => None,
        }
    }

    fn served_rank(&self, aside: ParkedIn) -> Rank {
        let HotEntry { queue, due_at, place, .. } = &self.entry;
        Rank::Served(Arc::clone(queue), aside, (self.level, *due_at, place.id), self.entry.version())
    }

    /// The rank by deadline, while the task is in a line or lane and has a deadline.
    fn deadline_rank(&self) -> Option<Rank> {
        let HotEntry { deadline_at, place, .. } = &self.entry;
        let has_one = is_served(self.stage) && *deadline_at < Millis::MAX;
        has_one.then_some(Rank::At(Group::Deadline, *deadline_at, place.id))
    }

    /// The rank of the task while the store does not know that it has fired.
    pub(super) fn unpersisted_rank(&self) -> Option<Rank> {
        let (at, id) = (self.entry.due_at, self.entry.place.id);
        self.is_unpersisted.then_some(Rank::At(Group::Unpersisted, at, id))
    }

    /// The rank of the task while it may be considered for a prelease.
    pub(super) const fn as_candidate(&self) -> Rank {
        Rank::At(Group::Candidate, self.entry.due_at, self.entry.place.id)
    }

    /// The rank of the lease in doubt.
    pub(super) fn doubt_rank(&self) -> Option<Rank> {
        self.doubt.as_ref().map(|doubt| Rank::At(Group::Doubt, doubt.look_at, self.entry.place.id))
    }
}

/// A move that was made.
pub(super) struct Moved {
    pub(super) before: Stage,
    /// The slot, if the task has left the table.
    pub(super) gone: Option<Slot>,
}

impl Table {
    pub(super) fn new(partitions: usize, are_open: bool) -> Self {
        Self {
            slots: Slab::new(),
            by_id: HashMap::new(),
            index: Index::default(),
            unfired: 0,
            known_attempts: 0,
            open: vec![are_open; partitions],
            #[cfg(test)]
            moves: HashMap::new(),
        }
    }

    /// The only place where a stage changes. `None` if the event is illegal here, and changes nothing.
    pub(super) fn advance(&mut self, nth: usize, event: TaskEvent) -> Option<Moved> {
        let slot = self.slots.get_mut(nth)?;
        let before = slot.stage;
        let next = step(before, event)?;
        #[cfg(test)]
        {
            *self.moves.entry((before, event)).or_default() += 1;
        }
        let Next::To(after) = next else {
            return Some(Moved { before, gone: self.remove(nth) });
        };
        if before != after {
            let old = (slot.rank(), slot.deadline_rank());
            slot.stage = after;
            let new = (slot.rank(), slot.deadline_rank());
            if before == Stage::Waiting {
                self.index.remove(&slot.as_candidate());
            }
            self.rank_anew(nth, old.0, new.0);
            self.rank_anew(nth, old.1, new.1);
            self.unfired += usize::from(has_not_fired(after));
            self.unfired -= usize::from(has_not_fired(before));
        }
        Some(Moved { before, gone: None })
    }

    /// Updates the index after a possible change of the rank.
    pub(super) fn rank_anew(&mut self, nth: usize, old: Option<Rank>, new: Option<Rank>) {
        if old != new {
            old.iter().for_each(|rank| self.index.remove(rank));
            new.into_iter().for_each(|rank| self.index.insert(rank, nth));
        }
    }

    /// Stops keeping the task; it stays only while something about it is unsettled with the store. False if the event
    /// was illegal, and nothing has changed.
    pub(super) fn let_go(&mut self, nth: usize, event: TaskEvent) -> bool {
        let is_legal = self.advance(nth, event).is_some();
        self.finish(nth);
        is_legal
    }

    /// Removes the task, if nothing keeps it here.
    pub(super) fn finish(&mut self, nth: usize) {
        let is_recorded = |slot: &Slot| match slot.stage {
            Stage::Offered | Stage::InDoubt => !slot.is_unsettled(),
            REPORTED => !slot.has_facts(),
            _ => false,
        };
        if self.slots.get(nth).is_some_and(is_recorded) {
            self.advance(nth, TaskEvent::Settled);
        }
    }

    /// Removes an attempt that needs no report, to make room for a fired entry, or for one with the same
    /// fence or a newer one.
    pub(super) fn make_way(&mut self, id: i64, fence: i64) {
        let nth = self.by_id.get(&id).copied();
        let is_over = |slot: &Slot| slot.stage == REPORTED && slot.entry.fence <= fence;
        nth.filter(|nth| self.slots.get(*nth).is_some_and(is_over)).map(|nth| self.remove(nth));
    }

    pub(super) fn insert(&mut self, entry: HotEntry, stage: Stage) -> usize {
        self.insert_slot(Slot::new(entry, stage))
    }

    pub(super) fn insert_slot(&mut self, slot: Slot) -> usize {
        let (id, stage) = (slot.entry.place.id, slot.stage);
        self.known_attempts += usize::from(slot.has_facts());
        let ranks = [slot.rank(), slot.deadline_rank()];
        let nth = self.slots.insert(slot);
        self.by_id.insert(id, nth);
        ranks.into_iter().flatten().for_each(|rank| self.index.insert(rank, nth));
        self.unfired += usize::from(has_not_fired(stage));
        nth
    }

    pub(super) fn remove(&mut self, nth: usize) -> Option<Slot> {
        let slot = self.slots.try_remove(nth)?;
        self.by_id.remove(&slot.entry.place.id);
        if slot.stage == Stage::Waiting {
            self.index.remove(&slot.as_candidate());
        }
        let ranks = [slot.rank(), slot.deadline_rank(), slot.doubt_rank(), slot.unpersisted_rank()];
        ranks.iter().flatten().for_each(|rank| self.index.remove(rank));
        self.unfired -= usize::from(has_not_fired(slot.stage));
        self.known_attempts -= usize::from(slot.has_facts());
        Some(slot)
    }

    pub(super) fn those(&self, which: impl Fn(&Slot) -> bool) -> Vec<usize> {
        self.slots.iter().filter(|(_, slot)| which(slot)).map(|(nth, _)| nth).collect()
    }

    /// The slot of this task at this fence.
    pub(super) fn at(&self, entry: &HotEntry) -> Option<usize> {
        self.at_fence(entry.place.id, entry.fence)
    }

    pub(super) fn at_fence(&self, id: i64, fence: i64) -> Option<usize> {
        let nth = *self.by_id.get(&id)?;
        (self.fence(nth) == Some(fence)).then_some(nth)
    }

    pub(super) fn fence(&self, nth: usize) -> Option<i64> {
        self.slots.get(nth).map(|slot| slot.entry.fence)
    }

    pub(super) fn is_open(&self, partition: Partition) -> bool {
        self.open.get(usize::from(partition.0)).is_some_and(|is_open| *is_open)
    }

    pub(super) fn set_open(&mut self, partition: Partition, is_open: bool) {
        if let Some(open) = self.open.get_mut(usize::from(partition.0)) {
            *open = is_open;
        }
    }

    /// Each task: id, fence, stage, and whether the index has it as a candidate and as leased.
    #[cfg(test)]
    pub(super) fn of_model(&self) -> Vec<(i64, i64, Stage, bool, bool)> {
        use super::steps::awaits_executor;
        assert_eq!(self.by_id.len(), self.slots.len());
        assert_eq!(self.unfired, self.slots.iter().filter(|(_, slot)| has_not_fired(slot.stage)).count());
        let mut ranked = 0;
        let of = |(nth, slot): (usize, &Slot)| {
            let id = slot.entry.place.id;
            let is_in = |rank: &Rank| self.index.has(rank, nth);
            let is_candidate = is_in(&slot.as_candidate());
            let (is_fired, is_kept_for_it) = (
                awaits_executor(slot.stage) || slot.stage == Stage::InDoubt,
                matches!(slot.stage, Stage::Offered | Stage::InDoubt),
            );
            let is_handed_over = matches!(slot.stage, Stage::HandedOver { .. });
            assert_eq!(slot.attempt.is_some(), is_handed_over, "{id} {:?}", slot.stage);
            let has_holder = slot.attempt.as_ref().is_some_and(|attempt| attempt.holder.is_some());
            let is_reported = !matches!(slot.stage, REPORTED | FOR_LATER);
            assert_eq!(has_holder, is_handed_over && is_reported, "{id} {:?}", slot.stage);
            let is_for_later = slot.attempt.as_ref().is_some_and(|attempt| attempt.for_later.is_some());
            assert_eq!(is_for_later, slot.stage == FOR_LATER, "{id} {:?}", slot.stage);
            assert!(slot.stage != REPORTED || slot.has_facts(), "{id} is kept for nothing");
            assert!(slot.stage != PARKED || slot.aside.is_some(), "{id} waits for nothing");
            assert!(!is_kept_for_it || slot.is_unsettled(), "{id} is kept for nothing");
            assert!(!slot.is_unpersisted || is_fired, "{id} {:?}", slot.stage);
            let awaits_lease = matches!(slot.stage, Stage::Held | Stage::Leasing { due: true });
            let may_be_doubtful = is_fired || has_not_fired(slot.stage) || awaits_lease;
            assert!(slot.doubt.is_none() || may_be_doubtful, "{id} {:?}", slot.stage);
            let ranks = [slot.rank(), slot.deadline_rank(), slot.doubt_rank(), slot.unpersisted_rank()];
            assert!(ranks.iter().flatten().all(is_in), "{id} {:?}", slot.stage);
            ranked += usize::from(is_candidate) + ranks.iter().flatten().count();
            let is_leased = is_in(&Rank::At(Group::Leased, slot.entry.due_at, id));
            (id, slot.entry.fence, slot.stage, is_candidate, is_leased)
        };
        let all = self.slots.iter().map(of).collect();
        assert_eq!(ranked, self.index.total(), "nothing else is in the index");
        let slots = || self.slots.iter().map(|(_, slot)| slot);
        assert_eq!(self.known_attempts, slots().filter(|slot| slot.has_facts()).count());
        all
    }
}
