//! Attempts at executors, at most one per task, with the fence of the lease. An attempt stays for two purposes. A
//! preleased one has its lease in the engine's name, and the store must learn who has it. And its outcome needs no
//! read of the row while the row is probably unchanged since the hand-over. It is removed with its outcome or
//! release, or when neither purpose remains. Losing the first costs the rest of a short lease, losing the second a
//! read. Must not read the store itself.

use super::{
    for_later::ForLaterLease,
    index::Group,
    stage::TaskEvent,
    steps::{REPORTED, UNREPORTED},
    table::{Moved, Slot, Table},
};
use hashbrown::HashMap;
use punctual_contract::{
    hot::{Details, HotEntry},
    store::{Assignment, Beat, LeaseFacts},
};
use punctual_domain::{name::QueueKey, state::State, time::Millis};
use std::sync::Arc;

/// The maximum number of attempts with facts. The rows of further attempts are read when they end.
pub(super) const KNOWN_MAX: usize = 50_000;

/// The remaining work of an attempt.
#[derive(Debug, Default)]
pub(super) struct Attempt {
    /// The holder, as long as the store does not know it.
    pub(super) holder: Option<Holder>,
    pub(super) facts: Option<AttemptFacts>,
    /// Set if the attempt's database is unavailable.
    pub(super) for_later: Option<ForLaterLease>,
}

/// The holder of a task, and since when.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) since: Millis,
    beat: Beat,
}

/// The facts that its outcome needs.
#[derive(Debug)]
pub(super) struct AttemptFacts {
    facts: LeaseFacts,
    /// Later it has probably given a heartbeat, perhaps to another engine.
    pub(super) until: Millis,
}

/// An attempt that was handed over, and whose holder the store does not know.
#[derive(Debug)]
pub(crate) struct Unreported {
    /// The entry with the fence of the lease.
    pub(crate) entry: HotEntry,
    pub(crate) since: Millis,
    /// The record for the store.
    pub(crate) beat: Beat,
}

/// Facts that were noted about ended attempts.
#[derive(Debug, Default)]
pub(crate) struct EndedAttempts {
    pub(crate) unreported: Vec<Unreported>,
    /// The facts by task and fence.
    pub(crate) known: HashMap<(i64, i64), LeaseFacts>,
}

impl Unreported {
    /// The instant at which the attempt fired, by task and fence.
    pub(crate) fn fired(&self) -> Option<((i64, i64), Millis)> {
        Some(((self.beat.place.id, self.beat.fence), self.beat.handed_over_at?))
    }
}

impl Table {
    /// An executor gets this task now, by a prelease. If the table has a newer fence, the lease has ended,
    /// and no holder is reported.
    pub(crate) fn hand_over(&mut self, Unreported { entry, since, beat }: Unreported) {
        let there = self.by_id.get(&entry.place.id).copied();
        let before = match there.map(|nth| (nth, self.fence(nth))) {
            Some((_, known)) if known > Some(entry.fence) => return,
            Some((nth, _)) => self.remove(nth),
            None => None,
        };
        // The known facts of this attempt are kept.
        let its = before.filter(|slot| slot.entry.fence == entry.fence).and_then(|slot| slot.attempt);
        let attempt =
            Attempt { holder: Some(Holder { since, beat }), ..its.map(|its| *its).unwrap_or_default() };
        self.insert_slot(Slot { attempt: Some(Box::new(attempt)), ..Slot::new(entry, UNREPORTED) });
    }

    /// The leases of these were made, and executors get them now, or have got them by `hand_over`. `until`: when they have probably
    /// given a heartbeat.
    pub(crate) fn know_attempts(&mut self, queue: &Arc<QueueKey>, leases: &[Assignment], until: Millis) {
        for lease in leases {
            if self.known_attempts >= KNOWN_MAX {
                return;
            }
            let facts = AttemptFacts { facts: LeaseFacts::of(lease, queue), until };
            let there = self.by_id.get(&lease.place.id).copied();
            match there.map(|nth| (nth, self.fence(nth))) {
                // It was returned meanwhile, or has moved on.
                Some((_, known)) if known > Some(lease.fence) => continue,
                Some((nth, known)) if known == Some(lease.fence) => {
                    self.change_attempt(nth, |attempt| attempt.facts = Some(facts));
                    continue;
                }
                Some((nth, _)) => drop(self.remove(nth)),
                None => {}
            }
            let attempt = Some(Box::new(Attempt { facts: Some(facts), ..Attempt::default() }));
            self.insert_slot(Slot { attempt, ..Slot::new(leased_entry(lease, queue), REPORTED) });
        }
    }

