//! Of those who wait for one queue, the one that looks again for all of them: what it does not find, no
//! other would. With a look of each its own, thousands that wait with nothing would take the processor from those who
//! work. The others look much more rarely, in case this one hangs. Must never keep anybody from being given what fires.

use super::Arrival;
use std::sync::atomic::Ordering::SeqCst;

/// Until it is dropped; then another takes its place.
#[derive(Debug)]
pub(crate) struct Looker<'a>(&'a Arrival);

impl Arrival {
    /// Nothing while another looks for all.
    pub(crate) fn look_for_all(&self) -> Option<Looker<'_>> {
        // Not `then_some`: one that is not wanted would be dropped, and with it the place of the one who has it.
        (!self.has_looker.swap(true, SeqCst)).then(|| Looker(self))
    }
}

impl Drop for Looker<'_> {
    fn drop(&mut self) {
        self.0.has_looker.store(false, SeqCst);
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
        let arrival = Arrival::default();
        let (_one, _other) = (arrival.wait(Millis::ZERO), arrival.wait(Millis::ZERO));
        let mut woken = Box::pin(arrival.notified());
        let looker = arrival.look_for_all().unwrap();
        assert!(arrival.look_for_all().is_none());
        assert_eq!(woken.as_mut().now_or_never(), None);
        drop(looker);
        assert_eq!(woken.as_mut().now_or_never(), Some(()), "one is woken to take its place");
        assert!(arrival.look_for_all().is_some());
    }

    #[test]
    fn the_last_one_wakes_nobody() {
        let arrival = Arrival::default();
        let _one = arrival.wait(Millis::ZERO);
        drop(arrival.look_for_all());
        assert_eq!(Box::pin(arrival.notified()).now_or_never(), None);
    }
}
