//! What all requests share. Holds nothing that must survive the process.

use crate::{
    access::{Attempts, Needs},
    metrics::HttpMeters,
    options::ServerOptions,
};
use punctual_domain::time::Millis;
use punctual_engine::Engine;
use std::sync::{Arc, atomic::AtomicU64};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) type Shared = Arc<App>;

#[derive(Debug)]
pub(crate) struct App {
    pub(crate) engine: Engine,
    pub(crate) options: ServerOptions,
    /// What each route needs.
    pub(crate) needs: Needs,
    /// Tokens that were not good.
    pub(crate) attempts: Attempts,
    pub(crate) http: HttpMeters,
    /// Requests that came with an idempotency key.
    pub(crate) keyed: AtomicU64,
    /// Requests that run to their end although their client may have gone.
    pub(crate) detached: TaskTracker,
    /// Ends long polls.
    pub(crate) shutdown: CancellationToken,
    pub(crate) slots: Semaphore,
    pub(crate) started_at: Millis,
    pub(crate) requests: AtomicU64,
}

impl App {
    pub(crate) fn new(engine: Engine, options: ServerOptions, shutdown: CancellationToken) -> Shared {
        Arc::new(Self {
            started_at: engine.now(),
            slots: Semaphore::new(options.in_flight_max.min(Semaphore::MAX_PERMITS)),
            needs: crate::router::needs(),
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
