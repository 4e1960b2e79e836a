//! What has fired from the store, and this engine's executors are served with, while the hot set does not answer or has no room. The
//! store has it as ready, and says again what there is: nothing rests on what is here. Must not fire anything.

use super::{
    steps::{SERVED, SERVED_HERE},
    table::Table,
};
use hashbrown::HashMap;
use punctual_contract::hot::{Admission, HotEntry};
use punctual_domain::{
    chooser::{Draws, Level},
    name::QueueKey,
    time::Millis,
};
use std::sync::Arc;

impl Table {
    /// Executors that ask here may have these, but for those that are in their line or behind the gate of their database: these
    /// come here when they leave it. `level`: where each stands in its queue. How many were not served already.
    pub(crate) fn serve(&mut self, entries: &[HotEntry], level: impl Fn(&HotEntry) -> Level) -> usize {
        let mut count = 0;
        for entry in entries {
            let is_served = self.serves(entry);
            if self.keep(entry, SERVED_HERE, SERVED) {
                count += usize::from(!is_served);
                self.refresh(entry);
                self.stand_at(entry, level(entry));
            }
        }
        count
    }

    fn stand_at(&mut self, entry: &HotEntry, level: Level) {
        let Some(nth) = self.at(entry) else { return };
        let Some(slot) = self.slots.get_mut(nth) else { return };
        let old = slot.rank();
        slot.level = level;
        let new = slot.rank();
        self.rank_anew(nth, old, new);
    }

    /// It is here, or a newer attempt of it.
    pub(crate) fn serves(&self, entry: &HotEntry) -> bool {
        let slot = self.by_id.get(&entry.place.id).and_then(|nth| self.slots.get(*nth));
        slot.is_some_and(|slot| slot.stage == SERVED && slot.entry.fence >= entry.fence)
    }

    /// Nothing here fires it or goes on with it; or it is served, and the store does not know that it has fired.
    pub(crate) fn is_left_to_store(&self, entry: &HotEntry) -> bool {
        let is_unpersisted = || self.unpersisted_at(entry.place.id, entry.fence).is_some();
        !self.will_fire(entry)
            && !self.keeps(entry)
            && !self.is_for_later(entry.place.id, entry.fence + 1)
            && (!self.serves(entry) || is_unpersisted())
    }

    /// Those of a queue that go next, as far as the caller may run them.
    pub(crate) fn take_served(
        &mut self,
        queue: &Arc<QueueKey>,
        admission: Admission,
        may_run: impl Fn(&HotEntry) -> bool,
    ) -> Vec<HotEntry> {
        let Some(order) = self.index.served(queue) else { return Vec::new() };
        let (mut those, mut looked_at, mut draws) = (Vec::new(), Vec::new(), Draws::new(admission.seed));
        while those.len() < admission.limit
            && let Some((position, served)) = order.pop_with_position(&admission.chooser, &mut draws)
        {
            if self.slots.get(served.nth).is_some_and(|slot| may_run(&slot.entry)) {
                those.push(served.nth);
            }
            looked_at.push((position, served));
        }
        // A slot leaves the index with its stage.
        looked_at.into_iter().for_each(|(position, served)| order.insert(position, served));
        those.into_iter().filter_map(|nth| self.take(nth)).collect()
    }

    /// How many of each queue.
    pub(crate) fn count_served(&self) -> HashMap<Arc<QueueKey>, usize> {
        let mut counts = HashMap::new();
        for slot in self.index.all_served().filter_map(|nth| self.slots.get(nth)) {
            *counts.entry(Arc::clone(&slot.entry.queue)).or_default() += 1;
        }
        counts
    }

    /// When the oldest of each queue fired.
    pub(crate) fn oldest_served(&self) -> HashMap<Arc<QueueKey>, Millis> {
        let mut oldest = HashMap::new();
        for slot in self.index.all_served().filter_map(|nth| self.slots.get(nth)) {
            let at = oldest.entry(Arc::clone(&slot.entry.queue)).or_insert(slot.entry.fired_at);
            *at = slot.entry.fired_at.min(*at);
        }
        oldest
    }

