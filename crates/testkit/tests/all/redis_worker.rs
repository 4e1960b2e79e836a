//! A worker that takes its tasks from Redis Streams: a whole engine with its API, and a private Redis between
//! them. A task that is delivered twice, late or to a dead worker must be executed by one, and only while its
//! attempt is valid.

use super::engine::{WallClock, queue};
use axum::{Router, body::Body, http::Request};
use futures_util::future::BoxFuture;
use punctual_bus::{Execution, Guard, GuardOptions, RedisBus, RedisBusOptions, Taken};
use punctual_contract::{Blobs, Bus, Clock, Store, bus::Delivery, store::Assignment};
use punctual_domain::{
    name::{Name, QueueKey},
    outcome::Report,
    place::TaskRef,
    state::State,
    task::{Content, NewTask, TaskResult},
};
use punctual_engine::{Backends, Engine, Options, OutcomeReport, Running};
use punctual_hot::NoHot;
use punctual_sdk::{
    CancellationToken, Client, Failure, HttpRequest, Reply, Task, Transport, Worked, Worker, bus::BusSource,
};
use punctual_server::ServerOptions;
use punctual_store::{ObjectBlobs, SqliteStore};
use punctual_testkit::{
    patience::{HANG_LIMIT, until},
    servers::{self, Redis},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{task::JoinSet, time::timeout};
use tower::ServiceExt;

/// Of attempts that are to be taken by their executors, however late: no lease ends while a test runs.
const LEASE_MS: i64 = 3_600_000;

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
            let request =
                request.header("content-type", "application/json").body(Body::from(call.body)).unwrap();
            let answer = router.oneshot(request).await.unwrap();
            let status = answer.status().as_u16();
            let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
            Ok(Reply { status, body, retry_after: None })
        })
    }
}

/// An engine that publishes queue `q` to Redis.
struct RedisWorkerRig<'r> {
    redis: &'r Redis,
    prefix: String,
    engine: Engine,
    running: Running,
    client: Client,
}

impl RedisWorkerRig<'static> {
    async fn start(push_lease_ms: i64) -> Self {
        RedisWorkerRig::start_on(servers::redis().await, push_lease_ms).await
    }
}

impl<'r> RedisWorkerRig<'r> {
    async fn start_on(redis: &'r Redis, push_lease_ms: i64) -> Self {
        let prefix = redis.fresh_prefix();
        let bus = Arc::new(bus(redis, &prefix, "engine").await);
        let store = SqliteStore::in_memory(&Default::default()).unwrap();
        let place = ObjectBlobs::in_memory();
        let blobs: Arc<dyn Blobs> = Arc::new(store.own_payloads(place, true).await.unwrap());
        let store: Arc<dyn Store> = Arc::new(store);
        let hot = Arc::new(NoHot);
        let limiter = Arc::new(punctual_hot::MemoryLimiter::default());
        let (clock, blobs) = (Arc::new(WallClock), Some(blobs));
        let backends = Backends { store, hot, limiter, bus, clock, blobs, shared: None };
        let options = Options {
            push_queues: vec![queue()],
            push_lease_ms,
            inline_max_bytes: 65_536,
            ..Options::default()
        };
        let engine = Engine::new(backends, options);
        let options = ServerOptions { payload_max_bytes: 8 << 20, ..ServerOptions::default() };
        let router = punctual_server::router(engine.clone(), options);
        let client = Client::builder().transport(Arc::new(InProcess { router })).build().unwrap();
        let running = engine.start().unwrap();
        Self { redis, prefix, engine, running, client }
    }

    async fn insert(&self, count: usize) -> Vec<TaskRef> {
        let new = |number: usize| {
            let payload = Content::json(number.to_string());
            NewTask { payload, ..NewTask::new(queue(), Name::new("k").unwrap(), self.engine.now().plus(20)) }
        };
        let inserted = self.engine.insert((0..count).map(new).collect(), "test").await.unwrap();
        inserted.into_iter().map(|inserted| inserted.task.place).collect()
    }

