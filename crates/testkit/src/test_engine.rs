//! A complete Punctual in memory for your own tests, in which time only moves when you move it: the real engine, the
//! real API (without a socket), your own handlers. Nothing sleeps, so a test of "a week later" takes milliseconds.
//! Never use it in production: it loses everything when it is dropped.

use crate::clock::ManualClock;
use axum::{Router, body::Body, http::Request};
use futures_util::future::BoxFuture;
use punctual_bulk::Runner;
use punctual_bus::MemoryBus;
use punctual_cluster::Watcher;
use punctual_contract::{Clock, Store};
use punctual_domain::{name::Name, time::Millis};
use punctual_engine::{Backends, Engine, Options};
use punctual_hot::NoHot;
use punctual_schedules::Planner;
use punctual_sdk::{
    Client, Control, Failure, Handlers, HttpRequest, Reply, Task, Transport, protocol::LeaseRequest,
};
use punctual_server::ServerOptions;
use punctual_store::sqlite::SqliteStore;
use punctual_workflows::Runner as Workflows;
use std::{sync::Arc, time::Duration};
use tower::ServiceExt;

/// 2026-01-01T00:00:00Z: where time is in a new test engine.
pub const START: Millis = Millis(1_767_225_600_000);
/// Tasks handled at one stop of the clock; more than that is a handler that never lets go.
const STEPS_MAX: usize = 100_000;

/// See the module. Its client speaks to it directly.
#[derive(Debug)]
pub struct TestEngine {
    clock: ManualClock,
    engine: Engine,
    planner: Planner,
    workflows: Workflows,
    bulk: Runner,
    client: Client,
    workers: Vec<(String, Handlers)>,
}

impl Default for TestEngine {
    fn default() -> Self {
        Self::new()
    }
}

impl TestEngine {
    /// Empty, at [`START`], namespace `default`.
    ///
    /// # Panics
    /// When there is no memory for it.
    #[must_use]
    pub fn new() -> Self {
        let clock = ManualClock::at(START);
        let options = punctual_store::sqlite::Options { partitions: 2, ..Default::default() };
        let store = Arc::new(SqliteStore::in_memory(&options).expect("memory is there"));
        let hot = Arc::new(NoHot);
        let backends = Backends {
            store: Arc::clone(&store) as Arc<dyn Store>,
            hot,
            limiter: Arc::new(punctual_hot::MemoryLimiter::default()),
            bus: Arc::new(MemoryBus::default()),
            clock: Arc::new(clock.clone()),
            blobs: None,
            shared: None,
        };
        let engine = Engine::new(backends, Options::default());
        let planner = Planner::new(engine.clone(), store.clone(), punctual_schedules::Options::default());
        let bulk = Runner::new(engine.clone(), store.clone(), punctual_bulk::Options::default(), None);
        let cluster = Watcher::new(engine.clone(), store.clone(), punctual_cluster::Options::default());
        let workflows = Workflows::new(engine.clone(), store, punctual_workflows::Options::default());
        let options = ServerOptions {
            schedules: Some(planner.clone()),
            bulk: Some(bulk.clone()),
            cluster: Some(cluster),
            workflows: Some(workflows.clone()),
            ..ServerOptions::default()
        };
        let router = punctual_server::router(engine.clone(), options);
        let client = Client::builder()
            .transport(Arc::new(InProcess { router }))
            .namespace(Name::default_namespace().as_str())
            .tries(1)
            .build()
            .expect("a client without a socket needs nothing");
        Self { clock, engine, planner, bulk, workflows, client, workers: Vec::new() }
    }

    /// The client to give to the code under test.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Runs the tasks of a queue with these handlers, whenever time is moved.
    pub fn work(&mut self, queue: impl Into<String>, handlers: Handlers) -> &mut Self {
        self.workers.push((queue.into(), handlers));
        self
    }

    /// The engine's time, UTC epoch milliseconds.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        self.clock.now().0
    }

    /// Moves time, and stops at every instant at which something is due, so that each task runs at its own time. Answers
    /// how many attempts ran.
    ///
    /// # Panics
    /// When a handler keeps a task due at one instant for ever, for example by snoozing it for no time at all.
    pub async fn advance(&self, by: Duration) -> usize {
        let by_ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        let target = self.clock.now().plus(by_ms);
        let mut ran = 0;
        loop {
            ran += self.run_what_is_due().await;
            let due = self.engine.next_turn_at().await.expect("a store in memory answers");
            let planned = self.planner.next_run_at().await.expect("a store in memory answers");
            let looked = self.workflows.next_run_at().await.expect("a store in memory answers");
            let bulk = self.bulk.next_run_at().await.expect("a store in memory answers");
            let next = due.into_iter().chain(planned).chain(bulk).chain(looked).min();
            let next = next.map(|at| at.max(self.clock.now().plus(1)));
            match next {
                Some(next) if next <= target => self.clock.set(next),
                _ if self.clock.now() < target => self.clock.set(target),
                _ => return ran,
            }
        }
    }

    /// Fires and runs all due tasks, without moving time. Returns how many attempts ran.
    ///
    /// # Panics
    /// As [`TestEngine::advance`].
    pub async fn run_what_is_due(&self) -> usize {
        let mut ran = 0;
        loop {
            self.planner.run_once(self.clock.now()).await.expect("back ends in memory do not fail");
            self.workflows.run_once(self.clock.now()).await.expect("back ends in memory do not fail");
            self.bulk.run_once(self.clock.now()).await.expect("back ends in memory do not fail");
            self.engine.run_once().await.expect("back ends in memory do not fail");
            let mut progressed = 0;
            for (queue, handlers) in &self.workers {
                progressed += self.run_queue(queue, handlers).await;
            }
            ran += progressed;
            assert!(
                ran < STEPS_MAX,
                "{ran} attempts at one instant: does a handler snooze for no time at all?"
            );
            if progressed == 0 {
                return ran;
            }
        }
    }

    async fn run_queue(&self, queue: &str, handlers: &Handlers) -> usize {
        let request =
            LeaseRequest { max: 100, wait_ms: 0, executor: "test".into(), ..LeaseRequest::default() };
        let leased = self.client.lease(queue, &request).await.expect("an engine in memory answers");
        let mut outcomes = Vec::with_capacity(leased.len());
        for task in leased {
            let token = task.token.clone();
            outcomes.push(handlers.run(Task::new(task, Control::default()), &token).await);
        }
        if !outcomes.is_empty() {
            self.client.report(&outcomes).await.expect("an engine in memory answers");
        }
        outcomes.len()
    }
}

/// Carries calls straight into the server's router.
#[derive(Debug)]
struct InProcess {
    router: Router,
}

impl Transport for InProcess {
    fn send(&self, call: HttpRequest) -> BoxFuture<'_, Result<Reply, Failure>> {
        let router = self.router.clone();
        Box::pin(async move {
            let mut request =
                Request::builder().method(call.method).uri(call.path).header("host", "localhost");
            for (name, value) in call.headers {
                request = request.header(name, value);
            }
            if !call.body.is_empty() {
                request = request.header("content-type", "application/json");
            }
            let request =
                request.body(Body::from(call.body)).map_err(|error| Failure::NotSent(error.into()))?;
            let answer =
                router.oneshot(request).await.map_err(|infallible| Failure::Unanswered(infallible.into()))?;
            let status = answer.status().as_u16();
            let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await;
            Ok(Reply {
                status,
                body: body.map_err(|error| Failure::Unanswered(error.into()))?,
                retry_after: None,
            })
        })
    }
}
