//! Firing from the store, a run at a time, by an engine that is turned manually: what a hot set that hangs, and a backlog that takes
//! several runs, must not keep from firing.

use crate::limits::set_queue;
use punctual_bus::MemoryBus;
use punctual_domain::{
    name::{Name, QueueKey},
    settings::QueueSettings,
    task::NewTask,
    time::Millis,
};
use punctual_engine::{Backends, Engine, LeaseRequest, Options, SharedBackends};
use punctual_hot::MemoryLimiter;
use punctual_store::{SqliteStore, sqlite};
use punctual_testkit::{
    clock::ManualClock,
    faults::{Dials, FaultyHot, FaultyLimiter, HotGroup, LimiterGroup},
    patience::{HANG_LIMIT, until},
    shared::{MemoryOwnership, SharedHot, SignalHub},
};
use std::sync::Arc;
use tokio::{task::JoinSet, time::timeout};

/// More than one run looks at in a partition.
const BACKLOG: i64 = 10_500;
const BATCH: i64 = 500;

/// What engines share.
struct EndedLeases {
    store: Arc<SqliteStore>,
    hot: Arc<SharedHot>,
    clock: ManualClock,
    ownership: Arc<MemoryOwnership>,
    signals: SignalHub,
}

impl EndedLeases {
    fn new(partitions: u16) -> Self {
        let options = sqlite::Options { partitions, ..sqlite::Options::default() };
        let clock = ManualClock::at(Millis(1_700_000_000_000));
        Self {
            store: Arc::new(SqliteStore::in_memory(&options).unwrap()),
            hot: Arc::new(SharedHot::new(partitions)),
            ownership: Arc::new(MemoryOwnership::new(Arc::new(clock.clone()))),
            signals: SignalHub::default(),
            clock,
        }
    }

    /// An engine with a way of its own to the hot set.
    fn rig(&self, name: &str) -> FromStoreRig {
        let hot = Arc::new(FaultyHot::new(self.hot.clone(), 1));
        let limiter = Arc::new(FaultyLimiter::new(Arc::new(MemoryLimiter::default()), 1));
        let (ownership, signals) = (self.ownership.clone(), self.signals.join());
        let backends = Backends {
            store: self.store.clone(),
            hot: hot.clone(),
            limiter: limiter.clone(),
            bus: Arc::new(MemoryBus::default()),
            clock: Arc::new(self.clock.clone()),
            blobs: None,
            shared: Some(SharedBackends { ownership, signals, stored_limiter: None }),
        };
        let options = Options { name: name.to_owned(), ..Options::default() };
        FromStoreRig { engine: Engine::new(backends, options), hot, limiter, clock: self.clock.clone() }
    }
}

struct FromStoreRig {
    engine: Engine,
    hot: Arc<FaultyHot>,
    limiter: Arc<FaultyLimiter>,
    clock: ManualClock,
}

impl FromStoreRig {
    /// One partition.
    async fn well() -> Self {
        let rig = EndedLeases::new(1).rig("one");
        until("it owns its partition", || async {
            drop(rig.engine.run_once().await);
            rig.engine.owned() > 0
        })
        .await;
        rig
    }

    /// One partition, and a hot set that refuses everything.
    async fn away() -> Self {
        let rig = Self::well().await;
        rig.loses_hot().await;
        rig
    }

    async fn loses_hot(&self) {
        self.hot.faults.set_all(Dials::REFUSES);
        self.run_once().await;
        assert!(self.engine.hot_is_away());
    }

    /// What needs the hot set fails at the end of it.
    async fn run_once(&self) {
        drop(self.engine.run_once().await);
    }

    /// A task that has fired, of a queue with a limit.
    async fn has_one_of_a_limited_queue(&self) {
        let settings = QueueSettings { concurrency: Some(1), ..QueueSettings::default() };
        set_queue(&self.engine, &queue("q"), settings).await;
        let due_at = self.engine.now().plus(50);
        let task = NewTask::new(queue("q"), Name::new("k").unwrap(), due_at);
        self.engine.insert(vec![task], "test").await.unwrap();
        self.clock.advance_ms(50);
        self.run_once().await;
    }

