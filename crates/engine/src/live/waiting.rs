//! Unfired tasks: how they are loaded, and removed when they fire or a caller withdraws them. Must not ask
//! whether a prelease is worth it.

use super::{
    fired::{Fired, Ready},
    index::{Group, Rank},
    stage::{Stage, TaskEvent},
    steps::{FOR_LATER, awaits_executor, has_lease, has_not_fired, is_executors},
    table::{Moved, Slot, Table},
};
use punctual_contract::{hot::HotEntry, store::Assignment};
use punctual_domain::{
    place::{Partition, TaskRef},
    time::Millis,
};

/// The result of loading a batch of entries.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// New, newer, or withdrawn and put back: the wheel needs their due times.
    pub(crate) accepted: Vec<HotEntry>,
    /// Of these, the tasks whose claim must be requested from the store.
    pub(crate) to_claim: Vec<HotEntry>,
    /// Tasks in partitions that this engine does not work on.
    pub(crate) elsewhere: Vec<HotEntry>,
    /// Before, no task could be considered for a prelease.
    pub(crate) has_first_candidate: bool,
}

/// The result of claims.
#[derive(Debug, Default)]
pub(crate) struct AfterClaims {
    /// Fired while the store was asked.
    pub(crate) fired: Vec<HotEntry>,
    /// The same as in `Loaded`.
    pub(crate) has_first_candidate: bool,
}

/// The result of a withdrawal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Withdrawal {
    /// The task has not fired, and will not unless it is loaded again. `has_lease`: this engine has its
    /// lease, or requests it, and gives it to no executor.
    Withdrawn { has_lease: bool },
    /// The task has fired, or is due.
    Fired,
    /// The table does not decide: it does not have the task at such a fence, or another call has withdrawn it.
    Unknown,
}

/// The table's tasks of a partition that this engine no longer works on.
#[derive(Debug, Default)]
pub(crate) struct Closed {
    /// Claimed and not fired, with the fence.
    pub(crate) claimed: Vec<(TaskRef, i64)>,
    /// Fired while their claim or lease was on its way.
    pub(crate) fired: Vec<HotEntry>,
    /// Leases of unfired tasks: they must be returned.
    pub(crate) leased: Vec<Assignment>,
}

impl Table {
    /// Work on the partition begins.
    pub(crate) fn open(&mut self, partition: Partition) {
        self.set_open(partition, true);
    }

    /// Work on the partition ends. A claim or lease that is answered later is unwanted.
    pub(crate) fn close(&mut self, partition: Partition) -> Closed {
        self.set_open(partition, false);
        let there = |slot: &Slot| slot.entry.place.partition == partition;
        let mut closed = Closed::default();
        for nth in self.those(there) {
            let Some(Moved { before, gone: Some(slot) }) = self.advance(nth, TaskEvent::GivenUp) else {
                continue;
            };
            match before {
                Stage::Claiming { due: true } | Stage::Leasing { due: true } => closed.fired.push(slot.entry),
                _ if slot.is_claimed => closed.claimed.push((slot.entry.row(), slot.entry.fence)),
                _ => {}
            }
            closed.leased.extend(slot.lease.map(|lease| *lease));
        }
        closed
    }

    /// Loads entries. The newest fence wins; the same fence is refused, and so is a partition of another
    /// engine. `is_claimed`: whether the store must be asked for a claim. `may_lease`: whether the task may
    /// be preleased.
    pub(crate) fn load(
        &mut self,
        entries: Vec<HotEntry>,
        is_claimed: impl Fn(&HotEntry) -> bool,
        may_lease: impl Fn(&HotEntry) -> bool,
    ) -> Loaded {
        let is_open = |partition| self.is_open(partition);
        let (here, elsewhere) = entries.into_iter().partition(|entry| is_open(entry.place.partition));
        Loaded { elsewhere, ..self.load_here(here, is_claimed, may_lease) }
    }

    /// The same for tasks that the owner of their partition has passed to this engine.
    pub(crate) fn load_passed(
        &mut self,
        entries: Vec<HotEntry>,
        may_lease: impl Fn(&HotEntry) -> bool,
    ) -> Loaded {
        self.load_here(entries, |_| false, may_lease)
    }

