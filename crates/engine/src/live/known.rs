//! What a hand-over needs of tasks that this engine has inserted or read. It stands beside the stage of those that this engine looks
//! after, and goes to the store with the call, so that rows need not be looked at; what an outcome needs is in `handed_over`.
//! A task that is only known is as good as absent: it stands in nobody's way, and the hot set and the store decide. Losing any of
//! it costs a look. Must not hold a payload that is long, nor more than a bounded number of bytes.

use super::{
    Live,
    index::Group,
    stage::{Event, Stage},
    steps::{REPORTED, is_executors, is_only_known},
    table::{Slot, Table},
};
use punctual_contract::{
    hot::HotEntry,
    store::{Ask, Facts},
};
use punctual_domain::time::Millis;
use std::sync::Arc;

/// Of asks, with what each slot takes besides. What is inserted beyond that is looked at.
const BYTES_MAX: usize = 32 << 20;
const SLOT_BYTES: usize = 512;

pub(super) fn bytes_of(ask: Option<&Arc<Ask>>) -> usize {
    ask.map_or(0, |ask| ask.bytes() + SLOT_BYTES)
}

impl Live {
    /// What is known of the rows of these, in their order. `is_current`: the row is still in the state that the entry names.
    pub(crate) fn facts(
        &self,
        entries: &[HotEntry],
        is_current: impl Fn(&HotEntry) -> bool,
    ) -> Vec<Option<Facts>> {
        let current: Vec<bool> = entries.iter().map(is_current).collect();
        let table = self.lock();
        let ask = |entry: &HotEntry| table.slots.get(table.at(entry)?)?.ask.clone();
        let facts = |(entry, is_current): (&HotEntry, bool)| {
            ask(entry).filter(|_| is_current).map(|ask| facts_of(entry, ask))
        };
        entries.iter().zip(current).map(facts).collect()
    }
}

impl Table {
    /// These were inserted here a moment ago, or read.
    pub(crate) fn know(&mut self, tasks: Vec<(HotEntry, Arc<Ask>)>) {
        for (entry, ask) in tasks {
            if self.ask_bytes >= BYTES_MAX {
                return;
            }
            let there = self.by_id.get(&entry.place.id).copied();
            match there.and_then(|nth| Some((nth, self.slots.get(nth)?))) {
                Some((nth, slot)) if is_only_known(slot.stage) && slot.entry.fence < entry.fence => {
                    self.remove(nth);
                    self.insert_known(entry, ask);
                }
                // The attempt that has this fence was given back.
                Some((nth, slot)) if slot.entry.fence == entry.fence && slot.stage == REPORTED => {
                    self.remove(nth);
                    self.insert_known(entry, ask);
                }
                Some((nth, slot)) if slot.entry.fence == entry.fence && !is_executors(slot.stage) => {
                    self.set_ask(nth, ask);
                }
                Some(_) => {}
                None => self.insert_known(entry, ask),
            }
        }
    }

    /// It goes on elsewhere, and what is known of it is still good.
    pub(super) fn remember(&mut self, slot: &Slot) {
        if let Some(ask) = slot.ask.clone().filter(|_| !self.by_id.contains_key(&slot.entry.place.id)) {
            self.insert_known(slot.entry.clone(), ask);
        }
    }

    /// Takes out what is only known of a task that comes into this engine's hands. Answers what was asked for, if it is still
    /// the same.
    pub(super) fn take_known(&mut self, entry: &HotEntry) -> Option<Arc<Ask>> {
        let nth = self.by_id.get(&entry.place.id).copied();
        let nth = nth.filter(|nth| self.slots.get(*nth).is_some_and(|slot| is_only_known(slot.stage)))?;
        self.remove(nth).filter(|slot| slot.entry.fence == entry.fence)?.ask
    }

    /// Forgets what is known of tasks that were due before this and were not handed over here, and of attempts whose time is over.
    pub(crate) fn forget_known(&mut self, before: Millis, now: Millis) {
        let old = self.index.until(Group::Known, before).collect::<Vec<usize>>();
        old.into_iter().for_each(|nth| drop(self.advance(nth, Event::Forgotten)));
        self.forget_old_attempts(now);
    }

    fn insert_known(&mut self, entry: HotEntry, ask: Arc<Ask>) {
        self.insert_slot(Slot { ask: Some(ask), ..Slot::new(entry, Stage::Known) });
    }

    fn set_ask(&mut self, nth: usize, ask: Arc<Ask>) {
        if let Some(slot) = self.slots.get_mut(nth) {
            self.ask_bytes += bytes_of(Some(&ask));
            self.ask_bytes -= bytes_of(slot.ask.replace(ask).as_ref());
        }
    }

    pub(super) fn forget_ask(&mut self, nth: usize) {
        let ask = self.slots.get_mut(nth).and_then(|slot| slot.ask.take());
        self.ask_bytes -= bytes_of(ask.as_ref());
    }
}

