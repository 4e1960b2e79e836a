//! Grants that come to nothing: their places are taken back at once, where that is safe. It is not safe to give up every place
//! that was granted here: the same entry can be admitted twice (it was offered again, or Redis forgot in a failover that
//! it was handed over), and then both grants name one attempt, and so one member, which may be running. The limiter takes back only
//! what was granted at the instant that is said, and by no other call since. Must not free what it does not know to be unused: that is
//! left to `maintenance::reconcile`.

use super::{admit::Since, freed::wake, terms::next_attempt};
use crate::{core::Core, parts};
use punctual_contract::{Error, hot::HotEntry, limiter::Member};
use punctual_domain::{name::QueueKey, place::TaskRef, time::Millis};
use std::sync::Arc;
use tokio::time::timeout;

/// No attempts came of these here, which are all of one queue. Their places are taken back, but for those that another
/// attempt has: the same entry may have been admitted twice, and names the same attempt. What fails here the reconciler does.
/// `since`: when they were granted; None: they have no places.
pub(crate) async fn never_began(
    core: &Arc<Core>,
    queue: &QueueKey,
    entries: impl Iterator<Item = &HotEntry>,
    since: Option<Since>,
) {
    let Some(at) = since.map(Since::at) else { return };
    let (places, granted): (Vec<TaskRef>, Vec<(Member, Millis)>) =
        entries.map(|entry| (entry.row(), (next_attempt(entry), at))).unzip();
    if places.is_empty() || core.hides_limits_of(queue) {
        return;
    }
    if let Err(error) = take_back(core, queue, &places, &granted).await {
        tracing::warn!(%error, "slots could not be taken back; the reconciler frees them");
    }
}

async fn take_back(
    core: &Arc<Core>,
    queue: &QueueKey,
    places: &[TaskRef],
    granted: &[(Member, Millis)],
) -> Result<(), Error> {
    // Whoever waits for what was leased besides must not wait for a database that says nothing.
    let silent = || Error::may_have_happened("look at leases", "no answer");
    let tasks = timeout(parts::PATIENCE, core.store.read(places)).await.unwrap_or_else(|_| Err(silent()))?;
    let unused = granted.iter().zip(tasks).filter(|((member, _), task)| {
        !task.as_ref().is_some_and(|task| task.fence == member.fence && task.state.is_in_flight())
    });
    let unused: Vec<(Member, Millis)> = unused.map(|(grant, _)| *grant).collect();
    let held = core.limiter_of(queue).retract(&unused).await?;
    wake(core, &held.into_iter().flatten().collect::<Vec<_>>()).await;
    Ok(())
}
