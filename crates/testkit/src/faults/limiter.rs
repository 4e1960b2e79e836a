//! A limiter with two dials.

use super::Faults;
use crate::decorators::{methods_of, names::*};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimiterGroup {
    Grant,
    /// `release`, `retract`.
    GiveUp,
    /// `prolong`, `restore`, `begin_anew`, `make_whole`: the reconciler's writes.
    Repair,
    /// `room`, `members`, `find`, `holders`, `held`, `demands`, `is_whole`.
    Look,
}

#[derive(Debug)]
pub struct FaultyLimiter {
    inner: Arc<dyn Limiter>,
    pub faults: Faults<LimiterGroup>,
}

impl FaultyLimiter {
    #[must_use]
    pub fn new(inner: Arc<dyn Limiter>, seed: u64) -> Self {
        Self { inner, faults: Faults::seeded(seed) }
    }
}

methods_of! { Limiter fails(run LimiterGroup) FaultyLimiter {
    async fn grant(&self, requests: Vec<SlotRequest>, now: Millis) -> Result<Vec<Verdict>, Error> {
        self.faults.run(LimiterGroup::Grant, "grant slots", self.inner.grant(requests, now)).await
    }

    async fn room(&self, limits: &[Limit], rates: &[Flowing], now: Millis) -> Result<Room, Error> {
        self.faults.run(LimiterGroup::Look, "look for room", self.inner.room(limits, rates, now)).await
    }
} }
