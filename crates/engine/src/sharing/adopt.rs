//! Takes over a partition: its last owner may have died at any point. Refills it from the store: all that is overdue, and what is
//! due so soon that it may have been in the last owner's table. Can be done again from the beginning at any time; until it is
//! through, the partition's other services work all the same.

use crate::{
    core::Core,
    parts,
    pipeline::{drain, fire, from_store, preload},
    sharing::terms,
};
use futures_util::{StreamExt as _, stream};
use punctual_contract::{Error, hot::Wholeness, ownership::Tenure};
use std::sync::Arc;

/// Partitions looked through side by side.
const AT_ONCE: usize = 8;
/// Partitions looked through. One that fails does not stop the others; it is looked at again.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    from_store::with_hot_set(core, parts::each(core, "adopt", parts::PATIENCE, run_in)).await
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

/// False: the hot set gives nothing to this term.
async fn look_through(core: &Arc<Core>, tenure: Tenure) -> Result<bool, Error> {
    // What is lost from now on is noticed.
    if let [Wholeness::NewerTerm(newest)] = *core.hot.is_whole(&[tenure]).await? {
        terms::superseded(core, tenure, newest);
        return Ok(false);
    }
    // From now on the last owner drains nothing: what it has in its table is in the store.
    drain::drain_in(core, &[tenure.partition]).await?;
    preload::load_near(core, tenure.partition, core.now()).await?;
    fire::fire_all(core).await;
    Ok(true)
}
