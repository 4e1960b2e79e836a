//! Queues whose due tasks are scanned for in the store (F1): engines that are turned manually, on SQLite and the hot set in memory.
//! On MySQL, with Redis and without: `outages::scanned`.

mod watched;

use crate::{limits::set_queue, stored_limiter::in_memory};
use punctual_bus::MemoryBus;
use punctual_contract::{Clock as _, Hot, Limiter, Store, store::Assignment};
use punctual_domain::{
    name::{Name, QueueKey},
    outcome::Report,
    place::TaskRef,
    settings::{QueueSettings, Source},
    state::State,
    task::{NewTask, Task, TaskResult},
    time::Millis,
};
use punctual_engine::{
    AlertKind, Backends, Cancelled, Engine, LeaseRequest, ManualScanResult, Options, OutcomeReport, Reported,
    SharedBackends,
};
use punctual_hot::MemoryLimiter;
use punctual_store::SqliteStore;
use punctual_testkit::{
    clock::ManualClock,
    faults::{Dials, FaultyStore, StoreGroup},
    shared::{MemoryOwnership, SharedHot, SignalHub},
};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};
use watched::{Calls, WatchedHot, WatchedLimiter};

const HOUR_MS: i64 = 3_600_000;
const LEASE_MS: i64 = 20_000;
/// More than an engine that is new needs to own all, and than the limiter needs to be whole.
const TURNS: usize = 12;
const TURN_MS: u64 = 500;

fn queue() -> QueueKey {
    QueueKey { namespace: Name::default_namespace(), queue: Name::new("unfreeze").unwrap() }
}

fn scanned(interval_ms: i64, most: u32) -> QueueSettings {
    QueueSettings {
        source: Some(Source::Store),
        scan_interval_ms: Some(interval_ms),
        scan_concurrency: Some(most),
        ..QueueSettings::default()
    }
}

/// What engines share. Their hot set and the limiter beside it write down the caller for them.
struct ScanSite {
    clock: ManualClock,
    truth: Arc<dyn Store>,
    hot: Arc<dyn Hot>,
    limiter: Arc<dyn Limiter>,
    stored_limiter: Arc<dyn Limiter>,
    ownership: Arc<MemoryOwnership>,
    signals: SignalHub,
    calls: Calls,
    nodes: Vec<ScanNode>,
}

struct ScanNode {
    store: Arc<FaultyStore>,
    engine: Engine,
}

impl ScanSite {
    async fn new(engines: &[&str], settings: QueueSettings) -> Self {
        let clock = ManualClock::at(Millis(1_700_000_000_000));
        let options = punctual_store::sqlite::Options { partitions: 4, ..Default::default() };
        let truth: Arc<dyn Store> = Arc::new(SqliteStore::in_memory(&options).unwrap());
        let calls = Calls::default();
        let hot = Arc::new(SharedHot::new(truth.partitions()));
        let limiter = Arc::new(MemoryLimiter::default());
        let mut site = Self {
            ownership: Arc::new(MemoryOwnership::new(Arc::new(clock.clone()))),
            hot: Arc::new(WatchedHot { inner: hot, calls: calls.clone() }),
            limiter: Arc::new(WatchedLimiter { inner: limiter, calls: calls.clone() }),
            stored_limiter: in_memory().await,
            signals: SignalHub::default(),
            nodes: Vec::new(),
            clock,
            truth,
            calls,
        };
        for name in engines {
            site.begin(name);
        }
        set_queue(&site.nodes[0].engine, &queue(), settings).await;
        site.turns(TURNS).await;
        site
    }

    fn begin(&mut self, name: &str) {
        let store = Arc::new(FaultyStore::new(Arc::clone(&self.truth), 1));
        let shared = SharedBackends {
            ownership: self.ownership.clone(),
            signals: self.signals.join(),
            stored_limiter: Some(Arc::clone(&self.stored_limiter)),
        };
        let backends = Backends {
            store: store.clone(),
            hot: self.hot.clone(),
            limiter: self.limiter.clone(),
            bus: Arc::new(MemoryBus::default()),
            clock: Arc::new(self.clock.clone()),
            blobs: None,
            shared: Some(shared),
        };
        let engine = Engine::new(backends, Options { name: name.to_owned(), ..Options::default() });
        self.nodes.push(ScanNode { store, engine });
    }

