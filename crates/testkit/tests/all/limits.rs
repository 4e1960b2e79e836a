//! Limits, rates, handler versions and choices through a whole engine: turned manually under a manual clock, and with
//! executors that crash, on the embedded back ends and on real MySQL and Redis.

use crate::crash_points::{Embedded, Ground, OnServers, Stand, WallClock};
use punctual_bus::MemoryBus;
use punctual_contract::{
    Clock, Limiter, Store,
    limiter::{Held, Member},
    settings::SaveSetting,
    store::{Assignment, Query},
};
use punctual_domain::{
    limits::Scope as LimitScope,
    name::{Name, QueueKey},
    outcome::Report,
    place::TaskRef,
    retry::RetryPolicy,
    settings::{QueueSettings, Rate, Retries, Scope, ScopeSettings, Setting},
    state::State,
    task::{Demands, NewTask, Priority, Task, TaskResult},
    time::Millis,
};
use punctual_engine::{Backends, Engine, LeaseRequest, Options, OutcomeReport, Reported};
use punctual_hot::{MemoryLimiter, NoHot};
use punctual_store::SqliteStore;
use punctual_testkit::{
    clock::ManualClock,
    patience::{HANG_LIMIT, until},
};
use std::{
    collections::{BTreeMap, HashSet},
    pin::{Pin, pin},
    sync::{Arc, Mutex},
    task::Poll,
};
use tokio::{sync::Barrier, task::JoinSet, time::timeout};

mod behind;
mod executors;
mod several;
mod storm;

fn queue() -> QueueKey {
    QueueKey { namespace: Name::default_namespace(), queue: Name::new("mail").unwrap() }
}

fn task(at: Millis) -> NewTask {
    NewTask::new(queue(), Name::new("k").unwrap(), at)
}

fn keyed(at: Millis, key: &str) -> NewTask {
    let demands = Demands { concurrency_key: Some(key.to_owned()), ..Demands::default() };
    NewTask { demands, ..task(at) }
}

fn report(lease: &Assignment, report: Report) -> OutcomeReport {
    OutcomeReport { place: lease.place, fence: lease.fence, report, result: TaskResult::default() }
}

async fn set(engine: &Engine, scope: Scope, setting: Setting) {
    let asked = SaveSetting { scope, setting: Some(setting), expected: None, by: "test".to_owned() };
    engine.save_setting(asked).await.unwrap();
}

pub(crate) async fn set_queue(engine: &Engine, queue: &QueueKey, settings: QueueSettings) {
    set(engine, Scope::Queue(queue.clone()), Setting::Queue(Box::new(settings))).await;
}

/// One embedded engine that is turned manually.
struct LimitsRig {
    clock: ManualClock,
    store: Arc<dyn Store>,
    limiter: Arc<MemoryLimiter>,
    engine: Engine,
}

impl LimitsRig {
    async fn new(settings: QueueSettings) -> Self {
        let clock = ManualClock::at(Millis(1_700_000_000_000));
        let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory(&Default::default()).unwrap());
        let limiter = Arc::new(MemoryLimiter::default());
        let backends = Backends {
            hot: Arc::new(NoHot),
            store: store.clone(),
            limiter: limiter.clone(),
            bus: Arc::new(MemoryBus::default()),
            clock: Arc::new(clock.clone()),
            blobs: None,
            shared: None,
        };
        let rig = Self { engine: Engine::new(backends, Options::default()), clock, store, limiter };
        set_queue(&rig.engine, &queue(), settings).await;
        rig.run_once().await;
        rig
    }

    async fn run_once(&self) {
        self.engine.run_once().await.unwrap();
    }

    async fn pass(&self, ms: u64) {
        self.clock.advance_ms(ms);
        self.run_once().await;
    }

    async fn insert(&self, tasks: Vec<NewTask>) -> Vec<TaskRef> {
        let inserted = self.engine.insert(tasks, "test").await.unwrap();
        self.run_once().await;
        inserted.into_iter().map(|inserted| inserted.task.place).collect()
    }

    async fn lease_as(&self, max: usize, version: Option<&str>) -> Vec<Assignment> {
        let (executor, version) = ("test".to_owned(), version.map(str::to_owned));
        let queue = Arc::new(queue());
        let request = LeaseRequest { queue, max, wait_ms: 0, lease_ms: 20_000, executor, version };
        self.engine.lease(request).await.unwrap()
    }

    async fn lease(&self, max: usize) -> Vec<Assignment> {
        self.lease_as(max, None).await
    }

    async fn end(&self, attempts: &[Assignment], how: Report) {
        let reports = attempts.iter().map(|attempt| report(attempt, how)).collect();
        let recorded = self.engine.record_outcomes(reports, "test").await.unwrap();
        assert!(recorded.iter().all(|recorded| *recorded == Reported::Accepted), "{recorded:?}");
    }

    async fn task(&self, place: TaskRef) -> Task {
        self.engine.read(place).await.unwrap()
    }

    async fn held(&self, scope: LimitScope) -> usize {
        self.limiter.holders(&scope, 0).await.unwrap().count
    }
}