    async fn insert_into(&self, name: &str) -> TaskRef {
        let queue = QueueKey { queue: Name::new(name).unwrap(), ..queue() };
        let task = NewTask::new(queue, Name::new("k").unwrap(), self.engine.now().plus(20));
        self.engine.insert(vec![task], "test").await.unwrap().remove(0).task.place
    }

    async fn bus(&self, consumer: &str) -> RedisBus {
        bus(self.redis, &self.prefix, consumer).await
    }

    async fn source(&self, name: &str) -> BusSource {
        BusSource::new(Arc::new(self.bus(name).await)).reclaim_after(Duration::from_millis(300))
    }

    async fn guard(&self, name: &str) -> Guard {
        let options =
            GuardOptions { prefix: self.prefix.clone(), holder: name.to_owned(), ..GuardOptions::default() };
        Guard::connect(&self.redis.url(), options).await.unwrap()
    }

    fn worker(&self, name: &str, source: BusSource) -> Worker {
        Worker::new(self.client.clone())
            .queue("q")
            .executor(name)
            .wait(Duration::from_millis(200))
            .from_bus(source)
    }

    /// The next message, taken manually.
    async fn receive(&self, bus: &RedisBus) -> Delivery {
        let mut got = bus.receive(&queue(), 1, HANG_LIMIT, WallClock.now()).await.unwrap();
        got.pop().expect("a message comes")
    }

    async fn until_in_state(&self, place: TaskRef, state: State) {
        until("the task gets there", || async { self.engine.read(place).await.unwrap().state == state })
            .await;
    }

    /// Nothing is on the bus, neither unread nor with a worker.
    async fn until_empty(&self) {
        let key = format!("{}:{{q:default/q:0}}:stream", self.prefix);
        until("the bus is empty", || async { self.redis.command(&["XLEN", &key]).await == "0" }).await;
    }
}

async fn bus(redis: &Redis, prefix: &str, consumer: &str) -> RedisBus {
    let (prefix, consumer) = (prefix.to_owned(), consumer.to_owned());
    let options = RedisBusOptions { prefix, consumer, ..RedisBusOptions::default() };
    RedisBus::connect(&redis.url(), options).await.unwrap()
}

/// Workers that run beside the test.
struct Working {
    shutdown: Vec<CancellationToken>,
    work: JoinSet<Worked>,
}

impl Working {
    fn start(workers: impl IntoIterator<Item = Worker>) -> Self {
        let (mut shutdown, mut work) = (Vec::new(), JoinSet::new());
        for worker in workers {
            shutdown.push(worker.shutdown());
            work.spawn(async move { worker.run().await.unwrap() });
        }
        Self { shutdown, work }
    }

    /// The number of tasks that succeeded and whose outcome was accepted.
    async fn end(self) -> u64 {
        self.shutdown.iter().for_each(CancellationToken::cancel);
        let worked = timeout(HANG_LIMIT, self.work.join_all()).await.expect("a prompt end");
        worked.iter().map(|worked| worked.succeeded).sum()
    }
}

/// Counts its executions.
fn counting(worker: Worker, ran: &Arc<AtomicUsize>) -> Worker {
    let ran = Arc::clone(ran);
    worker.handle_any(move |_| {
        ran.fetch_add(1, SeqCst);
        async { Ok(()) }
    })
}

