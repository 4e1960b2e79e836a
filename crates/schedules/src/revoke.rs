//! Revokes unfired runs that were made ahead: after a change, a pause, or before a schedule is deleted.
//!
//! The order of steps, and what a crash after each leaves (docs/consistency-tests.md, "Schedules"):
//! 1. A change commits the document, a higher revision, and `Progress::changed_at`: one `now`, by which all
//!    later steps are decided. Nothing is planned until step 5. A crash leaves the rest to the engine that
//!    owns the schedule's slot.
//! 2. Lines without a task get one, due in an hour: an engine that still wants to make it finds it. A crash:
//!    the repetition finds the same tasks.
//! 3. Runs that were to fire after `changed_at` are cancelled together. Each is cancelled or has fired. A
//!    crash: a task that was cancelled with this `by` counts as cancelled in the repetition.
//! 4. Fired runs are decided, even after `changed_at`; cancelled ones must be decided again, even before it.
//! 5. Lines and progress, one transaction, compared with the step of 1. A crash after it leaves nothing.

use crate::{
    make::{self, Made, OwnedRun, Purpose},
    planner::PlannerState,
    recover,
};
use punctual_contract::{
    Error as BackendError,
    schedules::{Advance, OlderDocuments, RecordRun, Run, RunKey, RunQuery, StoredSchedule, TakesBack},
    store::Applied,
};
use punctual_domain::{
    place::TaskRef,
    schedule::{Line, Outcome, RunKind},
    time::Millis,
};
use punctual_engine::TakenBack;
use std::{collections::BTreeSet, sync::Arc};

/// Runs of one read, and of one call of the engine.
const BATCH: usize = 1_000;
/// The maximum number of lines without a task that are handled together.
const OWED_MAX: usize = 10_000;

/// The result of a revocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RevokedSchedule {
    pub(crate) cancelled: usize,
    pub(crate) fired: usize,
}

/// Completes a revocation, whichever engine began it.
pub(crate) async fn finish(
    inner: &PlannerState,
    stored: &StoredSchedule,
    now: Millis,
) -> Result<(RevokedSchedule, Applied), BackendError> {
    let is_at_rest = stored.schedule.is_paused(now) || !stored.schedule.enabled;
    let reason = match () {
        () if stored.schedule.is_paused(now) => "the schedule was paused",
        () if !stored.schedule.enabled => "the schedule was disabled or deleted",
        () => "the schedule was changed",
    };
    let stored = Arc::new(stored.clone());
    // An older program had put `decided_until` back to the instant of the change.
    let changed_at = stored.progress.changed_at.unwrap_or(stored.progress.decided_until);
    let from = stored.progress.decided_until.plus(-stored.progress.jitter_ms);
    if is_at_rest {
        withdraw_owed(inner, &stored, (from, changed_at), reason).await?;
    }
    let lines = lines(inner, &stored, from).await?;
    let ahead = |run: &&Run| run.outcome == Outcome::Created && run.execute_at > changed_at;
    let ahead: Vec<&Run> = lines.iter().filter(ahead).collect();
    let cancelled = cancel(inner, &stored, &ahead).await?;
    let keys: BTreeSet<&RunKey> = cancelled.iter().collect();
    let line = |run: &Run| Line {
        at: run.key.at,
        version: run.version.unwrap_or(0),
        outcome: run.outcome,
        is_taken_back: keys.contains(&run.key),
    };
    let mut progress = stored.progress.clone();
    progress.end_taking_back(&lines.iter().map(line).collect::<Vec<_>>(), now);
    let taken =
        RevokedSchedule { cancelled: cancelled.len(), fired: ahead.len().saturating_sub(cancelled.len()) };
    let takes_back = Some(TakesBack { runs: cancelled, reason: reason.to_owned() });
    let (id, step, wake_at) = (stored.id, stored.step, Some(now));
    let advance = Advance { id, step, progress, wake_at, runs: Vec::new(), takes_back };
    let applied = inner.store.advance_schedules(vec![advance], now).await?.pop().unwrap_or(Applied::Lost);
    if applied == Applied::Moved {
        inner.count(Outcome::Cancelled, taken.cancelled);
    }
    Ok((taken, applied))
}

