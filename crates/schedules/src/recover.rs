//! Finds what an engine left behind that died, or could not go on: runs that stand in the history and whose task was not
//! made. And forgets old history. What cannot be made now is put off, so that it stands in nobody's way.

use crate::{
    make::{self, Made},
    planner::Inner,
};
use punctual_contract::{
    Error as BackendError,
    schedules::{NewRun, Run, RunKey, StoredSchedule},
};
use punctual_domain::time::Millis;

const FORGET_BATCH: usize = 1_000;
/// Batches of one run: the next one goes on.
const BATCHES_MAX: usize = 50;

/// How many were made.
pub(crate) async fn run_once(inner: &Inner, now: Millis) -> Result<usize, BackendError> {
    {
        let mut last = inner.recovered_at.lock();
        if last.is_some_and(|it| (0..inner.options.recover_interval_ms).contains(&now.since(it))) {
            return Ok(0);
        }
        *last = Some(now);
    }
    let made = make_left(inner, now).await;
    forget(inner, now).await?;
    made
}

async fn make_left(inner: &Inner, now: Millis) -> Result<usize, BackendError> {
    let (before, batch) = (now.plus(-inner.options.recover_after_ms), inner.options.batch);
    let (mut made, mut failed) = (0, None);
    for _ in 0..BATCHES_MAX {
        let found = inner.store.unsettled_runs(None, before, batch).await?;
        let is_last = found.len() < batch;
        // What is to be taken back is made by whoever takes it back, so that nobody makes it later.
        let (left, waiting): (Vec<_>, Vec<_>) = found.into_iter().partition(|(stored, _)| {
            !stored.progress.takes_back && inner.engine.closed(&stored.key.namespace).is_none()
        });
        let mut put_off: Vec<RunKey> = waiting.into_iter().map(|(_, run)| run.key).collect();
        let left: Vec<(StoredSchedule, NewRun)> =
            left.into_iter().map(|(stored, run)| (stored, again(&run))).collect();
        if !left.is_empty() {
            tracing::info!(runs = left.len(), "runs of schedules were left behind; they are made now");
        }
        let answers = match make::make_some(inner, &left).await {
            Ok(answers) => answers,
            Err(error) => {
                failed = failed.or(Some(error));
                left.iter().map(|_| Made::NotNow).collect()
            }
        };
        made += make::settle(inner, &left, &answers).await?;
        let not_now = left.iter().zip(&answers).filter(|it| matches!(it.1, Made::NotNow));
        put_off.extend(not_now.map(|((stored, run), _)| run.key(stored.id)));
        if !put_off.is_empty() {
            inner.store.put_off_runs(put_off, now).await?;
        }
        if is_last {
            break;
        }
    }
    failed.map_or(Ok(made), Err)
}

async fn forget(inner: &Inner, now: Millis) -> Result<(), BackendError> {
    for _ in 0..BATCHES_MAX {
        let before = now.plus(-inner.options.keep_runs_ms);
        if inner.store.forget_runs(before, FORGET_BATCH).await? < FORGET_BATCH {
            break;
        }
    }
    Ok(())
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
