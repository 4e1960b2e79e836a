//! Takes over a partition, whose last owner may have died at any point. Refills it from the store: all
//! overdue tasks, and those due so soon that the last owner may have had them in its table. Can be repeated
//! from the beginning at any time; until it ends, the partition's other services work nevertheless.

use crate::{
    core::Core,
    parts,
    pipeline::{drain, fire, preload, store_fallback},
    sharing::terms,
};
use futures_util::{StreamExt as _, stream};
use punctual_contract::{Error, hot::Wholeness, ownership::Tenure};
use std::sync::Arc;

/// The number of partitions that are acquired concurrently.
const AT_ONCE: usize = 8;
/// Returns the number of acquired partitions. A failing one does not stop the others, and is tried again.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    store_fallback::with_hot_set(core, parts::each(core, "adopt", parts::PATIENCE, run_in)).await
}

async fn run_in(core: Arc<Core>, part: usize) -> Result<usize, Error> {
    let core = &core;
    let mut new = core.holdings.new_ones();
    new.retain(|tenure| parts::is_in(core, part, tenure.partition));
    let looks = new.into_iter().map(|tenure| async move {
        let is_through = look_through(core, tenure).await?;
        if is_through {
            core.holdings.looked_through(tenure);
        }
        Ok(usize::from(is_through))
    });
    let results: Vec<Result<usize, Error>> = stream::iter(looks).buffer_unordered(AT_ONCE).collect().await;
    if results.iter().any(Result::is_ok) {
        core.filling.preload.notify_one();
    }
    results.into_iter().sum()
}

/// False if the hot set refuses this term.
async fn look_through(core: &Arc<Core>, tenure: Tenure) -> Result<bool, Error> {
    // Later losses are noticed.
    if let [Wholeness::NewerTerm(newest)] = *core.hot.is_whole(&[tenure]).await? {
        terms::superseded(core, tenure, newest);
        return Ok(false);
    }
    // From now on the last owner drains nothing: the tasks in its table are in the store.
    drain::drain_in(core, &[tenure.partition]).await?;
    preload::load_near(core, tenure.partition, core.now()).await?;
    fire::fire_all(core).await;
    Ok(true)
}
