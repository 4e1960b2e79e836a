//! The deletion of a namespace by working engines: one dies in the middle and another continues, embedded and
//! on real MySQL and Redis; and an unavailable database keeps only its own contents.

use crate::crash_points::{CrashPointsRig, Embedded, Ground, OnServers, WallClock, rig};
use punctual_bus::MemoryBus;
use punctual_contract::Store;
use punctual_domain::{
    name::{Name, QueueKey},
    settings::ScopeSettings,
    task::NewTask,
    time::Millis,
};
use punctual_engine::{Backends, Closed, Engine, LeaseRequest, Options};
use punctual_hot::{MemoryLimiter, NoHot};
use punctual_store::{MysqlOptions, MysqlStore};
use punctual_testkit::{
    faults::StoreGroup,
    patience::{HANG_LIMIT, until},
    servers::{MariaDb, Proxy, Way},
};
use std::{sync::Arc, time::Duration};
use tokio::{runtime::Runtime, task::JoinSet};

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn tasks(namespace: &str, count: i64, execute_at: Millis) -> Vec<NewTask> {
    let queue = QueueKey { namespace: name(namespace), queue: name("q") };
    (0..count).map(|_| NewTask::new(queue.clone(), name("k"), execute_at)).collect()
}

async fn left(store: &dyn Store, namespace: &str) -> i64 {
    let books = store.books().await.unwrap();
    books
        .tallies
        .iter()
        .filter(|tally| tally.queue.namespace == name(namespace))
        .map(|tally| tally.tasks)
        .sum()
}

async fn set(engine: &Engine) -> usize {
    engine.settings().await.unwrap().all.len()
}

const TASKS: i64 = 1_500;

/// The engine is gone with its runtime when some batches are committed.
async fn die(ground: Arc<dyn Ground>) {
    let (reported, heard) = tokio::sync::oneshot::channel();
    let doomed = Runtime::new().unwrap();
    doomed.spawn(async move {
        let CrashPointsRig { engine, store, .. } = rig(&*ground, false).await;
        let _running = engine.start().unwrap();
        let hour = engine.now().plus(3_600_000);
        for namespace in ["gone", "kept"] {
            engine.insert(tasks(namespace, TASKS, hour), "test").await.unwrap();
        }
        let made = ScopeSettings { max_waiting: Some(1_000_000), ..ScopeSettings::default() };
        engine.put_namespace(name("gone"), made, "test", |_| true).await.unwrap();
        engine.delete_namespace(name("gone"), "test").await.unwrap().unwrap();
        until("some are deleted", || async { left(&*store, "gone").await < TASKS }).await;
        let gate = store.faults.hold(StoreGroup::Namespaces);
        gate.reached().await;
        assert!(left(&*store, "gone").await > 0, "it dies in the middle");
        reported.send(()).unwrap();
        std::future::pending::<()>().await;
    });
    heard.await.unwrap();
    doomed.shutdown_background();
}

async fn live_on(ground: &dyn Ground) {
    let CrashPointsRig { engine, store, .. } = rig(ground, false).await;
    let running = engine.start().unwrap();
    until("it knows of the deletion", || async { engine.closed(&name("gone")).is_some() }).await;
    assert_eq!(engine.closed(&name("gone")), Some(Closed::Deleting));
    until("the namespace is gone", || async { set(&engine).await == 0 }).await;
    assert_eq!((left(&*store, "gone").await, left(&*store, "kept").await), (0, TASKS));
    let books = store.books().await.unwrap();
    assert_eq!((books.unaccounted(), &books), (0, &store.audit().await.unwrap()));
    until("its name can be used again", || async { engine.closed(&name("gone")).is_none() }).await;
    running.stop().await;
}

fn dies_in_the_middle(ground: Arc<dyn Ground>) {
    let survivor = Runtime::new().unwrap();
    survivor.block_on(die(Arc::clone(&ground)));
    survivor.block_on(live_on(&*ground));
}

#[test]
fn an_engine_dies_in_the_middle_of_a_deletion_and_the_next_goes_on_embedded() {
    dies_in_the_middle(Runtime::new().unwrap().block_on(Embedded::ground()));
}

#[test]
fn an_engine_dies_in_the_middle_of_a_deletion_and_the_next_goes_on_on_servers() {
    dies_in_the_middle(Runtime::new().unwrap().block_on(OnServers::ground()));
}

/// Callers that asked for tasks before the deletion began get none of them, although tasks fall due while
/// they still exist. If the tasks were due before the deletion had begun, the test repeats with later tasks
/// in other namespaces.
async fn hands_nothing_over(ground: &dyn Ground) {
    let CrashPointsRig { engine, store, .. } = rig(ground, false).await;
    let running = engine.start().unwrap();
    for (gone, kept, delay_ms) in
        [("gone", "kept", 5_000), ("gone-2", "kept-2", 15_000), ("gone-3", "kept-3", 45_000)]
    {
        let gate = store.faults.hold(StoreGroup::Namespaces);
        let is_in_order = is_due_in_its_deletion(&engine, gone, kept, delay_ms).await;
        assert!(!is_in_order || left(&*store, gone).await > 0, "they are still there");
        gate.open();
        until("the namespace is gone", || async { left(&*store, gone).await == 0 }).await;
        if is_in_order {
            running.stop().await;
            return;
        }
    }
    panic!("the deletion never began before the tasks were due");
}

