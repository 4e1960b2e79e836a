//! What this store has inserted a moment ago and is due soon, as its commit left it: it is handed over without being
//! read again. Only ever a guess, as in `leased`: the guard of the move has to confirm state and fence of every row, and
//! nothing of what is handed over changes while a task keeps both. Must forget what else is done to a task here, and
//! keep no long payloads.

use super::{insert::Ask, row};
use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::store::{Assignment, Grant};
use punctual_domain::{
    content::Content, name::QueueKey, place::TaskRef, state::Event, task::NewTask, time::Millis,
};
use std::time::Duration;
use tokio::time::Instant;

/// What is due later will mostly be gone from here by then, or be another's to fire.
const SOON_MS: i64 = 10_000;
/// What is still here after twice as long was another's to hand over.
const HALF: Duration = Duration::from_secs(15);
/// Of each half: when one is full, the other, older one is forgotten. About 40 MiB each at most.
const TASKS_MAX: usize = 50_000;
const BYTES_MAX: usize = 16 << 20;
/// The fence of a task that nothing has happened to yet.
const FIRST_FENCE: i64 = 1;

/// A task that was inserted, and nothing else as far as is known.
#[derive(Debug)]
pub(crate) struct FreshTask {
    /// Where its row is, and where its reference says that it is.
    pub(crate) place: TaskRef,
    task_id: i64,
    task: NewTask,
}

#[derive(Debug, Default)]
pub(crate) struct Fresh(Mutex<Halves>);

#[derive(Debug)]
struct Halves {
    young: HashMap<i64, Box<FreshTask>>,
    old: HashMap<i64, Box<FreshTask>>,
    /// Of payloads and labels that came to the young half.
    bytes: usize,
    /// When the first came to the young half.
    since: Instant,
}

impl Default for Halves {
    fn default() -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), bytes: 0, since: Instant::now() }
    }
}

impl FreshTask {
    /// None: it is not worth keeping.
    pub(crate) fn of(ask: &Ask, id: i64, task_id: i64) -> Option<Box<Self>> {
        let is_soon = ask.due_at() <= ask.now().plus(SOON_MS);
        (is_soon && row::inline(&ask.task().payload).is_some()).then(|| {
            let place = TaskRef { partition: ask.partition, due_at: ask.due_at(), id };
            Box::new(Self { place, task_id, task: ask.task().clone() })
        })
    }

    /// With which fence its row is thought to be. In which state, whoever asks knows: the owner of its partition may have
    /// claimed it elsewhere.
    pub(crate) const fn fence() -> i64 {
        FIRST_FENCE
    }

    pub(crate) fn queue(&self) -> &QueueKey {
        &self.task.queue
    }

    pub(crate) const fn payload(&self) -> &Content {
        &self.task.payload
    }

    pub(crate) const fn timeout_ms(&self) -> Option<i64> {
        self.task.timeout_ms
    }

    fn bytes(&self) -> usize {
        let labels: usize = self.task.labels.iter().map(|(key, value)| key.len() + value.len()).sum();
        self.task.payload.bytes.len() + labels
    }

    /// As a grant hands it over.
    pub(crate) fn assigned(self, grant: &Grant, lease_until: Millis) -> Assignment {
        let Self { place, task_id, task } = self;
        Assignment {
            place,
            queue: task.queue,
            task_id,
            task_version: task.task_version,
            fence: FIRST_FENCE + 1,
            attempt: 1,
            max_attempts: task.max_attempts,
            kind: task.kind,
            priority: task.priority,
            payload: task.payload,
            execute_at: task.execute_at,
            due_at: place.due_at,
            fired_at: grant.fired_at,
            lease_until,
            timeout_ms: task.timeout_ms,
            labels: task.labels,
            traceparent: task.traceparent,
        }
    }
}

impl Fresh {
    /// Of a transaction that was committed.
    pub(crate) fn keep(&self, tasks: impl Iterator<Item = Box<FreshTask>>) {
        let mut halves = self.0.lock();
        for it in tasks {
            halves.keep(it);
        }
    }

    /// What something else was done to, or perhaps.
    pub(crate) fn forget(&self, ids: impl Iterator<Item = i64>) {
        let mut halves = self.0.lock();
        for it in ids {
            halves.take(it);
        }
    }

    /// The tasks of those grants that are for such and say in which state they are, by their ids. Whatever comes of it, they are
    /// forgotten.
    pub(crate) fn take<'g>(&self, grants: impl Iterator<Item = &'g Grant>) -> HashMap<i64, Box<FreshTask>> {
        let mut halves = self.0.lock();
        let is_it = |task: &FreshTask, grant: &Grant| {
            let may_go = grant.state.is_some_and(|state| state.after(Event::Dispatch).is_ok());
            task.place.partition == grant.place.partition && grant.fence == FIRST_FENCE && may_go
        };
        let taken = grants.filter_map(|it| Some((it, halves.take(it.place.id)?)));
        taken.filter(|(grant, task)| is_it(task, grant)).map(|(_, it)| (it.place.id, it)).collect()
    }
}

