//! How long ago something was, for what must not be relied on for long: after a suspend, or a jump of the wall clock,
//! nobody knows how long that is, and it was too long ago. Must not be stored.

use punctual_domain::time::Millis;
use std::time::Duration;
use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    instant: Instant,
    breaks: u64,
}

/// Where time stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Present {
    pub(crate) now: Millis,
    pub(crate) breaks: u64,
}

impl Moment {
    /// The present; `breaks`: those of time until now.
    pub(crate) fn now(breaks: u64) -> Self {
        Self { instant: Instant::now(), breaks }
    }

    #[cfg(test)]
    pub(crate) fn of_test() -> Self {
        Self::now(0)
    }

    /// At the most; `breaks`: those of the present.
    pub(crate) fn age(&self, breaks: u64) -> Duration {
        if self.breaks == breaks { self.instant.elapsed() } else { Duration::MAX }
    }
}
