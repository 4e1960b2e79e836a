//! Wrappers of the hot set and the limiter beside it, for the steps of an engine. Each call ends when the hot
//! set is considered unavailable (`availability`). Only the check that decides this calls the hot set
//! directly. Only for a hot set that keeps due tasks. Changes no answer.

use super::availability::HotSetAvailability;
use async_trait::async_trait;
use punctual_contract::{
    Error, Hot, Limiter,
    hot::{HotEntry, Wholeness, Withdrawn},
    limiter::{Demand, Flowing, Held, Holders, Limit, Member, Rebuilding, Room, SlotRequest, Verdict},
    ownership::Tenure,
};
use punctual_domain::{limits::Scope, place::Partition, time::Millis};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct CircuitBreakerHot {
    pub(super) hot: Arc<dyn Hot>,
    pub(super) availability: Arc<HotSetAvailability>,
}

#[async_trait]
impl Hot for CircuitBreakerHot {
    async fn load(&self, entries: Vec<HotEntry>) -> Result<usize, Error> {
        self.availability.call_while_available("load entries", self.hot.load(entries)).await
    }

    async fn drain(
        &self,
        tenures: &[Tenure],
        until: Millis,
        limit: usize,
    ) -> Vec<Result<Vec<HotEntry>, Error>> {
        let call = async { Ok(self.hot.drain(tenures, until, limit).await) };
        match self.availability.call_while_available("drain what is due", call).await {
            Ok(answers) => {
                // A single failing partition does not implicate the hot set.
                if !answers.is_empty() && answers.iter().all(Result::is_err) {
                    self.availability.doubt();
                }
                answers
            }
            Err(error) => tenures.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn withdraw(&self, partition: Partition, id: i64, fence: i64) -> Result<Withdrawn, Error> {
        self.availability
            .call_while_available("withdraw an entry", self.hot.withdraw(partition, id, fence))
            .await
    }

    async fn count_due(&self) -> Result<usize, Error> {
        self.availability.call_while_available("count what is due", self.hot.count_due()).await
    }

    async fn is_whole(&self, tenures: &[Tenure]) -> Result<Vec<Wholeness>, Error> {
        self.availability
            .call_while_available("look whether anything was lost", self.hot.is_whole(tenures))
            .await
    }

    async fn clear(&self, tenure: Tenure) -> Result<(), Error> {
        self.availability.call_while_available("clear a partition", self.hot.clear(tenure)).await
    }

    fn stranger(&self) -> Option<String> {
        self.hot.stranger()
    }

    fn refusal(&self) -> Option<String> {
        self.hot.refusal()
    }

    async fn fullness(&self) -> Result<u32, Error> {
        self.availability.call_while_available("look how full the hot set is", self.hot.fullness()).await
    }
}

#[derive(Debug)]
pub(super) struct CircuitBreakerLimiter {
    pub(super) limiter: Arc<dyn Limiter>,
    pub(super) availability: Arc<HotSetAvailability>,
}

#[async_trait]
impl Limiter for CircuitBreakerLimiter {
    async fn grant(&self, wishes: Vec<SlotRequest>, now: Millis) -> Result<Vec<Verdict>, Error> {
        self.availability.call_while_available("grant slots", self.limiter.grant(wishes, now)).await
    }

    async fn room(&self, limits: &[Limit], rates: &[Flowing], now: Millis) -> Result<Room, Error> {
        self.availability.call_while_available("look for room", self.limiter.room(limits, rates, now)).await
    }

    async fn release(&self, members: &[Member]) -> Result<Vec<Option<Held>>, Error> {
        self.availability.call_while_available("give slots up", self.limiter.release(members)).await
    }

    async fn retract(&self, granted: &[(Member, Millis)]) -> Result<Vec<Option<Held>>, Error> {
        self.availability.call_while_available("take grants back", self.limiter.retract(granted)).await
    }

    async fn prolong(&self, members: &[(Member, Millis)]) -> Result<(), Error> {
        self.availability.call_while_available("prolong slots", self.limiter.prolong(members)).await
    }

    async fn restore(&self, held: Vec<Held>) -> Result<(), Error> {
        self.availability.call_while_available("restore slots", self.limiter.restore(held)).await
    }

    async fn members(&self, until: Millis, skip: usize, limit: usize) -> Result<Vec<Held>, Error> {
        self.availability
            .call_while_available("look at who holds slots", self.limiter.members(until, skip, limit))
            .await
    }

    async fn find(&self, members: &[Member]) -> Result<Vec<Held>, Error> {
        self.availability.call_while_available("look at what attempts hold", self.limiter.find(members)).await
    }

    async fn holders(&self, scope: &Scope, limit: usize) -> Result<Holders, Error> {
        self.availability
            .call_while_available("look at who holds a scope", self.limiter.holders(scope, limit))
            .await
    }

    async fn held(&self, scopes: &[Scope]) -> Result<Vec<usize>, Error> {
        self.availability.call_while_available("count who holds scopes", self.limiter.held(scopes)).await
    }

    async fn demands(&self, engine: &str, seen: &[Demand], now: Millis) -> Result<Vec<Demand>, Error> {
        self.availability
            .call_while_available("tell of demands", self.limiter.demands(engine, seen, now))
            .await
    }

    async fn is_whole(&self) -> Result<bool, Error> {
        self.availability.call_while_available("look whether slots were lost", self.limiter.is_whole()).await
    }

    async fn begin_anew(&self, who: Rebuilding) -> Result<(), Error> {
        self.availability.call_while_available("begin to restore slots", self.limiter.begin_anew(who)).await
    }

    async fn make_whole(&self, who: Rebuilding) -> Result<bool, Error> {
        self.availability
            .call_while_available("note that all slots are restored", self.limiter.make_whole(who))
            .await
    }
}
