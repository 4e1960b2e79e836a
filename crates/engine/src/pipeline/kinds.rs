//! Executors that accept only tasks of some kinds. An entry names its kind. A task of another kind that was
//! popped for such an executor is parked in the lane of its kind. An executor of that kind, or of any kind,
//! finds it there. The reconciler brings some back after seconds, in case they were parked at another engine.
//! Decides nothing about a task; losing this memory costs an interval.

pub(crate) mod state;

use super::{admission_rules::AdmissionRules, line};
use crate::{
    core::Core,
    pipeline::request::{LeaseRequest, Restrictions},
};
use punctual_contract::{
    Error,
    hot::{HotEntry, ParkReason},
};
use punctual_domain::{name::Name, place::TaskRef};
use std::{collections::BTreeMap, sync::Arc};

/// The maximum number of lanes of a queue that are searched.
const LANES_MAX: usize = 500;
/// The number of tasks of one kind that the reconciler brings back at once; if no executor leases them, they are
/// parked again.
pub(super) const BROUGHT_BACK: usize = 100;

/// Brings back tasks that were parked for executors like the caller.
pub(super) fn bring_back(core: &Core, request: &LeaseRequest, only: &Restrictions) {
    let (queue, all) = (&request.queue, &core.limits.admissions.kinds);
    if only.kinds.is_some() && all.begin_look(queue, core.now()) {
        let lanes = line::lanes(core, queue, Some(&ParkReason::Retries), LANES_MAX);
        let kind = |pair: (ParkReason, usize)| match pair.0 {
            ParkReason::Kind(kind) => Name::new(&kind).ok(),
            ParkReason::Key(_) | ParkReason::Retries | ParkReason::Version(_) => None,
        };
        all.learn(queue, lanes.into_iter().filter_map(kind).collect());
    }
    let mut parked = all.of(queue);
    if let Some(kinds) = &only.kinds {
        parked.retain(|name| kinds.contains(name));
    }
    for kind in parked {
        let lane = ParkReason::Kind(kind.as_str().to_owned());
        if line::unpark(core, queue, &lane, request.max) < request.max {
            all.remove(queue, &kind);
        }
    }
}

/// Keeps the popped tasks that the caller accepts, at most `wanted`. The others are parked, or offered again.
pub(super) async fn keep(
    core: &Core,
    terms: &AdmissionRules,
    only: &Restrictions,
    entries: Vec<HotEntry>,
    wanted: usize,
) -> Result<Vec<HotEntry>, Error> {
    let Some(kinds) = only.kinds.as_ref().filter(|_| !entries.is_empty()) else { return Ok(entries) };
    let entries = with_kinds(core, entries).await?;
    let (mut kept, mut back) = (Vec::new(), Vec::new());
    let mut others = BTreeMap::<Name, Vec<HotEntry>>::new();
    for entry in entries {
        match entry.kind().cloned() {
            Some(kind) if !kinds.contains(&kind) => others.entry(kind).or_default().push(entry),
            // A deleted task is decided by its lease.
            _ if kept.len() < wanted => kept.push(entry),
            _ => back.push(entry),
        }
    }
    park(core, terms, others);
    line::serve(core, &back);
    Ok(kept)
}

/// Entries of an older release do not say their kind: their rows do. On an error all are offered again.
async fn with_kinds(core: &Core, mut entries: Vec<HotEntry>) -> Result<Vec<HotEntry>, Error> {
    let (nths, places): (Vec<usize>, Vec<TaskRef>) = entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| entry.kind().is_none())
        .map(|(nth, entry)| (nth, entry.row()))
        .unzip();
    if places.is_empty() {
        return Ok(entries);
    }
    match core.store.read(&places).await {
        Ok(tasks) => {
            for (nth, task) in nths.into_iter().zip(tasks) {
                if let Some((entry, task)) = entries.get_mut(nth).zip(task) {
                    Arc::make_mut(&mut entry.details).kind = Some(task.ask.kind);
                }
            }
            Ok(entries)
        }
        Err(error) => {
            line::serve(core, &entries);
            Err(error)
        }
    }
}

fn park(core: &Core, terms: &AdmissionRules, others: BTreeMap<Name, Vec<HotEntry>>) {
    let are_some = !others.is_empty();
    for (kind, entries) in others {
        let lane = ParkReason::Kind(kind.as_str().to_owned());
        line::park(core, &lane, &entries, terms.settings.retries);
        core.limits.admissions.kinds.add(&terms.queue, &kind);
    }
    if are_some {
        // An executor that accepts them may wait here, or elsewhere.
        core.wake_queue(&terms.queue);
    }
}
