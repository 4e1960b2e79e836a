//! The source of tasks, and whether the hot set answers. Asks neither the hot set nor the store.

use super::{
    availability::HotSetAvailability,
    circuit_breaker::{CircuitBreakerHot, CircuitBreakerLimiter},
};
use crate::pipeline::{scan::state::Scans, store_drain::state::Watermarks};
use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::{Hot, Limiter, hot::Keeps};
use punctual_domain::{place::Partition, time::Millis};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::time::Instant;

/// The maximum length of an outage after which the missed spans of the hot set are known; after a longer one,
/// everything is scanned.
const BLIP: Duration = Duration::from_secs(3);
/// An engine without the hot set gives its partitions to one that has it after this long. By then, every
/// other engine that lost it too has noticed and said so.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(3);
/// An engine that has the hot set again takes part after this long: an unstable path to Redis moves no
/// partitions.
const TRUSTED_AFTER: Duration = Duration::from_secs(5);

/// An engine's report to other engines about its hot set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HasHot {
    Yes,
    /// Recently lost or recently back: the engine says no, and keeps its partitions.
    Unsettled,
    No,
}

/// The source from which due tasks are loaded into the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DueSource {
    HotSet,
    Store,
}

#[derive(Clone, Copy, Debug)]
pub(in crate::pipeline) enum Since {
    Away(Instant),
    Back(Instant),
}

impl Since {
    /// It is unavailable for long.
    fn is_no_blip(self) -> bool {
        matches!(self, Self::Away(at) if at.elapsed() >= BLIP)
    }
}

#[derive(Debug)]
pub(crate) struct FromStore {
    pub(in crate::pipeline) availability: Arc<HotSetAvailability>,
    /// The hot set itself, for the check that decides the availability. `Core::hot` ends its calls when it is
    /// considered unavailable.
    pub(in crate::pipeline) hot: Arc<dyn Hot>,
    /// The content of the hot set while it answers.
    keeps: Keeps,
    /// Other engines write to this store, and do not announce it without a hot set.
    pub(in crate::pipeline) others_write: bool,
    /// The instant of the last change of the availability. `None` if the hot set has always answered, or there is
    /// none.
    pub(in crate::pipeline) since: Mutex<Option<Since>>,
    /// Something was not loaded because the hot set was unavailable, or has fired without it.
    pub(in crate::pipeline) has_passed_by: AtomicBool,
    /// The watermarks up to which the partitions of this engine are read.
    pub(crate) watermarks: Watermarks,
    /// The positions where the search for ready tasks continues, by partition of another engine.
    pub(in crate::pipeline) positions: Mutex<HashMap<Partition, (Millis, i64)>>,
    /// The scans of scanned queues.
    pub(crate) scans: Scans,
}

impl FromStore {
    /// Creates the state. Without a hot set, firing always uses the store.
    pub(crate) fn new(hot: Arc<dyn Hot>, others_write: bool) -> Self {
        let (since, has_passed_by, watermarks, positions, scans) = Default::default();
        let keeps = hot.keeps();
        let availability = Arc::new(HotSetAvailability::new(keeps == Keeps::Nothing));
        Self { availability, hot, keeps, others_write, since, has_passed_by, watermarks, positions, scans }
    }

    /// The hot set for all steps except the check of its availability.
    pub(crate) fn circuit_breaker_hot(&self) -> Arc<dyn Hot> {
        match self.keeps {
            Keeps::Due => Arc::new(CircuitBreakerHot {
                hot: Arc::clone(&self.hot),
                availability: Arc::clone(&self.availability),
            }),
            // It makes no calls.
            Keeps::Nothing => Arc::clone(&self.hot),
        }
    }

    /// The limiter beside the hot set, for all steps.
    pub(crate) fn circuit_breaker_limiter(&self, limiter: Arc<dyn Limiter>) -> Arc<dyn Limiter> {
        match self.keeps {
            Keeps::Due => {
                Arc::new(CircuitBreakerLimiter { limiter, availability: Arc::clone(&self.availability) })
            }
            // It is beside no hot set.
            Keeps::Nothing => limiter,
        }
    }

    pub(crate) const fn hot_set_keeps(&self) -> Keeps {
        self.keeps
    }

    /// The only place that decides the source.
    pub(crate) fn source(&self) -> DueSource {
        if self.availability.is_believed_away() { DueSource::Store } else { DueSource::HotSet }
    }

    /// The hot set did not answer the last check, or there is none.
    pub(crate) fn is_away(&self) -> bool {
        self.availability.is_believed_away()
    }

    /// The number of calls to the hot set that failed, or waited for long.
    pub(crate) fn doubts(&self) -> u64 {
        self.availability.doubts()
    }

    /// The hot set is unavailable, and so is the limiter beside it.
    pub(crate) fn hides_limits(&self) -> bool {
        self.keeps != Keeps::Nothing && self.availability.is_believed_away()
    }

    pub(crate) fn has_hot(&self) -> HasHot {
        match *self.since.lock() {
            None => HasHot::Yes,
            Some(Since::Back(at)) if at.elapsed() >= TRUSTED_AFTER => HasHot::Yes,
            Some(Since::Away(at)) if at.elapsed() >= GIVEN_UP_AFTER => HasHot::No,
            Some(_) => HasHot::Unsettled,
        }
    }

    /// The hot set answers again. Returns whether it must be scanned for tasks that it missed.
    pub(in crate::pipeline) fn has_gaps(&self) -> bool {
        let was_long = self.since.lock().is_some_and(Since::is_no_blip);
        was_long && self.has_passed_by.swap(false, SeqCst)
    }

    pub(crate) fn passes_by(&self) {
        self.has_passed_by.store(true, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_away_for_a_moment_is_not_looked_through() {
        let away = Since::Away(Instant::now());
        assert!(!away.is_no_blip());
        tokio::time::advance(BLIP).await;
        assert!(away.is_no_blip() && !Since::Back(Instant::now() - BLIP).is_no_blip());
    }
}
