//! An engine dies at each step of a task's path, and another one continues: the table of `docs/consistency-tests.md`, a case a
//! row, on the embedded back ends and on real MySQL and Redis. The dying engine has a runtime of its own, which is
//! thrown away at the gate: nothing of it runs on, nothing says goodbye.

#[macro_use]
mod stamps;

mod by_redis;
mod embedded_source;
mod without_redis;

use async_trait::async_trait;
use punctual_bus::{MemoryBus, RedisBus, RedisBusOptions};
use punctual_contract::{
    Bus, Clock, Hot, Store,
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
use punctual_engine::{Backends, Engine, LeaseRequest, Options, OutcomeReport, Reported, SharedBackends};
use punctual_hot::{NoHot, RedisHot, RedisOptions};
use punctual_store::{MysqlOptions, MysqlStore, SqliteStore};
use punctual_testkit::{
    faults::{BusGroup, Dials, FaultyBus, FaultyHot, FaultyStore, Gate, HotGroup, StoreGroup},
    patience::{HANG_LIMIT, until},
    servers,
    shared::SharedHot,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::SeqCst},
    },
    time::{Duration, SystemTime},
};
use tokio::{runtime::Runtime, task::JoinSet};

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

/// The wall clock, which a test can hold before an instant: tasks due then do not fire until the test
/// releases it.
#[derive(Clone, Debug)]
pub(crate) struct HeldClock(Arc<AtomicI64>);

impl HeldClock {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicI64::new(i64::MAX)))
    }

    pub(crate) fn hold_before(&self, at: Millis) -> Held {
        self.0.store(at.0, SeqCst);
        Held(self.clone())
    }
}

impl Clock for HeldClock {
    fn now(&self) -> Millis {
        WallClock.now().min(Millis(self.0.load(SeqCst).saturating_sub(1)))
    }

    fn until(&self, at: Millis) -> Duration {
        let is_held = at.0 >= self.0.load(SeqCst);
        // A sleeping loop looks again soon.
        WallClock.until(at).max(if is_held { Duration::from_millis(2) } else { Duration::ZERO })
    }
}

/// A clock that is held, until it is let go.
pub(crate) struct Held(HeldClock);

impl Held {
    pub(crate) fn let_go(&self) {
        self.0.0.store(i64::MAX, SeqCst);
    }
}

/// What outlives an engine.
#[async_trait]
pub(crate) trait Ground: Send + Sync + 'static {
    /// Opened anew for each engine, in its runtime.
    async fn stand(&self) -> Stand;
}

pub(crate) struct Stand {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) hot: Arc<dyn Hot>,
    pub(crate) limiter: Arc<dyn punctual_contract::Limiter>,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) shared: Option<SharedBackends>,
}

/// The hot set and the bus go down with their process.
pub(crate) struct Embedded {
    store: Arc<SqliteStore>,
    /// Due tasks are in the hot set, as with Redis.
    has_due: bool,
}

impl Embedded {
    pub(crate) async fn ground() -> Arc<dyn Ground> {
        let store = Arc::new(SqliteStore::in_memory(&Default::default()).unwrap());
        Arc::new(Self { store, has_due: false })
    }

    /// Like an engine with Redis.
    pub(crate) async fn with_due_in_hot_set() -> Arc<dyn Ground> {
        let store = Arc::new(SqliteStore::in_memory(&Default::default()).unwrap());
        Arc::new(Self { store, has_due: true })
    }
}

#[async_trait]
impl Ground for Embedded {
    async fn stand(&self) -> Stand {
        let hot: Arc<dyn Hot> =
            if self.has_due { Arc::new(SharedHot::new(self.store.partitions())) } else { Arc::new(NoHot) };
        Stand {
            store: self.store.clone(),
            hot,
            limiter: Arc::new(punctual_hot::MemoryLimiter::default()),
            bus: Arc::new(MemoryBus::default()),
            shared: None,
        }
    }
}

pub(crate) struct OnServers {
    mysql_url: String,
    redis_url: String,
    prefix: String,
    partitions: u16,
}

const PARTITIONS: u16 = 4;

impl OnServers {
    pub(crate) async fn ground() -> Arc<dyn Ground> {
        Self::ground_of(PARTITIONS).await
    }

    /// Of few partitions, one engine in eight owns all or none beside another: names decide.
    pub(crate) async fn ground_of(partitions: u16) -> Arc<dyn Ground> {
        Arc::new(Self { partitions, ..Self::at(servers::redis().await.url()).await })
    }

