//! A hot set of which one process keeps a part to itself, as the suites drive it: what is loaded for the first time stays
//! there, and before every few steps all of it is shared. Nobody who asks may see a difference.

use async_trait::async_trait;
use punctual_contract::{
    Error, Hot,
    hot::{Admission, Depth, HotEntry, Lane, Wholeness, Withdrawn},
    ownership::Tenure,
};
use punctual_domain::{name::QueueKey, place::Partition, settings::Retries, time::Millis};
use std::{
    collections::HashSet,
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};
use tokio::sync::{RwLock, RwLockReadGuard};

#[derive(Debug)]
pub struct KeepsNear {
    inner: Arc<dyn Hot>,
    /// It is shared before each of so many steps.
    shares_every: usize,
    steps: AtomicUsize,
    seen: Mutex<HashSet<(Partition, i64)>>,
    /// While it is shared an entry may be in two places.
    sharing: RwLock<()>,
}

impl KeepsNear {
    #[must_use]
    pub fn new(inner: Arc<dyn Hot>, shares_every: usize) -> Self {
        let steps = AtomicUsize::new(0);
        Self { inner, shares_every, steps, seen: Mutex::default(), sharing: RwLock::default() }
    }

    async fn step(&self) -> Result<RwLockReadGuard<'_, ()>, Error> {
        if self.steps.fetch_add(1, SeqCst) % self.shares_every == self.shares_every - 1 {
            let _nothing_else = self.sharing.write().await;
            self.inner.share(None).await?;
        }
        Ok(self.sharing.read().await)
    }
}

#[async_trait]
impl Hot for KeepsNear {
    async fn load(&self, entries: Vec<HotEntry>) -> Result<usize, Error> {
        let _step = self.step().await?;
        let (new, known): (Vec<_>, Vec<_>) = {
            let mut seen = self.seen.lock().unwrap();
            entries.into_iter().partition(|it| seen.insert((it.place.partition, it.place.id)))
        };
        Ok(self.inner.load_near(new).await? + self.inner.load(known).await?)
    }

    async fn load_near(&self, entries: Vec<HotEntry>) -> Result<usize, Error> {
        self.load(entries).await
    }

    async fn share(&self, partition: Option<Partition>) -> Result<usize, Error> {
        self.inner.share(partition).await
    }

    async fn load_fired(&self, entries: Vec<HotEntry>) -> Result<usize, Error> {
        let _step = self.step().await?;
        self.seen.lock().unwrap().extend(entries.iter().map(|it| (it.place.partition, it.place.id)));
        self.inner.load_fired(entries).await
    }

    async fn peek(
        &self,
        partition: Partition,
        after: Option<(Millis, i64)>,
        until: Millis,
        limit: usize,
    ) -> Result<Vec<HotEntry>, Error> {
        let _step = self.step().await?;
        self.inner.peek(partition, after, until, limit).await
    }

    async fn take_settling(
        &self,
        tenure: Tenure,
        now: Millis,
        limit: usize,
        settled: &[(i64, i64)],
    ) -> Result<Vec<HotEntry>, Error> {
        let _step = self.step().await?;
        self.inner.take_settling(tenure, now, limit, settled).await
    }

    async fn withdraw(&self, partition: Partition, id: i64, fence: i64) -> Result<Withdrawn, Error> {
        let _step = self.step().await?;
        self.inner.withdraw(partition, id, fence).await
    }

    async fn settle(&self, settled: &[(Partition, i64, i64)]) -> Result<(), Error> {
        let _step = self.step().await?;
        self.inner.settle(settled).await
    }

    async fn offer(&self, entries: Vec<HotEntry>, retries: Retries) -> Result<(), Error> {
        let _step = self.step().await?;
        self.inner.offer(entries, retries).await
    }

    async fn admit(&self, queue: &QueueKey, admission: Admission) -> Result<Vec<HotEntry>, Error> {
        let _step = self.step().await?;
        self.inner.admit(queue, admission).await
    }

    async fn park(&self, lane: &Lane, entries: Vec<HotEntry>, retries: Retries) -> Result<(), Error> {
        let _step = self.step().await?;
        self.inner.park(lane, entries, retries).await
    }

    async fn unpark(&self, queue: &QueueKey, lane: &Lane, limit: usize) -> Result<usize, Error> {
        let _step = self.step().await?;
        self.inner.unpark(queue, lane, limit).await
    }

    async fn lanes(
        &self,
        queue: &QueueKey,
        after: Option<&Lane>,
        limit: usize,
    ) -> Result<Vec<(Lane, usize)>, Error> {
        let _step = self.step().await?;
        self.inner.lanes(queue, after, limit).await
    }

    async fn firing(
        &self,
        partition: Partition,
        before: Millis,
        places: Range<usize>,
    ) -> Result<Vec<HotEntry>, Error> {
        let _step = self.step().await?;
        self.inner.firing(partition, before, places).await
    }

    async fn depth(&self) -> Result<Depth, Error> {
        let _step = self.step().await?;
        self.inner.depth().await
    }

    async fn clear(&self, tenure: Tenure) -> Result<(), Error> {
        self.inner.clear(tenure).await
    }
    async fn is_whole(&self, tenures: &[Tenure]) -> Result<Vec<Wholeness>, Error> {
        let _step = self.step().await?;
        self.inner.is_whole(tenures).await
    }

    async fn fullness(&self) -> Result<u32, Error> {
        self.inner.fullness().await
    }
}
