//! One server over one engine in memory, and a clock that only the test moves.

use crate::document::Document;
use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Request},
};
use punctual_bulk::Runner;
use punctual_bus::MemoryBus;
use punctual_cluster::Watcher;
use punctual_contract::{Hot, Store};
use punctual_domain::{access::SecretHash, time::Millis};
use punctual_engine::{Backends, Engine, Options};
use punctual_hot::NoHot;
use punctual_schedules::Planner;
use punctual_server::{Log, LogFilters, ServerOptions};
use punctual_store::SqliteStore;
use punctual_testkit::{
    clock::ManualClock,
    faults::{BusGroup, Dials, FaultyBus, FaultyHot, FaultyStore},
    shared::SharedHot,
};
use punctual_workflows::Runner as Workflows;
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};
use tower::ServiceExt as _;

/// Takes every filter.
#[derive(Debug)]
struct NoLog;

impl Log for NoLog {
    fn set_filter(&self, _filter: &str) -> Result<(), String> {
        Ok(())
    }
}

/// 2026-01-01T00:00:00Z.
pub(crate) const START_MS: i64 = 1_767_225_600_000;
pub(crate) const HOUR_MS: u64 = 3_600_000;

static DOCUMENT: LazyLock<Document> = LazyLock::new(Document::new);

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) clock: ManualClock,
    pub(crate) engine: Engine,
    pub(crate) store: Arc<FaultyStore>,
    /// Of schedules, workflows and bulk operations.
    pub(crate) documents: Arc<SqliteStore>,
    pub(crate) hot: Arc<FaultyHot>,
    pub(crate) bus: Arc<FaultyBus>,
    pub(crate) cluster: Watcher,
    pub(crate) router: Router,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    /// Null when it is no JSON.
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|header| header.to_str().unwrap())
    }

    /// Panics with the whole answer when it has another status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.body
    }

    /// Panics when it is not this problem.
    #[track_caller]
    pub(crate) fn expect_problem(self, status: u16, code: &str) -> Value {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{}", self.text);
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(self.body["status"], status);
        assert_eq!(self.body["type"], format!("/docs/errors/{code}"));
        self.body
    }
}

/// A request under construction.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

pub(crate) fn ask(method: &'static str, path: impl Into<String>) -> Ask {
    Ask { method, path: path.into(), headers: Vec::new(), body: Vec::new() }
}

pub(crate) fn post(path: impl Into<String>, body: &Value) -> Ask {
    ask("POST", path).json(body)
}

pub(crate) fn get(path: impl Into<String>) -> Ask {
    ask("GET", path)
}

impl Ask {
    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.raw("application/json", body.to_string())
    }

    pub(crate) fn raw(mut self, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self.header("content-type", content_type)
    }
}