/// Whether the deletion began before the tasks were due; only then it says anything that none of them was handed over.
async fn is_due_in_its_deletion(engine: &Engine, gone: &str, kept: &str, delay_ms: i64) -> bool {
    engine.put_namespace(name(gone), ScopeSettings::default(), "test", |_| true).await.unwrap();
    let due_at = engine.now().plus(delay_ms);
    engine.insert(tasks(gone, 20, due_at), "test").await.unwrap();
    engine.insert(tasks(kept, 20, due_at), "test").await.unwrap();
    let lease = |namespace: &str, wait: Duration| {
        let queue = Arc::new(QueueKey { namespace: name(namespace), queue: name("q") });
        let (max, lease_ms, executor) = (20, 3_600_000, format!("of {namespace}"));
        let wait_ms = u64::try_from(wait.as_millis()).unwrap();
        let request = LeaseRequest { queue, max, wait_ms, lease_ms, executor, version: None };
        let engine = engine.clone();
        async move { engine.lease(request).await.unwrap() }
    };
    // Asked for before the deletion begins, and still when the tasks of both are due.
    let mut waiting = JoinSet::new();
    waiting.spawn(lease(gone, HANG_LIMIT));
    let of_the_other = async {
        let mut count = 0;
        while count < 20 {
            let handed = lease(kept, HANG_LIMIT).await;
            assert!(!handed.is_empty(), "what fell due in the other namespace is handed over");
            count += handed.len();
        }
    };
    let delete = async {
        engine.delete_namespace(name(gone), "test").await.unwrap().unwrap();
        engine.now() < due_at
    };
    let ((), is_in_order) = tokio::join!(of_the_other, delete);
    if is_in_order {
        let handed = waiting.try_join_next().map_or(0, |handed| handed.unwrap().len());
        assert_eq!(handed, 0, "tasks of the namespace were handed over");
        waiting.shutdown().await;
        assert_eq!(lease(gone, Duration::from_millis(100)).await, [], "nor are they to who asks now");
    }
    is_in_order
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_namespace_that_is_deleted_is_handed_over_embedded() {
    hands_nothing_over(&*Embedded::ground().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_namespace_that_is_deleted_is_handed_over_on_servers() {
    hands_nothing_over(&*OnServers::ground().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_keeps_only_its_own_tasks_and_they_go_when_it_is_back() {
    let mysql = MariaDb::own().await;
    let second = Proxy::before(mysql.port());
    let mut urls = vec![mysql.fresh_database().await, mysql.fresh_database().await];
    urls[1] = urls[1].replace(&format!(":{}/", mysql.port()), &format!(":{}/", second.port()));
    let options = MysqlOptions { partitions: 8, ..MysqlOptions::default() };
    let store = Arc::new(MysqlStore::open(&urls, options).await.unwrap());
    let backends = Backends {
        store: store.clone(),
        hot: Arc::new(NoHot),
        limiter: Arc::new(MemoryLimiter::default()),
        bus: Arc::new(MemoryBus::new()),
        clock: Arc::new(WallClock),
        blobs: None,
        shared: None,
    };
    let engine = Engine::new(backends, Options::default());
    let running = engine.start().unwrap();
    let later = engine.now().plus(86_400_000);
    let mut inserted = engine.insert(tasks("gone", 200, later), "test").await.unwrap();
    engine.insert(tasks("kept", 200, later), "test").await.unwrap();
    engine.put_namespace(name("gone"), ScopeSettings::default(), "test", |_| true).await.unwrap();
    inserted.retain(|inserted| store.part_of(inserted.task.place.partition) == 0);
    let firsts: Vec<_> = inserted.iter().map(|inserted| inserted.task.place).collect();
    assert!((50..150).contains(&firsts.len()), "{}", firsts.len());
    second.set(Way::Cut);
    // What it holds cannot be counted, and need not be: it has settings.
    engine.delete_namespace(name("gone"), "test").await.unwrap().unwrap();
    until("the first database has none of them left", || async {
        store.read(&firsts).await.unwrap().iter().all(Option::is_none)
    })
    .await;
    assert_eq!(engine.closed(&name("gone")), Some(Closed::Deleting));
    assert_eq!(set(&engine).await, 1, "it is not gone before all of it is");
    second.set(Way::Open);
    until("the namespace is gone", || async { set(&engine).await == 0 }).await;
    assert_eq!((left(&*store, "gone").await, left(&*store, "kept").await), (0, 200));
    assert_eq!(store.books().await.unwrap(), store.audit().await.unwrap());
    running.stop().await;
}
