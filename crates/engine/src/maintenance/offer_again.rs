//! Offers again what fired a while ago and was not handed over: the engine that had it in its hands may have died, or
//! the answer of the hot set was lost. Offering what stands in its ready set already changes nothing; what lies here, or is
//! being handed over, is left there. What has waited for too long is buried on the way. Answers of which this engine knows
//! that they were lost are looked for at once.

pub(crate) mod state;

use crate::{
    core::Core,
    maintenance::{expire, unanswered},
    pipeline::fire,
};
use punctual_contract::Error;
use punctual_domain::{place::Partition, time::Millis};
use std::{sync::Arc, time::Duration};

/// Whoever has it in its hands has had this long.
const AFTER_MS: i64 = 3_000;
pub(crate) const PERIOD: Duration = Duration::from_secs(1);
/// Entries offered in one partition in one run. With more than these, executors are behind, and each entry that is
/// offered for nothing is one less that is handed over.
const LIMIT: usize = 200;
/// Behind this many older ones an entry waits for executors anyway; then the walk starts over.
const WALK_MAX: usize = 10_000;

/// Entries offered.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    let before = now.plus(-AFTER_MS);
    let (mut offered, mut result) = match unanswered::run_once(core).await {
        Ok(found) => (found, Ok(())),
        Err(error) => (0, Err(error)),
    };
    for partition in core.owned() {
        match offer_of(core, partition, before).await {
            Ok(count) => offered += count,
            // The others have their turn all the same.
            Err(error) => result = Err(error),
        }
    }
    result.map(|()| offered)
}

async fn offer_of(core: &Arc<Core>, partition: Partition, before: Millis) -> Result<usize, Error> {
    let nth = usize::from(partition.0);
    let walked = core.maintenance.offer_again.walked(nth);
    let old = core.hot.firing(partition, before, walked..walked + LIMIT).await?;
    let next = walked + old.len();
    let mut rest = expire::keep_those_in_time(core, old).await;
    rest.retain(|it| !core.has(it));
    let (going, rest): (Vec<_>, Vec<_>) =
        rest.into_iter().partition(|it| core.settings.is_deleting(&it.queue.namespace));
    if !going.is_empty() {
        let settled: Vec<_> = going.iter().map(|it| (partition, it.place.id, it.fence)).collect();
        core.hot.settle(&settled).await?;
    }
    let offered = rest.len();
    fire::offer_again(core, rest).await?;
    // What could not be offered is not walked past.
    core.maintenance
        .offer_again
        .remember(nth, if next == walked + LIMIT && next < WALK_MAX { next } else { 0 });
    Ok(offered)
}
