//! Components of an engine that panic or hang: they are restarted, with an alert; an engine that cannot fire
//! leaves its partitions to one that can.

use crate::engine::{WallClock, queue};
use punctual_contract::{Clock, Store, store::Assignment};
use punctual_domain::{name::Name, task::NewTask, time::Millis};
use punctual_engine::{AlertKind, Backends, Engine, LeaseRequest, Options, SharedBackends};
use punctual_hot::MemoryLimiter;
use punctual_store::SqliteStore;
use punctual_testkit::{
    faults::{FaultyStore, StoreGroup},
    patience::{HANG_LIMIT, until},
    shared::{MemoryOwnership, SharedHot, SignalHub},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

const HOUR_MS: u64 = 3_600_000;

/// While the trap is set, the wheel's thread panics whenever it reads this clock.
#[derive(Debug, Default)]
struct Trap {
    is_set: AtomicBool,
}

impl Trap {
    fn pass(&self) {
        let is_wheel = std::thread::current().name() == Some("punctual-wheel");
        assert!(!is_wheel || !self.is_set.load(SeqCst), "a test asked for this panic");
    }
}

impl Clock for Trap {
    fn now(&self) -> Millis {
        self.pass();
        WallClock.now()
    }

    fn until(&self, at: Millis) -> Duration {
        WallClock.until(at)
    }
}

struct PartsFailNode {
    engine: Engine,
    store: Arc<FaultyStore>,
    trap: Arc<Trap>,
}

fn node(
    truth: Arc<dyn Store>,
    hot: Arc<SharedHot>,
    shared: Option<SharedBackends>,
    options: Options,
) -> PartsFailNode {
    let (store, trap) = (Arc::new(FaultyStore::new(truth, 1)), Arc::new(Trap::default()));
    let backends = Backends {
        store: store.clone(),
        hot,
        limiter: Arc::new(MemoryLimiter::default()),
        bus: Arc::new(punctual_bus::MemoryBus::default()),
        clock: trap.clone(),
        blobs: None,
        shared,
    };
    PartsFailNode { engine: Engine::new(backends, options), store, trap }
}

fn alone() -> PartsFailNode {
    let truth: Arc<dyn Store> = Arc::new(SqliteStore::in_memory(&Default::default()).unwrap());
    let hot = Arc::new(SharedHot::new(truth.partitions()));
    // Nothing but the wheel fires.
    node(truth, hot, None, Options { sweep_interval_ms: HOUR_MS, ..Options::default() })
}

impl PartsFailNode {
    async fn insert(&self, delay_ms: i64) {
        let task = NewTask::new(queue(), Name::new("k").unwrap(), self.engine.now().plus(delay_ms));
        self.engine.insert(vec![task], "test").await.unwrap();
    }

    async fn lease(&self) -> Vec<Assignment> {
        let (queue, executor) = (Arc::new(queue()), "test".to_owned());
        let wait_ms = HANG_LIMIT.as_secs() * 1_000;
        let request = LeaseRequest { queue, max: 10, wait_ms, lease_ms: 60_000, executor, version: None };
        self.engine.lease(request).await.unwrap()
    }

    async fn is_alarmed(&self, kind: AlertKind) -> bool {
        self.engine.alerts().await.unwrap().iter().any(|alert| alert.kind == kind)
    }

    fn panics_of(&self, service: &str) -> u64 {
        let services = self.engine.meters().services();
        services.iter().filter(|numbers| numbers.name == service).map(|service| service.panics).sum()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wheel_that_panicked_turns_again() {
    let node = alone();
    let running = node.engine.start().unwrap();
    node.trap.is_set.store(true, SeqCst);
    until("it has panicked", || async { node.panics_of("wheel") > 2 }).await;
    assert!(node.is_alarmed(AlertKind::ServiceFailing).await);
    assert!(node.engine.can_fire().is_err());
    node.trap.is_set.store(false, SeqCst);
    until("it goes well", || async { node.engine.can_fire().is_ok() }).await;
    node.insert(300).await;
    assert_eq!(node.lease().await.len(), 1);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_panics_again_and_again_is_started_again_and_alarmed_about_until_it_goes_well() {
    let node = alone();
    let running = node.engine.start().unwrap();
    // What looks for ended leases, five times a second.
    until("it is alarmed about", || async {
        node.store.faults.panic_once(StoreGroup::Leases);
        node.panics_of("leases") > 2 && node.is_alarmed(AlertKind::ServiceFailing).await
    })
    .await;
    assert!(node.engine.can_fire().is_err());
    until("all services go well", || async { node.engine.can_fire().is_ok() }).await;
    until("the alert is over", || async { !node.is_alarmed(AlertKind::ServiceFailing).await }).await;
    node.insert(0).await;
    assert_eq!(node.lease().await.len(), 1);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_that_cannot_write_are_said_until_they_can() {
    let node = alone();
    let running = node.engine.start().unwrap();
    node.engine.can_write().unwrap();
    node.store.faults.set(StoreGroup::Writers, punctual_testkit::faults::Dials::REFUSES);
    until("it is said", || async { node.engine.can_write().is_err() }).await;
    node.store.faults.heal();
    until("it is over", || async { node.engine.can_write().is_ok() }).await;
    let gate = node.store.faults.hold(StoreGroup::Writers);
    until("a writer that does not answer is said", || async { node.engine.can_write().is_err() }).await;
    gate.open();
    until("it answers", || async { node.engine.can_write().is_ok() }).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_shares_with_nobody_keeps_its_partitions_while_it_cannot_fire() {
    /// One look each half second; a wheel that has stopped for three seconds makes its engine unhealthy.
    const LOOKS: u64 = 12;
    let node = alone();
    let partitions = usize::from(node.store.partitions());
    let running = node.engine.start().unwrap();
    node.trap.is_set.store(true, SeqCst);
    until("it has panicked", || async { node.panics_of("wheel") > 2 }).await;
    let looks = || {
        let services = node.engine.meters().services();
        services.iter().filter(|service| service.name == "own").map(|service| service.runs).sum::<u64>()
    };
    let before = looks();
    until("it was looked at who owns what", || async {
        assert_eq!(node.engine.owned(), partitions);
        looks() >= before + LOOKS
    })
    .await;
    assert!(node.engine.can_fire().is_err());
    assert!(!node.engine.is_shared() && node.engine.live().is_empty());
    let owners = node.engine.owners().await.unwrap();
    assert!(owners.len() == partitions && owners.iter().all(|owner| owner.engine == node.engine.name()));
    node.trap.is_set.store(false, SeqCst);
    node.insert(300).await;
    assert_eq!(node.lease().await.len(), 1);
    running.stop().await;
    assert_eq!(node.engine.owners().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_cannot_fire_leaves_its_partitions_to_one_that_can_until_it_can() {
    let truth: Arc<dyn Store> = Arc::new(SqliteStore::in_memory(&Default::default()).unwrap());
    let partitions = usize::from(truth.partitions());
    let hot = Arc::new(SharedHot::new(truth.partitions()));
    let ownership = Arc::new(MemoryOwnership::new(Arc::new(WallClock)));
    let signals = SignalHub::default();
    let joins = |name: &str| {
        let shared =
            SharedBackends { ownership: ownership.clone(), signals: signals.join(), stored_limiter: None };
        let options = Options { name: name.to_owned(), ..Options::default() };
        node(Arc::clone(&truth), Arc::clone(&hot), Some(shared), options)
    };
    let (ill, well) = (joins("ill"), joins("well"));
    let (running_ill, running_well) = (ill.engine.start().unwrap(), well.engine.start().unwrap());
    until("they share", || async {
        ill.engine.owned() > 0
            && well.engine.owned() > 0
            && ill.engine.owned() + well.engine.owned() == partitions
    })
    .await;
    ill.trap.is_set.store(true, SeqCst);
    until("the other has all", || async { ill.engine.owned() == 0 && well.engine.owned() == partitions })
        .await;
    assert!(ill.engine.can_fire().is_err() && well.engine.can_fire().is_ok());
    // What comes in through it fires at the other.
    for _ in 0..20 {
        ill.insert(200).await;
    }
    let mut leased = 0;
    while leased < 20 {
        let next = well.lease().await;
        assert!(!next.is_empty(), "{leased} of 20 came");
        leased += next.len();
    }
    ill.trap.is_set.store(false, SeqCst);
    until("it has a share again", || async { ill.engine.owned() > 0 && ill.engine.can_fire().is_ok() }).await;
    running_ill.stop().await;
    running_well.stop().await;
}
