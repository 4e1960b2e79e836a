//! Ends leases whose time is over: the attempt failed, and the task is retried or dead by its policy. Whoever held
//! the lease is refused from then on. One engine does it for all: the others would find the same.

use crate::{
    core::Core,
    options::STEP_LIMIT,
    pipeline::{
        admit,
        outcome::{change_of, judge, load_next_attempts},
    },
};
use punctual_contract::{
    Error,
    limiter::Member,
    store::{Applied, Change, Step},
};
use punctual_domain::{
    history::Note,
    outcome::Report,
    state::State,
    task::{Lease, Task},
    time::Millis,
};
use std::sync::Arc;

/// Leases ended.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    let mut ended = 0;
    while core.leads() {
        let tasks = core.store.leases_ended(now, STEP_LIMIT).await?;
        let more = tasks.len() == STEP_LIMIT;
        ended += end(core, tasks, now).await?;
        if !more {
            break;
        }
    }
    Ok(ended)
}

async fn end(core: &Arc<Core>, tasks: Vec<Task>, now: Millis) -> Result<usize, Error> {
    if tasks.is_empty() {
        return Ok(0);
    }
    let steps: Vec<Step> = tasks.iter().map(|it| step(core, it, now)).collect();
    let events: Vec<_> = steps.iter().map(|it| it.change.event()).collect();
    let applied = core.store.apply(steps, now).await?;
    let (mut again, mut over) = (Vec::new(), Vec::new());
    for ((task, event), _) in tasks.iter().zip(events).zip(applied).filter(|(_, it)| *it == Applied::Moved) {
        core.count_event(event, Some(task));
        again.push(task.place);
        over.push(Member { id: task.place.id, fence: task.fence });
    }
    core.meters.leases_ended(again.len());
    load_next_attempts(core, &again).await;
    admit::free(core, &over).await;
    Ok(again.len())
}

fn step(core: &Core, task: &Task, now: Millis) -> Step {
    if task.state == State::Dispatched && task.lease.as_ref().is_some_and(Lease::is_ahead) {
        // Its engine died before anybody had it, as far as is known.
        let note = Note { reason: Some("not_handed_over".to_owned()), ..core.note() };
        return Step { place: task.place, fence: Some(task.fence), change: Change::Release, note };
    }
    let (report, error) = what_happened(task);
    let verdict = judge(report, task, now);
    let note = Note {
        by: core.options.name.clone(),
        due_at: verdict.due_at,
        reason: Some(verdict.reason.to_owned()),
        error: Some(error),
    };
    let change = change_of(core, verdict, None, Some(&task.ask.queue), now);
    Step { place: task.place, fence: Some(task.fence), change, note }
}

fn what_happened(task: &Task) -> (Report, String) {
    let lease = task.lease.as_ref();
    let executor = lease.map_or("", |it| it.executor.as_str());
    let limit = task.ask.timeout_ms.zip(lease).map(|(timeout_ms, it)| it.since.plus(timeout_ms));
    if limit.zip(lease).is_some_and(|(limit, it)| it.until >= limit) {
        let timeout_ms = task.ask.timeout_ms.unwrap_or_default();
        return (
            Report::TimedOut,
            format!("executor {executor:?} did not finish within timeout_ms = {timeout_ms}"),
        );
    }
    (Report::LeaseExpired, format!("executor {executor:?} gave no sign of life before its lease ended"))
}
