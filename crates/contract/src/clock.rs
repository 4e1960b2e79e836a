//! The only way to read the time, and what an engine may know of how good that time is.

use punctual_domain::time::Millis;
use std::{fmt, time::Duration};

/// A wall clock. It may jump in both directions (an operator, NTP, a suspended machine): readers re-read it at
/// every step and never keep a difference of two readings.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The millisecond that has begun: the instant, rounded down. A task whose `due_at` is at most this is due.
    fn now(&self) -> Millis;

    /// How long until `at` begins; zero when it has. Finer than a millisecond, for whoever sleeps until then.
    fn until(&self, at: Millis) -> Duration;

    /// What watches over this time. None: nothing does, and it is taken as it is.
    fn trust(&self) -> Option<&dyn Trust> {
        None
    }
}

/// A clock that follows its machine's wall clock only while others agree with it.
pub trait Trust: Send + Sync + fmt::Debug {
    /// Goes on evenly from some instant, through a suspend too, whatever is done to the wall clock.
    fn steady(&self) -> Duration;

    /// The clock of those who share a store showed `theirs` at some instant since `asked`, on the steady clock.
    fn hear(&self, theirs: Millis, asked: Duration);

    /// How often time may have passed that was not noticed: a suspend, a jump of the wall clock, or a second in which this
    /// process was stopped. Compares the clocks itself: between two readings of the same number nothing of that kind lies.
    fn discontinuities(&self) -> u64;

    fn status(&self) -> ClockStatus;
}

/// How good the time is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockStatus {
    /// The wall clock is not followed at present.
    pub is_doubtful: bool,
    /// The wall clock is so far ahead of the time that is gone by.
    pub wall_ahead_ms: i64,
    /// The clock of those who share a store is so far ahead of it; None: it has not been heard.
    pub keeper_ahead_ms: Option<i64>,
    /// It has jumped away from clocks that agree with each other, and is not believed.
    pub is_keeper_doubtful: bool,
    /// How often the time was set, forward or back, after the wall clock.
    pub steps: u64,
    pub discontinuities: u64,
}
