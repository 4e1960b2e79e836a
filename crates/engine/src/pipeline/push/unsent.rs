//! Tasks that could not be sent: their attempts are returned, and the compensator retries them. Must not send
//! anything.

use crate::{
    core::Core,
    live::leased_entry,
    parts,
    pipeline::{entry::entry_of, freed},
};
use punctual_contract::{
    limiter::Member,
    store::{Applied, Assignment, Change, Step},
};
use punctual_domain::{
    history::Note,
    place::{Partition, TaskRef},
};
use std::sync::Arc;

/// Writes to the store what could not be sent, with one immediate retry; then the lease is in doubt.
pub(crate) async fn mark_failed(core: &Arc<Core>, failed: Vec<(Assignment, String)>) {
    parts::apart(core, failed, |(lease, _)| lease.place.partition, mark_failed_in).await;
}

async fn mark_failed_in(core: Arc<Core>, failed: Vec<(Assignment, String)>) {
    let core = &core;
    for _ in 0..2 {
        match core.store.apply(steps(core, &failed), core.now()).await {
            Ok(applied) => {
                let moved =
                    applied.chunks(2).map(|steps| steps.last().is_some_and(|last| *last == Applied::Moved));
                let back: Vec<_> = failed
                    .iter()
                    .zip(moved)
                    .filter(|(_, moved)| *moved)
                    .map(|((lease, _), _)| lease)
                    .collect();
                let ended = back.iter().map(|lease| {
                    (Member { id: lease.place.id, fence: lease.fence }, Some(lease.queue.clone()))
                });
                freed::free(core, ended.collect()).await;
                return remember(core, &back.iter().map(|lease| lease.place).collect::<Vec<_>>()).await;
            }
            Err(error) => {
                tracing::warn!(%error, tasks = failed.len(), "what could not be sent is not marked")
            }
        }
    }
    let leases = failed.iter().map(|(lease, _)| leased_entry(lease, &Arc::new(lease.queue.clone())));
    core.live.lock().doubt_made(leases.collect(), core.now());
}

/// Two steps per task, in one unit of work: the attempt is returned, and the task could not be sent.
fn steps(core: &Core, failed: &[(Assignment, String)]) -> Vec<Step> {
    let of = |(lease, error): &(Assignment, String)| {
        let step = |change: Change, error: Option<String>| {
            let note = Note { reason: Some("not_sent".to_owned()), error, ..core.note() };
            Step { place: lease.place, fence: Some(lease.fence), change, note, fired_at: None, known: None }
        };
        [step(Change::Release, None), step(Change::FailDispatch, Some(error.clone()))]
    };
    failed.iter().flat_map(of).collect()
}

/// Tasks of other owners are left out: their refill finds them.
async fn remember(core: &Core, places: &[TaskRef]) {
    let is_mine = |partition: Partition| core.holdings.tenure(partition).is_some();
    let mine: Vec<TaskRef> = places.iter().filter(|place| is_mine(place.partition)).copied().collect();
    if mine.is_empty() {
        return;
    }
    match core.store.read(&mine).await {
        Ok(tasks) => {
            let entries = tasks.iter().flatten().map(entry_of).collect();
            core.maintenance.unsent.sort_out(entries, core.now());
        }
        Err(error) => tracing::debug!(%error, "the refill finds what could not be sent"),
    }
}
