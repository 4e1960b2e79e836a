//! The hot set as the steps of an engine have it: each call ends when the hot set is believed to be away (`belief`). Only the look
//! that decides what is believed asks the hot set itself. Only for one that keeps what is due. Changes no answer.

use super::belief::Belief;
use async_trait::async_trait;
use punctual_contract::{
    Error, Hot,
    hot::{HotEntry, Wholeness, Withdrawn},
    ownership::Tenure,
};
use punctual_domain::{place::Partition, time::Millis};
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

    async fn count_due(&self) -> Result<usize, Error> {
        self.belief.bear_with("count what is due", self.hot.count_due()).await
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
