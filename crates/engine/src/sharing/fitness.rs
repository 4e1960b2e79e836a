//! Whether this engine is fit to own partitions: the one place where every reason against it is asked. Only asks;
//! what follows is `own`'s. Must never wait for anything: it is asked at every sign of life.

use crate::core::Core;
use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};
use tokio::time::Instant;

/// The wheel's thread sleeps for a tenth of a second at most.
const WHEEL_STUCK_AFTER: Duration = Duration::from_secs(3);
/// A round of takes waits for back ends, each of which has a limit; beyond this the round does not end at all.
const FIRING_STUCK_AFTER: Duration = Duration::from_secs(40);

/// Why this engine should own nothing now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    WheelStuck,
    FiringStuck,
    /// Only where another engine takes the partitions: `step_aside` asks.
    ClockDoubtful,
}

impl Unfit {
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::WheelStuck => "the wheel's thread stands still or is gone",
            Self::ClockDoubtful => "the wall clock of this machine disagrees with the others",
            Self::FiringStuck => "the service that fires stands still or is gone",
        }
    }
}

/// The first reason against owning partitions; None: it is fit.
pub(crate) fn unfit(core: &Core) -> Option<Unfit> {
    let stuck = |pulse: &Pulse, after| pulse.silent_for().is_some_and(|it| it > after);
    if stuck(core.timer.pulse(), WHEEL_STUCK_AFTER) {
        return Some(Unfit::WheelStuck);
    }
    stuck(&core.firing, FIRING_STUCK_AFTER).then_some(Unfit::FiringStuck)
}

/// A sign of life of something that must not stand still. Without a first one nothing is missed: an engine that is
/// turned by hand has neither thread nor services.
#[derive(Debug)]
pub(crate) struct Pulse {
    since: Instant,
    /// Milliseconds after `since`, from 1 on; 0: never.
    last_ms: AtomicU64,
}

impl Default for Pulse {
    fn default() -> Self {
        Self { since: Instant::now(), last_ms: AtomicU64::new(0) }
    }
}

impl Pulse {
    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    pub(crate) fn beat(&self) {
        self.last_ms.store(self.elapsed_ms(), Relaxed);
    }

    /// None: it never beat.
    pub(crate) fn silent_for(&self) -> Option<Duration> {
        silence(self.last_ms.load(Relaxed), self.elapsed_ms())
    }
}

fn silence(last_ms: u64, now_ms: u64) -> Option<Duration> {
    (last_ms > 0).then(|| Duration::from_millis(now_ms.saturating_sub(last_ms)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_beat_is_not_missed_and_what_stopped_is() {
        let pulse = Pulse::default();
        assert_eq!(pulse.silent_for(), None);
        pulse.beat();
        assert!(pulse.silent_for().is_some());
        assert_eq!(silence(0, 60_000), None);
        assert_eq!(silence(1, 5_001), Some(Duration::from_secs(5)));
    }
}
