//! A flush of Redis, or of the limiter's keys, while engines lease tasks of a limited queue: the limiter is whole again after a moment,
//! and no attempt is handed over on a slot that was lost before the store had its lease. And calls to the limiter that fail: a slot that
//! no caller uses is free as soon as it answers. On real MySQL and Redis. Seen to fail: with the wait of seconds (first and second), without
//! the question whether a slot is still there (second), with that question always answered no (third), where no reconciler repeats what
//! failed (fourth and fifth).

use crate::{
    crash_points::{OnServers, Stand, WallClock, queue, succeeded},
    limits::set_queue,
};
use punctual_contract::{Clock as _, Limiter, Store, store::Assignment};
use punctual_domain::{
    limits::Scope,
    name::Name,
    place::TaskRef,
    settings::{Choice, QueueSettings},
    state::State,
    task::{NewTask, Priority},
};
use punctual_engine::{Backends, Cancelled, Engine, LeaseRequest, Options, Reported};
use punctual_testkit::{
    clock::ManualClock,
    faults::{Dials, FaultyLimiter, FaultyStore, LimiterGroup, StoreGroup},
    patience::until,
    servers::{self, Redis},
};
use std::{cell::Cell, sync::Arc};
use tokio::task::JoinSet;

/// Longer than a lease takes that is handed over unasked, with some room.
const LOSS_IS_OLD_AFTER_MS: u64 = 750;
/// So long after its grant a lease is handed over only if its slot is there.
const ASKED_AFTER_MS: u64 = 251;
const HOUR_MS: u64 = 3_600_000;
/// More than an engine needs to own all and to look at everything.
const TURNS: usize = 4;
const URGENT: u8 = 5;

fn limited(concurrency: u32) -> QueueSettings {
    let choice = Choice::HighestFirst { percent: 100 };
    QueueSettings { concurrency: Some(concurrency), choice, ..QueueSettings::default() }
}

fn request(max: usize, wait_ms: u64) -> LeaseRequest {
    let (queue, executor) = (Arc::new(queue()), "e".to_owned());
    LeaseRequest { queue, max, wait_ms, lease_ms: 60_000, executor, version: None }
}

fn task(engine: &Engine) -> NewTask {
    NewTask::new(queue(), Name::new("k").unwrap(), engine.now())
}

async fn record_outcomes(engine: &Engine, leased: &[Assignment]) {
    let reports: Vec<_> = leased.iter().map(succeeded).collect();
    let recorded = engine.record_outcomes(reports, "e").await.unwrap();
    assert!(recorded.iter().all(|recorded| *recorded == Reported::Accepted), "{recorded:?}");
}

/// Of a partition of this engine.
async fn insert_owned(engine: &Engine, task: &NewTask) -> TaskRef {
    loop {
        let inserted = engine.insert(vec![task.clone()], "test").await.unwrap();
        let place = inserted[0].task.place;
        if engine.owns(place.partition) {
            return place;
        }
        let cancelled = engine.cancel(place, false, "test").await.unwrap();
        assert!(matches!(cancelled, Cancelled::Cancelled(_)), "{cancelled:?}");
    }
}

fn places(leased: &[Assignment]) -> Vec<(TaskRef, u32)> {
    leased.iter().map(|lease| (lease.place, lease.attempt)).collect()
}

/// Two engines at work, whose reconciler runs once an hour.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_redis_is_flushed_limited_queues_go_on_before_the_next_look_of_the_reconciler() {
    let redis = Redis::own().await;
    let ground = OnServers::at(redis.url()).await;
    let (mut engines, mut limiters) = (Vec::new(), Vec::new());
    for nth in 0..2 {
        let Stand { store, hot, limiter, bus, shared } = crate::crash_points::Ground::stand(&ground).await;
        limiters.push(limiter.clone());
        let clock = Arc::new(WallClock);
        let backends = Backends { store, hot, limiter, bus, clock, blobs: None, shared };
        let options =
            Options { name: format!("n{nth}"), reconcile_interval_ms: HOUR_MS, ..Options::default() };
        let engine = Engine::new(backends, options);
        let running = engine.start().unwrap();
        engines.push((engine, running));
    }
    let (engine, limiter) = (engines[0].0.clone(), Arc::clone(&limiters[0]));
    set_queue(&engine, &queue(), limited(2)).await;
    let knows = |(engine, _): &(Engine, _)| engine.known_settings(&queue()).concurrency == Some(2);
    until("both know the limit", || async { engines.iter().all(knows) }).await;
    engine.insert((0..6).map(|_| task(&engine)).collect(), "test").await.unwrap();
    let first = engine.lease(request(2, 60_000)).await.unwrap();
    assert!(!first.is_empty(), "the limiter is whole");
    redis.command(&["FLUSHALL"]).await;
    assert!(!limiter.is_whole().await.unwrap());
    let done = Cell::new(first.len());
    record_outcomes(&engine, &first).await;
    until("all the others come", || async {
        let leased = engine.lease(request(2, 500)).await.unwrap_or_default();
        assert!(leased.len() <= 2, "the limit");
        record_outcomes(&engine, &leased).await;
        done.update(|done| done + leased.len());
        done.get() == 6
    })
    .await;
    for (_, running) in engines {
        running.stop().await;
    }
}

