//! Several running engines on one store and one hot set, with their threads and services, in the situations
//! that matter. And the suites of the shared back ends, for those in memory.

use crate::engine::{WallClock, queue, slow_repair};
use punctual_contract::{
    Clock, Hot as _, Store,
    store::{Assignment, Scan},
};
use punctual_domain::{
    name::Name,
    outcome::Report,
    place::{Partition, TaskRef},
    state::State,
    task::{Lease, NewTask, TaskResult},
    time::Millis,
};
use punctual_engine::{
    Backends, Cancelled, Engine, LeaseRequest, Options, OutcomeReport, Reported, SharedBackends,
};
use punctual_store::SqliteStore;
use punctual_testkit::{
    clock::ManualClock,
    faults::{FaultyStore, StoreGroup},
    patience::{HANG_LIMIT, a_moment, until},
    shared::{MemoryOwnership, SharedHot, SignalHub},
};
use std::{collections::HashSet, sync::Arc, time::Duration};
use tokio::{runtime::Runtime, task::JoinSet, time::timeout};

mod passed;

mod ownership_in_memory {
    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                let clock = std::sync::Arc::new(super::WallClock);
                let it = std::sync::Arc::new(super::MemoryOwnership::new(clock));
                punctual_testkit::conformance::$module::$case(it).await;
            }
        )*};
    }
    punctual_testkit::for_each_ownership_case!(stamp);
}

mod signals_in_memory {
    macro_rules! stamp {
        ($($module:ident :: $case:ident),* $(,)?) => {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                let hub = super::SignalHub::default();
                punctual_testkit::conformance::$module::$case(hub.join(), hub.join()).await;
            }
        )*};
    }
    punctual_testkit::for_each_signals_case!(stamp);
}

/// The back ends that the engines share.
struct EngineCluster {
    clock: Arc<dyn Clock>,
    truth: Arc<dyn Store>,
    hot: Arc<SharedHot>,
    limiter: Arc<punctual_hot::MemoryLimiter>,
    ownership: Arc<MemoryOwnership>,
    signals: SignalHub,
}

struct SharedNode {
    store: Arc<FaultyStore>,
    engine: Engine,
}

impl EngineCluster {
    fn new() -> Self {
        Self::with_clock(Arc::new(WallClock))
    }

    fn with_clock(clock: Arc<dyn Clock>) -> Self {
        let truth: Arc<dyn Store> = Arc::new(SqliteStore::in_memory(&Default::default()).unwrap());
        let hot = Arc::new(SharedHot::new(truth.partitions()));
        let ownership = Arc::new(MemoryOwnership::new(clock.clone()));
        Self { clock, truth, hot, limiter: Arc::default(), ownership, signals: SignalHub::default() }
    }

    fn node(&self, name: &str, options: Options) -> SharedNode {
        let store = Arc::new(FaultyStore::new(Arc::clone(&self.truth), 1));
        let shared = SharedBackends {
            ownership: self.ownership.clone(),
            signals: self.signals.join(),
            stored_limiter: None,
        };
        let backends = Backends {
            store: store.clone(),
            hot: self.hot.clone(),
            limiter: self.limiter.clone(),
            bus: Arc::new(punctual_bus::MemoryBus::default()),
            clock: self.clock.clone(),
            blobs: None,
            shared: Some(shared),
        };
        let engine = Engine::new(backends, Options { name: name.to_owned(), ..options });
        SharedNode { store, engine }
    }

    fn partitions(&self) -> usize {
        usize::from(self.truth.partitions())
    }
}

impl SharedNode {
    async fn insert(&self, count: usize, delay_ms: i64) -> Vec<TaskRef> {
        let execute_at = self.engine.now().plus(delay_ms);
        let task = |_| NewTask::new(queue(), Name::new("k").unwrap(), execute_at);
        let inserted = self.engine.insert((0..count).map(task).collect(), "test").await.unwrap();
        inserted.into_iter().map(|inserted| inserted.task.place).collect()
    }

    async fn lease(&self, wait_ms: u64) -> Vec<Assignment> {
        let executor = "test".to_owned();
        let queue = Arc::new(queue());
        let request = LeaseRequest { queue, max: 100, wait_ms, lease_ms: 60_000, executor, version: None };
        self.engine.lease(request).await.unwrap()
    }

