//! Whether this engine is fit to own partitions: the one place where every reason against it is asked. Only asks;
//! what follows is `own`'s. Must never wait for anything: it is asked at every sign of life.

pub(crate) mod state;

use crate::core::Core;
use state::Pulse;
use std::time::Duration;

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
    let stuck = |pulse: &Pulse, after| pulse.silent_for().is_some_and(|silent| silent > after);
    if stuck(core.firing.timer.pulse(), WHEEL_STUCK_AFTER) {
        return Some(Unfit::WheelStuck);
    }
    stuck(&core.health.firing, FIRING_STUCK_AFTER).then_some(Unfit::FiringStuck)
}