    /// These attempts sent a heartbeat, or are being returned: their rows have changed since the hand-over.
    /// Pending reports of their holders remain pending.
    pub(crate) fn forget_attempts(&mut self, attempts: impl Iterator<Item = (i64, i64)>) {
        for (id, fence) in attempts {
            if let Some(nth) = self.at_fence(id, fence) {
                self.change_attempt(nth, |attempt| attempt.facts = None);
                self.finish(nth);
            }
        }
    }

    /// Removes the attempts whose facts are good until now at most.
    pub(crate) fn forget_old_attempts(&mut self, now: Millis) {
        let over = self.index.until(Group::Reported, now).collect::<Vec<usize>>();
        over.into_iter().for_each(|nth| drop(self.advance(nth, TaskEvent::Settled)));
    }

    /// The outcomes of these attempts have arrived, or they are returned, or did not reach their executors:
    /// no holder needs to be reported. Returns the pending reports, and the known facts.
    pub(crate) fn ended(&mut self, attempts: impl Iterator<Item = (i64, i64)>, now: Millis) -> EndedAttempts {
        let mut ended = EndedAttempts::default();
        for (id, fence) in attempts {
            let moved = self.at_fence(id, fence).and_then(|nth| self.advance(nth, TaskEvent::Ended));
            let Some(Moved { gone: Some(Slot { entry, attempt: Some(attempt), .. }), .. }) = moved else {
                continue;
            };
            let Attempt { holder, facts, .. } = *attempt;
            let facts = facts.filter(|known| now < known.until).map(|known| known.facts);
            ended.known.extend(facts.map(|facts| ((id, fence), facts)));
            let unreported = |Holder { since, beat }| Unreported { entry, since, beat };
            ended.unreported.extend(holder.map(unreported));
        }
        ended
    }

    /// These must be reported after all, except those that the table knows with a newer fence.
    pub(crate) fn not_ended(&mut self, ended: Vec<Unreported>) {
        for unreported in ended {
            let known = self.by_id.get(&unreported.entry.place.id).and_then(|nth| self.fence(*nth));
            if known < Some(unreported.entry.fence) {
                self.hand_over(unreported);
            }
        }
    }

    /// True if this attempt was handed over here, and the store may not know its holder.
    pub(crate) fn is_unreported(&self, id: i64, fence: i64) -> bool {
        self.at_fence(id, fence).is_some_and(|nth| self.holder(nth).is_some())
    }

    pub(crate) fn is_all_reported(&self) -> bool {
        self.index.is_empty(Group::Unreported) && self.index.is_empty(Group::Reporting)
    }

    /// Begins the reports of attempts that were handed over until then and whose holder the store does not know.
    pub(crate) fn begin_reports(&mut self, until: Millis) -> Vec<Beat> {
        let old: Vec<usize> = self.index.until(Group::Unreported, until).collect();
        let begun = old.into_iter().filter_map(|nth| {
            self.advance(nth, TaskEvent::ReportBegun)?;
            Some(self.holder(nth)?.beat.clone())
        });
        begun.collect()
    }

    /// The store knows the holders of these.
    pub(crate) fn reported(&mut self, beats: &[Beat]) {
        for beat in beats {
            self.at_fence(beat.place.id, beat.fence).into_iter().for_each(|nth| self.end_report(nth));
        }
    }

    /// Ends failed reports. The store may not know the holders: attempts that were handed over after `since` are
    /// reported again. The leases of the others have expired.
    pub(crate) fn not_reported(&mut self, beats: &[Beat], since: Millis) {
        for beat in beats {
            let Some(nth) = self.at_fence(beat.place.id, beat.fence) else { continue };
            if self.holder(nth).is_some_and(|holder| holder.since <= since) {
                self.end_report(nth);
            } else {
                self.advance(nth, TaskEvent::NotReported);
            }
        }
    }

    fn end_report(&mut self, nth: usize) {
        if self.advance(nth, TaskEvent::Reported).is_some() {
            self.change_attempt(nth, |attempt| attempt.holder = None);
            self.finish(nth);
        }
    }

    fn holder(&self, nth: usize) -> Option<&Holder> {
        self.slots.get(nth)?.attempt.as_ref()?.holder.as_ref()
    }

