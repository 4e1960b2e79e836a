//! A bus with two dials. A publish rolls them for each message: one that fails does not stop the others.

use super::{CallOutcome, Faults};
use crate::decorators::{methods_of, names::*};
use std::sync::Arc;

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

methods_of! { Bus fails(run BusGroup) FaultyBus {
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
} }
