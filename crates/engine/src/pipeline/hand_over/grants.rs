//! Builds the lease requests of a hand-over, and remembers the leases. Asks no server.

use crate::{core::Core, pipeline::request::LeaseRequest};
use punctual_contract::{
    hot::HotEntry,
    store::{Assignment, Dispatched, Facts, Grant},
};
use punctual_domain::time::Millis;

/// An executor sends about three heartbeats per lease: after this fraction of it, a heartbeat has probably
/// been received.
const UNHEARD_SHARE: i64 = 4;

pub(super) fn split_paused(
    entries: Vec<HotEntry>,
    dispatched: &[Dispatched],
) -> (Vec<HotEntry>, Vec<HotEntry>) {
    let (paused, done): (Vec<_>, Vec<_>) =
        entries.into_iter().zip(dispatched).partition(|pair| *pair.1 == Dispatched::Paused);
    let entries = |list: Vec<(HotEntry, &Dispatched)>| list.into_iter().map(|pair| pair.0).collect();
    (entries(done), entries(paused))
}

/// Remembers these until they end; the facts are sent to the store with their outcomes.
pub(crate) fn was_handed_over(core: &Core, request: &LeaseRequest, leased: &[Assignment], now: Millis) {
    let until = now.plus(request.lease_ms / UNHEARD_SHARE);
    core.live.lock().know_attempts(&request.queue, leased, until);
}

pub(super) fn grant_of(entry: &HotEntry, known: Option<Facts>, request: &LeaseRequest, now: Millis) -> Grant {
    Grant {
        place: entry.row(),
        fence: entry.fence,
        fired_at: entry.fired_at,
        lease_until: now.plus(request.lease_ms),
        executor: request.executor.clone(),
        namespace: request.queue.namespace.clone(),
        has_begun: false,
        known,
    }
}

/// Removes tasks that the store knows to be handed over: nothing here needs to remember them.
pub(crate) fn forget(core: &Core, entries: &[HotEntry]) {
    core.live.lock().persisted(entries);
}
