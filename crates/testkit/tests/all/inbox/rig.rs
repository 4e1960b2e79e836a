//! An engine with the API in front, a store of either kind, and a user's database with an inbox behind an address that can
//! be cut. Relays run when the test says so, and only the test moves the engine's clock.

use axum::{Router, body::Body, http::Request};
use punctual_bus::MemoryBus;
use punctual_contract::{
    Error, InboxTable, Store,
    inbox::{InboxCounts, InboxRow, RefusedRow, RowHead},
};
use punctual_domain::{name::Name, time::Millis};
use punctual_engine::{Backends, Engine, Options};
use punctual_hot::NoHot;
use punctual_inbox::{Intake, Relay};
use punctual_server::{EngineIntake, ServerOptions};
use punctual_store::{InboxTableName, MysqlInbox, MysqlOptions, MysqlStore, SqliteStore};
use punctual_testkit::{
    clock::ManualClock,
    faults::FaultyStore,
    patience::until,
    servers::{self, MariaDb, Proxy},
};
use serde_json::Value;
use std::sync::Arc;
use tower::ServiceExt as _;

const START: Millis = Millis(1_900_000_000_000);

pub(crate) struct InboxRig {
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) engine: Engine,
    pub(crate) clock: ManualClock,
    pub(crate) way: Proxy,
    pub(crate) relay: Relay,
    router: Router,
    server: &'static MariaDb,
    database: String,
}

/// A table whose relay dies when its rows are tasks, and before it has removed them.
#[derive(Debug)]
struct DyingTable {
    inner: MysqlInbox,
}

#[async_trait::async_trait]
impl InboxTable for DyingTable {
    fn at(&self) -> String {
        self.inner.at()
    }

    async fn hold(&self) -> Result<bool, Error> {
        self.inner.hold().await
    }

    async fn heads(&self, above: i64, limit: usize) -> Result<Vec<RowHead>, Error> {
        self.inner.heads(above, limit).await
    }

    async fn offer(&self, ids: &[i64]) -> Result<Vec<InboxRow>, Error> {
        self.inner.offer(ids).await
    }

    async fn withdraw_offer(&self, ids: &[i64]) -> Result<(), Error> {
        self.inner.withdraw_offer(ids).await
    }

    async fn remove(&self, ids: &[i64]) -> Result<(), Error> {
        if !ids.is_empty() {
            return Err(Error::did_not_happen("remove rows of an inbox", "the relay died"));
        }
        self.inner.remove(ids).await
    }

    async fn refuse(&self, refused: &[RefusedRow]) -> Result<(), Error> {
        self.inner.refuse(refused).await
    }

    async fn counts(&self) -> Result<InboxCounts, Error> {
        self.inner.counts().await
    }

    async fn let_go(&self) {
        self.inner.let_go().await;
    }
}

pub(crate) async fn in_sqlite() -> InboxRig {
    let options = punctual_store::Options { partitions: 2, ..punctual_store::Options::default() };
    InboxRig::over(Arc::new(SqliteStore::in_memory(&options).unwrap())).await
}

pub(crate) async fn in_mysql() -> InboxRig {
    let options = MysqlOptions { partitions: 2, ..MysqlOptions::default() };
    let store = MysqlStore::open(&[servers::migrated_database().await], options).await.unwrap();
    InboxRig::over(Arc::new(store)).await
}

impl InboxRig {
    async fn over(truth: Arc<dyn Store>) -> Self {
        let clock = ManualClock::at(START);
        let store = Arc::new(FaultyStore::new(truth, 1));
        let backends = Backends {
            hot: Arc::new(NoHot),
            store: store.clone(),
            limiter: Arc::new(punctual_hot::MemoryLimiter::default()),
            bus: Arc::new(MemoryBus::new()),
            clock: Arc::new(clock.clone()),
            blobs: None,
            shared: None,
        };
        let engine = Engine::new(backends, Options::default());
        let server = servers::mariadb().await;
        let url = server.fresh_database().await;
        assert!(MysqlInbox::new(&url, InboxTableName::default()).unwrap().install().await.unwrap());
        let database = url.rsplit('/').next().unwrap().split('?').next().unwrap().to_owned();
        let way = Proxy::before(server.port());
        let relay = Relay::new("shop", None, table(&way, &database), intake(&engine));
        let options = ServerOptions { inboxes: vec![relay.clone()], ..ServerOptions::default() };
        let router = punctual_server::router(engine.clone(), options);
        Self { store, engine, clock, way, relay, router, server, database }
    }

