//! One of the waiters of a queue polls for all of them: no other waiter would find more. If each polled, thousands of
//! idle waiters would take the processor from the busy ones. The others poll much more rarely, in case the poller
//! hangs. Must never prevent a waiter from getting what fires.

use super::QueueWaiters;
use std::sync::atomic::Ordering::SeqCst;

/// The poller, until this is dropped; then another waiter takes over.
#[derive(Debug)]
pub(crate) struct QueuePoller<'a>(&'a QueueWaiters);

impl QueueWaiters {
    /// Returns `None` while another waiter polls.
    pub(crate) fn look_for_all(&self) -> Option<QueuePoller<'_>> {
        // Not `then_some`: that would build a second poller, and dropping it would unset the flag of the
        // first.
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