    fn fired(&self) -> u64 {
        self.engine.meters().fired_from_store_total()
    }

    /// The first is due after `after_ms`, each further one a millisecond later. Only the store has them.
    async fn insert(&self, queue: &QueueKey, count: i64, after_ms: i64) {
        let now = self.engine.now();
        let task = |nth| NewTask::new(queue.clone(), Name::new("k").unwrap(), now.plus(after_ms + nth));
        let tasks = (0..count).map(task).collect();
        self.engine.store().insert(tasks, "test", now).await.unwrap();
    }
}

fn queue(name: &str) -> QueueKey {
    QueueKey { namespace: Name::default_namespace(), queue: Name::new(name).unwrap() }
}

fn asking(queue: &QueueKey, max: usize, wait_ms: u64) -> LeaseRequest {
    let (queue, executor) = (Arc::new(queue.clone()), "test".to_owned());
    LeaseRequest { queue, max, wait_ms, lease_ms: 30_000, executor, version: None }
}

#[tokio::test]
async fn a_backlog_that_takes_several_runs_keeps_no_new_task_waiting() {
    let rig = FromStoreRig::away().await;
    for batch in 0..BACKLOG / BATCH {
        rig.insert(&queue("slow"), BATCH, batch * BATCH).await;
    }
    rig.clock.advance_ms(60_000);
    let backlog = u64::try_from(BACKLOG).unwrap();
    until("all of it has fired", || async {
        rig.run_once().await;
        rig.fired() == backlog
    })
    .await;
    // Another pass begins with the next run, and ends with the one after it.
    rig.insert(&queue("quick"), 1, 1).await;
    rig.clock.advance_ms(1);
    rig.run_once().await;
    assert_eq!(rig.fired(), backlog + 1, "it has fired in the first run");
    assert_eq!(rig.engine.lease(asking(&queue("quick"), 1, 0)).await.unwrap().len(), 1);
}

/// Time continues only while everything waits: whether the look has ended by then is no matter of speed.
#[tokio::test(start_paused = true)]
async fn a_hot_set_that_hangs_keeps_no_task_from_firing() {
    let rig = FromStoreRig::away().await;
    rig.insert(&queue("q"), 1, 0).await;
    let gate = rig.hot.faults.hold(HotGroup::Look);
    let engine = rig.engine.clone();
    let mut turn = JoinSet::new();
    turn.spawn(async move { drop(engine.run_once().await) });
    gate.reached().await;
    until("it fires", || async { rig.fired() == 1 }).await;
    assert!(turn.try_join_next().is_none() && gate.came() == 0, "the first look is still waited for");
    gate.open();
    turn.join_all().await;
}

/// A drain is never answered, and neither is the look that the engine takes because of it. The drain ends
/// once the engine considers the hot set unavailable, and executors get the task from the table.
#[tokio::test]
async fn a_call_that_the_hot_set_never_answers_ends_when_it_is_believed_to_be_away() {
    let rig = FromStoreRig::well().await;
    let due_at = rig.engine.now().plus(50);
    let task = NewTask::new(queue("q"), Name::new("k").unwrap(), due_at);
    rig.engine.insert(vec![task], "test").await.unwrap();
    rig.clock.advance_ms(50);
    let (drains, mut draining, mut looking) =
        (rig.hot.faults.hold(HotGroup::Drain), JoinSet::new(), JoinSet::new());
    let run_once = || {
        let engine = rig.engine.clone();
        async move { drop(engine.run_once().await) }
    };
    draining.spawn(run_once());
    drains.reached().await;
    let looks = rig.hot.faults.hold(HotGroup::Look);
    looking.spawn(run_once());
    looks.reached().await;
    let ended = timeout(HANG_LIMIT, draining.join_next()).await;
    assert!(ended.is_ok() && rig.engine.hot_is_away(), "the drain is still waited for");
    let leased = || async { rig.engine.lease(asking(&queue("q"), 1, 0)).await.unwrap().len() == 1 };
    until("an executor has it", leased).await;
    drains.open();
    looks.open();
    looking.join_all().await;
    // What the hot set has of it by now is refused by the store.
    until("the hot set is back", || async {
        rig.run_once().await;
        !rig.engine.hot_is_away()
    })
    .await;
    assert!(rig.engine.lease(asking(&queue("q"), 1, 0)).await.unwrap().is_empty());
}

