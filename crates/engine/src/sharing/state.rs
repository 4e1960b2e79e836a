//! What this engine knows of sharing the store with others, beside what it holds (`holdings`): what it is to tell them, what they
//! asked for, and why it should hold less. Decides nothing: the rules are in the modules of its fields.

use super::{
    announce::state::Announcer, elsewhere::Elsewhere, listen::state::Asked,
    reachability::state::Reachability, step_aside::state::OwnershipPause, terms::state::SupersededTenures,
};
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Sharing {
    /// What the other engines are to learn of, and what they asked for.
    pub(crate) announcer: Announcer,
    pub(crate) asked: Asked,
    /// Where tasks wait for executors, and what other engines were asked for.
    pub(crate) elsewhere: Elsewhere,
    /// Asks for a look ahead of the period: at who owns what, and at who should.
    pub(crate) look_at_ownership: Notify,
    pub(crate) rebalance: Notify,
    pub(crate) aside: OwnershipPause,
    /// Databases that this engine's writers reach, as far as others must know.
    pub(crate) reachability: Reachability,
    /// Partitions in which the hot set has seen newer terms than this engine's.
    pub(crate) superseded: SupersededTenures,
}
