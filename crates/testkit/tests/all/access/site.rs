//! An engine with the API in front and an admin token in its configuration, on either kind of store. Only the
//! test moves the clock. Each request comes from the address that it names.

use axum::{Router, body::Body, http::Request, response::Response};
use punctual_bulk::Runner;
use punctual_bus::MemoryBus;
use punctual_cluster::Watcher;
use punctual_contract::{BulkStore, ClusterStore, Hot, ScheduleStore, Store, WorkflowStore};
use punctual_domain::{access::SecretHash, time::Millis};
use punctual_engine::{Backends, Engine, Options};
use punctual_hot::{NoHot, RedisHot, RedisOptions};
use punctual_schedules::Planner;
use punctual_server::{ClientAddress, Log, LogFilters, ServerOptions};
use punctual_store::{MysqlOptions, MysqlStore, SqliteStore};
use punctual_testkit::{
    clock::ManualClock,
    faults::{FaultyBulk, FaultySchedules, FaultyStore, FaultyWorkflows, Wall},
    patience::HANG_LIMIT,
    servers,
};
use punctual_workflows::Runner as Workflows;
use serde_json::{Value, json};
use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};
use tower::ServiceExt as _;

pub(crate) const ADMIN: &str = "an admin's word that nobody guesses";
pub(crate) const START: Millis = Millis(1_900_000_000_000);
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

pub(crate) struct AccessSite {
    pub(crate) store: Arc<FaultyStore>,
    hot: Arc<dyn Hot>,
    pub(crate) clock: ManualClock,
    pub(crate) engine: Engine,
    pub(crate) router: Router,
    pub(crate) planner: Planner,
    pub(crate) bulk: Runner,
    pub(crate) workflows: Workflows,
    pub(crate) schedules: Arc<FaultySchedules>,
    pub(crate) bulks: Arc<FaultyBulk>,
    pub(crate) flows: Arc<FaultyWorkflows>,
    pub(crate) another: Another,
    /// All that is durable is behind it.
    pub(crate) wall: Arc<Wall>,
}

/// Another engine on the same store, that no fault and no gate of the site holds up.
#[derive(Clone)]
pub(crate) struct Another {
    pub(crate) engine: Engine,
    pub(crate) planner: Planner,
    pub(crate) bulk: Runner,
    pub(crate) workflows: Workflows,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
    pub(crate) body: Value,
    pub(crate) headers: axum::http::HeaderMap,
}

impl Answer {
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.body
    }

    #[track_caller]
    pub(crate) fn expect_problem(self, status: u16, code: &str) {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{}", self.text);
    }
}

/// Takes every filter, and writes nothing.
#[derive(Debug)]
struct NoLog;

impl Log for NoLog {
    fn set_filter(&self, _: &str) -> Result<(), String> {
        Ok(())
    }
}

/// A request under construction.
#[derive(Clone, Debug)]
pub(crate) struct AccessCall {
    method: String,
    path: String,
    body: Option<Value>,
    headers: Vec<(&'static str, String)>,
    from: IpAddr,
}

pub(crate) fn ask(method: &str, path: impl Into<String>) -> AccessCall {
    let (method, path) = (method.to_owned(), path.into());
    AccessCall { method, path, body: None, headers: Vec::new(), from: HERE }
}

pub(crate) fn get(path: impl Into<String>) -> AccessCall {
    ask("GET", path)
}

pub(crate) fn post(path: impl Into<String>, body: Value) -> AccessCall {
    ask("POST", path).body(Some(body))
}

impl AccessCall {
    pub(crate) fn body(self, body: Option<Value>) -> Self {
        Self { body, ..self }
    }

    pub(crate) fn with(self, token: &str) -> Self {
        self.header("authorization", format!("Bearer {token}"))
    }

    pub(crate) fn within(self, namespace: &str) -> Self {
        self.header("punctual-namespace", namespace)
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn from(self, nth: u32) -> Self {
        Self { from: IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + nth)), ..self }
    }
}

fn options(name: &str, admin: bool) -> Options {
    let admin_token = admin.then(|| SecretHash::of(ADMIN));
    Options { name: name.to_owned(), admin_token, ..Options::default() }
}

impl AccessSite {
    pub(crate) async fn sqlite() -> Self {
        let store = SqliteStore::in_memory(&punctual_store::Options::default()).unwrap();
        let hot = NoHot;
        Self::over(Arc::new(store), Arc::new(hot), true)
    }

    pub(crate) async fn mysql() -> Self {
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
        Self::over(Arc::new(store), Arc::new(hot), true)
    }

    /// Nothing is configured.
    pub(crate) async fn open() -> Self {
        let store = SqliteStore::in_memory(&punctual_store::Options::default()).unwrap();
        let hot = NoHot;
        Self::over(Arc::new(store), Arc::new(hot), false)
    }

