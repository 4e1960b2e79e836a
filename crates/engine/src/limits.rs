//! State of all limits: caps and rates of inserts, and admission to shared limits. Holds state only; the rules are in the
//! modules of its fields.

use crate::{
    backlog::Backlog, caps::state::Caps, pipeline::admit::state::Admissions, quota::state::Quotas,
    shares::state::Shares,
};
use punctual_contract::Limiter;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Limits {
    /// The limiter of all queues except those that are scanned.
    pub(crate) limiter: Arc<dyn Limiter>,
    pub(crate) caps: Caps,
    pub(crate) quotas: Quotas,
    /// The expected wait of inserts for the store.
    pub(crate) backlog: Backlog,
    pub(crate) admissions: Admissions,
    pub(crate) shares: Shares,
}

impl Limits {
    pub(crate) fn new(limiter: Arc<dyn Limiter>) -> Self {
        Self {
            limiter,
            caps: Caps::default(),
            quotas: Quotas::default(),
            backlog: Backlog::default(),
            admissions: Admissions::default(),
            shares: Shares::default(),
        }
    }
}
