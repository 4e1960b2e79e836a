//! How far the hot set is filled: how much room it has, what is missing behind that, and what asks for more ahead of the next look.
//! Fills nothing itself: that is `preload`'s, `refill`'s and `sharing::adopt`'s.

use super::{
    refill::state::{Gaps, OverdueLooks},
    room::state::Room,
};
use std::sync::atomic::AtomicBool;
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Filling {
    pub(crate) room: Room,
    /// The preloader had more than the hot set has room for.
    pub(crate) is_crowded: AtomicBool,
    pub(crate) gaps: Gaps,
    pub(crate) overdue: OverdueLooks,
    /// Asks for a look at partitions just taken over.
    pub(crate) look_through: Notify,
    /// What is new here has been looked through: the rest of its horizon is to be loaded.
    pub(crate) preload: Notify,
}
