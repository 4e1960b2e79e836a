//! Limits and caps while one database of two is unavailable: slots of the other's attempts are freed and
//! given, those of the unavailable one are unchanged, a lost limiter waits for all leases, and caps use the
//! last count. Run manually on an embedded store that reports two databases, and on two real ones.

use super::site::ShardedSite;
use crate::{engine::queue, limits::set_queue};
use punctual_bus::MemoryBus;
use punctual_contract::{
    Clock as _, Limiter as _, Store,
    limiter::{Held, Member},
    store::Assignment,
};
use punctual_domain::{
    limits::Scope, name::Name, outcome::Report, place::TaskRef, settings::QueueSettings, task::NewTask,
    task::TaskResult, time::Millis,
};
use punctual_engine::{Backends, Engine, LeaseRequest, Options, OutcomeReport, Refused, Reported};
use punctual_hot::{MemoryLimiter, NoHot};
use punctual_store::SqliteStore;
use punctual_testkit::{
    clock::ManualClock,
    faults::{FaultyStore, StoreGroup},
    patience::until,
    servers::Way,
    test_engine::START,
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

const HOUR_MS: i64 = 3_600_000;
/// Longer than anything here passes.
const LEASE_MS: i64 = 10 * HOUR_MS;
/// The reconciler leaves a grant alone for ten seconds, and looks at all every thirty.
const GRACE_MS: u64 = 11_000;
const FULL_MS: u64 = 31_000;

struct LimitedRig {
    clock: ManualClock,
    store: Arc<FaultyStore>,
    limiter: Arc<MemoryLimiter>,
    engine: Engine,
}

fn task(at: Millis) -> NewTask {
    NewTask::new(queue(), Name::new("k").unwrap(), at)
}

fn limited(concurrency: u32) -> QueueSettings {
    QueueSettings { concurrency: Some(concurrency), ..QueueSettings::default() }
}

fn capped(max_waiting: u64) -> QueueSettings {
    QueueSettings { max_waiting: Some(max_waiting), ..QueueSettings::default() }
}

fn engine(clock: &ManualClock, store: &Arc<FaultyStore>, limiter: &Arc<MemoryLimiter>) -> Engine {
    let backends = Backends {
        hot: Arc::new(NoHot),
        store: store.clone(),
        limiter: limiter.clone(),
        bus: Arc::new(MemoryBus::default()),
        clock: Arc::new(clock.clone()),
        blobs: None,
        shared: None,
    };
    Engine::new(backends, Options::default())
}

impl LimitedRig {
    async fn new(settings: QueueSettings) -> Self {
        let clock = ManualClock::at(START);
        let inner: Arc<dyn Store> = Arc::new(SqliteStore::in_memory(&Default::default()).unwrap());
        let store = Arc::new(FaultyStore::new(inner, 1));
        store.split(2);
        let limiter = Arc::new(MemoryLimiter::default());
        let engine = engine(&clock, &store, &limiter);
        let rig = Self { clock, store, limiter, engine };
        set_queue(&rig.engine, &queue(), settings).await;
        rig.pass(0).await;
        rig
    }

    /// The same store, and a limiter that knows nothing.
    fn with_another_limiter(self) -> Self {
        let limiter = Arc::new(MemoryLimiter::default());
        Self { engine: engine(&self.clock, &self.store, &limiter), limiter, ..self }
    }

    /// Calls to an unavailable database fail.
    async fn pass(&self, ms: u64) {
        self.clock.advance_ms(ms);
        drop(self.engine.run_once().await);
    }

    async fn insert(&self, count: usize, at: Millis) -> Vec<TaskRef> {
        let inserted = self.engine.insert((0..count).map(|_| task(at)).collect(), "test").await.unwrap();
        inserted.into_iter().map(|inserted| inserted.task.place).collect()
    }

    async fn lease(&self, max: usize) -> Vec<Assignment> {
        let (executor, queue) = ("test".to_owned(), Arc::new(queue()));
        let request = LeaseRequest { queue, max, wait_ms: 0, lease_ms: LEASE_MS, executor, version: None };
        self.engine.lease(request).await.unwrap()
    }

    async fn in_flight(&self, count: usize) -> Vec<Assignment> {
        self.insert(count, self.clock.now()).await;
        self.pass(0).await;
        let leased = self.lease(count).await;
        assert_eq!(leased.len(), count);
        leased
    }

    fn count_in(&self, part: usize, places: impl Iterator<Item = TaskRef>) -> usize {
        let there = places.filter(|place| self.store.part_of(place.partition) == part).count();
        assert!(there > 0, "nothing is in part {part}");
        there
    }

    async fn held(&self) -> usize {
        self.limiter.holders(&Scope::Queue(queue()), 0).await.unwrap().count
    }
}

/// Granted, and no lease followed: their engine died.
fn ghost(place: TaskRef, now: Millis) -> Held {
    let member = Member { id: place.id, fence: 77 };
    Held { member, place, granted_at: now, until: now, scopes: vec![Scope::Queue(queue())] }
}

#[tokio::test]
async fn places_of_the_database_that_is_well_are_freed_and_those_of_the_other_stay() {
    for away in [0, 1] {
        let rig = LimitedRig::new(limited(40)).await;
        let places = rig.insert(20, rig.clock.now().plus(HOUR_MS)).await;
        let stay = rig.count_in(away, places.iter().copied());
        rig.count_in(1 - away, places.iter().copied());
        let ghosts = places.iter().map(|place| ghost(*place, rig.clock.now())).collect();
        rig.limiter.restore(ghosts).await.unwrap();
        rig.store.set_part_away(Some(away));
        rig.pass(GRACE_MS).await;
        assert_eq!(rig.held().await, stay, "part {away} is away");
        rig.pass(FULL_MS).await;
        assert_eq!(rig.held().await, stay, "part {away} is away for longer");
        rig.store.set_part_away(None);
        rig.pass(1_000).await;
        assert_eq!(rig.held().await, 0, "part {away} is back");
    }
}

#[tokio::test]
async fn leases_of_the_database_that_is_well_get_their_places_and_those_of_the_other_when_it_is_back() {
    for away in [0, 1] {
        let rig = LimitedRig::new(QueueSettings::default()).await;
        let leased = rig.in_flight(20).await;
        let well = rig.count_in(1 - away, leased.iter().map(|lease| lease.place));
        rig.store.set_part_away(Some(away));
        set_queue(&rig.engine, &queue(), limited(40)).await;
        rig.pass(1_000).await;
        assert_eq!(rig.held().await, well, "part {away} is away");
        rig.store.set_part_away(None);
        rig.pass(FULL_MS).await;
        assert_eq!(rig.held().await, 20, "part {away} is back");
    }
}

/// Attempts that the limiter does not count as in flight would be granted a second time.
#[tokio::test]
async fn a_limiter_that_was_lost_while_a_database_is_away_gives_nothing_before_all_leases_are_known() {
    for away in [0, 1] {
        let rig = LimitedRig::new(limited(10)).await;
        let leased = rig.in_flight(8).await;
        rig.insert(20, rig.clock.now()).await;
        rig.store.set_part_away(Some(away));
        let rig = rig.with_another_limiter();
        for _ in 0..5 {
            rig.pass(GRACE_MS).await;
            assert!(!rig.limiter.is_whole().await.unwrap(), "part {away} is away");
            assert_eq!(rig.lease(20).await, [], "part {away} is away");
        }
        rig.store.set_part_away(None);
        rig.pass(1_000).await;
        assert_eq!(rig.held().await, 8, "part {away} is back");
        assert_eq!(rig.lease(20).await.len(), 2, "and the limit holds");
        let report = |lease: &Assignment| OutcomeReport {
            place: lease.place,
            fence: lease.fence,
            report: Report::Succeeded,
            result: TaskResult::default(),
        };
        let recorded = rig.engine.record_outcomes(leased.iter().map(report).collect(), "test").await.unwrap();
        assert!(recorded.iter().all(|recorded| *recorded == Reported::Accepted), "{recorded:?}");
        assert_eq!(rig.held().await, 2);
    }
}

/// So that the last count is not the newest any more.
async fn a_count_grows_old() {
    tokio::time::pause();
    tokio::time::advance(Duration::from_millis(1_100)).await;
    tokio::time::resume();
}

/// Of so many that would be inserted now: how many there is room for. They count as waiting.
async fn let_in(engine: &Engine, count: usize) -> usize {
    let asked: Vec<NewTask> = (0..count).map(|_| task(engine.now().plus(HOUR_MS))).collect();
    let refused = engine.refused(&asked).await.unwrap();
    assert!(refused.iter().flatten().all(|refused| matches!(refused, Refused::Full(_))), "{refused:?}");
    refused.iter().filter(|refused| refused.is_none()).count()
}

#[tokio::test]
async fn caps_go_by_the_last_count_and_what_was_let_in_since_while_a_database_is_away() {
    let rig = LimitedRig::new(capped(10)).await;
    rig.insert(4, rig.clock.now().plus(HOUR_MS)).await;
    assert_eq!(let_in(&rig.engine, 3).await, 3);
    rig.store.set_part_away(Some(1));
    a_count_grows_old().await;
    assert_eq!(let_in(&rig.engine, 2).await, 2, "4 were counted, 3 let in");
    a_count_grows_old().await;
    assert_eq!(let_in(&rig.engine, 5).await, 1, "and 2 more");
    rig.store.set_part_away(None);
    a_count_grows_old().await;
    // The first the caller has it counted, and does not wait for it.
    let_in(&rig.engine, 1).await;
    until("it is counted again", || async { let_in(&rig.engine, 1).await == 1 }).await;
    a_count_grows_old().await;
    assert_eq!(let_in(&rig.engine, 20).await, 6, "only 4 are there: what was let in was never inserted");
}

/// With nothing counted yet.
#[tokio::test]
async fn a_cap_that_is_set_while_a_database_is_away_keeps_no_task_out_of_the_other() {
    let rig = LimitedRig::new(QueueSettings::default()).await;
    rig.store.set_part_away(Some(1));
    set_queue(&rig.engine, &queue(), capped(10)).await;
    rig.pass(1_000).await;
    assert_eq!(let_in(&rig.engine, 12).await, 10);
}

#[tokio::test]
async fn nobody_who_inserts_waits_for_a_database_that_cannot_be_counted() {
    let rig = LimitedRig::new(capped(1_000)).await;
    assert_eq!(let_in(&rig.engine, 1).await, 1);
    let silent = rig.store.faults.hold(StoreGroup::Read);
    // Nothing but the count is waited for from here on.
    tokio::time::pause();
    for nth in 0..10 {
        tokio::time::advance(Duration::from_millis(1_100)).await;
        let began = Instant::now();
        assert_eq!(let_in(&rig.engine, 1).await, 1);
        assert!(nth == 0 || began.elapsed().is_zero(), "insert {nth} waited for {:?}", began.elapsed());
    }
    tokio::time::resume();
    silent.open();
}

/// On real databases, the second of them cut.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn limits_and_caps_hold_on_real_databases_while_the_second_is_cut() {
    let site = ShardedSite::new(1).await;
    let limited = QueueSettings { max_waiting: Some(10_000), ..limited(2) };
    set_queue(site.engine(), &queue(), limited.clone()).await;
    site.until("the limit is known", async || {
        site.engine().known_settings(&queue()).concurrency == limited.concurrency
    })
    .await;
    site.insert(300, 1_000..4_000).await;
    site.have_come(30).await;
    site.second.set(Way::Cut);
    // What holds a place of the second keeps it; the first's continue with what is left, or when it is back.
    let room = async || let_in(site.engine(), 1).await == 1;
    site.until("a count has failed, and there is room all the same", async || {
        room().await && site.engine().write_problems().len() == 1
    })
    .await;
    site.second.set(Way::Open);
    site.finish(300).await;
}
