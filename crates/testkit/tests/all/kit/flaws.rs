//! The model must notice: a sound hot set with one flaw each.

use async_trait::async_trait;
use parking_lot::Mutex;
use punctual_contract::{
    Error, Hot,
    hot::{Admission, Depth, HotEntry, Lane, Wholeness, Withdrawn},
    ownership::Tenure,
};
use punctual_domain::{name::QueueKey, place::Partition, settings::Retries, time::Millis};
use punctual_testkit::{
    conformance::hot::{PARTITIONS, model::agrees_with, strict},
    shared::SharedHot,
};
use std::{collections::HashMap, panic::catch_unwind, sync::Arc};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    DrainsEarly,
    DrainsTheLatest,
    DrainsForAnyTerm,
    KeepsWhatItDrained,
    AnswersInTheWrongOrder,
    WithdrawsAnyFence,
    LoadsAnyFence,
    ClearsForAnyTerm,
    ClearsNothing,
    OffersAnyFence,
    CountsAllThatIsOffered,
    FindsAnyFenceReady,
    FindsNoParkedReady,
    DiscardsAnyFence,
    DiscardsNothing,
    AdmitsTheLast,
    AdmitsTheParked,
    ParksNothing,
    IsAlwaysWhole,
}

#[derive(Debug)]
struct Flawed {
    inner: SharedHot,
    flaw: Flaw,
    /// By partition.
    terms: Mutex<HashMap<Partition, i64>>,
}

impl Flawed {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    /// With the newest term that was seen.
    fn newest(&self, tenure: Tenure) -> Tenure {
        let mut terms = self.terms.lock();
        let newest = terms.entry(tenure.partition).or_insert(tenure.term);
        *newest = tenure.term.max(*newest);
        Tenure { term: *newest, ..tenure }
    }
}

fn of_any_fence(entries: &[HotEntry]) -> Vec<HotEntry> {
    entries.iter().map(|entry| HotEntry { fence: i64::MAX, ..entry.clone() }).collect()
}

#[async_trait]
impl Hot for Flawed {
    async fn load(&self, mut entries: Vec<HotEntry>) -> Result<usize, Error> {
        if self.has(Flaw::LoadsAnyFence) {
            for entry in &entries {
                self.inner.withdraw(entry.place.partition, entry.place.id, i64::MAX).await?;
            }
            entries.dedup_by_key(|entry| entry.place.id);
        }
        self.inner.load(entries).await
    }

    async fn drain(
        &self,
        tenures: &[Tenure],
        until: Millis,
        limit: usize,
    ) -> Vec<Result<Vec<HotEntry>, Error>> {
        let newest: Vec<Tenure> = tenures.iter().map(|tenure| self.newest(*tenure)).collect();
        let tenures = if self.has(Flaw::DrainsForAnyTerm) { &newest } else { tenures };
        let until = until.plus(i64::from(self.has(Flaw::DrainsEarly)));
        let most = if self.has(Flaw::DrainsTheLatest) { usize::MAX } else { limit };
        let mut answers = self.inner.drain(tenures, until, most).await;
        for entries in answers.iter_mut().flatten() {
            let first = entries.len().saturating_sub(limit);
            let kept = if self.has(Flaw::KeepsWhatItDrained) { entries.clone() } else { Vec::new() };
            let kept = entries.drain(..first).chain(kept).collect();
            self.inner.load(kept).await.unwrap();
        }
        if self.has(Flaw::AnswersInTheWrongOrder) {
            answers.reverse();
        }
        answers
    }

    async fn withdraw(&self, partition: Partition, id: i64, fence: i64) -> Result<Withdrawn, Error> {
        let fence = if self.has(Flaw::WithdrawsAnyFence) { i64::MAX } else { fence };
        self.inner.withdraw(partition, id, fence).await
    }

    async fn offer(&self, entries: Vec<HotEntry>, retries: Retries) -> Result<usize, Error> {
        if self.has(Flaw::OffersAnyFence) {
            self.inner.discard(&of_any_fence(&entries)).await?;
        }
        let count = entries.len();
        let put = self.inner.offer(entries, retries).await?;
        Ok(if self.has(Flaw::CountsAllThatIsOffered) { count } else { put })
    }

