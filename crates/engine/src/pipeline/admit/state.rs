//! This engine's memory of its queues' admission. Losing any of it costs an interval. Admits nothing itself.

use crate::{
    pipeline::{bounds::state::Bounds, freed::state::DeferredQueues, kinds::state::ParkedKinds},
    settings::LoadedSettings,
};
use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::hot::ParkReason;
use punctual_domain::{name::QueueKey, settings::QueueSettings, time::Millis};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// A version whose executors have not requested tasks for this long counts as gone.
pub(super) const VERSION_GONE_MS: i64 = 60_000;

/// This engine's memory of its queues' admission. Losing any of it costs an interval.
#[derive(Debug, Default)]
pub(crate) struct Admissions {
    queues: Mutex<HashMap<Arc<QueueKey>, Lately>>,
    /// Limits have been set since this process began, so ending attempts may hold slots.
    revision: Mutex<(i64, bool)>,
    pub(crate) deferred: DeferredQueues,
    pub(crate) kinds: ParkedKinds,
    pub(crate) bounds: Bounds,
}

#[derive(Debug, Default)]
pub(super) struct Lately {
    /// Version ranges with parked tasks, and when they were looked up.
    pub(super) ranges: Vec<String>,
    pub(super) looked_at: Option<Millis>,
    /// Versions that have asked, and when they last did.
    pub(super) versions: BTreeMap<String, Millis>,
    /// Keys whose rate has no start left, by when it has.
    pub(super) throttled: BTreeMap<(Millis, ParkReason), ()>,
    /// The lane after which the next check of the queue's lanes continues, and the time of the last check.
    pub(super) lanes_from: Option<ParkReason>,
    pub(super) lanes_looked_at: Option<Millis>,
    /// The instant at which the queue's own rate has a start again.
    pub(super) starts_at: Option<Millis>,
    /// Attempts that may have places and are offered again, and until when.
    pub(super) in_doubt: (usize, Millis),
}

impl Admissions {
    pub(super) fn with<T>(&self, queue: &Arc<QueueKey>, work: impl FnOnce(&mut Lately) -> T) -> T {
        work(self.queues.lock().entry(Arc::clone(queue)).or_default())
    }

    /// Versions that recently requested tasks of a queue here.
    pub(crate) fn versions(&self, queue: &QueueKey, now: Millis) -> Vec<String> {
        let queues = self.queues.lock();
        let known = queues.get(queue).map(|queue| &queue.versions).into_iter().flatten();
        known.filter(|pair| now.since(*pair.1) <= VERSION_GONE_MS).map(|pair| pair.0.clone()).collect()
    }

    /// The time until a rate of the queue admits a deferred task, as far as this engine knows.
    pub(crate) fn rate_wait(&self, queue: &QueueKey, now: Millis) -> Option<Duration> {
        let queues = self.queues.lock();
        let known = queues.get(queue)?;
        let key_at = known.throttled.first_key_value().map(|pair| pair.0.0);
        let next = known.starts_at.into_iter().chain(key_at).filter(|start| *start > now).min()?;
        Some(Duration::from_millis(u64::try_from(next.since(now)).unwrap_or(0)))
    }

    pub(crate) fn queues_held(&self) -> usize {
        self.queues.lock().len() + self.kinds.queues_held()
    }

    /// Removes queues without recent requests, without parked tasks, and without a rate to wait for.
    pub(crate) fn forget(&self, now: Millis) {
        let is_in_use = |lately: &Lately| {
            let has_asked = lately.versions.values().any(|at| now.since(*at) <= VERSION_GONE_MS);
            let waits = lately.throttled.keys().any(|key| key.0 > now)
                || lately.starts_at.is_some_and(|starts_at| starts_at > now);
            has_asked || waits || !lately.ranges.is_empty()
        };
        let mut queues = self.queues.lock();
        queues.retain(|_, queue| is_in_use(queue));
        queues.shrink_to_fit();
        self.kinds.forget(now);
    }

    /// True if attempts may hold places. `counts_scanned` states that attempts of scanned queues do so in the same
    /// limiter.
    pub(crate) fn has_limits(&self, known: &LoadedSettings, counts_scanned: bool) -> bool {
        let mut seen = self.revision.lock();
        if seen.0 != known.revision {
            let has_limits = known.has_limits() || (counts_scanned && !known.scanned.is_empty());
            *seen = (known.revision, seen.1 || has_limits);
        }
        seen.1
    }
}

pub(crate) fn is_limited(settings: &QueueSettings) -> bool {
    settings.concurrency.is_some()
        || settings.key_concurrency.is_some()
        || settings.retries.concurrency.is_some()
        || settings.rate.is_some()
        || settings.key_rate.is_some()
}

impl LoadedSettings {
    fn has_limits(&self) -> bool {
        let scopes = std::iter::once(&self.everything).chain(self.namespaces.values());
        scopes.into_iter().any(|scope| !scope.lets_all_start())
            || self.queues.values().any(|queue| is_limited(queue))
    }
}
