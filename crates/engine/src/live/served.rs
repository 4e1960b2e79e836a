//! The lines: fired tasks that executors get here. They can be rebuilt from the store, so nothing depends on
//! them. Must not fire a task.

use super::{
    index::Group,
    kept::is_decided,
    line::{Line, LineCounts, ParkedIn},
    stage::{Stage, TaskEvent},
    steps::{PARKED, PUT_ASIDE, SERVED, is_served, step},
    table::{Slot, Table},
};
use hashbrown::HashMap;
use punctual_contract::hot::{Admission, HotEntry, ParkReason};
use punctual_domain::{
    chooser::{Draws, Level},
    name::QueueKey,
    time::Millis,
};
use std::sync::Arc;

/// Tasks in the line of one queue: some 200 MiB.
const LINE_MAX: usize = 400_000;
/// The number of tasks in the table from which lines that are longer than `LINE_FAIR` do not grow.
const TABLE_MAX: usize = 1_000_000;
const LINE_FAIR: usize = 1_000;
/// The maximum length of a line with dispatch data. In a longer line, memory is dearer than reading a row.
const ASKS_MAX: usize = 20_000;

impl Table {
    /// Lines up tasks for executors that ask here, except those in a lane or behind the gate of their
    /// database, which are lined up when that opens. `level`: of each task in its queue. A long line accepts
    /// no more. Returns how many were not lined up before.
    pub(crate) fn serve(&mut self, entries: &[HotEntry], level: impl Fn(&HotEntry) -> Level) -> usize {
        let mut count = 0;
        for entry in entries {
            let is_served = self.serves(entry);
            if !is_served && self.is_long(&entry.queue) {
                self.index.line_mut(&entry.queue).into_iter().for_each(|line| line.has_left_some = true);
                continue;
            }
            if self.keep_served(entry, (TaskEvent::Lined, SERVED), level(entry), None) {
                count += usize::from(!is_served);
                self.refresh(entry);
            }
        }
        count
    }

    /// The line of a queue accepts no more: the rest is left to the store, where the refill finds it when the
    /// line is shorter. A queue without executors thus blocks no other.
    fn is_long(&self, queue: &QueueKey) -> bool {
        let line_counts = self.line_counts(queue).all();
        line_counts >= LINE_MAX || (line_counts >= LINE_FAIR && self.slots.len() >= TABLE_MAX)
    }

    /// True if the line has left tasks to the store, and is again at most half full, as is the table. True only once,
    /// or a full table would cause a read of the store at each hand-over.
    pub(crate) fn has_room_again(&mut self, queue: &QueueKey) -> bool {
        let has_room = self.line_counts(queue).all() <= LINE_MAX / 2 && self.slots.len() <= TABLE_MAX / 2;
        let Some(line) = self.index.line_mut(queue).filter(|line| has_room && line.has_left_some) else {
            return false;
        };
        line.has_left_some = false;
        true
    }

    /// Parks fired tasks that may not be handed over now: moves them from the order into a lane of their queue.
    pub(crate) fn park(
        &mut self,
        lane: &ParkReason,
        entries: &[HotEntry],
        level: impl Fn(&HotEntry) -> Level,
    ) {
        for entry in entries {
            let named = self.index.line(&entry.queue).map(|line| line.named(lane));
            let aside = Some(named.unwrap_or_else(|| Arc::new(lane.clone())));
            self.keep_served(entry, (PUT_ASIDE, PARKED), level(entry), aside);
        }
    }

    /// Stores an entry like `keep`, with the task's place in the line.
    fn keep_served(
        &mut self,
        entry: &HotEntry,
        (event, stage): (TaskEvent, Stage),
        level: Level,
        aside: ParkedIn,
    ) -> bool {
        self.make_way(entry.place.id, i64::MAX);
        let there = self.by_id.get(&entry.place.id).copied();
        match there.and_then(|nth| Some((nth, self.slots.get(nth)?))) {
            Some((_, slot)) if slot.entry.fence > entry.fence => return false,
            Some((nth, slot)) if slot.entry.fence == entry.fence && is_decided(slot.stage) => {
                if step(slot.stage, event).is_none() {
                    return false;
                }
                self.set_rank(nth, level, aside);
                return self.advance(nth, event).is_some();
            }
            Some((nth, _)) => drop(self.remove(nth)),
            None => {}
        }
        // A million entries, each with a name of its queue of its own, would be most of the memory.
        let mut entry = HotEntry { queue: self.index.named(&entry.queue), ..entry.clone() };
        if self.line_counts(&entry.queue).all() >= ASKS_MAX {
            entry.leave_out_ask();
        }
        self.insert_slot(Slot { level, aside, ..Slot::new(entry, stage) });
        true
    }

