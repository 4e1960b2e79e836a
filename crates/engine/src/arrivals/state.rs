//! Executors that wait for the tasks of one queue, and the tasks preleased for them. Asks no executor for
//! tasks.

use super::preleased_tasks::PreleasedTasks;
pub(crate) use super::preleased_tasks::{Given, Preleased};
use crate::clock::CurrentTime;
use parking_lot::Mutex;
use punctual_contract::{hot::HotEntry, store::Assignment};
use punctual_domain::time::Millis;
use std::{
    collections::VecDeque,
    sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::SeqCst},
    time::Duration,
};
use tokio::sync::{Notify, futures::Notified, oneshot};

#[derive(Debug, Default)]
pub(crate) struct QueueWaiters {
    pub(super) something: Notify,
    pub(super) waiting: AtomicUsize,
    /// One of the waiters polls for all of them.
    pub(super) has_poller: AtomicBool,
    /// The instant of the last request of an executor for tasks.
    asked_at: AtomicI64,
    pub(super) registered: Mutex<RegisteredWaiters>,
}

/// Waiters that found no task, in the order of their registration.
#[derive(Debug, Default)]
pub(super) struct RegisteredWaiters {
    pub(super) idle: VecDeque<Idle>,
    pub(super) last: u64,
    pub(super) preleased_tasks: PreleasedTasks,
    lately: Lately,
    /// Nothing is preleased before this instant, because preleased tasks found no executor.
    back_off_until: Millis,
}

/// The maximum age of a preleased lease that is delivered. An older one is returned.
pub(crate) const GOOD_FOR: Duration = Duration::from_millis(300);

impl RegisteredWaiters {
    fn idle_places(&self) -> usize {
        self.idle.iter().map(|idle| idle.max).sum()
    }

    /// Returns the next preleased tasks. It does not deliver a task that was leased too long ago.
    fn take(&mut self, most: usize, current_time: CurrentTime) -> Vec<Preleased> {
        let leased = self.preleased_tasks.take(most, is_good(current_time));
        self.handed_over(leased.len(), current_time);
        leased
    }

    fn handed_over(&mut self, count: usize, current_time: CurrentTime) {
        if count > 0 {
            self.lately.turn(current_time.now);
            self.lately.now += count;
        }
    }

    /// Gives preleased tasks to the waiting executors.
    pub(super) fn give(&mut self, current_time: CurrentTime) {
        while !self.preleased_tasks.is_empty()
            && let Some(Idle { number, max, gives }) = self.idle.pop_front()
        {
            let leased = self.take(max, current_time);
            if leased.is_empty() {
                return self.idle.push_front(Idle { number, max, gives });
            }
            // This waiter is gone: the next one gets its tasks.
            if let Err(Given::Leased(back)) = gives.send(Given::Leased(leased)) {
                self.lately.now -= back.len();
                self.preleased_tasks.put(back);
            }
        }
    }
}

fn is_good(current_time: CurrentTime) -> impl Fn(&Preleased) -> bool {
    move |preleased| preleased.asked.age(current_time) <= GOOD_FOR
}

/// The number of tasks that were delivered in the present tenth of a second, and in the one before.
#[derive(Debug, Default)]
struct Lately {
    tenth: i64,
    now: usize,
    before: usize,
}

impl Lately {
    fn turn(&mut self, now: Millis) {
        let tenth = now.0.div_euclid(100);
        if tenth != self.tenth {
            self.before = if tenth == self.tenth + 1 { self.now } else { 0 };
            (self.tenth, self.now) = (tenth, 0);
        }
    }
}

#[derive(Debug)]
pub(super) struct Idle {
    pub(super) number: u64,
    /// The maximum number of tasks that the waiter accepts.
    pub(super) max: usize,
    pub(super) gives: oneshot::Sender<Given>,
}

