//! The engine's own counts. Cheap enough for every task: atomics, and for each outcome a short lock of its
//! queue. Counts are of this process; the account that must always be right is the store's (`Books`).

use crate::attempts::{OutcomeMeters, Outcomes, Processing};
use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};
use punctual_domain::{name::QueueKey, time::Millis};
use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
};

/// Upper bounds of the lateness histogram, in milliseconds; above the last: the rest.
pub const LATENESS_BOUNDS_MS: [i64; 14] =
    [0, 1, 2, 5, 10, 20, 50, 100, 250, 500, 1_000, 5_000, 30_000, 300_000];

/// The maximum number of queues that are reported separately. Later queues share one histogram of processing times.
pub const QUEUES_REPORTED_SEPARATELY: usize = 1_000;

/// The default lateness budget of a queue.
pub(crate) const LATENESS_BUDGET_MS: i64 = 1_000;
const NO_BUDGET: i64 = -1;

#[derive(Debug, Default)]
pub struct Meters {
    queues: RwLock<HashMap<Arc<QueueKey>, Arc<QueueMeters>>>,
    /// The histogram of queues that are not reported separately.
    together: Processing,
    services: Mutex<Vec<Arc<ServiceMeters>>>,
    succeeded: AtomicU64,
    preloaded: AtomicU64,
    swept: AtomicU64,
    leases_ended: AtomicU64,
    terms_gained: AtomicU64,
    terms_lost: AtomicU64,
    offered_again: AtomicU64,
    publish_failures: AtomicU64,
    compensated: AtomicU64,
    rebuilt: AtomicU64,
    terms_raised: AtomicU64,
    identity_conflicts: AtomicU64,
    fired_from_store: AtomicU64,
}

/// A process's own counts, whatever engine runs in it. Written by the process's owner: its panic hook, and
/// the writer of its log.
#[derive(Debug, Default)]
pub struct ProcessMeters {
    panics: AtomicU64,
    log_lines_lost: AtomicU64,
}

#[derive(Debug, Default)]
pub(crate) struct QueueMeters {
    inserted: AtomicU64,
    fired: AtomicU64,
    early: AtomicU64,
    dispatched: AtomicU64,
    retried: AtomicU64,
    dead: AtomicU64,
    cancelled: AtomicU64,
    blocked: AtomicU64,
    throttled: AtomicU64,
    other: AtomicU64,
    lateness: [AtomicU64; LATENESS_BOUNDS_MS.len() + 1],
    lateness_sum_ms: AtomicU64,
    over_budget: AtomicU64,
    /// A task that fires later than this is over its budget; 0: the default; `NO_BUDGET`: no task is.
    budget_ms: AtomicI64,
    pub(crate) outcomes: OutcomeMeters,
    /// All counts together, as they were when they last changed, and when that was seen.
    last_sum: AtomicU64,
    last_change: AtomicI64,
}

#[derive(Debug)]
pub(crate) struct ServiceMeters {
    pub(crate) name: &'static str,
    pub(crate) runs: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) panics: AtomicU64,
    pub(crate) handled: AtomicU64,
    pub(crate) failures_in_a_row: AtomicU64,
    /// Panics since a run last ended without one, successfully or not.
    panics_in_a_row: AtomicU64,
    /// Milliseconds; 0: never.
    pub(crate) succeeded_at: AtomicI64,
}

/// One queue's counts since the process began.
#[derive(Debug, Clone)]
pub struct QueueNumbers {
    pub queue: Arc<QueueKey>,
    pub inserted: u64,
    pub fired: u64,
    /// Fired before their time: 0, or the first promise is broken.
    pub early: u64,
    pub dispatched: u64,
    pub retried: u64,
    pub dead: u64,
    pub cancelled: u64,
    /// The number of times that tasks were blocked by a full limit.
    pub blocked: u64,
    /// The number of times that the rate had no start left.
    pub throttled: u64,
    pub lateness: Vec<HistogramBucket>,
    pub lateness_sum_ms: u64,
    /// Fired later than the queue's budget.
    pub over_budget: u64,
    pub outcomes: Outcomes,
}

/// A bucket of tasks whose lateness is at most this, and above the bound of the preceding bucket. `None` is no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistogramBucket {
    pub at_most_ms: Option<i64>,
    pub tasks: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceNumbers {
    pub name: &'static str,
    pub runs: u64,
    pub failures: u64,
    pub panics: u64,
    pub handled: u64,
    /// Failures and panics since it last ended well.
    pub failures_in_a_row: u64,
    /// Panics since a run last ended without one, successfully or not.
    pub panics_in_a_row: u64,
    /// The instant of the last success.
    pub succeeded_at: Option<Millis>,
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Relaxed);
}

