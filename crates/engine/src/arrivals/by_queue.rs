//! The waiting executors of each queue. The module delivers no tasks itself.

use super::state::QueueWaiters;
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use punctual_domain::{name::QueueKey, time::Millis};
use std::sync::Arc;

#[derive(Debug, Default)]
pub(crate) struct Arrivals(Mutex<HashMap<Arc<QueueKey>, Arc<QueueWaiters>>>);

impl Arrivals {
    pub(crate) fn of(&self, queue: &Arc<QueueKey>) -> Arc<QueueWaiters> {
        Arc::clone(self.0.lock().entry(Arc::clone(queue)).or_default())
    }

    pub(crate) fn waiting(&self, queue: &QueueKey) -> usize {
        self.0.lock().get(queue).map_or(0, |waiters| waiters.waiting())
    }

    /// Queues for which executors wait here, or from which executors requested tasks since an instant.
    pub(crate) fn asked_for(&self, since: Millis) -> HashSet<Arc<QueueKey>> {
        let arrivals = self.0.lock();
        let asked_for = arrivals.iter().filter(|(_, waiters)| waiters.is_asked_since(since));
        asked_for.map(|(queue, _)| Arc::clone(queue)).collect()
    }

    /// Wakes one waiting executor. The call is needed even if all executors are busy: one that returns checks the
    /// line first.
    pub(crate) fn wake_one(&self, queue: &QueueKey) {
        let waiters = self.0.lock().get(queue).map(Arc::clone);
        waiters.iter().for_each(|waiters| waiters.wake_one());
    }

    /// Wakes one waiter of each queue.
    pub(crate) fn wake_each(&self) {
        let arrivals = self.0.lock();
        arrivals.values().filter(|waiters| waiters.waiting() > 0).for_each(|waiters| waiters.wake_one());
    }

    pub(crate) fn wake_all(&self) {
        self.each(QueueWaiters::wake_all);
    }

    pub(crate) fn each(&self, all: impl Fn(&QueueWaiters)) {
        self.0.lock().values().for_each(|waiters| all(waiters));
    }

    /// Removes queues without waiters, without preleased tasks, and without a request since then. No executor has
    /// tasks of them.
    pub(crate) fn forget(&self, before: Millis) {
        let is_in_use = |waiters: &Arc<QueueWaiters>| {
            Arc::strong_count(waiters) > 1 || waiters.is_asked_since(before) || waiters.has_some_here()
        };
        let mut arrivals = self.0.lock();
        arrivals.retain(|_, waiters| is_in_use(waiters));
        arrivals.shrink_to_fit();
    }

    pub(crate) fn queues_held(&self) -> usize {
        self.0.lock().len()
    }
}