    /// The user's database.
    pub(crate) fn url(&self) -> String {
        url(&self.way, &self.database)
    }

    /// As the user's own program does it.
    pub(crate) async fn sql(&self, text: &str) -> String {
        self.server.sql(&self.database, text).await
    }

    pub(crate) async fn try_sql(&self, text: &str) -> Result<String, String> {
        self.server.try_sql(&self.database, text).await
    }

    /// Of another engine.
    pub(crate) fn other_relay(&self) -> Relay {
        Relay::new("shop", None, table(&self.way, &self.database), intake(&self.engine))
    }

    /// Of another table in the same database, for one namespace.
    pub(crate) fn relay_of(&self, name: &str, namespace: &str, table: &str) -> Relay {
        let inbox = MysqlInbox::new(&self.url(), table.parse().unwrap()).unwrap();
        let namespace = Some(Name::chosen(namespace).unwrap());
        Relay::new(name, namespace, Arc::new(inbox), intake(&self.engine))
    }

    /// Whose rows stay, because it dies before it removes them.
    pub(crate) fn dying_relay(&self) -> Relay {
        let inner = MysqlInbox::new(&self.url(), InboxTableName::default()).unwrap();
        Relay::new("shop", None, Arc::new(DyingTable { inner }), intake(&self.engine))
    }

    /// One run, after the longest rest.
    pub(crate) async fn run(&self, relay: &Relay) -> usize {
        self.clock.advance_ms(1_001);
        relay.run_once(self.engine.now()).await.unwrap()
    }

    /// Runs the relay until no row waits.
    pub(crate) async fn all_moved(&self) {
        until("all rows are moved", || async {
            self.run(&self.relay).await;
            self.waiting().await == 0
        })
        .await;
    }

    pub(crate) async fn count(&self, condition: &str) -> i64 {
        let counted = self.sql(&format!("SELECT COUNT(*) FROM punctual_inbox WHERE {condition}")).await;
        counted.trim().parse().unwrap()
    }

    pub(crate) async fn waiting(&self) -> i64 {
        self.count("refused_at_ms IS NULL").await
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header("content-type", "application/json").body(Body::from(body.to_owned()));
        let answer = self.router.clone().oneshot(request.unwrap()).await.unwrap();
        let status = answer.status().as_u16();
        let bytes = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::String(text)))
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, body) = self.call("GET", path, "").await;
        assert_eq!(status, 200, "{body}");
        body
    }

    /// The tasks of a queue.
    pub(crate) async fn tasks(&self, queue: &str) -> Vec<Value> {
        self.get(&format!("/v1/tasks?queue={queue}&limit=1000")).await["items"].as_array().unwrap().clone()
    }
}

fn intake(engine: &Engine) -> Arc<dyn Intake> {
    Arc::new(EngineIntake::new(engine.clone(), ServerOptions::default()))
}

fn url(way: &Proxy, database: &str) -> String {
    format!("mysql://t:t@127.0.0.1:{}/{database}", way.port())
}

fn table(way: &Proxy, database: &str) -> Arc<dyn InboxTable> {
    Arc::new(MysqlInbox::new(&url(way, database), InboxTableName::default()).unwrap())
}

macro_rules! on_each_store {
    ($($case:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(crate::inbox::rig::in_sqlite().await).await;
            })*
        }
        mod mysql {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(crate::inbox::rig::in_mysql().await).await;
            })*
        }
    };
}
pub(crate) use on_each_store;