    fn engine(&self) -> &Engine {
        &self.nodes[0].engine
    }

    fn now(&self) -> Millis {
        self.clock.now()
    }

    /// What a store refuses is part of some tests.
    async fn run_once(&self) {
        for node in &self.nodes {
            drop(node.engine.run_once().await);
        }
    }

    async fn turns(&self, count: usize) {
        for _ in 0..count {
            self.clock.advance_ms(TURN_MS);
            self.run_once().await;
        }
    }

    async fn pass(&self, ms: i64) {
        self.clock.advance_ms(u64::try_from(ms).unwrap());
        self.run_once().await;
    }

    async fn insert(&self, after_ms: impl IntoIterator<Item = i64>) -> Vec<TaskRef> {
        let task = |ms| NewTask::new(queue(), Name::new("k").unwrap(), self.now().plus(ms));
        let inserted = self.engine().insert(after_ms.into_iter().map(task).collect(), "test").await.unwrap();
        inserted.into_iter().map(|inserted| inserted.task.place).collect()
    }

    async fn manual(&self) -> ManualScanResult {
        self.engine().scan_queue(queue()).await.unwrap().unwrap()
    }

    async fn state(&self, place: TaskRef) -> State {
        self.task(place).await.state
    }

    async fn task(&self, place: TaskRef) -> Task {
        self.engine().read(place).await.unwrap()
    }

    async fn alerts(&self) -> Vec<(AlertKind, String)> {
        self.engine().look_for_alerts().await.unwrap();
        let alerts = self.engine().alerts().await.unwrap();
        alerts.into_iter().map(|alert| (alert.kind, alert.text)).collect()
    }
}

async fn lease(engine: &Engine, max: usize) -> Vec<Assignment> {
    let (queue, executor) = (Arc::new(queue()), "test".to_owned());
    let request = LeaseRequest { queue, max, wait_ms: 0, lease_ms: LEASE_MS, executor, version: None };
    engine.lease(request).await.unwrap()
}

async fn end(engine: &Engine, leased: &[Assignment], report: Report) {
    let report = |lease: &Assignment| OutcomeReport {
        place: lease.place,
        fence: lease.fence,
        report,
        result: TaskResult::default(),
    };
    let recorded = engine.record_outcomes(leased.iter().map(report).collect(), "test").await.unwrap();
    assert!(recorded.iter().all(|recorded| *recorded == Reported::Accepted), "{recorded:?}");
}

/// A whole life of tasks: inserted near and far, overdue, failed and retried, cancelled, returned; and read.
#[tokio::test]
async fn nothing_of_a_queue_that_is_scanned_comes_to_the_hot_set_or_its_limiter() {
    let site = ScanSite::new(&["a", "b"], scanned(1_000, 3)).await;
    site.calls.take();
    let places = site.insert([-60_000, 0, 400, 700, 5_000, 30_000, 1_800_000]).await;
    site.turns(TURNS).await;
    assert_eq!(site.engine().on_wheel() + site.nodes[1].engine.on_wheel(), 0, "no table waits for them");
    let (mut attempts, mut has_failed) = (0, false);
    for _ in 0..40 {
        for node in &site.nodes {
            let leased = lease(&node.engine, 2).await;
            attempts += leased.len();
            let how = if has_failed { Report::Succeeded } else { Report::Failed { after_ms: Some(2_000) } };
            has_failed |= !leased.is_empty();
            end(&node.engine, &leased, how).await;
        }
        site.turns(4).await;
    }
    let cancelled = site.engine().cancel(places[6], false, "test").await.unwrap();
    assert!(matches!(cancelled, Cancelled::Cancelled(_)), "{cancelled:?}");
    let slots = site.engine().slots().await.unwrap();
    assert_eq!(slots.iter().map(|slots| (slots.held, slots.most)).collect::<Vec<_>>(), [(0, 3)]);
    assert_eq!(site.engine().parked(&queue(), 9).await.unwrap(), []);
    drop(site.engine().why(places[0]).await.unwrap());
    for place in &places[..6] {
        assert_eq!(site.state(*place).await, State::Succeeded);
    }
    assert!(attempts > 6, "one was tried again");
    assert_eq!(site.calls.take(), [""; 0]);
}

