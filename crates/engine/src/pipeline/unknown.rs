//! Leases of which whoever they were for has not heard: this engine asked for them and the answer was lost, or they were
//! made and could not be given back. If they were made they are given back, so that no attempt is spent that no executor had. Losing what is kept here costs
//! such an attempt, when its lease ends. Must not touch a lease that another call has made of the same entry.

pub(crate) mod state;

use crate::{core::Core, parts, pipeline::hand_over};
use punctual_contract::Error;
use punctual_domain::{place::TaskRef, task::Task, time::Millis};
use state::Unknown;
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(1);

/// Why such a lease is given back.
pub(crate) const ANSWER_LOST: &str = "answer_lost";

/// Gives back those that were made. Leases given back.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    let (mut released, mut result) = (0, Ok(()));
    for (_, some) in parts::split(core, core.unknown.take_due(now), |it| it.place.partition) {
        let places: Vec<TaskRef> = some.iter().map(|it| it.place).collect();
        let silent = || Error::may_have_happened("look at leases", "no answer");
        let asked = timeout(PATIENCE, core.store.read(&places)).await;
        match asked.unwrap_or_else(|_| Err(silent())) {
            Ok(tasks) => released += sort_out(core, some, tasks, now).await,
            Err(error) => {
                core.unknown.later(some, now);
                result = Err(error);
            }
        }
    }
    result.map(|()| released)
}

async fn sort_out(core: &Arc<Core>, some: Vec<Unknown>, tasks: Vec<Option<Task>>, now: Millis) -> usize {
    let (mut made, mut not_yet) = (Vec::new(), Vec::new());
    for (it, task) in some.into_iter().zip(tasks) {
        match task {
            Some(task) if it.is(&task) => made.push(it),
            Some(task) if task.fence < it.fence => not_yet.push(it),
            // Another's, or at its end.
            _ => {}
        }
    }
    core.unknown.later(not_yet, now);
    if made.is_empty() {
        return 0;
    }
    let leases = made.iter().map(|it| (it.place, it.fence)).collect();
    match hand_over::release(core, leases, ANSWER_LOST).await {
        Ok(count) => count,
        Err(error) => {
            tracing::warn!(%error, "leases that nobody heard of could not be given back; it will be repeated");
            core.unknown.later(made, now);
            0
        }
    }
}