/// All that older documents have planned, from an instant on.
async fn lines(
    inner: &PlannerState,
    stored: &StoredSchedule,
    from: Millis,
) -> Result<Vec<Run>, BackendError> {
    let (mut all, mut before) = (Vec::new(), Millis(i64::MAX));
    loop {
        let query = RunQuery { schedule: stored.id, from, before, limit: BATCH };
        let page = inner.store.runs(&query).await?;
        let is_last = page.len() < BATCH;
        let Some(last) = page.last().map(|run| run.key.at) else { return Ok(all) };
        before = last;
        let is_older = |run: &Run| run.key.kind == RunKind::Planned && run.key.revision < stored.revision;
        all.extend(page.into_iter().filter(is_older));
        if is_last {
            return Ok(all);
        }
    }
}

/// While a schedule is paused, none of its owed runs is made, however long ago it was due. Otherwise it is
/// made late, by its own document.
async fn withdraw_owed(
    inner: &PlannerState,
    stored: &Arc<StoredSchedule>,
    (from, changed_at): (Millis, Millis),
    reason: &str,
) -> Result<(), BackendError> {
    let is_owed = |run: &Run| run.key.at < from || run.execute_at <= changed_at;
    loop {
        let older = OlderDocuments { schedule: stored.id, revision: stored.revision };
        let found = inner.store.unsettled_runs(Some(older), Millis::MAX, OWED_MAX).await?;
        let is_last = found.len() < OWED_MAX;
        let owed: Vec<Run> = found.into_iter().map(|(_, run)| run).filter(is_owed).collect();
        let cancelled = cancel(inner, stored, &owed.iter().collect::<Vec<_>>()).await?;
        let count = cancelled.len();
        if count > 0 {
            inner.store.withdraw_runs(cancelled, Outcome::Cancelled, reason).await?;
            inner.count(Outcome::Cancelled, count);
        }
        if is_last || count == 0 {
            return Ok(());
        }
    }
}

/// Cancels the tasks of those that have not fired. Which.
pub(crate) async fn cancel(
    inner: &PlannerState,
    stored: &Arc<StoredSchedule>,
    runs: &[&Run],
) -> Result<Vec<RunKey>, BackendError> {
    let mut all = Vec::new();
    for some in runs.chunks(BATCH) {
        cancel_some(inner, stored, some, &mut all).await?;
    }
    Ok(all)
}

async fn cancel_some(
    inner: &PlannerState,
    stored: &Arc<StoredSchedule>,
    runs: &[&Run],
    cancelled: &mut Vec<RunKey>,
) -> Result<(), BackendError> {
    let (mut places, mut unmade): (Vec<(&Run, TaskRef)>, Vec<&Run>) = Default::default();
    for &run in runs {
        match run.task_ref.as_deref().and_then(|task_ref| task_ref.parse().ok()) {
            Some(place) => places.push((run, place)),
            None => unmade.push(run),
        }
    }
    let made: Vec<OwnedRun> = unmade.iter().map(|run| (Arc::clone(stored), recover::again(run))).collect();
    let answers = make::make_some(inner, &made, Purpose::Revocation).await?;
    for (run, answer) in unmade.into_iter().zip(answers) {
        match answer {
            Made::Task { task, .. } => places.push((run, task.place)),
            Made::Superseded | Made::TakenBack(_) => cancelled.push(run.key.clone()),
            Made::NotNow => {
                let problem = "the task of a run could not be reached";
                return Err(BackendError::did_not_happen("take runs back", problem));
            }
        }
    }
    let asked = places.iter().map(|place| place.1).collect();
    let answers = inner.engine.revoke(asked, make::BY).await.map_err(make::backend)?;
    let mut fired = Vec::new();
    for ((run, place), answer) in places.into_iter().zip(answers) {
        match answer {
            TakenBack::Cancelled => cancelled.push(run.key.clone()),
            TakenBack::Decided if run.task_ref.is_none() => {
                let (key, task_ref) = (run.key.clone(), place.to_string());
                fired.push(RecordRun { key, task_ref, note: None });
            }
            TakenBack::Decided => {}
        }
    }
    if !fired.is_empty() {
        inner.store.record_runs(fired).await?;
    }
    Ok(())
}