    /// Executors are served with these no more. Answers them.
    pub(crate) fn serve_no_more(&mut self, are_these: impl Fn(&HotEntry) -> bool) -> Vec<HotEntry> {
        let is_one = |nth: &usize| self.slots.get(*nth).is_some_and(|slot| are_these(&slot.entry));
        let those: Vec<usize> = self.index.all_served().filter(is_one).collect();
        those.into_iter().filter_map(|nth| self.take(nth)).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{live::Live, pipeline::drain::tests::entry};
    use punctual_domain::{
        chooser::Chooser,
        settings::{Choice, Retries},
        state::State,
        task::Priority,
    };

    pub(in crate::live) fn plain(entry: &HotEntry) -> Level {
        Level::of(entry.priority, entry.attempt, Retries::default())
    }

    /// The most urgent level always.
    pub(in crate::live) fn strict(limit: usize) -> Admission {
        let choice = Choice::HighestFirst { percent: 100 };
        Admission { limit, chooser: Chooser { choice, retries_percent: None }, seed: 1 }
    }

    fn ids(live: &Live, admission: Admission) -> Vec<i64> {
        let taken = live.lock().take_served(&entry(1, 1).queue, admission, |entry| entry.place.id != 3);
        taken.iter().map(|entry| entry.place.id).collect()
    }

    #[test]
    fn what_is_ready_comes_by_priority_and_age_and_each_once() {
        let live = Live::new(1, true);
        live.lock().serve(&[entry(1, 30), entry(2, 10), entry(3, 20), entry(2, 10)], plain);
        assert!(live.lock().serves(&entry(2, 10)) && !live.lock().keeps(&entry(2, 10)));
        assert!(!live.lock().serves(&HotEntry { fence: 2, ..entry(2, 10) }));
        assert_eq!((ids(&live, strict(1)), ids(&live, strict(9))), (vec![2], vec![1]));
        assert_eq!(live.lock().serve_no_more(|_| true).len(), 1, "also what nobody might run");
        assert!(live.lock().slots.is_empty());
    }

    #[test]
    fn what_is_ready_no_more_is_served_no_more_and_the_oldest_of_the_rest_is_known() {
        let live = Live::new(1, true);
        let fired = |id: i64, at| HotEntry { fired_at: Millis(at), ..entry(id, at) };
        live.lock().serve(&[fired(1, 30), fired(2, 10), fired(3, 20)], plain);
        let gone = live.lock().serve_no_more(|entry| entry.place.id == 2);
        assert_eq!(gone.iter().map(|entry| entry.place.id).collect::<Vec<_>>(), [2]);
        let queue = entry(1, 1).queue;
        assert_eq!(live.lock().count_served()[&queue], 2);
        assert_eq!(live.lock().oldest_served()[&queue], Millis(20));
    }

    #[test]
    fn it_comes_as_its_queue_chooses_and_of_a_task_the_newest_version() {
        let live = Live::new(1, true);
        let low = Priority::new(5).unwrap();
        let version = |id, task_version| HotEntry { task_id: 7, task_version, ..entry(id, id) };
        let retried = HotEntry { attempt: 1, ..entry(4, 1) };
        let lowered = Retries { lower_by: 1, ..Retries::default() };
        let level = |entry: &HotEntry| Level::of(entry.priority, entry.attempt, lowered);
        live.lock().serve(
            &[version(1, 1), version(2, 2), retried, HotEntry { priority: low, ..entry(5, 0) }],
            level,
        );
        let least_first = Admission {
            chooser: Chooser { choice: Choice::HighestFirst { percent: 0 }, retries_percent: None },
            ..strict(1)
        };
        assert!(
            ids(&live, least_first).iter().all(|id| [4, 5].contains(id)),
            "one of the less urgent levels"
        );
        let left = ids(&live, strict(9));
        assert_eq!((&left[..2], left.len()), (&[2, 1][..], 3));
    }

    #[test]
    fn what_was_known_of_a_task_before_is_replaced_by_what_the_store_says() {
        let live = Live::new(1, true);
        let ready = HotEntry { state: State::Ready, fired_at: Millis(7), ..entry(1, 5) };
        let _ = live.lock().note_fired(&[entry(1, 5)]);
        live.lock().serve(std::slice::from_ref(&ready), plain);
        assert_eq!(live.lock().take_served(&ready.queue, strict(1), |_| true), [ready]);
        assert_eq!(live.lock().slots.len(), 1, "the store was not told that it is ready");
    }
}
