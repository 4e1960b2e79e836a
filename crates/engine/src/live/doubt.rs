//! Leases that never reached their executor: the answer was lost, or they were made and could not be
//! returned. Stored beside the stage of their task, because the task is offered again immediately: the store
//! makes only one of the leases. Must not touch a lease that another call has made of the same entry.

use super::{
    index::Group,
    stage::Stage,
    steps::awaits_executor,
    table::{Slot, Table},
};
use punctual_contract::hot::HotEntry;
use punctual_domain::{place::TaskRef, state::State, task::Task, time::Millis};

/// The time until the first read of a doubtful lease; each later read comes after twice as long: a commit may still
/// be running.
const LOOK_AFTER_MS: i64 = 200;
const LOOK_AFTER_MAX_MS: i64 = 5_000;
/// A lease that the store has not made this long after its end is never made.
const FORGET_AFTER_MS: i64 = 60_000;
const DOUBTS_MAX: usize = 100_000;
/// Calls for one lease whose answers were lost, of which something is known.
const ASKED_MAX: usize = 8;

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
    /// The fence of the lease.
    pub(crate) fence: i64,
    /// The executor and the end of the lease in each call whose answer was lost. Empty if the lease was made, so that
    /// no other call has this fence.
    asked: Vec<(String, Millis)>,
    until: Millis,
}

impl DoubtfulLease {
    /// The lease that the task has is the one whose answer was lost.
    pub(crate) fn is_of(&self, task: &Task) -> bool {
        let Some(lease) = task.lease.as_ref().filter(|_| task.state == State::Dispatched) else {
            return false;
        };
        let longest = task.ask.timeout_ms.map_or(Millis::MAX, |timeout_ms| lease.since.plus(timeout_ms));
        let is_it = |(executor, until): &(String, Millis)| {
            lease.executor == *executor && lease.until == (*until).min(longest)
        };
        task.fence == self.fence && (self.asked.is_empty() || self.asked.iter().any(is_it))
    }

