//! Of the waiters for one queue, the one that looks again for all of them: what it does not find, no
//! other would. With a look of each its own, thousands that wait with nothing would take the processor from those who
//! work. The others look much more rarely, in case this one hangs. Must never keep anybody from being given what fires.

use super::QueueWaiters;
use std::sync::atomic::Ordering::SeqCst;

/// Until it is dropped; then another takes its place.
#[derive(Debug)]
pub(crate) struct QueuePoller<'a>(&'a QueueWaiters);

impl QueueWaiters {
    /// Nothing while another looks for all.
    pub(crate) fn look_for_all(&self) -> Option<QueuePoller<'_>> {
        // Not `then_some`: one that is not wanted would be dropped, and with it the place of the one who has it.
        (!self.has_poller.swap(true, SeqCst)).then(|| QueuePoller(self))
    }
}

impl Drop for QueuePoller<'_> {
    fn drop(&mut self) {
        self.0.has_poller.store(false, SeqCst);
        // This one still counts as waiting.
        if self.0.waiting() > 1 {
            self.0.something.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use punctual_domain::time::Millis;

    #[test]
    fn one_looks_for_all_and_the_next_takes_its_place() {
        let waiters = QueueWaiters::default();
        let (_one, _other) = (waiters.wait(Millis::ZERO), waiters.wait(Millis::ZERO));
        let mut woken = Box::pin(waiters.notified());
        let poller = waiters.look_for_all().unwrap();
        assert!(waiters.look_for_all().is_none());
        assert_eq!(woken.as_mut().now_or_never(), None);
        drop(poller);
        assert_eq!(woken.as_mut().now_or_never(), Some(()), "one is woken to take its place");
        assert!(waiters.look_for_all().is_some());
    }

    #[test]
    fn the_last_one_wakes_nobody() {
        let waiters = QueueWaiters::default();
        let _one = waiters.wait(Millis::ZERO);
        drop(waiters.look_for_all());
        assert_eq!(Box::pin(waiters.notified()).now_or_never(), None);
    }
}