    async fn are_ready(&self, entries: &[HotEntry]) -> Result<Vec<bool>, Error> {
        let mut ready = self.inner.are_ready(entries).await?;
        if self.has(Flaw::FindsAnyFenceReady) {
            let is_there =
                |id: i64| entries.iter().zip(&ready).any(|(entry, is)| *is && entry.place.id == id);
            ready = entries.iter().map(|entry| is_there(entry.place.id)).collect();
        }
        if self.has(Flaw::FindsNoParkedReady) && !self.inner.depth().await?.parked.is_empty() {
            ready.fill(false);
        }
        Ok(ready)
    }

    async fn discard(&self, entries: &[HotEntry]) -> Result<(), Error> {
        match self.flaw {
            Flaw::DiscardsNothing => Ok(()),
            Flaw::DiscardsAnyFence => self.inner.discard(&of_any_fence(entries)).await,
            _ => self.inner.discard(entries).await,
        }
    }

    async fn admit(&self, queue: &QueueKey, admission: Admission) -> Result<Vec<HotEntry>, Error> {
        if self.has(Flaw::AdmitsTheParked) {
            self.inner.unpark(queue, &Lane::Retries, 1).await?;
        }
        if !self.has(Flaw::AdmitsTheLast) {
            return self.inner.admit(queue, admission).await;
        }
        let mut all = self.inner.admit(queue, strict(usize::MAX)).await?;
        let given = all.split_off(all.len().saturating_sub(admission.limit));
        self.inner.offer(all, Retries::default()).await?;
        Ok(given)
    }

    async fn park(&self, lane: &Lane, entries: Vec<HotEntry>, retries: Retries) -> Result<(), Error> {
        let entries = if self.has(Flaw::ParksNothing) { Vec::new() } else { entries };
        self.inner.park(lane, entries, retries).await
    }

    async fn unpark(&self, queue: &QueueKey, lane: &Lane, limit: usize) -> Result<usize, Error> {
        self.inner.unpark(queue, lane, limit).await
    }

    async fn lanes(
        &self,
        queue: &QueueKey,
        after: Option<&Lane>,
        limit: usize,
    ) -> Result<Vec<(Lane, usize)>, Error> {
        self.inner.lanes(queue, after, limit).await
    }

    async fn clear(&self, tenure: Tenure) -> Result<(), Error> {
        let newest = self.newest(tenure);
        match self.flaw {
            Flaw::ClearsNothing => Ok(()),
            Flaw::ClearsForAnyTerm => self.inner.clear(newest).await,
            _ => self.inner.clear(tenure).await,
        }
    }

    async fn is_whole(&self, tenures: &[Tenure]) -> Result<Vec<Wholeness>, Error> {
        let found = self.inner.is_whole(tenures).await?;
        let said = |found| if self.has(Flaw::IsAlwaysWhole) { Wholeness::Whole } else { found };
        Ok(found.into_iter().map(said).collect())
    }

    async fn fullness(&self) -> Result<u32, Error> {
        self.inner.fullness().await
    }

    async fn depth(&self) -> Result<Depth, Error> {
        self.inner.depth().await
    }
}

fn is_noticed(flaw: Flaw) -> bool {
    let fresh = async || {
        let inner = SharedHot::new(PARTITIONS);
        let hot: Arc<dyn Hot> = Arc::new(Flawed { inner, flaw, terms: Mutex::default() });
        hot
    };
    catch_unwind(|| agrees_with(1_000, fresh)).is_err()
}

#[test]
fn every_flaw_is_noticed_and_none_is_imagined() {
    assert!(!is_noticed(Flaw::None));
    let flaws = [
        Flaw::DrainsEarly,
        Flaw::DrainsTheLatest,
        Flaw::DrainsForAnyTerm,
        Flaw::KeepsWhatItDrained,
        Flaw::AnswersInTheWrongOrder,
        Flaw::WithdrawsAnyFence,
        Flaw::LoadsAnyFence,
        Flaw::ClearsForAnyTerm,
        Flaw::ClearsNothing,
        Flaw::OffersAnyFence,
        Flaw::CountsAllThatIsOffered,
        Flaw::FindsAnyFenceReady,
        Flaw::FindsNoParkedReady,
        Flaw::DiscardsAnyFence,
        Flaw::DiscardsNothing,
        Flaw::AdmitsTheLast,
        Flaw::AdmitsTheParked,
        Flaw::ParksNothing,
        Flaw::IsAlwaysWhole,
    ];
    for flaw in flaws {
        assert!(is_noticed(flaw), "{flaw:?}");
    }
}
