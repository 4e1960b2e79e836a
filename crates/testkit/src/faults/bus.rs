//! A bus with two dials. A publish rolls them for each message: one that fails does not stop the others.

use super::{CallOutcome, Faults};
use async_trait::async_trait;
use punctual_contract::{Bus, Error, bus::Delivery, store::Assignment};
use punctual_domain::{name::QueueKey, time::Millis};
use std::{sync::Arc, time::Duration};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BusGroup {
    Publish,
    Receive,
    Acknowledge,
    Reclaim,
}

#[derive(Debug)]
pub struct FaultyBus {
    inner: Arc<dyn Bus>,
    pub faults: Faults<BusGroup>,
}

impl FaultyBus {
    #[must_use]
    pub fn new(inner: Arc<dyn Bus>, seed: u64) -> Self {
        Self { inner, faults: Faults::seeded(seed) }
    }
}

#[async_trait]
impl Bus for FaultyBus {
    async fn publish(&self, messages: Vec<Assignment>) -> Vec<Result<(), Error>> {
        self.faults.pass_gate(BusGroup::Publish).await;
        let fated: Vec<(CallOutcome, Assignment)> =
            messages.into_iter().map(|message| (self.faults.outcome(BusGroup::Publish), message)).collect();
        let sent =
            fated.iter().filter(|(outcome, _)| outcome.happens).map(|(_, lease)| lease.clone()).collect();
        let mut answers = self.inner.publish(sent).await.into_iter();
        let doing = "publish a message";
        let result = |outcome: CallOutcome| match (
            if outcome.happens { answers.next() } else { None },
            outcome.reported,
        ) {
            (Some(answer), true) => answer,
            (None, true) => Err(Error::did_not_happen(doing, "refused by a fault")),
            (_, false) => Err(Error::may_have_happened(doing, "the answer was lost by a fault")),
        };
        fated.into_iter().map(|(outcome, _)| outcome).map(result).collect()
    }

    async fn receive(
        &self,
        queue: &QueueKey,
        limit: usize,
        wait: Duration,
        now: Millis,
    ) -> Result<Vec<Delivery>, Error> {
        let call = self.inner.receive(queue, limit, wait, now);
        self.faults.run(BusGroup::Receive, "receive messages", call).await
    }

    async fn acknowledge(&self, queue: &QueueKey, ids: &[u64]) -> Result<(), Error> {
        let call = self.inner.acknowledge(queue, ids);
        self.faults.run(BusGroup::Acknowledge, "acknowledge messages", call).await
    }

    async fn reclaim(&self, queue: &QueueKey, before: Millis) -> Result<usize, Error> {
        let call = self.inner.reclaim(queue, before);
        self.faults.run(BusGroup::Reclaim, "reclaim messages", call).await
    }
}
