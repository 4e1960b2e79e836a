//! The only way to read the time, and an engine's knowledge of its quality.

use punctual_domain::time::Millis;
use std::{fmt, time::Duration};

/// A wall clock. It may jump in both directions (an operator, NTP, a suspended machine): readers re-read it at
/// every step and never keep a difference of two readings.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The current millisecond: the instant, rounded down. A task whose `due_at` is at most this is due.
    fn now(&self) -> Millis;

    /// The time until `at` begins; zero if it has begun. Finer than a millisecond, for callers that sleep until then.
    fn until(&self, at: Millis) -> Duration;

    /// The watcher of this clock. `None` if the clock is taken as it is.
    fn trust(&self) -> Option<&dyn Trust> {
        None
    }
}

/// A clock that follows its machine's wall clock only while other clocks agree.
pub trait Trust: Send + Sync + fmt::Debug {
    /// Runs evenly from some instant, even through a suspend, whatever happens to the wall clock.
    fn steady(&self) -> Duration;

    /// The clock shared by all engines of a store showed `theirs` at some instant since `asked`, on the
    /// steady clock.
    fn observe(&self, theirs: Millis, asked: Duration);

    /// The number of times that time may have passed unnoticed: a suspend, a jump of the wall clock, or a second in
    /// which this process was stopped. Compares the clocks itself: between two readings of the same number there was
    /// no such event.
    fn discontinuities(&self) -> u64;

    fn status(&self) -> ClockStatus;
}

/// The quality of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockStatus {
    /// The wall clock is not followed at present.
    pub is_doubtful: bool,
    /// The time by which the wall clock is ahead of the time in use.
    pub wall_ahead_ms: i64,
    /// The time by which the shared clock is ahead of the time in use. `None` if it has not answered.
    pub keeper_ahead_ms: Option<i64>,
    /// True if the shared clock has jumped relative to clocks that agree with each other. It is not used then.
    pub is_keeper_doubtful: bool,
    /// The number of times that the time was set, forward or back, after the wall clock.
    pub steps: u64,
    pub discontinuities: u64,
}
