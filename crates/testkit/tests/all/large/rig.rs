//! An engine with the API in front, a store of either kind, and objects in memory that can be made
//! unavailable. Only the test moves the clock.

use super::kept::Kept;
use axum::{Router, body::Body, http::Request};
use parking_lot::Mutex;
use punctual_bus::MemoryBus;
use punctual_contract::{Blobs, Error, Store};
use punctual_domain::{place::TaskRef, task::Task, time::Millis};
use punctual_engine::{Backends, Engine, Options};
use punctual_hot::NoHot;
use punctual_sdk::protocol::Base64;
use punctual_server::ServerOptions;
use punctual_store::ObjectBlobs;
use punctual_testkit::{clock::ManualClock, faults::FaultyStore, patience::until};
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};
use tower::ServiceExt as _;

pub(crate) const DAY_MS: i64 = 86_400_000;
pub(crate) const INLINE_MAX_BYTES: usize = 65_536;
pub(crate) const LEASE: &str = r#"{"max": 100, "lease_ms": 60000, "executor": "x1"}"#;
pub(crate) const START: Millis = Millis(1_900_000_000_000);

/// Objects in memory, of which none can be put or read while they are unavailable.
#[derive(Debug)]
pub(crate) struct Objects {
    inner: ObjectBlobs,
    is_away: AtomicBool,
    /// Puts so far.
    puts: Mutex<usize>,
}

impl Objects {
    fn here(&self) -> Result<(), Error> {
        if self.is_away.load(SeqCst) {
            return Err(Error::may_have_happened("reach the objects", "the place is away"));
        }
        Ok(())
    }
}

#[async_trait::async_trait]
impl Blobs for Objects {
    async fn is_own(&self) -> Result<bool, Error> {
        self.here()?;
        self.inner.is_own().await
    }

    async fn put(&self, key: &str, bytes: Vec<u8>) -> Result<(), Error> {
        self.here()?;
        *self.puts.lock() += 1;
        self.inner.put(key, bytes).await
    }

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        self.here()?;
        self.inner.get(key).await
    }

    async fn delete(&self, keys: &[String]) -> Result<(), Error> {
        self.here()?;
        self.inner.delete(keys).await
    }

    async fn list(&self, after: &str, limit: usize) -> Result<Vec<String>, Error> {
        self.here()?;
        self.inner.list(after, limit).await
    }
}

pub(crate) struct LargeRig {
    pub(crate) kept: Kept,
    truth: Arc<dyn Store>,
    /// The objects and everything else in their place, without an owner.
    pub(crate) place: ObjectBlobs,
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) blobs: Arc<Objects>,
    clock: ManualClock,
    pub(crate) engine: Engine,
    router: Router,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    bytes: Vec<u8>,
    pub(crate) body: Value,
}

impl Answer {
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.body
    }

    /// As much as a failed test should show is its beginning.
    pub(crate) fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }
}

pub(crate) async fn in_sqlite() -> LargeRig {
    LargeRig::over(Kept::sqlite()).await
}

pub(crate) async fn in_mysql() -> LargeRig {
    LargeRig::over(Kept::mysql().await).await
}

fn engine_on(store: Arc<dyn Store>, blobs: Arc<Objects>, clock: &ManualClock) -> Engine {
    let backends = Backends {
        hot: Arc::new(NoHot),
        store,
        limiter: Arc::new(punctual_hot::MemoryLimiter::default()),
        bus: Arc::new(MemoryBus::new()),
        clock: Arc::new(clock.clone()),
        blobs: Some(blobs),
        shared: None,
    };
    Engine::new(backends, Options { inline_max_bytes: INLINE_MAX_BYTES, ..Options::default() })
}

impl LargeRig {
    pub(crate) async fn over(kept: Kept) -> Self {
        let (truth, place) = (kept.store(), ObjectBlobs::in_memory());
        let clock = ManualClock::at(START);
        let store = Arc::new(FaultyStore::new(Arc::clone(&truth), 1));
        let inner = kept.own(place.clone()).await.unwrap();
        let blobs = Arc::new(Objects { inner, is_away: AtomicBool::new(false), puts: Mutex::default() });
        let engine = engine_on(store.clone(), Arc::clone(&blobs), &clock);
        let router = Self::router(&engine);
        Self { kept, truth, place, store, blobs, clock, engine, router }
    }

    fn router(engine: &Engine) -> Router {
        let options = ServerOptions { payload_max_bytes: 16 << 20, ..ServerOptions::default() };
        punctual_server::router(engine.clone(), options)
    }

    /// Another process on the same store and objects, in place of the one before.
    pub(crate) fn start_again(&mut self) {
        self.engine = engine_on(Arc::clone(&self.truth), Arc::clone(&self.blobs), &self.clock);
        self.router = Self::router(&self.engine);
    }