    /// The same, from two engines.
    async fn lease_all_of(&self, other: &Self, count: usize) {
        let mut ids = HashSet::new();
        let leasing = timeout(HANG_LIMIT, async {
            while ids.len() < count {
                for node in [self, other] {
                    ids.extend(node.lease(100).await.iter().map(|lease| lease.place.id));
                }
            }
        });
        assert!(leasing.await.is_ok(), "{} of {count} came", ids.len());
    }

    /// Leases until this many different tasks have come.
    async fn lease_all(&self, count: usize) -> Vec<Assignment> {
        let mut all = Vec::new();
        let leasing = timeout(HANG_LIMIT, async {
            while all.len() < count {
                all.extend(self.lease(1_000).await);
            }
        });
        assert!(leasing.await.is_ok(), "{} of {count} came", all.len());
        let ids: HashSet<i64> = all.iter().map(|lease| lease.place.id).collect();
        assert_eq!((ids.len(), all.len()), (count, count), "each task once");
        assert!(all.iter().all(|lease| lease.fired_at >= lease.due_at), "never early");
        all
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn engines_share_the_partitions_and_one_that_stops_leaves_all_to_the_other() {
    let cluster = EngineCluster::new();
    let (a, b) = (cluster.node("a", Options::default()), cluster.node("b", Options::default()));
    let running_a = a.engine.start().unwrap();
    until("a has all", || async { a.engine.owned() == cluster.partitions() }).await;
    let far = a.insert(50, 700).await;
    until("a has claimed", || async { a.engine.on_wheel() > 0 }).await;
    let running_b = b.engine.start().unwrap();
    until("they share", || async {
        a.engine.owned() + b.engine.owned() == cluster.partitions() && b.engine.owned() > 0
    })
    .await;
    assert!(a.engine.owned() > 0);
    assert_eq!(b.lease_all(50).await.len(), far.len());

    let soon = a.insert(50, 900).await;
    until("a has claimed", || async { a.engine.on_wheel() > 0 }).await;
    running_a.stop().await;
    assert_eq!((a.engine.owned(), a.engine.on_wheel()), (0, 0));
    until("b has all", || async { b.engine.owned() == cluster.partitions() }).await;
    // What was in the table of the one that stopped is read from the store.
    let leased = b.lease_all(soon.len()).await;
    assert!(leased.iter().all(|lease| lease.attempt == 1 && lease.fired_at >= lease.due_at), "{leased:?}");
    running_b.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_at_one_engine_reaches_the_wheel_of_the_owner_without_any_repair() {
    let cluster = EngineCluster::new();
    // The owner looks by itself only once an hour: what it does before, a signal has caused.
    let never = Options { claim_interval_ms: 3_600_000, preload_interval_ms: 3_600_000, ..slow_repair() };
    let owner = cluster.node("owner", never);
    let running = owner.engine.start().unwrap();
    until("it has all", || async { owner.engine.owned() == cluster.partitions() }).await;
    // Owns nothing, for it is never started but to speak.
    let other = cluster.node("other", slow_repair());
    let announcing = other.engine.clone();
    other.insert(100, 0).await;
    other.insert(100, 300).await;
    announcing.announce().await.unwrap();
    let leased = owner.lease_all(200).await;
    assert_eq!(leased.len(), 200);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_at_one_engine_gets_what_fires_at_another() {
    let cluster = EngineCluster::new();
    let (a, b) = (cluster.node("a", slow_repair()), cluster.node("b", slow_repair()));
    let (running_a, running_b) = (a.engine.start().unwrap(), b.engine.start().unwrap());
    until("they share", || async {
        a.engine.owned() + b.engine.owned() == cluster.partitions()
            && a.engine.owned() > 0
            && b.engine.owned() > 0
    })
    .await;
    for (delay_ms, count) in [(50, 40), (0, 40), (300, 1)] {
        let (leased, _) = tokio::join!(b.lease_all(count), a.insert(count, delay_ms));
        assert!(leased.iter().all(|lease| lease.attempt == 1), "{leased:?}");
    }
    running_a.stop().await;
    running_b.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_that_are_lost_cost_lateness_and_no_task() {
    let cluster = EngineCluster::new();
    cluster.signals.set_mute(true);
    let (a, b) = (cluster.node("a", Options::default()), cluster.node("b", Options::default()));
    let (running_a, running_b) = (a.engine.start().unwrap(), b.engine.start().unwrap());
    until("they share", || async {
        a.engine.owned() + b.engine.owned() == cluster.partitions() && b.engine.owned() > 0
    })
    .await;
    a.insert(100, 0).await;
    b.insert(100, 400).await;
    b.lease_all(200).await;
    running_a.stop().await;
    running_b.stop().await;
}

/// Its services, its lease polls and whatever else it does: gone from one instant to the next.
fn kill(runtime: Runtime) {
    runtime.shutdown_background();
}

#[test]
fn what_a_dead_engine_had_claimed_fired_or_held_in_its_hands_fires_at_another() {
    let (dying, living) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let cluster = EngineCluster::new();
    let a = cluster.node("a", Options::default());
    let b = cluster.node("b", Options::default());
    let places = dying.block_on(async {
        let _running = a.engine.start().unwrap();
        until("a has all", || async { a.engine.owned() == cluster.partitions() }).await;
        let mut places = a.insert(20, 0).await;
        until("all have fired", || async { a.engine.depth().await.unwrap().fired >= 20 }).await;
        // Popped from the ready set, and never handed over.
        let gate = a.store.faults.hold(StoreGroup::Dispatch);
        let polling = a.engine.clone();
        let request = LeaseRequest {
            queue: Arc::new(queue()),
            max: 5,
            wait_ms: 20_000,
            lease_ms: 1_000,
            executor: "test".to_owned(),
            version: None,
        };
        tokio::select! {
            _ = polling.lease(request) => panic!("the gate is closed"),
            () = gate.reached() => {}
        }
        places.extend(a.insert(50, 800).await);
        until("a has claimed", || async { a.engine.on_wheel() > 0 }).await;
        places
    });
    let running_b = living.block_on(async { b.engine.start().unwrap() });
    kill(dying);
    living.block_on(async {
        let leased = b.lease_all(places.len()).await;
        assert!(leased.iter().all(|lease| lease.attempt == 1), "no attempt was spent on the dead");
        running_b.stop().await;
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn while_nobody_can_say_who_owns_what_everybody_goes_on() {
    let cluster = EngineCluster::new();
    let a = cluster.node("a", Options::default());
    let running = a.engine.start().unwrap();
    until("a has all", || async { a.engine.owned() == cluster.partitions() }).await;
    cluster.ownership.set_away(true);
    let failures = || a.engine.meters().services().iter().map(|service| service.failures).sum::<u64>();
    // Longer than a lease.
    until("it fails again and again", || async { failures() >= 5 }).await;
    a.insert(50, 100).await;
    a.lease_all(50).await;
    cluster.ownership.set_away(false);
    let first = u64::try_from(cluster.partitions()).unwrap();
    until("it gains terms", || async { a.engine.meters().terms_gained_total() > first }).await;
    a.insert(50, 100).await;
    a.lease_all(50).await;
    running.stop().await;
}

/// Partitions that are given up wait for a store that hangs; heartbeats and the remaining partitions do not.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_hangs_while_the_members_change_costs_an_engine_no_other_partition() {
    let cluster = EngineCluster::new();
    let (a, b) = (cluster.node("a", Options::default()), cluster.node("b", Options::default()));
    let running_a = a.engine.start().unwrap();
    until("a has all", || async { a.engine.owned() == cluster.partitions() }).await;
    let mut inserted = 0;
    for step in 0..40 {
        inserted += a.insert(10, 500 + step * 200).await.len();
    }
    until("a has claimed", || async { a.engine.on_wheel() > 10 }).await;
    // Nothing that was claimed can be handed back.
    let gate = a.store.faults.hold(StoreGroup::Apply);
    let running_b = b.engine.start().unwrap();
    until("they share", || async {
        a.engine.owned() + b.engine.owned() == cluster.partitions() && b.engine.owned() > 0
    })
    .await;
    let signs = || {
        let services = a.engine.meters().services();
        services
            .iter()
            .filter(|service| service.name == "own")
            .map(|service| service.runs - service.failures)
            .sum::<u64>()
    };
    let before = signs();
    // Twice the lease and more.
    until("it goes on giving signs of life", || async { signs() >= before + 10 }).await;
    assert!(a.engine.owned() > 0);
    assert_eq!(a.engine.meters().terms_lost_total(), 0, "no lease ended");
    gate.open();
    a.lease_all_of(&b, inserted).await;
    running_a.stop().await;
    running_b.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_at_another_engine_is_definite_and_leaves_no_claim_behind() {
    let cluster = EngineCluster::new();
    let (a, b) = (cluster.node("a", slow_repair()), cluster.node("b", slow_repair()));
    let running = a.engine.start().unwrap();
    until("a has all", || async { a.engine.owned() == cluster.partitions() }).await;
    let places = a.insert(40, 600).await;
    until("all are claimed", || async { a.engine.on_wheel() == 40 }).await;
    for place in &places[..20] {
        let answer = b.engine.cancel(*place, false, "test").await.unwrap();
        assert!(matches!(answer, Cancelled::Cancelled(_)), "{answer:?}");
    }
    let leased = a.lease_all(20).await;
    let expected: HashSet<i64> = places[20..].iter().map(|place| place.id).collect();
    assert_eq!(leased.iter().map(|lease| lease.place.id).collect::<HashSet<_>>(), expected);
    let report = |lease: &Assignment| OutcomeReport {
        place: lease.place,
        fence: lease.fence,
        report: Report::Succeeded,
        result: TaskResult::default(),
    };
    let recorded = a.engine.record_outcomes(leased.iter().map(report).collect(), "test").await.unwrap();
    assert!(recorded.iter().all(|recorded| *recorded == Reported::Accepted));
    running.stop().await;
    let states = cluster.truth.read(&places).await.unwrap().into_iter().flatten().map(|task| task.state);
    let (cancelled, done): (Vec<_>, Vec<_>) = states.partition(|state| *state == State::Cancelled);
    assert_eq!((cancelled.len(), done.len()), (20, 20));
    assert!(done.iter().all(|state| *state == State::Succeeded), "{done:?}");
}

/// An engine has scanned the store, and hangs before it loads the tasks it found. Meanwhile the owner leases
/// one of them ahead of its instant, and it is cancelled through another engine. The load is done after that
/// answer, and no executor gets the task.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_cancelled_does_not_run_although_a_load_of_before_arrives_after_the_answer() {
    let cluster = EngineCluster::new();
    let owner = cluster.node("owner", Options::default());
    let running = owner.engine.start().unwrap();
    until("it owns all", || async { owner.engine.owned() == cluster.partitions() }).await;
    let came = Arc::new(parking_lot::Mutex::new(HashSet::new()));
    let mut executor = JoinSet::new();
    let (its, seen) = (owner.engine.clone(), Arc::clone(&came));
    executor.spawn(async move {
        loop {
            let (executor, queue) = ("test".to_owned(), Arc::new(queue()));
            let request =
                LeaseRequest { queue, max: 100, wait_ms: 500, lease_ms: 60_000, executor, version: None };
            let leased = its.lease(request).await.unwrap();
            seen.lock().extend(leased.into_iter().map(|lease| lease.place.id));
        }
    });
    let mut cancelled = HashSet::new();
    for _ in 0..200 {
        let place = owner.insert(1, 250).await.remove(0);
        let scan = Scan { partition: place.partition, until: Millis::MAX, after: None, limit: 1_000 };
        let found = cluster.truth.scan(scan).await.unwrap();
        let before = found.into_iter().filter(|entry| entry.place.id == place.id).collect::<Vec<_>>();
        assert_eq!(before.len(), 1);
        let task = async || cluster.truth.read(&[place]).await.unwrap().remove(0).unwrap();
        let mut now = task().await;
        while now.state == State::Scheduled {
            a_moment().await;
            now = task().await;
        }
        let is_ahead = now.state == State::Dispatched && now.lease.as_ref().is_some_and(Lease::is_ahead);
        if is_ahead
            && matches!(owner.engine.cancel(place, false, "test").await.unwrap(), Cancelled::Cancelled(_))
        {
            cluster.hot.load(before).await.unwrap();
            cancelled.insert(place.id);
        }
        if cancelled.len() == 5 {
            break;
        }
    }
    assert_eq!(cancelled.len(), 5, "too few were cancelled between their lease and their instant");
    let last = owner.insert(1, 500).await.remove(0);
    until("the last has come", || async { came.lock().contains(&last.id) }).await;
    assert!(cancelled.is_disjoint(&came.lock()), "a task that was cancelled was handed over");
    executor.shutdown().await;
    running.stop().await;
}

/// The store shows all partitions except the first: lost overdue tasks of the others fire.
#[tokio::test]
async fn what_is_overdue_fires_although_one_partition_cannot_be_looked_at() {
    let cluster = EngineCluster::new();
    let store = Arc::new(FaultyStore::new(Arc::clone(&cluster.truth), 1));
    let backends = Backends {
        store: store.clone(),
        hot: cluster.hot.clone(),
        limiter: cluster.limiter.clone(),
        bus: Arc::new(punctual_bus::MemoryBus::default()),
        clock: Arc::new(WallClock),
        blobs: None,
        shared: None,
    };
    let engine = Engine::new(backends, Options { overdue_after_ms: 0, ..Options::default() });
    let running = engine.start().unwrap();
    until("it has looked through its partitions", async || {
        engine.meters().services().iter().any(|service| service.name == "refill" && service.runs > 1)
    })
    .await;
    let now = engine.now();
    let tasks = (0..40).map(|_| NewTask::new(queue(), Name::new("k").unwrap(), now)).collect();
    let inserted = cluster.truth.insert(tasks, "test", now).await.unwrap();
    let hidden = inserted.iter().filter(|stored| stored.task.place.partition == Partition(0)).count();
    assert!(hidden > 0);
    *store.hides_partition.lock() = Some(Partition(0));
    let mut came = 0;
    while came < 40 - hidden {
        let (queue, executor) = (Arc::new(queue()), "test".to_owned());
        let wait_ms = HANG_LIMIT.as_secs() * 1_000;
        let request = LeaseRequest { queue, max: 100, wait_ms, lease_ms: 60_000, executor, version: None };
        let leased = engine.lease(request).await.unwrap();
        assert!(leased.iter().all(|lease| lease.place.partition != Partition(0)));
        came += leased.len();
    }
    running.stop().await;
}

/// The facts that a hand-over needs are in the entry, which passes through the hot set that the engines
/// share.
#[tokio::test]
async fn what_another_engine_has_inserted_is_handed_over_without_a_look() {
    const TASKS: usize = 100;
    let clock = Arc::new(ManualClock::at(Millis(1_700_000_000_000)));
    let cluster = EngineCluster::with_clock(clock.clone());
    let nodes = ["a", "b"].map(|name| cluster.node(name, slow_repair()));
    let [inserts, leases] = &nodes;
    let run_once = async || {
        for node in &nodes {
            node.engine.run_once().await.unwrap();
        }
    };
    until("the partitions are shared", async || {
        clock.advance(Duration::from_millis(500));
        run_once().await;
        let owned = nodes.each_ref().map(|node| node.engine.owned());
        !owned.contains(&0) && owned.iter().sum::<usize>() == cluster.partitions()
    })
    .await;
    inserts.insert(TASKS, 9_000).await;
    run_once().await;
    clock.advance(Duration::from_millis(9_000));
    nodes.iter().for_each(|node| _ = node.store.said());
    let leased = parking_lot::Mutex::new(HashSet::new());
    until("all are handed over", async || {
        run_once().await;
        let more = leases.lease(0).await;
        let mut leased = leased.lock();
        leased.extend(more.iter().map(|lease| lease.place.id));
        leased.len() == TASKS
    })
    .await;
    let said = nodes.each_ref().map(|node| node.store.said());
    let grants = said.map(|said| (said.grants, said.known_grants));
    assert_eq!(grants, [(0, 0), (TASKS, TASKS)]);
}
