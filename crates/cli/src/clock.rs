//! The wall clock of this machine: the only place of the whole program that reads it.

use punctual_contract::Clock;
use punctual_domain::time::Millis;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SystemClock;

impl SystemClock {
    /// Since 1970; a clock that stands before it counts as standing at it.
    #[expect(clippy::disallowed_methods, reason = "the composition root's clock is where the wall is read")]
    pub(crate) fn since_epoch() -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Millis {
        whole_ms(Self::since_epoch())
    }

    fn until(&self, at: Millis) -> Duration {
        until(Self::since_epoch(), at)
    }
}

fn whole_ms(since_epoch: Duration) -> Millis {
    Millis(i64::try_from(since_epoch.as_millis()).unwrap_or(Millis::MAX.0))
}

fn until(since_epoch: Duration, at: Millis) -> Duration {
    Duration::from_millis(u64::try_from(at.0).unwrap_or(0)).saturating_sub(since_epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instant_is_rounded_down_and_the_wait_is_not() {
        let now = Duration::from_micros(5_000_250);
        assert_eq!(whole_ms(now), Millis(5_000));
        assert_eq!(until(now, Millis(5_001)), Duration::from_micros(750));
        assert_eq!(until(now, Millis(5_000)), Duration::ZERO);
        assert_eq!(until(now, Millis(-1)), Duration::ZERO);
    }

    #[test]
    fn when_the_wait_for_an_instant_is_over_the_clock_shows_it() {
        let clock = SystemClock;
        let soon = clock.now().plus(2);
        while clock.until(soon) > Duration::ZERO {
            std::hint::spin_loop();
        }
        assert!(clock.now() >= soon);
    }
}
