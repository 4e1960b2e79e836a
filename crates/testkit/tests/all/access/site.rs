//! An engine with the API in front and an admin's token in its configuration, on either kind of store. Time stands still
//! until a test moves it. Each request comes from the address that it says.

use axum::{Router, body::Body, http::Request};
use punctual_bulk::Runner;
use punctual_bus::MemoryBus;
use punctual_cluster::Watcher;
use punctual_contract::{BulkStore, ClusterStore, Hot, ScheduleStore, Store, WorkflowStore};
use punctual_domain::{access::SecretHash, time::Millis};
use punctual_engine::{Backends, Engine, Options};
use punctual_hot::{MemoryHot, RedisHot, RedisOptions};
use punctual_schedules::Planner;
use punctual_server::{ClientAddress, ServerOptions};
use punctual_store::{MysqlOptions, MysqlStore, SqliteStore};
use punctual_testkit::{clock::ManualClock, faults::FaultyStore, servers};
use punctual_workflows::Runner as Workflows;
use serde_json::{Value, json};
use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};
use tower::ServiceExt as _;

pub(super) const ADMIN: &str = "an admin's word that nobody guesses";
pub(super) const START: Millis = Millis(1_900_000_000_000);
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

pub(super) struct Site {
    pub(super) store: Arc<FaultyStore>,
    hot: Arc<dyn Hot>,
    pub(super) clock: ManualClock,
    pub(super) engine: Engine,
    router: Router,
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) text: String,
    pub(super) body: Value,
    pub(super) headers: axum::http::HeaderMap,
}

impl Answer {
    #[track_caller]
    pub(super) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.body
    }

    #[track_caller]
    pub(super) fn expect_problem(self, status: u16, code: &str) {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{}", self.text);
    }
}

/// A request under construction.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    method: String,
    path: String,
    body: Option<Value>,
    headers: Vec<(&'static str, String)>,
    from: IpAddr,
}

pub(super) fn ask(method: &str, path: impl Into<String>) -> Ask {
    let (method, path) = (method.to_owned(), path.into());
    Ask { method, path, body: None, headers: Vec::new(), from: HERE }
}

pub(super) fn get(path: impl Into<String>) -> Ask {
    ask("GET", path)
}

pub(super) fn post(path: impl Into<String>, body: Value) -> Ask {
    ask("POST", path).body(Some(body))
}

impl Ask {
    pub(super) fn body(self, body: Option<Value>) -> Self {
        Self { body, ..self }
    }

    pub(super) fn with(self, token: &str) -> Self {
        self.header("authorization", format!("Bearer {token}"))
    }

    pub(super) fn within(self, namespace: &str) -> Self {
        self.header("punctual-namespace", namespace)
    }

    pub(super) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn from(self, nth: u32) -> Self {
        Self { from: IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + nth)), ..self }
    }
}

fn options(name: &str, admin: bool) -> Options {
    let admin_token = admin.then(|| SecretHash::of(ADMIN));
    Options { name: name.to_owned(), admin_token, ..Options::default() }
}

impl Site {
    pub(super) async fn sqlite() -> Self {
        let store = SqliteStore::in_memory(&punctual_store::Options::default()).unwrap();
        let hot = MemoryHot::new(punctual_hot::Options { partitions: store.partitions() });
        Self::over(Arc::new(store), Arc::new(hot), true)
    }

    pub(super) async fn mysql() -> Self {
        let url = servers::mariadb().await.fresh_database().await;
        let options = MysqlOptions { partitions: 4, ..MysqlOptions::default() };
        let store = MysqlStore::open(&[url], options).await.unwrap();
        let redis = servers::redis().await;
        let options = RedisOptions {
            partitions: store.partitions(),
            prefix: redis.fresh_prefix(),
            ..RedisOptions::default()
        };
        let hot = RedisHot::connect(&redis.url(), options).await.unwrap();
        Self::over(Arc::new(store), Arc::new(hot), true)
    }

    /// Nothing is configured.
    pub(super) async fn open() -> Self {
        let store = SqliteStore::in_memory(&punctual_store::Options::default()).unwrap();
        let hot = MemoryHot::new(punctual_hot::Options { partitions: store.partitions() });
        Self::over(Arc::new(store), Arc::new(hot), false)
    }

