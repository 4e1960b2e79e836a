//! What one part of a store has for the services of an engine, as one read of it shows.

use punctual_domain::time::Millis;

/// Revisions, and the earliest instants at which there is work. All but leases and labels are of the first part; in another part
/// they are 0 and None. A service whose instant has not come, or whose revision has not changed, has nothing to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agenda {
    /// As `SettingStore::settings_revision`.
    pub settings_revision: i64,
    /// As `AccessStore::access_revision`.
    pub access_revision: i64,
    /// The earliest wake of all schedules. None: no schedule has one.
    pub schedules_at: Option<Millis>,
    /// The earliest wake of all workflows.
    pub workflows_at: Option<Millis>,
    /// When the oldest mark of a workflow was made.
    pub marked_at: Option<Millis>,
    /// The earliest wake of all bulk operations.
    pub bulks_at: Option<Millis>,
    /// No lease of this part ends before.
    pub leases_at: Option<Millis>,
    /// Tasks of this part are not indexed wholly yet.
    pub has_labels_left: bool,
}
