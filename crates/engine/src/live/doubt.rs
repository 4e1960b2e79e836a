//! Leases of which the executor they were for has not heard: the answer was lost, or they were made and could not be given back.
//! Beside the stage of their task, because the task is offered again at once: whichever lease the store makes, it makes one. Must
//! not touch a lease that another call has made of the same entry.

use super::{index::Group, stage::Stage, table::Table};
use punctual_contract::hot::HotEntry;
use punctual_domain::{place::TaskRef, state::State, task::Task, time::Millis};

/// First looked at after this, then twice as long each time: a commit may still be on its way.
const LOOK_AFTER_MS: i64 = 200;
const LOOK_AFTER_MAX_MS: i64 = 5_000;
/// What was not made by so long after its end never will be.
const FORGET_AFTER_MS: i64 = 60_000;
const DOUBTS_MAX: usize = 100_000;

#[derive(Debug)]
pub(super) struct Doubt {
    lease: DoubtfulLease,
    pub(super) look_at: Millis,
    looks: u32,
}

/// A lease that may have been made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DoubtfulLease {
    pub(crate) place: TaskRef,
    /// Of the lease.
    pub(crate) fence: i64,
    /// For whom it was asked; None: it was made, so no other call has this fence.
    executor: Option<String>,
    until: Millis,
}

impl DoubtfulLease {
    /// The lease that the task has is the one whose answer was lost.
    pub(crate) fn is_of(&self, task: &Task) -> bool {
        let Some(lease) = task.lease.as_ref().filter(|_| task.state == State::Dispatched) else {
            return false;
        };
        let longest = task.ask.timeout_ms.map_or(Millis::MAX, |timeout_ms| lease.since.plus(timeout_ms));
        let is_asked =
            |executor: &String| lease.executor == *executor && lease.until == self.until.min(longest);
        task.fence == self.fence && self.executor.as_ref().is_none_or(is_asked)
    }
}

impl Doubt {
    fn new(lease: DoubtfulLease, now: Millis) -> Box<Self> {
        Box::new(Self { lease, look_at: now.plus(LOOK_AFTER_MS), looks: 0 })
    }
}

impl Table {
    /// The store was asked for leases of these, and the answer was lost.
    pub(crate) fn doubt_asked(&mut self, entries: &[HotEntry], executor: &str, until: Millis, now: Millis) {
        for entry in entries {
            if self.index.len(Group::Doubt) >= DOUBTS_MAX {
                return;
            }
            let Some(nth) = self.slot_of_fired(entry) else { continue };
            let (place, fence) = (entry.row(), entry.fence + 1);
            let lease = DoubtfulLease { place, fence, executor: Some(executor.to_owned()), until };
            self.set_doubt(nth, Some(Doubt::new(lease, now)));
        }
    }

    /// These were made, nobody has heard of them, and giving them back has failed: entries with the fences of the leases.
    pub(crate) fn doubt_made(&mut self, leases: Vec<HotEntry>, now: Millis) {
        for entry in leases {
            if self.index.len(Group::Doubt) >= DOUBTS_MAX {
                return;
            }
            let there = self.by_id.get(&entry.place.id).copied();
            match there.map(|nth| (nth, self.fence(nth))) {
                // The task has gone on, and this lease has ended.
                Some((_, known)) if known > Some(entry.fence) => continue,
                Some((nth, _)) => drop(self.remove(nth)),
                None => {}
            }
            let (place, fence) = (entry.row(), entry.fence);
            let nth = self.insert(entry, Stage::InDoubt);
            let lease = DoubtfulLease { place, fence, executor: None, until: now };
            self.set_doubt(nth, Some(Doubt::new(lease, now)));
        }
    }

    /// Its executor never heard of the lease that it has.
    pub(crate) fn is_in_doubt(&self, task: &Task) -> bool {
        let slot = self.by_id.get(&task.place.id).and_then(|nth| self.slots.get(*nth));
        slot.and_then(|slot| slot.doubt.as_ref()).is_some_and(|doubt| doubt.lease.is_of(task))
    }

    /// Those that are to be looked at now, at most so many; until they are resolved, they are looked at again and again, less and
    /// less often.
    pub(crate) fn doubts_due(&mut self, now: Millis, most: usize) -> Vec<DoubtfulLease> {
        let due: Vec<usize> = self.index.until(Group::Doubt, now).take(most).collect();
        let mut leases = Vec::with_capacity(due.len());
        for nth in due {
            let Some(Doubt { lease, looks, .. }) = self.take_doubt(nth) else { continue };
            if looks > 0 && lease.until.plus(FORGET_AFTER_MS) <= now {
                self.settle(nth);
                continue;
            }
            leases.push(lease.clone());
            let looks = looks + 1;
            let look_at = now.plus((LOOK_AFTER_MS << looks.min(8)).min(LOOK_AFTER_MAX_MS));
            self.set_doubt(nth, Some(Box::new(Doubt { lease, look_at, looks })));
        }
        leases
    }

