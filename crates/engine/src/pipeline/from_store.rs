//! What comes from the store where the hot set does not answer or there is none: the source is said here (`state`), and what other
//! engines have fired and not handed over is looked for in the store (`others`), page by page (`scanned`). Must not fire anything.

mod belief;
pub(crate) mod others;
mod patient;
pub(crate) mod scanned;
pub(crate) mod state;

use crate::core::Core;
use punctual_contract::{Error, hot::HotEntry};
use state::DueSource;

/// What fills the hot set or drains it, and has nothing to do while tasks come from the store: what a hot set that is unavailable misses is
/// brought to it when it is back.
pub(crate) async fn with_hot_set(
    core: &Core,
    work: impl Future<Output = Result<usize, Error>>,
) -> Result<usize, Error> {
    match core.from_store.source() {
        DueSource::HotSet => work.await,
        DueSource::Store => Ok(0),
    }
}

/// Fired while the hot set was unavailable, and counted as such.
pub(crate) fn count_fired<'e>(core: &Core, fired: impl Iterator<Item = &'e HotEntry>) {
    if core.from_store.is_away() {
        core.meters.fired_from_store(fired.count());
    }
}
