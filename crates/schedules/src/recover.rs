//! Finds what an engine left behind that died, or could not go on: runs that stand in the history and whose task was not
//! made. And forgets old history.

use crate::{make, planner::Inner};
use punctual_contract::{
    Error as BackendError,
    schedules::{NewRun, Run, StoredSchedule},
};
use punctual_domain::time::Millis;

/// Runs of one look.
const BATCH: usize = 1_000;
const FORGET_BATCH: usize = 1_000;

/// How many were made.
pub(crate) async fn run_once(inner: &Inner, now: Millis) -> Result<usize, BackendError> {
    {
        let mut last = inner.recovered_at.lock();
        if last.is_some_and(|it| (0..inner.options.recover_interval_ms).contains(&now.since(it))) {
            return Ok(0);
        }
        *last = Some(now);
    }
    let before = now.plus(-inner.options.recover_after_ms);
    let found = inner.store.unsettled_runs(None, before, BATCH).await?;
    // What is to be taken back is made by whoever takes it back, so that nobody makes it later.
    let left: Vec<(StoredSchedule, NewRun)> = found
        .into_iter()
        .filter(|it| !it.0.progress.takes_back && inner.engine.closed(&it.0.key.namespace).is_none())
        .map(|(stored, run)| (stored, again(&run)))
        .collect();
    let mut made = 0;
    if !left.is_empty() {
        tracing::info!(runs = left.len(), "runs of schedules were left behind; they are made now");
        made = make::make(inner, left).await?;
    }
    inner.store.forget_runs(now.plus(-inner.options.keep_runs_ms), FORGET_BATCH).await?;
    Ok(made)
}

/// As it was committed.
pub(crate) fn again(run: &Run) -> NewRun {
    NewRun {
        kind: run.key.kind,
        at: run.key.at,
        execute_at: run.execute_at,
        revision: run.key.revision,
        number: run.number,
        outcome: run.outcome,
        reason: run.reason.clone(),
    }
}
