//! The state that all steps of a runner share. Must import no step.

use crate::{meters::Meters, options::Options};
use parking_lot::Mutex;
use punctual_contract::BulkStore;
use punctual_domain::time::Millis;
use punctual_engine::Engine;
use punctual_workflows::Runner as Workflows;
use std::sync::Arc;
use tokio::sync::Notify;

#[derive(Debug)]
pub(crate) struct RunnerState {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<dyn BulkStore>,
    pub(crate) options: Options,
    /// Notified of the ends of their tasks.
    pub(crate) workflows: Option<Workflows>,
    /// The instant of the last search for old operations.
    pub(crate) forgot_at: Mutex<Option<Millis>>,
    pub(crate) meters: Meters,
    /// Some operation may have work here now.
    pub(crate) has_work: Notify,
}
