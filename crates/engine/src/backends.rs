//! The back ends of an engine, as its caller passes them at start.

use crate::sharing::alone::Alone;
use punctual_contract::{Blobs, Bus, Clock, Hot, Limiter, Ownership, Signals, Store};
use std::sync::Arc;

/// The back ends of an engine.
#[derive(Debug, Clone)]
pub struct Backends {
    pub store: Arc<dyn Store>,
    pub hot: Arc<dyn Hot>,
    pub limiter: Arc<dyn Limiter>,
    pub bus: Arc<dyn Bus>,
    pub clock: Arc<dyn Clock>,
    /// Storage of long payloads and results. `None` if they are in the store.
    pub blobs: Option<Arc<dyn Blobs>>,
    /// `None` if no other engine uses this store.
    pub shared: Option<SharedBackends>,
}

/// The back ends through which engines that share a store and a hot set coordinate.
#[derive(Debug, Clone)]
pub struct SharedBackends {
    pub ownership: Arc<dyn Ownership>,
    pub signals: Arc<dyn Signals>,
    /// Holds the limits of scanned queues, so that these need no Redis. `None` if `Backends::limiter` is in the store
    /// itself.
    pub stored_limiter: Option<Arc<dyn Limiter>>,
}

impl SharedBackends {
    /// The backends of an engine that does not share its store.
    pub(crate) fn alone(engine: &str, partitions: u16) -> Self {
        let alone = Arc::new(Alone::new(engine, partitions));
        Self { ownership: Arc::<Alone>::clone(&alone), signals: alone, stored_limiter: None }
    }
}
