//! The hot set as the steps of an engine have it: each call ends when the hot set is believed to be away (`belief`). Only the look
//! that decides what is believed asks the hot set itself. Only for one that keeps what is due. Changes no answer.

use super::belief::Belief;
use async_trait::async_trait;
use punctual_contract::{
    Error, Hot,
    hot::{Admission, Depth, HotEntry, Lane, Wholeness, Withdrawn},
    ownership::Tenure,
};
use punctual_domain::{name::QueueKey, place::Partition, settings::Retries, time::Millis};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct PatientHot {
    pub(super) hot: Arc<dyn Hot>,
    pub(super) belief: Arc<Belief>,
}

#[async_trait]
impl Hot for PatientHot {
    async fn load(&self, entries: Vec<HotEntry>) -> Result<usize, Error> {
        self.belief.bear_with("load entries", self.hot.load(entries)).await
    }

    async fn drain(
        &self,
        tenures: &[Tenure],
        until: Millis,
        limit: usize,
    ) -> Vec<Result<Vec<HotEntry>, Error>> {
        let call = async { Ok(self.hot.drain(tenures, until, limit).await) };
        match self.belief.bear_with("drain what is due", call).await {
            Ok(answers) => {
                // One that fails alone is broken by itself.
                if !answers.is_empty() && answers.iter().all(Result::is_err) {
                    self.belief.doubt();
                }
                answers
            }
            Err(error) => tenures.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn withdraw(&self, partition: Partition, id: i64, fence: i64) -> Result<Withdrawn, Error> {
        self.belief.bear_with("withdraw an entry", self.hot.withdraw(partition, id, fence)).await
    }

    async fn offer(&self, entries: Vec<HotEntry>, retries: Retries) -> Result<usize, Error> {
        self.belief.bear_with("offer entries", self.hot.offer(entries, retries)).await
    }

    async fn are_ready(&self, entries: &[HotEntry]) -> Result<Vec<bool>, Error> {
        self.belief.bear_with("look whether entries are ready", self.hot.are_ready(entries)).await
    }

    async fn discard(&self, entries: &[HotEntry]) -> Result<(), Error> {
        self.belief.bear_with("take entries out of ready sets", self.hot.discard(entries)).await
    }

    async fn admit(&self, queue: &QueueKey, admission: Admission) -> Result<Vec<HotEntry>, Error> {
        self.belief.bear_with("admit entries", self.hot.admit(queue, admission)).await
    }

    async fn park(&self, lane: &Lane, entries: Vec<HotEntry>, retries: Retries) -> Result<(), Error> {
        self.belief.bear_with("park entries", self.hot.park(lane, entries, retries)).await
    }

    async fn unpark(&self, queue: &QueueKey, lane: &Lane, limit: usize) -> Result<usize, Error> {
        self.belief.bear_with("bring parked entries back", self.hot.unpark(queue, lane, limit)).await
    }

    async fn lanes(
        &self,
        queue: &QueueKey,
        after: Option<&Lane>,
        limit: usize,
    ) -> Result<Vec<(Lane, usize)>, Error> {
        self.belief.bear_with("look at what is parked", self.hot.lanes(queue, after, limit)).await
    }

    async fn depth(&self) -> Result<Depth, Error> {
        self.belief.bear_with("count what is in the hot set", self.hot.depth()).await
    }

    async fn is_whole(&self, tenures: &[Tenure]) -> Result<Vec<Wholeness>, Error> {
        self.belief.bear_with("look whether anything was lost", self.hot.is_whole(tenures)).await
    }

    async fn clear(&self, tenure: Tenure) -> Result<(), Error> {
        self.belief.bear_with("clear a partition", self.hot.clear(tenure)).await
    }

    fn stranger(&self) -> Option<String> {
        self.hot.stranger()
    }

    fn refusal(&self) -> Option<String> {
        self.hot.refusal()
    }

    async fn fullness(&self) -> Result<u32, Error> {
        self.belief.bear_with("look how full the hot set is", self.hot.fullness()).await
    }
}
