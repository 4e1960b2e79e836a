//! An engine with a runner of bulk operations, on either kind of back ends. Only the test moves the clock.

use punctual_bulk::{Options as BulkOptions, Runner};
use punctual_bus::MemoryBus;
use punctual_contract::{BulkStore, Hot, Store, bulk::StoredBulk, store::Query};
use punctual_domain::{
    bulk::{Action, Bulk, Filter},
    name::{Name, QueueKey},
    task::{Content, NewTask, Task},
    time::Millis,
};
use punctual_engine::{Backends, Engine, Options};
use punctual_hot::{NoHot, RedisHot, RedisOptions};
use punctual_store::{MysqlOptions, MysqlStore, SqliteStore};
use punctual_testkit::{
    clock::ManualClock,
    faults::{FaultyBulk, FaultyStore},
    servers::{self, Proxy},
};
use std::sync::Arc;

pub(super) const START: Millis = Millis(1_900_000_020_000);
pub(super) const HOUR_MS: i64 = 3_600_000;
/// Tasks of one batch.
pub(super) const BATCH: usize = 10;

pub(super) struct Rig {
    pub(super) clock: ManualClock,
    pub(super) engine: Engine,
    pub(super) runner: Runner,
    pub(super) store: Arc<FaultyStore>,
    pub(super) bulks: Arc<FaultyBulk>,
    pub(super) hot: Arc<dyn Hot>,
}

/// Stamps a test of a rig for both kinds of back ends.
macro_rules! on_both {
    ($case:ident) => {
        mod $case {
            use crate::bulk::rig::Rig;

            #[tokio::test(flavor = "multi_thread")]
            async fn on_sqlite() {
                super::$case(Rig::sqlite()).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn on_mysql_and_redis() {
                super::$case(Rig::mysql().await).await;
            }
        }
    };
}
pub(super) use on_both;

pub(super) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(super) fn bulk(action: Action, queue: &str) -> Bulk {
    let filter = Filter { queue: Some(name(queue)), ..Filter::default() };
    Bulk { action, filter, rate: 100_000, reason: Some("a test".to_owned()) }
}

pub(super) const CANCEL: Action = Action::Cancel { stop_if_fired: false };

impl Rig {
    pub(super) fn sqlite() -> Self {
        let store = SqliteStore::in_memory(&punctual_store::Options::default()).unwrap();
        let hot = NoHot;
        Self::over(Arc::new(store), Arc::new(hot))
    }

    pub(super) async fn mysql() -> Self {
        let url = servers::migrated_database().await;
        let options = MysqlOptions { partitions: 2, ..MysqlOptions::default() };
        let store = MysqlStore::open(&[url], options).await.unwrap();
        let redis = servers::redis().await;
        let options = RedisOptions {
            partitions: store.partitions(),
            prefix: redis.fresh_prefix(),
            ..RedisOptions::default()
        };
        let hot = RedisHot::connect(&redis.url(), options).await.unwrap();
        Self::over(Arc::new(store), Arc::new(hot))
    }

    /// On two databases, the second behind a proxy.
    pub(super) async fn two_databases() -> (Self, Proxy) {
        let server = servers::mariadb().await;
        let second = Proxy::before(server.port());
        let mut urls = vec![servers::migrated_database().await, servers::migrated_database().await];
        urls[1] = urls[1].replace(&format!(":{}/", server.port()), &format!(":{}/", second.port()));
        let options = MysqlOptions { partitions: 8, ..MysqlOptions::default() };
        let store = MysqlStore::open(&urls, options).await.unwrap();
        let hot = NoHot;
        (Self::over(Arc::new(store), Arc::new(hot)), second)
    }

    fn over<S: Store + BulkStore>(store: Arc<S>, hot: Arc<dyn Hot>) -> Self {
        let bulks = Arc::new(FaultyBulk::new(store.clone(), 7));
        Self::on(ManualClock::at(START), Arc::new(FaultyStore::new(store, 7)), bulks, hot)
    }

    fn on(clock: ManualClock, store: Arc<FaultyStore>, bulks: Arc<FaultyBulk>, hot: Arc<dyn Hot>) -> Self {
        let backends = Backends {
            store: store.clone(),
            hot: hot.clone(),
            limiter: Arc::new(punctual_hot::MemoryLimiter::default()),
            bus: Arc::new(MemoryBus::new()),
            clock: Arc::new(clock.clone()),
            blobs: None,
            shared: None,
        };
        let engine = Engine::new(backends, Options::default());
        let options = BulkOptions { batch: BATCH, ..BulkOptions::default() };
        let runner = Runner::new(engine.clone(), bulks.clone(), options, None);
        Self { clock, engine, runner, store, bulks, hot }
    }

    /// Another engine on the same back ends: also the first one, started again.
    pub(super) fn beside(&self) -> Self {
        Self::on(self.clock.clone(), self.store.clone(), self.bulks.clone(), self.hot.clone())
    }

    pub(super) fn now(&self) -> Millis {
        self.engine.now()
    }

    /// So many tasks, due in an hour.
    pub(super) async fn insert(&self, queue: &str, count: i64) -> Vec<Task> {
        let key = QueueKey { namespace: Name::default_namespace(), queue: name(queue) };
        let ask = |nth: i64| {
            let task = NewTask::new(key.clone(), name("k"), START.plus(HOUR_MS));
            NewTask { payload: Content::json(nth.to_string()), ..task }
        };
        let inserted = self.engine.insert((0..count).map(ask).collect(), "test").await.unwrap();
        self.engine.run_once().await.unwrap();
        inserted.into_iter().map(|inserted| inserted.task).collect()
    }

    pub(super) async fn confirmed(&self, bulk: Bulk) -> StoredBulk {
        let previewed = self.runner.preview(&Name::default_namespace(), bulk, "ada").await.unwrap();
        self.runner
            .confirm(&Name::default_namespace(), previewed.stored.id, |_| true, "ada")
            .await
            .unwrap()
            .after
    }

    pub(super) async fn get(&self, id: i64) -> StoredBulk {
        self.runner.get(&Name::default_namespace(), id).await.unwrap()
    }

    pub(super) async fn run(&self) -> usize {
        self.runner.run_once(self.now()).await.unwrap()
    }

    /// Runs it, second by second, until it has ended.
    pub(super) async fn until_the_end(&self, id: i64) -> StoredBulk {
        for _ in 0..1_000 {
            drop(self.runner.run_once(self.now()).await);
            let stored = self.get(id).await;
            if stored.state.is_ended() {
                return stored;
            }
            self.clock.advance_ms(1_000);
        }
        panic!("it has no end: {:?}", self.get(id).await);
    }

    pub(super) async fn tasks(&self) -> Vec<Task> {
        let query = Query { limit: 5_000, ..Query::default() };
        self.engine.list(&query).await.unwrap().tasks
    }

    /// With its history.
    pub(super) async fn task(&self, like: &Task) -> Task {
        self.engine.read(like.place).await.unwrap()
    }

    pub(super) async fn is_balanced(&self) {
        let books = self.engine.store().books().await.unwrap();
        assert_eq!((books.unaccounted(), &books), (0, &self.engine.store().audit().await.unwrap()));
    }
}