    /// These are passed to another engine before they fire. Removes and returns those that waited here.
    pub(crate) fn pass_ahead(&mut self, mut entries: Vec<HotEntry>) -> Vec<HotEntry> {
        entries.retain(|entry| {
            let waits = |nth: &usize| {
                self.slots.get(*nth).is_some_and(|slot| slot.stage == Stage::Waiting && slot.doubt.is_none())
            };
            self.at(entry).filter(waits).is_some_and(|nth| self.advance(nth, TaskEvent::GivenUp).is_some())
        });
        entries
    }

    /// Removes and returns unfired tasks that owners of other partitions have passed to this engine.
    pub(crate) fn take_passed(&mut self) -> Vec<HotEntry> {
        let is_passed =
            |slot: &&Slot| slot.stage == Stage::Waiting && !self.is_open(slot.entry.place.partition);
        let passed = self
            .slots
            .iter()
            .map(|(_, slot)| slot)
            .filter(is_passed)
            .map(|slot| slot.entry.clone())
            .collect();
        self.pass_ahead(passed)
    }

    fn load_here(
        &mut self,
        entries: Vec<HotEntry>,
        is_claimed: impl Fn(&HotEntry) -> bool,
        may_lease: impl Fn(&HotEntry) -> bool,
    ) -> Loaded {
        let mut loaded = Loaded::default();
        let had_candidates = !self.index.is_empty(Group::Candidate);
        for entry in entries {
            // Facts of an attempt are useful until a newer fence is loaded.
            self.make_way(entry.place.id, entry.fence);
            match self.by_id.get(&entry.place.id).copied() {
                Some(nth) if self.is_refused(nth, &entry) => {
                    if self.advance(nth, TaskEvent::PutBack).is_some() {
                        loaded.accepted.push(entry);
                    }
                    continue;
                }
                Some(nth) if self.fence(nth) > Some(entry.fence) => continue,
                // A lease of the older fence has ended in the store, or was returned.
                Some(nth) => drop(self.remove(nth)),
                None => {}
            }
            let stage = if is_claimed(&entry) { Stage::Claiming { due: false } } else { Stage::Waiting };
            let nth = self.insert(entry.clone(), stage);
            if stage != Stage::Waiting {
                loaded.to_claim.push(entry.clone());
            } else if may_lease(&entry) {
                self.index.insert(Rank::At(Group::Candidate, entry.due_at, entry.place.id), nth);
            }
            loaded.accepted.push(entry);
        }
        loaded.has_first_candidate = !had_candidates && !self.index.is_empty(Group::Candidate);
        loaded
    }

    /// The table has the same fence, and not as an executor's lease that was returned.
    fn is_refused(&self, nth: usize, entry: &HotEntry) -> bool {
        self.slots.get(nth).is_some_and(|slot| slot.entry.fence == entry.fence && !is_executors(slot.stage))
    }

    /// The store has made these claims; the entries have the new states. `may_lease`: as in `load`, for tasks
    /// that still wait.
    pub(crate) fn claimed(
        &mut self,
        entries: &[HotEntry],
        may_lease: impl Fn(&HotEntry) -> bool,
    ) -> AfterClaims {
        let (mut fired, had_candidates) = (Vec::new(), !self.index.is_empty(Group::Candidate));
        for entry in entries {
            let Some(nth) = self.at(entry) else { continue };
            match self.advance(nth, TaskEvent::Claimed) {
                Some(Moved { gone: Some(slot), .. }) => {
                    fired.push(HotEntry { state: entry.state, ..slot.entry })
                }
                Some(Moved { gone: None, .. }) => {
                    if let Some(slot) = self.slots.get_mut(nth) {
                        slot.is_claimed = true;
                        slot.entry.state = entry.state;
                        if slot.stage == Stage::Waiting && may_lease(&slot.entry) {
                            let rank = slot.as_candidate();
                            self.index.insert(rank, nth);
                        }
                    }
                }
                None => {}
            }
        }
        let has_first_candidate = !had_candidates && !self.index.is_empty(Group::Candidate);
        AfterClaims { fired, has_first_candidate }
    }

    /// It is unknown whether the store made these claims. Returns tasks that fired meanwhile; the others are
    /// claimed when they fire.
    pub(crate) fn not_claimed(&mut self, entries: &[HotEntry]) -> Vec<HotEntry> {
        let not_claimed = |entry: &HotEntry| {
            let moved = self.at(entry).and_then(|nth| self.advance(nth, TaskEvent::NotClaimed))?;
            moved.gone.map(|slot| slot.entry)
        };
        entries.iter().filter_map(not_claimed).collect()
    }

