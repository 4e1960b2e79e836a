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
use punctual_domain::{name::QueueKey, place::Partition, state::State};
use std::sync::Arc;

/// What one take popped.
#[derive(Default)]
struct Taken {
    claimed: Vec<HotEntry>,
    unclaimed: Vec<HotEntry>,
    more: bool,
}

/// Fires all that is due in a partition, if it is this engine's. Tasks fired.
pub(crate) async fn fire(core: &Arc<Core>, partition: Partition) -> Result<usize, Error> {
    let mut fired = 0;
    loop {
        let Taken { claimed, unclaimed, more } = take(core, partition).await?;
        let offered = offer(core, claimed).await;
        // They have fired, whatever became of the others.
        fired += claim_late(core, unclaimed).await?;
        fired += offered?;
        if !more {
            return Ok(fired);
        }
    }
}

async fn take(core: &Core, partition: Partition) -> Result<Taken, Error> {
    let _nothing_is_given_up_meanwhile = core.holdings.taking(partition).await;
    let Some(tenure) = core.holdings.tenure(partition) else { return Ok(Taken::default()) };
    if core.from_store.is_away() {
        return Ok(Taken::default());
    }
    let now = core.now();
    let popped = core.hot.take(tenure, now, STEP_LIMIT).await?;
    let mut taken = Taken { more: popped.len() == STEP_LIMIT, ..Taken::default() };
    for it in popped {
        let it = HotEntry { fired_at: now, ..it };
        match core.claims.release(&it) {
            Release::Claimed => taken.claimed.push(it),
            Release::Awaited => {}
            Release::Unclaimed => taken.unclaimed.push(it),
        }
    }
    Ok(taken)
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
        let lateness_ms = by_queue.entry(Arc::clone(&it.queue)).or_default();
        // What could not be sent has fired before, and was counted then.
        if it.state != State::DispatchFailed {
            lateness_ms.push(it.fired_at.since(it.due_at));
        }
    }
    core.remember_unmarked(&entries);
    if let Err(error) = core.hot.offer(entries.clone()).await {
        core.held_back.lock().extend(entries);
        return Err(error);
    }
    for (queue, lateness_ms) in by_queue {
        core.meters.queue(&queue).fired(&lateness_ms);
        core.arrived(&queue, lateness_ms.len().max(1));
    }
    Ok(count)
}

/// Offers what was fired before, here or by another engine, and is perhaps in nobody's hands.
pub(crate) async fn offer_again(core: &Arc<Core>, entries: Vec<HotEntry>) -> Result<(), Error> {
    if entries.is_empty() {
        return Ok(());
    }
    let mut queues: HashMap<Arc<QueueKey>, usize> = HashMap::new();
    for it in &entries {
        *queues.entry(Arc::clone(&it.queue)).or_default() += 1;
    }
    core.hot.offer(entries).await?;
    queues.iter().for_each(|(queue, count)| core.arrived(queue, *count));
    Ok(())
}

impl Core {
    pub(crate) fn remember_unmarked(&self, fired: &[HotEntry]) {
        let mut unmarked = self.unmarked.lock();
        for it in fired {
            unmarked
                .insert(it.place.id, Unmarked { place: it.row(), fence: it.fence, fired_at: it.fired_at });
        }
    }
}

/// Everything due in every partition of this engine: what a tick of the wheel that nobody saw would have fired.
pub(crate) async fn fire_all(core: &Arc<Core>) -> Result<usize, Error> {
    let mut fired = 0;
    for partition in core.owned() {
        fired += fire(core, partition).await?;
    }
    Ok(fired)
}

/// Tries again what fired while the store or the ready sets could not be reached.
pub(crate) async fn fire_again(core: &Arc<Core>) -> Result<usize, Error> {
    if core.from_store.is_away() {
        return Ok(0);
    }
    let held_back = std::mem::take(&mut *core.held_back.lock());
    claim_late(core, held_back).await
}
