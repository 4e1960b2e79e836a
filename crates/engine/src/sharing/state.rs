//! This engine's state of sharing the store, in addition to its holdings (`holdings`): pending announcements,
//! requests of other engines, and reasons to hold less. Decides nothing: the rules are in the modules of its fields.

use super::{
    announce::state::Announcer, database_reachability::state::Reachability, listen::state::Asked,
    remote_demand::Elsewhere, step_aside::state::OwnershipPause, terms::state::SupersededTenures,
};
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Sharing {
    /// Pending announcements, and requests of other engines.
    pub(crate) announcer: Announcer,
    pub(crate) asked: Asked,
    /// Announcements of waiting tasks, and this engine's own demands.
    pub(crate) elsewhere: Elsewhere,
    /// Requests an early check of the present and the intended owners of partitions.
    pub(crate) look_at_ownership: Notify,
    pub(crate) rebalance: Notify,
    pub(crate) aside: OwnershipPause,
    /// Databases that this engine's writers reach, as far as others must know.
    pub(crate) reachability: Reachability,
    /// Partitions in which the hot set has seen newer terms than this engine's.
    pub(crate) superseded: SupersededTenures,
}
