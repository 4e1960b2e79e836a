//! The answers that the world got about one task. The world trusts only these, and never looks into an
//! engine.

use punctual_domain::{place::TaskRef, time::Millis};

/// The answers that the world got about a task.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) place: TaskRef,
    /// Not before then; None: the engine chose the time.
    pub(super) due_at: Option<Millis>,
    /// "Cancelled" was answered: it must not be handed out again.
    pub(super) cancelled: bool,
    /// A success was accepted: it must not be handed out again.
    pub(super) succeeded: bool,
    /// "Already fired" was answered while it waited for an executor: it must be handed out.
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
