//! Of each queue, where its executors wait. Asks nobody for tasks.

use super::state::Arrival;
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use punctual_domain::{name::QueueKey, time::Millis};
use std::sync::Arc;

#[derive(Debug, Default)]
pub(crate) struct Arrivals(Mutex<HashMap<Arc<QueueKey>, Arc<Arrival>>>);

impl Arrivals {
    pub(crate) fn of(&self, queue: &Arc<QueueKey>) -> Arc<Arrival> {
        Arc::clone(self.0.lock().entry(Arc::clone(queue)).or_default())
    }

    pub(crate) fn waiting(&self, queue: &QueueKey) -> usize {
        self.0.lock().get(queue).map_or(0, |arrival| arrival.waiting())
    }

    /// Those that executors wait for here, or have asked for since an instant.
    pub(crate) fn asked_for(&self, since: Millis) -> HashSet<Arc<QueueKey>> {
        let arrivals = self.0.lock();
        let asked_for = arrivals.iter().filter(|(_, arrival)| arrival.is_asked_since(since));
        asked_for.map(|(queue, _)| Arc::clone(queue)).collect()
    }

    /// Also where all are busy: who comes back looks at the line first.
    pub(crate) fn wake_one(&self, queue: &QueueKey) {
        let arrival = self.0.lock().get(queue).map(Arc::clone);
        arrival.iter().for_each(|arrival| arrival.wake_one());
    }

    /// One who waits for each queue.
    pub(crate) fn wake_each(&self) {
        let arrivals = self.0.lock();
        arrivals.values().filter(|arrival| arrival.waiting() > 0).for_each(|arrival| arrival.wake_one());
    }

    pub(crate) fn wake_all(&self) {
        self.each(Arrival::wake_all);
    }

    pub(crate) fn each(&self, all: impl Fn(&Arrival)) {
        self.0.lock().values().for_each(|arrival| all(arrival));
    }

    /// Where nobody waits, nothing lies, and nobody has asked since: nobody else has it in hand either.
    pub(crate) fn forget(&self, before: Millis) {
        let is_in_use = |arrival: &Arc<Arrival>| {
            Arc::strong_count(arrival) > 1 || arrival.is_asked_since(before) || arrival.has_some_here()
        };
        let mut arrivals = self.0.lock();
        arrivals.retain(|_, arrival| is_in_use(arrival));
        arrivals.shrink_to_fit();
    }

    pub(crate) fn queues_held(&self) -> usize {
        self.0.lock().len()
    }
}