    pub(crate) fn away(&self, is_away: bool) {
        self.blobs.is_away.store(is_away, SeqCst);
    }

    pub(crate) fn puts(&self) -> usize {
        *self.blobs.puts.lock()
    }

    pub(crate) async fn objects(&self) -> Vec<String> {
        self.blobs.inner.list("", 1_000).await.unwrap()
    }

    /// Objects are deleted behind the answer.
    pub(crate) async fn until_objects(&self, count: usize) {
        until("so many objects are there", || async { self.objects().await.len() == count }).await;
    }

    pub(crate) async fn raw(&self, method: &str, path: &str, body: Vec<u8>) -> Answer {
        self.raw_with(method, path, body, None).await
    }

    async fn raw_with(&self, method: &str, path: &str, body: Vec<u8>, key: Option<&str>) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        if !body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let answer = self.router.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        let status = answer.status().as_u16();
        let bytes = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap().to_vec();
        Answer { status, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null), bytes }
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: Value) -> Answer {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.raw(method, path, body).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.raw("POST", path, body.to_string().into_bytes()).await
    }

    pub(crate) async fn post_with_key(&self, key: &str, body: &Value) -> Answer {
        self.raw_with("POST", "/v1/tasks", body.to_string().into_bytes(), Some(key)).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.send("GET", path, Value::Null).await.expect(200)
    }

    /// By its id.
    pub(crate) async fn task(&self, id: i64) -> Value {
        let found = self.get(&format!("/v1/tasks?task_id={id}")).await;
        let reference = found["items"][0]["ref"].as_str().unwrap();
        self.get(&format!("/v1/tasks/{reference}")).await
    }

    /// The task as the store has it.
    pub(crate) async fn read(&self, path: &str) -> Task {
        let place: TaskRef = path.rsplit('/').next().unwrap().parse().unwrap();
        self.truth.read(&[place]).await.unwrap().remove(0).unwrap()
    }

    pub(crate) async fn row(&self, shown: &Value) -> Task {
        self.read(shown["ref"].as_str().unwrap()).await
    }

    /// By its id, as the store has it.
    pub(crate) async fn row_of(&self, id: i64) -> Task {
        let found = self.get(&format!("/v1/tasks?task_id={id}")).await;
        self.row(&found["items"][0]).await
    }

    /// Under which its payload is kept.
    pub(crate) async fn key_of(&self, id: i64) -> String {
        self.row_of(id).await.ask.payload.reference().unwrap().key.to_owned()
    }

    /// Tasks that were archived.
    pub(crate) async fn archive(&self) -> u64 {
        self.kept.archive(self.engine.now()).await
    }

    /// Tasks that have a row.
    pub(crate) async fn rows(&self) -> i64 {
        self.truth.audit().await.unwrap().tallies.iter().map(|tally| tally.tasks).sum()
    }

    /// Moves time, and does the work that is due then.
    pub(crate) async fn advance(&self, ms: i64) {
        self.try_advance(ms).await.unwrap();
    }

    pub(crate) async fn try_advance(&self, ms: i64) -> Result<(), Error> {
        self.clock.advance_ms(ms.unsigned_abs());
        self.engine.run_once().await.map(drop)
    }

    /// An hour at a time.
    pub(crate) async fn days_pass(&self, days: i64) {
        for _ in 0..days * 24 {
            self.advance(DAY_MS / 24).await;
        }
    }

    pub(crate) async fn lease(&self) -> Vec<Value> {
        let leased = self.raw("POST", "/v1/queues/q/lease", LEASE.to_owned().into_bytes()).await.expect(200);
        leased["tasks"].as_array().unwrap().clone()
    }

    /// The engine's answer to an outcome.
    pub(crate) async fn report(&self, leased: &Value, outcome: Value) -> String {
        let answer = self.try_report(leased, outcome).await.expect(200);
        answer["results"][0]["status"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) async fn try_report(&self, leased: &Value, mut outcome: Value) -> Answer {
        outcome["ref"] = leased["ref"].clone();
        outcome["token"] = leased["token"].clone();
        self.post("/v1/outcomes", &json!({"executor": "x1", "outcomes": [outcome]})).await
    }
}

/// Nothing that compresses, nor text.
pub(crate) fn bytes(count: usize, seed: u64) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| rng.u8(..)).take(count).collect()
}

/// As it is in JSON.
pub(crate) fn text(bytes: &[u8]) -> String {
    let text = serde_json::to_value(Base64(bytes.to_vec())).unwrap();
    text.as_str().unwrap().to_owned()
}

macro_rules! on_each_store {
    ($($case:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(crate::large::rig::in_sqlite().await).await;
            })*
        }
        mod mysql {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(crate::large::rig::in_mysql().await).await;
            })*
        }
    };
}
pub(crate) use on_each_store;