    fn over<S: Store + ScheduleStore + BulkStore + WorkflowStore + ClusterStore>(
        store: Arc<S>,
        hot: Arc<dyn Hot>,
        admin: bool,
    ) -> Self {
        let clock = ManualClock::at(START);
        let schedules: Arc<dyn ScheduleStore> = store.clone();
        let bulks: Arc<dyn BulkStore> = store.clone();
        let workflows: Arc<dyn WorkflowStore> = store.clone();
        let cluster: Arc<dyn ClusterStore> = store.clone();
        let store = Arc::new(FaultyStore::new(store, 7));
        let engine = engine(&store, &hot, &clock, options("engine", admin));
        let planner = Planner::new(engine.clone(), schedules, punctual_schedules::Options::default());
        let bulk = Runner::new(engine.clone(), bulks, punctual_bulk::Options::default(), None);
        let workflows = Workflows::new(engine.clone(), workflows, punctual_workflows::Options::default());
        let cluster = Watcher::new(engine.clone(), cluster, punctual_cluster::Options::default());
        let serving = ServerOptions {
            cluster: Some(cluster),
            schedules: Some(planner),
            bulk: Some(bulk),
            workflows: Some(workflows),
            ..ServerOptions::default()
        };
        let router = punctual_server::router(engine.clone(), serving);
        Self { store, hot, clock, engine, router }
    }

    /// Its engine, and a new one in its place, where namespaces must be made before they are used.
    pub(super) fn explicit(self) -> Self {
        let options = Options { explicit_namespaces: true, ..options("explicit", true) };
        let engine = engine(&self.store, &self.hot, &self.clock, options);
        let router = punctual_server::router(engine.clone(), ServerOptions::default());
        Self { engine, router, ..self }
    }

    /// Another engine on the same store, and its API.
    pub(super) fn beside(&self) -> Self {
        let engine = engine(&self.store, &self.hot, &self.clock, options("beside", true));
        let router = punctual_server::router(engine.clone(), ServerOptions::default());
        let (store, hot) = (Arc::clone(&self.store), Arc::clone(&self.hot));
        Self { store, hot, clock: self.clock.clone(), engine, router }
    }

    pub(super) async fn send(&self, ask: Ask) -> Answer {
        let mut request =
            Request::builder().method(ask.method.as_str()).uri(&ask.path).header("host", "localhost");
        for (name, value) in &ask.headers {
            request = request.header(*name, value);
        }
        if ask.body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let body = ask.body.map_or_else(Body::empty, |it| Body::from(it.to_string()));
        let mut request = request.body(body).unwrap();
        request.extensions_mut().insert(ClientAddress(ask.from));
        let (parts, body) = self.router.clone().oneshot(request).await.unwrap().into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let body = serde_json::from_str(&text).unwrap_or_default();
        Answer { status: parts.status.as_u16(), text, body, headers: parts.headers }
    }

    pub(super) fn store(&self) -> &dyn Store {
        &*self.store
    }

    pub(super) async fn admin(&self, ask: Ask) -> Answer {
        self.send(ask.with(ADMIN)).await
    }

    /// Makes a token; its id and its secret.
    pub(super) async fn token(&self, role: &str, namespaces: &[&str], queues: &[&str]) -> (String, String) {
        let asked = json!({"name": role, "roles": [role], "namespaces": namespaces, "queues": queues});
        let made = self.admin(post("/v1/tokens", asked)).await.expect(201);
        let text = |field: &str| made[field].as_str().unwrap().to_owned();
        (text("id"), text("token"))
    }

    pub(super) async fn insert(&self, namespace: &str, task: Value) -> String {
        let inserted = self.admin(post("/v1/tasks", task).within(namespace)).await.expect(201);
        inserted["ref"].as_str().unwrap().to_owned()
    }

    pub(super) async fn turn(&self, ms: u64) {
        self.clock.advance_ms(ms);
        self.engine.turn().await.unwrap();
    }

    /// What of a namespace is leased now.
    pub(super) async fn lease(&self, namespace: &str, queue: &str) -> Vec<Value> {
        let body = json!({"max": 100, "lease_ms": 60_000, "executor": "x"});
        let asked = post(format!("/v1/queues/{queue}/lease"), body).within(namespace);
        self.admin(asked).await.expect(200)["tasks"].as_array().unwrap().clone()
    }
}

fn engine(store: &Arc<FaultyStore>, hot: &Arc<dyn Hot>, clock: &ManualClock, options: Options) -> Engine {
    let backends = Backends {
        store: Arc::clone(store) as Arc<dyn Store>,
        hot: Arc::clone(hot),
        limiter: Arc::new(punctual_hot::MemoryLimiter::default()),
        bus: Arc::new(MemoryBus::new()),
        clock: Arc::new(clock.clone()),
        blobs: None,
        shared: None,
    };
    Engine::new(backends, options)
}