    /// Removes entries that must not fire, according to the store.
    pub(crate) fn refuse_claims(&mut self, entries: &[HotEntry]) {
        for entry in entries {
            self.at(entry).map(|nth| self.advance(nth, TaskEvent::ClaimRefused));
        }
    }

    /// Fires due tasks, the earliest first, at most `most`. The flag is true if these were all.
    pub(crate) fn fire(&mut self, now: Millis, most: usize) -> (Vec<Fired>, bool) {
        let due: Vec<usize> = [Group::Claimed, Group::Leased]
            .into_iter()
            .flat_map(|group| self.index.until(group, now))
            .filter(|nth| self.slots.get(*nth).is_some_and(|slot| step_is_due(slot.stage)))
            .take(most)
            .collect();
        let is_all = due.len() < most;
        let fired = due.into_iter().filter_map(|nth| self.fire_one(nth, now)).collect();
        (fired, is_all)
    }

    /// Returns `None` if the task's claim or lease is still requested; the answer then continues with it.
    fn fire_one(&mut self, nth: usize, now: Millis) -> Option<Fired> {
        if let Some(slot) = self.slots.get_mut(nth) {
            slot.entry.fired_at = now;
        }
        match self.advance(nth, TaskEvent::Due)?.gone? {
            Slot { entry, lease: Some(lease), asked: Some(asked), .. } => {
                Some(Fired::Leased(Box::new(Ready { entry, assignment: *lease, asked })))
            }
            Slot { entry, doubt, .. } => {
                self.keep_doubt(&entry, doubt);
                Some(Fired::ToLease(entry))
            }
        }
    }

    /// Removes a task for a caller before it fires. The table also removes its lease: the caller returns the lease,
    /// even one that the store is about to make.
    pub(crate) fn withdraw(&mut self, id: i64, fence: i64) -> Withdrawal {
        let Some((nth, slot)) = self.by_id.get(&id).and_then(|nth| Some((*nth, self.slots.get(*nth)?)))
        else {
            return Withdrawal::Unknown;
        };
        let stage = slot.stage;
        if slot.stage == FOR_LATER && self.is_change(id, slot.entry.fence) {
            return Withdrawal::Unknown;
        }
        if slot.stage == FOR_LATER && slot.entry.fence == fence + 1 {
            return Withdrawal::Fired;
        }
        if slot.entry.fence > fence {
            return Withdrawal::Unknown;
        }
        if self.advance(nth, TaskEvent::Withdrawn).is_some() {
            return Withdrawal::Withdrawn { has_lease: has_lease(stage) };
        }
        if awaits_executor(stage) || matches!(stage, Stage::Claiming { .. } | Stage::Leasing { .. }) {
            return Withdrawal::Fired;
        }
        Withdrawal::Unknown
    }

    /// It waits for its instant here, or for the answer to its claim or lease, with this fence or a newer one.
    pub(crate) fn will_fire(&self, entry: &HotEntry) -> bool {
        let slot = self.by_id.get(&entry.place.id).and_then(|nth| self.slots.get(*nth));
        let awaits_answer = |stage| matches!(stage, Stage::Claiming { .. } | Stage::Leasing { .. });
        let will_fire = |slot: &Slot| has_not_fired(slot.stage) || awaits_answer(slot.stage);
        slot.is_some_and(|slot| slot.entry.fence >= entry.fence && will_fire(slot))
    }

    /// It waits for its instant with this fence.
    pub(crate) fn waits(&self, id: i64, fence: i64) -> bool {
        self.at_fence(id, fence)
            .and_then(|nth| self.slots.get(nth))
            .is_some_and(|slot| has_not_fired(slot.stage))
    }

    /// It is here with this fence, and has not fired.
    pub(crate) fn holds(&self, entry: &HotEntry) -> bool {
        self.waits(entry.place.id, entry.fence)
    }

    /// The number of tasks that have not fired.
    pub(crate) const fn len(&self) -> usize {
        self.unfired
    }
}

/// True if the task's instant moves it on.
const fn step_is_due(stage: Stage) -> bool {
    matches!(
        stage,
        Stage::Claiming { due: false } | Stage::Waiting | Stage::Leasing { due: false } | Stage::Leased
    )
}
