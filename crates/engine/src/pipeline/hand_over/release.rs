//! Returns leases that no executor has learned of, or that came too late. Must not return a lease that an
//! executor has.

use crate::{
    core::Core,
    for_later::hand_over as without_store,
    live::leased_entry,
    parts,
    pipeline::{admit, entry::entry_of, freed::EndedOf, intake},
};
use punctual_contract::{
    Error,
    hot::HotEntry,
    limiter::Member,
    store::{Applied, Assignment, Change, Step},
};
use punctual_domain::{place::TaskRef, state::State, task::Task};
use std::sync::Arc;

/// Returns leases that no executor has learned of: their attempts are returned, and the tasks are ready again.
pub(crate) async fn give_back(core: &Arc<Core>, leased: Vec<Assignment>, reason: &str) {
    let leased = without_store::keep_stored(core, leased);
    if leased.is_empty() {
        return;
    }
    let reason: Arc<str> = reason.into();
    let release = |core: Arc<Core>, made: Vec<Assignment>| {
        let reason = Arc::clone(&reason);
        async move {
            let leases = made.iter().map(|lease| (lease.place, lease.fence)).collect();
            if let Err(error) = release(&core, leases, &reason).await {
                tracing::warn!(%error, "leases that no executor has heard of could not be given back; it will be repeated");
                let leases = made.iter().map(|lease| leased_entry(lease, &Arc::new(lease.queue.clone())));
                core.live.lock().doubt_made(leases.collect(), core.now());
            }
        }
    };
    parts::apart(core, leased, |lease| lease.place.partition, release).await;
}

/// Returns leases of one database, by place and fence, and the number returned.
pub(crate) async fn release(
    core: &Arc<Core>,
    leases: Vec<(TaskRef, i64)>,
    reason: &str,
) -> Result<usize, Error> {
    core.live.lock().forget_attempts(leases.iter().map(|(place, fence)| (place.id, *fence)));
    let step = |(place, fence): &(TaskRef, i64)| {
        let mut note = core.note();
        note.reason = Some(reason.to_owned());
        Step {
            place: *place,
            fence: Some(*fence),
            change: Change::Release,
            note,
            fired_at: None,
            known: None,
        }
    };
    let applied = core.store.apply(leases.iter().map(step).collect(), core.now()).await?;
    let back = leases.iter().zip(applied).filter(|(_, stepped)| *stepped == Applied::Moved);
    let (places, ended): (Vec<TaskRef>, Vec<EndedOf>) = back
        .map(|((place, fence), stepped)| {
            let member = Member { id: place.id, fence: *fence };
            (*place, (member, stepped.attempt.map(|attempt| attempt.queue)))
        })
        .unzip();
    let attempts = ended.iter().map(|(member, _)| (member.id, member.fence));
    drop(core.live.lock().ended(attempts, core.now()));
    load_again(core, &places).await;
    admit::free(core, ended).await;
    Ok(places.len())
}

async fn load_again(core: &Arc<Core>, places: &[TaskRef]) {
    if places.is_empty() {
        return;
    }
    match core.store.read(places).await {
        Ok(tasks) => {
            let now = core.now();
            let entry_of = |task: &Task| {
                let entry = entry_of(task);
                // Preleased and returned before it fired: it must still fire. A task of a push queue stays
                // ready: callers were answered "already fired" for it, and answers never revert to "waiting".
                let is_to_fire = entry.due_at > now && !core.pushes(&entry.queue);
                let state = if is_to_fire { State::Scheduled } else { entry.state };
                HotEntry { state, ..entry }
            };
            let ready = tasks.iter().flatten().filter(|task| task.state == State::Ready);
            intake::admit(core, ready.map(entry_of).collect()).await;
        }
        Err(error) => tracing::warn!(%error, "tasks given back wait for the refill"),
    }
}
