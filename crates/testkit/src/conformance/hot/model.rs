//! Random steps against a hot set and against a plain model of it. After each step both must say the same; where
//! the contract leaves the order open, what was given is checked against what it promises.

use super::{PARTITIONS, entry, in_partition, queue, strict};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use punctual_contract::{
    Hot,
    hot::{HotEntry, Lane, Withdrawn},
    ownership::Tenure,
};
use punctual_domain::{name::QueueKey, place::Partition, settings::Retries, task::Priority, time::Millis};
use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::Arc,
};

#[derive(Clone, Debug)]
enum Step {
    Load(Vec<HotEntry>),
    Peek {
        partition: Partition,
        after: Option<(Millis, i64)>,
        until: Millis,
        limit: usize,
    },
    Take {
        partition: Partition,
        now: Millis,
        limit: usize,
        settled: Vec<(i64, i64)>,
    },
    Withdraw {
        partition: Partition,
        id: i64,
        fence: i64,
    },
    Settle(Vec<(Partition, i64, i64)>),
    /// The nth of what was ever taken, whatever became of it.
    Offer(Vec<usize>),
    /// The nth of what was ever taken, of one queue.
    Park {
        queue: QueueKey,
        lane: Lane,
        nth: Vec<usize>,
    },
    Unpark {
        queue: QueueKey,
        lane: Lane,
        limit: usize,
    },
    Admit {
        queue: QueueKey,
        limit: usize,
    },
    Firing {
        partition: Partition,
        before: Millis,
        limit: usize,
    },
}

/// Few ids, times and fences, so that they meet.
const IDS: i64 = 6;
const TIMES: i64 = 12;
const FENCES: i64 = 4;

fn partition_of(id: i64) -> u16 {
    u16::try_from(id).unwrap() % 2 * (PARTITIONS - 1)
}

fn queue_of(id: i64) -> QueueKey {
    queue(if id % 3 == 0 { "sms" } else { "mail" })
}

prop_compose! {
    /// Ids 1 and 2, 4 and 5 are two versions of one task each.
    fn entries()(id in 0..IDS, due_at in 0..TIMES, fence in 1..=FENCES, level in 1..=3_u8) -> HotEntry {
        HotEntry {
            queue: Arc::new(queue_of(id)),
            priority: Priority::new(level).unwrap(),
            task_id: id / 3,
            task_version: id,
            ..in_partition(partition_of(id), entry(id, due_at, fence))
        }
    }
}

fn steps() -> impl Strategy<Value = Step> {
    let partition = || (0..2_i64).prop_map(|id| Partition(partition_of(id)));
    let time = || (0..TIMES).prop_map(Millis);
    let addressed = || (0..IDS, 1..=FENCES).prop_map(|(id, fence)| (Partition(partition_of(id)), id, fence));
    let after = prop::option::of((time(), 0..IDS));
    let lane = || prop_oneof![Just(Lane::Retries), Just(Lane::Key("a".to_owned()))];
    prop_oneof![
        4 => prop::collection::vec(entries(), 0..5).prop_map(Step::Load),
        1 => (partition(), after, time(), 0..5_usize)
            .prop_map(|(partition, after, until, limit)| Step::Peek { partition, after, until, limit }),
        4 => (partition(), time(), 0..4_usize, prop::collection::vec(addressed(), 0..3)).prop_map(
            |(partition, now, limit, settled)| {
                let settled: BTreeMap<i64, i64> = settled.into_iter().map(|(_, id, fence)| (id, fence)).collect();
                let settled = settled.into_iter().collect();
                Step::Take { partition, now, limit, settled }
            }
        ),
        2 => addressed().prop_map(|(partition, id, fence)| Step::Withdraw { partition, id, fence }),
        2 => prop::collection::vec(addressed(), 0..3).prop_map(Step::Settle),
        4 => prop::collection::vec(any::<prop::sample::Index>().prop_map(|it| it.index(1 << 16)), 0..4)
            .prop_map(Step::Offer),
        2 => (0..2_i64, lane(), prop::collection::vec(0..1_000_usize, 0..4))
            .prop_map(|(id, lane, nth)| Step::Park { queue: queue_of(id), lane, nth }),
        1 => (0..2_i64, lane(), 0..3_usize)
            .prop_map(|(id, lane, limit)| Step::Unpark { queue: queue_of(id), lane, limit }),
        2 => (0..2_i64, 0..4_usize).prop_map(|(id, limit)| Step::Admit { queue: queue_of(id), limit }),
        1 => (partition(), time(), 0..5_usize)
            .prop_map(|(partition, before, limit)| Step::Firing { partition, before, limit }),
    ]
}

