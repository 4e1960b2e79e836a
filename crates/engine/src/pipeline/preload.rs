//! Step 2, preload: brings what falls due within the horizon from the store into the hot set, the nearest first.
//! Never moves a row. Loading twice is harmless, so its windows overlap; loading too little is what it must not do:
//! the frontier of a partition is raised *before* its scan, so that an insert that commits during the scan, behind
//! its cursor, loads itself.

use crate::{core::Core, options::STEP_LIMIT, pipeline::intake};
use punctual_contract::{Error, hot::HotEntry, store::Scan};
use punctual_domain::{place::Partition, time::Millis};
use std::sync::Arc;

/// Windows overlap by this much: commit order is not time order.
const OVERLAP_MS: i64 = 10_000;
/// What is due this soon is loaded for every partition before any partition is loaded further.
const NEAR_MS: i64 = 10_000;

/// Entries loaded.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    let mut room = core.options.hot_entries_max.saturating_sub(core.hot.depth().await?.due);
    let mut loaded = 0;
    for until in [now.plus(NEAR_MS.min(core.options.horizon_ms)), now.plus(core.options.horizon_ms)] {
        for partition in core.partitions() {
            let count = extend(core, partition, until, room).await?;
            room = room.saturating_sub(count);
            loaded += count;
        }
    }
    core.meters.preloaded(loaded);
    Ok(loaded)
}

/// Extends one partition's frontier to `until`, or as far as there is room.
async fn extend(core: &Arc<Core>, partition: Partition, until: Millis, room: usize) -> Result<usize, Error> {
    let reached = core.frontier(partition);
    if until <= reached {
        return Ok(0);
    }
    core.set_frontier(partition, until);
    let outcome = load_window(core, partition, reached, until, room).await;
    match outcome {
        Ok((loaded, None)) => Ok(loaded),
        Ok((loaded, Some(stopped_at))) => {
            core.set_frontier(partition, stopped_at);
            Ok(loaded)
        }
        Err(error) => {
            core.set_frontier(partition, reached);
            Err(error)
        }
    }
}

/// Answers how many were loaded and, where room ran out, the time up to which all were.
async fn load_window(
    core: &Arc<Core>,
    partition: Partition,
    reached: Millis,
    until: Millis,
    room: usize,
) -> Result<(usize, Option<Millis>), Error> {
    let mut after = (reached > Millis::ZERO).then(|| (reached.plus(-OVERLAP_MS), i64::MIN));
    let mut loaded = 0;
    loop {
        let page = core.store.scan(Scan { partition, until, after, limit: STEP_LIMIT }).await?;
        let Some(last) = page.last().map(HotEntry::key) else { return Ok((loaded, None)) };
        let whole = page.len() < STEP_LIMIT;
        loaded += intake::load_and_claim(core, page).await?;
        if whole {
            return Ok((loaded, None));
        }
        if loaded >= room {
            return Ok((loaded, Some(Millis(last.0.0 - 1))));
        }
        after = Some(last);
    }
}