fn now(rig: &LimitsRig) -> Millis {
    rig.clock.now()
}

/// More turns than a call takes to come to where it waits.
const TURNS: usize = 1_000;

async fn poll_once<T>(call: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    let (mut call, mut polled) = (call, None);
    std::future::poll_fn(|context| {
        polled = Some(call.as_mut().poll(context));
        Poll::Ready(())
    })
    .await;
    tokio::task::yield_now().await;
    polled.unwrap()
}

/// It has no answer yet, and has come as far as it can. On one thread.
async fn waits<T>(mut call: Pin<&mut impl Future<Output = T>>) {
    for _ in 0..TURNS {
        assert!(poll_once(call.as_mut()).await.is_pending(), "nothing is there");
    }
}

/// A call that returns while time is stopped was woken: a periodic look cannot have found the task. On one
/// thread.
async fn is_woken<T>(call: impl Future<Output = T>) -> T {
    let (mut call, hangs_at) = (pin!(call), WallClock.now().plus(HANG_LIMIT_MS));
    tokio::time::pause();
    // Never idle: a clock that is paused continues where nothing else can.
    let answer = loop {
        if let Poll::Ready(answer) = poll_once(call.as_mut()).await {
            break answer;
        }
        assert!(WallClock.now() < hangs_at, "no executor was woken");
    };
    tokio::time::resume();
    answer
}

const HANG_LIMIT_MS: i64 = HANG_LIMIT.as_secs().cast_signed() * 1_000;

#[tokio::test]
async fn a_slot_is_free_as_soon_as_an_outcome_a_give_back_or_a_leases_end_says_so() {
    let rig = LimitsRig::new(QueueSettings { concurrency: Some(2), ..QueueSettings::default() }).await;
    rig.insert((0..6).map(|_| task(now(&rig))).collect()).await;
    let first = rig.lease(10).await;
    assert_eq!((first.len(), rig.lease(10).await.len()), (2, 0));
    rig.end(&first[..1], Report::Succeeded).await;
    let second = rig.lease(10).await;
    assert_eq!(second.len(), 1);
    rig.end(&second, Report::Snooze { after_ms: 60_000 }).await;
    assert_eq!(rig.lease(10).await.len(), 1);
    assert_eq!(rig.held(LimitScope::Queue(queue())).await, 2);
    rig.pass(20_001).await;
    assert_eq!(rig.held(LimitScope::Queue(queue())).await, 0, "both leases ended");
}

#[tokio::test]
async fn limits_of_the_namespace_and_of_everything_count_for_all_their_queues() {
    let rig = LimitsRig::new(QueueSettings::default()).await;
    let three = ScopeSettings { concurrency: Some(3), ..ScopeSettings::default() };
    set(&rig.engine, Scope::Namespace(Name::default_namespace()), Setting::Scope(three)).await;
    rig.insert((0..6).map(|_| task(now(&rig))).collect()).await;
    assert_eq!((rig.lease(2).await.len(), rig.lease(9).await.len(), rig.lease(9).await.len()), (2, 1, 0));
    let one = ScopeSettings { concurrency: Some(4), ..ScopeSettings::default() };
    set(&rig.engine, Scope::Namespace(Name::default_namespace()), Setting::Scope(one.clone())).await;
    set(&rig.engine, Scope::Everything, Setting::Scope(one)).await;
    rig.pass(10).await;
    assert_eq!(rig.held(LimitScope::Everything).await, 3, "what ran when the limit was set counts for it");
    assert_eq!((rig.lease(9).await.len(), rig.lease(9).await.len()), (1, 0));
}

