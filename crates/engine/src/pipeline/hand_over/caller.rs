//! One call for leases, as its steps see it. Holds no rule.

use super::late::LateLeaseSender;
use crate::pipeline::request::Restrictions;

/// Who asks for leases.
#[derive(Debug, Clone)]
pub(super) struct LeaseCaller {
    /// What comes after the other parts' answers.
    pub(super) late_leases: LateLeaseSender,
    /// It goes with what there is now.
    pub(super) is_late: bool,
    pub(super) only: Restrictions,
}
