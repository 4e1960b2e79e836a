//! Makes due tasks of queues that are scanned ready in the store, and then has executors of this engine served with them: the store
//! decides between that and a cancel. Must not touch a queue that is not scanned.

use crate::{core::Core, pipeline::line::serve};
use hashbrown::HashMap;
use punctual_contract::{
    Error,
    hot::HotEntry,
    store::{Applied, Change, Step},
};
use punctual_domain::{name::QueueKey, state::State, time::Millis};
use std::sync::Arc;

/// Moves due tasks to `ready` in the store, in one transaction. Returns those that are ready there now, each
/// with whether this call moved it.
pub(super) async fn win(core: &Arc<Core>, found: Vec<HotEntry>) -> Result<Vec<(HotEntry, bool)>, Error> {
    let now = core.now();
    let mut due = core.maintenance.unsent.sort_out(found, now);
    {
        let table = core.live.lock();
        due.retain(|entry| entry.due_at <= now && table.is_left_to_store(entry));
    }
    if due.is_empty() {
        return Ok(Vec::new());
    }
    let plans: Vec<Vec<Step>> = due.iter().map(|entry| steps(core, entry, now)).collect();
    let steps: Vec<Step> = plans.iter().flatten().cloned().collect();
    let mut applied =
        if steps.is_empty() { Vec::new() } else { core.store.apply(steps, now).await? }.into_iter();
    let mut won = Vec::new();
    for (entry, plan) in due.into_iter().zip(plans) {
        // It is fired by the last of its steps.
        let last = applied.by_ref().take(plan.len()).last();
        if plan.is_empty() || last.is_some_and(|last| last == Applied::Moved) {
            let fired_at = if plan.is_empty() { entry.fired_at } else { now };
            won.push((HotEntry { fired_at, state: State::Ready, ..entry }, !plan.is_empty()));
        }
    }
    Ok(won)
}

/// The steps that make the task `ready` in the store.
fn steps(core: &Core, entry: &HotEntry, now: Millis) -> Vec<Step> {
    let step = |change: Change| Step {
        place: entry.row(),
        fence: Some(entry.fence),
        change,
        note: core.note(),
        fired_at: None,
        known: None,
    };
    let fire = Change::Fire { fired_at: now };
    match entry.state {
        State::Ready => Vec::new(),
        State::Dispatching => vec![step(fire)],
        _ => vec![step(Change::Claim), step(fire)],
    }
}

/// Adds the first `most` ready tasks to their lines; the store has the others. Returns how many have fired
/// only now, according to their flags.
pub(super) fn hold(core: &Core, won: &[(HotEntry, bool)], most: usize) -> usize {
    let mut queues: HashMap<Arc<QueueKey>, (usize, Vec<i64>)> = HashMap::new();
    for (entry, is_new) in won {
        let has_fired = {
            let mut table = core.live.lock();
            // It has fired here, and was counted, before.
            let has_fired = table.unpersisted_at(entry.place.id, entry.fence).is_some();
            table.persisted_until(entry.place.id, entry.fence);
            has_fired
        };
        let (count, lateness_ms) = queues.entry(Arc::clone(&entry.queue)).or_default();
        *count += 1;
        lateness_ms.extend((*is_new && !has_fired).then(|| entry.fired_at.since(entry.due_at)));
    }
    let fired = won.iter().filter(|(_, is_new)| *is_new).count();
    serve(core, &won.iter().take(most).map(|(entry, _)| entry.clone()).collect::<Vec<_>>());
    core.meters.fired_from_store(fired);
    for (queue, (count, lateness_ms)) in queues {
        core.meters.queue(&queue).fired(&lateness_ms);
        core.arrived(&queue, count);
    }
    fired
}
