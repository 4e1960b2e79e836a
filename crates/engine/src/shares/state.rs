//! This engine's observations of queues that share limits, and the shares as of the last division. Uses neither the
//! limiter nor the hot set.

use super::{
    memory::Memory,
    pool::{Pool, Share},
};
use crate::settings::LoadedSettings;
use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};
use punctual_contract::limiter::Demand;
use punctual_domain::{
    name::{Name, QueueKey},
    settings::ScopeSettings,
    time::Millis,
};
use std::{sync::Arc, time::Duration};
use tokio::{sync::Notify, time::Instant};

/// The minimum pause between two runs, however often tasks are deferred.
const PAUSE: Duration = Duration::from_millis(250);
/// A rate is not reckoned from less.
const SOON_MS: i64 = 200;
/// Nor from more.
const LONG_MS: u64 = 10_000;
/// Older shares than this restrict no queue: only the limit itself applies.
pub(super) const GOOD_FOR_MS: i64 = 3_000;
/// The maximum number of queues that are reported and divided. Others may take as much as a newcomer.
pub(super) const QUEUES_MAX: usize = 1_000;

#[derive(Debug, Default)]
pub(crate) struct Shares {
    seeing: Mutex<Seeing>,
    pub(super) divided: RwLock<Arc<Divided>>,
    /// The memory of the service alone.
    pub(super) memory: tokio::sync::Mutex<Memory>,
    pub(super) deferred: Notify,
    pub(super) looked_at: Mutex<Option<Instant>>,
}

/// This engine's observations since its last report.
#[derive(Debug, Default)]
struct Seeing {
    queues: HashMap<Arc<QueueKey>, Shortage>,
    /// Starts are counted since then.
    since: Millis,
    /// The rates computed from earlier observations.
    starts_per_ks: HashMap<Arc<QueueKey>, u64>,
}

#[derive(Debug, Default)]
pub(super) struct Shortage {
    pub(super) short_of_slots: bool,
    pub(super) short_of_starts: bool,
    pub(super) starts: u64,
}

/// The shares as of one division.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Divided {
    pub(super) at: Millis,
    /// The shares among namespaces.
    pub(super) everything: Pool,
    /// The shares among the queues of each namespace.
    pub(super) namespaces: HashMap<Name, Pool>,
}

/// A queue's share of shared limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SharesOf {
    pub(crate) namespace: Share,
    pub(crate) queue: Share,
}

impl LoadedSettings {
    /// Other queues or namespaces count, or may count, for a limit of this namespace.
    pub(crate) fn shares_limits(&self, namespace: &Name) -> bool {
        self.everything.limits_starts()
            || self.namespaces.get(namespace).is_some_and(ScopeSettings::limits_starts)
    }

    pub(super) fn has_shared_limits(&self) -> bool {
        self.everything.limits_starts() || self.namespaces.values().any(ScopeSettings::limits_starts)
    }

    pub(super) fn weight_of_namespace(&self, namespace: &Name) -> u32 {
        self.namespaces.get(namespace).and_then(|set| set.weight).unwrap_or(1)
    }

    pub(super) fn weight_of_queue(&self, queue: &QueueKey) -> u32 {
        self.queues.get(queue).and_then(|set| set.weight).unwrap_or(1)
    }
}

impl Seeing {
    /// Computes how fast attempts started, once enough time has passed.
    fn reckon(&mut self, now: Millis) {
        let for_ms = now.since(self.since);
        if (0..SOON_MS).contains(&for_ms) {
            return;
        }
        // The clock was set back, or the engine was stopped: the time of these counts is unknown.
        let for_ms = u64::try_from(for_ms).ok().filter(|number| *number <= LONG_MS);
        self.since = now;
        self.starts_per_ks = HashMap::new();
        self.queues.retain(|queue, seen| {
            let starts = std::mem::take(&mut seen.starts);
            if let Some(ms) = for_ms.filter(|_| starts > 0) {
                self.starts_per_ks.insert(Arc::clone(queue), starts.saturating_mul(1_000_000) / ms.max(1));
            }
            starts > 0 || seen.short_of_slots || seen.short_of_starts
        });
    }
}

impl Shares {
    /// The maximum for a queue, if it is restricted to a share.
    pub(crate) fn of(&self, known: &LoadedSettings, queue: &QueueKey, now: Millis) -> SharesOf {
        let divided = Arc::clone(&self.divided.read());
        if !(0..=GOOD_FOR_MS).contains(&now.since(divided.at)) {
            return SharesOf::default();
        }
        let namespace = || known.weight_of_namespace(&queue.namespace);
        let within = divided.namespaces.get(&queue.namespace);
        SharesOf {
            namespace: divided.everything.share_of(&queue.namespace, namespace),
            queue: within
                .map(|pool| pool.share_of(&queue.queue, || known.weight_of_queue(queue)))
                .unwrap_or_default(),
        }
    }

    pub(super) fn see(&self, queue: &Arc<QueueKey>, what: impl FnOnce(&mut Shortage)) {
        let mut seeing = self.seeing.lock();
        if seeing.queues.len() < QUEUES_MAX || seeing.queues.contains_key(queue) {
            what(seeing.queues.entry(Arc::clone(queue)).or_default());
        }
    }

    /// The observations since the last call.
    pub(super) fn take_seen(&self, now: Millis) -> Vec<Demand> {
        let mut seeing = self.seeing.lock();
        seeing.reckon(now);
        let Seeing { queues, starts_per_ks, .. } = &mut *seeing;
        let mut demands = Vec::with_capacity(queues.len());
        for (queue, seen) in queues.iter_mut() {
            demands.push(Demand {
                queue: (**queue).clone(),
                short_of_slots: std::mem::take(&mut seen.short_of_slots),
                short_of_starts: std::mem::take(&mut seen.short_of_starts),
                starts_per_ks: starts_per_ks.get(queue).copied().unwrap_or(0),
            });
        }
        demands
    }

    /// Waits until tasks are deferred and the next run is due.
    pub(crate) async fn wanted(&self) {
        self.deferred.notified().await;
        let looked_at = *self.looked_at.lock();
        if let Some(at) = looked_at {
            tokio::time::sleep_until(at + PAUSE).await;
        }
    }
}
