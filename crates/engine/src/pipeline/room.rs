//! The free capacity of the hot set, and so the horizon up to which it is filled. When it is nearly full, only tasks
//! due soon are loaded; the rest waits in the store. Removes nothing: tasks in the hot set fire from there.

pub(crate) mod state;

use crate::{core::Core, options::STEP_LIMIT};
use punctual_contract::Error;
use std::sync::atomic::Ordering::Relaxed;

/// Reads how full the hot set is. If room is short, tasks beyond the shortened horizon may be missing from
/// now on: they are preloaded again when there is room. Loaded entries stay.
pub(crate) async fn look(core: &Core) -> Result<(), Error> {
    core.filling.room.loaded.store(0, Relaxed);
    if core.filling.room.learn(core.hot.fullness().await?) {
        let until = core.now().plus(core.filling.room.horizon_ms(core.options.horizon_ms));
        core.owned().for_each(|partition| core.holdings.cap_frontier(partition, until));
    }
    Ok(())
}

/// Counts loaded entries, and checks the room after every thousand, so that many inserts do not fill the hot
/// set between two runs of the preloader.
pub(crate) async fn loaded(core: &Core, count: usize) {
    if core.filling.room.loaded.fetch_add(count, Relaxed) + count >= STEP_LIMIT
        && let Err(error) = look(core).await
    {
        tracing::debug!(%error, "how full the hot set is will be seen later");
    }
}