#[tokio::test]
async fn a_saturated_key_does_not_hold_up_others_and_its_own_go_on_one_by_one() {
    let rig = LimitsRig::new(QueueSettings { key_concurrency: Some(1), ..QueueSettings::default() }).await;
    rig.insert((0..40).map(|_| keyed(now(&rig), "a")).collect()).await;
    rig.clock.advance_ms(5);
    let others = (0..3).map(|_| keyed(now(&rig), "b")).chain((0..5).map(|_| task(now(&rig))));
    rig.insert(others.collect()).await;
    let first = rig.lease(10).await;
    assert_eq!(first.len(), 7, "one of a, one of b, all five that name none, at one asking");
    assert_eq!(rig.lease(10).await.len(), 0);
    let mut left = first;
    let mut done = 0;
    while !left.is_empty() {
        done += left.len();
        rig.end(&left, Report::Succeeded).await;
        left = rig.lease(10).await;
        assert!(left.len() <= 2, "one of each key at a time");
    }
    assert_eq!(done, 48);
    assert_eq!(rig.limiter.members(Millis::MAX, 0, 9).await.unwrap(), []);
}

#[tokio::test]
async fn a_rate_bounds_the_starts_of_a_queue_and_of_a_key() {
    let rate = Rate { limit: 10, period_ms: 1_000, burst: 2 };
    let key_rate = Rate { limit: 1, period_ms: 1_000, burst: 1 };
    let settings = QueueSettings { rate: Some(rate), key_rate: Some(key_rate), ..QueueSettings::default() };
    let rig = LimitsRig::new(settings).await;
    let of = |nth: i64| if nth % 2 == 0 { keyed(now(&rig), "a") } else { task(now(&rig)) };
    rig.insert((0..60).map(of).collect()).await;
    let (mut started, mut of_key) = (Vec::new(), 0);
    for ms in 0..2_000 {
        for lease in rig.lease(10).await {
            started.push(ms);
            let demands = rig.task(lease.place).await.ask.demands;
            of_key += i32::from(demands.concurrency_key.is_some());
        }
        rig.clock.advance_ms(1);
    }
    assert_eq!(started[..3], [0, 0, 100]);
    assert_eq!(started.len(), 21, "2 at once and 10 a second: {started:?}");
    assert_eq!(of_key, 2, "at 0 and at 1000 ms");
}

#[tokio::test]
async fn a_rate_of_the_namespace_bounds_the_starts_of_all_its_queues_together() {
    let rig = LimitsRig::new(QueueSettings::default()).await;
    let rate = Some(Rate { limit: 10, period_ms: 1_000, burst: 2 });
    let of_namespace = ScopeSettings { rate, ..ScopeSettings::default() };
    set(&rig.engine, Scope::Namespace(Name::default_namespace()), Setting::Scope(of_namespace)).await;
    let sms = QueueKey { queue: Name::new("sms").unwrap(), ..queue() };
    let both = |nth| NewTask { queue: if nth % 2 == 0 { sms.clone() } else { queue() }, ..task(now(&rig)) };
    let places = rig.insert((0..60).map(both).collect()).await;
    let mut started = Vec::new();
    for ms in 0..2_000 {
        for queue in [queue(), sms.clone()] {
            let executor = "test".to_owned();
            let queue = Arc::new(queue);
            let request =
                LeaseRequest { queue, max: 10, wait_ms: 0, lease_ms: 20_000, executor, version: None };
            started.extend(rig.engine.lease(request).await.unwrap().iter().map(|_| ms));
        }
        rig.clock.advance_ms(1);
    }
    assert_eq!(started[..3], [0, 0, 100]);
    assert_eq!(started.len(), 21, "2 at once and 10 a second: {started:?}");
    assert_eq!(rig.lease(10).await.len(), 1, "what has come since");
    let (waiting, why) = rig.engine.why(*places.last().unwrap()).await.unwrap();
    assert!(waiting.state.is_waiting(), "{waiting:?}");
    assert_eq!(why.blocking, Some("rate"), "{why:?}");
    assert!(why.reason.contains("namespace \"default\""), "{why:?}");
}

