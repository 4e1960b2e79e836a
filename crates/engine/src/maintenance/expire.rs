//! Buries fired tasks that were not started in time: past their deadline, or pending for longer than their queue
//! allows. Runs when an executor requests tasks. Tasks that no executor requests are buried when `refill` checks
//! overdue tasks.

use crate::{core::Core, for_later::hand_over as without_store, parts, pipeline::hand_over::grants::forget};
use punctual_contract::{
    hot::HotEntry,
    store::{Applied, Change, Step},
};
use punctual_domain::{name::QueueKey, time::Millis};
use std::sync::Arc;

/// Why a task was late: in one word, and for people.
type Reason = (&'static str, &'static str);

fn is_late(core: &Core, entry: &HotEntry, now: Millis) -> Option<Reason> {
    if now > entry.deadline_at {
        return Some(("deadline", "not started by its deadline"));
    }
    let timeout_ms = core.settings.queue(&entry.queue).pending_timeout_ms?;
    let is_over = entry.fired_at != Millis::ZERO && now.since(entry.fired_at) > timeout_ms;
    is_over.then_some(("pending_timeout", "not started within the queue's pending_timeout_ms"))
}

/// Buries tasks in the lines here that executors have not requested in time.
pub(crate) async fn look_at_served(core: &Arc<Core>) {
    let now = core.now();
    let has_timeout = |queue: &QueueKey| core.settings.queue(queue).pending_timeout_ms.is_some();
    let late = {
        let mut table = core.live.lock();
        let mut late = table.take_past_deadline(now);
        late.extend(table.serve_no_more(has_timeout, |entry| is_late(core, entry, now).is_some()));
        late
    };
    if !late.is_empty() {
        drop(keep_those_in_time(core, late).await);
    }
}

/// Keeps the tasks that may still start, and buries the others. Those of a failing database are set aside, except
/// those that are handed over without it.
pub(crate) async fn keep_those_in_time(core: &Arc<Core>, entries: Vec<HotEntry>) -> Vec<HotEntry> {
    let now = core.now();
    let entries = parts::keep_answering(core, without_store::keep_free(core, entries));
    let (mut in_time, mut late) = (Vec::with_capacity(entries.len()), Vec::new());
    for entry in entries {
        match is_late(core, &entry, now) {
            Some(reason) => late.push((entry, reason)),
            None => in_time.push(entry),
        }
    }
    parts::apart(core, late, |pair| pair.0.place.partition, move |core, late| bury(core, late, now)).await;
    without_store::keep_those_that_can_go(core, in_time)
}

async fn bury(core: Arc<Core>, late: Vec<(HotEntry, Reason)>, now: Millis) {
    let core = &core;
    let step = |(entry, (reason, error)): &(HotEntry, Reason)| {
        let mut note = core.note();
        note.reason = Some((*reason).to_owned());
        note.error = Some((*error).to_owned());
        let keep_until = now.plus(core.keep(Some(&entry.queue)).dead_ms);
        Step {
            place: entry.row(),
            fence: Some(entry.fence),
            change: Change::Expire { keep_until },
            note,
            fired_at: None,
            known: None,
        }
    };
    let applied = core.store.apply(late.iter().map(step).collect(), now).await;
    let entries: Vec<HotEntry> = late.into_iter().map(|pair| pair.0).collect();
    match applied {
        Ok(applied) => {
            for (entry, _) in entries.iter().zip(applied).filter(|(_, stepped)| *stepped == Applied::Moved) {
                core.meters.queue(&entry.queue).dead(1);
                core.ends.ended(entry.row());
            }
            forget(core, &entries);
        }
        Err(error) => {
            // If they were offered immediately, they would fail again immediately, as long as an executor
            // waits.
            tracing::warn!(%error, "expired tasks could not be buried, and are set aside until their database answers");
            parts::set_aside(core, &entries);
        }
    }
}
