//! Fair shares of limits that several namespaces, or several queues of one namespace, have together: while they want more
//! than there is, each has its weight. What each may have is looked at anew about once a second, and sooner while somebody is
//! kept back, by what all engines tell of their queues (`Limiter::demands`); so all engines come to nearly the same. The limiter
//! keeps the limits themselves whatever is found here: engines that differ share less fairly for a moment, and never pass a
//! limit. Decides nothing about a task.

mod look;
mod memory;
mod pool;

use crate::{core::Core, engine::Engine, pipeline::admit::Terms, settings::Known};
use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};
use punctual_contract::limiter::{Answer, Demand};
use punctual_domain::{
    limits::Scope,
    name::{Name, QueueKey},
    settings::{Rate, ScopeSettings},
    time::Millis,
};
use std::{sync::Arc, time::Duration};
use tokio::{sync::Notify, time::Instant};

pub(crate) use look::run_once;
use memory::Memory;
use pool::Pool;
pub(crate) use pool::{Share, slower};

pub(crate) const PERIOD: Duration = Duration::from_secs(1);
/// Between two looks, however often somebody is kept back.
const PAUSE: Duration = Duration::from_millis(250);
/// A rate is not reckoned from less.
const SOON_MS: i64 = 200;
/// Nor from more.
const LONG_MS: u64 = 10_000;
/// Shares that were found longer ago than this hold nobody back: there is only the limit itself.
const GOOD_FOR_MS: i64 = 3_000;
/// Queues that are told of, and that shares are made for. Others may take what a newcomer may.
const QUEUES_MAX: usize = 1_000;
/// Namespaces whose shares are shown to whoever looks at metrics.
const SHOWN_MAX: usize = 200;

#[derive(Debug, Default)]
pub(crate) struct Shares {
    seeing: Mutex<Seeing>,
    divided: RwLock<Arc<Divided>>,
    /// Of the service alone.
    memory: tokio::sync::Mutex<Memory>,
    kept_back: Notify,
    looked_at: Mutex<Option<Instant>>,
}

/// What this engine has seen since it last told the others.
#[derive(Debug, Default)]
struct Seeing {
    queues: HashMap<Arc<QueueKey>, Seen>,
    /// Starts are counted since then.
    since: Millis,
    /// What was reckoned from those before.
    starts_per_ks: HashMap<Arc<QueueKey>, u64>,
}

#[derive(Debug, Default)]
struct Seen {
    short_of_slots: bool,
    short_of_starts: bool,
    starts: u64,
}

/// Who may have what, as of one look.
#[derive(Debug, Default, PartialEq)]
struct Divided {
    at: Millis,
    /// Among namespaces.
    everything: Pool,
    /// Among the queues of each.
    namespaces: HashMap<Name, Pool>,
}

/// What is left of shared limits for a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SharesOf {
    pub(crate) namespace: Share,
    pub(crate) queue: Share,
}

/// What a namespace has of the limits of everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceShare {
    pub namespace: Name,
    pub weight: u32,
    /// Attempts in flight.
    pub held: usize,
    /// How many there may be at the most. None: it is alone, or the slots of everything are not limited.
    pub slots: Option<u32>,
    /// The same of starts.
    pub starts: Option<Rate>,
}

impl Known {
    /// Somebody else counts for a limit that tasks of this namespace count for, or may.
    pub(crate) fn shares_limits(&self, namespace: &Name) -> bool {
        self.everything.limits_starts()
            || self.namespaces.get(namespace).is_some_and(ScopeSettings::limits_starts)
    }

    fn has_shared_limits(&self) -> bool {
        self.everything.limits_starts() || self.namespaces.values().any(ScopeSettings::limits_starts)
    }

    fn weight_of_namespace(&self, namespace: &Name) -> u32 {
        self.namespaces.get(namespace).and_then(|set| set.weight).unwrap_or(1)
    }

    fn weight_of_queue(&self, queue: &QueueKey) -> u32 {
        self.queues.get(queue).and_then(|set| set.weight).unwrap_or(1)
    }
}