#[tokio::test]
async fn a_task_waits_for_an_executor_with_a_version_that_it_demands_and_spends_no_attempt() {
    let rig = LimitsRig::new(QueueSettings::default()).await;
    let demands = Demands { handler_versions: Some(">=2, <3".to_owned()), ..Demands::default() };
    let demanding = rig.insert(vec![NewTask { demands, ..task(now(&rig)) }]).await[0];
    rig.clock.advance_ms(1);
    rig.insert(vec![task(now(&rig))]).await;
    assert_eq!(rig.lease(1).await.len(), 1, "it stands in nobody's way");
    for version in [None, Some("1.9"), Some("3"), Some("nonsense")] {
        assert_eq!(rig.lease_as(9, version).await, [], "{version:?}");
    }
    let (waiting, why) = rig.engine.why(demanding).await.unwrap();
    assert_eq!((waiting.attempt, why.blocking), (0, Some("version")), "{why:?}");
    assert!(why.reason.contains(">=2, <3") && why.reason.contains("1.9"), "{why:?}");
    rig.pass(60_000).await;
    let leased = rig.lease_as(9, Some("2.4")).await;
    assert_eq!((leased.len(), leased[0].place.id, leased[0].attempt), (1, demanding.id, 1));
}

#[tokio::test]
async fn what_waits_too_long_is_dead_without_anyone_asking() {
    let rig =
        LimitsRig::new(QueueSettings { pending_timeout_ms: Some(30_000), ..QueueSettings::default() }).await;
    let pending = rig.insert(vec![task(now(&rig))]).await[0];
    let deadline = rig.insert(vec![NewTask { deadline_ms: Some(5_000), ..task(now(&rig)) }]).await[0];
    rig.pass(4_500).await;
    assert!(rig.task(deadline).await.state.is_waiting());
    rig.pass(1_000).await;
    let dead = rig.task(deadline).await;
    assert_eq!(dead.state, State::Dead);
    assert_eq!(dead.history.last().unwrap().reason.as_deref(), Some("deadline"));
    assert!(rig.task(pending).await.state.is_waiting());
    rig.pass(25_000).await;
    let dead = rig.task(pending).await;
    assert_eq!((dead.state, dead.attempt), (State::Dead, 0));
    assert_eq!(dead.history.last().unwrap().reason.as_deref(), Some("pending_timeout"));
}

#[tokio::test]
async fn why_says_which_limit_and_who_holds_it() {
    let rate = Rate { limit: 1, period_ms: 60_000, burst: 2 };
    let settings = QueueSettings { concurrency: Some(1), rate: Some(rate), ..QueueSettings::default() };
    let rig = LimitsRig::new(settings).await;
    let places = rig.insert((0..4).map(|_| task(now(&rig))).collect()).await;
    let first = rig.lease(9).await;
    let waiting = places.iter().find(|place| place.id != first[0].place.id).copied().unwrap();
    let (_, why) = rig.engine.why(waiting).await.unwrap();
    assert_eq!(why.blocking, Some("limit"), "{why:?}");
    assert!(why.reason.contains("queue \"mail\"") && why.reason.contains("\"test\""), "{why:?}");
    rig.end(&first, Report::Succeeded).await;
    let second = rig.lease(9).await;
    rig.end(&second, Report::Succeeded).await;
    let waiting =
        places.iter().find(|place| ![first[0].place.id, second[0].place.id].contains(&place.id)).unwrap();
    let (_, why) = rig.engine.why(*waiting).await.unwrap();
    assert_eq!((why.blocking, why.expected_at), (Some("rate"), Some(now(&rig).plus(60_000))), "{why:?}");
}

