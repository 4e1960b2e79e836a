//! What bounds how much comes in and how much goes: caps and rates of inserts, and admission to what queues share. Holds what is
//! known of them; the rules stand in the modules of its fields.

use crate::{
    backlog::Backlog, caps::state::Caps, pipeline::admit::state::Admissions, quota::state::Quotas,
    shares::state::Shares,
};

#[derive(Debug, Default)]
pub(crate) struct Limits {
    pub(crate) caps: Caps,
    pub(crate) quotas: Quotas,
    /// How long an insert waits for the store.
    pub(crate) backlog: Backlog,
    pub(crate) admissions: Admissions,
    pub(crate) shares: Shares,
}
