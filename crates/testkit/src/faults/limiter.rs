//! A limiter with two dials.

use super::Faults;
use async_trait::async_trait;
use punctual_contract::{
    Error, Limiter,
    limiter::{Demand, Flowing, Held, Holders, Limit, Member, Rebuilding, Room, SlotRequest, Verdict},
};
use punctual_domain::{limits::Scope, time::Millis};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimiterGroup {
    Grant,
    /// `release`, `retract`.
    GiveUp,
    /// `prolong`, `restore`, `begin_anew`, `make_whole`: what the reconciler writes.
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

#[async_trait]
impl Limiter for FaultyLimiter {
    async fn grant(&self, requests: Vec<SlotRequest>, now: Millis) -> Result<Vec<Verdict>, Error> {
        self.faults.run(LimiterGroup::Grant, "grant slots", self.inner.grant(requests, now)).await
    }

    async fn room(&self, limits: &[Limit], rates: &[Flowing], now: Millis) -> Result<Room, Error> {
        self.faults.run(LimiterGroup::Look, "look for room", self.inner.room(limits, rates, now)).await
    }

    async fn release(&self, members: &[Member]) -> Result<Vec<Option<Held>>, Error> {
        self.faults.run(LimiterGroup::GiveUp, "give slots up", self.inner.release(members)).await
    }

    async fn retract(&self, granted: &[(Member, Millis)]) -> Result<Vec<Option<Held>>, Error> {
        self.faults.run(LimiterGroup::GiveUp, "take grants back", self.inner.retract(granted)).await
    }

    async fn prolong(&self, members: &[(Member, Millis)]) -> Result<(), Error> {
        self.faults.run(LimiterGroup::Repair, "prolong slots", self.inner.prolong(members)).await
    }

    async fn restore(&self, held: Vec<Held>) -> Result<(), Error> {
        self.faults.run(LimiterGroup::Repair, "restore slots", self.inner.restore(held)).await
    }

    async fn members(&self, until: Millis, skip: usize, limit: usize) -> Result<Vec<Held>, Error> {
        let call = self.inner.members(until, skip, limit);
        self.faults.run(LimiterGroup::Look, "look at who holds slots", call).await
    }

    async fn find(&self, members: &[Member]) -> Result<Vec<Held>, Error> {
        self.faults.run(LimiterGroup::Look, "look at what attempts hold", self.inner.find(members)).await
    }

    async fn holders(&self, scope: &Scope, limit: usize) -> Result<Holders, Error> {
        let call = self.inner.holders(scope, limit);
        self.faults.run(LimiterGroup::Look, "look at who holds a scope", call).await
    }

    async fn held(&self, scopes: &[Scope]) -> Result<Vec<usize>, Error> {
        self.faults.run(LimiterGroup::Look, "count who holds scopes", self.inner.held(scopes)).await
    }

    async fn demands(&self, engine: &str, seen: &[Demand], now: Millis) -> Result<Vec<Demand>, Error> {
        let call = self.inner.demands(engine, seen, now);
        self.faults.run(LimiterGroup::Look, "tell of demands", call).await
    }

    async fn is_whole(&self) -> Result<bool, Error> {
        self.faults.run(LimiterGroup::Look, "look whether slots were lost", self.inner.is_whole()).await
    }

    async fn begin_anew(&self, who: Rebuilding) -> Result<(), Error> {
        self.faults.run(LimiterGroup::Repair, "begin to restore slots", self.inner.begin_anew(who)).await
    }

    async fn make_whole(&self, who: Rebuilding) -> Result<bool, Error> {
        let call = self.inner.make_whole(who);
        self.faults.run(LimiterGroup::Repair, "note that all slots are restored", call).await
    }
}