#[tokio::test]
async fn a_scan_by_hand_answers_what_it_found_and_executors_have_so_many_at_a_time() {
    let site = ScanSite::new(&["a", "b", "c"], scanned(HOUR_MS, 2)).await;
    let places = site.insert([0, 1, 2, 3, 4, 60_000]).await;
    site.turns(TURNS).await;
    for place in &places[..5] {
        assert_eq!(site.state(*place).await, State::Scheduled, "the next scan is in an hour");
    }
    let report = site.manual().await;
    assert_eq!((report.found, report.handed_over, report.failed), (5, 5, 0));
    assert!(report.is_complete);
    assert_eq!((site.manual().await.found, site.manual().await.handed_over), (5, 0), "they wait");
    let mut order = Vec::new();
    for _ in 0..5 {
        // Wherever they are asked for.
        site.turns(4).await;
        let mut leased = Vec::new();
        for node in site.nodes.iter().rev() {
            leased.extend(lease(&node.engine, 9).await);
        }
        assert!(leased.len() <= 2, "{leased:?}");
        order.extend(leased.iter().map(|lease| lease.place.id));
        end(site.engine(), &leased, Report::Succeeded).await;
    }
    assert_eq!(order.len(), 5);
    let first: Vec<i64> = places[..5].iter().map(|place| place.id).collect();
    assert_eq!(order.iter().collect::<HashSet<_>>(), first.iter().collect::<HashSet<_>>());
    let task = site.task(places[0]).await;
    assert!(
        task.fired_at.is_some_and(|fired_at| fired_at.since(task.due_at) > 5_000),
        "its lateness is known"
    );
    let other = QueueKey { queue: Name::new("other").unwrap(), ..queue() };
    assert_eq!(site.engine().scan_queue(other).await.unwrap(), None, "it is not scanned");
}

/// The engine does not wait once per partition for a database that hangs, and the operator who started the
/// scan learns what to do.
#[tokio::test]
async fn a_scan_by_hand_ends_with_what_to_do_while_the_database_hangs() {
    let site = ScanSite::new(&["a"], scanned(HOUR_MS, 9)).await;
    let places = site.insert([0, 1]).await;
    site.pass(500).await;
    let gate = site.nodes[0].store.faults.hold(StoreGroup::Scan);
    let hung = site.engine().scan_queue(queue()).await.unwrap_err().to_string();
    assert!(hung.contains("punctual doctor") && hung.contains("scan again"), "{hung}");
    assert_eq!(gate.came(), 1, "the other partitions are not asked while it hangs");
    gate.open();
    assert_eq!(site.manual().await.found, 2);
    assert_eq!(site.state(places[0]).await, State::Ready);
}

#[tokio::test]
async fn one_engine_leases_in_the_order_of_time() {
    let site = ScanSite::new(&["a"], scanned(HOUR_MS, 1)).await;
    let places = site.insert([40, 10, 30, 0, 20]).await;
    site.turns(1).await;
    site.manual().await;
    let mut order = Vec::new();
    for _ in 0..5 {
        let leased = lease(site.engine(), 9).await;
        order.extend(leased.iter().map(|lease| lease.place.id));
        end(site.engine(), &leased, Report::Succeeded).await;
    }
    assert_eq!(order, [3, 1, 4, 2, 0].map(|nth: usize| places[nth].id));
}

#[tokio::test]
async fn a_task_in_front_that_cannot_be_written_keeps_no_other_waiting() {
    let site = ScanSite::new(&["a"], scanned(HOUR_MS, 9)).await;
    let places = site.insert([0, 1, 2]).await;
    site.pass(500).await;
    site.nodes[0].store.faults.set_once(StoreGroup::Apply, Dials::REFUSES);
    let report = site.manual().await;
    assert_eq!((report.found, report.handed_over, report.failed), (3, 2, 1));
    assert!(!report.is_complete);
    assert_eq!(site.state(places[0]).await, State::Scheduled);
    let report = site.manual().await;
    assert_eq!((report.found, report.handed_over, report.failed), (3, 1, 0));
    // Nor one whose lease fails; whether or not that can be known.
    for dials in [Dials::REFUSES, Dials::SILENT] {
        site.nodes[0].store.faults.set_once(StoreGroup::Dispatch, dials);
        let leased = lease(site.engine(), 1).await;
        assert_eq!(leased.len(), 1, "the next one has its place");
        end(site.engine(), &leased, Report::Succeeded).await;
        site.turns(TURNS).await;
    }
    let last = lease(site.engine(), 9).await;
    assert_eq!(last.iter().map(|lease| lease.place.id).collect::<Vec<_>>(), [places[0].id]);
}

