//! The model must notice: a sound hot set with one flaw each.

use async_trait::async_trait;
use punctual_contract::{
    Error, Hot,
    hot::{Admission, Depth, HotEntry, Lane, Wholeness, Withdrawn},
    ownership::Tenure,
};
use punctual_domain::{name::QueueKey, place::Partition, settings::Retries, time::Millis};
use punctual_hot::{MemoryHot, Options};
use punctual_testkit::conformance::hot::{PARTITIONS, model::agrees_with, strict};
use std::{ops::Range, panic::catch_unwind, sync::Arc};

#[derive(Clone, Copy, Debug)]
enum Flaw {
    None,
    FiresEarly,
    WithdrawsAnyFence,
    SettlesAnyFence,
    TakesSettledOfAnyFence,
    LoadsAnyFence,
    AdmitsTheLast,
    FindsFiringTooSoon,
    AdmitsTheParked,
}

#[derive(Debug)]
struct Flawed(MemoryHot, Flaw);

#[async_trait]
impl Hot for Flawed {
    async fn load(&self, mut entries: Vec<HotEntry>) -> Result<usize, Error> {
        if let Flaw::LoadsAnyFence = self.1 {
            let gone: Vec<_> = entries.iter().map(|it| (it.place.partition, it.place.id, i64::MAX)).collect();
            self.0.settle(&gone).await?;
            entries.dedup_by_key(|it| it.place.id);
        }
        self.0.load(entries).await
    }

    async fn load_fired(&self, entries: Vec<HotEntry>) -> Result<usize, Error> {
        self.0.load_fired(entries).await
    }

    async fn peek(
        &self,
        partition: Partition,
        after: Option<(Millis, i64)>,
        until: Millis,
        limit: usize,
    ) -> Result<Vec<HotEntry>, Error> {
        self.0.peek(partition, after, until, limit).await
    }

    async fn take_settling(
        &self,
        tenure: Tenure,
        now: Millis,
        limit: usize,
        settled: &[(i64, i64)],
    ) -> Result<Vec<HotEntry>, Error> {
        let early = i64::from(matches!(self.1, Flaw::FiresEarly));
        let mut settled = settled.to_vec();
        if let Flaw::TakesSettledOfAnyFence = self.1 {
            settled = settled.iter().flat_map(|(id, _)| (0..9).map(|fence| (*id, fence))).collect();
        }
        self.0.take_settling(tenure, now.plus(early), limit, &settled).await
    }

    async fn withdraw(&self, partition: Partition, id: i64, fence: i64) -> Result<Withdrawn, Error> {
        let fence = if let Flaw::WithdrawsAnyFence = self.1 { i64::MAX } else { fence };
        self.0.withdraw(partition, id, fence).await
    }

    async fn settle(&self, settled: &[(Partition, i64, i64)]) -> Result<(), Error> {
        let any = matches!(self.1, Flaw::SettlesAnyFence);
        let settled: Vec<_> =
            settled.iter().map(|it| (it.0, it.1, if any { i64::MAX } else { it.2 })).collect();
        self.0.settle(&settled).await
    }

    async fn offer(&self, entries: Vec<HotEntry>, retries: Retries) -> Result<(), Error> {
        self.0.offer(entries, retries).await
    }

    async fn admit(&self, queue: &QueueKey, admission: Admission) -> Result<Vec<HotEntry>, Error> {
        if let Flaw::AdmitsTheParked = self.1 {
            self.0.unpark(queue, &Lane::Retries, 1).await?;
        }
        let Flaw::AdmitsTheLast = self.1 else { return self.0.admit(queue, admission).await };
        let mut all = self.0.admit(queue, strict(usize::MAX)).await?;
        let given = all.split_off(all.len().saturating_sub(admission.limit));
        self.0.offer(all, Retries::default()).await?;
        Ok(given)
    }

    async fn park(&self, lane: &Lane, entries: Vec<HotEntry>, retries: Retries) -> Result<(), Error> {
        self.0.park(lane, entries, retries).await
    }

    async fn unpark(&self, queue: &QueueKey, lane: &Lane, limit: usize) -> Result<usize, Error> {
        self.0.unpark(queue, lane, limit).await
    }

    async fn lanes(
        &self,
        queue: &QueueKey,
        after: Option<&Lane>,
        limit: usize,
    ) -> Result<Vec<(Lane, usize)>, Error> {
        self.0.lanes(queue, after, limit).await
    }

    async fn firing(
        &self,
        partition: Partition,
        before: Millis,
        places: Range<usize>,
    ) -> Result<Vec<HotEntry>, Error> {
        let soon = i64::from(matches!(self.1, Flaw::FindsFiringTooSoon));
        self.0.firing(partition, before.plus(soon), places).await
    }

    async fn clear(&self, tenure: Tenure) -> Result<(), Error> {
        self.0.clear(tenure).await
    }
    async fn is_whole(&self, tenures: &[Tenure]) -> Result<Vec<Wholeness>, Error> {
        self.0.is_whole(tenures).await
    }

    async fn fullness(&self) -> Result<u32, Error> {
        self.0.fullness().await
    }

    async fn depth(&self) -> Result<Depth, Error> {
        self.0.depth().await
    }
}

fn is_noticed(flaw: Flaw) -> bool {
    let fresh = async || {
        let inner = MemoryHot::new(Options { partitions: PARTITIONS });
        let hot: Arc<dyn Hot> = Arc::new(Flawed(inner, flaw));
        hot
    };
    catch_unwind(|| agrees_with(1_000, fresh)).is_err()
}

#[test]
fn every_flaw_is_noticed_and_none_is_imagined() {
    assert!(!is_noticed(Flaw::None));
    let flaws = [
        Flaw::FiresEarly,
        Flaw::WithdrawsAnyFence,
        Flaw::SettlesAnyFence,
        Flaw::TakesSettledOfAnyFence,
        Flaw::LoadsAnyFence,
        Flaw::AdmitsTheLast,
        Flaw::FindsFiringTooSoon,
        Flaw::AdmitsTheParked,
    ];
    for flaw in flaws {
        assert!(is_noticed(flaw), "{flaw:?}");
    }
}
