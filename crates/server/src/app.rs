//! The state that all requests share. Holds nothing that must survive the process. Must never import a handler, a layer or
//! the router: they all import this file.

use crate::{
    access::{Attempts, Needs},
    listener::{Certificates, ConnectionLimits, Connections, TlsMeters},
    metrics::http::HttpMeters,
    options::ServerOptions,
    waiting::list::WaitingRequests,
};
use punctual_domain::time::Millis;
use punctual_engine::Engine;
use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize},
};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) type Shared = Arc<App>;

#[derive(Debug)]
pub(crate) struct App {
    pub(crate) engine: Engine,
    pub(crate) options: ServerOptions,
    /// The permissions that each route needs.
    pub(crate) needs: &'static Needs,
    /// Tokens that were not good.
    pub(crate) attempts: Attempts,
    pub(crate) http: HttpMeters,
    /// The number of requests with an idempotency key.
    pub(crate) keyed: AtomicU64,
    /// Requests that run to their end although their client may have gone.
    pub(crate) detached: TaskTracker,
    /// Ends long polls.
    pub(crate) shutdown: CancellationToken,
    pub(crate) slots: Semaphore,
    /// Calls that may wait for tasks.
    pub(crate) long_polls: Semaphore,
    /// Requests that wait for the end of a task.
    pub(crate) waiting: WaitingRequests,
    /// The bytes of the bodies of requests that are read or processed.
    pub(crate) bodies_bytes: Arc<AtomicUsize>,
    pub(crate) connections: Arc<Connections>,
    /// `None` for plain HTTP.
    pub(crate) certificates: Option<Arc<Certificates>>,
    pub(crate) tls: TlsMeters,
    pub(crate) started_at: Millis,
    pub(crate) requests: AtomicU64,
}

impl App {
    pub(crate) fn new(
        engine: Engine,
        options: ServerOptions,
        needs: &'static Needs,
        certificates: Option<Arc<Certificates>>,
        shutdown: CancellationToken,
    ) -> Shared {
        let connections = Connections::new(ConnectionLimits::of_this_process(&options.listener));
        Arc::new(Self {
            started_at: engine.now(),
            slots: Semaphore::new(options.in_flight_max.min(Semaphore::MAX_PERMITS)),
            long_polls: Semaphore::new(connections.limits.long_polls_max.min(Semaphore::MAX_PERMITS)),
            waiting: WaitingRequests::default(),
            bodies_bytes: Arc::default(),
            connections,
            certificates,
            tls: TlsMeters::default(),
            needs,
            attempts: Attempts::default(),
            http: HttpMeters::default(),
            keyed: AtomicU64::new(0),
            detached: TaskTracker::new(),
            requests: AtomicU64::new(0),
            engine,
            options,
            shutdown,
        })
    }
}