/// Each entry is in one map at most, by construction of the steps, not of the maps: `check` holds it.
#[derive(Debug, Default)]
struct Model {
    due: BTreeMap<i64, HotEntry>,
    firing: BTreeMap<i64, HotEntry>,
    /// Offered, and firing with the same fence ever since.
    ready: BTreeMap<i64, HotEntry>,
    /// Put aside, and firing with the same fence ever since; with its lane.
    parked: BTreeMap<i64, (Lane, HotEntry)>,
    /// All that was ever taken, in order.
    taken: Vec<HotEntry>,
}

impl Model {
    fn load(&mut self, entries: &[HotEntry]) -> usize {
        let mut put = 0;
        for it in entries {
            let id = it.place.id;
            let known = self.due.get(&id).or_else(|| self.firing.get(&id));
            if known.is_none_or(|known| known.fence < it.fence) {
                self.firing.remove(&id);
                self.ready.remove(&id);
                self.parked.remove(&id);
                self.due.insert(id, it.clone());
                put += 1;
            }
        }
        put
    }

    fn due_in(&self, partition: Partition, until: Millis) -> Vec<HotEntry> {
        let here = |it: &&HotEntry| it.place.partition == partition && it.due_at <= until;
        let mut found: Vec<HotEntry> = self.due.values().filter(here).cloned().collect();
        found.sort_by_key(HotEntry::key);
        found
    }

    fn take(
        &mut self,
        partition: Partition,
        now: Millis,
        limit: usize,
        settled: &[(i64, i64)],
    ) -> Vec<HotEntry> {
        let mut taken = self.due_in(partition, now);
        taken.truncate(limit);
        for it in &mut taken {
            self.due.remove(&it.place.id);
            it.fired_at = now;
            if !settled.contains(&(it.place.id, it.fence)) {
                self.firing.insert(it.place.id, it.clone());
            }
        }
        self.taken.extend(taken.clone());
        taken
    }

    fn withdraw(&mut self, id: i64, fence: i64) -> Withdrawn {
        if self.firing.contains_key(&id) {
            return Withdrawn::Fired;
        }
        if self.due.get(&id).is_some_and(|it| it.fence <= fence) {
            self.due.remove(&id);
            return Withdrawn::Removed;
        }
        Withdrawn::Absent
    }

    fn settle(&mut self, settled: &[(Partition, i64, i64)]) {
        for (_, id, fence) in settled {
            if self.parked.get(id).is_some_and(|it| it.1.fence <= *fence) {
                self.parked.remove(id);
            }
            for place in [&mut self.due, &mut self.firing, &mut self.ready] {
                if place.get(id).is_some_and(|it| it.fence <= *fence) {
                    place.remove(id);
                }
            }
        }
    }

    fn offer(&mut self, entries: &[HotEntry]) {
        for it in entries {
            let fires = self.firing.get(&it.place.id).is_some_and(|fires| fires.fence == it.fence);
            if fires && !self.parked.contains_key(&it.place.id) {
                self.ready.entry(it.place.id).or_insert_with(|| it.clone());
            }
        }
    }

    fn park(&mut self, lane: &Lane, entries: &[HotEntry]) {
        for it in entries {
            let id = it.place.id;
            if self.firing.get(&id).is_some_and(|fires| fires.fence == it.fence) {
                self.ready.remove(&id);
                self.parked.entry(id).or_insert_with(|| (lane.clone(), it.clone()));
            }
        }
    }

    fn unpark(&mut self, queue: &QueueKey, lane: &Lane, limit: usize) -> usize {
        let here = |it: &&(Lane, HotEntry)| it.0 == *lane && *it.1.queue == *queue;
        let mut back: Vec<HotEntry> = self.parked.values().filter(here).map(|it| it.1.clone()).collect();
        back.sort_by_key(|it| (it.priority, it.due_at, it.place.id));
        back.truncate(limit);
        for it in &back {
            self.parked.remove(&it.place.id);
            self.ready.insert(it.place.id, it.clone());
        }
        back.len()
    }

    /// What was given must be the whole or the limit, and each in its turn.
    fn admit(&mut self, queue: &QueueKey, limit: usize, given: &[HotEntry]) -> Result<(), TestCaseError> {
        let waiting = self.ready.values().filter(|it| *it.queue == *queue).count();
        prop_assert_eq!(given.len(), waiting.min(limit));
        for it in given {
            let was_ready = self.ready.remove(&it.place.id);
            prop_assert_eq!(was_ready.as_ref(), Some(it));
            let rest = || self.ready.values().filter(|other| *other.queue == *queue);
            let is_version = |other: &&HotEntry| other.task_id == it.task_id;
            prop_assert!(rest().filter(is_version).all(|other| other.task_version < it.task_version));
            if rest().all(|other| other.task_id != it.task_id) {
                let rank = |it: &HotEntry| (it.priority, it.due_at, it.place.id);
                let alone =
                    |one: &&HotEntry| rest().filter(|other| other.task_id == one.task_id).count() == 1;
                prop_assert!(
                    rest().filter(alone).all(|other| rank(other) > rank(it)),
                    "{:?} before its turn",
                    it
                );
            }
        }
        Ok(())
    }

