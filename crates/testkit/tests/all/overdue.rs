//! Overdue tasks that have not fired are reported, whichever engine owns them and whatever hides them: for
//! example a hot set that claims to be complete and is not, on both back ends.

use crate::{
    crash_points::{Embedded, Ground, OnServers, rig_with},
    engine::{WallClock, queue},
};
use punctual_bus::MemoryBus;
use punctual_contract::{Hot, Limiter, Store};
use punctual_domain::{
    name::Name,
    place::{Partition, TaskRef},
    state::State,
    task::NewTask,
};
use punctual_engine::{AlertKind, Backends, Engine, LeaseRequest, Options, SharedBackends};
use punctual_hot::{MemoryLimiter, RedisHot, RedisOptions};
use punctual_store::{MysqlOptions, MysqlStore, SqliteStore};
use punctual_testkit::{
    faults::{FaultyHot, StoreGroup},
    patience::until,
    servers::{MariaDb, Redis},
    shared::SharedHot,
};
use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering::SeqCst},
};
use tokio::task::JoinSet;

const PARTITIONS: u16 = 4;
const TASKS: usize = 40;
/// A task that is due this late passes through the hot set.
const FAR_MS: i64 = 11_000;

fn options(name: &str) -> Options {
    Options { name: name.to_owned(), overdue_look_interval_ms: 200, ..Options::default() }
}

/// The engine's sweep, which repairs what these tests break, only covers tasks that are overdue for longer
/// than an alert needs.
fn blind(name: &str) -> Options {
    Options { overdue_after_ms: 20_000, ..options(name) }
}

async fn insert(engine: &Engine, delay_ms: i64) -> Vec<TaskRef> {
    let at = engine.now().plus(delay_ms);
    let tasks = (0..TASKS).map(|_| NewTask::new(queue(), Name::new("k").unwrap(), at)).collect();
    engine.insert(tasks, "test").await.unwrap().into_iter().map(|inserted| inserted.task.place).collect()
}

/// How many wait for an executor.
async fn waiting(engine: &Engine) -> usize {
    engine.depth().await.unwrap().ready.iter().map(|(_, count)| count).sum()
}

async fn is_alarmed(engine: &Engine) -> bool {
    engine.alerts().await.unwrap().iter().any(|alert| alert.kind == AlertKind::OverdueNotFired)
}

fn overdue_partitions(engine: &Engine) -> BTreeSet<Partition> {
    engine.overdue().into_iter().filter_map(|row| row.2).map(|overdue_task| overdue_task.partition).collect()
}

