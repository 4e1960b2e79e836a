//! Attempts that executors have while their database is unavailable: the store has the tasks as before, and
//! the engine's journal has the leases. They stay here until the store has them, or says that the task was
//! moved otherwise. Losing them costs heartbeats: the journal restores who has what. They also stay for a
//! while afterwards. A late read or offer may show the task as before the attempt, and nothing else would
//! refuse it in another outage. Must not decide what the store has.

use super::{
    handed_over::Attempt,
    index::Group,
    stage::TaskEvent,
    steps::FOR_LATER,
    table::{Slot, Table},
    waiting::Withdrawal,
};
use punctual_contract::{hot::HotEntry, store::Extended};
use punctual_domain::{place::Partition, time::Millis};

/// A refused attempt is remembered this long after its lease: its executor may report late.
const REFUSED_FOR_MS: i64 = 60_000;
/// A written attempt is remembered this long, which is longer than a running call takes.
const WRITTEN_FOR_MS: i64 = 60_000;
/// The time for which an ended attempt is remembered, which is longer than a read of the store takes; at most
/// `ENDED_MAX` of them.
const ENDED_FOR_MS: i64 = 10_000;
const ENDED_MAX: usize = 20_000;

/// The holder of a task, by a lease that the store does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForLaterLease {
    pub(crate) executor: String,
    pub(crate) until: Millis,
    /// The latest end of the lease: no heartbeat extends it further.
    pub(crate) longest: Millis,
    /// True if the executor has sent a heartbeat.
    pub(crate) has_begun: bool,
    /// The lease has not reached its executor.
    pub(crate) is_unheard: bool,
    /// The store has refused it: the task was cancelled or changed, or another engine has leased it.
    pub(crate) is_refused: bool,
    /// The store has the lease or its outcome. Until this instant, older entries of the task are refused.
    pub(crate) written_until: Option<Millis>,
    /// True if no executor has the task: a caller changed it at `until`, or may have.
    pub(crate) is_change: bool,
}

impl ForLaterLease {
    /// The store does not know the lease yet, and will.
    pub(crate) const fn is_unknown_to_the_store(&self) -> bool {
        !self.is_refused && self.written_until.is_none()
    }
}

impl Table {
    /// An executor gets this, with the fence of the lease. False if it is here with this fence or a newer one.
    pub(crate) fn hand_over_for_later(&mut self, entry: HotEntry, lease: ForLaterLease) -> bool {
        let there = self.by_id.get(&entry.place.id).copied();
        match there.map(|nth| (nth, self.fence(nth))) {
            Some((_, known)) if known >= Some(entry.fence) => return false,
            Some((nth, _)) => drop(self.remove(nth)),
            None => {}
        }
        let attempt = Attempt { for_later: Some(lease), ..Attempt::default() };
        self.insert_slot(Slot { attempt: Some(Box::new(attempt)), ..Slot::new(entry, FOR_LATER) });
        true
    }

    pub(crate) fn for_later(&self, id: i64, fence: i64) -> Option<&ForLaterLease> {
        let slot = self.at_fence(id, fence).and_then(|nth| self.slots.get(nth))?;
        slot.attempt.as_ref()?.for_later.as_ref()
    }

    pub(super) fn is_for_later(&self, id: i64, fence: i64) -> bool {
        self.for_later(id, fence).is_some()
    }

    /// The task may have a lease that its executor never learned of.
    pub(crate) fn is_doubtful(&self, id: i64) -> bool {
        self.by_id.get(&id).and_then(|nth| self.slots.get(*nth)).is_some_and(|slot| slot.doubt.is_some())
    }

    /// Answers a heartbeat as the store would. `None` if the store has the lease.
    pub(crate) fn extend_for_later(
        &mut self,
        id: i64,
        fence: i64,
        until: Millis,
        now: Millis,
    ) -> Option<Extended> {
        let lease = self.unwritten_mut(id, fence)?;
        if lease.is_refused || lease.is_unheard || lease.until < now {
            return Some(Extended::Lost);
        }
        lease.until = until.min(lease.longest);
        let has_begun = !std::mem::replace(&mut lease.has_begun, true);
        Some(Extended::Held { lease_until: lease.until, cancel_requested: false, has_begun })
    }

    /// The lease has not reached its executor. False if the store has it.
    pub(crate) fn unheard_for_later(&mut self, id: i64, fence: i64) -> bool {
        self.unwritten_mut(id, fence).map(|lease| lease.is_unheard = true).is_some()
    }