    fn fired_before(&self, partition: Partition, before: Millis) -> Vec<HotEntry> {
        let wanted = |it: &&HotEntry| it.place.partition == partition && it.fired_at < before;
        let mut found: Vec<HotEntry> = self.firing.values().filter(wanted).cloned().collect();
        found.sort_by_key(|it| (it.fired_at, it.place.id));
        found
    }
}

async fn step(hot: &dyn Hot, model: &mut Model, step: Step) -> Result<(), TestCaseError> {
    match step {
        Step::Load(entries) => {
            let put = model.load(&entries);
            prop_assert_eq!(hot.load(entries).await.unwrap(), put);
        }
        Step::Peek { partition, after, until, limit } => {
            let found = hot.peek(partition, after, until, limit).await.unwrap();
            let behind = |it: &HotEntry| after.is_none_or(|after| it.key() > after);
            let wanted = model.due_in(partition, until).into_iter().filter(behind).take(limit);
            prop_assert_eq!(found, wanted.collect::<Vec<_>>());
        }
        Step::Take { partition, now, limit, settled } => {
            let taken = hot.take_settling(Tenure::sole(partition), now, limit, &settled).await.unwrap();
            prop_assert!(taken.iter().all(|it| it.due_at <= now), "early");
            prop_assert_eq!(taken, model.take(partition, now, limit, &settled));
        }
        Step::Withdraw { partition, id, fence } => {
            let said = hot.withdraw(partition, id, fence).await.unwrap();
            prop_assert_eq!(said, model.withdraw(id, fence));
        }
        Step::Settle(settled) => {
            hot.settle(&settled).await.unwrap();
            model.settle(&settled);
        }
        Step::Offer(nth) => {
            let taken = &model.taken;
            let some: Vec<_> =
                nth.iter().filter_map(|it| taken.get(it % taken.len().max(1)).cloned()).collect();
            model.offer(&some);
            hot.offer(some, Retries::default()).await.unwrap();
        }
        Step::Park { queue, lane, nth } => {
            let taken = &model.taken;
            let some = nth.iter().filter_map(|it| taken.get(it % taken.len().max(1)).cloned());
            let some: Vec<_> = some.filter(|it| *it.queue == queue).collect();
            model.park(&lane, &some);
            hot.park(&lane, some, Retries::default()).await.unwrap();
        }
        Step::Unpark { queue, lane, limit } => {
            let back = hot.unpark(&queue, &lane, limit).await.unwrap();
            prop_assert_eq!(back, model.unpark(&queue, &lane, limit));
        }
        Step::Admit { queue, limit } => {
            let given = hot.admit(&queue, strict(limit)).await.unwrap();
            model.admit(&queue, limit, &given)?;
        }
        Step::Firing { partition, before, limit } => {
            let mut wanted = model.fired_before(partition, before);
            wanted.truncate(limit);
            prop_assert_eq!(hot.firing(partition, before, 0..limit).await.unwrap(), wanted);
        }
    }
    check(hot, model).await
}

async fn check(hot: &dyn Hot, model: &Model) -> Result<(), TestCaseError> {
    let depth = hot.depth().await.unwrap();
    prop_assert_eq!((depth.due, depth.firing), (model.due.len(), model.firing.len()));
    let count = |line: &[(Arc<QueueKey>, usize)]| line.iter().map(|it| it.1).sum::<usize>();
    prop_assert_eq!(count(&depth.ready), model.ready.len());
    prop_assert_eq!(count(&depth.parked), model.parked.len());
    let places: BTreeSet<&i64> = model.due.keys().chain(model.firing.keys()).collect();
    prop_assert_eq!(places.len(), depth.due + depth.firing, "one place at a time");
    Ok(())
}

/// Plays `cases` random lists of steps, each on a fresh hot set, and shrinks what fails.
///
/// # Panics
/// When the two differ.
pub fn agrees_with<F: Future<Output = Arc<dyn Hot>>>(cases: u32, fresh: impl Fn() -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let lists = prop::collection::vec(steps(), 0..60);
    let outcome = TestRunner::new(config).run(&lists, |list| {
        runtime.block_on(async {
            let (hot, mut model) = (fresh().await, Model::default());
            for it in list {
                step(&*hot, &mut model, it).await?;
            }
            Ok(())
        })
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
