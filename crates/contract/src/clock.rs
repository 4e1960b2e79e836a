//! The only way to read the time.

use punctual_domain::time::Millis;
use std::{fmt, time::Duration};

/// A wall clock. It may jump in both directions (an operator, NTP, a suspended machine): readers re-read it at
/// every step and never keep a difference of two readings.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The millisecond that has begun: the instant, rounded down. A task whose `due_at` is at most this is due.
    fn now(&self) -> Millis;

    /// How long until `at` begins; zero when it has. Finer than a millisecond, for whoever sleeps until then.
    fn until(&self, at: Millis) -> Duration;
}