async fn publish(bus: &RedisBus, message: &Assignment) {
    bus.publish(vec![message.clone()]).await.remove(0).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_go_over_the_bus_to_workers_and_succeed() {
    let rig = RedisWorkerRig::start(LEASE_MS).await;
    let mut workers = Vec::new();
    for name in ["w-1", "w-2"] {
        let source = rig.source(name).await.guard(rig.guard(name).await);
        workers.push(
            rig.worker(name, source)
                .handle("k", |task: Task| async move { Ok(task.payload::<usize>()? * 2) }),
        );
    }
    let working = Working::start(workers);
    let places = rig.insert(300).await;
    for (number, place) in places.into_iter().enumerate() {
        rig.until_in_state(place, State::Succeeded).await;
        let task = rig.engine.read(place).await.unwrap();
        assert_eq!(task.attempt, 1, "{:?}", task.history);
        assert_eq!(task.result.unwrap().content.unwrap(), Content::json((number * 2).to_string()));
    }
    assert_eq!(working.end().await, 300);
    rig.until_empty().await;
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_attempt_that_is_delivered_twice_is_executed_once() {
    let rig = RedisWorkerRig::start(LEASE_MS).await;
    let manual = rig.bus("hand").await;
    let ran = Arc::new(AtomicUsize::new(0));
    let places = rig.insert(20).await;
    for _ in 0..20 {
        let delivery = rig.receive(&manual).await;
        publish(&manual, &delivery.message).await;
        publish(&manual, &delivery.message).await;
        manual.acknowledge(&queue(), &[delivery.id]).await.unwrap();
    }
    let mut workers = Vec::new();
    for name in ["w-1", "w-2"] {
        let source = rig.source(name).await.guard(rig.guard(name).await);
        workers.push(counting(rig.worker(name, source), &ran));
    }
    let working = Working::start(workers);
    for place in places {
        rig.until_in_state(place, State::Succeeded).await;
    }
    rig.until_empty().await;
    assert_eq!(working.end().await, 20);
    assert_eq!(ran.load(SeqCst), 20);
    rig.running.stop().await;
}

/// Its outcome is known, and then the message is delivered again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stale_message_is_not_executed_and_leaves_the_bus() {
    let rig = RedisWorkerRig::start(LEASE_MS).await;
    let dead = rig.bus("dead").await;
    let place = rig.insert(1).await[0];
    let message = rig.receive(&dead).await.message;
    let (fence, result) = (message.fence, TaskResult::default());
    let outcome = OutcomeReport { place, fence, report: Report::Succeeded, result };
    rig.engine.record_outcomes(vec![outcome], "dead").await.unwrap();
    drop(dead);
    let ran = Arc::new(AtomicUsize::new(0));
    let source = rig.source("w-1").await;
    let working = Working::start([counting(rig.worker("w-1", source), &ran)]);
    rig.until_empty().await;
    working.end().await;
    assert_eq!(ran.load(SeqCst), 0);
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_a_dead_worker_had_received_runs_in_another_before_its_lease_ends() {
    let rig = RedisWorkerRig::start(LEASE_MS).await;
    let dead = rig.bus("dead").await;
    let place = rig.insert(1).await[0];
    rig.receive(&dead).await;
    drop(dead);
    let ran = Arc::new(AtomicUsize::new(0));
    let source = rig.source("w-1").await.guard(rig.guard("w-1").await);
    let working = Working::start([counting(rig.worker("w-1", source), &ran)]);
    rig.until_in_state(place, State::Succeeded).await;
    assert_eq!(rig.engine.read(place).await.unwrap().attempt, 1, "not by another attempt");
    assert_eq!((working.end().await, ran.load(SeqCst)), (1, 1));
    rig.running.stop().await;
}

/// The message is received with 2 s of lease left; the worker's leases last 30 s. Only a heartbeat can have
/// extended it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lease_that_is_nearly_over_is_extended_before_the_task_runs() {
    let rig = RedisWorkerRig::start(2_000).await;
    let engine = rig.engine.clone();
    let source = rig.source("w-1").await;
    let worker = rig.worker("w-1", source).handle_any(move |task: Task| {
        let engine = engine.clone();
        async move {
            let kept = engine.read(task.reference().parse().unwrap()).await.unwrap();
            let until = kept.lease.unwrap().until;
            Ok((until.since(kept.fired_at.unwrap()), until.since(engine.now())))
        }
    });
    let working = Working::start([worker]);
    let place = rig.insert(1).await[0];
    rig.until_in_state(place, State::Succeeded).await;
    let result = rig.engine.read(place).await.unwrap().result.unwrap().content.unwrap();
    let (lasts_ms, left_ms): (i64, i64) = serde_json::from_slice(&result.bytes).unwrap();
    assert!(lasts_ms >= 30_000 && left_ms <= 30_000, "{lasts_ms} ms since it fired, {left_ms} ms left");
    assert_eq!(working.end().await, 1);
    rig.running.stop().await;
}

/// Redis becomes unavailable under a worker that waits; afterwards it works again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_worker_outlives_its_bus() {
    let rig = RedisWorkerRig::start(LEASE_MS).await;
    let own = Redis::own().await;
    let elsewhere = Arc::new(bus(&own, "own", "w-1").await);
    let ran = Arc::new(AtomicUsize::new(0));
    let source = BusSource::new(Arc::clone(&elsewhere) as Arc<dyn Bus>);
    let working = Working::start([counting(rig.worker("w-1", source), &ran)]);
    let manual = rig.bus("hand").await;
    let mut pulled = 0;
    for round in 1..=2 {
        // While its bus is unavailable the worker pulls (C5), and may lease a task before the engine publishes it. Then the next one is
        // tried: the worker listens to its bus again when that answers.
        let (place, delivery) = loop {
            let place = rig.insert(1).await[0];
            tokio::select! {
                delivery = rig.receive(&manual) => break (place, delivery),
                () = rig.until_in_state(place, State::Succeeded) => pulled += 1,
            }
        };
        until("the message is sent", || async {
            elsewhere.publish(vec![delivery.message.clone()]).await.remove(0).is_ok()
        })
        .await;
        rig.until_in_state(place, State::Succeeded).await;
        assert_eq!(ran.load(SeqCst), round + pulled);
        own.kill();
        own.start_again().await;
    }
    working.end().await;
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_long_payload_and_a_long_result_go_over_the_bus_whole() {
    const LEN: usize = 3 << 20;
    let rig = RedisWorkerRig::start(LEASE_MS).await;
    let letters = |letter: char| serde_json::to_string(&letter.to_string().repeat(LEN)).unwrap();
    let worker = rig.worker("w-1", rig.source("w-1").await).handle("k", |task: Task| async move {
        let sent: String = task.payload()?;
        Ok(sent.replace('a', "b"))
    });
    let working = Working::start([worker]);
    let payload = Content::json(letters('a'));
    let new =
        NewTask { payload, ..NewTask::new(queue(), Name::new("k").unwrap(), rig.engine.now().plus(20)) };
    let place = rig.engine.insert(vec![new], "test").await.unwrap()[0].task.place;
    rig.until_in_state(place, State::Succeeded).await;
    let row = rig.engine.read(place).await.unwrap();
    let is_outside = |content: Option<&Content>| content.is_some_and(|content| content.is_outside);
    let result =
        |task: &punctual_domain::task::Task| task.result.as_ref().and_then(|result| result.content.clone());
    assert!(is_outside(Some(&row.ask.payload)) && is_outside(result(&row).as_ref()), "{row:?}");
    let whole = rig.engine.whole(row).await.unwrap();
    assert!(whole.ask.payload == Content::json(letters('a')), "the payload, letter for letter");
    assert!(result(&whole) == Some(Content::json(letters('b'))), "the result, letter for letter");
    rig.until_empty().await;
    assert_eq!(working.end().await, 1);
    rig.running.stop().await;
}

/// Attempts that were taken from the bus: pulled attempts have no guard here.
async fn guarded(redis: &Redis) -> usize {
    redis.command(&["KEYS", "*:guard"]).await.lines().filter(|line| line.ends_with(":guard")).count()
}

/// Pull works while the bus does not (C5): tasks that fire while Redis is unavailable run all the same, and
/// later ones are delivered over the bus again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn while_the_bus_is_away_a_worker_asks_the_server_and_returns() {
    let own = Redis::own().await;
    let rig = RedisWorkerRig::start_on(&own, LEASE_MS).await;
    let elsewhere = bus(&own, &rig.prefix, "w-1").await;
    let ran = Arc::new(AtomicUsize::new(0));
    let source = BusSource::new(Arc::new(elsewhere)).guard(rig.guard("w-1").await);
    let working = Working::start([counting(rig.worker("w-1", source), &ran)]);
    let before = rig.insert(1).await[0];
    rig.until_in_state(before, State::Succeeded).await;
    assert_eq!(guarded(&own).await, 1);
    own.kill();
    // Whom the engine tries to send first comes back after the compensator's period; the others are asked for.
    let places = rig.insert(20).await;
    until("the worker goes on", || async { ran.load(SeqCst) > 10 }).await;
    own.start_again().await;
    let known = guarded(&own).await;
    until("a task comes over the bus again", || async {
        let place = rig.insert(1).await[0];
        rig.until_in_state(place, State::Succeeded).await;
        guarded(&own).await > known
    })
    .await;
    for place in places {
        rig.until_in_state(place, State::Succeeded).await;
    }
    working.end().await;
    rig.running.stop().await;
}

