//! Leases that never reached their executor: the answer to this engine was lost, or they were made and could
//! not be returned (`live::doubt` has them). If they were made, they are returned, so that no attempt is
//! spent without an executor. Losing this memory costs such an attempt, when its lease expires. Must not
//! touch a lease that another call has made of the same entry.

use crate::{
    core::Core, live::DoubtfulLease, options::STEP_LIMIT, parts, pipeline::hand_over::release::release,
};
use punctual_contract::Error;
use punctual_domain::{place::TaskRef, task::Task, time::Millis};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(1);

/// The reason for returning such a lease.
pub(crate) const ANSWER_LOST: &str = "answer_lost";

/// Returns the leases that were made, and their number.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    let (mut released, mut result) = (0, Ok(()));
    let due = core.live.lock().doubts_due(now, STEP_LIMIT);
    for (_, some) in parts::split(core, due, |lease| lease.place.partition) {
        let places: Vec<TaskRef> = some.iter().map(|lease| lease.place).collect();
        let silent = || Error::may_have_happened("look at leases", "no answer");
        let asked = timeout(PATIENCE, core.store.read(&places)).await;
        match asked.unwrap_or_else(|_| Err(silent())) {
            Ok(tasks) => released += sort_out(core, some, tasks).await,
            // They are looked at again.
            Err(error) => result = Err(error),
        }
    }
    result.map(|()| released)
}

async fn sort_out(core: &Arc<Core>, some: Vec<DoubtfulLease>, tasks: Vec<Option<Task>>) -> usize {
    let now = core.now();
    let (mut made, mut resolved) = (Vec::new(), Vec::new());
    for (lease, task) in some.into_iter().zip(tasks) {
        match task {
            Some(task) if lease.is_of(&task) => made.push(lease),
            // It may still be made, so it is looked at again. While the store does not answer, the result is
            // unknown.
            Some(task) if task.fence < lease.fence && !lease.is_over(now) => {}
            // Another call's lease, or an ended one.
            _ => resolved.push(lease),
        }
    }
    core.live.lock().doubts_resolved(&resolved);
    if made.is_empty() {
        return 0;
    }
    let leases = made.iter().map(|lease| (lease.place, lease.fence)).collect();
    match release(core, leases, ANSWER_LOST).await {
        Ok(count) => {
            core.live.lock().doubts_resolved(&made);
            count
        }
        Err(error) => {
            tracing::warn!(%error, "leases that reached no caller could not be released; this will be retried");
            0
        }
    }
}
