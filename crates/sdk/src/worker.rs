//! The worker: leases tasks for its free slots, runs their handlers, extends their leases, reports their
//! outcomes. No error of a server or a handler ends it; only its shutdown does.

mod attempt;
mod declared;
mod guarding;
mod heartbeat;
mod held;
mod leasing;
mod report;
mod several;
mod slots;
#[cfg(feature = "redis")]
mod subscribing;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use punctual_protocol::limits::LEASE_MS_DEFAULT;
use punctual_protocol::{Json, LeaseRequest, Wish};
use serde::Serialize;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::client::Client;
use crate::error::Error;
use crate::handlers::{HandlerError, Handlers, Next};
use crate::job::Job;
use crate::task::Task;
use guarding::ExecutionGuard;
use held::HeldLeases;
use report::{OutcomeTally, PendingOutcome};
use slots::WorkerQueue;

/// The time limit, after the grace period, for handlers to end and for the last outcomes to be reported.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A worker's counts, from `run` to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worked {
    pub succeeded: u64,
    pub failed: u64,
    pub snoozed: u64,
    pub rejected: u64,
    /// The number of tasks that were returned unfinished at shutdown.
    pub handed_back: u64,
    /// Leases that ended while a handler ran; the handler was dropped.
    pub lost: u64,
    /// Outcomes that were too late to count.
    pub stale: u64,
    /// Outcomes that could not be reported before their lease was long over, or before the shutdown ended.
    pub unreported: u64,
}

/// Runs handlers for tasks of one or more queues.
#[derive(Debug)]
pub struct Worker {
    client: Client,
    /// The queues, with the maximum number of tasks of each that run at the same time.
    queues: Vec<(String, Option<usize>)>,
    handlers: Handlers,
    options: Options,
    shutdown: CancellationToken,
    #[cfg(feature = "redis")]
    source: Option<Arc<crate::bus::BusSource>>,
    guard: ExecutionGuard,
}

/// Settings, with their defaults in `Default`.
#[derive(Clone, Debug)]
struct Options {
    executor: String,
    concurrency: usize,
    lease_ms: u64,
    wait_ms: u64,
    grace: Duration,
    /// The time that the first outcome of a report waits for others.
    gather: Duration,
    version: Option<String>,
    host: Option<String>,
    /// The maximum number of tasks of all workers with this name.
    held: Option<u32>,
    labels: BTreeMap<String, String>,
    /// It is given no tasks of other kinds than it has handlers for.
    only_kinds: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            executor: format!("worker-{}-{:04x}", std::process::id(), fastrand::u16(..)),
            concurrency: 16,
            lease_ms: LEASE_MS_DEFAULT,
            wait_ms: 20_000,
            grace: Duration::from_secs(30),
            gather: Duration::from_millis(2),
            version: None,
            host: declared::host(),
            held: None,
            labels: BTreeMap::new(),
            only_kinds: false,
        }
    }
}

/// The shared state of a worker's services.
#[derive(Debug)]
struct WorkerContext {
    client: Client,
    handlers: Handlers,
    options: Options,
    queues: Vec<WorkerQueue>,
    slots: Arc<Semaphore>,
    held: HeldLeases,
    running: TaskTracker,
    tally: OutcomeTally,
    /// Ends new leases: a shutdown, or a drain.
    stop: CancellationToken,
    shutdown: CancellationToken,
    /// The desired state; none: to serve.
    wish: watch::Sender<Option<Wish>>,
    /// Drops handlers that still run, and returns their tasks.
    abandon: CancellationToken,
    /// `None` if tasks come from the server.
    #[cfg(feature = "redis")]
    source: Option<Arc<crate::bus::BusSource>>,
    /// The guard of tasks from the server; the bus has its own.
    guard: ExecutionGuard,
}

impl WorkerContext {
    /// Asks the server only while the bus is unavailable.
    #[cfg(feature = "redis")]
    fn is_from_bus(&self) -> bool {
        self.source.is_some()
    }

    #[cfg(not(feature = "redis"))]
    fn is_from_bus(&self) -> bool {
        false
    }
}

