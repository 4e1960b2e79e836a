//! What the services that repair remember from run to run. Losing any of it costs a look: each finds in the store what there is
//! to repair.

use super::{
    compensate::state::Unsent, deletion::state::Deletions, leases::state::LeaseLooks,
    mark_ready::state::MarkPace, offer_again::state::OfferAgain, overdue::state::OverdueWatch,
    reconcile::state::Reconciler, stuck::state::Stuck, sweep::state::Sweep, unanswered::state::Unanswered,
};
use parking_lot::Mutex;

#[derive(Debug, Default)]
pub(crate) struct Maintenance {
    pub(crate) sweep: Sweep,
    /// Overdue tasks that were loaded and do not fire.
    pub(crate) stuck: Stuck,
    pub(crate) offer_again: OfferAgain,
    /// Taken or admitted, and the answer was lost.
    pub(crate) unanswered: Unanswered,
    /// Could not be sent: the compensator's.
    pub(crate) unsent: Unsent,
    pub(crate) mark_pace: MarkPace,
    pub(crate) lease_looks: LeaseLooks,
    pub(crate) overdue: OverdueWatch,
    pub(crate) reconciler: Reconciler,
    pub(crate) deletions: Deletions,
    /// Up to where objects were looked at that may be unused.
    pub(crate) unused_after: Mutex<String>,
}