impl QueueMeters {
    pub(crate) fn inserted(&self, count: usize) {
        add(&self.inserted, count);
    }
    pub(crate) fn dispatched(&self, count: usize) {
        add(&self.dispatched, count);
    }
    pub(crate) fn retried(&self, count: usize) {
        add(&self.retried, count);
    }
    pub(crate) fn dead(&self, count: usize) {
        add(&self.dead, count);
    }
    pub(crate) fn cancelled(&self, count: usize) {
        add(&self.cancelled, count);
    }
    pub(crate) fn blocked(&self, count: usize) {
        add(&self.blocked, count);
    }
    pub(crate) fn throttled(&self, count: usize) {
        add(&self.throttled, count);
    }
    pub(crate) fn other(&self, count: usize) {
        add(&self.other, count);
    }

    pub(crate) fn set_budget(&self, budget_ms: Option<i64>) {
        let set = |n| if n == 0 { NO_BUDGET } else { n };
        self.budget_ms.store(budget_ms.map_or(0, set), Relaxed);
    }

    pub(crate) fn fired(&self, lateness_ms: &[i64]) {
        add(&self.fired, lateness_ms.len());
        let budget_ms = match self.budget_ms.load(Relaxed) {
            0 => LATENESS_BUDGET_MS,
            ms => ms,
        };
        if budget_ms != NO_BUDGET {
            add(&self.over_budget, lateness_ms.iter().filter(|ms| **ms > budget_ms).count());
        }
        for &ms in lateness_ms {
            if ms < 0 {
                add(&self.early, 1);
            }
            let nth = LATENESS_BOUNDS_MS.partition_point(|bound| *bound < ms);
            if let Some(counter) = self.lateness.get(nth) {
                add(counter, 1);
            }
            self.lateness_sum_ms.fetch_add(u64::try_from(ms).unwrap_or(0), Relaxed);
        }
    }

    /// True if no count has changed for this long, and no setting exists.
    fn is_idle(&self, now: Millis, for_ms: i64) -> bool {
        let counts =
            [&self.inserted, &self.fired, &self.dispatched, &self.retried, &self.dead, &self.cancelled];
        let more = [&self.blocked, &self.throttled, &self.other];
        // One more, so that no counts at all are a change as well.
        let sum =
            counts.into_iter().chain(more).map(|count| count.load(Relaxed)).sum::<u64>().saturating_add(1);
        if self.last_sum.swap(sum, Relaxed) != sum {
            self.last_change.store(now.0, Relaxed);
        }
        self.budget_ms.load(Relaxed) == 0 && now.0 - self.last_change.load(Relaxed) >= for_ms
    }

    fn numbers(&self, queue: Arc<QueueKey>) -> QueueNumbers {
        let bounds = LATENESS_BOUNDS_MS.iter().copied().map(Some).chain([None]);
        let lateness = bounds
            .zip(&self.lateness)
            .map(|(at_most_ms, tasks)| HistogramBucket { at_most_ms, tasks: tasks.load(Relaxed) })
            .collect();
        QueueNumbers {
            queue,
            inserted: self.inserted.load(Relaxed),
            fired: self.fired.load(Relaxed),
            early: self.early.load(Relaxed),
            dispatched: self.dispatched.load(Relaxed),
            retried: self.retried.load(Relaxed),
            dead: self.dead.load(Relaxed),
            cancelled: self.cancelled.load(Relaxed),
            blocked: self.blocked.load(Relaxed),
            throttled: self.throttled.load(Relaxed),
            lateness,
            lateness_sum_ms: self.lateness_sum_ms.load(Relaxed),
            over_budget: self.over_budget.load(Relaxed),
            outcomes: self.outcomes.numbers(),
        }
    }
}

impl ProcessMeters {
    pub fn panicked(&self) {
        add(&self.panics, 1);
    }
    pub fn log_line_lost(&self) {
        add(&self.log_lines_lost, 1);
    }
    /// Panics of all threads and tasks, even if caught.
    #[must_use]
    pub fn panics_total(&self) -> u64 {
        self.panics.load(Relaxed)
    }
    /// Lines that could not be written, or that found no room while the writer was blocked.
    #[must_use]
    pub fn log_lines_lost_total(&self) -> u64 {
        self.log_lines_lost.load(Relaxed)
    }
}

impl ServiceMeters {
    /// Counts a panic, also as a failed run.
    pub(crate) fn panicked(&self) {
        self.panics.fetch_add(1, Relaxed);
        self.failures_in_a_row.fetch_add(1, Relaxed);
        self.panics_in_a_row.fetch_add(1, Relaxed);
    }

    /// The service reported the failure itself, so it has not panicked. Returns how many times in a row it
    /// has failed.
    pub(crate) fn failed(&self) -> u64 {
        self.failures.fetch_add(1, Relaxed);
        self.panics_in_a_row.store(0, Relaxed);
        self.failures_in_a_row.fetch_add(1, Relaxed) + 1
    }

