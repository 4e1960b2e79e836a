//! One call for leases, as its steps see it. Holds no rule.

use super::late::LateLeaseSender;
use crate::pipeline::request::Restrictions;

/// The caller that requests leases.
#[derive(Debug, Clone)]
pub(super) struct LeaseCaller {
    /// The receiver of leases that follow the other databases' answers.
    pub(super) late_leases: LateLeaseSender,
    /// The caller leaves with what is available now.
    pub(super) is_late: bool,
    pub(super) only: Restrictions,
}
