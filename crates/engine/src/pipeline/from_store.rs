//! Where what has fired waits for executors: in the ready sets of the hot set, or, where that keeps none, does not answer or has no
//! room, in the live table of the engine that they ask, with what that engine has fired (`serve`) and what other engines have fired and
//! not handed over (`others`). Queues that are scanned are served from the table whether or not the hot set answers. Who asks for
//! one of them, or about it, asks here. Must not fire anything.

mod belief;
pub(crate) mod others;
mod patient;
pub(crate) mod scanned;
mod serve;
pub(crate) mod state;

use crate::{arrivals::state::Arrival, core::Core, pipeline::ready_set};
use hashbrown::HashMap;
use punctual_contract::{
    Error,
    hot::{Admission, Depth, HotEntry, Lane},
};
use punctual_domain::{name::QueueKey, settings::Retries, time::Millis};
pub(crate) use serve::{serve, serve_ready};
use state::Source;
use std::sync::Arc;
use tokio::time::Instant;

/// What lies here for so long is not overtaken by what is leased ahead of its time.
const OVERTAKEN_MS: i64 = 100;

/// What fills the hot set or drains it, and has nothing to do while tasks come from the store: what a hot set that is away misses is
/// brought to it when it is back.
pub(crate) async fn with_hot_set(
    core: &Core,
    work: impl Future<Output = Result<usize, Error>>,
) -> Result<usize, Error> {
    match core.from_store.source() {
        Source::HotSet => work.await,
        Source::Store => Ok(0),
    }
}

/// Fired while the hot set was away, and counted as such.
pub(crate) fn count_fired<'e>(core: &Core, fired: impl Iterator<Item = &'e HotEntry>) {
    if core.from_store.is_away() {
        core.meters.fired_from_store(fired.count());
    }
}

/// What is ready in a queue, wherever it is; and whether that is all that is in its ready set.
pub(crate) async fn admit(
    core: &Core,
    queue: &Arc<QueueKey>,
    admission: Admission,
) -> Result<(Vec<HotEntry>, bool), Error> {
    let mut admitted = core.live.lock().take_served(queue, admission);
    let limit = admission.limit - admitted.len();
    if limit == 0 || core.fires_from_store(queue) {
        return Ok((admitted, false));
    }
    let asked = core.hot.admit(queue, Admission { limit, ..admission }).await;
    match asked.inspect_err(|error| core.filling.gaps.admission(error, queue, core.store.parts())) {
        Ok(more) => {
            let is_end = more.len() < limit;
            admitted.extend(more);
            Ok((admitted, is_end))
        }
        Err(error) if admitted.is_empty() => Err(error),
        Err(_) => Ok((admitted, false)),
    }
}

/// These have fired. How many of them did not wait for executors already.
pub(crate) async fn offer(core: &Core, entries: Vec<HotEntry>) -> Result<usize, Error> {
    let (served, entries) = core.split_by_source(entries);
    let served = serve(core, &served);
    if entries.is_empty() {
        return Ok(served);
    }
    Ok(served + ready_set::offer(core, entries).await?)
}

/// These are not to be handed over.
pub(crate) async fn discard(core: &Core, entries: &[HotEntry]) -> Result<(), Error> {
    core.live.lock().discard(entries);
    let (_, entries) = core.split_by_source(entries.to_vec());
    if entries.is_empty() { Ok(()) } else { core.hot.discard(&entries).await }
}

/// Out of the order, into their lane. All are of one queue.
pub(crate) async fn park(
    core: &Core,
    lane: &Lane,
    entries: Vec<HotEntry>,
    retries: Retries,
) -> Result<(), Error> {
    if entries.first().is_some_and(|entry| core.fires_from_store(&entry.queue)) {
        serve::park(core, lane, &entries, retries);
        return Ok(());
    }
    core.hot.park(lane, entries, retries).await
}

/// At most so many of what was parked in a lane come back.
pub(crate) async fn unpark(
    core: &Core,
    queue: &Arc<QueueKey>,
    lane: &Lane,
    limit: usize,
) -> Result<usize, Error> {
    if core.fires_from_store(queue) {
        return Ok(core.live.lock().unpark(queue, lane, limit));
    }
    ready_set::unpark(core, queue, lane, limit).await
}

/// Lanes of a queue in which something is parked, in order, after one, and how much.
pub(crate) async fn lanes(
    core: &Core,
    queue: &QueueKey,
    after: Option<&Lane>,
    limit: usize,
) -> Result<Vec<(Lane, usize)>, Error> {
    if core.fires_from_store(queue) {
        return Ok(core.live.lock().lanes(queue, after, limit));
    }
    core.hot.lanes(queue, after, limit).await
}

/// What waits in each queue, in the hot set and in this engine's table.
pub(crate) async fn depth(core: &Core) -> Result<Depth, Error> {
    let mut depth = core.hot.depth().await?;
    let served = core.live.lock().count_served();
    add(&mut depth.ready, served.iter().map(|(queue, standing)| (queue, standing.ready)));
    add(&mut depth.parked, served.iter().map(|(queue, standing)| (queue, standing.parked)));
    Ok(depth)
}

fn add<'q>(counts: &mut Vec<(Arc<QueueKey>, usize)>, more: impl Iterator<Item = (&'q Arc<QueueKey>, usize)>) {
    let mut more: HashMap<&Arc<QueueKey>, usize> = more.filter(|(_, count)| *count > 0).collect();
    for (queue, count) in counts.iter_mut() {
        *count += more.remove(&*queue).unwrap_or_default();
    }
    counts.extend(more.into_iter().map(|(queue, count)| (Arc::clone(queue), count)));
    counts.sort_unstable();
}

/// Nothing of a queue waits, as far as this engine knows: since when.
pub(crate) fn empty_since(core: &Core, queue: &QueueKey, arrival: &Arrival) -> Option<Instant> {
    if core.fires_from_store(queue) {
        (core.live.lock().standing(queue).all() == 0).then(Instant::now)
    } else {
        arrival.empty_since()
    }
}

/// While nobody waits, what is leased ahead of its instant would overtake something of its queue, or perhaps.
pub(crate) fn would_be_overtaken(core: &Core, queue: &QueueKey, arrival: &Arrival, now: Millis) -> bool {
    let before = now.plus(-OVERTAKEN_MS);
    if core.fires_from_store(queue) {
        core.live.lock().oldest_in(queue).is_some_and(|fired_at| fired_at < before)
    } else {
        arrival.may_be_overtaken(before)
    }
}