    /// With this Redis.
    pub(crate) async fn at(redis_url: String) -> Self {
        let mysql_url = servers::migrated_database().await;
        let prefix = servers::redis().await.fresh_prefix();
        Self { mysql_url, redis_url, prefix, partitions: PARTITIONS }
    }

    /// The same ground, and another way to its Redis.
    pub(crate) fn by_way_of(&self, redis_url: String) -> Self {
        let (mysql_url, prefix) = (self.mysql_url.clone(), self.prefix.clone());
        Self { mysql_url, redis_url, prefix, partitions: self.partitions }
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }
}

#[async_trait]
impl Ground for OnServers {
    async fn stand(&self) -> Stand {
        let options = MysqlOptions { partitions: self.partitions, ..MysqlOptions::default() };
        let store = Arc::new(MysqlStore::open(std::slice::from_ref(&self.mysql_url), options).await.unwrap());
        let prefix = self.prefix.clone();
        let options =
            RedisOptions { partitions: self.partitions, prefix: prefix.clone(), ..RedisOptions::default() };
        let hot = RedisHot::connect(&self.redis_url, options).await.unwrap();
        let signals = Arc::new(hot.signals().await.unwrap());
        let consumer = format!("{:08x}", fastrand::u32(..));
        let options = RedisBusOptions { prefix, consumer, ..RedisBusOptions::default() };
        let bus = RedisBus::connect(&self.redis_url, options).await.unwrap();
        let shared =
            Some(SharedBackends { ownership: Arc::new(store.ownership()), signals, stored_limiter: None });
        let limiter = Arc::new(hot.limiter(punctual_hot::RateClock::Server));
        let hot = Arc::new(hot);
        Stand { store, hot, limiter, bus: Arc::new(bus), shared }
    }
}

pub(crate) struct CrashPointsRig {
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) hot: Arc<FaultyHot>,
    pub(crate) bus: Arc<FaultyBus>,
    pub(crate) engine: Engine,
    pub(crate) clock: HeldClock,
}

pub(crate) async fn rig(ground: &dyn Ground, push: bool) -> CrashPointsRig {
    rig_with(ground, push, |options| options).await
}

pub(crate) async fn rig_with(
    ground: &dyn Ground,
    push: bool,
    set: impl FnOnce(Options) -> Options,
) -> CrashPointsRig {
    let Stand { store, hot, limiter, bus, shared } = ground.stand().await;
    let store = Arc::new(FaultyStore::new(store, 1));
    let hot = Arc::new(FaultyHot::new(hot, 1));
    let bus = Arc::new(FaultyBus::new(bus, 1));
    let clock = HeldClock::new();
    let backends = Backends {
        store: store.clone(),
        hot: hot.clone(),
        limiter,
        bus: bus.clone(),
        clock: Arc::new(clock.clone()),
        blobs: None,
        shared,
    };
    let push_queues = if push { vec![queue()] } else { Vec::new() };
    let name = format!("engine-{:08x}", fastrand::u32(..));
    let options = Options {
        name,
        push_queues,
        push_lease_ms: LEASE_MS,
        compensate_interval_ms: 1_000,
        ..Options::default()
    };
    CrashPointsRig { store, hot, bus, engine: Engine::new(backends, set(options)), clock }
}

/// For an engine that dies: the tasks that it had handed over are free again soon.
const LEASE_MS: i64 = 1_500;
/// Of the engine that continues: no lease ends before its outcome is reported.
const LONG_LEASE_MS: i64 = 3_600_000;
/// As long as a test may hang.
const WAIT_MS: u64 = HANG_LIMIT.as_secs() * 1_000;

pub(crate) fn queue() -> QueueKey {
    QueueKey { namespace: Name::default_namespace(), queue: Name::new("q").unwrap() }
}

fn request(wait_ms: u64, lease_ms: i64) -> LeaseRequest {
    let executor = "test".to_owned();
    LeaseRequest { queue: Arc::new(queue()), max: 10, wait_ms, lease_ms, executor, version: None }
}

pub(crate) fn succeeded(lease: &Assignment) -> OutcomeReport {
    OutcomeReport {
        place: lease.place,
        fence: lease.fence,
        report: Report::Succeeded,
        result: TaskResult::default(),
    }
}

impl CrashPointsRig {
    pub(crate) async fn insert(&self, delay_ms: i64) -> TaskRef {
        let task = NewTask::new(queue(), Name::new("k").unwrap(), self.engine.now().plus(delay_ms));
        self.engine.insert(vec![task], "test").await.unwrap().remove(0).task.place
    }

