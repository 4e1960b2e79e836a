//! Tasks from the store, when the hot set does not answer or there is none. `state` chooses the source;
//! `others` reads from the store what other engines have fired and not handed over, page by page (`scanned`).
//! Must not fire anything.

mod availability;
mod circuit_breaker;
pub(crate) mod others;
pub(crate) mod scanned;
pub(crate) mod state;

use crate::core::Core;
use punctual_contract::{Error, hot::HotEntry};
use state::DueSource;

/// Runs work that fills or drains the hot set; it has nothing to do while tasks are read from the store.
/// After an outage, the hot set is reloaded with the tasks that it missed.
pub(crate) async fn with_hot_set(
    core: &Core,
    work: impl Future<Output = Result<usize, Error>>,
) -> Result<usize, Error> {
    match core.store_fallback.source() {
        DueSource::HotSet => work.await,
        DueSource::Store => Ok(0),
    }
}

/// Fired while the hot set was unavailable, and counted as such.
pub(crate) fn count_fired<'e>(core: &Core, fired: impl Iterator<Item = &'e HotEntry>) {
    if core.store_fallback.is_away() {
        core.meters.fired_from_store(fired.count());
    }
}
