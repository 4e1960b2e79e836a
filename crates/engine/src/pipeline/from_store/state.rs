//! From where tasks come, and whether the hot set answers. Asks neither the hot set nor the store.

use super::{
    belief::Belief,
    patient::{PatientHot, PatientLimiter},
};
use crate::pipeline::{scan::state::Scans, store_source::state::Watermarks};
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

/// What passed a hot set by that was unavailable for less than this is known span by span; after a longer time all is looked through.
const BLIP: Duration = Duration::from_secs(3);
/// An engine whom the hot set has not answered for so long gives its partitions to one whom it answers. By then every other
/// one that has lost it too has noticed and said so.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(3);
/// An engine whom it answers again takes part again after so long: a way to Redis that comes and goes moves no partitions.
const TRUSTED_AFTER: Duration = Duration::from_secs(5);

/// What an engine says of the hot set to those that it shares the partitions with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HasHot {
    Yes,
    /// Lately lost or lately back: it says no, and keeps what it has.
    Unsettled,
    No,
}

/// From where what is due comes into the table.
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
    pub(in crate::pipeline) belief: Arc<Belief>,
    /// As it is, for the look that decides what is believed: `Core::hot` waits no longer than the hot set is believed to answer.
    pub(in crate::pipeline) hot: Arc<dyn Hot>,
    /// What of a task's way the hot set has while it answers.
    keeps: Keeps,
    /// Other engines write to this store, and say nothing of it where there is no hot set.
    pub(in crate::pipeline) others_write: bool,
    /// When that changed. None: it has always answered, or there is none.
    pub(in crate::pipeline) since: Mutex<Option<Since>>,
    /// Something was not loaded because the hot set was unavailable, or has fired without it.
    pub(in crate::pipeline) has_passed_by: AtomicBool,
    /// How far the partitions of this engine are read.
    pub(crate) watermarks: Watermarks,
    /// By partition of another engine, where the look for what is ready continues.
    pub(in crate::pipeline) positions: Mutex<HashMap<Partition, (Millis, i64)>>,
    /// Of queues that are scanned.
    pub(crate) scans: Scans,
}

impl FromStore {
    /// Without a hot set, firing goes by the store from the beginning to the end.
    pub(crate) fn new(hot: Arc<dyn Hot>, others_write: bool) -> Self {
        let (since, has_passed_by, watermarks, positions, scans) = Default::default();
        let keeps = hot.keeps();
        let belief = Arc::new(Belief::new(keeps == Keeps::Nothing));
        Self { belief, hot, keeps, others_write, since, has_passed_by, watermarks, positions, scans }
    }

    /// The hot set as everything but the look at it has it.
    pub(crate) fn patient_hot(&self) -> Arc<dyn Hot> {
        match self.keeps {
            Keeps::Due => {
                Arc::new(PatientHot { hot: Arc::clone(&self.hot), belief: Arc::clone(&self.belief) })
            }
            // It makes no calls.
            Keeps::Nothing => Arc::clone(&self.hot),
        }
    }

    /// The limiter beside the hot set, as all have it.
    pub(crate) fn patient_limiter(&self, limiter: Arc<dyn Limiter>) -> Arc<dyn Limiter> {
        match self.keeps {
            Keeps::Due => Arc::new(PatientLimiter { limiter, belief: Arc::clone(&self.belief) }),
            // It is beside no hot set.
            Keeps::Nothing => limiter,
        }
    }

    pub(crate) const fn hot_set_keeps(&self) -> Keeps {
        self.keeps
    }

    /// Said here and nowhere else.
    pub(crate) fn source(&self) -> DueSource {
        if self.belief.is_believed_away() { DueSource::Store } else { DueSource::HotSet }
    }

    /// The hot set did not answer when last asked, or there is none.
    pub(crate) fn is_away(&self) -> bool {
        self.belief.is_believed_away()
    }

    /// How often calls to the hot set failed, or waited for long.
    pub(crate) fn doubts(&self) -> u64 {
        self.belief.doubts()
    }

    /// The hot set is unavailable, and with it the limiter that is beside it.
    pub(crate) fn hides_limits(&self) -> bool {
        self.keeps != Keeps::Nothing && self.belief.is_believed_away()
    }

    pub(crate) fn has_hot(&self) -> HasHot {
        match *self.since.lock() {
            None => HasHot::Yes,
            Some(Since::Back(at)) if at.elapsed() >= TRUSTED_AFTER => HasHot::Yes,
            Some(Since::Away(at)) if at.elapsed() >= GIVEN_UP_AFTER => HasHot::No,
            Some(_) => HasHot::Unsettled,
        }
    }

    /// It answers again. Whether it is to be looked through for what passed it by.
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
