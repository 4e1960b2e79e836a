//! The back ends of an engine, as its caller passes them at start.

use crate::sharing::alone::Alone;
use punctual_contract::{Blobs, Bus, Clock, Hot, Limiter, Ownership, Signals, Store};
use std::sync::Arc;

/// What an engine is on.
#[derive(Debug, Clone)]
pub struct Backends {
    pub store: Arc<dyn Store>,
    pub hot: Arc<dyn Hot>,
    pub limiter: Arc<dyn Limiter>,
    pub bus: Arc<dyn Bus>,
    pub clock: Arc<dyn Clock>,
    /// Where long payloads and results are. None: everything is in the store.
    pub blobs: Option<Arc<dyn Blobs>>,
    /// None: no other engine works on this store.
    pub shared: Option<SharedBackends>,
}

/// What engines that share a store and a hot set agree by.
#[derive(Debug, Clone)]
pub struct SharedBackends {
    pub ownership: Arc<dyn Ownership>,
    pub signals: Arc<dyn Signals>,
    /// Holds the limits of queues that are scanned, so that they need no Redis. None: `Backends::limiter` is in the store itself.
    pub stored_limiter: Option<Arc<dyn Limiter>>,
}

impl SharedBackends {
    /// Of an engine that shares with nobody.
    pub(crate) fn alone(engine: &str, partitions: u16) -> Self {
        let alone = Arc::new(Alone::new(engine, partitions));
        Self { ownership: Arc::<Alone>::clone(&alone), signals: alone, stored_limiter: None }
    }
}