impl Worker {
    /// A worker without queues and handlers.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            queues: Vec::new(),
            handlers: Handlers::default(),
            options: Options::default(),
            shutdown: CancellationToken::new(),
            #[cfg(feature = "redis")]
            source: None,
            guard: ExecutionGuard::default(),
        }
    }

    /// Asks the guard before each execution of a task from the server; [`crate::bus::BusSource::guard`] is
    /// for tasks from the bus. A task about which it does not answer is executed, and while the bus is
    /// unavailable it is not asked: the fence refuses the outcome of a second execution.
    #[cfg(feature = "redis")]
    #[must_use]
    pub fn guard(mut self, guard: crate::bus::Guard) -> Self {
        self.guard = ExecutionGuard::Redis(guard);
        self
    }

    /// Sends a heartbeat before each execution of a task from the server, and executes only the attempts that this
    /// heartbeat began: an attempt that was delivered twice runs once, without Redis. This costs one more call for
    /// each batch of leases. The tasks wait for the answer for at most a third of the lease; without an answer they
    /// run.
    #[must_use]
    pub fn guard_by_server(mut self) -> Self {
        self.guard = ExecutionGuard::Server;
        self
    }

    /// Receives tasks from the bus instead of the server, and from the server while the bus does not answer.
    /// Heartbeats and outcomes are still sent to the server.
    #[cfg(feature = "redis")]
    #[must_use]
    pub fn from_bus(mut self, source: crate::bus::BusSource) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Takes tasks of this queue too. With several, one call requests tasks of all of them: any that has
    /// tasks is served, and none waits long behind the others.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.take(queue.into(), None);
        self
    }

    /// Subscribes to a queue like `queue`, and runs at most this many of its tasks here at the same time, so that
    /// slow tasks of one queue leave slots for the others.
    #[must_use]
    pub fn queue_up_to(mut self, queue: impl Into<String>, concurrency: usize) -> Self {
        self.take(queue.into(), Some(concurrency));
        self
    }

    fn take(&mut self, queue: String, concurrency: Option<usize>) {
        self.queues.retain(|pair| pair.0 != queue);
        self.queues.push((queue, concurrency));
    }

    /// Takes only tasks of the kinds that have a handler; the others stay ready for other workers. Not for a
    /// worker with a handler for any kind, nor for tasks from the bus, which every subscriber gets.
    #[must_use]
    pub fn only_own_kinds(mut self) -> Self {
        self.options.only_kinds = true;
        self
    }

    /// Runs tasks of this kind. `Ok` is stored as the task's result, an error is a failed attempt.
    #[must_use]
    pub fn handle<F, Fut, T>(mut self, kind: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Task) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, HandlerError>> + Send + 'static,
        T: Serialize,
    {
        self.handlers.handle(kind, handler);
        self
    }

    /// Runs jobs of this type, and takes tasks of their queue. A payload of another form is rejected, not
    /// retried.
    #[must_use]
    pub fn job<J, F, Fut, T>(mut self, handler: F) -> Self
    where
        J: Job,
        F: Fn(J, Task) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, HandlerError>> + Send + 'static,
        T: Serialize,
    {
        if !self.queues.iter().any(|queue| queue.0 == J::QUEUE) {
            self.take(J::QUEUE.to_owned(), None);
        }
        let handler = Arc::new(handler);
        self.handle(J::KIND, move |task: Task| {
            let handler = handler.clone();
            async move { handler(task.payload::<J>()?, task).await }
        })
    }

    /// Runs around every handler; the first that is added is the outermost. See [`Handlers::around`].
    #[must_use]
    pub fn around<F, Fut>(mut self, middleware: F) -> Self
    where
        F: Fn(Task, Next) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<Json>, HandlerError>> + Send + 'static,
    {
        self.handlers.around(middleware);
        self
    }

    /// Runs tasks of every kind that has no handler of its own.
    #[must_use]
    pub fn handle_any<F, Fut, T>(mut self, handler: F) -> Self
    where
        F: Fn(Task) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, HandlerError>> + Send + 'static,
        T: Serialize,
    {
        self.handlers.handle_any(handler);
        self
    }

    /// Handlers that were put together elsewhere, in place of those so far.
    #[must_use]
    pub fn handlers(mut self, handlers: Handlers) -> Self {
        self.handlers = handlers;
        self
    }

    /// Tasks that run at the same time; 16 unless set.
    #[must_use]
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.options.concurrency = concurrency;
        self
    }

    /// Sets the maximum number of tasks that all workers with this executor name hold at one time, over all queues,
    /// processes and engines: the cluster enforces it, independently of their `concurrency`. Needs a common name, by
    /// [`Worker::executor`]. After a crash, tasks count until their leases end.
    #[must_use]
    pub fn executor_concurrency(mut self, concurrency: u32) -> Self {
        self.options.held = Some(concurrency);
        self
    }

    /// Name of the machine, shown with the executor; the system's unless set.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.options.host = Some(host.into());
        self
    }

    /// Sets the duration of a lease without a heartbeat, in full milliseconds. Default: 30 s. Heartbeats are sent
    /// three times as often. After a crash of the worker its tasks run elsewhere after this time.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// Name in the history of tasks; made of the process id unless set.
    #[must_use]
    pub fn executor(mut self, executor: impl Into<String>) -> Self {
        self.options.executor = executor.into();
        self
    }

    /// The worker's name in the history of tasks.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.options.executor
    }

    /// Version of the handlers, major.minor.patch. A worker without one gets no tasks that demand `handler_versions`.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.options.version = Some(version.into());
        self
    }

    /// Shown with the executor.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.labels.insert(key.into(), value.into());
        self
    }

    /// Sets the maximum duration of a long poll, in full milliseconds. Default: 20 s.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options.wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// Sets the time limit for running handlers to finish after a shutdown. Default: 30 s.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.options.grace = grace;
        self
    }

    /// Cancel it to end `run`: no new leases, running handlers get the grace period, remaining tasks are
    /// returned.
    pub fn shutdown(&self) -> CancellationToken {
        self.shutdown.clone()
    }

    /// Works until the shutdown, or until an operator drains the worker: then it finishes its tasks, however
    /// long that takes, unless a shutdown follows. The only errors are invalid settings. Dropping the future
    /// drops the running handlers; their tasks run again when their leases end.
    pub async fn run(self) -> Result<Worked, Error> {
        self.check()?;
        let (reports, inbox) = mpsc::unbounded_channel();
        let shared = self.share();
        // However this future ends, no handler outlives it.
        let _abandon = shared.abandon.clone().drop_guard();
        let beating = CancellationToken::new();
        let mut services = JoinSet::new();
        let mut leasing = JoinSet::new();
        services.spawn(heartbeat::run(shared.clone(), beating.clone()));
        let mut reporting = JoinSet::new();
        reporting.spawn(report::run(shared.clone(), inbox));
        if shared.queues.len() > 1 && !shared.is_from_bus() {
            leasing.spawn(several::run(shared.clone(), reports.clone()));
        } else {
            for queue in shared.queues.clone() {
                leasing.spawn(fetch(shared.clone(), queue, reports.clone()));
            }
        }
        leasing.join_all().await;
        wind_down(&shared, reports, reporting).await;
        beating.cancel();
        services.join_all().await;
        heartbeat::farewell(&shared).await;
        Ok(shared.tally.total())
    }

    fn check(&self) -> Result<(), Error> {
        if self.queues.is_empty() {
            return Err(Error::configuration("a worker needs at least one queue"));
        }
        if self.handlers.is_empty() {
            return Err(Error::configuration("a worker needs at least one handler"));
        }
        let options = &self.options;
        let mut bounds = self.queues.iter().filter_map(|queue| queue.1);
        if bounds.any(|bound| !(1..=Semaphore::MAX_PERMITS).contains(&bound)) {
            return Err(Error::configuration("the concurrency of a queue must be at least 1"));
        }
        if options.only_kinds && self.handlers.kinds().is_empty() {
            return Err(Error::configuration("a worker with a handler for any kind takes tasks of any kind"));
        }
        if !(1..=Semaphore::MAX_PERMITS).contains(&options.concurrency) {
            return Err(Error::configuration("concurrency must be at least 1"));
        }
        let (wait_ms, lease_ms, executor) = (options.wait_ms, options.lease_ms, options.executor.clone());
        let (version, labels) = (options.version.clone(), Some(options.labels.clone()));
        let (host, concurrency) = (options.host.clone(), options.held);
        let asks = LeaseRequest { wait_ms, lease_ms, executor, version, labels, ..LeaseRequest::default() };
        LeaseRequest { host, concurrency, ..asks }.check()?;
        #[cfg(feature = "redis")]
        if self.source.is_some() {
            if options.only_kinds {
                return Err(Error::configuration("tasks from the bus are not chosen by their kind"));
            }
            self.queues.iter().try_for_each(|queue| subscribing::key(&self.client, &queue.0).map(|_| ()))?;
        }
        Ok(())
    }

    fn share(self) -> Arc<WorkerContext> {
        let shared = WorkerContext {
            queues: self.queues.into_iter().map(|(name, most)| WorkerQueue::new(name, most)).collect(),
            slots: Arc::new(Semaphore::new(self.options.concurrency)),
            client: self.client,
            handlers: self.handlers,
            options: self.options,
            held: HeldLeases::default(),
            running: TaskTracker::new(),
            tally: OutcomeTally::default(),
            stop: self.shutdown.child_token(),
            shutdown: self.shutdown,
            wish: watch::Sender::default(),
            abandon: CancellationToken::new(),
            #[cfg(feature = "redis")]
            source: self.source,
            guard: self.guard,
        };
        Arc::new(shared)
    }
}

