//! The memory of the repairing services between runs. Losing any of it costs a check: each service finds in the store
//! what needs repair.

use super::{
    compensate::state::Unsent, deletion::state::Deletions, expired_leases::state::LeaseLooks,
    mark_ready::state::MarkPace, overdue::state::OverdueWatch, reconcile::state::Reconciler,
};
use crate::for_later::state::ForLater;
use parking_lot::Mutex;

#[derive(Debug, Default)]
pub(crate) struct Maintenance {
    /// Could not be sent: the compensator's.
    pub(crate) unsent: Unsent,
    pub(crate) mark_pace: MarkPace,
    pub(crate) lease_looks: LeaseLooks,
    pub(crate) overdue: OverdueWatch,
    pub(crate) reconciler: Reconciler,
    /// The reconciler of the limiter of scanned queues.
    pub(crate) stored_reconciler: Reconciler,
    pub(crate) deletions: Deletions,
    /// Outcomes whose database did not answer.
    pub(crate) for_later: ForLater,
    /// The key up to which unused objects were searched.
    pub(crate) unused_after: Mutex<String>,
}
