//! Fair shares of limits that namespaces, or queues of one, have together: one that floods takes nothing of the others'.
//! Turned manually under a manual clock, and with engines and executors at work on the embedded back ends and on real MySQL
//! and Redis.

use crate::crash_points::{Embedded, Ground, OnServers, Stand, WallClock};
use parking_lot::Mutex;
use punctual_bus::MemoryBus;
use punctual_contract::{
    Clock, Limiter,
    limiter::{Held, Member},
    settings::SaveSetting,
    store::Assignment,
};
use punctual_domain::{
    limits::Scope as LimitScope,
    name::{Name, QueueKey},
    outcome::Report,
    settings::{QueueSettings, Rate, Scope, ScopeSettings, Setting},
    task::{NewTask, TaskResult},
    time::Millis,
};
use punctual_engine::{Backends, Engine, LeaseRequest, Options, OutcomeReport, Reported};
use punctual_hot::{MemoryLimiter, NoHot};
use punctual_store::SqliteStore;
use punctual_testkit::{
    clock::ManualClock,
    patience::{HANG_LIMIT, a_moment, until},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{task::JoinSet, time::timeout};

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn queue_of(namespace: &str, queue: &str) -> QueueKey {
    QueueKey { namespace: name(namespace), queue: name(queue) }
}

fn queue(namespace: &str) -> QueueKey {
    queue_of(namespace, "q")
}

fn slots(concurrency: u32) -> ScopeSettings {
    ScopeSettings { concurrency: Some(concurrency), ..ScopeSettings::default() }
}

fn weight(weight: u32) -> ScopeSettings {
    ScopeSettings { weight: Some(weight), ..ScopeSettings::default() }
}

async fn set(engine: &Engine, scope: Scope, setting: Setting) {
    let asked = SaveSetting { scope, setting: Some(setting), expected: None, by: "test".to_owned() };
    engine.save_setting(asked).await.unwrap();
}

async fn set_everything(engine: &Engine, settings: ScopeSettings) {
    set(engine, Scope::Everything, Setting::Scope(settings)).await;
}

async fn insert(engine: &Engine, queue: &QueueKey, count: usize) -> Vec<punctual_domain::place::TaskRef> {
    let new = |_| NewTask::new(queue.clone(), name("k"), engine.now());
    let inserted = engine.insert((0..count).map(new).collect(), "test").await.unwrap();
    inserted.into_iter().map(|inserted| inserted.task.place).collect()
}

async fn lease(engine: &Engine, queue: &QueueKey, max: usize, wait_ms: u64) -> Vec<Assignment> {
    let (queue, executor) = (Arc::new(queue.clone()), "test".to_owned());
    let request = LeaseRequest { queue, max, wait_ms, lease_ms: 60_000, executor, version: None };
    engine.lease(request).await.unwrap_or_default()
}

async fn end(engine: &Engine, attempts: &[Assignment]) {
    let report = |lease: &Assignment| OutcomeReport {
        place: lease.place,
        fence: lease.fence,
        report: Report::Succeeded,
        result: TaskResult::default(),
    };
    let recorded = engine.record_outcomes(attempts.iter().map(report).collect(), "test").await.unwrap();
    assert!(recorded.iter().all(|recorded| *recorded == Reported::Accepted), "{recorded:?}");
}

/// One embedded engine that is turned manually.
struct SharesRig {
    clock: ManualClock,
    limiter: Arc<MemoryLimiter>,
    engine: Engine,
}

impl SharesRig {
    async fn new(everything: ScopeSettings) -> Self {
        let clock = ManualClock::at(Millis(1_700_000_000_000));
        let store = Arc::new(SqliteStore::in_memory(&Default::default()).unwrap());
        let limiter = Arc::new(MemoryLimiter::default());
        let backends = Backends {
            hot: Arc::new(NoHot),
            store,
            limiter: limiter.clone(),
            bus: Arc::new(MemoryBus::default()),
            clock: Arc::new(clock.clone()),
            blobs: None,
            shared: None,
        };
        let rig = Self { engine: Engine::new(backends, Options::default()), clock, limiter };
        set_everything(&rig.engine, everything).await;
        rig.pass(0).await;
        rig
    }

    async fn pass(&self, ms: u64) {
        self.clock.advance_ms(ms);
        self.engine.run_once().await.unwrap();
    }

    async fn flood(&self, queue: &QueueKey, count: usize) -> punctual_domain::place::TaskRef {
        let places = insert(&self.engine, queue, count).await;
        self.pass(0).await;
        places[count - 1]
    }

    async fn lease(&self, queue: &QueueKey, max: usize) -> Vec<Assignment> {
        lease(&self.engine, queue, max, 0).await
    }

    async fn held(&self, namespace: &str) -> usize {
        self.limiter.holders(&LimitScope::Namespace(name(namespace)), 0).await.unwrap().count
    }

    /// All queues ask for tasks, and their attempts end, until nothing changes any more.
    async fn record_outcomes(&self, queues: &[QueueKey]) {
        let mut running: Vec<Vec<Assignment>> = vec![Vec::new(); queues.len()];
        for _ in 0..12 {
            for (queue, running) in queues.iter().zip(&mut running) {
                // The oldest of its attempts ends.
                if !running.is_empty() {
                    end(&self.engine, &running.split_off(running.len() - 1)).await;
                }
                running.extend(self.lease(queue, 100).await);
            }
            self.pass(250).await;
        }
    }
}

#[tokio::test]
async fn when_slots_are_short_namespaces_get_their_weights_and_a_waiting_task_says_so() {
    let rig = SharesRig::new(slots(12)).await;
    let (a, b) = (queue("a"), queue("b"));
    let last_of_a = rig.flood(&a, 300).await;
    let flood = rig.lease(&a, 100).await;
    assert_eq!(flood.len(), 12, "alone it may have all");
    rig.flood(&b, 100).await;
    assert_eq!(rig.lease(&b, 100).await.len(), 0, "nothing is free, and nobody loses what it has");
    rig.pass(250).await;
    end(&rig.engine, &flood[..3]).await;
    assert_eq!(rig.lease(&a, 100).await.len(), 0, "it has nine, and its share is six");
    let (_, why) = rig.engine.why(last_of_a).await.unwrap();
    assert_eq!(why.blocking, Some("share"), "{why:?}");
    assert!(why.reason.contains("namespace \"a\"") && why.reason.contains("1 of 2"), "{why:?}");
    assert_eq!(rig.lease(&b, 100).await.len(), 3);
    end(&rig.engine, &flood[3..8]).await;
    assert_eq!((rig.lease(&a, 100).await.len(), rig.lease(&b, 100).await.len()), (2, 3));
    assert_eq!((rig.held("a").await, rig.held("b").await), (6, 6));

    set(&rig.engine, Scope::Namespace(name("b")), Setting::Scope(weight(3))).await;
    rig.pass(250).await;
    end(&rig.engine, &flood[8..]).await;
    assert_eq!(rig.lease(&a, 100).await.len(), 1, "three of twelve");
    assert_eq!(rig.lease(&b, 100).await.len(), 3, "nine of twelve");
    let shares = rig.engine.shares();
    let shown: Vec<_> =
        shares.iter().map(|share| (share.namespace.as_str(), share.weight, share.slots)).collect();
    assert_eq!(shown, [("a", 1, Some(3)), ("b", 3, Some(9))]);
}

#[tokio::test]
async fn what_one_does_not_use_goes_to_the_others_and_tasks_that_nobody_asks_for_hold_nothing_back() {
    let rig = SharesRig::new(slots(12)).await;
    let (a, b) = (queue("a"), queue("b"));
    rig.flood(&b, 50).await;
    rig.flood(&a, 300).await;
    rig.pass(1_000).await;
    let flood = rig.lease(&a, 100).await;
    assert_eq!(flood.len(), 12, "b has tasks that wait, and no executor");
    let two = {
        end(&rig.engine, &flood[..2]).await;
        rig.lease(&b, 2).await
    };
    assert_eq!(two.len(), 2);
    rig.pass(250).await;
    assert_eq!(rig.lease(&a, 100).await.len(), 0);
    end(&rig.engine, &flood[2..]).await;
    assert_eq!(rig.lease(&a, 100).await.len(), 9, "two are b's, and one is kept for it");
    end(&rig.engine, &two).await;
    for _ in 0..4 {
        rig.pass(5_000).await;
    }
    rig.lease(&a, 100).await;
    assert_eq!(rig.held("a").await, 12, "b is long gone");
}

/// Its executors ask another engine, of which this one has heard nothing yet.
#[tokio::test]
async fn who_has_its_first_slot_at_another_engine_is_left_its_share_before_that_has_told() {
    let rig = SharesRig::new(slots(12)).await;
    let (a, b) = (queue("a"), queue("b"));
    rig.flood(&a, 300).await;
    let flood = rig.lease(&a, 100).await;
    let place = rig.flood(&b, 50).await;
    end(&rig.engine, &flood[..1]).await;
    let now = rig.clock.now();
    let scopes = vec![LimitScope::Everything, LimitScope::Namespace(name("b")), LimitScope::Queue(b)];
    let member = Member { id: place.id, fence: 1 };
    let first = Held { member, place, granted_at: now, until: now.plus(60_000), scopes };
    rig.limiter.restore(vec![first]).await.unwrap();
    rig.pass(250).await;
    end(&rig.engine, &flood[1..]).await;
    assert_eq!(rig.lease(&a, 100).await.len(), 6, "five are left to b");
    rig.pass(2_001).await;
    assert_eq!(rig.lease(&a, 100).await.len(), 4, "b has one, and one is kept for it: nobody asks for more");
}

/// A caller that asks first would always get the only slot.
#[tokio::test]
async fn the_only_slot_goes_round_by_weight() {
    let rig = SharesRig::new(slots(1)).await;
    set(&rig.engine, Scope::Namespace(name("n4")), Setting::Scope(weight(2))).await;
    let queues: Vec<QueueKey> = (0..5).map(|nth| queue(&format!("n{nth}"))).collect();
    for queue in &queues {
        rig.flood(queue, 100).await;
    }
    let (mut starts, mut running) = ([0; 5], Vec::new());
    for _ in 0..120 {
        end(&rig.engine, &std::mem::take(&mut running)).await;
        for (nth, queue) in queues.iter().enumerate() {
            let leased = rig.lease(queue, 1).await;
            starts[nth] += leased.len();
            running.extend(leased);
        }
        rig.pass(250).await;
    }
    assert!(starts[..4].iter().all(|start| (15..=25).contains(start)), "{starts:?}");
    assert!((34..=46).contains(&starts[4]), "it weighs two: {starts:?}");
    assert!(starts.iter().sum::<usize>() >= 118, "the slot is never left idle: {starts:?}");
}

#[tokio::test]
async fn queues_of_a_namespace_share_its_slots_by_their_weights() {
    let rig = SharesRig::new(ScopeSettings::default()).await;
    set(&rig.engine, Scope::Namespace(name("a")), Setting::Scope(slots(8))).await;
    let (mail, sms) = (queue_of("a", "mail"), queue_of("a", "sms"));
    let heavy = QueueSettings { weight: Some(3), ..QueueSettings::default() };
    set(&rig.engine, Scope::Queue(sms.clone()), Setting::Queue(Box::new(heavy))).await;
    rig.flood(&mail, 300).await;
    rig.flood(&sms, 300).await;
    rig.record_outcomes(&[mail.clone(), sms.clone()]).await;
    let held = rig.limiter.held(&[LimitScope::Queue(mail), LimitScope::Queue(sms)]).await.unwrap();
    assert_eq!(held, [2, 6]);
}

/// A floods a rate that all share, and asks first at every instant; B starts as much as a third of its own share.
#[tokio::test]
async fn a_flood_takes_no_starts_of_anothers_share_of_a_rate() {
    let rate = Some(Rate { limit: 100, period_ms: 1_000, burst: 4 });
    let rig = SharesRig::new(ScopeSettings { rate, ..ScopeSettings::default() }).await;
    let (a, b) = (queue("a"), queue("b"));
    rig.flood(&a, 900).await;
    let (mut of_a, mut behind, mut done) = (0, 0, 0);
    for step in 0..300 {
        if step % 3 == 0 {
            rig.flood(&b, 1).await;
        }
        rig.pass(10).await;
        let leased = rig.lease(&a, 100).await;
        of_a += leased.len();
        end(&rig.engine, &leased).await;
        let leased = rig.lease(&b, 100).await;
        // In the first moments the demand of b is unknown.
        if step > 50 {
            // Six steps of the manual clock.
            behind += leased.iter().filter(|task| task.due_at.plus(60) < rig.clock.now()).count();
        }
        done += leased.len();
        end(&rig.engine, &leased).await;
    }
    assert_eq!(behind, 0, "tasks of b waited behind a's flood");
    assert!(done >= 98, "{done}");
    assert!((150..=215).contains(&of_a), "the rest of the rate is a's: {of_a}");
}

/// What executors do, by their own account.
#[derive(Default)]
struct ShareLog {
    is_over: AtomicBool,
    running: AtomicUsize,
    most: AtomicUsize,
    /// Namespaces, in the order in which their tasks were started.
    served: Mutex<Vec<Name>>,
}

/// Works on one queue until it is stopped.
async fn work(engine: Engine, queue: QueueKey, log: Arc<ShareLog>) {
    let mut ticks = tokio::time::interval(WORK);
    while !log.is_over.load(SeqCst) {
        let leased = lease(&engine, &queue, 1, 200).await;
        let running = log.running.fetch_add(leased.len(), SeqCst) + leased.len();
        log.most.fetch_max(running, SeqCst);
        ticks.reset();
        if !leased.is_empty() {
            log.served.lock().push(queue.namespace.clone());
            ticks.tick().await;
        }
        log.running.fetch_sub(leased.len(), SeqCst);
        end(&engine, &leased).await;
    }
}

const LIMIT: usize = 8;
/// What a handler takes.
const WORK: Duration = Duration::from_millis(20);
/// Starts that are counted.
const SERVED: usize = 400;
/// Of a newcomer's executors, where as many as it has slots would do.
const EXECUTORS: usize = LIMIT;
/// A flood that had no more than luck would leave the newcomer an eighth.
const FLOOD: usize = 7 * EXECUTORS;

/// A's executors ask at the first engine, B's at the last: what one of them wants the other one must learn of.
async fn shared_on(ground: Arc<dyn Ground>, engines: usize) {
    let (mut all, mut last) = (Vec::new(), None);
    for nth in 0..engines {
        let Stand { store, hot, limiter, bus, shared } = ground.stand().await;
        last = Some(limiter.clone());
        let backends = Backends { store, hot, limiter, bus, clock: Arc::new(WallClock), blobs: None, shared };
        let engine = Engine::new(backends, Options { name: format!("n{nth}"), ..Options::default() });
        if nth == 0 {
            set_everything(&engine, slots(u32::try_from(LIMIT).unwrap())).await;
        }
        let running = engine.start().unwrap();
        all.push((engine, running));
    }
    let (first, limiter) = (all[0].0.clone(), last.unwrap());
    let other = all[engines - 1].0.clone();
    let (a, b) = (queue("a"), queue("b"));
    let (log, mut executors) = (Arc::new(ShareLog::default()), JoinSet::new());
    let mut work_on = |engine: &Engine, queue: &QueueKey, count: usize| {
        for _ in 0..count {
            executors.spawn(work(engine.clone(), queue.clone(), log.clone()));
        }
    };
    insert(&first, &a, 4_000).await;
    work_on(&first, &a, FLOOD);
    let held = async |queue: &QueueKey| limiter.held(&[LimitScope::Queue(queue.clone())]).await.unwrap()[0];
    until("the flood has all slots", async || held(&a).await >= LIMIT - 1).await;
    insert(&other, &b, 2 * SERVED).await;
    work_on(&other, &b, EXECUTORS);
    // Until an engine has looked it knows nothing of a newcomer at another; from its first look on it leaves it its half.
    let counted = |engine: &Engine| engine.shares().iter().any(|share| share.namespace == b.namespace);
    until("each engine counts the other", async || all.iter().all(|pair| counted(&pair.0))).await;
    until("the other has its half", async || held(&b).await == LIMIT / 2).await;
    let before = log.served.lock().len();
    let mut beyond = Vec::new();
    let serving = timeout(HANG_LIMIT, async {
        while log.served.lock().len() < before + SERVED {
            let (of_a, of_b) = (held(&a).await, held(&b).await);
            if of_b > LIMIT / 2 || of_a > LIMIT / 2 + 1 {
                beyond.push((of_a, of_b));
            }
            a_moment().await;
        }
    });
    assert!(serving.await.is_ok(), "{} of {SERVED} were served", log.served.lock().len() - before);
    // Engines that read at different instants differ for a moment; one agrees with itself.
    assert!(engines > 1 || beyond.is_empty(), "more than its share: {beyond:?}");
    let served = log.served.lock()[before..before + SERVED].to_vec();
    let of_b = served.iter().filter(|namespace| **namespace == b.namespace).count();
    assert!(of_b >= SERVED * 2 / 5, "{of_b} of {SERVED} starts were the newcomer's");
    assert!(of_b <= SERVED * 3 / 5, "{of_b} of {SERVED} starts were the newcomer's");
    assert!(log.most.load(SeqCst) <= LIMIT, "more than the limit: {}", log.most.load(SeqCst));
    log.is_over.store(true, SeqCst);
    executors.join_all().await;
    for (_, running) in all {
        running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_flood_leaves_the_other_its_slots_embedded() {
    shared_on(Embedded::ground().await, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_flood_leaves_the_other_its_slots_on_two_engines_and_servers() {
    shared_on(OnServers::ground().await, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_flood_leaves_the_other_its_slots_on_four_engines_and_servers() {
    shared_on(OnServers::ground().await, 4).await;
}
