//! A pause that really pauses: nothing starts after its answer, even at an engine that does not know it yet,
//! and whatever happens to the pausing engine between two of its steps. On the embedded store, and on two
//! MariaDB databases.

use crate::engine::{WallClock, queue};
use punctual_contract::{
    SettingStore as _, Store,
    settings::SaveSetting,
    store::{Change, Dispatched, Grant, Step},
};
use punctual_domain::{
    history::Note,
    name::Name,
    settings::{Pause, QueueSettings, Scope, Setting},
    task::{NewTask, Task},
    time::Millis,
};
use punctual_engine::{Backends, Engine, LeaseRequest, Options, SharedBackends};
use punctual_store::{MysqlOptions, MysqlStore, SqliteStore};
use punctual_testkit::{
    faults::{Dials, FaultyStore, StoreGroup},
    patience::{HANG_LIMIT, until},
    servers,
    shared::{MemoryOwnership, SharedHot, SignalHub},
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};
use tokio::{task::JoinSet, time::timeout};

const OPTIONS: MysqlOptions =
    MysqlOptions { partitions: 4, writers_per_database: 2, readers_per_database: 4 };
const TASKS: usize = 200;
/// Far enough apart that a pause is set in the middle of them, even where a pause takes a while.
const APART_MS: usize = 20;
/// So often executors ask of whom none may be given anything.
const ASKED_AGAIN: usize = 5;

/// Two engines, each with its own way to the store. The second can be made deaf for settings.
struct Two {
    knows: Engine,
    deaf: Engine,
    way: Arc<FaultyStore>,
}

fn two(stores: [Arc<dyn Store>; 2]) -> Two {
    let hot = Arc::new(SharedHot::new(stores[0].partitions()));
    let (ownership, signals) = (Arc::new(MemoryOwnership::new(Arc::new(WallClock))), SignalHub::default());
    let [one, other] = stores;
    let limiter = Arc::new(punctual_hot::MemoryLimiter::default());
    let engine = |store: Arc<dyn Store>, name: &str| {
        let shared =
            SharedBackends { ownership: ownership.clone(), signals: signals.join(), stored_limiter: None };
        let backends = Backends {
            store,
            hot: hot.clone(),
            limiter: limiter.clone(),
            bus: Arc::new(punctual_bus::MemoryBus::default()),
            clock: Arc::new(WallClock),
            blobs: None,
            shared: Some(shared),
        };
        Engine::new(backends, Options { name: name.to_owned(), ..Options::default() })
    };
    let way = Arc::new(FaultyStore::new(other, 1));
    Two { knows: engine(one, "knows"), deaf: engine(way.clone(), "deaf"), way }
}

fn request(wait_ms: u64) -> LeaseRequest {
    let executor = "test".to_owned();
    LeaseRequest { queue: Arc::new(queue()), max: 3, wait_ms, lease_ms: 60_000, executor, version: None }
}