/// Of 3,000 tasks handed over while all priorities wait, four of five are of the highest and one of the lowest.
#[tokio::test]
async fn under_a_flood_each_priority_gets_the_share_that_is_set() {
    let rig = LimitsRig::new(QueueSettings::default()).await;
    let of = |level: u8| NewTask { priority: Priority::new(level).unwrap(), ..task(now(&rig)) };
    for _ in 0..6 {
        rig.insert((0..1_000).map(|nth| of(if nth % 3 == 0 { 5 } else { 1 })).collect()).await;
    }
    let mut shares = BTreeMap::<u8, usize>::new();
    for _ in 0..30 {
        for lease in rig.lease(100).await {
            *shares.entry(lease.priority.level()).or_default() += 1;
        }
    }
    let share = |level: u8| shares.get(&level).copied().unwrap_or(0);
    assert_eq!(share(1) + share(5), 3_000);
    assert!(
        share(1).abs_diff(2_400) <= 120,
        "within 4 points, which is five times the deviation: {shares:?}"
    );
}

/// 1,000 tasks fail and are retried again and again, while new work is inserted at half of the executors'
/// capacity.
#[tokio::test]
async fn a_storm_of_retries_with_a_share_of_its_own_does_not_delay_new_work() {
    let retries = Retries { share_percent: Some(20), ..Retries::default() };
    let rig = LimitsRig::new(QueueSettings { retries, ..QueueSettings::default() }).await;
    let retry = RetryPolicy::Exponential { delay_ms: 100, factor: 2.0, max_delay_ms: 2_000, jitter: 0.5 };
    let bad = |_| NewTask { retry: retry.clone(), max_attempts: 50, ..task(now(&rig)) };
    let mut failing = HashSet::new();
    for _ in 0..2 {
        failing.extend(rig.insert((0..500).map(bad).collect()).await.into_iter().map(|task| task.id));
    }
    while let first = rig.lease(1_000).await
        && !first.is_empty()
    {
        rig.end(&first, Report::Failed { after_ms: None }).await;
    }
    let (mut behind, mut new_done, mut tried_again) = (0, 0, 0);
    for _ in 0..150 {
        rig.insert((0..10).map(|_| task(now(&rig))).collect()).await;
        rig.pass(20).await;
        let leased = rig.lease(20).await;
        let (again, new): (Vec<_>, Vec<_>) =
            leased.into_iter().partition(|lease| failing.contains(&lease.place.id));
        // Two steps of the manual clock.
        behind += new.iter().filter(|task| task.due_at.plus(40) < now(&rig)).count();
        (new_done, tried_again) = (new_done + new.len(), tried_again + again.len());
        rig.end(&again, Report::Failed { after_ms: None }).await;
        rig.end(&new, Report::Succeeded).await;
    }
    assert_eq!(new_done, 150 * 10);
    assert_eq!(behind, 0, "new tasks waited behind retries");
    assert!(tried_again >= 150 * 4, "retries have their share: {tried_again}");
}

/// What executors do at the same time, by their own clocks.
#[derive(Debug, Default)]
struct SlotWatch {
    running: HashSet<(i64, i64)>,
    most: usize,
    done: HashSet<i64>,
}

const LIMIT: u32 = 10;

/// One of the executors that share a limit.
struct Executor {
    engine: Engine,
    watch: Arc<Mutex<SlotWatch>>,
    name: String,
}

impl Executor {
    async fn lease(&self, lease_ms: i64) -> Vec<Assignment> {
        let (queue, executor) = (Arc::new(queue()), self.name.clone());
        let request = LeaseRequest { queue, max: 4, wait_ms: 300, lease_ms, executor, version: None };
        let leased = self.engine.lease(request).await.unwrap_or_default();
        let mut watch = self.watch.lock().unwrap();
        watch.running.extend(leased.iter().map(|lease| (lease.place.id, lease.fence)));
        watch.most = watch.most.max(watch.running.len());
        leased
    }

