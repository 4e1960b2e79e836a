//! Slots of attempts that this engine has handed over while their database is unavailable: no row shows them
//! in flight. The reconciling engine would free their slots, so each engine renews the grants of its own
//! attempts every second. If an engine dies, its slots are freed ten seconds later, like those of any grant
//! without a lease. Must not give a slot to an attempt that has ended.

use super::{Looks, NO_GRACE_MS, free_the_gone, scopes_of};
use crate::{core::Core, live::ForLaterLease, options::STEP_LIMIT, parts, pipeline::bounds::Bounded};
use hashbrown::HashSet;
use punctual_contract::{
    Error,
    hot::HotEntry,
    limiter::{Held, Member},
};
use punctual_domain::{name::Name, time::Millis};
use std::sync::Arc;
use tokio::time::timeout;

fn unwritten(core: &Core) -> HashSet<Member> {
    let member = |entry: &HotEntry| Member { id: entry.place.id, fence: entry.fence };
    core.live.lock().unwritten().map(|(entry, _)| member(entry)).collect()
}

/// The slots that they should hold by the settings: the limiter may have lost its grants. Bounds of executors
/// are included only if the registry can be read.
pub(super) async fn places(core: &Core, looks: Looks<'_>, now: Millis) -> Vec<Held> {
    let all: Vec<(HotEntry, String, Millis)> = {
        let table = core.live.lock();
        let of = |(entry, lease): (&HotEntry, &ForLaterLease)| {
            (entry.clone(), lease.executor.clone(), lease.until)
        };
        table.unwritten().map(of).collect()
    };
    if all.is_empty() {
        return Vec::new();
    }
    let bounded = bounded(core, all.iter().map(|(entry, ..)| &entry.queue.namespace)).await;
    let place = |(entry, executor, until): (HotEntry, String, Millis)| {
        let executor = bounded.scope_of(&entry.queue.namespace, &executor);
        let key = entry.demands().concurrency_key.as_deref();
        let scopes = scopes_of(core, looks, &entry.queue, (entry.attempt, key), executor)?;
        let member = Member { id: entry.place.id, fence: entry.fence };
        Some(Held { member, place: entry.row(), granted_at: now, until, scopes })
    };
    all.into_iter().filter_map(place).collect()
}

async fn bounded(core: &Core, namespaces: impl Iterator<Item = &Name>) -> Bounded {
    let mut bounded = Bounded::default();
    if !core.limits.admissions.bounds.are_in_use() {
        return bounded;
    }
    let read = timeout(parts::PATIENCE, bounded.read_namespaces(core, namespaces)).await;
    if let Ok(Err(error)) = read {
        tracing::debug!(%error, "bounds of executors cannot be read; their places are restored later");
    }
    bounded
}

/// Renews the grants in the limiter of unscanned queues: scanned queues hand nothing over without the store.
pub(super) async fn keep(core: &Arc<Core>, looks: Looks<'_>, now: Millis) -> Result<(), Error> {
    let members: Vec<Member> = unwritten(core).into_iter().collect();
    if members.is_empty() {
        return Ok(());
    }
    let (limiter, mut kept) = (looks.limiter, Vec::<Held>::new());
    for some in members.chunks(STEP_LIMIT) {
        let mut held = limiter.find(some).await?;
        held.iter_mut().for_each(|held| held.granted_at = now);
        if !held.is_empty() {
            limiter.restore(held.clone()).await?;
        }
        kept.extend(held);
    }
    let known: HashSet<Member> = kept.iter().map(|held| held.member).collect();
    if known.len() < members.len() {
        let mut lost = places(core, looks, now).await;
        lost.retain(|held| !known.contains(&held.member));
        for some in lost.chunks(STEP_LIMIT) {
            limiter.restore(some.to_vec()).await?;
        }
        kept.extend(lost);
    }
    // An attempt whose lease was written meanwhile may have ended meanwhile, and released the slot that it
    // now holds again.
    let unwritten = unwritten(core);
    kept.retain(|held| !unwritten.contains(&held.member));
    free_the_gone(core, looks, &kept, NO_GRACE_MS, now).await?.failed.map_or(Ok(()), Err)
}
