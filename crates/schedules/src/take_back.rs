//! Takes back what was made ahead of its time and has not fired: after a change, a pause, or before a schedule is forgotten.
//! Each task is cancelled or has fired, by the engine's own cancel. One whose task was not made yet is made first: from then
//! on it stands there cancelled, and an engine that still wants to make it finds it so.

use crate::{
    make::{self, Made},
    planner::Inner,
    recover,
};
use punctual_contract::{
    Error as BackendError,
    schedules::{Advance, NewRun, OlderDocuments, Run, RunKey, RunQuery, SettleRun, StoredSchedule},
    store::Applied,
};
use punctual_domain::{
    place::TaskRef,
    schedule::{Outcome, RunKind},
    time::Millis,
};
use punctual_engine::Cancelled;

/// Runs of one look.
const BATCH: usize = 1_000;

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) cancelled: usize,
    /// They had fired, at the latest this.
    pub(crate) fired: usize,
    pub(crate) fired_until: Option<Millis>,
}

/// Takes back all that older documents have made and that comes after now.
async fn take_back(
    inner: &Inner,
    stored: &StoredSchedule,
    now: Millis,
    reason: &str,
) -> Result<Taken, BackendError> {
    let mut all = Taken::default();
    // What has no task yet, whatever its instant: who has committed it may still want to make it.
    loop {
        let older = OlderDocuments { schedule: stored.id, revision: stored.revision };
        let found = inner.store.unsettled_runs(Some(older), Millis::MAX, BATCH).await?;
        let runs: Vec<Run> = found.into_iter().map(|it| it.1).collect();
        if runs.is_empty() {
            break;
        }
        take_back_some(inner, stored, &runs, reason, &mut all).await?;
    }
    let from = now.plus(-stored.progress.jitter_ms);
    let mut before = Millis(i64::MAX);
    loop {
        let query = RunQuery { schedule: stored.id, from, before, limit: BATCH };
        let runs = inner.store.runs(&query).await?;
        let Some(last) = runs.last().map(|it| it.key.at) else { return Ok(all) };
        let is_full = runs.len() >= BATCH;
        let ahead = |it: &Run| {
            it.outcome == Outcome::Created
                && it.key.kind == RunKind::Planned
                && it.key.revision < stored.revision
                && it.execute_at > now
        };
        let runs: Vec<Run> = runs.into_iter().filter(ahead).collect();
        take_back_some(inner, stored, &runs, reason, &mut all).await?;
        if !is_full {
            return Ok(all);
        }
        before = last;
    }
}

async fn take_back_some(
    inner: &Inner,
    stored: &StoredSchedule,
    runs: &[Run],
    reason: &str,
    all: &mut Taken,
) -> Result<(), BackendError> {
    let unmade: Vec<&Run> = runs.iter().filter(|it| it.task_ref.is_none()).collect();
    let made: Vec<(StoredSchedule, NewRun)> =
        unmade.iter().map(|it| (stored.clone(), recover::again(it))).collect();
    let answers = make::make_some(inner, &made).await?;
    let mut places: Vec<(&Run, Option<TaskRef>)> = Vec::new();
    for (run, answer) in unmade.into_iter().zip(answers) {
        match answer {
            Made::Task(task) => places.push((run, Some(task.place))),
            Made::Superseded => places.push((run, None)),
            Made::NotNow => {
                let problem = "the task of a run could not be reached";
                return Err(BackendError::did_not_happen("take runs back", problem));
            }
        }
    }
    let of_ref = |it: &str| it.parse::<TaskRef>().ok();
    let settled = runs.iter().filter_map(|it| Some((it, of_ref(it.task_ref.as_deref()?))));
    places.extend(settled);
    let (mut cancelled, mut fired): (Vec<RunKey>, Vec<SettleRun>) = Default::default();
    for (run, place) in places {
        let is_cancelled = match place {
            None => true,
            Some(place) => match inner.engine.cancel(place, false, make::BY).await {
                Ok(Cancelled::Cancelled(_)) | Err(punctual_engine::Error::NotFound) => true,
                Ok(Cancelled::AlreadyFired(_) | Cancelled::StopRequested(_)) => false,
                Err(error) => return Err(make::backend(error)),
            },
        };
        if is_cancelled {
            all.cancelled += 1;
            cancelled.push(run.key.clone());
        } else {
            all.fired += 1;
            all.fired_until = all.fired_until.max(Some(run.key.at));
            fired.extend(place.map(|place| SettleRun { key: run.key.clone(), task_ref: place.to_string() }));
        }
    }
    if !cancelled.is_empty() {
        let count = cancelled.len();
        inner.store.cancel_runs(cancelled, reason).await?;
        inner.count(Outcome::Cancelled, count);
    }
    if !fired.is_empty() {
        inner.store.settle_runs(fired).await?;
    }
    Ok(())
}

/// Carries a taking back to its end, whoever began it. Answers the schedule as it stands then.
pub(crate) async fn finish(
    inner: &Inner,
    stored: &StoredSchedule,
    now: Millis,
) -> Result<(Taken, Applied), BackendError> {
    let reason = match () {
        () if stored.schedule.is_paused(now) => "the schedule was paused",
        () if !stored.schedule.enabled => "the schedule was disabled or deleted",
        () => "the schedule was changed",
    };
    let taken = take_back(inner, stored, now, reason).await?;
    let mut progress = stored.progress.clone();
    (progress.takes_back, progress.jitter_ms) = (false, 0);
    progress.runs = progress.runs.saturating_sub(u64::try_from(taken.cancelled).unwrap_or(0));
    progress.taken_back(taken.fired_until.map_or(now, |it| it.max(now)));
    progress.decided_until = progress.decided_until.max(taken.fired_until.unwrap_or(Millis::ZERO));
    let advance =
        Advance { id: stored.id, step: stored.step, progress, wake_at: Some(now), runs: Vec::new() };
    let applied = inner.store.advance_schedules(vec![advance], now).await?.pop();
    Ok((taken, applied.unwrap_or(Applied::Lost)))
}
