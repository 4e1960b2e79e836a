//! What the table answers when an instant has come or a lease was made. Plain data: nothing here decides.

use crate::clock::steady_reading::SteadyReading;
use punctual_contract::{hot::HotEntry, store::Assignment};

/// What the firing of an entry meets.
#[derive(Debug)]
pub(crate) enum Fired {
    /// It may be offered.
    ToLease(HotEntry),
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
    pub(crate) asked: SteadyReading,
}
