//! A clock that stands still until a test moves it, in either direction. Never looks at the real time.

use punctual_contract::Clock;
use punctual_domain::time::Millis;
use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::SeqCst},
    },
    time::Duration,
};

const MICROS_PER_MS: i64 = 1_000;

/// Its clones are the same clock.
#[derive(Clone, Debug)]
pub struct ManualClock {
    /// Since the epoch: finer than `now`, so that a test can stand between two milliseconds.
    micros: Arc<AtomicI64>,
}

impl ManualClock {
    #[must_use]
    pub fn at(now: Millis) -> Self {
        let it = Self { micros: Arc::default() };
        it.set(now);
        it
    }

    pub fn set(&self, now: Millis) {
        self.micros.store(now.0.saturating_mul(MICROS_PER_MS), SeqCst);
    }

    pub fn advance(&self, by: Duration) {
        self.micros.fetch_add(micros(by), SeqCst);
    }

    pub fn advance_ms(&self, ms: u64) {
        self.advance(Duration::from_millis(ms));
    }

    /// As when an operator or NTP corrects a clock that was fast.
    pub fn go_back(&self, by: Duration) {
        self.micros.fetch_sub(micros(by), SeqCst);
    }
}

fn micros(it: Duration) -> i64 {
    i64::try_from(it.as_micros()).expect("tests move a clock by less than 292,000 years")
}

impl Clock for ManualClock {
    fn now(&self) -> Millis {
        Millis(self.micros.load(SeqCst).div_euclid(MICROS_PER_MS))
    }

    fn until(&self, at: Millis) -> Duration {
        let left = at.0.saturating_mul(MICROS_PER_MS).saturating_sub(self.micros.load(SeqCst));
        Duration::from_micros(u64::try_from(left).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rounds_down_and_waits_exactly() {
        let clock = ManualClock::at(Millis(5));
        clock.advance(Duration::from_micros(999));
        assert_eq!((clock.now(), clock.until(Millis(6))), (Millis(5), Duration::from_micros(1)));
        clock.advance(Duration::from_micros(1));
        assert_eq!((clock.now(), clock.until(Millis(6))), (Millis(6), Duration::ZERO));
    }

    #[test]
    fn it_jumps_in_both_directions_and_its_clones_are_the_same_clock() {
        let clock = ManualClock::at(Millis(5_000));
        let other = clock.clone();
        clock.advance_ms(1_000);
        assert_eq!(other.now(), Millis(6_000));
        other.go_back(Duration::from_millis(2_000));
        assert_eq!((clock.now(), clock.until(Millis(5_000))), (Millis(4_000), Duration::from_secs(1)));
        clock.set(Millis(1));
        clock.go_back(Duration::from_millis(3));
        assert_eq!(clock.now(), Millis(-2), "also before the epoch");
    }
}