/// Executors lease at both engines while the queue is paused and resumed; half of the tasks are on the wheel then.
async fn nothing_starts_after_the_answer(stores: [Arc<dyn Store>; 2]) {
    let Two { knows, deaf, way } = two(stores);
    let running = [knows.start().unwrap(), deaf.start().unwrap()];
    // It has loaded what is set, which is nothing, and learns of nothing more.
    deaf.lease(request(0)).await.unwrap();
    way.faults.set(StoreGroup::Settings, Dials::REFUSES);
    let now = knows.now();
    let task = |nth: usize| {
        let delay_ms = i64::try_from(nth * APART_MS).unwrap();
        NewTask::new(queue(), Name::new("k").unwrap(), now.plus(delay_ms))
    };
    knows.insert((0..TASKS).map(task).collect(), "test").await.unwrap();
    let mut executors = JoinSet::new();
    let is_over = Arc::new(AtomicBool::new(false));
    let asked: [Arc<AtomicUsize>; 3] = Default::default();
    for (engine, asked) in [&knows, &deaf, &deaf].into_iter().zip(&asked) {
        let (engine, asked, is_over) = (engine.clone(), Arc::clone(asked), Arc::clone(&is_over));
        executors.spawn(async move {
            let mut leased = Vec::new();
            while !is_over.load(SeqCst) {
                leased.extend(engine.lease(request(200)).await.unwrap());
                asked.fetch_add(1, SeqCst);
            }
            leased
        });
    }
    let started = || async {
        let books = knows.store().books().await.unwrap();
        books.tallies.iter().filter(|tally| tally.state.is_in_flight()).map(|tally| tally.tasks).sum::<i64>()
    };
    until("some have started", || async { started().await >= 20 }).await;
    knows.pause(queue(), Some("a test".to_owned()), "ann").await.unwrap();
    let at_the_answer = started().await;
    // All that is left falls due meanwhile, and each executor asks for it again and again.
    let all_due_at = now.plus(i64::try_from(TASKS * APART_MS).unwrap());
    let before = asked.each_ref().map(|asked| asked.load(SeqCst));
    let has_asked = |(asked, before): (&Arc<AtomicUsize>, usize)| asked.load(SeqCst) >= before + ASKED_AGAIN;
    until("each executor has asked again", async || {
        knows.now() > all_due_at && asked.iter().zip(before).all(has_asked)
    })
    .await;
    is_over.store(true, SeqCst);
    let leased: Vec<_> = executors.join_all().await.into_iter().flatten().collect();
    assert_eq!(started().await, at_the_answer, "nothing has started since");
    assert_eq!(i64::try_from(leased.len()).unwrap(), at_the_answer);
    assert!(leased.len() < TASKS, "the pause came in the middle");
    way.faults.heal();
    knows.resume(queue(), "ann").await.unwrap();
    let mut all = leased;
    let leasing = timeout(HANG_LIMIT, async {
        while all.len() < TASKS {
            for engine in [&knows, &deaf] {
                all.extend(engine.lease(request(100)).await.unwrap());
            }
        }
    });
    assert!(leasing.await.is_ok(), "{} of {TASKS} came", all.len());
    let ids: std::collections::HashSet<i64> = all.iter().map(|lease| lease.place.id).collect();
    assert_eq!((ids.len(), all.len()), (TASKS, TASKS), "each once");
    assert!(all.iter().all(|lease| lease.attempt == 1), "a refusal spends no attempt");
    for process in running {
        process.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_starts_after_a_pause_at_an_engine_that_knows_nothing_of_it_embedded() {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory(&Default::default()).unwrap());
    nothing_starts_after_the_answer([Arc::clone(&store), store]).await;
}

async fn databases() -> Vec<String> {
    vec![servers::migrated_database().await, servers::migrated_database().await]
}

async fn open(urls: &[String]) -> Arc<MysqlStore> {
    Arc::new(MysqlStore::open(urls, OPTIONS).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_starts_after_a_pause_at_an_engine_that_knows_nothing_of_it_on_two_databases() {
    let urls = databases().await;
    nothing_starts_after_the_answer([open(&urls).await, open(&urls).await]).await;
}

const NOW: Millis = Millis(1_900_000_000_000);

/// Tasks in every partition, hence in both databases.
async fn claimed(store: &MysqlStore) -> Vec<Task> {
    let ask = |id| NewTask { task_id: Some(id), ..NewTask::new(queue(), Name::new("k").unwrap(), NOW) };
    let tasks = store.insert((1..41).map(ask).collect(), "test", NOW).await.unwrap();
    let claim = |task: &Task| Step {
        place: task.place,
        fence: Some(task.fence),
        change: Change::Claim,
        note: Note::default(),
        fired_at: None,
        known: None,
    };
    let tasks: Vec<Task> = tasks.into_iter().map(|task| task.task).collect();
    store.apply(tasks.iter().map(claim).collect(), NOW).await.unwrap();
    tasks
}

async fn refused(store: &MysqlStore, tasks: &[Task]) -> usize {
    let grant = |task: &Task| Grant {
        place: task.place,
        fence: task.fence,
        fired_at: NOW,
        lease_until: NOW.plus(60_000),
        executor: "test".to_owned(),
        namespace: punctual_domain::name::Name::default_namespace(),
        has_begun: false,
        known: None,
    };
    let answers = store.dispatch(tasks.iter().map(grant).collect(), NOW).await.unwrap();
    answers.iter().filter(|dispatched| **dispatched == Dispatched::Paused).count()
}

async fn sql(url: &str, text: &str) {
    servers::mariadb().await.sql(url.rsplit('/').next().unwrap(), text).await;
}

fn pause() -> SaveSetting {
    let pause = Some(Pause { at: NOW, by: "ann".to_owned(), reason: None });
    let setting = Setting::Queue(Box::new(QueueSettings { pause, ..QueueSettings::default() }));
    SaveSetting { scope: Scope::Queue(queue()), setting: Some(setting), expected: None, by: "ann".to_owned() }
}

/// As a crash after the first step leaves it: the catalog says so, and no database holds to it.
async fn forget_what_was_spread(urls: &[String]) {
    for url in urls {
        sql(url, "DELETE FROM paused_queue; UPDATE meta SET value = 0 WHERE name = 'pause_epoch'").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_whose_engine_died_before_it_was_spread_comes_into_force_by_itself() {
    let urls = databases().await;
    let first = open(&urls).await;
    let tasks = claimed(&first).await;
    first.save_setting(pause(), NOW).await.unwrap();
    assert_eq!(refused(&first, &tasks).await, tasks.len());
    first.close().await;
    forget_what_was_spread(&urls).await;
    let second = open(&urls).await;
    let is_spread = || async {
        let server = servers::mariadb().await;
        let name = urls[1].rsplit('/').next().unwrap();
        server.sql(name, "SELECT COUNT(*) FROM paused_queue").await.trim() == "1"
    };
    until("it is spread", is_spread).await;
    assert_eq!(refused(&second, &tasks).await, tasks.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn pausing_again_brings_a_half_spread_pause_everywhere_before_it_is_answered() {
    let urls = databases().await;
    let store = open(&urls).await;
    let tasks = claimed(&store).await;
    store.save_setting(pause(), NOW).await.unwrap();
    forget_what_was_spread(&urls[1..]).await;
    store.save_setting(pause(), NOW).await.unwrap();
    assert_eq!(refused(&store, &tasks).await, tasks.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_joins_holds_to_the_pauses_before_it_gets_a_partition() {
    let urls = databases().await;
    let store = Arc::new(MysqlStore::open(&urls[..1], OPTIONS).await.unwrap());
    store.save_setting(pause(), NOW).await.unwrap();
    store.close().await;
    MysqlStore::add_databases(&urls).await.unwrap();
    let server = servers::mariadb().await;
    let name = urls[1].rsplit('/').next().unwrap();
    assert_eq!(server.sql(name, "SELECT queue FROM paused_queue").await.trim(), "q");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_engine_hears_of_a_change_by_itself() {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory(&Default::default()).unwrap());
    let Two { knows, deaf, .. } = two([Arc::clone(&store), store]);
    let running = [knows.start().unwrap(), deaf.start().unwrap()];
    deaf.lease(request(0)).await.unwrap();
    knows.pause(queue(), None, "ann").await.unwrap();
    until("it knows", || async { deaf.known_settings(&queue()).pause.is_some() }).await;
    for process in running {
        process.stop().await;
    }
}
