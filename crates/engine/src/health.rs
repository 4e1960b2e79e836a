//! The state of this engine and its servers, as far as is known: for alerts and load balancers. Holds results only;
//! the checks are in the modules of its fields.

use crate::{
    alerts::state::Alerts, clock::watch::state::Watch, durability::Durability, inboxes::Inboxes,
    readiness::state::Writers, sharing::self_check::state::LivenessTick, webhooks::HeldBack,
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
    /// The webhook queues to which nothing is delivered now, as the dispatcher has reported last.
    pub(crate) held_back: HeldBack,
    /// The state of the clock.
    pub(crate) watch: Watch,
}
