//! A running engine, with its thread and its services, at the moments that matter. The services that repair are slowed
//! to an hour, so that what these tests see is the pipeline itself.

use punctual_bus::MemoryBus;
use punctual_contract::{
    Bus, Clock, Store,
    store::{Assignment, Query},
};
use punctual_domain::{
    name::{Name, QueueKey},
    outcome::Report,
    place::TaskRef,
    state::State,
    task::{NewTask, TaskResult},
    time::Millis,
};
use punctual_engine::{Backends, Engine, LeaseRequest, Options, OutcomeReport, Reported};
use punctual_hot::NoHot;
use punctual_store::SqliteStore;
use punctual_testkit::{
    faults::{BusGroup, Dials, FaultyBus, FaultyStore, StoreGroup},
    patience::{HANG_LIMIT, until},
};
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

/// Longer than anything takes but the repair that these tests have switched off.
const WAIT_MS: u64 = HANG_LIMIT.as_secs() * 1_000;

#[derive(Debug)]
pub(crate) struct WallClock;

impl Clock for WallClock {
    #[expect(clippy::disallowed_methods, reason = "the composition root of these tests")]
    fn now(&self) -> Millis {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        Millis(i64::try_from(since.as_millis()).unwrap())
    }

    fn until(&self, at: Millis) -> Duration {
        Duration::from_millis(u64::try_from(at.since(self.now())).unwrap_or(0))
    }
}

const HOUR_MS: u64 = 3_600_000;

pub(crate) fn queue() -> QueueKey {
    QueueKey { namespace: Name::default_namespace(), queue: Name::new("q").unwrap() }
}

pub(crate) fn slow_repair() -> Options {
    Options { sweep_interval_ms: HOUR_MS, ..Options::default() }
}

pub(crate) struct EngineRig {
    pub(crate) store: Arc<FaultyStore>,
    bus: Arc<FaultyBus>,
    pub(crate) engine: Engine,
}

pub(crate) fn rig(options: Options) -> EngineRig {
    let truth: Arc<dyn Store> = Arc::new(SqliteStore::in_memory(&Default::default()).unwrap());
    rig_on(truth, options)
}

fn rig_on(truth: Arc<dyn Store>, options: Options) -> EngineRig {
    let store = Arc::new(FaultyStore::new(truth, 1));
    let bus = Arc::new(FaultyBus::new(Arc::new(MemoryBus::default()), 1));
    let hot = Arc::new(NoHot);
    let limiter = Arc::new(punctual_hot::MemoryLimiter::default());
    let backends = Backends {
        store: store.clone(),
        hot,
        limiter,
        bus: bus.clone(),
        clock: Arc::new(WallClock),
        blobs: None,
        shared: None,
    };
    EngineRig { store, bus, engine: Engine::new(backends, options) }
}

impl EngineRig {
    pub(crate) async fn insert(&self, delay_ms: i64) -> TaskRef {
        let task = NewTask::new(queue(), Name::new("k").unwrap(), self.engine.now().plus(delay_ms));
        self.engine.insert(vec![task], "test").await.unwrap().remove(0).task.place
    }

    pub(crate) async fn lease(&self, lease_ms: i64) -> Vec<Assignment> {
        self.engine.lease(request(lease_ms)).await.unwrap()
    }

    pub(crate) async fn state(&self, place: TaskRef) -> State {
        self.engine.read(place).await.unwrap().state
    }
}

fn request(lease_ms: i64) -> LeaseRequest {
    let executor = "test".to_owned();
    LeaseRequest { queue: Arc::new(queue()), max: 10, wait_ms: WAIT_MS, lease_ms, executor, version: None }
}