    fn set_rank(&mut self, nth: usize, level: Level, aside: ParkedIn) {
        let Some(slot) = self.slots.get_mut(nth) else { return };
        let old = slot.rank();
        (slot.level, slot.aside) = (level, aside);
        slot.entry.queue = self.index.named(&slot.entry.queue);
        let new = slot.rank();
        self.rank_anew(nth, old, new);
    }

    /// Moves the first tasks of a lane back into the order, at their original places. Returns how many.
    pub(crate) fn unpark(&mut self, queue: &QueueKey, lane: &ParkReason, limit: usize) -> usize {
        let mut back = 0;
        while back < limit
            && let Some(nth) = self.index.line(queue).and_then(|line| line.first_of(lane))
            && self.advance(nth, TaskEvent::Opened).is_some()
        {
            back += 1;
        }
        back
    }

    /// Lanes of a queue in which something is parked, in order, after one, and how much.
    pub(crate) fn lanes(
        &self,
        queue: &QueueKey,
        after: Option<&ParkReason>,
        limit: usize,
    ) -> Vec<(ParkReason, usize)> {
        self.index.line(queue).map_or_else(Vec::new, |line| line.lanes(after, limit))
    }

    /// The line has the task, or a newer attempt of it.
    pub(crate) fn serves(&self, entry: &HotEntry) -> bool {
        let slot = self.by_id.get(&entry.place.id).and_then(|nth| self.slots.get(*nth));
        slot.is_some_and(|slot| is_served(slot.stage) && slot.entry.fence >= entry.fence)
    }

    /// True if nothing here fires or holds the task, or if it is in a line, and the store does not know that it has
    /// fired.
    pub(crate) fn is_left_to_store(&self, entry: &HotEntry) -> bool {
        let is_unpersisted = || self.unpersisted_at(entry.place.id, entry.fence).is_some();
        !self.will_fire(entry)
            && !self.keeps(entry)
            && !self.is_for_later(entry.place.id, entry.fence + 1)
            && (!self.serves(entry) || is_unpersisted())
    }

    /// Takes the next tasks of a queue.
    pub(crate) fn take_served(&mut self, queue: &QueueKey, admission: Admission) -> Vec<HotEntry> {
        let (mut taken, mut draws) = (Vec::new(), Draws::new(admission.seed));
        while taken.len() < admission.limit
            && let Some(nth) = self.index.line_mut(queue).and_then(|line| line.pop(&admission, &mut draws))
        {
            taken.extend(self.take(nth));
        }
        taken
    }

    /// The number of tasks of each queue.
    pub(crate) fn count_served(&self) -> HashMap<Arc<QueueKey>, LineCounts> {
        self.index.lines().map(|(queue, line)| (Arc::clone(queue), line.line_counts())).collect()
    }

    /// Queues of which something is parked.
    pub(crate) fn parked_queues(&self) -> Vec<Arc<QueueKey>> {
        let parked = self.index.lines().filter(|(_, line)| line.line_counts().parked > 0);
        parked.map(|(queue, _)| Arc::clone(queue)).collect()
    }

    /// The number of tasks of one queue.
    pub(crate) fn line_counts(&self, queue: &QueueKey) -> LineCounts {
        self.index.line(queue).map_or_else(LineCounts::default, Line::line_counts)
    }

    /// The instant at which the oldest task of each queue fired, without parked ones; of each level, the earliest due
    /// counts.
    pub(crate) fn oldest_served(&self) -> impl Iterator<Item = (Arc<QueueKey>, Millis)> {
        let oldest = |queue: &Arc<QueueKey>| Some((Arc::clone(queue), self.oldest_in(queue)?));
        self.index.lines().filter_map(move |(queue, _)| oldest(queue))
    }

    /// The same of one queue.
    pub(crate) fn oldest_in(&self, queue: &QueueKey) -> Option<Millis> {
        let oldest = self.index.line(queue)?.oldest().filter_map(|nth| self.slots.get(nth));
        oldest.map(|slot| slot.entry.fired_at).min()
    }

