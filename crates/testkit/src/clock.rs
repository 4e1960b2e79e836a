//! A clock that moves only when a test moves it, in either direction. Never reads the real time.

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

/// A clock that a test sets. Its clones are the same clock.
#[derive(Clone, Debug)]
pub struct ManualClock {
    /// Microseconds since the epoch: finer than `now`, so that a test can be between two milliseconds.
    micros: Arc<AtomicI64>,
}

impl ManualClock {
    #[must_use]
    pub fn at(now: Millis) -> Self {
        let clock = Self { micros: Arc::default() };
        clock.set(now);
        clock
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

    /// Sets the clock back, as when an operator or NTP corrects a clock that was fast.
    pub fn go_back(&self, by: Duration) {
        self.micros.fetch_sub(micros(by), SeqCst);
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).expect("tests move a clock by less than 292,000 years")
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
