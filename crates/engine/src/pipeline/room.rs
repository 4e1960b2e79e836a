//! How much room the hot set has, and so how far ahead it is filled. Near its bound only what is due soon goes in, and
//! the rest waits in the store, which has room. Throws nothing out: what is in fires from there.

pub(crate) mod state;

use crate::{core::Core, options::STEP_LIMIT};
use punctual_contract::Error;
use std::sync::atomic::Ordering::Relaxed;

/// Looks how full it is now. Where room is short, what lies further ahead than the horizon reaches may be missing from
/// now on: it is preloaded again when there is room. What is there already stays.
pub(crate) async fn look(core: &Core) -> Result<(), Error> {
    core.filling.room.loaded.store(0, Relaxed);
    if core.filling.room.learn(core.hot.fullness().await?) {
        let until = core.now().plus(core.filling.room.horizon_ms(core.options.horizon_ms));
        core.owned().for_each(|partition| core.holdings.cap_frontier(partition, until));
    }
    Ok(())
}

/// So many entries were put in: looks each time that a thousand were, so that many inserts do not fill it between two
/// looks of the preloader.
pub(crate) async fn loaded(core: &Core, count: usize) {
    if core.filling.room.loaded.fetch_add(count, Relaxed) + count >= STEP_LIMIT
        && let Err(error) = look(core).await
    {
        tracing::debug!(%error, "how full the hot set is will be seen later");
    }
}
