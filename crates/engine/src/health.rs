//! Whether this engine and its servers work, as far as is known: for alerts and load balancers. Holds results only; the checks
//! are in the modules of its fields.

use crate::{
    alerts::state::Alerts, clock::watch::state::Watch, durability::Durability, inboxes::Inboxes,
    readiness::state::Writers, sharing::self_check::state::LivenessTick,
};

#[derive(Debug, Default)]
pub(crate) struct Health {
    pub(crate) alerts: Alerts,
    /// Whether the servers of the store keep what they acknowledge.
    pub(crate) durability: Durability,
    pub(crate) writers: Writers,
    /// Of the service that fires.
    pub(crate) firing: LivenessTick,
    /// As their relays have reported last.
    pub(crate) inboxes: Inboxes,
    /// Of the clock.
    pub(crate) watch: Watch,
}
