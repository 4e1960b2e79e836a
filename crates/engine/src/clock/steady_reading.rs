//! The age of an event, for decisions that expire soon. After a suspend, or a jump of the wall clock, the age is
//! unknown and counts as too long. Must not be stored.

use punctual_domain::time::Millis;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) struct SteadyReading {
    /// The reading of the engine's steady clock.
    at: Duration,
    discontinuities: u64,
}

/// The present, on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CurrentTime {
    pub(crate) now: Millis,
    /// The reading of the engine's steady clock.
    pub(crate) steady: Duration,
    pub(crate) discontinuities: u64,
}

impl CurrentTime {
    pub(crate) const fn steady_reading(self) -> SteadyReading {
        SteadyReading { at: self.steady, discontinuities: self.discontinuities }
    }
}

impl SteadyReading {
    #[cfg(test)]
    pub(crate) const fn of_test() -> Self {
        Self { at: Duration::ZERO, discontinuities: 0 }
    }

    /// The maximum age.
    pub(crate) fn age(&self, current_time: CurrentTime) -> Duration {
        if self.discontinuities == current_time.discontinuities {
            current_time.steady.saturating_sub(self.at)
        } else {
            Duration::MAX
        }
    }
}