/// Receives tasks of one queue until the shutdown.
async fn fetch(
    shared: Arc<WorkerContext>,
    queue: WorkerQueue,
    reports: mpsc::UnboundedSender<PendingOutcome>,
) {
    #[cfg(feature = "redis")]
    if let Some(source) = shared.source.clone() {
        return subscribing::run(shared, source, queue, reports).await;
    }
    leasing::run(shared, queue, reports).await;
}

/// Lets handlers finish, returns unfinished tasks, and reports all of them.
async fn wind_down(
    shared: &WorkerContext,
    reports: mpsc::UnboundedSender<PendingOutcome>,
    mut reporting: JoinSet<()>,
) {
    shared.running.close();
    if !shared.shutdown.is_cancelled() {
        // Drained: there is time.
        shared.shutdown.run_until_cancelled(shared.running.wait()).await;
    }
    if timeout(shared.options.grace, shared.running.wait()).await.is_err() {
        shared.abandon.cancel();
        // A handler that blocks its thread cannot be dropped; its task runs again when the lease ends.
        if timeout(LAST_WORDS, shared.running.wait()).await.is_err() {
            tracing::error!(
                tasks = shared.running.len(),
                "handlers block their threads and were left behind"
            );
        }
    }
    drop(reports);
    if timeout(LAST_WORDS, reporting.join_next()).await.is_err() {
        tracing::error!("the last outcomes were not all reported; tasks without one run again");
        reporting.shutdown().await;
    }
    shared.tally.unreported(shared.held.len());
}