fn facts_of(entry: &HotEntry, ask: Arc<Ask>) -> Facts {
    Facts {
        state: entry.state,
        place: entry.place,
        queue: Arc::clone(&entry.queue),
        task_id: entry.task_id,
        task_version: entry.task_version,
        priority: entry.priority,
        attempt: entry.attempt,
        ask,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::claim::tests::entry;
    use punctual_contract::store::Assignment;
    use punctual_domain::{place::Partition, state::State, task::NewTask};

    const NOW: Millis = Millis(1_000);

    fn ask_of(payload: usize) -> Arc<Ask> {
        let mut task =
            NewTask::new((*entry(1, 1).queue).clone(), punctual_domain::name::Name::default_namespace(), NOW);
        task.payload.bytes = vec![b'x'; payload];
        Arc::new(Ask::of(&task).unwrap())
    }

    fn live_with(ids: std::ops::RangeInclusive<i64>) -> Live {
        let live = Live::new(2, true);
        live.lock().know(ids.map(|id| (entry(id, 1), ask_of(3))).collect());
        live
    }

    fn known(live: &Live, entries: &[HotEntry]) -> Vec<bool> {
        live.facts(entries, |_| true).iter().map(Option::is_some).collect()
    }

    fn lease(entry: &HotEntry) -> Assignment {
        Assignment { attempt: 1, ..crate::live::model::lease_of(entry) }
    }

    #[test]
    fn facts_are_of_one_fence_and_of_the_state_that_the_entry_names() {
        let live = live_with(1..=2);
        let newer = HotEntry { fence: 2, ..entry(1, 1) };
        assert_eq!(known(&live, &[entry(1, 1), newer.clone(), entry(3, 1)]), [true, false, false]);
        let claimed = HotEntry { state: State::Dispatching, ..entry(2, 1) };
        let facts = live.facts(std::slice::from_ref(&claimed), |_| true).remove(0).unwrap();
        assert_eq!((facts.state, facts.ask), (State::Dispatching, ask_of(3)));
        assert_eq!(live.facts(&[claimed], |_| false), [None], "its row may be in another state");
        live.lock().know(vec![(newer.clone(), ask_of(1))]);
        assert_eq!(known(&live, &[entry(1, 1), newer]), [false, true]);
    }

    #[test]
    fn what_is_known_goes_with_the_task_until_it_is_handed_over() {
        let live = live_with(1..=1);
        let one = [entry(1, 1)];
        assert!(!live.lock().holds(&one[0]) && !live.lock().keeps(&one[0]), "it is in nobody's hands");
        let loaded = live.lock().load(one.to_vec());
        assert_eq!((loaded.accepted.len(), known(&live, &one)), (1, vec![true]));
        live.lock().not_claimed(&one);
        assert_eq!(known(&live, &one), [true], "it is claimed late");
        let kept = live.lock().keep_in_line(one.to_vec());
        live.lock().leave_line(kept.iter());
        assert_eq!(known(&live, &one), [true]);
        live.lock().note_fired(&one);
        live.lock().serve(&one, crate::live::served::tests::plain);
        live.lock().end_serving();
        assert_eq!(known(&live, &one), [true]);
        live.lock().persisted(&one);
        assert_eq!(known(&live, &one), [true], "nothing of it is to be settled");
        let grants = live.grants(&one);
        assert_eq!(known(&live, &one), [true]);
        let queue = Arc::clone(&one[0].queue);
        live.lock().know_attempts(&queue, &[lease(&one[0])], Millis::MAX);
        drop(grants);
        assert_eq!(known(&live, &one), [false], "whatever comes of it");
        let ended = live.lock().ended(std::iter::once((1, lease(&one[0]).fence)), NOW);
        assert_eq!(ended.known.len(), 1);
        assert_eq!(live.lock().ask_bytes, 0);
    }

    #[test]
    fn a_grant_that_fails_leaves_nothing_known() {
        let live = live_with(1..=1);
        drop(live.grants(&[entry(1, 1)]));
        assert_eq!((known(&live, &[entry(1, 1)]), live.lock().ask_bytes), (vec![false], 0));
    }

    #[test]
    fn an_attempt_is_known_once_with_its_fence_until_it_has_probably_begun() {
        let live = Live::new(2, true);
        let leases = [1, 2, 3].map(|id| lease(&entry(id, 1)));
        let queue = Arc::clone(&entry(1, 1).queue);
        live.lock().know_attempts(&queue, &leases, NOW.plus(10));
        let ended = |id, fence, now| live.lock().ended(std::iter::once((id, fence)), now).known.len();
        let fence = leases[0].fence;
        assert_eq!(ended(1, fence + 1, NOW), 0, "another attempt");
        assert_eq!([ended(1, fence, NOW), ended(1, fence, NOW)], [1, 0]);
        assert_eq!(ended(2, fence, NOW.plus(10)), 0, "it has probably begun");
        live.lock().forget_known(Millis(0), NOW.plus(9));
        assert_eq!(live.lock().slots.len(), 1);
        live.lock().forget_known(Millis(0), NOW.plus(10));
        let table = live.lock();
        assert_eq!((table.slots.len(), table.known_attempts), (0, 0));
    }

    #[test]
    fn what_was_handed_over_stands_in_nobodys_way() {
        let live = Live::new(2, true);
        let queue = Arc::clone(&entry(1, 1).queue);
        for fence in [1, 2] {
            live.lock().know_attempts(&queue, &[lease(&entry(1, 1))], Millis::MAX);
            let again = HotEntry { fence, ..entry(1, 1) };
            assert_eq!(live.lock().load(vec![again.clone()]).accepted.len(), 1, "{fence}");
            assert_eq!(live.lock().known_attempts, 0);
            live.lock().forget(1, fence);
            assert_eq!(live.lock().slots.len(), 0);
        }
        live.lock().know_attempts(&queue, &[lease(&entry(1, 1))], Millis::MAX);
        live.lock().close(Partition(0));
        assert_eq!(live.lock().known_attempts, 1, "its executor reports here, whoever owns its partition");
    }

    #[test]
    fn what_is_known_is_bounded_and_old_inserts_go() {
        let live = live_with(1..=100_000);
        let bytes = live.lock().ask_bytes;
        assert!((BYTES_MAX..BYTES_MAX + 2 * SLOT_BYTES).contains(&bytes), "{bytes}");
        live.lock().forget_known(Millis(2), NOW);
        let table = live.lock();
        assert_eq!((table.ask_bytes, table.slots.len()), (0, 0));
    }
}
