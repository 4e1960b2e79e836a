//! Executors that take only tasks of some kinds. The kind of a task stands in the store, not in the ready set, so that those who
//! take any pay nothing for it: only what was popped for one who does not is looked up. What is of another kind is
//! parked in the lane of that kind, out of the order, where whoever takes it finds it: an executor of that kind, one that takes
//! any, or after seconds the reconciler, which brings some of it back in case it was parked at another engine. Decides
//! nothing about a task; losing what is known here costs an interval.

pub(crate) mod state;

use super::{from_store, ready_set, terms::Terms};
use crate::{
    core::Core,
    pipeline::request::{LeaseRequest, Restrictions},
};
use punctual_contract::{
    Error,
    hot::{HotEntry, Lane},
};
use punctual_domain::name::Name;
use std::collections::BTreeMap;

/// Lanes of a queue that are looked at for that.
const LANES_MAX: usize = 500;
/// How much of one kind the reconciler brings back at once: if nobody takes it, it is parked again.
pub(super) const BROUGHT_BACK: usize = 100;
/// While nothing can be parked, so far is looked past what is of other kinds, or waits for its key.
const LOOKED_THROUGH: usize = 200;

/// How many are to be popped for `wanted`. `may_be_others`: not each that is popped may go.
pub(super) fn looks_through(core: &Core, may_be_others: bool, wanted: usize) -> usize {
    if may_be_others && core.from_store.is_away() { wanted.max(LOOKED_THROUGH) } else { wanted }
}

/// What was parked for somebody like the caller comes back into the order.
pub(super) async fn bring_back(
    core: &Core,
    request: &LeaseRequest,
    only: &Restrictions,
) -> Result<(), Error> {
    if core.from_store.is_away() {
        return Ok(());
    }
    let (queue, all) = (&request.queue, &core.limits.admissions.kinds);
    if only.kinds.is_some() && all.begin_look(queue, core.now()) {
        let lanes = core.hot.lanes(queue, Some(&Lane::Retries), LANES_MAX).await?;
        let kind = |it: (Lane, usize)| match it.0 {
            Lane::Kind(kind) => Name::new(&kind).ok(),
            Lane::Key(_) | Lane::Retries | Lane::Version(_) => None,
        };
        all.learn(queue, lanes.into_iter().filter_map(kind).collect());
    }
    let mut parked = all.of(queue);
    if let Some(kinds) = &only.kinds {
        parked.retain(|it| kinds.contains(it));
    }
    let mut result = Ok(());
    for kind in parked {
        match ready_set::unpark(core, queue, &Lane::Kind(kind.as_str().to_owned()), request.max).await {
            Ok(back) if back < request.max => all.remove(queue, &kind),
            Ok(_) => {}
            Err(error) => result = Err(error),
        }
    }
    result
}

/// Of what was popped, what the caller takes, at most `wanted`. The rest is parked, or offered again.
pub(super) async fn keep(
    core: &Core,
    terms: &Terms,
    only: &Restrictions,
    entries: Vec<HotEntry>,
    wanted: usize,
) -> Result<Vec<HotEntry>, Error> {
    let Some(kinds) = only.kinds.as_ref().filter(|_| !entries.is_empty()) else { return Ok(entries) };
    let places: Vec<_> = entries.iter().map(HotEntry::row).collect();
    let tasks = match core.store.read(&places).await {
        Ok(tasks) => tasks,
        Err(error) => {
            from_store::offer(core, entries).await?;
            return Err(error);
        }
    };
    let (mut kept, mut back) = (Vec::new(), Vec::new());
    let mut others = BTreeMap::<Name, Vec<HotEntry>>::new();
    for (entry, task) in entries.into_iter().zip(tasks) {
        match task {
            Some(task) if !kinds.contains(&task.ask.kind) => {
                others.entry(task.ask.kind).or_default().push(entry)
            }
            // Of what is gone its lease decides.
            _ if kept.len() < wanted => kept.push(entry),
            _ => back.push(entry),
        }
    }
    if core.from_store.is_away() {
        back.extend(others.into_values().flatten());
    } else if !others.is_empty() {
        park(core, terms, others).await;
    }
    if let Err(error) = from_store::offer(core, back).await {
        tracing::warn!(%error, "tasks of other kinds could not be offered again; that is repeated");
    }
    Ok(kept)
}

async fn park(core: &Core, terms: &Terms, others: BTreeMap<Name, Vec<HotEntry>>) {
    for (kind, entries) in others {
        let lane = Lane::Kind(kind.as_str().to_owned());
        if let Err(error) = core.hot.park(&lane, entries, terms.settings.retries).await {
            tracing::warn!(%error, "tasks of other kinds could not be parked; they are offered again later");
        }
        core.limits.admissions.kinds.add(&terms.queue, &kind);
    }
    // Somebody who takes them may wait here, or elsewhere.
    core.wake_queue(&terms.queue);
}