    /// The lease is about to reach its executor. False if the store already has it, or has refused it.
    pub(crate) fn heard_for_later(&mut self, id: i64, fence: i64) -> bool {
        self.unwritten_mut(id, fence).is_some_and(|lease| {
            lease.is_unheard = false;
            !lease.is_refused
        })
    }

    /// The store has refused it.
    pub(crate) fn refuse_for_later(&mut self, id: i64, fence: i64) {
        if let Some(lease) = self.unwritten_mut(id, fence) {
            lease.is_refused = true;
        }
    }

    /// The store has the lease or its outcome. Older entries of the task are refused for a while.
    pub(crate) fn written_for_later(&mut self, id: i64, fence: i64, now: Millis) {
        if let Some(lease) = self.unwritten_mut(id, fence) {
            lease.written_until = Some(now.plus(WRITTEN_FOR_MS));
        }
    }

    /// Attempts that have ended in the store, with the fences of their leases. Late results of earlier reads
    /// of their tasks are refused for a while.
    pub(crate) fn ended_lately(&mut self, attempts: Vec<HotEntry>, now: Millis) {
        self.refuse_older(attempts, now, false);
    }

    /// A caller is about to change this task; the entry is as before. From now on, no executor gets the old entry,
    /// however late a read returns it. With `takes_fired`, neither does a fired entry, because the change takes it
    /// out of its line. False if an executor has it, or is about to get it.
    pub(crate) fn begin_change(&mut self, task: &HotEntry, takes_fired: bool) -> bool {
        let (id, fence) = (task.place.id, task.fence);
        if self.for_later(id, fence + 1).is_some_and(|lease| lease.written_until.is_none()) {
            return false;
        }
        if takes_fired {
            self.forget_fired(id, fence);
            self.discard(std::slice::from_ref(task));
        } else if self.withdraw(id, fence) == Withdrawal::Fired {
            return false;
        }
        self.end_change(task, Millis::MAX);
        true
    }

    /// The change has ended, with any result: a read that begins later shows the task's current state.
    pub(crate) fn end_change(&mut self, task: &HotEntry, now: Millis) {
        match self.change_mut(task.place.id, task.fence + 1) {
            Some(lease) => (lease.until, lease.written_until) = (now, Some(now.plus(ENDED_FOR_MS))),
            None => self.changed_lately(vec![task.clone()], now),
        }
    }

    /// The change has not happened, and the task is as it was. Another call that changes it has not ended.
    pub(crate) fn undo_change(&mut self, task: &HotEntry) {
        if self.change_mut(task.place.id, task.fence + 1).is_some_and(|lease| lease.until == Millis::MAX) {
            self.record_for_later(task.place.id, task.fence + 1);
        }
    }

    fn change_mut(&mut self, id: i64, fence: i64) -> Option<&mut ForLaterLease> {
        let nth = self.at_fence(id, fence)?;
        let lease = self.slots.get_mut(nth)?.attempt.as_mut()?.for_later.as_mut()?;
        lease.is_change.then_some(lease)
    }

    /// Tasks as they were before callers changed them, or perhaps did: the same.
    pub(crate) fn changed_lately(&mut self, mut tasks: Vec<HotEntry>, now: Millis) {
        tasks.iter_mut().for_each(|task| task.fence += 1);
        self.refuse_older(tasks, now, true);
    }

    /// Half of the room for changes is left for the queues that need it.
    pub(crate) fn has_spare_room_for_changes(&self) -> bool {
        self.index.len(Group::ForLater) < ENDED_MAX / 2
    }

    fn refuse_older(&mut self, entries: Vec<HotEntry>, now: Millis, is_change: bool) {
        let room = ENDED_MAX.saturating_sub(self.index.len(Group::ForLater));
        for entry in entries.into_iter().take(room) {
            let lease = ForLaterLease {
                executor: String::new(),
                until: now,
                longest: now,
                has_begun: false,
                is_unheard: false,
                is_refused: false,
                written_until: Some(now.plus(ENDED_FOR_MS)),
                is_change,
            };
            self.hand_over_for_later(entry, lease);
        }
    }

    /// Rows of a read that began at an instant: a change that may have happened earlier did not happen.
    pub(crate) fn unchanged(&mut self, rows: &[HotEntry], began: Millis) {
        if self.index.is_empty(Group::ForLater) {
            return;
        }
        for row in rows {
            let (id, fence) = (row.place.id, row.fence + 1);
            if self.for_later(id, fence).is_some_and(|lease| lease.is_change && lease.until < began) {
                self.record_for_later(id, fence);
            }
        }
    }