    fn stop(&self, leased: &[Assignment]) {
        let mut watch = self.watch.lock().unwrap();
        leased.iter().for_each(|lease| assert!(watch.running.remove(&(lease.place.id, lease.fence))));
    }

    async fn succeed(&self, leased: &[Assignment]) {
        let reports = leased.iter().map(|lease| report(lease, Report::Succeeded)).collect();
        let recorded = self.engine.record_outcomes(reports, "test").await.unwrap_or_default();
        let accepted = leased.iter().zip(recorded).filter(|pair| pair.1 == Reported::Accepted);
        self.watch.lock().unwrap().done.extend(accepted.map(|pair| pair.0.place.id));
    }

    /// All executors together take as many tasks as the limit allows, and keep them until each executor has
    /// asked for more.
    async fn fill(&self, full: &Barrier) {
        let mut held = Vec::new();
        while self.watch.lock().unwrap().running.len() < usize::try_from(LIMIT).unwrap() {
            held.extend(self.lease(60_000).await);
        }
        held.extend(self.lease(60_000).await);
        full.wait().await;
        self.stop(&held);
        self.succeed(&held).await;
    }

    /// Takes tasks, works for a moment on each, and now and then forgets all it has, as one that is killed does.
    async fn run(self, tasks: usize, seed: u64, full: Arc<Barrier>) {
        self.fill(&full).await;
        let mut rng = fastrand::Rng::with_seed(seed);
        while self.watch.lock().unwrap().done.len() < tasks {
            let leased = self.lease(1_200).await;
            for _ in 0..rng.u32(0..300) {
                tokio::task::yield_now().await;
            }
            self.stop(&leased);
            if rng.u8(..12) != 0 {
                self.succeed(&leased).await;
            }
        }
    }
}