/// Engines that are turned manually: one whose lease of a task is under way, and one that continues meanwhile.
struct LimitsLostRig {
    ground: OnServers,
    clock: ManualClock,
    slow: (Engine, Arc<FaultyStore>, Arc<FaultyLimiter>),
    other: Engine,
    limiter: Arc<dyn Limiter>,
    store: Arc<dyn Store>,
    first: TaskRef,
}

impl LimitsLostRig {
    /// Of one slot, and one task that waits.
    async fn new() -> Self {
        let ground = OnServers::at(servers::redis().await.url()).await;
        let clock = ManualClock::at(WallClock.now());
        let (mut engines, mut current) = (Vec::new(), Vec::new());
        for name in ["slow", "other"] {
            let Stand { store, hot, limiter, bus, shared } =
                crate::crash_points::Ground::stand(&ground).await;
            let faulty = Arc::new(FaultyStore::new(store.clone(), 1));
            let between = Arc::new(FaultyLimiter::new(limiter.clone(), 1));
            current.push((store, limiter, faulty.clone(), between.clone()));
            let limiter = between;
            let clock = Arc::new(clock.clone());
            let backends = Backends { store: faulty, hot, limiter, bus, clock, blobs: None, shared };
            engines.push(Engine::new(backends, Options { name: name.to_owned(), ..Options::default() }));
        }
        let (store, limiter, faulty, between) = current.remove(0);
        let (slow, other) = (engines.remove(0), engines.remove(0));
        set_queue(&slow, &queue(), limited(1)).await;
        let at = TaskRef { partition: punctual_domain::place::Partition(0), due_at: clock.now(), id: 0 };
        let mut rig = Self { ground, clock, slow: (slow, faulty, between), other, limiter, store, first: at };
        rig.run_once().await;
        rig.first = insert_owned(&rig.slow.0, &task(&rig.slow.0)).await;
        rig.run_once().await;
        rig
    }

    /// The tasks that wait for the other engine, or are passed to it.
    async fn other_leases(&self, max: usize) -> Vec<Assignment> {
        let leased = tokio::sync::Mutex::new(Vec::new());
        until("the other engine has something", || async {
            let some = self.other.lease(request(max, 0)).await.unwrap();
            if some.is_empty() {
                self.run_once().await;
                return false;
            }
            leased.lock().await.extend(some);
            true
        })
        .await;
        leased.into_inner()
    }

    async fn run_once(&self) {
        for _ in 0..TURNS {
            self.slow.0.run_once().await.unwrap();
            self.other.run_once().await.unwrap();
        }
    }

    /// As a flush does it.
    async fn lose_the_limiter(&self) {
        let key = |what: &str| format!("{}:{{limits}}:{what}", self.ground.prefix());
        let keys = ["whole", "members", "until", "holds", "buckets"].map(key);
        let words: Vec<&str> = std::iter::once("DEL").chain(keys.iter().map(String::as_str)).collect();
        servers::redis().await.command(&words).await;
    }

    async fn held(&self) -> usize {
        self.limiter.holders(&Scope::Queue(queue()), 0).await.unwrap().count
    }

