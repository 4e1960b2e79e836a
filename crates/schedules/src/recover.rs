//! Recovers the work of engines that died or could not continue: created runs in the history whose task was
//! not made. Late ones are judged by the schedule's policy for missed runs. Also deletes old history. A run
//! that cannot be made now is postponed, so that it blocks no other.

use crate::{
    make::{self, Made, OwnedRun},
    marked,
    planner::{PlannerState, has_passed},
    revoke,
};
use punctual_contract::{
    Error as BackendError,
    schedules::{NewRun, Run, RunKey, RunQuery, StoredSchedule},
};
use punctual_domain::{
    schedule::{LATE_AFTER_MS, Missed, Outcome, RunKind},
    time::Millis,
};
use std::{collections::HashMap, sync::Arc};

const MISSED: &str = "its task could not be made in time";
const AT_REST: &str = "the schedule was paused or disabled before its task could be made";
/// The reason for a run whose revoking engine has died before the line gave the reason.
const TAKEN_BACK: &str = "it was revoked before its task was created";
/// The number of lines after a late run that are searched for a later one.
const LATER_MAX: usize = 100;

const FORGET_BATCH: usize = 1_000;
/// Batches of one run: the next one continues.
const BATCHES_MAX: usize = 50;

/// A run without a task that fires, and its outcome.
type Withdrawn = (Arc<StoredSchedule>, Run, Outcome);

/// Creates missing tasks of runs. Returns their number.
pub(crate) async fn run_once(inner: &PlannerState, now: Millis) -> Result<usize, BackendError> {
    if !has_passed(&inner.recovered_at, inner.options.recover_interval_ms, now) {
        return Ok(0);
    }
    let made = make_left(inner, now).await;
    forget(inner, now).await?;
    made
}

async fn make_left(inner: &PlannerState, now: Millis) -> Result<usize, BackendError> {
    let (before, batch) = (now.plus(-inner.options.recover_after_ms), inner.options.batch);
    let (mut made, mut failed) = (0, None);
    for _ in 0..BATCHES_MAX {
        let found = inner.store.unsettled_runs(None, before, batch).await?;
        let is_last = found.len() < batch;
        // Revoked runs are made by the engine that revokes them, so that no other makes them later.
        let (left, waiting): (Vec<_>, Vec<_>) = found.into_iter().partition(|(stored, _)| {
            !stored.progress.takes_back && inner.engine.closed(&stored.key.namespace).is_none()
        });
        let mut put_off: Vec<RunKey> = waiting.into_iter().map(|(_, run)| run.key).collect();
        if !left.is_empty() {
            tracing::info!(runs = left.len(), "runs of schedules were left behind; they are made now");
        }
        let (left, withdrawn) = judged(inner, left, now).await?;
        for (stored, run, outcome) in withdrawn {
            if let Err(error) = withdraw(inner, &stored, &run, outcome).await {
                put_off.push(run.key);
                failed = failed.or(Some(error));
            }
        }
        let answers = match marked::make_some(inner, &left).await {
            Ok(answers) => answers,
            Err(error) => {
                failed = failed.or(Some(error));
                left.iter().map(|_| Made::NotNow).collect()
            }
        };
        made += make::record_made(inner, &left, &answers).await?;
        let taken_back =
            left.iter().zip(&answers).filter(|taken_back| matches!(taken_back.1, Made::TakenBack(_)));
        let taken_back: Vec<RunKey> = taken_back.map(|((stored, run), _)| run.key(stored.id)).collect();
        if !taken_back.is_empty() {
            inner.count(Outcome::Cancelled, taken_back.len());
            inner.store.withdraw_runs(taken_back, Outcome::Cancelled, TAKEN_BACK).await?;
        }
        let not_now = left.iter().zip(&answers).filter(|pair| matches!(pair.1, Made::NotNow));
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

/// The runs to make, and the others with their outcomes.
async fn judged(
    inner: &PlannerState,
    found: Vec<(StoredSchedule, Run)>,
    now: Millis,
) -> Result<(Vec<OwnedRun>, Vec<Withdrawn>), BackendError> {
    let mut schedules: HashMap<i64, Arc<StoredSchedule>> = HashMap::new();
    let (mut left, mut withdrawn) = (Vec::new(), Vec::new());
    for (stored, run) in found {
        let stored = Arc::clone(schedules.entry(stored.id).or_insert_with(|| Arc::new(stored)));
        let is_planned = run.key.kind == RunKind::Planned;
        let rests = stored.schedule.is_paused(now) || !stored.schedule.enabled;
        let is_late = now.since(run.execute_at) > LATE_AFTER_MS;
        if is_planned && rests {
            withdrawn.push((stored, run, Outcome::Cancelled));
        } else if is_planned && is_late && is_missed(inner, &stored, &run, now).await? {
            withdrawn.push((stored, run, Outcome::Missed));
        } else {
            left.push((stored, again(&run)));
        }
    }
    Ok((left, withdrawn))
}

/// True if the run is skipped by the rule for runs that no engine created in time.
async fn is_missed(
    inner: &PlannerState,
    stored: &StoredSchedule,
    run: &Run,
    now: Millis,
) -> Result<bool, BackendError> {
    let is_too_old = run.key.at.0 <= now.0.saturating_sub(stored.schedule.missed_window_ms);
    Ok(is_too_old
        || match stored.schedule.missed {
            Missed::Skip => true,
            Missed::All => false,
            Missed::Latest => {
                let (from, before) = (Millis(run.key.at.0 + 1), Millis(now.0 + 1));
                let query = RunQuery { schedule: stored.id, from, before, limit: LATER_MAX };
                let is_later =
                    |run: &Run| run.key.kind == RunKind::Planned && run.outcome == Outcome::Created;
                inner.store.runs(&query).await?.iter().any(is_later)
            }
        })
}

/// Withdraws a run. Its task is cancelled, so that an engine that still wants to create it finds it so; then the line
/// gives the outcome. A task that has fired nevertheless stays.
async fn withdraw(
    inner: &PlannerState,
    stored: &Arc<StoredSchedule>,
    run: &Run,
    outcome: Outcome,
) -> Result<(), BackendError> {
    let cancelled = revoke::cancel(inner, stored, &[run]).await?;
    if !cancelled.is_empty() {
        inner.count(outcome, cancelled.len());
        let reason = if outcome == Outcome::Missed { MISSED } else { AT_REST };
        inner.store.withdraw_runs(cancelled, outcome, reason).await?;
    }
    Ok(())
}

async fn forget(inner: &PlannerState, now: Millis) -> Result<(), BackendError> {
    for _ in 0..BATCHES_MAX {
        let before = now.plus(-inner.options.keep_runs_ms);
        if inner.store.forget_runs(before, FORGET_BATCH).await? < FORGET_BATCH {
            break;
        }
    }
    Ok(())
}

/// The run as it was committed.
pub(crate) fn again(run: &Run) -> NewRun {
    NewRun {
        kind: run.key.kind,
        at: run.key.at,
        execute_at: run.execute_at,
        revision: run.key.revision,
        version: run.version,
        number: run.number,
        outcome: run.outcome,
        reason: run.reason.clone(),
    }
}
