//! Finds tasks that are overdue in the store and in no hot set: what a crash between a commit and the load that
//! follows it leaves, or a hot set that lost its memory. What could not be sent it shows to the compensator; what lies in
//! this engine has fired, and is left there. Changes no row.
//!
//! Bounded: a run looks at so many rows of a partition, the next one goes on there. Where there are more than that, a backlog
//! waits for its turn, and has been looked at before: then each run looks at what became overdue since the last one, and
//! only at a few of the others, so that a backlog costs little however long it is. When one of those is missing, all are
//! looked at from the oldest on, until none is.

pub(crate) mod state;

use crate::{
    core::Core,
    maintenance::stuck,
    parts,
    pipeline::{fire, from_store, preload},
};
use punctual_contract::{Error, hot::HotEntry, store::Scan};
use punctual_domain::{place::Partition, time::Millis};
use state::{Key, recent};
use std::sync::Arc;

/// Rows looked at in one partition in one run, of those that were not looked at before.
const SWEEP_LIMIT: usize = 500;
/// And of those that were.
const AGAIN_LIMIT: usize = 50;

/// Tasks that had to be loaded again.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    if core.from_store.is_away() {
        return Ok(0);
    }
    parts::each(core, "sweep", parts::PATIENCE, move |core, part| sweep_in(core, part, now)).await
}

/// One part of the store.
async fn sweep_in(core: Arc<Core>, part: usize, now: Millis) -> Result<usize, Error> {
    let until = now.plus(-core.options.overdue_after_ms);
    let (mut found, mut result) = (0, Ok(()));
    for partition in parts::owned(&core, part) {
        if let Err(error) = sweep_partition(&core, partition, (until, now), &mut found).await {
            result = Err(error);
        }
    }
    if found > 0 {
        tracing::warn!(tasks = found, "overdue tasks were in no hot set and have been loaded");
        core.meters.swept(found);
        // They are overdue: they are claimed as they fire.
        result = result.and(fire::fire_all(&core).await.map(drop));
    }
    result.map(|()| found)
}

/// Adds to `found` what was loaded, also when a later look fails.
async fn sweep_partition(
    core: &Arc<Core>,
    partition: Partition,
    (until, now): (Millis, Millis),
    found: &mut usize,
) -> Result<(), Error> {
    let Some(tenure) = core.holdings.tenure(partition) else { return Ok(()) };
    let mut at = core.maintenance.sweep.position(partition, tenure.term);
    let scan = |after, until, limit| core.store.scan(Scan { partition, until, after, limit });
    let page = scan(at.front, until, SWEEP_LIMIT).await?;
    let next = key_after(&page, SWEEP_LIMIT);
    let missing = load_missing(core, page, now).await?;
    *found += missing.unwrap_or(0);
    let looks_again = at.looked(next, missing.is_some(), until);
    // Also when the second look fails.
    core.maintenance.sweep.remember(partition, at);
    if looks_again {
        let page = scan(at.again, recent(until).0, AGAIN_LIMIT).await?;
        let next = key_after(&page, AGAIN_LIMIT);
        let missing = load_missing(core, page, now).await?;
        *found += missing.unwrap_or(0);
        at.looked_again(next, missing.is_some());
        core.maintenance.sweep.remember(partition, at);
    }
    Ok(())
}

/// How many were loaded; None: nothing is missing.
async fn load_missing(core: &Arc<Core>, page: Vec<HotEntry>, now: Millis) -> Result<Option<usize>, Error> {
    let mut page = core.maintenance.unsent.sort_out(page, now);
    page.retain(|it| !core.has(it));
    let is_stuck = page.iter().any(|it| stuck::is_passed_by(core, it));
    let page = stuck::sort_out(core, page, now).await?;
    let loaded = if page.is_empty() { None } else { load(core, page).await? };
    Ok(if is_stuck { loaded.or(Some(0)) } else { loaded })
}

/// Where the next look goes on, if there is more.
fn key_after(page: &[HotEntry], limit: usize) -> Option<Key> {
    (page.len() == limit).then(|| page.last().map(HotEntry::key)).flatten()
}

/// What there is no room for fires from the store: it is overdue. None: all was there.
async fn load(core: &Arc<Core>, mut page: Vec<HotEntry>) -> Result<Option<usize>, Error> {
    let (load, leased) = core.live.begin_load(&mut page, core.now());
    preload::give_back_soon(core, leased);
    match core.hot.load(page.clone()).await {
        Ok(loaded) => {
            load.answered();
            Ok((loaded > 0).then_some(loaded))
        }
        Err(error) => {
            tracing::warn!(%error, tasks = page.len(), "overdue tasks cannot be loaded, and fire from the store");
            from_store::fire(core, page).await?;
            Ok(Some(0))
        }
    }
}