    /// The slow engine leases the first task, and `meanwhile` runs between the grant and the lease. Returns
    /// the tasks that are handed over.
    async fn leased_slowly(&self, meanwhile: impl AsyncFnOnce()) -> Vec<Assignment> {
        let gate = self.slow.1.faults.hold(StoreGroup::Dispatch);
        let (mut calls, engine) = (JoinSet::new(), self.slow.0.clone());
        calls.spawn(async move { engine.lease(request(1, 0)).await.unwrap() });
        gate.reached().await;
        assert_eq!(self.held().await, 1, "granted, and not leased");
        meanwhile().await;
        gate.open();
        calls.join_next().await.unwrap().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_whose_slot_was_lost_before_the_store_had_it_goes_to_no_executor() {
    let rig = LimitsLostRig::new().await;
    let mut others = Vec::new();
    let leased = rig
        .leased_slowly(async || {
            rig.lose_the_limiter().await;
            rig.run_once().await;
            assert!(!rig.limiter.is_whole().await.unwrap(), "what was granted may be leased unasked");
            rig.clock.advance_ms(LOSS_IS_OLD_AFTER_MS);
            rig.run_once().await;
            assert!(rig.limiter.is_whole().await.unwrap(), "that is over");
            // It goes before the task whose lease is under way.
            let urgent = NewTask { priority: Priority::new(URGENT).unwrap(), ..task(&rig.other) };
            insert_owned(&rig.other, &urgent).await;
            rig.run_once().await;
            others = rig.other_leases(1).await;
        })
        .await;
    assert_eq!(others.iter().map(|lease| lease.priority.level()).collect::<Vec<_>>(), [URGENT]);
    assert_eq!(leased, [], "the only slot is another's");
    until("it is given back, with its attempt", || async {
        let first = rig.store.read(&[rig.first]).await.unwrap().remove(0).unwrap();
        (first.state, first.attempt) == (State::Ready, 0)
    })
    .await;
    assert_eq!(rig.held().await, 1);
    record_outcomes(&rig.other, &others).await;
    rig.run_once().await;
    assert_eq!(places(&rig.other_leases(1).await), [(rig.first, 1)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_takes_long_is_handed_over_when_its_slot_is_there() {
    let rig = LimitsLostRig::new().await;
    let leased = rig.leased_slowly(async || rig.clock.advance_ms(ASKED_AFTER_MS)).await;
    assert_eq!(places(&leased), [(rig.first, 1)]);
    assert_eq!(rig.held().await, 1);
}

/// The clock does not move: the reconciler frees nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_could_not_be_given_up_is_free_as_soon_as_the_limiter_answers() {
    let rig = LimitsLostRig::new().await;
    let (engine, _, limiter) = &rig.slow;
    insert_owned(engine, &task(engine)).await;
    rig.run_once().await;
    let leased = engine.lease(request(2, 0)).await.unwrap();
    assert_eq!((leased.len(), rig.held().await), (1, 1));
    limiter.faults.set(LimiterGroup::GiveUp, Dials::REFUSES);
    record_outcomes(engine, &leased).await;
    assert_eq!(rig.held().await, 1, "it could not be given up");
    limiter.faults.heal();
    until("the slot is free", || async {
        rig.run_once().await;
        rig.held().await == 0
    })
    .await;
    assert_eq!(rig.other_leases(2).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_whose_grant_nobody_heard_of_is_free_as_soon_as_the_limiter_answers() {
    let rig = LimitsLostRig::new().await;
    let (engine, _, limiter) = &rig.slow;
    limiter.faults.set(LimiterGroup::Grant, Dials::ANSWERS_LOST);
    limiter.faults.set(LimiterGroup::GiveUp, Dials::REFUSES);
    assert!(engine.lease(request(1, 0)).await.is_err());
    assert_eq!(rig.held().await, 1, "it was granted");
    limiter.faults.heal();
    until("the slot is free", || async {
        rig.run_once().await;
        rig.held().await == 0
    })
    .await;
    assert_eq!(places(&rig.other_leases(1).await), [(rig.first, 1)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_whose_lease_is_in_doubt_goes_again_on_its_own_slot() {
    let rig = LimitsLostRig::new().await;
    let (engine, store, _) = &rig.slow;
    store.faults.set_once(StoreGroup::Dispatch, Dials::SILENT);
    assert!(engine.lease(request(1, 0)).await.is_err());
    assert_eq!(rig.held().await, 1, "the lease may be made yet");
    until("it is leased again", || async {
        let leased = engine.lease(request(1, 0)).await.unwrap_or_default();
        leased.iter().any(|lease| lease.place == rig.first)
    })
    .await;
    assert_eq!(rig.held().await, 1);
}