async fn never_above(ground: Arc<dyn Ground>, engines: usize, tasks: usize) {
    let mut all = Vec::new();
    let mut limiter = None;
    for nth in 0..engines {
        let Stand { store, hot, limiter: its, bus, shared } = ground.stand().await;
        limiter = Some(its.clone());
        let backends =
            Backends { store, hot, limiter: its, bus, clock: Arc::new(WallClock), blobs: None, shared };
        let engine = Engine::new(backends, Options { name: format!("n{nth}"), ..Options::default() });
        if nth == 0 {
            let limited = QueueSettings { concurrency: Some(LIMIT), ..QueueSettings::default() };
            set_queue(&engine, &queue(), limited).await;
        }
        let running = engine.start().unwrap();
        all.push((engine, running));
    }
    let engine = &all[0].0;
    let patient = RetryPolicy::Fixed { delay_ms: 0 };
    for _ in 0..tasks / 100 {
        let new = |_| NewTask { max_attempts: 1_000, retry: patient.clone(), ..task(engine.now()) };
        engine.insert((0..100).map(new).collect(), "test").await.unwrap();
    }
    let watch = Arc::new(Mutex::new(SlotWatch::default()));
    let (mut executors, full) = (JoinSet::new(), Arc::new(Barrier::new(4)));
    for seed in 0..4_u64 {
        let engine = all[usize::try_from(seed).unwrap() % engines].0.clone();
        let executor = Executor { engine, watch: watch.clone(), name: format!("e{seed}") };
        executors.spawn(executor.run(tasks, seed, full.clone()));
    }
    while let Some(ended) = timeout(HANG_LIMIT, executors.join_next()).await.expect("all finish") {
        ended.unwrap();
    }
    let most = watch.lock().unwrap().most;
    assert_eq!(most, usize::try_from(LIMIT).unwrap(), "the limit is reached and never passed");
    let query = Query { state: Some(State::Succeeded), limit: 2 * tasks, ..Query::default() };
    assert_eq!(engine.list(&query).await.unwrap().tasks.len(), tasks);
    let limiter = limiter.unwrap();
    until("slots are back to 0, by the reconciler at the latest", || async {
        let late = LeaseRequest {
            queue: Arc::new(queue()),
            max: 1,
            wait_ms: 100,
            lease_ms: 1_000,
            executor: "late".to_owned(),
            version: None,
        };
        assert!(engine.lease(late).await.unwrap().is_empty(), "all have finished");
        limiter.holders(&LimitScope::Queue(queue()), 0).await.unwrap().count == 0
    })
    .await;
    for (_, running) in all {
        running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn never_more_in_flight_than_the_limit_while_executors_crash_embedded() {
    never_above(Embedded::ground().await, 1, 300).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn never_more_in_flight_than_the_limit_while_executors_crash_on_servers() {
    never_above(OnServers::ground().await, 2, 300).await;
}

/// The limiter is flushed while tasks run: nothing starts until it has been rebuilt from the leases, and no limit breaks.
#[tokio::test]
async fn a_limiter_that_lost_its_members_is_rebuilt_from_the_leases() {
    let rig = LimitsRig::new(QueueSettings { concurrency: Some(3), ..QueueSettings::default() }).await;
    rig.insert((0..6).map(|_| task(now(&rig))).collect()).await;
    let running = rig.lease(2).await;
    assert_eq!(running.len(), 2);
    // The same store, and a limiter that knows nothing: another process.
    let limiter = Arc::new(MemoryLimiter::default());
    let backends = Backends {
        hot: Arc::new(NoHot),
        store: rig.store.clone(),
        limiter: limiter.clone(),
        bus: Arc::new(MemoryBus::default()),
        clock: Arc::new(rig.clock.clone()),
        blobs: None,
        shared: None,
    };
    let rig = LimitsRig { engine: Engine::new(backends, Options::default()), limiter, ..rig };
    assert_eq!(rig.lease(9).await, [], "not before it is whole");
    rig.run_once().await;
    assert_eq!(rig.held(LimitScope::Queue(queue())).await, 2);
    assert_eq!(rig.lease(9).await.len(), 1);
    rig.end(&running, Report::Succeeded).await;
    assert_eq!(rig.lease(9).await.len(), 2);
}

/// A granted slot whose engine died before the lease is freed by the reconciler, and not while the lease may still come.
#[tokio::test]
async fn a_slot_that_no_lease_follows_is_freed_and_not_too_soon() {
    let rig = LimitsRig::new(QueueSettings { concurrency: Some(1), ..QueueSettings::default() }).await;
    let place = rig.insert(vec![task(now(&rig)), task(now(&rig))]).await[0];
    let ghost = Held {
        member: Member { id: place.id, fence: 77 },
        place,
        granted_at: now(&rig),
        until: now(&rig),
        scopes: vec![LimitScope::Queue(queue())],
    };
    rig.limiter.restore(vec![ghost]).await.unwrap();
    rig.pass(9_000).await;
    assert_eq!(rig.held(LimitScope::Queue(queue())).await, 1, "its engine may be about to commit");
    rig.pass(2_000).await;
    assert_eq!(rig.held(LimitScope::Queue(queue())).await, 0);
    assert_eq!(rig.lease(9).await.len(), 1);
}

/// An attempt has ended and its slot was not given up: no lease with its fence can come any more, so nothing is waited for.
#[tokio::test]
async fn a_slot_of_an_attempt_that_has_ended_is_freed_at_the_next_look_at_it() {
    let rig = LimitsRig::new(QueueSettings { concurrency: Some(1), ..QueueSettings::default() }).await;
    rig.insert(vec![task(now(&rig)), task(now(&rig))]).await;
    let first = rig.lease(1).await;
    let member = Member { id: first[0].place.id, fence: first[0].fence };
    let left = rig.limiter.find(&[member]).await.unwrap();
    rig.end(&first, Report::Succeeded).await;
    let until = now(&rig);
    rig.limiter.restore(left.into_iter().map(|held| Held { until, ..held }).collect()).await.unwrap();
    assert_eq!(rig.held(LimitScope::Queue(queue())).await, 1);
    rig.run_once().await;
    assert_eq!(rig.held(LimitScope::Queue(queue())).await, 0);
    assert_eq!(rig.lease(9).await.len(), 1);
}