    /// It is known what became of these.
    pub(crate) fn doubts_resolved(&mut self, leases: &[DoubtfulLease]) {
        for lease in leases {
            let Some(nth) = self.by_id.get(&lease.place.id).copied() else { continue };
            let doubt = self.slots.get(nth).and_then(|slot| slot.doubt.as_ref());
            if doubt.is_some_and(|doubt| doubt.lease == *lease) {
                self.set_doubt(nth, None);
                self.settle(nth);
            }
        }
    }

    /// Each task with a lease in doubt: id, and fence of its entry.
    #[cfg(test)]
    pub(super) fn doubtful(&self) -> impl Iterator<Item = (i64, i64)> {
        let in_doubt = self.slots.iter().filter(|(_, slot)| slot.doubt.is_some());
        in_doubt.map(|(_, slot)| (slot.entry.place.id, slot.entry.fence))
    }

    fn take_doubt(&mut self, nth: usize) -> Option<Doubt> {
        let slot = self.slots.get_mut(nth)?;
        let rank = slot.doubt_rank()?;
        self.index.remove(&rank);
        slot.doubt.take().map(|doubt| *doubt)
    }

    fn set_doubt(&mut self, nth: usize, doubt: Option<Box<Doubt>>) {
        drop(self.take_doubt(nth));
        let Some(slot) = self.slots.get_mut(nth) else { return };
        slot.doubt = doubt;
        slot.doubt_rank().into_iter().for_each(|rank| self.index.insert(rank, nth));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{live::Live, pipeline::drain::tests::entry};

    fn due(live: &Live, now: i64) -> Vec<i64> {
        live.lock().doubts_due(Millis(now), 9).iter().map(|lease| lease.fence).collect()
    }

    #[test]
    fn what_could_not_be_given_back_is_looked_at_until_long_after() {
        let live = Live::new(1, true);
        live.lock().doubt_made(vec![HotEntry { fence: 7, ..entry(1, 5) }], Millis(0));
        assert_eq!(due(&live, LOOK_AFTER_MS), [7]);
        assert_eq!(due(&live, 2 * FORGET_AFTER_MS), [0; 0]);
        assert!(live.lock().slots.is_empty());
    }

    #[test]
    fn what_is_in_doubt_is_looked_at_less_and_less_often_until_long_after_its_end() {
        let live = Live::new(1, true);
        let (task, fence) = (entry(1, 5), entry(1, 5).fence + 1);
        live.lock().doubt_asked(std::slice::from_ref(&task), "ann", Millis(1_000), Millis(0));
        let looks = [199, 200, 400, 599, 600, 1_399, 1_400, 60_999, 65_000].map(|now| due(&live, now).len());
        assert_eq!(looks, [0, 1, 0, 0, 1, 0, 1, 1, 0]);
        assert!(live.lock().slots.is_empty());
        live.lock().doubt_asked(std::slice::from_ref(&task), "ann", Millis(1_000), Millis(0));
        assert_eq!(due(&live, 99_000), [fence], "it is looked at once, however late");
        let lease = DoubtfulLease {
            place: task.row(),
            fence,
            executor: Some("ann".to_owned()),
            until: Millis(1_000),
        };
        live.lock().doubts_resolved(&[DoubtfulLease { until: Millis(2_000), ..lease.clone() }]);
        assert_eq!(live.lock().slots.len(), 1, "another call's");
        live.lock().doubts_resolved(&[lease]);
        assert!(live.lock().slots.is_empty());
    }

    #[test]
    fn a_newer_fence_ends_a_doubt_and_so_does_the_task_that_is_there_again() {
        let live = Live::new(1, true);
        let (old, lease) = (entry(1, 5), HotEntry { fence: entry(1, 5).fence + 1, ..entry(1, 5) });
        live.lock().doubt_asked(std::slice::from_ref(&old), "ann", Millis(1_000), Millis(0));
        live.lock().doubt_made(vec![lease.clone()], Millis(0));
        live.lock().doubt_asked(&[old], "bob", Millis(1_000), Millis(0));
        assert_eq!(due(&live, LOOK_AFTER_MS), [lease.fence]);
        assert_eq!(live.lock().load(vec![lease.clone()], |_| false, |_| false).accepted, [lease]);
        assert_eq!((due(&live, FORGET_AFTER_MS), live.lock().slots.len()), (vec![], 1));
    }
}
