//! How long ago something was, for what must not be relied on for long: after a suspend, or a jump of the wall clock,
//! nobody knows how long that is, and it was too long ago. Must not be stored.

use punctual_domain::time::Millis;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// On the engine's steady clock.
    at: Duration,
    breaks: u64,
}

/// Where time stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Present {
    pub(crate) now: Millis,
    /// On the engine's steady clock.
    pub(crate) steady: Duration,
    pub(crate) breaks: u64,
}

impl Present {
    pub(crate) const fn moment(self) -> Moment {
        Moment { at: self.steady, breaks: self.breaks }
    }
}

impl Moment {
    #[cfg(test)]
    pub(crate) const fn of_test() -> Self {
        Self { at: Duration::ZERO, breaks: 0 }
    }

    /// At the most.
    pub(crate) fn age(&self, present: Present) -> Duration {
        if self.breaks == present.breaks { present.steady.saturating_sub(self.at) } else { Duration::MAX }
    }
}
