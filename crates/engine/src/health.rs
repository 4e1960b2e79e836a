//! Whether this engine and its servers do their work, as far as is known: for alerts, and for whoever sends callers here. Holds
//! what was found; who looks stands in the modules of its fields.

use crate::{
    alerts::state::Alerts, clock::watch::state::Watch, durability::Durability, readiness::state::Writers,
    sharing::fitness::state::Pulse,
};

#[derive(Debug, Default)]
pub(crate) struct Health {
    pub(crate) alerts: Alerts,
    /// Whether the servers of the store keep what they acknowledge.
    pub(crate) durability: Durability,
    pub(crate) writers: Writers,
    /// Of the service that fires.
    pub(crate) firing: Pulse,
    /// Of the clock.
    pub(crate) watch: Watch,
}