/// Sends a request, and holds the answer against the document.
pub(crate) async fn send_to(router: Router, ask: Ask) -> Answer {
    let (method, path) = (ask.method, ask.path.clone());
    let mut request = Request::builder().method(method).uri(&path);
    if ask.headers.iter().all(|(name, _)| *name != "host") {
        request = request.header("host", "localhost");
    }
    for (name, value) in ask.headers {
        request = request.header(name, value);
    }
    let response = router.oneshot(request.body(Body::from(ask.body)).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let body = serde_json::from_str(&text).unwrap_or(Value::Null);
    let status = parts.status.as_u16();
    if status != 405 {
        DOCUMENT.check(method, &path, status, &body);
    }
    Answer { status, headers: parts.headers, text, body }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(ServerOptions::default())
    }

    pub(crate) fn with(options: ServerOptions) -> Self {
        let sqlite = SqliteStore::in_memory(&punctual_store::Options { partitions: 4, ..Default::default() });
        let memory = NoHot;
        Self::of(Arc::new(sqlite.unwrap()), Arc::new(memory), options, Options::default())
    }

    /// What the hot set loses is not read again from the store.
    pub(crate) fn that_repairs_nothing() -> Self {
        let sqlite = SqliteStore::in_memory(&punctual_store::Options { partitions: 4, ..Default::default() });
        let memory = SharedHot::new(4);
        let options = Options { overdue_after_ms: 86_400_000, ..Options::default() };
        Self::of(Arc::new(sqlite.unwrap()), Arc::new(memory), ServerOptions::default(), options)
    }

    /// Callers need a token, and this one may do everything.
    pub(crate) fn guarded_by(token: &str) -> Self {
        let sqlite = SqliteStore::in_memory(&punctual_store::Options { partitions: 4, ..Default::default() });
        let memory = NoHot;
        let engine = Options { admin_token: Some(SecretHash::of(token)), ..Options::default() };
        Self::of(Arc::new(sqlite.unwrap()), Arc::new(memory), ServerOptions::default(), engine)
    }

    /// On any back ends.
    pub(crate) fn over(store: Arc<dyn Store>, hot: Arc<dyn Hot>) -> Self {
        Self::of(store, hot, ServerOptions::default(), Options::default())
    }

    fn of(store: Arc<dyn Store>, hot: Arc<dyn Hot>, options: ServerOptions, its_engine: Options) -> Self {
        let clock = ManualClock::at(Millis(START_MS));
        let store = Arc::new(FaultyStore::new(store, 7));
        let hot = Arc::new(FaultyHot::new(hot, 7));
        let bus = Arc::new(FaultyBus::new(Arc::new(MemoryBus::new()), 7));
        let backends = Backends {
            store: store.clone(),
            hot: hot.clone(),
            limiter: Arc::new(punctual_hot::MemoryLimiter::default()),
            bus: bus.clone(),
            clock: Arc::new(clock.clone()),
            blobs: None,
            shared: None,
        };
        let engine = Engine::new(backends, its_engine);
        // In a store of its own: the other may be any.
        let schedules = Arc::new(SqliteStore::in_memory(&punctual_store::Options::default()).unwrap());
        let documents = schedules.clone();
        let bulk = Runner::new(engine.clone(), schedules.clone(), punctual_bulk::Options::default(), None);
        let workflows =
            Workflows::new(engine.clone(), schedules.clone(), punctual_workflows::Options::default());
        let cluster = Watcher::new(engine.clone(), schedules.clone(), punctual_cluster::Options::default());
        let planner = Planner::new(engine.clone(), schedules, punctual_schedules::Options::default());
        let (schedules, bulk, workflows) = (Some(planner), Some(bulk), Some(workflows));
        let watcher = cluster.clone();
        let (cluster, log) = (Some(cluster), Some(LogFilters::new(Box::new(NoLog), "info".to_owned())));
        let options = ServerOptions { schedules, bulk, workflows, cluster, log, ..options };
        let router = punctual_server::router(engine.clone(), options);
        Self { clock, engine, store, documents, hot, bus, cluster: watcher, router }
    }

    /// The API of another engine on the same store.
    pub(crate) fn another_router(&self) -> Router {
        let memory = NoHot;
        let backends = Backends {
            store: self.store.clone(),
            hot: Arc::new(memory),
            limiter: Arc::new(punctual_hot::MemoryLimiter::default()),
            bus: self.bus.clone(),
            clock: Arc::new(self.clock.clone()),
            blobs: None,
            shared: None,
        };
        let engine = Engine::new(backends, Options { name: "another".to_owned(), ..Options::default() });
        punctual_server::router(engine, ServerOptions::default())
    }

    pub(crate) async fn send(&self, ask: Ask) -> Answer {
        send_to(self.router.clone(), ask).await
    }

    /// Carries out a request whose answer is lost: it is kept for no time at all.
    pub(crate) async fn without_replies_kept(&self, ask: Ask) -> Answer {
        let options = ServerOptions { keep_replies_ms: -1, ..ServerOptions::default() };
        send_to(punctual_server::router(self.engine.clone(), options), ask).await
    }

    pub(crate) async fn insert(&self, body: Value) -> Value {
        self.send(post("/v1/tasks", &body)).await.expect(201)
    }

    pub(crate) async fn task(&self, r#ref: &str) -> Value {
        self.send(get(format!("/v1/tasks/{ref}"))).await.expect(200)
    }

    /// Moves time and does what is due by then.
    pub(crate) async fn advance(&self, ms: u64) {
        self.clock.advance_ms(ms);
        self.engine.run_once().await.unwrap();
    }

    pub(crate) async fn lease(&self, queue: &str) -> Vec<Value> {
        let body = json!({"max": 100, "lease_ms": 30_000, "executor": "x1"});
        let answer = self.send(post(format!("/v1/queues/{queue}/lease"), &body)).await.expect(200);
        answer["tasks"].as_array().unwrap().clone()
    }

    pub(crate) async fn report(&self, leased: &Value, mut outcome: Value) -> Value {
        outcome["ref"] = leased["ref"].clone();
        outcome["token"] = leased["token"].clone();
        let answer = self
            .send(post("/v1/outcomes", &json!({"executor": "x1", "outcomes": [outcome]})))
            .await
            .expect(200);
        answer["results"][0].clone()
    }

    pub(crate) async fn beat(&self, leased: &Value) -> Value {
        let lease = json!({"ref": leased["ref"], "token": leased["token"]});
        let body = json!({"executor": "x1", "leases": [lease]});
        self.send(post("/v1/heartbeats", &body)).await.expect(200)["leases"][0].clone()
    }

    /// Inserts task `id`, version 5, and brings it into a state. Its queue has the name of the state.
    pub(crate) async fn bring_to(&self, state: &str, id: i64) -> String {
        self.bring_to_in(state, state, id).await
    }

    /// The same, in a queue that has nothing else in it.
    pub(crate) async fn bring_to_in(&self, queue: &str, state: &str, id: i64) -> String {
        if state == "dispatch_failed" {
            self.bus.faults.set(BusGroup::Publish, Dials::REFUSES);
            self.put_mode(queue, "push").await;
        }
        if state == "dispatching" {
            // Only tasks of push queues are marked so, where a limit keeps them from being leased ahead.
            let limited = json!({"mode": "push", "concurrency": 1_000});
            self.send(ask("PUT", format!("/v1/queues/{queue}")).json(&limited)).await.expect(200);
        }
        let delay_ms = if state == "scheduled" || state == "cancelled" { HOUR_MS } else { 10_000 };
        let body = json!({"queue": queue, "task_id": id, "task_version": 5, "delay_ms": delay_ms});
        let task_ref = self.insert(body).await["ref"].as_str().unwrap().to_owned();
        match state {
            "scheduled" => {}
            "cancelled" => {
                self.send(ask("POST", format!("/v1/tasks/{task_ref}/cancel"))).await.expect(200);
            }
            "dispatching" => {
                self.advance(9_500).await;
                self.put_mode(queue, "pull").await;
            }
            "ready" => {
                self.advance(10_000).await;
                self.advance(5_000).await;
            }
            "dispatch_failed" => self.advance(10_000).await,
            _ => self.bring_through_lease(queue, state).await,
        }
        assert_eq!(self.task(&task_ref).await["state"], state);
        task_ref
    }

    async fn put_mode(&self, queue: &str, mode: &str) {
        let put = ask("PUT", format!("/v1/queues/{queue}")).json(&json!({"mode": mode}));
        self.send(put).await.expect(200);
    }

    async fn bring_through_lease(&self, queue: &str, state: &str) {
        self.advance(10_000).await;
        let leased = self.lease(queue).await.remove(0);
        match state {
            "dispatched" => return,
            "running" => {
                self.beat(&leased).await;
                return;
            }
            _ => {}
        }
        let outcome = match state {
            "retrying" => json!({"outcome": "failed", "status_msg": "too hot", "retry_after_ms": HOUR_MS}),
            "dead" => json!({"outcome": "reject", "status_msg": "never"}),
            _ => json!({"outcome": "succeeded"}),
        };
        assert_eq!(self.report(&leased, outcome).await["status"], "accepted");
        if state == "stopped" {
            self.advance(24 * HOUR_MS + 1).await;
        }
    }
}

/// Every state that a task can be brought to through the API.
pub(crate) const STATES: [&str; 11] = [
    "scheduled",
    "dispatching",
    "ready",
    "dispatched",
    "running",
    "dispatch_failed",
    "retrying",
    "succeeded",
    "dead",
    "cancelled",
    "stopped",
];