    /// Executors are served with these no more, in queues that are named. Answers them.
    pub(crate) fn serve_no_more(
        &mut self,
        is_named: impl Fn(&QueueKey) -> bool,
        are_these: impl Fn(&HotEntry) -> bool,
    ) -> Vec<HotEntry> {
        let is_one = |nth: &usize| self.slots.get(*nth).is_some_and(|slot| are_these(&slot.entry));
        let named = self.index.lines().filter(|(queue, _)| is_named(queue));
        let those: Vec<usize> = named.flat_map(|(_, line)| line.all()).filter(is_one).collect();
        those.into_iter().filter_map(|nth| self.take(nth)).collect()
    }

    /// The same of single tasks, unless they are served with a newer fence.
    pub(crate) fn discard(&mut self, entries: &[HotEntry]) {
        for entry in entries {
            let there = self.by_id.get(&entry.place.id).copied();
            let is_one = |slot: &Slot| is_served(slot.stage) && slot.entry.fence <= entry.fence;
            let nth = there.filter(|nth| self.slots.get(*nth).is_some_and(is_one));
            nth.and_then(|nth| self.take(nth));
        }
    }

    /// The same for tasks past their deadline. Returns them.
    pub(crate) fn take_past_deadline(&mut self, now: Millis) -> Vec<HotEntry> {
        let those: Vec<usize> = self.index.until(Group::Deadline, now.plus(-1)).collect();
        those.into_iter().filter_map(|nth| self.take(nth)).collect()
    }

