//! The fill level of the hot set: its capacity, its known gaps, and requests for an early check. Fills nothing
//! itself: `preload`, `refill` and `sharing::adopt` do.

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
    /// The last run of the preloader had much to load.
    pub(crate) is_busy: AtomicBool,
    pub(crate) gaps: Gaps,
    pub(crate) overdue: OverdueLooks,
    /// Requests a scan of partitions that were just taken over.
    pub(crate) look_through: Notify,
    /// New partitions were scanned: the rest of their horizon must be loaded.
    pub(crate) preload: Notify,
}