/// Takes the ready tasks, and never extends the leases: the tests check only whether tasks fired.
async fn work(engine: Engine) {
    loop {
        let (queue, executor) = (Arc::new(queue()), "test".to_owned());
        let request =
            LeaseRequest { queue, max: 10, wait_ms: 1_000, lease_ms: 600_000, executor, version: None };
        drop(engine.lease(request).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_its_hot_set_has_lost_unseen_is_an_alert_until_it_has_fired() {
    let embedded = punctual_store::sqlite::Options { partitions: PARTITIONS, ..Default::default() };
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory(&embedded).unwrap());
    let hot = SharedHot::new(PARTITIONS);
    let hot = Arc::new(FaultyHot::new(Arc::new(hot), 1));
    let backends = Backends {
        store,
        hot: hot.clone(),
        limiter: Arc::new(MemoryLimiter::default()),
        bus: Arc::new(MemoryBus::default()),
        clock: Arc::new(WallClock),
        blobs: None,
        shared: None,
    };
    let engine = Engine::new(backends, blind("e"));
    let running = engine.start().unwrap();
    // What fires and finds no executor is not overdue: it waits.
    insert(&engine, 500).await;
    until("all have fired", || async { waiting(&engine).await == TASKS }).await;
    hot.loses_what_is_loaded.store(true, SeqCst);
    insert(&engine, FAR_MS).await;
    until("an alert", || is_alarmed(&engine)).await;
    let late = engine
        .overdue()
        .into_iter()
        .filter_map(|row| row.2)
        .map(|overdue_task| overdue_task.due_at)
        .min()
        .unwrap();
    assert!(engine.now().since(late) >= 10_000, "not before it is long over");
    hot.loses_what_is_loaded.store(false, SeqCst);
    until("it has fired", || async { overdue_partitions(&engine).is_empty() }).await;
    assert_eq!(waiting(&engine).await, 2 * TASKS);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_sees_what_another_one_owns_and_does_not_fire() {
    let (redis, mysql) = (Redis::own().await, MariaDb::own().await);
    let url = mysql.fresh_database().await;
    let node = async |options: Options| {
        let options_of_store = MysqlOptions { partitions: PARTITIONS, ..MysqlOptions::default() };
        let store = MysqlStore::open(std::slice::from_ref(&url), options_of_store).await.unwrap();
        let hot_options = RedisOptions { partitions: PARTITIONS, ..RedisOptions::default() };
        let hot = RedisHot::connect(&redis.url(), hot_options).await.unwrap();
        let signals = Arc::new(hot.signals().await.unwrap());
        let limiter: Arc<dyn Limiter> = Arc::new(hot.limiter(punctual_hot::RateClock::Server));
        let hot = Arc::new(FaultyHot::new(Arc::new(hot) as Arc<dyn Hot>, 1));
        let backends = Backends {
            blobs: None,
            shared: Some(SharedBackends {
                ownership: Arc::new(store.ownership()),
                signals,
                stored_limiter: None,
            }),
            store: Arc::new(store),
            limiter,
            hot: hot.clone(),
            bus: Arc::new(MemoryBus::default()),
            clock: Arc::new(WallClock),
        };
        let engine = Engine::new(backends, options);
        let running = engine.start().unwrap();
        (engine, running, hot)
    };
    let (ill, ill_running, ill_hot) = node(blind("ill")).await;
    let (well, well_running, _) = node(options("well")).await;
    let is_shared = || async { ill.owned() == 2 && well.owned() == 2 || ill.owned() * well.owned() == 3 };
    until("both own some", is_shared).await;
    let mut workers = JoinSet::new();
    workers.spawn(work(well.clone()));
    workers.spawn(work(ill.clone()));
    ill_hot.loses_what_is_loaded.store(true, SeqCst);
    let places = insert(&ill, FAR_MS).await;
    let used: BTreeSet<Partition> = places.iter().map(|place| place.partition).collect();
    until("an alert", || is_alarmed(&well)).await;
    let seen = overdue_partitions(&well);
    assert!(!seen.is_empty() && seen.len() <= ill.owned() && seen.is_subset(&used), "{seen:?}");
    ill_hot.loses_what_is_loaded.store(false, SeqCst);
    until("all have fired", || async { overdue_partitions(&well).is_empty() }).await;
    workers.shutdown().await;
    ill_running.stop().await;
    well_running.stop().await;
}

/// Many wait for executors in one partition, each run of the sweep looks at a few of them, and one is in no line any more.
async fn one_of_a_long_backlog_is_found(store: Arc<dyn Store>, hot: Arc<dyn Hot>, limiter: Arc<dyn Limiter>) {
    const BACKLOG: usize = 1_200;
    let backends = Backends {
        store,
        hot,
        limiter,
        bus: Arc::new(MemoryBus::default()),
        clock: Arc::new(WallClock),
        blobs: None,
        shared: None,
    };
    let options = Options { sweep_interval_ms: 20, overdue_after_ms: 100, ..options("e") };
    let engine = Engine::new(backends, options);
    let running = engine.start().unwrap();
    let at = engine.now().plus(1_000);
    let tasks = (0..BACKLOG).map(|_| NewTask::new(queue(), Name::new("k").unwrap(), at)).collect();
    let inserted = engine.insert(tasks, "test").await.unwrap();
    until("all have fired", async || waiting(&engine).await == BACKLOG).await;
    let runs = || {
        engine
            .meters()
            .services()
            .iter()
            .find(|service| service.name == "refill")
            .map_or(0, |service| service.runs)
    };
    let before = runs();
    until("all have been looked at", async || runs() > before + 10).await;
    let place = inserted[BACKLOG / 2].task.place;
    let swept = engine.meters().swept_total();
    engine.lose(place.id);
    // Counted, not seen to be missing: the sweep may be sooner than a look.
    let is_found = async || engine.meters().swept_total() > swept && waiting(&engine).await == BACKLOG;
    until("it was found", is_found).await;
    assert_eq!(engine.meters().swept_total(), swept + 1);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_a_long_backlog_is_found_with_a_stand_in() {
    let options = punctual_store::sqlite::Options { partitions: 1, ..Default::default() };
    let store = SqliteStore::in_memory(&options).unwrap();
    let hot = SharedHot::new(1);
    one_of_a_long_backlog_is_found(Arc::new(store), Arc::new(hot), Arc::new(MemoryLimiter::default())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_a_long_backlog_is_found_on_servers() {
    let (redis, mysql) = (Redis::own().await, MariaDb::own().await);
    let options = MysqlOptions { partitions: 1, ..MysqlOptions::default() };
    let store = MysqlStore::open(&[mysql.fresh_database().await], options).await.unwrap();
    let options = RedisOptions { partitions: 1, ..RedisOptions::default() };
    let hot = RedisHot::connect(&redis.url(), options).await.unwrap();
    let limiter = Arc::new(hot.limiter(punctual_hot::RateClock::Server));
    one_of_a_long_backlog_is_found(Arc::new(store), Arc::new(hot), limiter).await;
}

/// The row that the refill has read is older than the mark, and the table knows the task no more when the row arrives.
async fn what_is_marked_while_it_is_read_is_not_missing(ground: &dyn Ground) {
    let set = |options| Options { sweep_interval_ms: 50, overdue_after_ms: 100, ..options };
    let rig = rig_with(ground, false, set).await;
    let running = rig.engine.start().unwrap();
    let marks = rig.store.faults.hold(StoreGroup::Apply);
    let reads = rig.store.hold_found();
    let place = rig.insert(500).await;
    reads.reached().await;
    marks.open();
    let is_marked = async || {
        let task = rig.engine.store().read(&[place]).await.unwrap().remove(0).unwrap();
        task.state == State::Ready
    };
    until("it is marked", is_marked).await;
    let services = || rig.engine.meters().services();
    let runs_of =
        |name| services().iter().find(|service| service.name == name).map_or(0, |service| service.runs);
    let marked = runs_of("mark_ready");
    until("the engine knows it", async || runs_of("mark_ready") > marked + 1).await;
    let before = runs_of("refill");
    reads.open();
    until("what was read is here", async || runs_of("refill") > before + 1).await;
    assert_eq!((rig.engine.meters().swept_total(), waiting(&rig.engine).await), (0, 1));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_marked_while_it_is_read_is_not_missing_embedded() {
    what_is_marked_while_it_is_read_is_not_missing(&*Embedded::ground().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_marked_while_it_is_read_is_not_missing_with_a_stand_in() {
    what_is_marked_while_it_is_read_is_not_missing(&*Embedded::with_due_in_hot_set().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_marked_while_it_is_read_is_not_missing_on_servers() {
    what_is_marked_while_it_is_read_is_not_missing(&*OnServers::ground().await).await;
}