impl QueueWaiters {
    /// A caller that asks counts as waiting until this is dropped.
    pub(crate) fn wait(&self, now: Millis) -> WaitingGuard<'_> {
        self.asked_at.fetch_max(now.0, SeqCst);
        self.waiting.fetch_add(1, SeqCst);
        WaitingGuard(self)
    }

    /// An executor waits, or has requested tasks since an instant: busy executors return.
    pub(crate) fn is_asked_since(&self, instant: Millis) -> bool {
        self.waiting() > 0 || self.asked_at.load(SeqCst) >= instant.0
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(SeqCst)
    }

    pub(crate) fn notified(&self) -> Notified<'_> {
        self.something.notified()
    }

    pub(crate) fn wake_one(&self) {
        self.something.notify_one();
    }

    pub(crate) fn wake_all(&self) {
        self.something.notify_waiters();
    }

    /// Gives fired tasks to the waiters, if there is room for all of them: else their order is for the line to find. Answers those that no executor has got.
    pub(crate) fn give(&self, mut entries: Vec<HotEntry>) -> Vec<HotEntry> {
        let mut registered = self.registered.lock();
        if registered.idle.iter().map(|idle| idle.max).sum::<usize>() < entries.len() {
            return entries;
        }
        while !entries.is_empty() {
            let Some(Idle { max, gives, .. }) = registered.idle.pop_front() else { break };
            let others = entries.split_off(max.min(entries.len()));
            entries = match gives.send(Given::Fired(entries)) {
                Ok(()) => others,
                // This waiter is gone: the next one gets its tasks.
                Err(Given::Fired(back)) => back.into_iter().chain(others).collect(),
                Err(Given::Leased(_)) => others,
            };
        }
        entries
    }

    /// Delivers preleased tasks to the waiters, and stores the rest for the next callers. Returns true if some are
    /// stored now.
    pub(crate) fn hand(&self, leased: Vec<Preleased>, current_time: CurrentTime) -> bool {
        let mut registered = self.registered.lock();
        registered.preleased_tasks.put(leased);
        registered.give(current_time);
        !registered.preleased_tasks.is_empty()
    }

    /// The next preleased tasks, for an executor that asks while no task in the line precedes them.
    pub(crate) fn take_leased(&self, most: usize, current_time: CurrentTime) -> Vec<Preleased> {
        self.registered.lock().take(most, current_time)
    }

    /// Removes the leases that were stored before an instant: no executor fetched them.
    pub(crate) fn take_old(&self, before: Millis, back_off_until: Millis) -> Vec<Assignment> {
        let mut registered = self.registered.lock();
        let old = registered.preleased_tasks.take_before(before);
        if !old.is_empty() {
            registered.back_off_until = back_off_until;
        }
        old.into_iter().map(|preleased| preleased.assignment).collect()
    }

    /// Resets instants in the future after the clock was set back.
    pub(crate) fn begin_anew(&self) {
        self.asked_at.store(i64::MIN, SeqCst);
        let mut registered = self.registered.lock();
        (registered.back_off_until, registered.lately) = (Millis::ZERO, Lately::default());
    }

    /// Some preleased tasks wait here.
    pub(crate) fn has_some_here(&self) -> bool {
        !self.registered.lock().preleased_tasks.is_empty()
    }

    /// The number of tasks that the waiters would accept.
    pub(crate) fn idle_places(&self) -> usize {
        self.registered.lock().idle_places()
    }

    /// The number of tasks that may be preleased: as many as the waiters accept, plus twice as many as were recently
    /// delivered, because that many are in transit at any time. Zero while no caller waits and they would overtake a
    /// task.
    pub(crate) fn room(&self, now: Millis, would_overtake: bool) -> usize {
        let mut registered = self.registered.lock();
        if now < registered.back_off_until || !registered.preleased_tasks.is_empty() {
            return 0;
        }
        let idle = registered.idle_places();
        if idle == 0 && would_overtake {
            return 0;
        }
        registered.lately.turn(now);
        let lately = registered.lately.now.max(registered.lately.before);
        2 * lately + idle
    }
}

#[derive(Debug)]
pub(crate) struct WaitingGuard<'a>(&'a QueueWaiters);

impl Drop for WaitingGuard<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::drain::tests::entry;

    fn registered(waiters: &QueueWaiters, sizes: &[usize]) -> Vec<oneshot::Receiver<Given>> {
        let register = |max: &usize| {
            let (gives, given) = oneshot::channel();
            waiters.registered.lock().idle.push_back(Idle { number: 0, max: *max, gives });
            given
        };
        sizes.iter().map(register).collect()
    }

    fn given(waiter: &mut oneshot::Receiver<Given>) -> usize {
        match waiter.try_recv() {
            Ok(Given::Fired(entries)) => entries.len(),
            Ok(Given::Leased(list)) => list.len(),
            Err(_) => 0,
        }
    }

    #[test]
    fn what_fires_goes_to_those_who_came_first_and_only_if_all_of_it_finds_a_place() {
        let (waiters, fired) =
            (QueueWaiters::default(), || (1..=3).map(|number| entry(number, number)).collect::<Vec<_>>());
        assert_eq!(waiters.give(fired()).len(), 3, "nobody waits");
        let mut two = registered(&waiters, &[1, 1]);
        assert_eq!(waiters.give(fired()).len(), 3, "no room for all");
        two.extend(registered(&waiters, &[5]));
        assert!(waiters.give(fired()).is_empty());
        assert_eq!(two.iter_mut().map(given).collect::<Vec<_>>(), [1, 1, 1]);
        assert_eq!(waiters.give(fired()).len(), 3, "they have something");
    }

    #[test]
    fn what_somebody_who_has_gone_does_not_take_goes_to_the_next() {
        let waiters = QueueWaiters::default();
        let mut all = registered(&waiters, &[2, 2, 1]);
        drop(all.remove(0));
        assert_eq!(waiters.give((1..=4).map(|number| entry(number, number)).collect()).len(), 1);
        assert_eq!(all.iter_mut().map(given).collect::<Vec<_>>(), [2, 1]);
    }
}
