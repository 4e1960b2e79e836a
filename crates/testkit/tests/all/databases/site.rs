//! Two databases of one server, each behind its own proxy, engines on them, and executors that report each
//! outcome until it is acknowledged. Records all deliveries with their times.
#![expect(clippy::print_stderr, reason = "what was measured is to be seen")]

use crate::engine::{WallClock, queue};
use parking_lot::Mutex;
use punctual_bus::MemoryBus;
use punctual_contract::{
    Error, Ownership as _, Store,
    store::{Assignment, Inserted, Query},
};
use punctual_domain::{
    name::{Name, QueueKey},
    outcome::Report,
    place::TaskRef,
    state::State,
    task::{NewTask, TaskResult},
    time::Millis,
};
use punctual_engine::{Backends, Engine, LeaseRequest, Options, OutcomeReport, Running, SharedBackends};
use punctual_hot::{RedisHot, RedisOptions};
use punctual_store::{MysqlOptions, MysqlStore};
use punctual_testkit::{
    patience::{HANG_LIMIT, until},
    servers::{MariaDb, Proxy, Redis},
};
use std::{
    collections::HashMap,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{task::JoinSet, time::Instant};

const PARTITIONS: u16 = 8;
const EXECUTORS: usize = 4;
const BACK_OFF: Duration = Duration::from_millis(50);
/// Looks of each engine at who owns what, after which nothing moves any more.
const SETTLED_RUNS: u64 = 6;

pub(super) fn say(text: &str) {
    eprintln!("{text}");
}

/// Whether engines go to the second database by one way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ways {
    Together,
    Apart,
}

pub(super) struct ShardedSite {
    pub(super) store: Arc<MysqlStore>,
    pub(super) first: Proxy,
    /// Of all.
    pub(super) second: Proxy,
    /// Each engine's own, before that; none, where they go the same.
    pub(super) apart: Vec<Proxy>,
    pub(super) nodes: Vec<(Engine, Option<Running>)>,
    executors: JoinSet<()>,
    is_over: Arc<AtomicBool>,
    log: Arc<Mutex<Log>>,
    _redis: Redis,
    _mysql: MariaDb,
}

#[derive(Default)]
struct Log {
    /// By id: where it is, and when it is due.
    inserted: HashMap<i64, (TaskRef, Millis)>,
    /// By id, when it first came.
    came: HashMap<i64, Millis>,
}

/// In ms, sorted.
pub(super) struct Late(pub(super) Vec<i64>);

impl Late {
    pub(super) fn figures(&self) -> (i64, i64, i64) {
        let at =
            |share: usize| self.0.get(self.0.len().saturating_sub(1) * share / 100).copied().unwrap_or(0);
        (at(50), at(99), at(100))
    }
}

pub(super) async fn store(urls: &[String]) -> Arc<MysqlStore> {
    let options = MysqlOptions { partitions: PARTITIONS, ..MysqlOptions::default() };
    Arc::new(MysqlStore::open(urls, options).await.unwrap())
}

pub(super) async fn redis_hot(redis: &Redis) -> RedisHot {
    let options = RedisOptions { partitions: PARTITIONS, ..RedisOptions::default() };
    RedisHot::connect(&redis.url(), options).await.unwrap()
}

async fn start(urls: &[String], redis: &Redis, options: Options) -> (Engine, Option<Running>) {
    let store = store(urls).await;
    let hot = redis_hot(redis).await;
    let signals = Arc::new(hot.signals().await.unwrap());
    let backends = Backends {
        blobs: None,
        shared: Some(SharedBackends {
            ownership: Arc::new(store.ownership()),
            signals,
            stored_limiter: None,
        }),
        store,
        limiter: Arc::new(hot.limiter(punctual_hot::RateClock::Server)),
        hot: Arc::new(hot),
        bus: Arc::new(MemoryBus::default()),
        clock: Arc::new(WallClock),
    };
    let engine = Engine::new(backends, options);
    let running = engine.start().unwrap();
    (engine, Some(running))
}

