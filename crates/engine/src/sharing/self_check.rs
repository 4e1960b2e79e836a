//! Checks that this engine is healthy enough to own partitions: the only place that checks every reason against it.
//! Only checks; `own` acts on the result. Must never wait for anything, because it runs at every heartbeat.

pub(crate) mod state;

use crate::core::Core;
use state::LivenessTick;
use std::time::Duration;

/// The time after which the wheel's thread counts as stuck. It sleeps for a tenth of a second at most.
const WHEEL_STUCK_AFTER: Duration = Duration::from_secs(3);
/// A round of takes waits for back ends, each with a time limit; a round that takes longer than this never
/// ends.
const FIRING_STUCK_AFTER: Duration = Duration::from_secs(40);

/// Why this engine should own no partition now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unhealthy {
    WheelStuck,
    FiringStuck,
    /// Only if another engine takes the partitions: `step_aside` checks that.
    ClockDoubtful,
}

impl Unhealthy {
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::WheelStuck => "the wheel's thread is stuck or has ended",
            Self::ClockDoubtful => "the wall clock of this machine disagrees with the others",
            Self::FiringStuck => "the firing service is stuck or has ended",
        }
    }
}

/// The first reason against owning partitions, or `None` if it is fit.
pub(crate) fn unhealthy(core: &Core) -> Option<Unhealthy> {
    let stuck = |tick: &LivenessTick, after| tick.silent_for().is_some_and(|silent| silent > after);
    if stuck(core.firing.timer.tick(), WHEEL_STUCK_AFTER) {
        return Some(Unhealthy::WheelStuck);
    }
    stuck(&core.health.firing, FIRING_STUCK_AFTER).then_some(Unhealthy::FiringStuck)
}
