//! Slots that attempts gave up, and which queues are woken for them. When a slot of a shared limit is freed, only queues whose tasks
//! that limit deferred are woken. Otherwise a queue with idle executors would be searched whenever another queue's attempt ends,
//! and would pay for another tenant's load. Must not decide which task goes next: the woken queue asks the limiter.

pub(crate) mod state;

use super::{admission_rules::AdmissionRules, line};
use crate::{core::Core, maintenance::reconcile};
use hashbrown::{HashMap, HashSet};
use punctual_contract::{
    Limiter,
    hot::ParkReason,
    limiter::{Held, Member},
};
use punctual_domain::{limits::Scope, name::QueueKey};
use std::sync::Arc;

/// An attempt that has ended, and its queue, if the store returned it.
pub(crate) type EndedOf = (Member, Option<QueueKey>);

/// These attempts have ended in the store: releases their slots and wakes the waiters. If it fails, this
/// engine's reconciler repeats it; if the engine dies before that, another's finds it.
pub(crate) async fn free(core: &Arc<Core>, ended: Vec<EndedOf>) {
    let is_bounded = core.limits.admissions.bounds.are_in_use();
    release(core, ended, is_bounded).await;
}

/// Frees like `free`, for leases that know the bound of their executor. The caller that accepted the outcome frees
/// the executor's slot (`Engine::give_up_places`), so outcomes of other executors cost nothing.
pub(crate) async fn free_what_is_set(core: &Arc<Core>, ended: Vec<EndedOf>) {
    release(core, ended, false).await;
}

async fn release(core: &Arc<Core>, ended: Vec<EndedOf>, is_bounded: bool) {
    let (known, stored) = (core.settings.known(), core.stored_limiter());
    let is_stored = |queue: &Option<QueueKey>| {
        stored.is_some() && queue.as_ref().is_some_and(|queue| known.is_scanned(queue))
    };
    let (scanned, others): (Vec<EndedOf>, Vec<EndedOf>) =
        ended.into_iter().partition(|(_, queue)| is_stored(queue));
    if let Some(stored) = stored {
        let unknown = others.iter().filter(|(_, queue)| queue.is_none() && !known.scanned.is_empty());
        release_from(core, stored, scanned.into_iter().chain(unknown.cloned()).collect()).await;
    }
    let may_hold = is_bounded || core.limits.admissions.has_limits(&known, stored.is_none());
    if !may_hold {
        return;
    }
    if !core.store_fallback.hides_limits() {
        return release_from(core, &core.limits.limiter, others).await;
    }
    // The limiter may still hold them when it returns. It grants nothing meanwhile, so they are at most as
    // many as there are slots.
    let holds = |queue: &Option<QueueKey>| {
        let is_limited = |queue: &QueueKey| AdmissionRules::of(core, &Arc::new(queue.clone())).is_limited;
        is_bounded || queue.as_ref().is_none_or(is_limited)
    };
    let members = others.into_iter().filter(|(_, queue)| holds(queue)).map(|(member, _)| member);
    reconcile::gives_up_later(core, &core.limits.limiter, members.collect());
}

async fn release_from(core: &Arc<Core>, limiter: &Arc<dyn Limiter>, ended: Vec<EndedOf>) {
    if ended.is_empty() {
        return;
    }
    let members: Vec<Member> = ended.into_iter().map(|(member, _)| member).collect();
    match limiter.release(&members).await {
        Ok(held) => wake(core, &held.into_iter().flatten().collect::<Vec<_>>()),
        Err(error) => {
            tracing::warn!(%error, "slots could not be given up; it will be repeated");
            reconcile::gives_up_later(core, limiter, members);
        }
    }
}

/// These have given up their places.
pub(crate) fn wake(core: &Core, freed: &[Held]) {
    let (mut queues, mut lanes) =
        (HashMap::<QueueKey, usize>::new(), HashMap::<(QueueKey, ParkReason), usize>::new());
    let mut is_wide = false;
    for scope in freed.iter().flat_map(|held| &held.scopes) {
        match scope {
            Scope::Everything | Scope::Namespace(_) => is_wide = true,
            Scope::Queue(queue) => *queues.entry(queue.clone()).or_default() += 1,
            Scope::Key(queue, key) => {
                *lanes.entry((queue.clone(), ParkReason::Key(key.clone()))).or_default() += 1;
            }
            Scope::Retries(queue) => *lanes.entry((queue.clone(), ParkReason::Retries)).or_default() += 1,
            Scope::Executor(..) => core.limits.admissions.bounds.wake(scope),
        }
    }
    for ((queue, lane), count) in lanes {
        line::unpark(core, &queue, &lane, count);
        core.announce_freed(&Arc::new(queue), Some(lane), count);
    }
    let woken: HashSet<QueueKey> = queues.keys().cloned().collect();
    for (queue, count) in queues {
        let queue = Arc::new(queue);
        core.announce_freed(&queue, None, count);
        core.arrived(&queue, count);
    }
    if is_wide {
        // Other queues may have waited for the same.
        let others =
            core.limits.admissions.deferred.queues().into_iter().filter(|queue| !woken.contains(&**queue));
        others.for_each(|queue| core.arrivals.wake_one(&queue));
    }
}