pub(super) fn task(execute_at: Millis) -> NewTask {
    // One attempt: what is lost is dead.
    NewTask { max_attempts: 1, ..NewTask::new(queue(), Name::new("k").unwrap(), execute_at) }
}

impl ShardedSite {
    pub(super) async fn new(engines: usize) -> Self {
        Self::with(engines, Ways::Together, &Options::default()).await
    }

    /// Two engines, each with a way of its own to the second database.
    pub(super) async fn with_ways_apart() -> Self {
        Self::with(2, Ways::Apart, &Options::default()).await
    }

    /// One engine, which hands over only tasks that have fired.
    pub(super) async fn without_leases_ahead() -> Self {
        Self::with(1, Ways::Together, &Options { ahead_ms: 0, ..Options::default() }).await
    }

    async fn with(engines: usize, ways: Ways, options: &Options) -> Self {
        let (redis, mysql) = (Redis::own().await, MariaDb::own().await);
        let (first, second) = (Proxy::before(mysql.port()), Proxy::before(mysql.port()));
        let mut urls = Vec::new();
        for proxy in [&first, &second] {
            let url = mysql.fresh_database().await;
            urls.push(url.replace(&format!(":{}/", mysql.port()), &format!(":{}/", proxy.port())));
        }
        let store = store(&urls).await;
        let (mut nodes, mut apart) = (Vec::new(), Vec::new());
        for nth in 0..engines {
            let (mut urls, options) = (urls.clone(), Options { name: format!("e{nth}"), ..options.clone() });
            if ways == Ways::Apart {
                let proxy = Proxy::before(second.port());
                urls[1] = urls[1].replace(&format!(":{}/", second.port()), &format!(":{}/", proxy.port()));
                apart.push(proxy);
            }
            nodes.push(start(&urls, &redis, options).await);
        }
        let owned = || nodes.iter().map(|node| node.0.owned()).sum::<usize>();
        until("all partitions are owned", || async { owned() >= usize::from(PARTITIONS) }).await;
        let (is_over, log) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Log::default())));
        let mut executors = JoinSet::new();
        for (engine, _) in &nodes {
            for _ in 0..EXECUTORS {
                executors.spawn(work(engine.clone(), Arc::clone(&log), Arc::clone(&is_over)));
            }
        }
        Self { store, first, second, apart, nodes, executors, is_over, log, _redis: redis, _mysql: mysql }
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.nodes[0].0
    }

    pub(super) fn now(&self) -> Millis {
        self.engine().now()
    }

    pub(super) fn is_in_first(&self, place: TaskRef) -> bool {
        self.store.part_of(place.partition) == 0
    }

    /// Evenly over a span of time from now on, in ms.
    pub(super) async fn insert(&self, count: i64, span_ms: Range<i64>) {
        let now = self.now();
        let at = |nth: i64| now.plus(span_ms.start + (span_ms.end - span_ms.start) * nth / count);
        let inserted =
            self.engine().insert((0..count).map(|nth| task(at(nth))).collect(), "test").await.unwrap();
        let inserted = inserted
            .into_iter()
            .map(|inserted| (inserted.task.place.id, (inserted.task.place, inserted.task.due_at)));
        self.log.lock().inserted.extend(inserted);
    }

    pub(super) async fn insert_each(&self, count: i64) -> Vec<Result<Inserted, Error>> {
        let at = self.now().plus(3_600_000);
        self.engine().insert_each((0..count).map(|_| task(at)).collect(), "test").await.unwrap()
    }

    /// Rows of the first database, overdue from the beginning.
    pub(super) async fn insert_behind_the_back(&self, count: usize) -> Vec<TaskRef> {
        let now = self.now();
        let inserted =
            self.store.insert_each((0..count).map(|_| task(now)).collect(), "test", now).await.unwrap();
        let mut places: Vec<TaskRef> =
            inserted.into_iter().flatten().map(|inserted| inserted.task.place).collect();
        places.retain(|place| self.is_in_first(*place));
        places
    }

    /// Leases of a queue whose executor has died.
    pub(super) async fn leased_by_one_who_dies(&self, count: usize) -> Vec<TaskRef> {
        let lonely = QueueKey { queue: Name::new("lonely").unwrap(), ..queue() };
        let at = self.now();
        let new = |_| NewTask::new(lonely.clone(), Name::new("k").unwrap(), at);
        self.engine().insert((0..count).map(new).collect(), "test").await.unwrap();
        let mut places = Vec::new();
        while places.len() < count {
            let request = LeaseRequest { queue: Arc::new(lonely.clone()), lease_ms: 2_000, ..request() };
            places.extend(self.engine().lease(request).await.unwrap().into_iter().map(|lease| lease.place));
        }
        places
    }

    pub(super) fn come(&self) -> usize {
        self.log.lock().came.len()
    }

    pub(super) async fn have_come(&self, count: usize) {
        self.until(&format!("{count} have come"), async || self.come() >= count).await;
    }

    /// While tasks come it continues: then nothing hangs.
    pub(super) async fn until(&self, what: &str, is_so: impl AsyncFn() -> bool) {
        let (mut come, mut since) = (self.come(), Instant::now());
        while !is_so().await {
            if self.come() > come {
                (come, since) = (self.come(), Instant::now());
            }
            assert!(since.elapsed() < HANG_LIMIT, "never: {what}; {come} have come");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Who owns the partitions of the second database, in order, and by which term.
    pub(super) async fn owners_of_the_second(&self) -> Vec<(String, i64)> {
        let owners = self.store.ownership().owners().await.unwrap();
        let there = owners.into_iter().filter(|owner| self.store.part_of(owner.tenure.partition) == 1);
        there.map(|owner| (owner.engine, owner.tenure.term)).collect()
    }

    /// How often each engine has looked at who owns what.
    fn looks(&self) -> Vec<u64> {
        let of_engine = |engine: &Engine| {
            let services = engine.meters().services();
            services.iter().filter(|service| service.name == "rebalance").map(|service| service.runs).sum()
        };
        self.nodes.iter().map(|(engine, _)| of_engine(engine)).collect()
    }

    /// When each engine has its share of them, and each has looked several times and moved nothing.
    pub(super) async fn settled_owners_of_the_second(&self) -> Vec<(String, i64)> {
        let (mut owners, mut since) = (self.owners_of_the_second().await, self.looks());
        loop {
            let now = self.owners_of_the_second().await;
            if now != owners {
                (owners, since) = (now, self.looks());
            }
            let has_share = |engine: &Engine| owners.iter().any(|owner| owner.0 == engine.name());
            let have_looked = self.looks().iter().zip(&since).all(|(now, then)| *now > then + SETTLED_RUNS);
            if have_looked && self.nodes.iter().all(|(engine, _)| has_share(engine)) {
                return owners;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Tasks of one database: where they are, when they fall due, and when they came.
    fn of_database(&self, database: usize) -> Vec<(TaskRef, Millis, Option<Millis>)> {
        let log = self.log.lock();
        let inserted = log.inserted.iter().map(|(id, (place, due_at))| (*place, *due_at, log.came.get(id)));
        let of_it = inserted.filter(|(place, ..)| self.store.part_of(place.partition) == database);
        of_it.map(|(place, due_at, came_at)| (place, due_at, came_at.copied())).collect()
    }

    fn left_of(&self, database: usize) -> Vec<TaskRef> {
        let left = self.of_database(database).into_iter().filter(|(_, _, came_at)| came_at.is_none());
        left.map(|(place, ..)| place).collect()
    }

    /// Those of the first database that have not come.
    pub(super) fn left_of_the_first(&self) -> Vec<TaskRef> {
        self.left_of(0)
    }

    pub(super) fn left_of_the_second(&self) -> Vec<TaskRef> {
        self.left_of(1)
    }

    pub(super) fn has_come(&self, task: TaskRef) -> bool {
        self.log.lock().came.contains_key(&task.id)
    }

    fn missing_of(&self, database: usize, (from, to): (Millis, Millis)) -> usize {
        let is_due = |due_at: Millis| due_at >= from && due_at < to;
        let tasks = self.of_database(database).into_iter();
        tasks.filter(|(_, due_at, came_at)| is_due(*due_at) && came_at.is_none()).count()
    }

    /// Those of the first database that fell due between and have not come.
    pub(super) fn missing_of_the_first(&self, from: Millis, to: Millis) -> usize {
        self.missing_of(0, (from, to))
    }

    pub(super) fn missing_of_the_second(&self, from: Millis, to: Millis) -> usize {
        self.missing_of(1, (from, to))
    }

    fn late_of(&self, database: usize, (from, to): (Millis, Millis)) -> Late {
        let tasks = self.of_database(database).into_iter();
        let due = tasks.filter(|(_, due_at, _)| *due_at >= from && *due_at < to);
        let mut late: Vec<i64> =
            due.filter_map(|(_, due_at, came_at)| Some(came_at?.since(due_at))).collect();
        late.sort_unstable();
        Late(late)
    }

    /// How late those of the first database were that fell due between and have come.
    pub(super) fn late_of_the_first(&self, from: Millis, to: Millis) -> Late {
        self.late_of(0, (from, to))
    }

    pub(super) fn late_of_the_second(&self, from: Millis, to: Millis) -> Late {
        self.late_of(1, (from, to))
    }

    /// All have come and are settled; nothing is dead.
    pub(super) async fn finish(mut self, count: usize) {
        self.until("all have succeeded", async || {
            let Ok(books) = self.store.books().await else { return false };
            let of = |state| {
                books
                    .tallies
                    .iter()
                    .filter(move |tally| tally.state == state)
                    .map(|tally| tally.tasks)
                    .sum::<i64>()
            };
            if of(State::Dead) > 0 {
                let query = Query { state: Some(State::Dead), limit: 1, ..Query::default() };
                let dead = self.store.list(&query).await.map(|page| page.tasks);
                panic!("{} are dead, the last of them {dead:?}", of(State::Dead));
            }
            of(State::Succeeded) == i64::try_from(count).unwrap()
        })
        .await;
        assert_eq!(self.come(), count);
        self.is_over.store(true, SeqCst);
        while self.executors.join_next().await.is_some() {}
        for (_, running) in &mut self.nodes {
            running.take().unwrap().stop().await;
        }
        let books = self.store.books().await.unwrap();
        assert_eq!((books.unaccounted(), &books), (0, &self.store.audit().await.unwrap()));
    }
}

pub(super) fn request() -> LeaseRequest {
    LeaseRequest {
        queue: Arc::new(queue()),
        max: 10,
        wait_ms: 500,
        lease_ms: 60_000,
        executor: "test".to_owned(),
        version: None,
    }
}

/// As a worker does: the slot is free while the report is on its way.
async fn work(engine: Engine, log: Arc<Mutex<Log>>, is_over: Arc<AtomicBool>) {
    let mut reports = JoinSet::new();
    while !is_over.load(SeqCst) {
        let Ok(leased) = engine.lease(request()).await else {
            tokio::time::sleep(BACK_OFF).await;
            continue;
        };
        let now = engine.now();
        for lease in leased {
            assert!(now >= lease.due_at, "early");
            log.lock().came.entry(lease.place.id).or_insert(now);
            reports.spawn(report(engine.clone(), lease));
        }
        while reports.try_join_next().is_some() {}
    }
    while reports.join_next().await.is_some() {}
}

async fn report(engine: Engine, lease: Assignment) {
    let report = OutcomeReport {
        place: lease.place,
        fence: lease.fence,
        report: Report::Succeeded,
        result: TaskResult::default(),
    };
    while engine.record_outcomes(vec![report.clone()], "test").await.is_err() {
        tokio::time::sleep(BACK_OFF).await;
    }
}
