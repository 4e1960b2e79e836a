//! Servers of one test, engines on them, and executors that never give up. Records all deliveries with their
//! times, and checks the promises at the end.
#![expect(clippy::print_stderr, reason = "what was measured is to be seen")]

use crate::engine::{WallClock, queue};
use parking_lot::Mutex;
use punctual_bus::MemoryBus;
use punctual_contract::{
    Error, Store,
    hot::HotEntry,
    store::{Assignment, Scan},
};
use punctual_domain::{
    name::Name,
    outcome::Report,
    place::TaskRef,
    state::State,
    task::{NewTask, TaskResult},
    time::Millis,
};
use punctual_engine::{
    Backends, Engine, LeaseRequest, Options, OutcomeReport, Reported, Running, ServiceNumbers, SharedBackends,
};
use punctual_hot::{ClusterName, NoHot, NoSignals, RateClock, RedisHot, RedisOptions, StoredLimiter};
use punctual_store::{MysqlOptions, MysqlStore};
use punctual_testkit::{
    patience::HANG_LIMIT,
    servers::{MariaDb, Proxy, Redis},
};
use std::{
    collections::{HashMap, hash_map::Entry},
    fmt::Debug,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{task::JoinSet, time::Instant};

pub(super) const PARTITIONS: u16 = 8;
/// Executors at each engine.
const EXECUTORS: usize = 3;
/// How long a busy executor works on its tasks: longer than the time until the next task is due.
const BUSY: Duration = Duration::from_millis(50);
/// The time until a refused executor asks again.
const BACK_OFF: Duration = Duration::from_millis(50);
/// Looks of each engine at who owns what, after which nothing moves any more.
const SETTLED_RUNS: u64 = 6;

/// Waits for a condition, up to the hang limit.
pub(super) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let since = Instant::now();
    while !is_so().await {
        assert!(since.elapsed() < HANG_LIMIT, "{what}: it never was so");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Checks for this long whether a value is unchanged.
pub(super) async fn stays<T: PartialEq + Debug>(
    what: &str,
    before: T,
    for_ms: u64,
    mut value: impl FnMut() -> T,
) {
    for look in 0..for_ms / 20 {
        assert_eq!(value(), before, "{what}: not any more at look {look}, 20 ms each");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(super) struct OutagesSite {
    pub(super) redis: Redis,
    pub(super) mysql: MariaDb,
    database_url: String,
    /// Between the engines and the servers, where faults of the way are made.
    ways: Option<Ways>,
}

pub(super) struct Ways {
    pub(super) mysql: Proxy,
    pub(super) redis: Proxy,
}

struct OutagesNode {
    engine: Engine,
    running: Running,
}

/// Engines and executors at work.
pub(super) struct Crew {
    pub(super) store: Arc<MysqlStore>,
    nodes: Vec<OutagesNode>,
    executors: JoinSet<()>,
    is_over: Arc<AtomicBool>,
    log: Arc<Mutex<OutageLog>>,
    began_at: Millis,
}

#[derive(Default)]
struct OutageLog {
    /// By id, where it is and when it is due.
    inserted: HashMap<i64, (TaskRef, Millis)>,
    /// By id, when it first came and for which due time.
    came: HashMap<i64, (Millis, Millis)>,
    accepted: HashMap<i64, usize>,
    early: usize,
    again: usize,
    /// Calls of executors that ended with an error.
    refused: usize,
}

/// The numbers so far.
#[derive(Clone, Copy)]
pub(super) struct OutageProgress {
    /// Partitions that Redis had lost.
    rebuilt: u64,
    /// Partitions that were looked through by the engine that began with them, or began anew.
    looked_through: u64,
    came: usize,
    from_store: u64,
    overdue: usize,
}

impl OutagesSite {
    pub(super) async fn new(redis_settings: &[&str]) -> Self {
        let (redis, mysql) = (Redis::with(redis_settings).await, MariaDb::own().await);
        let database_url = mysql.fresh_database().await;
        let site = Self { redis, mysql, database_url, ways: None };
        // Makes the tables.
        site.store(&site.database_url).await;
        site
    }

    pub(super) async fn behind_proxies() -> Self {
        Self::new(&[]).await.with_proxies()
    }

    /// Engines reach their servers by proxies.
    pub(super) fn with_proxies(self) -> Self {
        let ways = Ways { mysql: Proxy::before(self.mysql.port()), redis: Proxy::before(self.redis.port()) };
        Self { ways: Some(ways), ..self }
    }

    pub(super) fn ways(&self) -> &Ways {
        self.ways.as_ref().unwrap()
    }

    async fn store(&self, url: &str) -> Arc<MysqlStore> {
        let options = MysqlOptions { partitions: PARTITIONS, ..MysqlOptions::default() };
        Arc::new(MysqlStore::open(&[url.to_owned()], options).await.unwrap())
    }

    pub(super) async fn sql(&self, text: &str) -> String {
        let database = self.database_url.rsplit('/').next().unwrap();
        self.mysql.sql(database, text).await
    }

    pub(super) async fn cluster(&self) -> ClusterName {
        let (number, at) = self.store(&self.database_url).await.cluster();
        ClusterName { number, at }
    }

    /// As an engine has it.
    pub(super) async fn hot(&self) -> RedisHot {
        match self.hot_at(&self.redis.url()).await {
            (hot, None) => hot,
            (_, Some(away)) => panic!("{away}"),
        }
    }

    async fn hot_at(&self, redis_url: &str) -> (RedisHot, Option<Error>) {
        let cluster = Some(self.cluster().await);
        let options = RedisOptions { partitions: PARTITIONS, cluster, ..RedisOptions::default() };
        RedisHot::begin(redis_url, options).await.unwrap()
    }

    async fn node(&self, name: String, redis_url: Option<&str>) -> OutagesNode {
        let through = |url: &str, port: u16, proxy: fn(&Ways) -> &Proxy| match &self.ways {
            Some(ways) => url.replace(&format!(":{port}"), &format!(":{}", proxy(ways).port())),
            None => url.to_owned(),
        };
        let store = self.store(&through(&self.database_url, self.mysql.port(), |ways| &ways.mysql)).await;
        let ownership = Arc::new(store.ownership());
        let stored = || Arc::new(StoredLimiter::new(Arc::new(store.ownership()), RateClock::Server));
        let backends = |hot, limiter, signals, stored_limiter| Backends {
            blobs: None,
            shared: Some(SharedBackends { ownership, signals, stored_limiter }),
            store: Arc::clone(&store) as Arc<dyn Store>,
            limiter,
            hot,
            bus: Arc::new(MemoryBus::default()),
            clock: Arc::new(WallClock),
        };
        let options = Options { name, ..Options::default() };
        let engine = match redis_url {
            Some(url) => {
                let (hot, away) = self.hot_at(&through(url, self.redis.port(), |ways| &ways.redis)).await;
                let signals = Arc::new(hot.signals().await.unwrap());
                let limiter = Arc::new(hot.limiter(RateClock::Server));
                let hot = Arc::new(hot);
                let engine = Engine::new(backends(hot, limiter, signals, Some(stored())), options);
                away.iter().for_each(|error| engine.begins_without_hot_set(error));
                engine
            }
            None => Engine::new(backends(Arc::new(NoHot), stored(), Arc::new(NoSignals), None), options),
        };
        let running = engine.start().unwrap();
        OutagesNode { engine, running }
    }

    pub(super) async fn crew(&self, engines: usize) -> Crew {
        self.crew_by(&vec![self.redis.url(); engines]).await
    }

    /// All engines run without Redis.
    pub(super) async fn crew_without_redis(&self, engines: usize) -> Crew {
        self.crew_of(&vec![None; engines], (EXECUTORS, Duration::ZERO)).await
    }

    /// Executors at the first engine only.
    pub(super) async fn crew_asked_at_one(&self, redis_urls: &[Option<String>]) -> Crew {
        let nodes = self.nodes(redis_urls).await;
        self.crew_on(nodes, 1, (EXECUTORS, Duration::ZERO)).await
    }

    /// One executor at each engine, which hardly ever waits: almost no task is leased ahead of its instant,
    /// and each task is read from Redis when it is due.
    pub(super) async fn busy_crew(&self, engines: usize) -> Crew {
        self.crew_of(&vec![Some(self.redis.url()); engines], (1, BUSY)).await
    }

    /// Each engine has its own way to Redis.
    pub(super) async fn crew_by(&self, redis_urls: &[String]) -> Crew {
        let redis_urls: Vec<_> = redis_urls.iter().cloned().map(Some).collect();
        self.crew_of(&redis_urls, (EXECUTORS, Duration::ZERO)).await
    }

    async fn crew_of(&self, redis_urls: &[Option<String>], executors: (usize, Duration)) -> Crew {
        let nodes = self.nodes(redis_urls).await;
        self.crew_on(nodes, redis_urls.len(), executors).await
    }

    async fn nodes(&self, redis_urls: &[Option<String>]) -> Vec<OutagesNode> {
        let mut nodes = Vec::new();
        for (nth, url) in redis_urls.iter().enumerate() {
            nodes.push(self.node(format!("e{nth}"), url.as_deref()).await);
        }
        nodes
    }

    async fn crew_on(
        &self,
        nodes: Vec<OutagesNode>,
        asked: usize,
        (executors_each, busy): (usize, Duration),
    ) -> Crew {
        let owned = || nodes.iter().map(|node| node.engine.owned()).sum::<usize>();
        until("all partitions are owned", async || owned() >= usize::from(PARTITIONS)).await;
        let (is_over, log) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(OutageLog::default())));
        let mut executors = JoinSet::new();
        for node in nodes.iter().take(asked) {
            for _ in 0..executors_each {
                executors.spawn(work(node.engine.clone(), busy, Arc::clone(&log), Arc::clone(&is_over)));
            }
        }
        let began_at = nodes[0].engine.now();
        Crew { store: self.store(&self.database_url).await, nodes, executors, is_over, log, began_at }
    }
}

/// Leases and reports until it is over. A report whose answer was lost is made again until there is one.
async fn work(engine: Engine, busy: Duration, log: Arc<Mutex<OutageLog>>, is_over: Arc<AtomicBool>) {
    while !is_over.load(SeqCst) {
        let request = LeaseRequest {
            queue: Arc::new(queue()),
            max: 50,
            wait_ms: 500,
            lease_ms: 30_000,
            executor: "test".to_owned(),
            version: None,
        };
        let Ok(leased) = engine.lease(request).await else {
            log.lock().refused += 1;
            tokio::time::sleep(BACK_OFF).await;
            continue;
        };
        log.lock().came(&leased, engine.now());
        if !busy.is_zero() && !leased.is_empty() {
            tokio::time::sleep(busy).await;
        }
        let reports: Vec<OutcomeReport> = leased.iter().map(succeeded).collect();
        let recorded = loop {
            match engine.record_outcomes(reports.clone(), "test").await {
                Ok(recorded) => break recorded,
                Err(_) => {
                    log.lock().refused += 1;
                    tokio::time::sleep(BACK_OFF).await;
                }
            }
        };
        let mut log = log.lock();
        for (lease, _) in leased.iter().zip(recorded).filter(|(_, recorded)| *recorded == Reported::Accepted)
        {
            *log.accepted.entry(lease.place.id).or_default() += 1;
        }
    }
}

fn succeeded(lease: &Assignment) -> OutcomeReport {
    OutcomeReport {
        place: lease.place,
        fence: lease.fence,
        report: Report::Succeeded,
        result: TaskResult::default(),
    }
}

impl OutageLog {
    fn came(&mut self, leased: &[Assignment], now: Millis) {
        for lease in leased {
            self.early += usize::from(lease.fired_at < lease.due_at || now < lease.due_at);
            match self.came.entry(lease.place.id) {
                Entry::Occupied(_) => self.again += 1,
                Entry::Vacant(place) => drop(place.insert((lease.due_at, now))),
            }
        }
    }
}

impl Crew {
    /// Evenly over a span of time from now on, in ms.
    pub(super) async fn insert(&self, count: i64, span_ms: Range<i64>) {
        let now = self.nodes[0].engine.now();
        let step = |nth: i64| span_ms.start + (span_ms.end - span_ms.start) * nth / count;
        let tasks: Vec<NewTask> = (0..count)
            .map(|nth| NewTask::new(queue(), Name::new("k").unwrap(), now.plus(step(nth))))
            .collect();
        for (nth, some) in tasks.chunks(500).enumerate() {
            let engine = &self.nodes[nth % self.nodes.len()].engine;
            let inserted = engine.insert(some.to_vec(), "test").await.unwrap();
            let mut log = self.log.lock();
            log.inserted.extend(
                inserted
                    .iter()
                    .map(|inserted| (inserted.task.place.id, (inserted.task.place, inserted.task.due_at))),
            );
        }
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.nodes[0].engine
    }

    pub(super) fn engines(&self) -> impl Iterator<Item = &Engine> {
        self.nodes.iter().map(|node| &node.engine)
    }

    /// Of all engines, by name.
    pub(super) async fn alerts(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for engine in self.engines() {
            names.extend(engine.alerts().await.unwrap().iter().map(|alert| alert.kind.name()));
        }
        names
    }

    pub(super) fn terms_raised(&self) -> u64 {
        self.engines().map(|engine| engine.meters().terms_raised_total()).sum()
    }

    /// With their due times.
    pub(super) fn inserted(&self) -> Vec<(TaskRef, Millis)> {
        self.log.lock().inserted.values().copied().collect()
    }

    /// The entry that the hot set should have for the task.
    pub(super) async fn entry_of(&self, place: TaskRef) -> HotEntry {
        let scan = Scan { partition: place.partition, until: Millis::MAX, after: None, limit: 10_000 };
        let waiting = self.store.scan(scan).await.unwrap();
        waiting.into_iter().find(|entry| entry.place.id == place.id).expect("it waits")
    }

    pub(super) fn elapsed_ms(&self) -> i64 {
        self.engine().now().since(self.began_at)
    }

    /// While tasks come it continues: then nothing hangs.
    pub(super) async fn have_come(&self, count: usize) {
        let (mut come, mut since) = (self.came(), Instant::now());
        while come < count {
            assert!(since.elapsed() < HANG_LIMIT, "{come} of {count} have come");
            tokio::time::sleep(Duration::from_millis(5)).await;
            if self.came() > come {
                (come, since) = (self.came(), Instant::now());
            }
        }
    }

    /// The number of due tasks that no executor has received.
    pub(super) fn overdue(&self) -> usize {
        let (now, log) = (self.engine().now(), self.log.lock());
        let is_overdue = |id: &i64, due_at: Millis| due_at <= now && !log.came.contains_key(id);
        log.inserted.iter().filter(|(id, (_, due_at))| is_overdue(id, *due_at)).count()
    }

    /// Something is unavailable: until so many are overdue.
    pub(super) async fn are_overdue(&self, count: usize) {
        until("many are overdue", async || self.overdue() >= count).await;
    }

    /// Executors have called from now on, and were refused.
    pub(super) async fn are_refused(&self) {
        let before = self.log.lock().refused;
        until("executors are refused", async || self.log.lock().refused > before).await;
    }

    /// Redis is unavailable: until each engine knows, and so many have come of those that had not come when it went.
    pub(super) async fn fire_from_the_store(&self, count: usize) {
        let (came, before) = (self.came(), self.fired_from_store());
        until("each engine knows", async || self.engines().all(Engine::hot_is_away)).await;
        self.have_come(came + count).await;
        let fired = || usize::try_from(self.fired_from_store() - before).unwrap();
        until("they fire from the store", async || fired() >= count / 2).await;
    }

    pub(super) async fn have_redis_again(&self) -> OutageProgress {
        until("Redis is back", async || !self.engines().any(Engine::hot_is_away)).await;
        self.progress()
    }

    /// Until so many have come that were not fired from the store, since Redis is back.
    pub(super) async fn fire_from_redis(&self, back: OutageProgress, count: usize) {
        until("they fire from Redis again", async || {
            let now = self.progress();
            let from_store = usize::try_from(now.from_store - back.from_store).unwrap();
            // What was overdue then may have been fired from the store before.
            now.came >= back.came + back.overdue + from_store + count
        })
        .await;
    }

    /// Partitions that engines have looked through, each as often as they did.
    pub(super) fn looked_through(&self) -> u64 {
        let looked_through = |engine: &Engine| service(engine, "adopt").map_or(0, |adopt| adopt.handled);
        self.engines().map(looked_through).sum()
    }

    pub(super) fn progress(&self) -> OutageProgress {
        OutageProgress {
            rebuilt: self.engines().map(|engine| engine.meters().rebuilt_total()).sum(),
            looked_through: self.looked_through(),
            came: self.came(),
            from_store: self.fired_from_store(),
            overdue: self.overdue(),
        }
    }

    /// All that Redis has lost is in it again. How many fell due since and before it was.
    pub(super) async fn are_filled_again(&self, before: OutageProgress) -> usize {
        let all = u64::from(PARTITIONS);
        until("the loss is seen", async || self.progress().rebuilt >= before.rebuilt + all).await;
        let looked_through = async || self.progress().looked_through >= before.looked_through + all;
        until("all are looked through", looked_through).await;
        self.preloads_again(1).await;
        self.came() + self.overdue() - before.came
    }

    /// Partitions of each engine, once each has looked several times and moved nothing.
    pub(super) async fn final_shares(&self) -> Vec<usize> {
        let owned = || self.engines().map(Engine::owned).collect::<Vec<_>>();
        let looks = || {
            let looks = |engine: &Engine| service(engine, "rebalance").map_or(0, |service| service.runs);
            self.engines().map(looks).collect::<Vec<_>>()
        };
        let (mut last, mut since) = (owned(), looks());
        until("nothing moves", async || {
            let now = owned();
            if now != last {
                (last, since) = (now, looks());
            }
            looks().iter().zip(&since).all(|(now, then)| *now > then + SETTLED_RUNS)
        })
        .await;
        last
    }

    pub(super) fn came(&self) -> usize {
        self.log.lock().came.len()
    }

    /// Until each engine's preloader has run so many more times.
    pub(super) async fn preloads_again(&self, times: u64) {
        for node in &self.nodes {
            let runs = || service(&node.engine, "preload").map_or(0, |preload| preload.runs);
            let wanted = runs() + times;
            until("its preloader runs", async || runs() >= wanted).await;
        }
    }

    /// Checks the promises for the tasks that executors received; the others are left where they are.
    pub(super) async fn near_ones(mut self, what: &str) {
        self.stop().await;
        self.are_as_promised(what);
    }

    /// Executors stop asking, and each task is accounted for.
    pub(super) async fn stop(&mut self) {
        self.is_over.store(true, SeqCst);
        while self.executors.join_next().await.is_some() {}
        for node in self.nodes.drain(..) {
            node.running.stop().await;
        }
        let books = self.store.books().await.unwrap();
        assert_eq!((books.unaccounted(), &books), (0, &self.store.audit().await.unwrap()));
    }

    /// None came early, none was completed twice. Says how late they were.
    fn are_as_promised(&self, what: &str) {
        let log = self.log.lock();
        assert_eq!(log.early, 0, "tasks came early");
        assert!(log.accepted.values().all(|number| *number == 1), "tasks were completed twice");
        let mut all: Vec<i64> = log.came.values().map(|(due_at, came_at)| came_at.since(*due_at)).collect();
        all.sort_unstable();
        let at = |share: usize| all[(all.len() - 1) * share / 1_000];
        let (count, median, p99, last) = (all.len(), at(500), at(990), at(1_000));
        eprintln!(
            "{what}: {count} tasks came, late by {median} ms at the median, {p99} p99, {last} at worst; {} came again",
            log.again
        );
    }

    /// Found overdue in the store and in no hot set.
    pub(super) fn swept(&self) -> usize {
        let swept = self.engines().map(|engine| engine.meters().swept_total()).sum::<u64>();
        usize::try_from(swept).unwrap()
    }

    pub(super) fn fired_from_store(&self) -> u64 {
        self.nodes.iter().map(|node| node.engine.meters().fired_from_store_total()).sum()
    }

    /// Waits until all tasks are delivered and have ended, and checks the promises. Returns how many were
    /// swept.
    pub(super) async fn finish(mut self, what: &str, count: usize) -> usize {
        assert_eq!(self.log.lock().inserted.len(), count);
        self.have_come(count).await;
        self.are_settled(count).await;
        let from_store = self.fired_from_store();
        let swept = self.swept();
        let rebuilt: u64 = self.nodes.iter().map(|node| node.engine.meters().rebuilt_total()).sum();
        self.stop().await;
        eprintln!("{what}: {from_store} fired from the store, {swept} swept, {rebuilt} partitions rebuilt");
        self.are_as_promised(what);
        swept
    }

    /// The store says so, whatever executors were notified.
    async fn are_settled(&self, count: usize) {
        until("all are settled", async || {
            let books = self.store.books().await.unwrap();
            let succeeded = books.tallies.iter().filter(|tally| tally.state == State::Succeeded);
            succeeded.map(|count| count.tasks).sum::<i64>() == i64::try_from(count).unwrap()
        })
        .await;
    }
}

fn service(engine: &Engine, name: &str) -> Option<ServiceNumbers> {
    engine.meters().services().into_iter().find(|service| service.name == name)
}