    /// It was not made, and never will be.
    pub(crate) fn is_over(&self, now: Millis) -> bool {
        self.until.plus(FORGET_AFTER_MS) <= now
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
            if let Some(nth) = self.slot_of_fired(entry) {
                self.add_doubt(nth, executor, until, now);
            }
        }
    }

    /// The same for preleases. Returns tasks that fired meanwhile and waited for the answer. The others wait
    /// to fire as before, or have fired: their leases were dropped while the store was asked for them.
    pub(crate) fn lease_unanswered(
        &mut self,
        entries: &[HotEntry],
        executor: &str,
        until: Millis,
        now: Millis,
    ) -> Vec<HotEntry> {
        let fired = self.not_granted(entries);
        let may_be_leased = |slot: &Slot| slot.stage == Stage::Waiting || awaits_executor(slot.stage);
        let is_one = |nth: &usize| self.slots.get(*nth).is_some_and(may_be_leased);
        let here: Vec<usize> = entries.iter().filter_map(|entry| self.at(entry)).filter(is_one).collect();
        let room = DOUBTS_MAX.saturating_sub(self.index.len(Group::Doubt));
        here.into_iter().take(room).for_each(|nth| self.add_doubt(nth, executor, until, now));
        self.doubt_asked(&fired, executor, until, now);
        fired
    }

    /// Any of the calls that were made for it may have made the lease.
    fn add_doubt(&mut self, nth: usize, executor: &str, until: Millis, now: Millis) {
        let Some(slot) = self.slots.get(nth) else { return };
        let (place, fence) = (slot.entry.row(), slot.entry.fence + 1);
        let before = self.take_doubt(nth).map(|doubt| doubt.lease).filter(|lease| !lease.asked.is_empty());
        let mut lease = before.unwrap_or(DoubtfulLease { place, fence, asked: Vec::new(), until });
        lease.asked.truncate(ASKED_MAX - 1);
        lease.asked.push((executor.to_owned(), until));
        lease.until = lease.until.max(until);
        self.set_doubt(nth, Some(Doubt::new(lease, now)));
    }

    /// A task in a slot has fired: a lease of it may still have been made.
    pub(super) fn keep_doubt(&mut self, entry: &HotEntry, doubt: Option<Box<Doubt>>) {
        if doubt.is_some()
            && let Some(nth) = self.slot_of_fired(entry)
        {
            self.set_doubt(nth, doubt);
        }
    }

    /// These leases were made but reached no executor, and returning them failed. The entries have the fences
    /// of the leases.
    pub(crate) fn doubt_made(&mut self, leases: Vec<HotEntry>, now: Millis) {
        for entry in leases {
            if self.index.len(Group::Doubt) >= DOUBTS_MAX {
                return;
            }
            let there = self.by_id.get(&entry.place.id).copied();
            match there.map(|nth| (nth, self.fence(nth))) {
                // The task has moved on, and this lease has ended.
                Some((_, known)) if known > Some(entry.fence) => continue,
                Some((nth, _)) => drop(self.remove(nth)),
                None => {}
            }
            let (place, fence) = (entry.row(), entry.fence);
            let nth = self.insert(entry, Stage::InDoubt);
            let lease = DoubtfulLease { place, fence, asked: Vec::new(), until: now };
            self.set_doubt(nth, Some(Doubt::new(lease, now)));
        }
    }

    /// True if the executor never learned of the lease that it has.
    pub(crate) fn is_in_doubt(&self, task: &Task) -> bool {
        let slot = self.by_id.get(&task.place.id).and_then(|nth| self.slots.get(*nth));
        slot.and_then(|slot| slot.doubt.as_ref()).is_some_and(|doubt| doubt.lease.is_of(task))
    }

    /// The doubtful leases to read now, at most `most`. Until it is resolved, each is read again, less and less
    /// often.
    pub(crate) fn doubts_due(&mut self, now: Millis, most: usize) -> Vec<DoubtfulLease> {
        let due: Vec<usize> = self.index.until(Group::Doubt, now).take(most).collect();
        let mut leases = Vec::with_capacity(due.len());
        for nth in due {
            let Some(Doubt { lease, looks, .. }) = self.take_doubt(nth) else { continue };
            leases.push(lease.clone());
            let looks = looks + 1;
            let look_at = now.plus((LOOK_AFTER_MS << looks.min(8)).min(LOOK_AFTER_MAX_MS));
            self.set_doubt(nth, Some(Box::new(Doubt { lease, look_at, looks })));
        }
        leases
    }

    /// These doubts are resolved.
    pub(crate) fn doubts_resolved(&mut self, leases: &[DoubtfulLease]) {
        for lease in leases {
            let Some(nth) = self.by_id.get(&lease.place.id).copied() else { continue };
            let doubt = self.slots.get(nth).and_then(|slot| slot.doubt.as_ref());
            if doubt.is_some_and(|doubt| doubt.lease == *lease) {
                self.set_doubt(nth, None);
                self.finish(nth);
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

    pub(super) fn set_doubt(&mut self, nth: usize, doubt: Option<Box<Doubt>>) {
        drop(self.take_doubt(nth));
        let Some(slot) = self.slots.get_mut(nth) else { return };
        slot.doubt = doubt;
        slot.doubt_rank().into_iter().for_each(|rank| self.index.insert(rank, nth));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::steady_reading::SteadyReading, live::Live, pipeline::drain::tests::entry};
    use punctual_domain::{
        name::Name,
        task::{Lease, NewTask},
    };

    fn leased(entry: &HotEntry, executor: &str, until: i64) -> Task {
        let (executor, until) = (executor.to_owned(), Millis(until));
        let lease = Lease { executor, until, since: Millis(1), cancel_requested: false };
        Task {
            place: entry.place,
            ask: NewTask::new((*entry.queue).clone(), Name::new("k").unwrap(), entry.due_at),
            state: State::Dispatched,
            fence: entry.fence + 1,
            attempt: 1,
            due_at: entry.due_at,
            fired_at: None,
            created_at: Millis(1),
            updated_at: Millis(1),
            keep_until: None,
            lease: Some(lease),
            progress: None,
            log: None,
            result: None,
            last_error: None,
            history: Vec::new(),
        }
    }

    fn due(live: &Live, now: i64) -> Vec<i64> {
        live.lock().doubts_due(Millis(now), 9).iter().map(|lease| lease.fence).collect()
    }

    #[test]
    fn what_could_not_be_given_back_is_looked_at_until_long_after() {
        let live = Live::new(1, true);
        live.lock().doubt_made(vec![HotEntry { fence: 7, ..entry(1, 5) }], Millis(0));
        assert_eq!(due(&live, LOOK_AFTER_MS), [7]);
        let looked_at = live.lock().doubts_due(Millis(2 * FORGET_AFTER_MS), 9);
        assert!(
            looked_at[0].is_over(Millis(FORGET_AFTER_MS))
                && !looked_at[0].is_over(Millis(FORGET_AFTER_MS - 1))
        );
        assert_eq!(live.lock().slots.len(), 1, "unless the store has answered that");
        live.lock().doubts_resolved(&looked_at);
        assert!(live.lock().slots.is_empty());
    }

    #[test]
    fn what_is_in_doubt_is_looked_at_less_and_less_often_until_long_after_its_end() {
        let live = Live::new(1, true);
        let (task, fence) = (entry(1, 5), entry(1, 5).fence + 1);
        live.lock().doubt_asked(std::slice::from_ref(&task), "ann", Millis(1_000), Millis(0));
        let looks = [199, 200, 400, 599, 600, 1_399, 1_400, 60_999, 65_000].map(|now| due(&live, now).len());
        assert_eq!(looks, [0, 1, 0, 0, 1, 0, 1, 1, 1]);
        assert_eq!(due(&live, 99_000), [fence], "as long as the store does not answer");
        let lease = live.lock().doubts_due(Millis(199_000), 9).remove(0);
        assert!(lease.is_over(Millis(1_000 + FORGET_AFTER_MS)) && !lease.is_over(Millis(FORGET_AFTER_MS)));
        live.lock().doubt_asked(std::slice::from_ref(&task), "bob", Millis(2_000), Millis(0));
        live.lock().doubts_resolved(std::slice::from_ref(&lease));
        assert_eq!(live.lock().slots.len(), 1, "another call has asked since");
        let lease = live.lock().doubts_due(Millis(199_000), 9).remove(0);
        live.lock().doubts_resolved(&[lease]);
        assert!(live.lock().slots.is_empty());
    }

    #[test]
    fn a_lease_ahead_in_doubt_is_one_until_and_after_its_instant_whoever_asks_then() {
        let live = Live::new(1, true);
        let (due_now, later) = (entry(1, 5), entry(2, 90));
        live.lock().load(vec![due_now.clone(), later.clone()], |_| false, |_| true);
        let asked = [due_now.clone(), later.clone()];
        assert_eq!(live.lock().begin_leases(asked.to_vec(), SteadyReading::of_test()).len(), 2);
        assert!(live.lock().fire(Millis(5), 9).0.is_empty(), "the answer goes on with it");
        let fired = live.lock().lease_unanswered(&asked, "ahead", Millis(1_000), Millis(6));
        assert_eq!(fired.iter().map(|entry| entry.place.id).collect::<Vec<_>>(), [1]);
        let are_doubtful = || [1, 2].map(|id| live.lock().is_doubtful(id));
        assert_eq!((are_doubtful(), live.lock().waits(2, later.fence)), ([true, true], true));
        assert_eq!(live.lock().fire(Millis(90), 9).0.len(), 1);
        live.lock().note_fired(&[due_now, later.clone()]);
        live.lock().doubt_asked(std::slice::from_ref(&later), "ann", Millis(2_000), Millis(91));
        let asked = [("ahead", 1_000), ("ann", 2_000), ("ann", 1_000), ("bob", 2_000)];
        let is_its = asked.map(|(executor, until)| live.lock().is_in_doubt(&leased(&later, executor, until)));
        assert_eq!((are_doubtful(), is_its), ([true, true], [true, true, false, false]));
        assert_eq!(live.lock().of_model().len(), 2);
    }

    #[test]
    fn a_lease_that_was_dropped_while_it_was_asked_for_is_in_doubt_before_and_after_the_instant() {
        let live = Live::new(1, true);
        let both = [entry(1, 5), entry(2, 90)];
        live.lock().load(both.to_vec(), |_| false, |_| true);
        live.lock().begin_leases(both.to_vec(), SteadyReading::of_test());
        let (made, fired) = live.lock().drop_all_leases();
        assert!(made.is_empty() && fired.is_empty());
        assert_eq!(live.lock().fire(Millis(5), 9).0.len(), 1);
        drop(live.lock().note_fired(&both[..1]));
        assert!(live.lock().lease_unanswered(&both, "ahead", Millis(99), Millis(6)).is_empty());
        assert_eq!([1, 2].map(|id| live.lock().is_doubtful(id)), [true, true]);
        assert_eq!(live.lock().of_model().len(), 2);
    }

    #[test]
    fn what_was_withdrawn_while_its_lease_was_asked_for_is_not_in_doubt() {
        let live = Live::new(1, true);
        live.lock().load(vec![entry(1, 5)], |_| false, |_| true);
        live.lock().begin_leases(vec![entry(1, 5)], SteadyReading::of_test());
        live.lock().withdraw(1, 1);
        assert!(live.lock().lease_unanswered(&[entry(1, 5)], "ahead", Millis(9), Millis(1)).is_empty());
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
