//! One call for leases, as its steps see it. Holds no rule.

use super::late::Hears;
use crate::pipeline::request::Restrictions;

/// Who asks for leases.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    /// What comes after the other parts' answers.
    pub(super) hears: Hears,
    /// It goes with what there is now.
    pub(super) is_late: bool,
    pub(super) only: Restrictions,
}