#[tokio::test]
async fn three_scans_that_fail_in_a_row_are_an_alert_and_so_is_a_task_that_is_later_than_its_budget() {
    let site = ScanSite::new(&["a"], scanned(1_000, 2)).await;
    let place = site.insert([0]).await[0];
    let faults = &site.nodes[0].store.faults;
    let is_failing =
        |alerts: &[(AlertKind, String)]| alerts.iter().any(|(kind, _)| *kind == AlertKind::ScanFailing);
    let is_late =
        |alerts: &[(AlertKind, String)]| alerts.iter().any(|(kind, _)| *kind == AlertKind::LateTasks);
    faults.set(StoreGroup::Apply, Dials::REFUSES);
    for nth in 1..=3 {
        assert!(!is_failing(&site.alerts().await), "before scan {nth}");
        site.pass(1_000).await;
    }
    let alerts = site.alerts().await;
    assert!(is_failing(&alerts) && !is_late(&alerts), "{alerts:?}");
    site.pass(600_000).await;
    let alerts = site.alerts().await;
    assert!(is_late(&alerts), "ten minutes are its budget: {alerts:?}");
    faults.heal();
    site.turns(TURNS).await;
    site.pass(15_000).await;
    let alerts = site.alerts().await;
    assert!(!is_failing(&alerts), "{alerts:?}");
    assert!(is_late(&alerts), "it has fired late: {alerts:?}");
    assert_eq!(lease(site.engine(), 1).await[0].place.id, place.id);
    let numbers = site.engine().meters().queue_numbers(&queue()).unwrap();
    assert_eq!((numbers.fired, numbers.over_budget), (1, 1));
}

/// The rows show that a scan was missed, whichever engine should have made it; but not before the queue's
/// budget is over.
#[tokio::test]
async fn a_task_that_no_scan_finds_is_overdue_only_after_its_budget() {
    let site =
        ScanSite::new(&["a"], QueueSettings { lateness_budget_ms: Some(120_000), ..scanned(HOUR_MS, 2) })
            .await;
    site.insert([0]).await;
    site.turns(4).await;
    let is_overdue = async || site.alerts().await.iter().any(|(kind, _)| *kind == AlertKind::OverdueNotFired);
    for _ in 0..8 {
        site.pass(12_000).await;
    }
    assert!(!is_overdue().await);
    for _ in 0..8 {
        site.pass(12_000).await;
    }
    assert!(is_overdue().await);
}

/// The engine has made all ready and has leased one when it dies.
#[tokio::test]
async fn what_an_engine_that_dies_has_found_another_one_hands_over() {
    let mut site = ScanSite::new(&["a"], scanned(HOUR_MS, 2)).await;
    let places = site.insert([0, 1, 2, 3]).await;
    site.pass(100).await;
    assert_eq!(site.manual().await.handed_over, 4);
    let leased = lease(site.engine(), 1).await;
    assert_eq!(leased.len(), 1);
    drop(site.nodes.pop());
    site.begin("b");
    let mut came: HashMap<i64, u32> = HashMap::new();
    for _ in 0..80 {
        site.turns(2).await;
        let leased = lease(site.engine(), 9).await;
        assert!(leased.len() <= 2);
        came.extend(leased.iter().map(|lease| (lease.place.id, lease.attempt)));
        end(site.engine(), &leased, Report::Succeeded).await;
        site.manual().await;
    }
    assert_eq!(came.len(), places.len());
    assert_eq!(came[&leased[0].place.id], 2, "its lease has ended, and spent an attempt");
    assert_eq!(came.values().filter(|attempt| **attempt == 1).count(), 3);
}

