//! Where what has fired waits for executors: in the ready sets of the hot set, or, while that does not answer or where there is none,
//! in the live table of the engine that they ask, with what that engine has fired (`serve`) and what other engines have fired and not
//! handed over (`others`). Queues that are scanned are served from the table whether or not the hot set answers. Must not fire
//! anything.

pub(crate) mod others;
pub(crate) mod scanned;
mod serve;
pub(crate) mod state;

use crate::{
    core::Core,
    pipeline::{
        ready_set,
        request::{LeaseRequest, may_run},
    },
};
use punctual_contract::{
    Error,
    hot::{Admission, HotEntry, Lane},
};
use punctual_domain::settings::Retries;
pub(crate) use serve::{serve, serve_ready};
use state::Source;

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

/// What is ready in a queue, wherever it is; and whether that is all that is in its ready set. `is_open`: of what is served from
/// the store, what is not to be passed over.
pub(crate) async fn admit(
    core: &Core,
    request: &LeaseRequest,
    admission: Admission,
    is_open: impl Fn(&HotEntry) -> bool,
) -> Result<(Vec<HotEntry>, bool), Error> {
    let may_go = |entry: &HotEntry| may_run(entry, request) && is_open(entry);
    let mut admitted = core.live.lock().take_served(&request.queue, admission, may_go);
    let limit = admission.limit - admitted.len();
    if limit == 0 || core.fires_from_store(&request.queue) {
        return Ok((admitted, false));
    }
    let asked = core.hot.admit(&request.queue, Admission { limit, ..admission }).await;
    match asked.inspect_err(|error| core.filling.gaps.admission(error, &request.queue, core.store.parts())) {
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
    let (served, entries) = core.split_by_source(entries.to_vec());
    let is_one = |entry: &HotEntry| served.iter().any(|other| other.place.id == entry.place.id);
    if !served.is_empty() {
        drop(core.live.lock().serve_no_more(is_one));
    }
    if entries.is_empty() { Ok(()) } else { core.hot.discard(&entries).await }
}

/// Out of the order, into their lane: true. Without the hot set there are no lanes: they stay where they are served from. All are
/// of one queue.
pub(crate) async fn park(
    core: &Core,
    lane: &Lane,
    entries: Vec<HotEntry>,
    retries: Retries,
) -> Result<bool, Error> {
    if entries.first().is_some_and(|entry| core.fires_from_store(&entry.queue)) {
        serve(core, &entries);
        return Ok(false);
    }
    core.hot.park(lane, entries, retries).await.map(|()| true)
}
