//! The model must notice: a sound hot set with one flaw each.

use async_trait::async_trait;
use parking_lot::Mutex;
use punctual_contract::{
    Error, Hot,
    hot::{HotEntry, Wholeness, Withdrawn},
    ownership::Tenure,
};
use punctual_domain::{place::Partition, time::Millis};
use punctual_testkit::{
    conformance::hot::{PARTITIONS, model::agrees_with},
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

    async fn count_due(&self) -> Result<usize, Error> {
        self.inner.count_due().await
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
        Flaw::IsAlwaysWhole,
    ];
    for flaw in flaws {
        assert!(is_noticed(flaw), "{flaw:?}");
    }
}