/// Tasks at every point of their way while the source changes, with turns of the engines between, and executors at all of them.
#[tokio::test]
async fn a_change_of_the_source_loses_and_doubles_nothing() {
    for seed in 0..30 {
        let mut random = fastrand::Rng::with_seed(seed);
        let site = ScanSite::new(&["a", "b", "c"], QueueSettings::default()).await;
        let (mut inserted, mut accepted) = (HashSet::new(), HashMap::<i64, usize>::new());
        let mut held: Vec<(usize, Assignment)> = Vec::new();
        for step in 0..200 {
            match random.u8(0..8) {
                0 | 1 if step < 120 => {
                    let ms: Vec<i64> = (0..random.usize(1..4)).map(|_| random.i64(-500..15_000)).collect();
                    inserted.extend(site.insert(ms).await.iter().map(|place| place.id));
                }
                2 if step < 150 => {
                    let settings = if random.bool() {
                        scanned(1_000, random.u32(1..5))
                    } else {
                        QueueSettings::default()
                    };
                    set_queue(&site.nodes[random.usize(0..3)].engine, &queue(), settings).await;
                }
                3 | 4 => {
                    let nth = random.usize(0..3);
                    held.extend(
                        lease(&site.nodes[nth].engine, 4).await.into_iter().map(|lease| (nth, lease)),
                    );
                }
                5 | 6 => {
                    for (nth, lease) in held.drain(..) {
                        assert!(lease.fired_at >= lease.due_at, "never early");
                        *accepted.entry(lease.place.id).or_default() += 1;
                        end(&site.nodes[nth].engine, &[lease], Report::Succeeded).await;
                    }
                }
                // One that is slow to learn of it.
                _ => {
                    site.clock.advance_ms(random.u64(50..400));
                    let nth = random.usize(0..3);
                    drop(site.nodes[nth].engine.run_once().await);
                }
            }
        }
        for _ in 0..400 {
            site.turns(1).await;
            for (nth, node) in site.nodes.iter().enumerate() {
                held.extend(lease(&node.engine, 9).await.into_iter().map(|lease| (nth, lease)));
            }
            for (nth, lease) in held.drain(..) {
                *accepted.entry(lease.place.id).or_default() += 1;
                end(&site.nodes[nth].engine, &[lease], Report::Succeeded).await;
            }
            if accepted.len() == inserted.len() {
                break;
            }
        }
        assert_eq!(accepted.len(), inserted.len(), "seed {seed}: some were lost");
        assert!(accepted.values().all(|times| *times == 1), "seed {seed}: some ran twice");
    }
}

/// Back in the hot set, all that is due within its horizon fires at its instant, whichever engine has inserted it.
#[tokio::test]
async fn what_was_inserted_while_its_queue_was_scanned_fires_on_time_when_it_is_scanned_no_more() {
    let site = ScanSite::new(&["a", "b"], scanned(1_000, 2)).await;
    let places = site.insert([20_000, 40_000, 600_000]).await;
    site.turns(4).await;
    assert_eq!(site.calls.take(), [""; 0]);
    set_queue(site.engine(), &queue(), QueueSettings::default()).await;
    site.turns(TURNS).await;
    assert!(site.calls.take().contains(&"load".to_owned()), "they are loaded");
    for (place, after_ms) in places.iter().zip([20_000, 40_000, 600_000]) {
        let due_at = site.task(*place).await.due_at;
        site.clock.set(due_at.plus(-900));
        site.run_once().await;
        site.clock.set(due_at);
        site.run_once().await;
        let mut leased = Vec::new();
        for node in &site.nodes {
            leased.extend(lease(&node.engine, 9).await);
        }
        assert_eq!(leased.len(), 1, "after {after_ms} ms");
        assert_eq!((leased[0].place.id, leased[0].fired_at), (place.id, due_at));
        end(site.engine(), &leased, Report::Succeeded).await;
    }
}

#[tokio::test]
async fn why_says_that_a_queue_is_scanned_and_when() {
    let site = ScanSite::new(&["a"], scanned(HOUR_MS, 1)).await;
    let places = site.insert([0, 1, 60_000]).await;
    site.turns(2).await;
    let (_, why) = site.engine().why(places[0]).await.unwrap();
    assert_eq!(why.blocking, Some("scan"));
    assert!(why.reason.contains("scanned every"), "{}", why.reason);
    assert!(why.expected_at.is_some_and(|at| at > site.now()), "the next scan is ahead");
    let (_, why) = site.engine().why(places[2]).await.unwrap();
    assert_eq!(why.blocking, Some("time"));
    site.manual().await;
    assert_eq!(lease(site.engine(), 1).await.len(), 1);
    let (_, why) = site.engine().why(places[1]).await.unwrap();
    assert_eq!(why.blocking, Some("limit"), "{}", why.reason);
}