fn succeeded(lease: &Assignment) -> OutcomeReport {
    OutcomeReport {
        place: lease.place,
        fence: lease.fence,
        report: Report::Succeeded,
        result: TaskResult::default(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_instant_comes_before_the_answer_to_its_claim_fires_with_the_answer() {
    let rig = rig(Options { push_queues: vec![queue()], ahead_ms: 0, ..slow_repair() });
    let running = rig.engine.start().unwrap();
    // Enough for every partition to have something on the wheel, so that each fires while the claim is out.
    let task = || NewTask::new(queue(), Name::new("k").unwrap(), rig.engine.now().plus(2_500));
    rig.engine.insert((0..64).map(|_| task()).collect(), "test").await.unwrap();
    // The store has answered: their claim must not be the one that is held.
    let claimed = Query { state: Some(State::Dispatching), limit: 100, ..Query::default() };
    until("all are claimed", || async { rig.store.list(&claimed).await.unwrap().tasks.len() == 64 }).await;
    let gate = rig.store.faults.hold(StoreGroup::Apply);
    let held = rig.insert(30).await;
    gate.reached().await;
    let mut came = Vec::new();
    let receive = async |came: &mut Vec<TaskRef>| {
        let received = rig.bus.receive(&queue(), 100, HANG_LIMIT, rig.engine.now()).await.unwrap();
        came.extend(received.iter().map(|delivery| delivery.message.place));
    };
    while came.len() < 64 {
        receive(&mut came).await;
    }
    assert!(!came.contains(&held), "its claim is not answered");
    gate.open();
    while !came.contains(&held) {
        receive(&mut came).await;
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_panics_runs_again_and_is_counted() {
    let rig = rig(Options { lease_check_interval_ms: 20, ..slow_repair() });
    let running = rig.engine.start().unwrap();
    rig.insert(0).await;
    let first = rig.lease(200).await.remove(0);
    rig.store.faults.panic_once(StoreGroup::Leases);
    let second = rig.lease(10_000).await.remove(0);
    assert_eq!((first.attempt, second.attempt), (1, 2));
    let stale =
        rig.engine.record_outcomes(vec![succeeded(&first), succeeded(&second)], "test").await.unwrap();
    assert_eq!(stale, [Reported::Stale, Reported::Accepted]);
    let panics: u64 = rig.engine.meters().services().iter().map(|service| service.panics).sum();
    assert_eq!(panics, 1);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graceful_stop_hands_back_what_was_claimed_and_the_next_engine_fires_it() {
    let truth: Arc<dyn Store> = Arc::new(SqliteStore::in_memory(&Default::default()).unwrap());
    // Only tasks of push queues are marked ahead of their instants, where they are not leased then.
    let marks = Options { push_queues: vec![queue()], ahead_ms: 0, ..slow_repair() };
    let first = rig_on(Arc::clone(&truth), marks);
    let running = first.engine.start().unwrap();
    let place = first.insert(900).await;
    until("it is claimed", || async { first.state(place).await == State::Dispatching }).await;
    running.stop().await;
    assert_eq!(first.state(place).await, State::Scheduled);
    assert!(first.lease(1).await.is_empty(), "an engine that is stopping answers at once, with nothing");

    let second = rig_on(truth, slow_repair());
    let running = second.engine.start().unwrap();
    let leased = second.lease(10_000).await.remove(0);
    assert_eq!((leased.place, leased.attempt), (place, 1));
    assert!(leased.fired_at >= leased.due_at);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_queue_publishes_and_what_cannot_be_published_keeps_its_attempt() {
    let rig = rig(Options { push_queues: vec![queue()], ..slow_repair() });
    rig.bus.faults.set(BusGroup::Publish, Dials::REFUSES);
    let running = rig.engine.start().unwrap();
    let place = rig.insert(0).await;
    until("it was refused", || async { rig.bus.faults.counts(BusGroup::Publish).refused > 0 }).await;
    rig.bus.faults.heal();
    let delivered = rig.bus.receive(&queue(), 1, HANG_LIMIT, rig.engine.now()).await.unwrap().remove(0);
    assert_eq!((delivered.message.place, delivered.message.attempt), (place, 1));
    let recorded =
        rig.engine.record_outcomes(vec![succeeded(&delivered.message)], "subscriber").await.unwrap();
    assert_eq!(recorded, [Reported::Accepted]);
    rig.bus.acknowledge(&queue(), &[delivered.id]).await.unwrap();
    assert_eq!(rig.state(place).await, State::Succeeded);
    running.stop().await;
}
