//! The fill level of the hot set at the last check, and the resulting horizon. Does not read the hot set.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};

/// The fill level, in thousandths, from which only tasks due within `NEARER_MS` are loaded: the remaining capacity is
/// reserved for them.
const SHORT_AT: u32 = 800;
/// The fill level below which the horizon is complete again. Between the two it stays as it is: each change scans the
/// horizon anew.
const LONG_AT: u32 = 700;
/// The horizon of a hot set that is short of room: several periods of the preloader.
const NEARER_MS: i64 = 30_000;

#[derive(Debug, Default)]
pub(crate) struct Room {
    pub(super) fullness: AtomicU32,
    is_short: AtomicBool,
    /// Entries that this engine has loaded since its last check.
    pub(super) loaded: AtomicUsize,
}

impl Room {
    /// The fill level in thousandths, as of the last check.
    pub(crate) fn fullness(&self) -> u32 {
        self.fullness.load(Relaxed)
    }

    pub(crate) fn is_short(&self) -> bool {
        self.is_short.load(Relaxed)
    }

    /// The horizon up to which the hot set is filled at present.
    pub(crate) fn horizon_ms(&self, whole_ms: i64) -> i64 {
        if self.is_short() { whole_ms.min(NEARER_MS) } else { whole_ms }
    }

    pub(super) fn learn(&self, fullness: u32) -> bool {
        self.fullness.store(fullness, Relaxed);
        let is_short = fullness >= if self.is_short() { LONG_AT } else { SHORT_AT };
        if self.is_short.swap(is_short, Relaxed) != is_short {
            tracing::info!(fullness, is_short, "the horizon of the hot set has changed");
        }
        is_short
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_horizon_shrinks_when_room_is_short_and_does_not_flicker() {
        let room = Room::default();
        let mut horizons = Vec::new();
        for fullness in [799, 800, 799, 700, 699, 799, 2_000] {
            room.learn(fullness);
            horizons.push(room.horizon_ms(3_600_000));
        }
        let (long, short) = (3_600_000, NEARER_MS);
        assert_eq!(horizons, [long, short, short, short, long, long, short]);
        assert_eq!(
            (room.fullness(), room.horizon_ms(10_000)),
            (2_000, 10_000),
            "never longer than it was set"
        );
    }
}