    /// Changes nothing if no executor has the task.
    fn change_attempt(&mut self, nth: usize, change: impl FnOnce(&mut Attempt)) {
        let Some(slot) = self.slots.get_mut(nth) else { return };
        let before = (slot.rank(), slot.has_facts());
        if let Some(attempt) = slot.attempt.as_deref_mut() {
            change(attempt);
        }
        let after = (slot.rank(), slot.has_facts());
        self.rank_anew(nth, before.0, after.0);
        self.known_attempts += usize::from(after.1);
        self.known_attempts -= usize::from(before.1);
    }

    /// True if something of this attempt is known.
    #[cfg(test)]
    pub(super) fn knows_attempt(&self, id: i64, fence: i64) -> bool {
        self.at_fence(id, fence).and_then(|nth| self.slots.get(nth)).is_some_and(Slot::has_facts)
    }
}

/// A task as its lease describes it, with the fence of the lease. Details that only the hot set has are left
/// out.
pub(crate) fn leased_entry(lease: &Assignment, queue: &Arc<QueueKey>) -> HotEntry {
    HotEntry {
        place: lease.place,
        due_at: lease.due_at,
        fence: lease.fence,
        queue: Arc::clone(queue),
        priority: lease.priority,
        task_id: lease.task_id,
        task_version: lease.task_version,
        deadline_at: Millis::MAX,
        state: State::Dispatched,
        fired_at: lease.fired_at,
        attempt: lease.attempt,
        details: Arc::new(Details { kind: Some(lease.kind.clone()), ..Details::default() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        live::{Live, model::lease_of},
        pipeline::drain::tests::entry,
    };

    const NOW: Millis = Millis(1_000);

    fn beat(lease: &Assignment) -> Beat {
        Beat {
            place: lease.place,
            fence: lease.fence,
            lease_until: Millis::MAX,
            progress: None,
            log: None,
            executor: "ann".to_owned(),
            handed_over_at: Some(NOW),
        }
    }

    /// An executor has a task by a lease that was made ahead.
    fn hand_over(live: &Live) -> Assignment {
        let lease = lease_of(&entry(1, 1));
        let queue = Arc::new(lease.queue.clone());
        let unreported = Unreported { entry: leased_entry(&lease, &queue), since: NOW, beat: beat(&lease) };
        live.lock().hand_over(unreported);
        live.lock().know_attempts(&queue, std::slice::from_ref(&lease), NOW.plus(10));
        lease
    }

    /// Returns if the attempt's holder must be reported, and if its facts are known.
    fn state(live: &Live, lease: &Assignment) -> (bool, bool) {
        let state = state_of_attempt(live, lease);
        assert_eq!(live.lock().slots.len(), usize::from(state != (false, false)), "one entry a task");
        state
    }

    fn state_of_attempt(live: &Live, lease: &Assignment) -> (bool, bool) {
        let (table, id) = (live.lock(), lease.place.id);
        let state = (table.is_unreported(id, lease.fence), table.knows_attempt(id, lease.fence));
        assert_eq!(table.known_attempts, usize::from(state.1));
        state
    }

    fn end(live: &Live, lease: &Assignment) -> EndedAttempts {
        live.lock().ended(std::iter::once((lease.place.id, lease.fence)), NOW)
    }

    #[test]
    fn a_report_and_what_is_known_share_one_entry_and_end_by_themselves() {
        let live = Live::new(1, true);
        let lease = hand_over(&live);
        assert_eq!(state(&live, &lease), (true, true));
        let beats = live.lock().begin_reports(NOW);
        live.lock().not_reported(&beats, NOW.plus(-1));
        assert_eq!(state(&live, &lease), (true, true), "it is reported again");
        let again = live.lock().begin_reports(NOW);
        live.lock().reported(&again);
        assert_eq!((beats, again), (vec![beat(&lease)], vec![beat(&lease)]));
        assert_eq!(state(&live, &lease), (false, true), "a report takes no facts");
        live.lock().forget_attempts(std::iter::once((1, lease.fence)));
        assert_eq!(state(&live, &lease), (false, false));

        let lease = hand_over(&live);
        live.lock().forget_attempts(std::iter::once((1, lease.fence)));
        assert_eq!(state(&live, &lease), (true, false), "a sign of life takes no report");
        let beats = live.lock().begin_reports(NOW);
        live.lock().not_reported(&beats, NOW);
        assert_eq!(state(&live, &lease), (false, false), "its lease is over");
    }

    #[test]
    fn an_outcome_takes_both_and_one_that_was_not_written_brings_the_report_back() {
        let live = Live::new(1, true);
        let lease = hand_over(&live);
        let ended = end(&live, &lease);
        let known: Vec<_> = ended.known.into_keys().collect();
        assert_eq!((ended.unreported.len(), known), (1, vec![(1, lease.fence)]));
        assert_eq!(state(&live, &lease), (false, false));
        live.lock().not_ended(ended.unreported);
        assert_eq!(state(&live, &lease), (true, false));
        let ended = end(&live, &lease);
        assert_eq!((ended.unreported.len(), ended.known.len()), (1, 0));
    }

    #[test]
    fn what_is_unreported_is_here_longer_than_what_is_known_of_it_is_good() {
        let live = Live::new(1, true);
        let lease = hand_over(&live);
        live.lock().forget_old_attempts(NOW.plus(10));
        assert_eq!(state(&live, &lease), (true, true));
        let ended = live.lock().ended(std::iter::once((1, lease.fence)), NOW.plus(10));
        assert_eq!((ended.unreported.len(), ended.known.len()), (1, 0), "it is looked at");
    }

    #[test]
    fn what_was_given_back_is_another_attempt_at_the_same_fence() {
        let live = Live::new(1, true);
        let lease = hand_over(&live);
        let back = HotEntry { fence: lease.fence, ..entry(1, 1) };
        assert_eq!(live.lock().load(vec![back.clone()], |_| false, |_| false).accepted, [back]);
        assert_eq!(state_of_attempt(&live, &lease), (false, false));
        live.lock().know_attempts(&Arc::new(lease.queue.clone()), std::slice::from_ref(&lease), Millis::MAX);
        assert_eq!(state_of_attempt(&live, &lease), (false, false), "the answer of its hand-over comes late");
        let ended = end(&live, &lease);
        assert_eq!((ended.unreported.len(), ended.known.len(), live.lock().len()), (0, 0, 1));
    }

    #[test]
    fn an_attempt_is_known_once_with_its_fence_until_it_has_probably_begun() {
        let live = Live::new(2, true);
        let leases = [1, 2, 3].map(|id| lease_of(&entry(id, 1)));
        let queue = Arc::clone(&entry(1, 1).queue);
        live.lock().know_attempts(&queue, &leases, NOW.plus(10));
        let ended = |id, fence, now| live.lock().ended(std::iter::once((id, fence)), now).known.len();
        let fence = leases[0].fence;
        assert_eq!(ended(1, fence + 1, NOW), 0, "another attempt");
        assert_eq!([ended(1, fence, NOW), ended(1, fence, NOW)], [1, 0]);
        assert_eq!(ended(2, fence, NOW.plus(10)), 0, "it has probably begun");
        live.lock().forget_old_attempts(NOW.plus(9));
        assert_eq!(live.lock().slots.len(), 1);
        live.lock().forget_old_attempts(NOW.plus(10));
        let table = live.lock();
        assert_eq!((table.slots.len(), table.known_attempts), (0, 0));
    }

    #[test]
    fn an_attempt_of_which_only_facts_are_known_keeps_out_a_claim_that_comes_late_and_nothing_else() {
        let live = Live::new(2, true);
        let queue = Arc::clone(&entry(1, 1).queue);
        let know = || live.lock().know_attempts(&queue, &[lease_of(&entry(1, 1))], Millis::MAX);
        let known = || {
            let table = live.lock();
            (table.known_attempts, table.slots.len())
        };
        know();
        assert!(
            live.lock().load(vec![entry(1, 1)], |_| false, |_| false).accepted.is_empty(),
            "it was handed over meanwhile"
        );
        assert_eq!(known(), (1, 1));
        let back = HotEntry { fence: 2, ..entry(1, 1) };
        assert_eq!(
            live.lock().load(vec![back.clone()], |_| false, |_| false).accepted,
            [back],
            "it was given back"
        );
        assert_eq!(known(), (0, 1));
        live.lock().withdraw(1, 2);
        know();
        live.lock().note_fired(&[entry(1, 1)]);
        assert_eq!(known(), (0, 1), "the store may have lost its last commits");
        live.lock().persisted(&[entry(1, 1)]);
        know();
        live.lock().close(punctual_domain::place::Partition(0));
        assert_eq!(known(), (1, 1), "its executor reports here, whichever engine owns its partition");
    }
}