impl Halves {
    fn keep(&mut self, it: Box<FreshTask>) {
        let is_full = self.young.len() >= TASKS_MAX || self.bytes >= BYTES_MAX;
        if is_full || self.since.elapsed() >= HALF {
            let old = std::mem::take(&mut self.young);
            *self = Self { old, ..Self::default() };
        }
        self.bytes += it.bytes();
        self.young.insert(it.place.id, it);
    }

    fn take(&mut self, id: i64) -> Option<Box<FreshTask>> {
        self.young.remove(&id).or_else(|| self.old.remove(&id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::{content::Content, name::Name, place::Partition, state::State};
    use std::sync::Arc;

    const NOW: Millis = Millis(1_000);

    fn fresh(id: i64, due_at: Millis, payload: usize) -> Option<Box<FreshTask>> {
        let name = Name::default_namespace;
        let queue = QueueKey { namespace: name(), queue: name() };
        let payload = Content { bytes: vec![b'x'; payload], ..Content::default() };
        let task = NewTask { task_id: Some(id), payload, ..NewTask::new(queue, name(), due_at) };
        FreshTask::of(&Ask::new(id, task, Arc::from("test"), NOW, 1), id, id)
    }

    fn grant(id: i64, fence: i64) -> Grant {
        let place = TaskRef { partition: Partition(0), due_at: NOW, id };
        Grant {
            place,
            fence,
            fired_at: NOW,
            lease_until: NOW,
            executor: String::new(),
            namespace: punctual_domain::name::Name::default_namespace(),
            state: Some(State::Scheduled),
        }
    }

    fn known(fresh: &Fresh, grants: &[Grant]) -> Vec<i64> {
        let mut ids: Vec<i64> = fresh.take(grants.iter()).into_keys().collect();
        ids.sort_unstable();
        ids
    }

    #[test]
    fn only_short_ones_that_are_due_soon_are_kept() {
        let soon = NOW.plus(SOON_MS);
        assert!(fresh(1, soon, 1_024).is_some() && fresh(1, NOW.plus(-9_999), 0).is_some());
        assert!(fresh(1, soon.plus(1), 0).is_none() && fresh(1, soon, 1_025).is_none());
    }

    #[test]
    fn each_is_known_once_with_its_first_fence_and_where_it_is() {
        let it = Fresh::default();
        it.keep((1..=8).filter_map(|id| fresh(id, NOW, 1)));
        let elsewhere = TaskRef { partition: Partition(7), ..grant(3, 1).place };
        let of = |id, state| Grant { state, ..grant(id, 1) };
        let (unsaid, gone) = (of(6, None), of(7, Some(State::Cancelled)));
        let others = [Grant { place: elsewhere, ..grant(3, 1) }, unsaid, gone, grant(9, 1)];
        let claimed = of(8, Some(State::Dispatching));
        let grants: Vec<Grant> = [grant(1, 1), grant(2, 2), claimed].into_iter().chain(others).collect();
        assert_eq!(known(&it, &grants), [1, 8]);
        let again = [1, 2, 3, 6, 7, 8].map(|id| grant(id, 1));
        assert!(known(&it, &again).is_empty(), "whatever came of it");
        it.forget([4].into_iter());
        assert_eq!(known(&it, &[4, 5].map(|id| grant(id, 1))), [5]);
    }

    #[test]
    fn what_nobody_asks_for_is_forgotten_after_a_while() {
        let it = Fresh::default();
        for id in 1..=3 {
            it.keep(fresh(id, NOW, 1).into_iter());
            it.0.lock().since = Instant::now() - HALF;
        }
        it.keep(fresh(4, NOW, 1).into_iter());
        assert_eq!(known(&it, &[1, 2, 3, 4].map(|id| grant(id, 1))), [3, 4]);
    }

    #[test]
    fn the_oldest_are_forgotten_when_there_are_many_or_they_are_long() {
        let it = Fresh::default();
        let many = i64::try_from(TASKS_MAX).unwrap();
        it.keep((1..=2 * many + 1).filter_map(|id| fresh(id, NOW, 0)));
        assert_eq!(
            known(&it, &[1, many, many + 1, 2 * many + 1].map(|id| grant(id, 1))),
            [many + 1, 2 * many + 1]
        );
        let it = Fresh::default();
        let long = i64::try_from(BYTES_MAX / 1_024).unwrap();
        it.keep((1..=2 * long + 1).filter_map(|id| fresh(id, NOW, 1_024)));
        assert_eq!(
            known(&it, &[1, long, long + 1, 2 * long + 1].map(|id| grant(id, 1))),
            [long + 1, 2 * long + 1]
        );
    }
}