    fn over<S: Store + ScheduleStore + BulkStore + WorkflowStore + ClusterStore>(
        store: Arc<S>,
        hot: Arc<dyn Hot>,
        admin: bool,
    ) -> Self {
        let clock = ManualClock::at(START);
        let wall = Arc::new(Wall::default());
        let schedules = Arc::new(FaultySchedules::new(store.clone(), 7));
        schedules.faults.set_wall(&wall);
        let bulks = Arc::new(FaultyBulk::new(store.clone(), 7));
        bulks.faults.set_wall(&wall);
        let flows = Arc::new(FaultyWorkflows::new(store.clone(), 7));
        flows.faults.set_wall(&wall);
        let cluster: Arc<dyn ClusterStore> = store.clone();
        let another = another(&store, &hot, &clock, options("another", admin));
        let store = Arc::new(FaultyStore::new(store, 7));
        store.faults.set_wall(&wall);
        let engine = engine(&store, &hot, &clock, options("engine", admin));
        let planner = Planner::new(engine.clone(), schedules.clone(), punctual_schedules::Options::default());
        let bulk = Runner::new(engine.clone(), bulks.clone(), punctual_bulk::Options::default(), None);
        let workflows = Workflows::new(engine.clone(), flows.clone(), punctual_workflows::Options::default());
        let cluster = Watcher::new(engine.clone(), cluster, punctual_cluster::Options::default());
        let serving = ServerOptions {
            cluster: Some(cluster),
            schedules: Some(planner.clone()),
            bulk: Some(bulk.clone()),
            workflows: Some(workflows.clone()),
            log: Some(LogFilters::new(Box::new(NoLog), "info".to_owned())),
            // How fast this machine is decides nothing: no page is answered with an earlier one.
            console_patience: HANG_LIMIT,
            ..ServerOptions::default()
        };
        let router = punctual_server::router(engine.clone(), serving);
        Self {
            store,
            hot,
            clock,
            engine,
            router,
            planner,
            bulk,
            workflows,
            schedules,
            bulks,
            flows,
            another,
            wall,
        }
    }

    /// Its engine, with a console that waits for a page as long as it does in production.
    pub(crate) fn impatient(self) -> Self {
        let serving = ServerOptions {
            schedules: Some(self.planner.clone()),
            bulk: Some(self.bulk.clone()),
            workflows: Some(self.workflows.clone()),
            ..ServerOptions::default()
        };
        let router = punctual_server::router(self.engine.clone(), serving);
        Self { router, ..self }
    }

    /// Its engine, and a new one in its place, where namespaces must be made before they are used.
    pub(crate) fn explicit(self) -> Self {
        let options = Options { explicit_namespaces: true, ..options("explicit", true) };
        let engine = engine(&self.store, &self.hot, &self.clock, options);
        let router = punctual_server::router(engine.clone(), ServerOptions::default());
        Self { engine, router, ..self }
    }

    /// Another engine on the same store, and its API.
    pub(crate) fn beside(&self) -> Self {
        let engine = engine(&self.store, &self.hot, &self.clock, options("beside", true));
        let router = punctual_server::router(engine.clone(), ServerOptions::default());
        Self {
            store: Arc::clone(&self.store),
            hot: Arc::clone(&self.hot),
            clock: self.clock.clone(),
            engine,
            router,
            planner: self.planner.clone(),
            bulk: self.bulk.clone(),
            workflows: self.workflows.clone(),
            schedules: Arc::clone(&self.schedules),
            bulks: Arc::clone(&self.bulks),
            flows: Arc::clone(&self.flows),
            another: self.another.clone(),
            wall: Arc::clone(&self.wall),
        }
    }

    pub(crate) async fn send(&self, ask: AccessCall) -> Answer {
        let (parts, body) = self.open_answer(ask).await.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let body = serde_json::from_str(&text).unwrap_or_default();
        Answer { status: parts.status.as_u16(), text, body, headers: parts.headers }
    }

    /// The answer, of which the body has not been read.
    pub(crate) async fn open_answer(&self, ask: AccessCall) -> Response {
        let body = ask.body.as_ref().map_or_else(Body::empty, |body| Body::from(body.to_string()));
        self.open_with(ask, body).await
    }

    /// The same, with a body that is sent as it is.
    pub(crate) async fn open_with(&self, ask: AccessCall, body: Body) -> Response {
        let mut request =
            Request::builder().method(ask.method.as_str()).uri(&ask.path).header("host", "localhost");
        for (name, value) in &ask.headers {
            request = request.header(*name, value);
        }
        if ask.body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let mut request = request.body(body).unwrap();
        request.extensions_mut().insert(ClientAddress(ask.from));
        self.router.clone().oneshot(request).await.unwrap()
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    pub(crate) async fn admin(&self, ask: AccessCall) -> Answer {
        self.send(ask.with(ADMIN)).await
    }

    /// Makes a token; its id and its secret.
    pub(crate) async fn token(&self, role: &str, namespaces: &[&str], queues: &[&str]) -> (String, String) {
        let asked = json!({"name": role, "roles": [role], "namespaces": namespaces, "queues": queues});
        let made = self.admin(post("/v1/tokens", asked)).await.expect(201);
        let text = |field: &str| made[field].as_str().unwrap().to_owned();
        (text("id"), text("token"))
    }

    pub(crate) async fn insert(&self, namespace: &str, task: Value) -> String {
        let inserted = self.admin(post("/v1/tasks", task).within(namespace)).await.expect(201);
        inserted["ref"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn run_once(&self, ms: u64) {
        self.clock.advance_ms(ms);
        self.engine.run_once().await.unwrap();
    }

    /// What of a namespace is leased now.
    pub(crate) async fn lease(&self, namespace: &str, queue: &str) -> Vec<Value> {
        let body = json!({"max": 100, "lease_ms": 60_000, "executor": "x"});
        let asked = post(format!("/v1/queues/{queue}/lease"), body).within(namespace);
        self.admin(asked).await.expect(200)["tasks"].as_array().unwrap().clone()
    }
}

fn another<S: Store + ScheduleStore + BulkStore + WorkflowStore>(
    store: &Arc<S>,
    hot: &Arc<dyn Hot>,
    clock: &ManualClock,
    options: Options,
) -> Another {
    let engine = engine(&Arc::new(FaultyStore::new(store.clone(), 7)), hot, clock, options);
    let planner = Planner::new(engine.clone(), store.clone(), punctual_schedules::Options::default());
    let bulk = Runner::new(engine.clone(), store.clone(), punctual_bulk::Options::default(), None);
    let workflows = Workflows::new(engine.clone(), store.clone(), punctual_workflows::Options::default());
    Another { engine, planner, bulk, workflows }
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