    /// It is here with this fence.
    pub(crate) fn knows(&self, entry: &HotEntry) -> bool {
        self.at(entry).is_some()
    }

    /// The entries that callers have changed, or may have.
    pub(crate) fn changed_of(&self, entries: &[HotEntry]) -> Vec<(Partition, i64, i64)> {
        if self.index.is_empty(Group::ForLater) {
            return Vec::new();
        }
        let is_one = |entry: &&HotEntry| self.is_change(entry.place.id, entry.fence + 1);
        let name = |entry: &HotEntry| (entry.place.partition, entry.place.id, entry.fence);
        entries.iter().filter(is_one).map(name).collect()
    }

    /// A caller has changed the task, or may have, and no executor has it.
    pub(super) fn is_change(&self, id: i64, fence: i64) -> bool {
        self.for_later(id, fence).is_some_and(|lease| lease.is_change)
    }

    /// Removes the attempt.
    pub(crate) fn record_for_later(&mut self, id: i64, fence: i64) {
        if self.is_for_later(id, fence)
            && let Some(nth) = self.at_fence(id, fence)
        {
            self.advance(nth, TaskEvent::Settled);
        }
    }

    /// Removes the attempts that were refused or written, and are over.
    pub(crate) fn forget_for_later(&mut self, now: Millis) {
        let is_over = |nth: &usize| {
            let attempt = self.slots.get(*nth).and_then(|slot| slot.attempt.as_ref());
            let lease = attempt.and_then(|attempt| attempt.for_later.as_ref());
            lease.is_some_and(|lease| match lease.written_until {
                Some(until) => until <= now,
                None => lease.is_refused && lease.until.plus(REFUSED_FOR_MS) <= now,
            })
        };
        let over: Vec<usize> = self.index.all(Group::ForLater).filter(is_over).collect();
        over.into_iter().for_each(|nth| drop(self.advance(nth, TaskEvent::Settled)));
    }

    /// The number of attempts that the store does not know.
    pub(crate) fn count_for_later(&self) -> usize {
        self.unwritten().count()
    }

