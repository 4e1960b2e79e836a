//! The answers that the world got about one task. The world trusts only these, and never reads an engine's state.

use punctual_domain::{place::TaskRef, time::Millis};

/// The answers that the world got about a task.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) place: TaskRef,
    /// The earliest firing. `None` if the engine chose the time.
    pub(super) due_at: Option<Millis>,
    /// "Cancelled" was answered: the task must not be handed over again.
    pub(super) cancelled: bool,
    /// A success was accepted: the task must not be handed over again.
    pub(super) succeeded: bool,
    /// "Already fired" was answered while the task waited for an executor: it must be handed over.
    pub(super) owes_a_lease: bool,
    /// An answer was lost: the earlier answers may be outdated.
    pub(super) uncertain: bool,
}

impl Known {
    pub(super) fn new(place: TaskRef, due_at: Option<Millis>) -> Self {
        let (cancelled, succeeded, owes_a_lease, uncertain) = Default::default();
        Self { place, due_at, cancelled, succeeded, owes_a_lease, uncertain }
    }
}