    /// Until an engine owns each partition: a task is inserted and delivered.
    async fn warm_up(&self) {
        for _ in 0..8 {
            let place = self.insert(0).await;
            let lease = leased(self).await;
            assert_eq!(lease.place, place);
            assert_eq!(
                self.engine.record_outcomes(vec![succeeded(&lease)], "test").await.unwrap(),
                [Reported::Accepted]
            );
        }
    }
}

/// Where the first engine dies: before this call happens, and so after all that came before it.
#[derive(Clone, Copy, Debug)]
enum At {
    Store(StoreGroup),
    /// Tasks that are not due soon pass through the hot set.
    Hot(HotGroup),
    /// Drained: it is in the engine's table, and its instant has not come.
    OnWheel,
    /// The same of a task that was far when it was inserted.
    ReadAhead,
    /// It has fired, the store knows it as ready, and no executor has asked.
    Ready,
    /// The lease is committed, and its executor has not learned of it.
    Leased,
    /// The task is in the table, and the engine asks the store for the mark.
    Claim,
    Publish,
    /// The bus has refused the message twice, and the engine is about to mark that in the store.
    Mark,
    /// The store knows that it could not be sent.
    Marked,
    /// The executor has the task, and the outcome is on its way.
    Outcome,
}

impl At {
    const fn is_pushed(self) -> bool {
        matches!(self, Self::Claim | Self::Publish | Self::Mark | Self::Marked)
    }

    /// Elsewhere an executor that waits would itself come to the gate.
    const fn needs_an_executor(self) -> bool {
        matches!(self, Self::Store(StoreGroup::Dispatch) | Self::Leased | Self::Outcome)
    }

    /// From the insert to the instant. A task that is due within ten seconds enters the engine's table at
    /// once.
    const fn delay_ms(self) -> i64 {
        match self {
            Self::Hot(HotGroup::Load | HotGroup::Drain) | Self::Store(StoreGroup::Scan) | Self::ReadAhead => {
                11_000
            }
            _ => 300,
        }
    }
}

/// None: it dies by itself there, without a call.
fn gate(rig: &CrashPointsRig, at: At) -> Option<Arc<Gate>> {
    match at {
        At::Store(group) => Some(rig.store.faults.hold(group)),
        At::Hot(group) => Some(rig.hot.faults.hold(group)),
        At::Publish | At::Mark | At::Marked => Some(rig.bus.faults.hold(BusGroup::Publish)),
        At::Claim | At::Outcome => Some(rig.store.faults.hold(StoreGroup::Apply)),
        At::OnWheel | At::ReadAhead | At::Ready | At::Leased => None,
    }
}

/// A task is inserted, the engine dies at the gate, and another one sees the task through.
fn dies(ground: &Arc<dyn Ground>, at: At) {
    let survivor = Runtime::new().unwrap();
    survivor.block_on(die(Arc::clone(ground), at));
    survivor.block_on(live_on(&**ground, at));
}

