//! What two engines ask of a MariaDB of their own, counted: tasks of partitions that another engine owns cost no transaction
//! that is undone, and no row that is locked for nothing.

use crate::engine::{WallClock, queue};
use punctual_bus::MemoryBus;
use punctual_contract::store::Assignment;
use punctual_domain::{
    name::Name,
    outcome::Report,
    task::{NewTask, TaskResult},
};
use punctual_engine::{Backends, Engine, LeaseRequest, Options, OutcomeReport, Running, SharedBackends};
use punctual_hot::{RedisHot, RedisOptions};
use punctual_store::{MysqlOptions, MysqlStore};
use punctual_testkit::{
    patience::{HANG_LIMIT, until},
    servers::{MariaDb, Redis, STATEMENT_LOG, is_mysql},
};
use std::sync::Arc;
use tokio::time::timeout;

const PARTITIONS: u16 = 16;
/// Looks of each engine at who owns what, after which nothing moves any more.
const SETTLED_RUNS: u64 = 6;
const TASKS: usize = 1_000;
const BATCH: usize = 10;

struct LimiterSite {
    mysql: MariaDb,
    redis: Redis,
    url: String,
}

struct Node {
    engine: Engine,
    running: Running,
}

impl LimiterSite {
    async fn new() -> Self {
        let (mysql, redis) = (MariaDb::with(&STATEMENT_LOG).await, Redis::own().await);
        let url = mysql.fresh_database().await;
        MysqlStore::migrate_alone(&url).await.unwrap();
        Self { mysql, redis, url }
    }

    /// Two engines, each with its own partitions. Neither marks waiting tasks before it is stopped.
    async fn two(&self) -> [Node; 2] {
        let nodes = [self.node("a").await, self.node("b").await];
        let looks = || nodes.each_ref().map(|node| node.looks());
        let owned = || nodes.each_ref().map(|node| node.engine.owned());
        let (mut last, mut since) = (owned(), looks());
        until("the partitions are shared and nothing moves", || {
            if owned() != last {
                (last, since) = (owned(), looks());
            }
            let are_shared = !last.contains(&0) && last.iter().sum::<usize>() == usize::from(PARTITIONS);
            let is_recorded = looks().iter().zip(&since).all(|(now, then)| *now > then + SETTLED_RUNS);
            std::future::ready(are_shared && is_recorded)
        })
        .await;
        nodes
    }

    async fn node(&self, name: &str) -> Node {
        let options = MysqlOptions { partitions: PARTITIONS, ..MysqlOptions::default() };
        let store = Arc::new(MysqlStore::open(std::slice::from_ref(&self.url), options).await.unwrap());
        let options = RedisOptions { partitions: PARTITIONS, ..RedisOptions::default() };
        let hot = RedisHot::connect(&self.redis.url(), options).await.unwrap();
        let signals = Arc::new(hot.signals().await.unwrap());
        let backends = Backends {
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
            blobs: None,
        };
        let options =
            Options { name: name.to_owned(), mark_ready_interval_ms: 3_600_000, ..Options::default() };
        let engine = Engine::new(backends, options);
        let running = engine.start().unwrap();
        Node { engine, running }
    }
}

impl Node {
    /// At who owns what.
    fn looks(&self) -> u64 {
        let services = self.engine.meters().services();
        services.iter().filter(|service| service.name == "own").map(|service| service.runs).sum()
    }

    /// In batches, each due at another instant, early enough that owners claim them before.
    async fn insert(&self) {
        for nth in 0..TASKS / BATCH {
            let after_ms = 500 + 10 * i64::try_from(nth).unwrap();
            let execute_at = self.engine.now().plus(after_ms);
            let tasks = (0..BATCH).map(|_| NewTask::new(queue(), Name::new("k").unwrap(), execute_at));
            self.engine.insert(tasks.collect(), "test").await.unwrap();
        }
    }

    /// Leases all, one call after the other.
    async fn lease(&self) -> Vec<Assignment> {
        let request = LeaseRequest {
            queue: Arc::new(queue()),
            max: 100,
            wait_ms: 1_000,
            lease_ms: 3_600_000,
            executor: "test".to_owned(),
            version: None,
        };
        let mut leased = Vec::new();
        let leasing = timeout(HANG_LIMIT, async {
            while leased.len() < TASKS {
                leased.extend(self.engine.lease(request.clone()).await.unwrap());
            }
        });
        assert!(leasing.await.is_ok(), "{} of {TASKS} came", leased.len());
        leased
    }

    async fn succeed(&self, leased: &[Assignment]) {
        let report = |lease: &Assignment| OutcomeReport {
            place: lease.place,
            fence: lease.fence,
            report: Report::Succeeded,
            result: TaskResult { status_code: 0, status_msg: String::new(), content: None },
        };
        self.engine.record_outcomes(leased.iter().map(report).collect(), "test").await.unwrap();
    }
}

/// The engine that inserted a task has the facts that a hand-over needs. It is also notified that the
/// partition's owner has claimed the task.
#[tokio::test(flavor = "multi_thread")]
async fn no_hand_over_is_undone_because_another_engine_owns_the_partition() {
    if is_mysql() {
        // Its log says of no statement what it changed.
        return;
    }
    let site = LimiterSite::new().await;
    let [here, owner] = site.two().await;
    let statements = site.mysql.statements().await;
    let (leased, ()) = tokio::join!(here.lease(), here.insert());
    let asked = statements.tally(&site.mysql).await;
    assert!(asked.hand_overs >= 10, "{asked:?}");
    assert!(asked.hand_overs_undone * 50 <= asked.hand_overs, "{asked:?}");
    here.succeed(&leased).await;
    here.running.stop().await;
    owner.running.stop().await;
}

/// The owner of a partition has fired its tasks and waits to tell the store that they are ready: another engine has leased
/// them meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn what_another_engine_has_leased_is_not_locked_for_nothing() {
    if is_mysql() {
        return;
    }
    let site = LimiterSite::new().await;
    let [owner, there] = site.two().await;
    let (leased, ()) = tokio::join!(there.lease(), owner.insert());
    until("nothing waits", || async { there.engine.depth().await.unwrap().fired == 0 }).await;
    let statements = site.mysql.statements().await;
    // It reports to the store all that is unreported.
    owner.running.stop().await;
    let asked = statements.tally(&site.mysql).await;
    // The other engine tells whom it has handed them to, and locks what it changes.
    assert_eq!((asked.looks, asked.rows_locked_for_nothing), (0, 0), "{asked:?}");
    there.succeed(&leased).await;
    there.running.stop().await;
}
