//! The delay before the next try: exponential, with jitter, so that the clients of a restarted server do not return
//! in step. The module reads no clock; the caller sleeps.

use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    tries: u32,
}

impl Backoff {
    pub(crate) const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, tries: 0 }
    }

    /// The next wait: between half of the full wait and all of it.
    pub(crate) fn next(&mut self) -> Duration {
        let full = self.first.saturating_mul(1 << self.tries.min(20)).min(self.longest);
        self.tries = self.tries.saturating_add(1);
        full.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    pub(crate) fn reset(&mut self) {
        self.tries = 0;
    }

    /// Tries since the last reset.
    pub(crate) fn tries(&self) -> u32 {
        self.tries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_begin_anew_after_a_reset() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        for full_ms in [100, 200, 400, 800, 1_000, 1_000] {
            let wait = backoff.next();
            assert!(
                wait <= Duration::from_millis(full_ms) && wait >= Duration::from_millis(full_ms / 2),
                "{wait:?}"
            );
        }
        backoff.reset();
        assert!(backoff.next() <= Duration::from_millis(100));
    }

    #[test]
    fn a_thousand_tries_do_not_overflow() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));
        assert!((0..1_000).all(|_| backoff.next() <= Duration::from_secs(10)));
    }
}
