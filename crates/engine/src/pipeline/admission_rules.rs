//! The conditions for the start of a queue's tasks: the limits and rates that apply to them, by settings and shares.
//! Does not use the limiter.

use super::admit::state::is_limited;
use crate::{
    core::Core,
    settings::LoadedSettings,
    shares::{Share, slower, state::SharesOf},
};
use punctual_contract::{
    hot::{Admission, HotEntry},
    limiter::{Flowing, Limit, Member, SlotRequest},
};
use punctual_domain::{
    chooser::Chooser,
    limits::Scope,
    name::QueueKey,
    settings::{QueueSettings, Rate},
    time::Millis,
};
use std::sync::Arc;

/// The conditions for the start of a queue's tasks.
#[derive(Debug)]
pub(crate) struct AdmissionRules {
    pub(crate) queue: Arc<QueueKey>,
    pub(crate) settings: Arc<QueueSettings>,
    /// The limits of every task of the queue.
    pub(crate) limits: Vec<Limit>,
    pub(crate) rates: Vec<Flowing>,
    pub(crate) is_limited: bool,
    /// Other queues count for some of these limits too.
    pub(crate) is_shared: bool,
    /// This queue's shares of these limits, while other queues compete for them.
    pub(crate) shares: SharesOf,
}

impl AdmissionRules {
    pub(crate) fn of(core: &Core, queue: &Arc<QueueKey>) -> Self {
        let (known, settings) = (core.settings.known(), core.settings.queue(queue));
        if settings.is_scanned() {
            return Self::of_scanned(&known, queue, settings);
        }
        let (everything, namespace) = (&known.everything, known.namespaces.get(&queue.namespace));
        let is_shared = known.shares_limits(&queue.namespace);
        let shares =
            if is_shared { core.limits.shares.of(&known, queue, core.now()) } else { SharesOf::default() };
        let is_limited = is_shared || is_limited(&settings);
        let scopes =
            [Scope::Everything, Scope::Namespace(queue.namespace.clone()), Scope::Queue((**queue).clone())];
        let slots = [
            everything.concurrency,
            least(namespace.and_then(|set| set.concurrency), shares.namespace.slots),
            least(settings.concurrency, shares.queue.slots),
        ];
        let starts = [
            everything.rate,
            slowest(namespace.and_then(|set| set.rate), shares.namespace.starts),
            slowest(settings.rate, shares.queue.starts),
        ];
        // Without a limit too: each member says of which queue it is, and where shares are made of which namespace.
        let counted = [None, is_shared.then_some(u32::MAX), is_limited.then_some(u32::MAX)];
        let (mut limits, mut rates) = (Vec::with_capacity(3), Vec::new());
        for (scope, ((slots, counted), rate)) in
            scopes.into_iter().zip(slots.into_iter().zip(counted).zip(starts))
        {
            limits.extend(slots.or(counted).map(|most| Limit { scope: scope.clone(), most }));
            rates.extend(rate.map(|rate| Flowing { scope, rate }));
        }
        Self { queue: Arc::clone(queue), settings, limits, rates, is_limited, is_shared, shares }
    }

    /// A queue that is scanned counts for no limit that others count for, since these may be held in Redis: it has the narrowest of
    /// them by itself.
    fn of_scanned(known: &LoadedSettings, queue: &Arc<QueueKey>, settings: Arc<QueueSettings>) -> Self {
        let wider = [Some(&known.everything), known.namespaces.get(&queue.namespace)];
        let wider = || wider.into_iter().flatten();
        let slots = wider().filter_map(|scope| scope.concurrency).chain(settings.concurrency);
        let most = slots.fold(settings.scan_concurrency(), u32::min);
        let rate = wider().filter_map(|scope| scope.rate).chain(settings.rate).reduce(slower);
        let scope = Scope::Queue((**queue).clone());
        Self {
            queue: Arc::clone(queue),
            settings,
            limits: vec![Limit { scope: scope.clone(), most }],
            rates: rate.into_iter().map(|rate| Flowing { scope: scope.clone(), rate }).collect(),
            is_limited: true,
            is_shared: false,
            shares: SharesOf::default(),
        }
    }

    /// The queue's own limit of attempts in flight.
    pub(crate) fn most(&self) -> Option<u32> {
        let scanned = self.limits.first().filter(|_| self.settings.is_scanned()).map(|limit| limit.most);
        scanned.or(self.settings.concurrency)
    }

    /// Adds the bound of an executor that declares the maximum number of tasks that it holds.
    pub(crate) fn within(mut self, bound: Option<&Limit>) -> Self {
        if let Some(bound) = bound {
            if !self.is_limited {
                // So that its queue is notified when the slot is free again.
                self.limits.push(Limit { scope: Scope::Queue((*self.queue).clone()), most: u32::MAX });
            }
            self.limits.push(bound.clone());
            self.is_limited = true;
        }
        self
    }

    /// The limits and rates of a single task.
    pub(crate) fn of_task(&self, attempt: u32, key: Option<&str>) -> (Vec<Limit>, Vec<Flowing>) {
        let (mut limits, mut rates) = (self.limits.clone(), self.rates.clone());
        if let Some(most) = self.settings.retries.concurrency.filter(|_| attempt > 0) {
            limits.push(Limit { scope: Scope::Retries((*self.queue).clone()), most });
        }
        if let Some(key) = key {
            let scope = Scope::Key((*self.queue).clone(), key.to_owned());
            limits.extend(self.settings.key_concurrency.map(|most| Limit { scope: scope.clone(), most }));
            rates.extend(self.settings.key_rate.map(|rate| Flowing { scope, rate }));
        }
        (limits, rates)
    }

    /// The share of a scope while others compete for it, if the share bounds it.
    pub(crate) fn share_of(&self, scope: &Scope) -> Option<&Share> {
        let share = match scope {
            Scope::Namespace(_) => &self.shares.namespace,
            Scope::Queue(_) => &self.shares.queue,
            Scope::Everything | Scope::Retries(_) | Scope::Key(..) | Scope::Executor(..) => return None,
        };
        let is_slots = |limit: &&Limit| limit.scope == *scope && share.slots == Some(limit.most);
        let is_starts = |flowing: &&Flowing| {
            let is_as_slow =
                |own: Rate| (own.limit, own.period_ms) == (flowing.rate.limit, flowing.rate.period_ms);
            flowing.scope == *scope && share.starts.is_some_and(is_as_slow)
        };
        let bounds = self.limits.iter().any(|limit| is_slots(&limit))
            || self.rates.iter().any(|rate| is_starts(&rate));
        bounds.then_some(share)
    }

    pub(crate) fn request(&self, entry: &HotEntry, until: Millis) -> SlotRequest {
        let key = entry.demands().concurrency_key.as_deref();
        let (limits, rates) = self.of_task(entry.attempt, key);
        SlotRequest { member: next_attempt(entry), place: entry.row(), until, limits, rates }
    }

    pub(crate) fn admission(&self, limit: usize) -> Admission {
        Admission { limit, chooser: Chooser::of(&self.settings), seed: fastrand::u32(..) }
    }
}

fn least(one: Option<u32>, other: Option<u32>) -> Option<u32> {
    one.into_iter().chain(other).min()
}

fn slowest(one: Option<Rate>, other: Option<Rate>) -> Option<Rate> {
    one.into_iter().chain(other).reduce(slower)
}

/// The member that a hand-over of this entry would be.
pub(crate) fn next_attempt(entry: &HotEntry) -> Member {
    Member { id: entry.place.id, fence: entry.fence + 1 }
}