    /// The attempts that the store does not know, with the fences of their leases, and their holders.
    pub(crate) fn unwritten<'t>(&'t self) -> impl Iterator<Item = (&'t HotEntry, &'t ForLaterLease)> {
        let slots = self.index.all(Group::ForLater).filter_map(|nth| self.slots.get(nth));
        let unwritten = |slot: &'t Slot| {
            let lease = slot.attempt.as_ref()?.for_later.as_ref()?;
            lease.is_unknown_to_the_store().then_some((&slot.entry, lease))
        };
        slots.filter_map(unwritten)
    }

    fn unwritten_mut(&mut self, id: i64, fence: i64) -> Option<&mut ForLaterLease> {
        let nth = self.at_fence(id, fence)?;
        let lease = self.slots.get_mut(nth)?.attempt.as_mut()?.for_later.as_mut()?;
        lease.written_until.is_none().then_some(lease)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{live::Live, pipeline::drain::tests::entry};

    fn lease(until: i64) -> ForLaterLease {
        ForLaterLease {
            executor: "ann".to_owned(),
            until: Millis(until),
            longest: Millis(300),
            has_begun: false,
            is_unheard: false,
            is_refused: false,
            written_until: None,
            is_change: false,
        }
    }

    /// The task, and its attempt while its database is unavailable.
    fn handed_over(live: &Live) -> (HotEntry, HotEntry) {
        let before = entry(1, 5);
        let leased = HotEntry { fence: before.fence + 1, ..before.clone() };
        assert!(live.lock().hand_over_for_later(leased.clone(), lease(100)));
        (before, leased)
    }

    #[test]
    fn what_was_handed_over_is_not_fired_or_offered_again_and_has_fired_for_who_cancels_it() {
        let live = Live::new(1, true);
        drop(live.lock().note_fired(&[entry(1, 5)]));
        let (before, leased) = handed_over(&live);
        assert!(!live.lock().hand_over_for_later(leased, lease(900)), "once");
        assert!(live.lock().load(vec![before.clone()], |_| false, |_| false).accepted.is_empty());
        assert!(live.lock().begin_grants(std::slice::from_ref(&before)).is_empty());
        assert!(!live.lock().is_left_to_store(&before));
        assert!(matches!(live.lock().overdue(&before), crate::live::Overdue::InHand));
        assert_eq!(live.lock().withdraw(before.place.id, before.fence), Withdrawal::Fired);
        assert_eq!(live.lock().unpersisted().count(), 0, "the store hears of the lease instead");
        assert!(live.lock().ended(std::iter::once((1, before.fence + 1)), Millis(9)).unreported.is_empty());
        assert_eq!(live.lock().count_for_later(), 1);
        live.lock().record_for_later(1, before.fence + 1);
        assert!(live.lock().slots.is_empty());
    }

    #[test]
    fn what_comes_late_as_it_was_before_is_refused_for_a_while_after_the_lease_was_written() {
        let live = Live::new(1, true);
        let (before, leased) = handed_over(&live);
        live.lock().written_for_later(1, leased.fence, Millis(50));
        assert_eq!(live.lock().count_for_later(), 0);
        assert_eq!(
            live.lock().extend_for_later(1, leased.fence, Millis(90), Millis(60)),
            None,
            "the store's"
        );
        assert!(!live.lock().unheard_for_later(1, leased.fence));
        let late = std::slice::from_ref(&before);
        assert!(live.lock().load(late.to_vec(), |_| false, |_| false).accepted.is_empty());
        assert!(matches!(live.lock().overdue(&before), crate::live::Overdue::InHand));
        assert!(live.lock().begin_grants(late).is_empty());
        assert!(!live.lock().hand_over_for_later(leased.clone(), lease(900)), "once");
        live.lock().forget_for_later(Millis(50 + WRITTEN_FOR_MS - 1));
        assert!(live.lock().for_later(1, leased.fence).is_some());
        live.lock().forget_for_later(Millis(50 + WRITTEN_FOR_MS));
        assert!(live.lock().slots.is_empty());
    }

    #[test]
    fn what_was_given_back_after_its_lease_was_written_comes_again_with_its_fence() {
        let live = Live::new(1, true);
        let (_, leased) = handed_over(&live);
        live.lock().written_for_later(1, leased.fence, Millis(50));
        assert_eq!(live.lock().load(vec![leased.clone()], |_| false, |_| false).accepted, [leased]);
        assert!(live.lock().for_later(1, 2).is_none());
    }

    #[test]
    fn what_was_read_before_an_attempt_that_has_ended_is_refused_for_a_while() {
        let live = Live::new(1, true);
        let before = entry(1, 1);
        let ended = HotEntry { fence: before.fence + 1, ..before.clone() };
        live.lock().load(vec![before.clone()], |_| false, |_| false);
        live.lock().ended_lately(vec![ended.clone()], Millis(50));
        assert!(live.lock().load(vec![before.clone()], |_| false, |_| false).accepted.is_empty());
        assert!(matches!(live.lock().overdue(&before), crate::live::Overdue::InHand));
        assert_eq!(live.lock().count_for_later(), 0);
        // Its next attempt.
        let next = HotEntry { due_at: Millis(60), ..ended.clone() };
        assert_eq!(live.lock().load(vec![next.clone()], |_| false, |_| false).accepted, [next]);
        live.lock().ended_lately(vec![ended], Millis(60));
        assert_eq!(live.lock().slots.len(), 1, "what is as new stays");
        let other = entry(2, 1);
        live.lock().ended_lately(vec![other], Millis(50));
        live.lock().forget_for_later(Millis(50 + ENDED_FOR_MS - 1));
        assert_eq!(live.lock().slots.len(), 2);
        live.lock().forget_for_later(Millis(50 + ENDED_FOR_MS));
        assert_eq!(live.lock().slots.len(), 1);
    }

    #[test]
    fn what_was_read_before_a_change_is_refused_and_what_is_read_after_it_is_as_it_was() {
        let live = Live::new(1, true);
        let (before, late) = (entry(1, 90), vec![entry(1, 90)]);
        live.lock().load(late.clone(), |_| false, |_| false);
        assert_eq!(live.lock().withdraw(1, before.fence), Withdrawal::Withdrawn { has_lease: false });
        live.lock().changed_lately(late.clone(), Millis(50));
        assert!(live.lock().load(late.clone(), |_| false, |_| false).accepted.is_empty());
        assert_eq!(
            live.lock().withdraw(1, before.fence),
            Withdrawal::Unknown,
            "the store decides about another change"
        );
        live.lock().unchanged(&late, Millis(50));
        assert!(live.lock().load(late.clone(), |_| false, |_| false).accepted.is_empty());
        live.lock().unchanged(&late, Millis(51));
        assert_eq!(live.lock().load(late, |_| false, |_| false).accepted, std::slice::from_ref(&before));
        live.lock().withdraw(1, before.fence);
        live.lock().changed_lately(vec![before.clone()], Millis(60));
        let changed = HotEntry { fence: before.fence + 1, ..before };
        let loaded = live.lock().load(vec![changed.clone()], |_| false, |_| false);
        assert_eq!(loaded.accepted, std::slice::from_ref(&changed));
        assert_eq!(live.lock().withdraw(1, changed.fence), Withdrawal::Withdrawn { has_lease: false });
        live.lock().changed_lately(vec![changed], Millis(70));
        live.lock().forget_for_later(Millis(70 + ENDED_FOR_MS));
        assert!(live.lock().slots.is_empty());
    }

    #[test]
    fn while_a_change_is_under_way_nothing_is_given_and_no_read_ends_that() {
        let live = Live::new(1, true);
        let (before, late) = (entry(1, 90), vec![entry(1, 90)]);
        let is_loaded = || !live.lock().load(late.clone(), |_| false, |_| false).accepted.is_empty();
        assert!(is_loaded());
        // A drain has loaded it after the caller looked.
        assert!(live.lock().begin_change(&before, false) && live.lock().begin_change(&before, false));
        assert_eq!(live.lock().withdraw(1, before.fence), Withdrawal::Unknown, "the store decides");
        let leased = HotEntry { fence: before.fence + 1, ..before.clone() };
        assert!(!live.lock().hand_over_for_later(leased.clone(), lease(100)));
        live.lock().unchanged(&late, Millis(1_000));
        live.lock().forget_for_later(Millis::MAX.plus(-1));
        assert!(!is_loaded());
        live.lock().end_change(&before, Millis(50));
        live.lock().undo_change(&before);
        assert!(!is_loaded(), "one of two changes was made");
        live.lock().unchanged(&late, Millis(51));
        assert!(is_loaded());
        assert!(live.lock().begin_change(&before, false));
        live.lock().undo_change(&before);
        assert!(is_loaded(), "it has not happened");
        // It fires before the change begins.
        drop(live.lock().note_fired(&late));
        assert!(!live.lock().begin_change(&before, false), "fired");
        assert!(live.lock().begin_change(&before, true), "and is taken out");
        assert!(!live.lock().hand_over_for_later(leased.clone(), lease(100)));
        live.lock().undo_change(&before);
        assert!(live.lock().hand_over_for_later(leased, lease(100)));
        assert!(!live.lock().begin_change(&before, true), "an executor has it");
    }

    #[test]
    fn signs_of_life_extend_it_no_longer_than_the_attempt_may_take_and_not_after_its_end() {
        let live = Live::new(1, true);
        let fence = handed_over(&live).1.fence;
        let beat = |until, now| live.lock().extend_for_later(1, fence, Millis(until), Millis(now));
        let held = |until, has_begun| {
            Some(Extended::Held { lease_until: Millis(until), cancel_requested: false, has_begun })
        };
        assert_eq!(
            (beat(200, 50), beat(900, 200), beat(900, 301)),
            (held(200, true), held(300, false), Some(Extended::Lost))
        );
        assert_eq!(live.lock().extend_for_later(1, fence + 1, Millis(9), Millis(5)), None, "another attempt");
    }

    #[test]
    fn what_was_refused_is_known_for_a_while_and_what_was_not_heard_of_has_no_signs_of_life() {
        let live = Live::new(1, true);
        let fence = handed_over(&live).1.fence;
        assert!(live.lock().unheard_for_later(1, fence) && !live.lock().unheard_for_later(1, fence + 1));
        assert_eq!(live.lock().extend_for_later(1, fence, Millis(200), Millis(50)), Some(Extended::Lost));
        assert!(live.lock().heard_for_later(1, fence) && !live.lock().heard_for_later(1, fence + 1));
        let held = Extended::Held { lease_until: Millis(200), cancel_requested: false, has_begun: true };
        assert_eq!(live.lock().extend_for_later(1, fence, Millis(200), Millis(50)), Some(held));
        live.lock().forget_for_later(Millis(i64::MAX / 2));
        assert!(live.lock().for_later(1, fence).is_some(), "it waits for the store");
        live.lock().refuse_for_later(1, fence);
        live.lock().forget_for_later(Millis(200 + REFUSED_FOR_MS - 1));
        assert!(live.lock().for_later(1, fence).is_some_and(|lease| lease.is_refused));
        live.lock().forget_for_later(Millis(200 + REFUSED_FOR_MS));
        assert!(live.lock().slots.is_empty());
    }
}