    /// Answers how many times in a row it had failed.
    pub(crate) fn recovered(&self) -> u64 {
        self.panics_in_a_row.store(0, Relaxed);
        self.failures_in_a_row.swap(0, Relaxed)
    }
}

impl Meters {
    pub(crate) fn queue(&self, key: &QueueKey) -> Arc<QueueMeters> {
        if let Some(queue) = self.queues.read().get(key) {
            return Arc::clone(queue);
        }
        let mut queues = self.queues.write();
        let with = (queues.len() >= QUEUES_REPORTED_SEPARATELY).then_some(&self.together);
        let new = || Arc::new(QueueMeters { outcomes: OutcomeMeters::new(with), ..QueueMeters::default() });
        Arc::clone(queues.entry(Arc::new(key.clone())).or_insert_with(new))
    }

    pub(crate) fn service(&self, name: &'static str) -> Arc<ServiceMeters> {
        let meters = Arc::new(ServiceMeters {
            name,
            runs: AtomicU64::default(),
            failures: AtomicU64::default(),
            panics: AtomicU64::default(),
            handled: AtomicU64::default(),
            failures_in_a_row: AtomicU64::default(),
            panics_in_a_row: AtomicU64::default(),
            succeeded_at: AtomicI64::default(),
        });
        self.services.lock().push(Arc::clone(&meters));
        meters
    }

    pub(crate) fn succeeded(&self, count: usize) {
        add(&self.succeeded, count);
    }
    pub(crate) fn preloaded(&self, count: usize) {
        add(&self.preloaded, count);
    }
    pub(crate) fn swept(&self, count: usize) {
        add(&self.swept, count);
    }
    pub(crate) fn leases_ended(&self, count: usize) {
        add(&self.leases_ended, count);
    }
    pub(crate) fn terms_gained(&self, count: usize) {
        add(&self.terms_gained, count);
    }
    pub(crate) fn terms_lost(&self, count: usize) {
        add(&self.terms_lost, count);
    }
    pub(crate) fn offered_again(&self, count: usize) {
        add(&self.offered_again, count);
    }
    pub(crate) fn publish_failures(&self, count: usize) {
        add(&self.publish_failures, count);
    }
    pub(crate) fn compensated(&self, count: usize) {
        add(&self.compensated, count);
    }
    pub(crate) fn terms_raised(&self, count: usize) {
        add(&self.terms_raised, count);
    }
    pub(crate) fn identity_conflict(&self) {
        add(&self.identity_conflicts, 1);
    }

    pub(crate) fn rebuilt(&self, count: usize) {
        add(&self.rebuilt, count);
    }
    pub(crate) fn fired_from_store(&self, count: usize) {
        add(&self.fired_from_store, count);
    }

    pub(crate) fn queues_held(&self) -> usize {
        self.queues.read().len()
    }

    /// Removes queues whose counts have not changed for this long, and that no caller holds.
    pub(crate) fn forget_idle(&self, now: Millis, for_ms: i64) {
        let mut queues = self.queues.write();
        queues.retain(|_, queue| Arc::strong_count(queue) > 1 || !queue.is_idle(now, for_ms));
        queues.shrink_to_fit();
    }

