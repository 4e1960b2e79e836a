//! Attempts of tasks whose payload is lost. They are spent like failed ones, so that the task is dead after
//! the last one and is listed among the dead letters with its reason, instead of being retried forever.
//! Crash, or an unavailable store: the lease expires, which spends the attempt too. Must never be used for a
//! payload that may only be unreachable.

use crate::{
    core::Core,
    pipeline::{
        freed,
        outcome::{change_of, judge, load_next_attempts},
    },
};
use punctual_contract::{
    Error,
    limiter::Member,
    store::{Applied, Assignment, Step},
};
use punctual_domain::{history::Note, outcome::Report, task::Task};
use std::sync::Arc;

/// Spends the attempts of leased tasks that no executor has yet, each with the loss.
pub(super) async fn spend(core: &Arc<Core>, lost: Vec<(Assignment, String)>) {
    let Some((_, problem)) = lost.first() else { return };
    tracing::error!(tasks = lost.len(), problem, "long payloads are lost; their tasks spend their attempts");
    if let Err(error) = try_spend(core, lost).await {
        tracing::warn!(%error, "leases of tasks whose payload is lost run out");
    }
}

async fn try_spend(core: &Arc<Core>, lost: Vec<(Assignment, String)>) -> Result<(), Error> {
    let places: Vec<_> = lost.iter().map(|pair| pair.0.place).collect();
    let tasks = core.store.read(&places).await?;
    let held = tasks.into_iter().flatten().zip(lost).filter(|(task, (lease, _))| task.fence == lease.fence);
    let (tasks, steps): (Vec<Task>, Vec<Step>) = held
        .map(|(task, (_, problem))| {
            let step = step(core, &task, problem);
            (task, step)
        })
        .unzip();
    let events: Vec<_> = steps.iter().map(|step| step.change.event()).collect();
    let applied = core.store.apply(steps, core.now()).await?;
    let (mut again, mut over) = (Vec::new(), Vec::new());
    for ((task, event), _) in tasks.iter().zip(events).zip(applied).filter(|pair| pair.1 == Applied::Moved) {
        core.count_event(event, Some(task));
        core.ends.ended(task.place);
        again.push(task.place);
        over.push((Member { id: task.place.id, fence: task.fence }, Some(task.ask.queue.clone())));
    }
    load_next_attempts(core, &again).await;
    freed::free(core, over).await;
    Ok(())
}

fn step(core: &Core, task: &Task, problem: String) -> Step {
    // A lease may be ahead of its instant: the next attempt counts from there.
    let verdict = judge(Report::PayloadLost, task, core.now().max(task.due_at));
    let note = Note {
        by: core.options.name.clone(),
        due_at: verdict.due_at,
        reason: Some(verdict.reason.to_owned()),
        error: Some(format!("its payload is lost: {problem}")),
    };
    let change = change_of(core, verdict, None, Some(&task.ask.queue), core.now());
    Step { place: task.place, fence: Some(task.fence), change, note, fired_at: None, known: None }
}
