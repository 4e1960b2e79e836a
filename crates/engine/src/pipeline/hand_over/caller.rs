//! One call for leases, as its steps see it. Holds no rule.

use super::late::Hears;
use crate::pipeline::request::Restrictions;

/// Who asks for leases.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    /// What comes after the others' answers; None: there is one part, which is waited for.
    pub(super) hears: Option<Hears>,
    /// It goes with what there is now.
    pub(super) is_late: bool,
    pub(super) only: Restrictions,
}
