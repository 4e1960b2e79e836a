//! How much room the hot set has, and so how far ahead it is filled. Near its bound only what is due soon goes in, and
//! the rest waits in the store, which has room. Throws nothing out: what is in fires from there.

use crate::{core::Core, options::STEP_LIMIT};
use punctual_contract::Error;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};

/// From here on, in thousandths, only what is due within `NEARER_MS` is loaded: the rest of the room is for that.
const SHORT_AT: u32 = 800;
/// Below this the horizon is whole again. Between the two it stays as it is: each change scans the horizon anew.
const LONG_AT: u32 = 700;
/// The horizon of a hot set that is short of room: several periods of the preloader.
const NEARER_MS: i64 = 30_000;

#[derive(Debug, Default)]
pub(crate) struct Room {
    fullness: AtomicU32,
    is_short: AtomicBool,
    /// Entries that this engine has put in since it last looked.
    loaded: AtomicUsize,
}

impl Room {
    /// In thousandths, as it was when last looked at.
    pub(crate) fn fullness(&self) -> u32 {
        self.fullness.load(Relaxed)
    }

    pub(crate) fn is_short(&self) -> bool {
        self.is_short.load(Relaxed)
    }

    /// How far ahead the hot set is filled at present.
    pub(crate) fn horizon_ms(&self, whole_ms: i64) -> i64 {
        if self.is_short() { whole_ms.min(NEARER_MS) } else { whole_ms }
    }

    fn learn(&self, fullness: u32) -> bool {
        self.fullness.store(fullness, Relaxed);
        let is_short = fullness >= if self.is_short() { LONG_AT } else { SHORT_AT };
        if self.is_short.swap(is_short, Relaxed) != is_short {
            tracing::info!(fullness, is_short, "the horizon of the hot set has changed");
        }
        is_short
    }
}

/// Looks how full it is now. Where room is short, what lies further ahead than the horizon reaches may be missing from
/// now on: it is preloaded again when there is room. What is there already stays.
pub(crate) async fn look(core: &Core) -> Result<(), Error> {
    core.room.loaded.store(0, Relaxed);
    if core.room.learn(core.hot.fullness().await?) {
        let until = core.now().plus(core.room.horizon_ms(core.options.horizon_ms));
        core.owned().for_each(|it| core.holdings.cap_frontier(it, until));
    }
    Ok(())
}

/// So many entries were put in: looks each time that a thousand were, so that many inserts do not fill it between two
/// looks of the preloader.
pub(crate) async fn loaded(core: &Core, count: usize) {
    if core.room.loaded.fetch_add(count, Relaxed) + count >= STEP_LIMIT
        && let Err(error) = look(core).await
    {
        tracing::debug!(%error, "how full the hot set is will be seen later");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_horizon_shrinks_when_room_is_short_and_does_not_flicker() {
        let it = Room::default();
        let mut horizons = Vec::new();
        for fullness in [799, 800, 799, 700, 699, 799, 2_000] {
            it.learn(fullness);
            horizons.push(it.horizon_ms(3_600_000));
        }
        let (long, short) = (3_600_000, NEARER_MS);
        assert_eq!(horizons, [long, short, short, short, long, long, short]);
        assert_eq!((it.fullness(), it.horizon_ms(10_000)), (2_000, 10_000), "never longer than it was set");
    }
}
