//! Step 4, fire: takes what is due out of the hot set, atomically; what it takes has fired, and a cancel that comes
//! after is told so. Never takes what is not due on the engine's clock. What was not claimed before (loaded late)
//! is claimed now, before anyone can get it.

use crate::{
    core::{Core, Unmarked},
    options::STEP_LIMIT,
    pipeline::claim::{self, Release},
};
use hashbrown::HashMap;
use punctual_contract::{Error, hot::HotEntry};
use punctual_domain::{name::QueueKey, place::Partition};
use std::sync::Arc;

/// Fires all that is due in a partition. Tasks fired.
pub(crate) async fn fire(core: &Arc<Core>, partition: Partition) -> Result<usize, Error> {
    let mut fired = 0;
    loop {
        let now = core.now();
        let mut taken = core.hot.take(core.tenure(partition), now, STEP_LIMIT).await?;
        let more = taken.len() == STEP_LIMIT;
        for it in &mut taken {
            it.fired_at = now;
        }
        let (mut claimed, mut unclaimed) = (Vec::with_capacity(taken.len()), Vec::new());
        for it in taken {
            match core.claims.release(&it) {
                Release::Claimed => claimed.push(it),
                Release::Awaited => {}
                Release::Unclaimed => unclaimed.push(it),
            }
        }
        fired += offer(core, claimed).await?;
        fired += claim_late(core, unclaimed).await?;
        if !more {
            return Ok(fired);
        }
    }
}

async fn claim_late(core: &Arc<Core>, entries: Vec<HotEntry>) -> Result<usize, Error> {
    if entries.is_empty() {
        return Ok(0);
    }
    match claim::mark(core, &entries).await {
        Ok((won, lost)) => {
            claim::drop_lost(core, lost.into_iter()).await;
            offer(core, won).await
        }
        Err(error) => {
            tracing::warn!(%error, tasks = entries.len(), "claim at the instant of firing failed; it will be repeated");
            core.held_back.lock().extend(entries);
            Ok(0)
        }
    }
}

/// Puts fired tasks into the ready sets and wakes who waits for them.
pub(crate) async fn offer(core: &Arc<Core>, entries: Vec<HotEntry>) -> Result<usize, Error> {
    if entries.is_empty() {
        return Ok(0);
    }
    let count = entries.len();
    let mut by_queue: HashMap<Arc<QueueKey>, Vec<i64>> = HashMap::new();
    for it in &entries {
        by_queue.entry(Arc::clone(&it.queue)).or_default().push(it.fired_at.since(it.due_at));
    }
    remember_unmarked(core, &entries);
    if let Err(error) = core.hot.offer(entries.clone()).await {
        core.held_back.lock().extend(entries);
        return Err(error);
    }
    for (queue, lateness_ms) in by_queue {
        core.meters.queue(&queue).fired(&lateness_ms);
        core.arrival(&queue).notify_one();
    }
    Ok(count)
}

fn remember_unmarked(core: &Core, entries: &[HotEntry]) {
    let mut unmarked = core.unmarked.lock();
    for it in entries {
        unmarked.insert(it.place.id, Unmarked { place: it.row(), fence: it.fence, fired_at: it.fired_at });
    }
}

/// Everything due in every partition: what a tick of the wheel that nobody saw would have fired.
pub(crate) async fn fire_all(core: &Arc<Core>) -> Result<usize, Error> {
    let mut fired = 0;
    for partition in core.partitions() {
        fired += fire(core, partition).await?;
    }
    Ok(fired)
}

/// Tries again what fired while the store or the ready sets could not be reached.
pub(crate) async fn fire_again(core: &Arc<Core>) -> Result<usize, Error> {
    let held_back = std::mem::take(&mut *core.held_back.lock());
    claim_late(core, held_back).await
}
