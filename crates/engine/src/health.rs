//! The state of this engine and its servers, as far as is known: for alerts and load balancers. Holds results only;
//! the checks are in the modules of its fields.

use crate::{
    alerts::state::Alerts, clock::watch::state::Watch, durability::Durability, inboxes::Inboxes,
    readiness::state::Writers, sharing::self_check::state::LivenessTick,
};

#[derive(Debug, Default)]
pub(crate) struct Health {
    pub(crate) alerts: Alerts,
    /// States if the servers of the store keep what they acknowledge.
    pub(crate) durability: Durability,
    pub(crate) writers: Writers,
    /// The liveness of the service that fires.
    pub(crate) firing: LivenessTick,
    /// The state of the inboxes, as their relays have reported last.
    pub(crate) inboxes: Inboxes,
    /// The state of the clock.
    pub(crate) watch: Watch,
}
