//! What the table answers when entries come, an instant has come, a lease was made, or a partition goes. Plain data: nothing here
//! decides.

use crate::clock::moment::Moment;
use punctual_contract::{hot::HotEntry, store::Assignment};
use punctual_domain::place::TaskRef;
use punctual_wheel::Key;

/// What the firing of an entry meets.
#[derive(Debug)]
pub(crate) enum Fired {
    /// It was not claimed here.
    Unclaimed(HotEntry),
    /// It was claimed: it may be offered.
    Claimed(HotEntry),
    /// Its claim or its lease is on the way, and the answer goes on with it.
    Awaited,
    /// It was leased ahead: it may be handed over.
    Leased(Box<Ready>),
}

/// What a lease meets that the store has made.
#[derive(Debug)]
pub(crate) enum Granted {
    /// It waits for its instant, or whoever withdrew the task takes the lease back.
    Kept,
    /// The instant has come meanwhile.
    Fired(Box<Ready>),
    /// Nobody wants it any more: it is given back.
    Unwanted(Box<Assignment>),
}

/// Fired and leased: an executor may have it.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) entry: HotEntry,
    pub(crate) assignment: Assignment,
    /// When the lease was asked for.
    pub(crate) asked: Moment,
    /// The hot set has nothing of the entry any more.
    pub(crate) is_settled: bool,
}

/// What a batch of entries met.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// New here, or newer: to be claimed.
    pub(crate) accepted: Vec<HotEntry>,
    /// Withdrawn and put back while their leases are on the way: only the wheel is missing.
    pub(crate) put_back: Vec<HotEntry>,
    /// Keys of older entries on the wheel, which newer ones have replaced.
    pub(crate) stale: Vec<Key>,
}

/// What entries met that the wheel has now.
#[derive(Debug, Default)]
pub(crate) struct Confirmed {
    pub(crate) count: usize,
    /// Before, nothing was to be looked at for a lease ahead.
    pub(crate) has_first_candidate: bool,
    /// Keys of entries that are not to be on the wheel: they have fired meanwhile, or were withdrawn.
    pub(crate) stale: Vec<Key>,
    /// Fired while their claim was on its way: to be offered.
    pub(crate) fired: Vec<HotEntry>,
}

/// What the table had of a partition that this engine works on no more.
#[derive(Debug, Default)]
pub(crate) struct Closed {
    pub(crate) keys: Vec<Key>,
    /// Claimed and not fired, with the fence.
    pub(crate) claimed: Vec<(TaskRef, i64)>,
    /// Fired while their claim or lease was on its way.
    pub(crate) fired: Vec<HotEntry>,
    /// Leases of what has not fired: to be given back.
    pub(crate) leased: Vec<Assignment>,
}
