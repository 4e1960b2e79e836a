//! Grants that come to nothing: their slots are revoked at once, where that is safe. Not every slot that was granted here may be freed.
//! An entry can be admitted twice: it was offered again, or Redis lost the hand-over in a failover. Both grants then name the same
//! attempt, which may be running. The limiter revokes a grant only if it was made at the given instant and no later call renewed it.
//! Must not free a slot that may be in use: `maintenance::reconcile` does that.
//!
//! It also checks grants that the limiter may have lost before their leases were committed. An engine that rebuilds
//! the limiter reads the leases in the store some time after the loss (`SLOTS_UNASKED_MS`). A lease that is committed
//! sooner is handed over without a question. After a slower lease the limiter is asked, and the attempt is delivered
//! only if its slot is still there. A loss after that answer is rebuilt with this lease.

use super::{admission_rules::next_attempt, admit::Since, freed::wake};
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

/// Splits stored leases of one queue into those whose places the limiter has, and the others. A limiter that does not
/// answer may have lost any of them.
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

/// Revokes the slots of entries of one queue that became no attempts, except those of a running attempt: the same
/// entry may have been admitted twice, and both name the same attempt. If that fails, this engine's reconciler
/// repeats it. `since` is the time of the grant, or `None` if they have no slots.
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

/// Revokes slots that this engine was granted and does not use. Returns how many were freed.
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