/// Answers when the engine is gone. Its last insert is committed, whether it was answered or not.
async fn die(ground: Arc<dyn Ground>, at: At) {
    let (reported, heard) = tokio::sync::oneshot::channel();
    let doomed = Runtime::new().unwrap();
    doomed.spawn(async move {
        let push = at.is_pushed();
        // Each step by itself: those ahead of the instant have a table of their own (`ahead`).
        let rig = rig_with(&*ground, push, |options| Options { ahead_ms: 0, ..options }).await;
        let _running = rig.engine.start().unwrap();
        if !push {
            rig.warm_up().await;
        }
        let mut gate = match at {
            At::Outcome => None,
            _ => gate(&rig, at),
        };
        if matches!(at, At::Leased) {
            rig.store.faults.set(StoreGroup::Dispatch, Dials::ANSWERS_LOST);
        }
        let accepted = rig.store.books().await.unwrap().accepted + 1;
        let mut callers = JoinSet::new();
        let (engine, due_at) = (rig.engine.clone(), rig.engine.now().plus(at.delay_ms()));
        let _held = matches!(at, At::OnWheel | At::ReadAhead).then(|| rig.clock.hold_before(due_at));
        callers.spawn(async move {
            let task = NewTask::new(queue(), Name::new("k").unwrap(), due_at);
            drop(engine.insert(vec![task], "test").await);
        });
        if at.needs_an_executor() {
            let engine = rig.engine.clone();
            let (handed, in_hand) = tokio::sync::oneshot::channel();
            let leases = request(WAIT_MS, LEASE_MS);
            callers.spawn(async move { drop(handed.send(engine.lease(leases).await.unwrap())) });
            if matches!(at, At::Outcome) {
                let leased = in_hand.await.unwrap();
                gate = self::gate(&rig, at);
                let engine = rig.engine.clone();
                callers.spawn(async move {
                    drop(engine.record_outcomes(vec![succeeded(&leased[0])], "test").await)
                });
            }
        }
        match &gate {
            Some(gate) => gate.reached().await,
            None if matches!(at, At::Leased) => is_in(&rig, State::Dispatched).await,
            None if matches!(at, At::Ready) => is_in(&rig, State::Ready).await,
            None => until("it is on the wheel", || async { rig.engine.on_wheel() == 1 }).await,
        }
        match at {
            At::Mark => {
                rig.bus.faults.set(BusGroup::Publish, Dials::REFUSES);
                let marking = rig.store.faults.hold(StoreGroup::Apply);
                gate.unwrap().open();
                marking.reached().await;
            }
            At::Marked => {
                rig.bus.faults.set(BusGroup::Publish, Dials::REFUSES);
                gate.unwrap().open();
                is_in(&rig, State::DispatchFailed).await;
            }
            _ => {}
        }
        // The gate may have been reached by a service that knew nothing of the task.
        until("it was accepted", || async { rig.store.books().await.unwrap().accepted >= accepted }).await;
        reported.send(()).unwrap();
        std::future::pending::<()>().await;
    });
    heard.await.unwrap();
    doomed.shutdown_background();
}

async fn is_in(rig: &CrashPointsRig, state: State) {
    let query = Query { state: Some(state), limit: 1, ..Query::default() };
    let is_known = || async { !rig.store.list(&query).await.unwrap().tasks.is_empty() };
    until(&format!("the store knows it as {state:?}"), is_known).await;
}

async fn live_on(ground: &dyn Ground, at: At) {
    let lasting = |options| Options { push_lease_ms: LONG_LEASE_MS, ..options };
    let rig = rig_with(ground, at.is_pushed(), lasting).await;
    let running = rig.engine.start().unwrap();
    let lease = match at {
        at if at.is_pushed() => delivered(&rig).await,
        _ => leased(&rig).await,
    };
    assert!(lease.fired_at >= lease.due_at, "early: {lease:?}");
    let report = succeeded(&lease);
    let recorded = rig.engine.record_outcomes(vec![report.clone(), report], "test").await.unwrap();
    assert_eq!(recorded, [Reported::Accepted, Reported::Stale]);
    assert_eq!(rig.engine.read(lease.place).await.unwrap().state, State::Succeeded);
    assert_eq!(rig.engine.lease(request(100, LONG_LEASE_MS)).await.unwrap(), [], "it does not come twice");
    let books = rig.store.books().await.unwrap();
    assert_eq!((books.unaccounted(), &books), (0, &rig.store.audit().await.unwrap()));
    running.stop().await;
}

async fn leased(rig: &CrashPointsRig) -> Assignment {
    let mut leased = rig.engine.lease(request(WAIT_MS, LONG_LEASE_MS)).await.unwrap();
    leased.pop().expect("a task that is due comes")
}

/// A message from the bus. Messages that the dead engine published and no executor has taken are received
/// too, and refused as stale.
pub(crate) async fn delivered(rig: &CrashPointsRig) -> Assignment {
    loop {
        let received = rig.bus.receive(&queue(), 10, HANG_LIMIT, rig.engine.now()).await.unwrap();
        assert!(!received.is_empty(), "nothing comes over the bus");
        for delivery in received {
            rig.bus.acknowledge(&queue(), &[delivery.id]).await.unwrap();
            let task = rig.engine.read(delivery.message.place).await.unwrap();
            if task.fence == delivery.message.fence {
                return delivery.message;
            }
        }
    }
}

on_each_ground! {
    after_the_drain_before_the_mark: At::Claim;
    after_the_drain_before_the_instant: At::OnWheel;
    after_the_admission_before_the_lease: At::Store(StoreGroup::Dispatch);
    after_the_lease_before_its_answer: At::Leased;
    after_the_lease_before_the_publish: At::Publish;
    after_a_refused_publish_before_it_is_marked: At::Mark;
    after_what_could_not_be_sent_was_marked: At::Marked;
    after_the_work_before_the_outcome: At::Outcome;
}