/// An error would send the executor to another engine. Tasks that this engine fires would then wait for the
/// next caller.
#[tokio::test]
async fn an_executor_that_waits_is_not_sent_away_by_a_limiter_that_fails() {
    let rig = FromStoreRig::well().await;
    rig.has_one_of_a_limited_queue().await;
    rig.limiter.faults.set_all(Dials::REFUSES);
    let (engine, mut asking_now) = (rig.engine.clone(), JoinSet::new());
    asking_now.spawn(async move { engine.lease(asking(&queue("q"), 1, 600_000)).await });
    until("it was refused", || async { rig.limiter.faults.counts(LimiterGroup::Look).refused > 0 }).await;
    until("it waits", || async { rig.engine.waiting(&queue("q")) == 1 }).await;
    assert!(rig.engine.lease(asking(&queue("q"), 1, 0)).await.is_err(), "one that does not wait hears of it");
    rig.limiter.faults.heal();
    let leased = timeout(HANG_LIMIT, asking_now.join_next()).await.unwrap().unwrap().unwrap();
    assert_eq!(leased.unwrap().len(), 1);
}

/// The limiter of a limited queue never answers, and the hot set beside it is lost: the executor's call ends
/// once the engine considers the hot set unavailable.
#[tokio::test]
async fn a_call_that_the_limiter_never_answers_ends_when_the_hot_set_is_believed_to_be_away() {
    let rig = FromStoreRig::well().await;
    rig.has_one_of_a_limited_queue().await;
    let gate = rig.limiter.faults.hold(LimiterGroup::Look);
    let (engine, mut asking_now) = (rig.engine.clone(), JoinSet::new());
    asking_now.spawn(async move { engine.lease(asking(&queue("q"), 1, 0)).await });
    gate.reached().await;
    rig.loses_hot().await;
    let ended = timeout(HANG_LIMIT, asking_now.join_next()).await;
    assert!(ended.is_ok_and(|ended| ended.unwrap().unwrap().is_err()), "the limiter is still waited for");
    assert_eq!(gate.came(), 0);
    gate.open();
}

/// One of two engines loses the hot set. All executors ask the other one, which still has it. They get the
/// tasks that the first one fires, and tasks that were inserted there into the other's partitions. Neither
/// waits until partitions are given up or tasks are overdue.
#[tokio::test]
async fn an_engine_that_has_the_hot_set_hands_over_what_one_fires_that_has_lost_it() {
    const TASKS: usize = 40;
    let ends = EndedLeases::new(8);
    let (cut, well) = (ends.rig("cut"), ends.rig("well"));
    until("both own partitions", || async {
        for rig in [&cut, &well] {
            rig.run_once().await;
        }
        cut.engine.owned() > 0 && well.engine.owned() > 0 && cut.engine.owned() + well.engine.owned() == 8
    })
    .await;
    cut.loses_hot().await;
    // It says so, and is heard.
    cut.run_once().await;
    well.run_once().await;
    assert!(!well.engine.hot_is_away());
    let asked = || well.engine.lease(asking(&queue("q"), TASKS, 0));
    assert!(asked().await.unwrap().is_empty());
    let due_at = well.engine.now().plus(50);
    let task = |_| NewTask::new(queue("q"), Name::new("k").unwrap(), due_at);
    cut.engine.insert((0..TASKS).map(task).collect(), "test").await.unwrap();
    let (mut came, mut late_ms) = (0, 0);
    for step_ms in [50, 100, 100, 100] {
        ends.clock.advance_ms(step_ms);
        late_ms = well.engine.now().since(due_at);
        cut.run_once().await;
        well.run_once().await;
        came += asked().await.unwrap().len();
    }
    assert_eq!(came, TASKS, "within {late_ms} ms");
    assert!(cut.engine.owned() > 0, "it has given nothing up");
}
