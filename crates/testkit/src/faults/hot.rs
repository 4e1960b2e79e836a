//! A hot set with two dials.

use super::Faults;
use async_trait::async_trait;
use parking_lot::Mutex;
use punctual_contract::{
    Error, Hot,
    hot::{Admission, Depth, HotEntry, Lane, Wholeness, Withdrawn},
    ownership::Tenure,
};
use punctual_domain::{name::QueueKey, place::Partition, settings::Retries, time::Millis};
use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HotGroup {
    Load,
    Peek,
    Take,
    Withdraw,
    Settle,
    /// `offer`, `admit`.
    Ready,
    Park,
    Unpark,
    /// `lanes`, `firing`, `depth`, `is_whole`, `fullness`.
    Look,
}

#[derive(Debug)]
pub struct FaultyHot {
    inner: Arc<dyn Hot>,
    /// What is loaded is said to be in it, and is not.
    pub loses_what_is_loaded: AtomicBool,
    /// What is firing in this partition cannot be looked at; None: everywhere it can.
    pub hides_firing_of: Mutex<Option<Partition>>,
    pub faults: Faults<HotGroup>,
}

impl FaultyHot {
    #[must_use]
    pub fn new(inner: Arc<dyn Hot>, seed: u64) -> Self {
        let (loses_what_is_loaded, hides_firing_of) = Default::default();
        Self { inner, loses_what_is_loaded, hides_firing_of, faults: Faults::seeded(seed) }
    }
}

#[async_trait]
impl Hot for FaultyHot {
    async fn load(&self, entries: Vec<HotEntry>) -> Result<usize, Error> {
        if self.loses_what_is_loaded.load(SeqCst) {
            return Ok(entries.len());
        }
        self.faults.run(HotGroup::Load, "load entries", self.inner.load(entries)).await
    }

    async fn load_near(&self, entries: Vec<HotEntry>) -> Result<usize, Error> {
        if self.loses_what_is_loaded.load(SeqCst) {
            return Ok(entries.len());
        }
        self.faults.run(HotGroup::Load, "load entries", self.inner.load_near(entries)).await
    }

    async fn share(&self, partition: Option<Partition>) -> Result<usize, Error> {
        self.faults.run(HotGroup::Load, "share what is near", self.inner.share(partition)).await
    }

    async fn load_fired(&self, entries: Vec<HotEntry>) -> Result<usize, Error> {
        self.faults.run(HotGroup::Load, "load entries that fire", self.inner.load_fired(entries)).await
    }

    async fn peek(
        &self,
        partition: Partition,
        after: Option<(Millis, i64)>,
        until: Millis,
        limit: usize,
    ) -> Result<Vec<HotEntry>, Error> {
        let call = self.inner.peek(partition, after, until, limit);
        self.faults.run(HotGroup::Peek, "peek at what is due", call).await
    }

    async fn take_settling(
        &self,
        tenure: Tenure,
        now: Millis,
        limit: usize,
        settled: &[(i64, i64)],
    ) -> Result<Vec<HotEntry>, Error> {
        let call = self.inner.take_settling(tenure, now, limit, settled);
        self.faults.run(HotGroup::Take, "take what is due", call).await
    }

    async fn withdraw(&self, partition: Partition, id: i64, fence: i64) -> Result<Withdrawn, Error> {
        let call = self.inner.withdraw(partition, id, fence);
        self.faults.run(HotGroup::Withdraw, "withdraw an entry", call).await
    }

    async fn settle(&self, settled: &[(Partition, i64, i64)]) -> Result<(), Error> {
        self.faults.run(HotGroup::Settle, "settle entries", self.inner.settle(settled)).await
    }

    async fn offer(&self, entries: Vec<HotEntry>, retries: Retries) -> Result<(), Error> {
        self.faults.run(HotGroup::Ready, "offer entries", self.inner.offer(entries, retries)).await
    }

    async fn admit(&self, queue: &QueueKey, admission: Admission) -> Result<Vec<HotEntry>, Error> {
        self.faults.run(HotGroup::Ready, "admit entries", self.inner.admit(queue, admission)).await
    }

    async fn park(&self, lane: &Lane, entries: Vec<HotEntry>, retries: Retries) -> Result<(), Error> {
        self.faults.run(HotGroup::Park, "park entries", self.inner.park(lane, entries, retries)).await
    }

    async fn unpark(&self, queue: &QueueKey, lane: &Lane, limit: usize) -> Result<usize, Error> {
        let call = self.inner.unpark(queue, lane, limit);
        self.faults.run(HotGroup::Unpark, "bring parked entries back", call).await
    }

    async fn lanes(
        &self,
        queue: &QueueKey,
        after: Option<&Lane>,
        limit: usize,
    ) -> Result<Vec<(Lane, usize)>, Error> {
        let call = self.inner.lanes(queue, after, limit);
        self.faults.run(HotGroup::Look, "look at what is parked", call).await
    }

    async fn firing(
        &self,
        partition: Partition,
        before: Millis,
        places: Range<usize>,
    ) -> Result<Vec<HotEntry>, Error> {
        if *self.hides_firing_of.lock() == Some(partition) {
            return Err(Error::did_not_happen("look at what is firing", "hidden by a test"));
        }
        self.faults
            .run(HotGroup::Look, "look at what is firing", self.inner.firing(partition, before, places))
            .await
    }

    async fn depth(&self) -> Result<Depth, Error> {
        self.faults.run(HotGroup::Look, "measure the depth", self.inner.depth()).await
    }

    fn is_there(&self) -> bool {
        self.inner.is_there()
    }

    fn refusal(&self) -> Option<String> {
        self.inner.refusal()
    }

    fn stranger(&self) -> Option<String> {
        self.inner.stranger()
    }

    async fn clear(&self, tenure: Tenure) -> Result<(), Error> {
        self.faults.run(HotGroup::Settle, "clear a partition", self.inner.clear(tenure)).await
    }
    async fn is_whole(&self, tenures: &[Tenure]) -> Result<Vec<Wholeness>, Error> {
        self.faults.run(HotGroup::Look, "look whether it is whole", self.inner.is_whole(tenures)).await
    }

    fn asks_ahead_ms(&self) -> i64 {
        self.inner.asks_ahead_ms()
    }

    async fn fullness(&self) -> Result<u32, Error> {
        self.faults.run(HotGroup::Look, "look how full it is", self.inner.fullness()).await
    }
}
