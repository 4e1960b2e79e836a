//! Takes over a partition: its last owner may have died at any point. Looks at what is due soon in the store, and at
//! what fired in the hot set and was never handed over, and brings both to where they should be. Can be done again
//! from the beginning at any time; until it is through, the partition's other services work all the same.

use crate::{
    core::Core,
    options::STEP_LIMIT,
    parts,
    pipeline::{claim, fire, preload},
    sharing::terms,
};
use futures_util::{StreamExt as _, stream};
use hashbrown::HashSet;
use punctual_contract::{
    Error,
    hot::{HotEntry, Wholeness},
    ownership::Tenure,
};
use punctual_domain::{place::Partition, time::Millis};
use std::sync::Arc;

/// Partitions looked through side by side.
const AT_ONCE: usize = 8;
/// What has fired and was never handed over is looked at up to here in one partition; what stands behind so many waits
/// for executors anyway, and is looked at in its turn.
const FIRED_MAX: usize = 16 * STEP_LIMIT;

/// Partitions looked through. One that fails does not stop the others; it is looked at again.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    parts::each(core, "adopt", parts::PATIENCE, run_in).await
}

async fn run_in(core: Arc<Core>, part: usize) -> Result<usize, Error> {
    let core = &core;
    let mut new = core.holdings.new_ones();
    new.retain(|it| parts::is_in(core, part, it.partition));
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
    let partition = tenure.partition;
    let now = core.now();
    // What is lost from now on is noticed.
    if let [Wholeness::Overtaken(newest)] = *core.hot.is_whole(&[tenure]).await? {
        terms::overtaken(core, tenure, newest);
        return Ok(false);
    }
    // Takes nothing, but from now on the last owner takes nothing either: what has fired by then is all there is.
    core.hot.take(tenure, Millis::ZERO, 1).await?;
    core.arrivals.others_may_have_offered();
    // What fell due while nobody worked here has waited long enough.
    fire::fire(core, partition).await?;
    let unclaimed = preload::load_near(core, partition, now).await?;
    offer_fired(core, partition, &unclaimed).await?;
    claim::claim_from(core, partition, Millis::ZERO).await?;
    fire::fire(core, partition).await?;
    Ok(true)
}

/// Fired by the last owner: it may have died before it offered them, or even before it claimed them; and any engine
/// may have died that had one in its hands. The store refuses what was handed over after all.
async fn offer_fired(core: &Arc<Core>, partition: Partition, unclaimed: &HashSet<i64>) -> Result<(), Error> {
    let mut fired = fired(core, partition).await?;
    fired.retain(|it| !core.has(it));
    let (unclaimed, claimed): (Vec<_>, Vec<_>) =
        fired.into_iter().partition(|it| unclaimed.contains(&it.place.id));
    let mut good = claimed;
    if !unclaimed.is_empty() {
        let (won, lost) = claim::mark(core, &unclaimed).await?;
        claim::drop_lost(core, lost.into_iter()).await;
        good.extend(won);
    }
    core.meters.offered_again(good.len());
    core.live.lock().note_fired(&good);
    fire::offer_again(core, good).await
}

/// As a whole: what is settled meanwhile would move the places of the rest.
async fn fired(core: &Core, partition: Partition) -> Result<Vec<HotEntry>, Error> {
    let mut limit = STEP_LIMIT;
    loop {
        let page = core.hot.firing(partition, Millis::MAX, 0..limit).await?;
        if page.len() < limit || limit >= FIRED_MAX {
            return Ok(page);
        }
        limit *= 4;
    }
}
