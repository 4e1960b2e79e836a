//! Grants that come to nothing: their places are revoked at once, where that is safe. It is not safe to give up every place
//! that was granted here: the same entry can be admitted twice (it was offered again, or Redis forgot in a failover that
//! it was handed over), and then both grants name one attempt, and so one member, which may be running. The limiter revokes only
//! what was granted at the instant that is said, and by no other call since. Must not free what it does not know to be unused: that is
//! left to `maintenance::reconcile`.
//!
//! And grants that the limiter may have lost before the store had their leases. The engine that rebuilds the limiter reads the leases in
//! the store, and does so later than a lease may take that is handed over without asking the limiter. After that, an attempt goes to
//! its executor only if the limiter still has its place, asked when the lease is in the store: a loss that comes after that answer is
//! rebuilt with this lease.

use super::{admit::Since, freed::wake, terms::next_attempt};
use crate::{
    core::Core,
    maintenance::reconcile::{self, state::UnusedGrant},
    parts,
};
use punctual_contract::{
    Error, Limiter,
    hot::HotEntry,
    limiter::{Held, Member},
    store::Assignment,
};
use punctual_domain::{name::QueueKey, place::TaskRef, time::Millis};
use std::{collections::HashSet, sync::Arc};
use tokio::time::timeout;

/// Of these leases of one queue, which are in the store, those whose places the limiter has; and the others. Where it does not
/// answer, it may have lost any of them.
pub(crate) async fn hold_their_places(
    core: &Core,
    queue: &QueueKey,
    leased: Vec<Assignment>,
) -> (Vec<Assignment>, Vec<Assignment>) {
    let member = |lease: &Assignment| Member { id: lease.place.id, fence: lease.fence };
    let members: Vec<Member> = leased.iter().map(member).collect();
    if members.is_empty() || core.hides_limits_of(queue) {
        return (Vec::new(), leased);
    }
    let found = core.limiter_of(queue).find(&members).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "the limiter did not say whether leases that took long still have their slots; they are given back");
        Vec::new()
    });
    let held: HashSet<Member> = found.into_iter().map(|held| held.member).collect();
    leased.into_iter().partition(|lease| held.contains(&member(lease)))
}

/// The limiter may have granted these, and its answer was lost. Unused places fill the limit, so that no later grant of the same attempts
/// would find them.
pub(super) fn answer_was_lost(core: &Core, queue: &QueueKey, entries: &[HotEntry], since: Since) {
    reconcile::takes_back_later(core, core.limiter_of(queue), grants_of(entries.iter(), since));
}

fn grants_of<'e>(entries: impl Iterator<Item = &'e HotEntry>, since: Since) -> Vec<UnusedGrant> {
    let grant = |entry| UnusedGrant {
        place: HotEntry::row(entry),
        member: next_attempt(entry),
        at: since.granted_at(),
    };
    entries.map(grant).collect()
}

/// No attempts came of these here, which are all of one queue. Their places are revoked, but for those that another
/// attempt has: the same entry may have been admitted twice, and names the same attempt. What fails here, this engine's reconciler
/// repeats.
/// `since`: when they were granted; None: they have no places.
pub(crate) async fn never_began(
    core: &Arc<Core>,
    queue: &QueueKey,
    entries: impl Iterator<Item = &HotEntry>,
    since: Option<Since>,
) {
    let Some(since) = since else { return };
    let (grants, limiter) = (grants_of(entries, since), core.limiter_of(queue));
    if grants.is_empty() {
        return;
    }
    if core.hides_limits_of(queue) {
        return reconcile::takes_back_later(core, limiter, grants);
    }
    if let Err(error) = revoke(core, limiter, &grants).await {
        tracing::warn!(%error, "slots could not be revoked; this will be retried");
        reconcile::takes_back_later(core, limiter, grants);
    }
}

/// What this engine was granted, and does not use. How many places were free by that.
pub(crate) async fn revoke(
    core: &Arc<Core>,
    limiter: &Arc<dyn Limiter>,
    grants: &[UnusedGrant],
) -> Result<usize, Error> {
    let places: Vec<TaskRef> = grants.iter().map(|grant| grant.place).collect();
    // The caller waits for its other leases, and must not wait for a silent database.
    let silent = || Error::may_have_happened("look at leases", "no answer");
    let tasks = timeout(parts::PATIENCE, core.store.read(&places)).await.unwrap_or_else(|_| Err(silent()))?;
    let unused = grants.iter().zip(tasks).filter(|(grant, task)| {
        !task.as_ref().is_some_and(|task| task.fence == grant.member.fence && task.state.is_in_flight())
    });
    let unused: Vec<(Member, Millis)> = unused.map(|(grant, _)| (grant.member, grant.at)).collect();
    let held: Vec<Held> = limiter.retract(&unused).await?.into_iter().flatten().collect();
    wake(core, &held);
    Ok(held.len())
}