impl Seeing {
    /// How fast attempts started, once that can be said.
    fn reckon(&mut self, now: Millis) {
        let for_ms = now.since(self.since);
        if (0..SOON_MS).contains(&for_ms) {
            return;
        }
        // Time went back, or the engine stood still: what was counted is of no known time.
        let for_ms = u64::try_from(for_ms).ok().filter(|it| *it <= LONG_MS);
        self.since = now;
        self.starts_per_ks = HashMap::new();
        self.queues.retain(|queue, it| {
            let starts = std::mem::take(&mut it.starts);
            if let Some(ms) = for_ms.filter(|_| starts > 0) {
                self.starts_per_ks.insert(Arc::clone(queue), starts.saturating_mul(1_000_000) / ms.max(1));
            }
            starts > 0 || it.short_of_slots || it.short_of_starts
        });
    }
}

impl Shares {
    /// What a queue may have at the most, where it is kept to a share.
    pub(crate) fn of(&self, known: &Known, queue: &QueueKey, now: Millis) -> SharesOf {
        let divided = Arc::clone(&self.divided.read());
        if !(0..=GOOD_FOR_MS).contains(&now.since(divided.at)) {
            return SharesOf::default();
        }
        let namespace = || known.weight_of_namespace(&queue.namespace);
        let within = divided.namespaces.get(&queue.namespace);
        SharesOf {
            namespace: divided.everything.share_of(&queue.namespace, namespace),
            queue: within
                .map(|it| it.share_of(&queue.queue, || known.weight_of_queue(queue)))
                .unwrap_or_default(),
        }
    }

    /// Tasks of a queue could not go because of this, although somebody asked for them.
    pub(crate) fn kept_back(&self, terms: &Terms, by: Option<&Answer>) {
        let (slots, starts) = match by {
            Some(
                Answer::Blocked(Scope::Key(..) | Scope::Retries(_) | Scope::Executor(..))
                | Answer::NotWhole
                | Answer::Granted,
            ) => {
                return;
            }
            Some(Answer::Throttled { scope: Scope::Key(..), .. }) | None => return,
            Some(Answer::Blocked(_)) => (true, false),
            Some(Answer::Throttled { .. }) => (false, true),
        };
        if !terms.is_shared {
            return;
        }
        self.see(&terms.queue, |seen| {
            seen.short_of_slots |= slots;
            seen.short_of_starts |= starts;
        });
        self.kept_back.notify_one();
    }

    pub(crate) fn started(&self, terms: &Terms, count: usize) {
        if terms.is_shared && count > 0 {
            let count = u64::try_from(count).unwrap_or(u64::MAX);
            self.see(&terms.queue, |seen| seen.starts = seen.starts.saturating_add(count));
        }
    }

    fn see(&self, queue: &Arc<QueueKey>, what: impl FnOnce(&mut Seen)) {
        let mut seeing = self.seeing.lock();
        if seeing.queues.len() < QUEUES_MAX || seeing.queues.contains_key(queue) {
            what(seeing.queues.entry(Arc::clone(queue)).or_default());
        }
    }

    /// What was seen since this was last asked.
    fn take_seen(&self, now: Millis) -> Vec<Demand> {
        let mut seeing = self.seeing.lock();
        seeing.reckon(now);
        let Seeing { queues, starts_per_ks, .. } = &mut *seeing;
        let mut demands = Vec::with_capacity(queues.len());
        for (queue, it) in queues.iter_mut() {
            demands.push(Demand {
                queue: (**queue).clone(),
                short_of_slots: std::mem::take(&mut it.short_of_slots),
                short_of_starts: std::mem::take(&mut it.short_of_starts),
                starts_per_ks: starts_per_ks.get(queue).copied().unwrap_or(0),
            });
        }
        demands
    }

    /// Until somebody is kept back and it is time for another look.
    pub(crate) async fn wanted(&self) {
        self.kept_back.notified().await;
        let looked_at = *self.looked_at.lock();
        if let Some(at) = looked_at {
            tokio::time::sleep_until(at + PAUSE).await;
        }
    }
}

impl Engine {
    /// What each namespace has of the limits of everything, as of the last look; of the first of those that want some.
    #[must_use]
    pub fn shares(&self) -> Vec<NamespaceShare> {
        shown(&self.core)
    }
}

fn shown(core: &Core) -> Vec<NamespaceShare> {
    let divided = Arc::clone(&core.shares.divided.read());
    if !(0..=GOOD_FOR_MS).contains(&core.now().since(divided.at)) {
        return Vec::new();
    }
    let mut all: Vec<NamespaceShare> = divided.everything.shown().collect();
    all.sort_unstable_by(|a, b| a.namespace.cmp(&b.namespace));
    all.truncate(SHOWN_MAX);
    all
}
