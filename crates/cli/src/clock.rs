//! The clocks of this machine: the only place of the program that reads them.

use punctual_contract::Clock;
use punctual_domain::time::Millis;
use punctual_engine::{MachineClocks, Reading};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SystemClock;

impl SystemClock {
    /// The time since 1970; an earlier clock counts as 1970.
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

/// The clocks of which an engine's clock is made.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Machine;

/// A reading within which the thread was not stopped takes less than a microsecond.
const UNDISTURBED_NS: i64 = 20_000;
const READINGS_MAX: usize = 8;

/// Counts through a suspend; where the system has none, the one that does not.
#[cfg(target_os = "linux")]
const STEADY: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const STEADY: ClockId = ClockId::Monotonic;

fn since_boot_ns(clock: ClockId) -> i64 {
    let at = clock_gettime(clock);
    at.tv_sec.saturating_mul(1_000_000_000).saturating_add(at.tv_nsec)
}

fn wall_ns() -> i64 {
    i64::try_from(SystemClock::since_epoch().as_nanos()).unwrap_or(i64::MAX)
}

fn read_once() -> Reading {
    let began_ns = since_boot_ns(STEADY);
    let (wall_ns, awake_ns) = (wall_ns(), since_boot_ns(ClockId::Monotonic));
    let steady_ns = since_boot_ns(STEADY);
    Reading { wall_ns, steady_ns, awake_ns, spread_ns: steady_ns - began_ns }
}

impl MachineClocks for Machine {
    /// The closest of some readings: a thread that is stopped between two clocks would find them apart.
    fn read(&self) -> Reading {
        let mut closest = read_once();
        for _ in 1..READINGS_MAX {
            if closest.spread_ns <= UNDISTURBED_NS {
                break;
            }
            let other = read_once();
            if other.spread_ns < closest.spread_ns {
                closest = other;
            }
        }
        closest
    }

    fn glance(&self) -> (i64, i64) {
        let wall_ns = wall_ns();
        (wall_ns, since_boot_ns(STEADY))
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
    use punctual_engine::{TrustedClock, Witness};

    #[test]
    fn the_instant_is_rounded_down_and_the_wait_is_not() {
        let now = Duration::from_micros(5_000_250);
        assert_eq!(whole_ms(now), Millis(5_000));
        assert_eq!(until(now, Millis(5_001)), Duration::from_micros(750));
        assert_eq!(until(now, Millis(5_000)), Duration::ZERO);
        assert_eq!(until(now, Millis(-1)), Duration::ZERO);
    }

    #[test]
    fn the_engines_clock_shows_what_the_wall_clock_shows_and_never_more() {
        let clock = TrustedClock::new(Machine, Duration::from_millis(250), Witness::Nobody);
        for _ in 0..10_000 {
            let (before, shown, after) = (SystemClock.now(), clock.now(), SystemClock.now());
            assert!(shown <= after && shown.plus(2) >= before, "{before:?} {shown:?} {after:?}");
        }
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