/// A worker that pulls, with a guard: an attempt that another has begun is not begun again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_worker_that_pulls_asks_its_guard_and_runs_where_that_does_not_answer() {
    let rig = RedisWorkerRig::start(LEASE_MS).await;
    let own = Redis::own().await;
    let guard = |name: &str| {
        let options = GuardOptions { holder: name.to_owned(), ..GuardOptions::default() };
        let url = own.url();
        async move { Guard::connect(&url, options).await.unwrap() }
    };
    let ran = Arc::new(AtomicUsize::new(0));
    let pulling = |guard: Guard| {
        let worker = Worker::new(rig.client.clone()).queue("pulled").executor("w-1");
        counting(worker.wait(Duration::from_millis(200)).guard(guard), &ran)
    };
    let working = Working::start([pulling(guard("w-1").await)]);
    let first = rig.insert_into("pulled").await;
    rig.until_in_state(first, State::Succeeded).await;
    assert!(own.command(&["KEYS", "*:guard"]).await.contains("guard"), "it was asked");
    own.kill();
    let second = rig.insert_into("pulled").await;
    rig.until_in_state(second, State::Succeeded).await;
    assert_eq!(ran.load(SeqCst), 2);
    working.end().await;
    rig.running.stop().await;
}

/// Another worker received the same attempt, and has begun it: this worker neither begins it nor reports for
/// it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_worker_that_pulls_does_not_run_what_another_has_begun() {
    let rig = RedisWorkerRig::start(LEASE_MS).await;
    let held = rig.insert_into("pulled").await;
    let (other, fence) = (rig.guard("other").await, rig.engine.read(held).await.unwrap().fence);
    for fence in fence + 1..fence + 4 {
        let taken = other.take(Execution { place: held, fence, attempt: 1 }).await.unwrap();
        assert_eq!(taken, Taken::Granted);
    }
    let ran = Arc::new(AtomicUsize::new(0));
    let worker = Worker::new(rig.client.clone()).queue("pulled").executor("w-1");
    let worker = worker.wait(Duration::from_millis(200)).guard(rig.guard("w-1").await);
    let working = Working::start([counting(worker, &ran)]);
    rig.until_in_state(held, State::Dispatched).await;
    let free = rig.insert_into("pulled").await;
    rig.until_in_state(free, State::Succeeded).await;
    assert_eq!(rig.engine.read(held).await.unwrap().state, State::Dispatched, "left to its lease");
    assert_eq!((working.end().await, ran.load(SeqCst)), (1, 1));
    rig.running.stop().await;
}