    /// The tasks in all lines, for tests: id, fence and task of each.
    pub(crate) fn served(&self) -> impl Iterator<Item = (i64, i64, i64)> {
        let all = self.index.lines().flat_map(|(_, line)| line.all()).filter_map(|nth| self.slots.get(nth));
        all.map(|slot| (slot.entry.place.id, slot.entry.fence, slot.entry.task_id))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{live::Live, pipeline::drain::tests::entry};
    use punctual_domain::{
        chooser::Chooser,
        name::Name,
        settings::{Choice, Retries},
        state::State,
        task::Priority,
    };

    pub(in crate::live) fn plain(entry: &HotEntry) -> Level {
        Level::of(entry.priority, entry.attempt, Retries::default())
    }

    /// Selects the most urgent level always.
    pub(in crate::live) fn strict(limit: usize) -> Admission {
        let choice = Choice::HighestFirst { percent: 100 };
        Admission { limit, chooser: Chooser { choice, retries_percent: None }, seed: 1 }
    }

    fn ids(live: &Live, admission: Admission) -> Vec<i64> {
        let taken = live.lock().take_served(&entry(1, 1).queue, admission);
        taken.iter().map(|entry| entry.place.id).collect()
    }

    #[test]
    fn what_is_ready_comes_by_priority_and_age_and_each_once() {
        let live = Live::new(1, true);
        live.lock().serve(&[entry(1, 30), entry(2, 10), entry(3, 20), entry(2, 10)], plain);
        assert!(live.lock().serves(&entry(2, 10)) && !live.lock().keeps(&entry(2, 10)));
        assert!(!live.lock().serves(&HotEntry { fence: 2, ..entry(2, 10) }));
        let lane = ParkReason::Version("2".to_owned());
        live.lock().park(&lane, &[entry(3, 20)], plain);
        assert_eq!((ids(&live, strict(1)), ids(&live, strict(9))), (vec![2], vec![1]));
        assert_eq!(live.lock().serve_no_more(|_| true, |_| true).len(), 1, "also what nobody might run");
        assert!(live.lock().slots.is_empty());
    }

    #[test]
    fn a_long_line_leaves_the_rest_to_the_store_and_keeps_no_other_queue_from_its_tasks() {
        let live = Live::new(1, true);
        let most = i64::try_from(LINE_MAX).unwrap();
        let fired: Vec<HotEntry> = (1..=most + 2).map(|id| entry(id, id)).collect();
        assert_eq!(live.lock().serve(&fired, plain), LINE_MAX);
        drop(live.lock().note_fired(&fired[LINE_MAX..]));
        assert_eq!(live.lock().serve(&fired[LINE_MAX..], plain), 0, "it takes no more");
        assert_eq!(live.lock().unpersisted().count(), 2, "the store is to know them as ready");
        let other = Arc::new(QueueKey { queue: Name::new("other").unwrap(), ..(*entry(1, 1).queue).clone() });
        assert_eq!(
            live.lock().serve(&[HotEntry { queue: Arc::clone(&other), ..entry(most + 9, 1) }], plain),
            1
        );
        assert!(!live.lock().has_room_again(&other), "it has left nothing");
        assert_eq!(ids(&live, strict(1)), [1]);
        assert_eq!(live.lock().serve(&fired[LINE_MAX..], plain), 1, "it is shorter");
        let queue = entry(1, 1).queue;
        assert!(!live.lock().has_room_again(&queue));
        assert_eq!(live.lock().take_served(&queue, strict(LINE_MAX / 2)).len(), LINE_MAX / 2);
        assert!(live.lock().has_room_again(&queue) && !live.lock().has_room_again(&queue), "said once");
    }

    #[test]
    fn what_is_ready_no_more_is_served_no_more_and_the_oldest_of_the_rest_is_known() {
        let live = Live::new(1, true);
        let fired = |id: i64, at| HotEntry { fired_at: Millis(at), ..entry(id, at) };
        live.lock().serve(&[fired(1, 30), fired(2, 10), fired(3, 20)], plain);
        let gone = live.lock().serve_no_more(|_| true, |entry| entry.place.id == 2);
        assert_eq!(gone.iter().map(|entry| entry.place.id).collect::<Vec<_>>(), [2]);
        let queue = entry(1, 1).queue;
        assert_eq!(live.lock().count_served()[&queue], LineCounts { ready: 2, parked: 0 });
        assert_eq!(live.lock().oldest_served().collect::<Vec<_>>(), [(queue, Millis(20))]);
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
        assert_eq!(live.lock().take_served(&ready.queue, strict(1)), [ready]);
        assert_eq!(live.lock().slots.len(), 1, "the store was not told that it is ready");
    }

    fn key(name: &str) -> ParkReason {
        ParkReason::Key(name.to_owned())
    }

    #[test]
    fn what_is_parked_stands_in_nobodys_way_and_comes_back_where_it_stood() {
        let live = Live::new(1, true);
        let all = [entry(1, 10), entry(2, 20), entry(3, 30), entry(4, 40)];
        live.lock().serve(&all, plain);
        live.lock().park(&key("a"), &[entry(3, 30), entry(1, 10)], plain);
        live.lock().park(&key("b"), &[entry(9, 5)], plain);
        let queue = entry(1, 1).queue;
        assert_eq!(live.lock().line_counts(&queue), LineCounts { ready: 2, parked: 3 });
        assert_eq!(live.lock().lanes(&queue, None, 9), [(key("a"), 2), (key("b"), 1)]);
        assert_eq!(live.lock().lanes(&queue, Some(&key("a")), 9), [(key("b"), 1)]);
        assert_eq!(live.lock().serve(&all, plain), 0, "what is parked stays where it is");
        live.lock().park(&key("b"), &[entry(1, 10)], plain);
        assert_eq!(live.lock().line_counts(&queue), LineCounts { ready: 2, parked: 3 }, "and in its lane");
        assert_eq!(live.lock().unpark(&queue, &key("a"), 1), 1);
        assert_eq!(ids(&live, strict(1)), [1], "the oldest of its lane, and of all");
        assert_eq!(["a", "c"].map(|name| live.lock().unpark(&queue, &key(name), 9)), [1, 0]);
        assert_eq!(ids(&live, strict(9)), [2, 3, 4]);
        assert_eq!(live.lock().lanes(&queue, None, 9), [(key("b"), 1)]);
        live.lock().serve(&[HotEntry { fence: 2, ..entry(9, 50) }], plain);
        assert_eq!(
            live.lock().line_counts(&queue),
            LineCounts { ready: 1, parked: 0 },
            "a newer fence is newly asked"
        );
    }

    #[test]
    fn single_tasks_are_discarded_unless_their_fence_is_newer_and_a_deadline_ends_what_waits() {
        let live = Live::new(1, true);
        let until = |id, deadline_at| HotEntry { deadline_at: Millis(deadline_at), ..entry(id, id) };
        live.lock().serve(&[until(1, 50), until(2, 60), entry(3, 3), entry(4, 4)], plain);
        live.lock().park(&key("a"), &[until(5, 40), until(6, 70)], plain);
        live.lock().discard(&[HotEntry { fence: 0, ..entry(3, 3) }, entry(4, 9), entry(77, 1)]);
        let past = |at| live.lock().take_past_deadline(Millis(at)).into_iter().map(|entry| entry.place.id);
        assert_eq!(past(50).collect::<Vec<_>>(), [5], "until its instant it may start");
        assert_eq!(past(61).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(live.lock().served().map(|(id, _, _)| id).collect::<Vec<_>>(), [3, 6]);
        assert_eq!((ids(&live, strict(9)), live.lock().index.len(Group::Deadline)), (vec![3], 1));
    }
}
