//! The table's answers when a task is due or a lease was made. Plain data: nothing here decides.

use crate::clock::steady_reading::SteadyReading;
use punctual_contract::{hot::HotEntry, store::Assignment};

/// The result of firing an entry.
#[derive(Debug)]
pub(crate) enum Fired {
    /// It may be offered.
    ToLease(HotEntry),
    /// The task was preleased: it may be delivered.
    Leased(Box<Ready>),
}

/// The table's decision about a lease that the store has made.
#[derive(Debug)]
pub(crate) enum Granted {
    /// The task waits to fire, or the caller that withdrew it returns the lease.
    Kept,
    /// The task has fired meanwhile.
    Fired(Box<Ready>),
    /// The table no longer needs the lease: it must be returned.
    Unwanted(Box<Assignment>),
}

/// Fired and leased: an executor may have the task.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) entry: HotEntry,
    pub(crate) assignment: Assignment,
    /// The instant of the request for the lease.
    pub(crate) asked: SteadyReading,
}