    /// Sets the lateness budgets of the queues.
    pub(crate) fn set_budgets<'q>(&self, budgets: impl Iterator<Item = (&'q QueueKey, Option<i64>)>) {
        self.queues.read().values().for_each(|queue| queue.set_budget(None));
        budgets.filter(|budget| budget.1.is_some()).for_each(|(queue, ms)| self.queue(queue).set_budget(ms));
    }

    /// Sorted by queue.
    #[must_use]
    pub fn queues(&self) -> Vec<QueueNumbers> {
        let mut all: Vec<_> =
            self.queues.read().iter().map(|(key, queue)| queue.numbers(Arc::clone(key))).collect();
        all.sort_by(|a, b| a.queue.cmp(&b.queue));
        all
    }

    /// Returns `None` if nothing was counted of the queue, or if the queue was idle for so long that its counts were
    /// removed.
    #[must_use]
    pub fn queue_numbers(&self, key: &QueueKey) -> Option<QueueNumbers> {
        let queues = self.queues.read();
        queues.get_key_value(key).map(|(key, meters)| meters.numbers(Arc::clone(key)))
    }

    #[must_use]
    pub fn services(&self) -> Vec<ServiceNumbers> {
        let numbers = |meters: &Arc<ServiceMeters>| ServiceNumbers {
            name: meters.name,
            runs: meters.runs.load(Relaxed),
            failures: meters.failures.load(Relaxed),
            panics: meters.panics.load(Relaxed),
            handled: meters.handled.load(Relaxed),
            failures_in_a_row: meters.failures_in_a_row.load(Relaxed),
            panics_in_a_row: meters.panics_in_a_row.load(Relaxed),
            succeeded_at: Some(Millis(meters.succeeded_at.load(Relaxed))).filter(|at| at.0 > 0),
        };
        self.services.lock().iter().map(numbers).collect()
    }

    /// Rows that had the id of a run or a node and were not made by it.
    #[must_use]
    pub fn identity_conflicts_total(&self) -> u64 {
        self.identity_conflicts.load(Relaxed)
    }

    /// Outcomes "succeeded" accepted.
    #[must_use]
    pub fn succeeded_total(&self) -> u64 {
        self.succeeded.load(Relaxed)
    }
    /// Tasks brought into the hot set by the preloader.
    #[must_use]
    pub fn preloaded_total(&self) -> u64 {
        self.preloaded.load(Relaxed)
    }
    /// Tasks that only the refill found: each is a repaired crash or failure.
    #[must_use]
    pub fn swept_total(&self) -> u64 {
        self.swept.load(Relaxed)
    }
    #[must_use]
    pub fn leases_ended_total(&self) -> u64 {
        self.leases_ended.load(Relaxed)
    }
    /// Partitions taken over: at the start, from an engine that died or stopped, or because the shares
    /// changed.
    #[must_use]
    pub fn terms_gained_total(&self) -> u64 {
        self.terms_gained.load(Relaxed)
    }
    /// The number of partitions that another engine acquired while this one considered them its own, or whose lease
    /// ended unrenewed: each is a pause of seconds, or an unavailable ownership back end.
    #[must_use]
    pub fn terms_lost_total(&self) -> u64 {
        self.terms_lost.load(Relaxed)
    }
    /// Fired tasks that no executor had when their partition was taken over.
    #[must_use]
    pub fn offered_again_total(&self) -> u64 {
        self.offered_again.load(Relaxed)
    }
    /// Messages that the bus did not accept or confirm; each try counts.
    #[must_use]
    pub fn publish_failures_total(&self) -> u64 {
        self.publish_failures.load(Relaxed)
    }
    /// Partitions that were filled again because the hot set had lost them, or had been unavailable.
    #[must_use]
    pub fn rebuilt_total(&self) -> u64 {
        self.rebuilt.load(Relaxed)
    }
    /// AdmissionRules raised because the hot set had seen newer ones than the store gives.
    #[must_use]
    pub fn terms_raised_total(&self) -> u64 {
        self.terms_raised.load(Relaxed)
    }
    /// Tasks fired without the hot set, because it was unavailable or full, or their queue is scanned.
    #[must_use]
    pub fn fired_from_store_total(&self) -> u64 {
        self.fired_from_store.load(Relaxed)
    }
    /// Unsent tasks that the compensator retried; each time counts.
    #[must_use]
    pub fn compensated_total(&self) -> u64 {
        self.compensated.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::name::Name;

    #[test]
    fn queues_beyond_those_that_are_told_apart_share_a_histogram() {
        let meters = Meters::default();
        let name = |nth: usize| Name::new(&format!("q{nth}")).unwrap();
        let queue = |nth| QueueKey { namespace: Name::default_namespace(), queue: name(nth) };
        (0..QUEUES_REPORTED_SEPARATELY + 2).for_each(|nth| drop(meters.queue(&queue(nth))));
        let together = |numbers: Vec<QueueNumbers>| {
            let their = numbers.into_iter().filter(|count| count.outcomes.shares_histogram);
            their.map(|their| their.queue.queue.as_str().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(together(meters.queues()), ["q1000", "q1001"]);
        // New queues get their own histogram after others were forgotten.
        meters.forget_idle(Millis(1), 0);
        meters.forget_idle(Millis(2), 0);
        drop(meters.queue(&queue(7_000)));
        assert_eq!(together(meters.queues()), [""; 0]);
    }

    #[test]
    fn a_queue_has_the_default_budget_until_another_is_set_and_none_where_it_is_0() {
        let meters = QueueMeters::default();
        let over = || meters.over_budget.load(Relaxed);
        meters.fired(&[0, LATENESS_BUDGET_MS]);
        assert_eq!(over(), 0);
        meters.fired(&[LATENESS_BUDGET_MS + 1]);
        assert_eq!(over(), 1);
        meters.set_budget(Some(250));
        meters.fired(&[250, 251]);
        assert_eq!(over(), 2);
        meters.set_budget(Some(0));
        meters.fired(&[1_000_000]);
        assert_eq!(over(), 2);
        meters.set_budget(None);
        meters.fired(&[1_000_000]);
        assert_eq!(over(), 3);
    }
}
