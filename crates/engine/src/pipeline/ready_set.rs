//! How fired tasks come into the ready sets of the hot set, and back into them from where they were parked. Decides nothing
//! about who gets them.

use crate::core::Core;
use hashbrown::{HashMap, HashSet};
use punctual_contract::{
    Error,
    hot::{HotEntry, Lane},
};
use punctual_domain::{name::QueueKey, settings::Retries, task::Priority, time::Millis};
use std::sync::Arc;

/// At most so many of what was parked in a lane come back.
pub(crate) async fn unpark(
    core: &Core,
    queue: &Arc<QueueKey>,
    lane: &Lane,
    limit: usize,
) -> Result<usize, Error> {
    let back = core.hot.unpark(queue, lane, limit).await;
    core.arrivals.of(queue).something_else_came();
    back
}

/// Puts fired tasks into the ready sets, those that are tried again to where their queue wants them. How many did not stand there.
pub(crate) async fn offer(core: &Core, entries: Vec<HotEntry>) -> Result<usize, Error> {
    // These take their turns with what lies in the engine.
    let is_other = |it: &&HotEntry| it.priority != Priority::default() || it.attempt > 0;
    let others: HashSet<_> = entries.iter().filter(is_other).map(|it| Arc::clone(&it.queue)).collect();
    let mut youngest: HashMap<&Arc<QueueKey>, (Millis, i64)> = HashMap::new();
    for entry in &entries {
        let key = youngest.entry(&entry.queue).or_insert_with(|| entry.key());
        *key = entry.key().max(*key);
    }
    for (queue, key) in youngest {
        core.arrivals.of(queue).is_offered(key);
    }
    let offered = put(core, entries).await;
    others.iter().for_each(|it| core.arrivals.of(it).something_else_came());
    offered
}

async fn put(core: &Core, entries: Vec<HotEntry>) -> Result<usize, Error> {
    let mut plain = Vec::with_capacity(entries.len());
    let mut others: HashMap<Arc<QueueKey>, (Retries, Vec<HotEntry>)> = HashMap::new();
    for it in entries {
        if it.attempt == 0 {
            plain.push(it);
            continue;
        }
        let of_queue = others.entry(Arc::clone(&it.queue));
        of_queue.or_insert_with(|| (core.settings.queue(&it.queue).retries, Vec::new())).1.push(it);
    }
    let (mut put, mut result) = (0, Ok(()));
    for (_, (retries, entries)) in others {
        if retries == Retries::default() {
            plain.extend(entries);
        } else {
            match core.hot.offer(entries, retries).await {
                Ok(count) => put += count,
                Err(error) => result = Err(error),
            }
        }
    }
    if !plain.is_empty() {
        put += core.hot.offer(plain, Retries::default()).await?;
    }
    result.map(|()| put)
}
