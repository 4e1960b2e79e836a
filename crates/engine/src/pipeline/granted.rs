//! Grants that come to nothing: their places are taken back at once, where that is safe. It is not safe to give up every place
//! that was granted here: the same entry can be admitted twice (it was offered again, or Redis forgot in a failover that
//! it was handed over), and then both grants name one attempt, and so one member, which may be running. Must not free
//! what it does not know to be unused: that is left to `maintenance::reconcile`.

pub(crate) mod state;

use super::{freed::wake, terms::next_attempt};
use crate::core::Core;
use punctual_contract::{Error, hot::HotEntry, limiter::Member};
use punctual_domain::{name::QueueKey, place::TaskRef, time::Millis};
use std::sync::Arc;

/// No attempts came of these here. Their places are taken back, but for those that somebody else's attempt has: the same
/// entry may have been admitted twice, and names the same attempt. What fails here the reconciler does.
pub(crate) async fn never_began(core: &Arc<Core>, entries: impl Iterator<Item = &HotEntry>) {
    let mut unused: Vec<(&HotEntry, (Member, Millis))> = Vec::new();
    {
        let mut known = core.limits.admissions.granted.lock();
        for entry in entries {
            let member = next_attempt(entry);
            unused.extend(known.take(member).map(|at| (entry, (member, at))));
        }
    }
    // All of them are of one queue, but for those of callers that ask for several.
    while let Some((first, _)) = unused.first() {
        let queue = Arc::clone(&first.queue);
        let (of_queue, others): (Vec<_>, Vec<_>) =
            unused.into_iter().partition(|(entry, _)| entry.queue == queue);
        unused = others;
        if core.hides_limits_of(&queue) {
            continue;
        }
        let (places, granted): (Vec<TaskRef>, Vec<(Member, Millis)>) =
            of_queue.into_iter().map(|(entry, granted)| (entry.row(), granted)).unzip();
        if let Err(error) = take_back(core, &queue, &places, &granted).await {
            tracing::warn!(%error, "slots could not be taken back; the reconciler frees them");
        }
    }
}

async fn take_back(
    core: &Arc<Core>,
    queue: &QueueKey,
    places: &[TaskRef],
    granted: &[(Member, Millis)],
) -> Result<(), Error> {
    let tasks = core.store.read(places).await?;
    let unused = granted.iter().zip(tasks).filter(|((member, _), task)| {
        !task.as_ref().is_some_and(|it| it.fence == member.fence && it.state.is_in_flight())
    });
    let unused: Vec<(Member, Millis)> = unused.map(|it| *it.0).collect();
    let held = core.limiter_of(queue).retract(&unused).await?;
    wake(core, &held.into_iter().flatten().collect::<Vec<_>>()).await;
    Ok(())
}
