//! A hot set with two dials. A drain rolls them for each partition: one that fails does not stop the others.

use super::{CallOutcome, Faults};
use crate::decorators::{methods_of, names::*};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HotGroup {
    Load,
    Drain,
    Withdraw,
    Clear,
    /// `count_due`, `is_whole`, `fullness`.
    Look,
}

#[derive(Debug)]
pub struct FaultyHot {
    inner: Arc<dyn Hot>,
    /// Loads are reported as successful, but are discarded.
    pub loses_what_is_loaded: AtomicBool,
    pub faults: Faults<HotGroup>,
}

impl FaultyHot {
    #[must_use]
    pub fn new(inner: Arc<dyn Hot>, seed: u64) -> Self {
        Self { inner, loses_what_is_loaded: AtomicBool::default(), faults: Faults::seeded(seed) }
    }

    /// The results of each partition of one drain. Dials that are set for the next call are those of all its
    /// partitions.
    fn fates(&self, partitions: usize) -> Vec<CallOutcome> {
        let once = self.faults.inner.lock().once.remove(&HotGroup::Drain);
        let outcome = |_| {
            if let Some(dials) = once {
                self.faults.set_once(HotGroup::Drain, dials);
            }
            self.faults.outcome(HotGroup::Drain)
        };
        (0..partitions).map(outcome).collect()
    }

    async fn drain_sound(
        &self,
        doing: &'static str,
        tenures: &[Tenure],
        until: Millis,
        limit: usize,
    ) -> Vec<Result<Vec<HotEntry>, Error>> {
        if tenures.is_empty() {
            return Vec::new();
        }
        let call = async { Ok(self.inner.drain(tenures, until, limit).await) };
        let refused = |error: Error| tenures.iter().map(|_| Err(error.clone())).collect();
        self.faults.pass_wall(doing, call).await.unwrap_or_else(refused)
    }
}

methods_of! { Hot fails(run HotGroup) FaultyHot {
    async fn load(&self, entries: Vec<HotEntry>) -> Result<usize, Error> {
        if self.loses_what_is_loaded.load(SeqCst) {
            return Ok(entries.len());
        }
        self.faults.run(HotGroup::Load, "load entries", self.inner.load(entries)).await
    }

    async fn drain(
        &self,
        tenures: &[Tenure],
        until: Millis,
        limit: usize,
    ) -> Vec<Result<Vec<HotEntry>, Error>> {
        const DOING: &str = "drain what is due";
        self.faults.pass_gate(HotGroup::Drain).await;
        let fates = self.fates(tenures.len());
        let happening = tenures.iter().zip(&fates).filter(|(_, outcome)| outcome.happens);
        let happening: Vec<Tenure> = happening.map(|(tenure, _)| *tenure).collect();
        let mut answers = self.drain_sound(DOING, &happening, until, limit).await.into_iter();
        let result = |outcome: CallOutcome| match (
            if outcome.happens { answers.next() } else { None },
            outcome.reported,
        ) {
            (Some(answer), true) => answer,
            (None, true) => Err(Error::did_not_happen(DOING, "refused by a fault")),
            (_, false) => Err(Error::may_have_happened(DOING, "the answer was lost by a fault")),
        };
        fates.into_iter().map(result).collect()
    }

    fn keeps(&self) -> Keeps {
        self.inner.keeps()
    }

    fn refusal(&self) -> Option<String> {
        self.inner.refusal()
    }

    fn stranger(&self) -> Option<String> {
        self.inner.stranger()
    }
} }
