//! The state of the previous run: its history line says whether it has a task, and which.

use crate::{
    make::{self, Made, Purpose},
    planner::PlannerState,
    recover,
};
use punctual_contract::{
    Error as BackendError,
    schedules::{RunKey, RunQuery, RunTask, StoredSchedule},
};
use punctual_domain::{
    place::TaskRef,
    schedule::{LastRun, Outcome, Overlap, RunKind},
    task::Task,
    time::Millis,
};
use std::sync::Arc;

/// The maximum number of lines of one instant.
const LINES_MAX: usize = 64;

/// Returns if the last runs have ended, as far as that matters, in order. The history is read once for the places of
/// their tasks, and all tasks are read together. An unavailable database does not affect tasks in the others.
pub(crate) async fn last_are_over(
    inner: &PlannerState,
    all: &[StoredSchedule],
    now: Millis,
) -> Vec<Result<bool, BackendError>> {
    let mut answers: Vec<Option<Result<bool, BackendError>>> =
        all.iter().map(|schedule| without_a_look(schedule, now).map(Ok)).collect();
    let left = all.iter().enumerate().filter(|entry| answers.get(entry.0).is_some_and(Option::is_none));
    let wanted: Vec<(usize, &StoredSchedule, LastRun)> =
        left.filter_map(|(nth, schedule)| Some((nth, schedule, schedule.progress.last?))).collect();
    if !wanted.is_empty() {
        for ((nth, stored, last), found) in wanted.iter().zip(tasks(inner, &wanted).await) {
            let over = found.map(|found| match found {
                TaskLookup::Task(task) if make::is_of(&task, stored, last.at) => task.state.is_finished(),
                // It was over long ago, or was revoked.
                TaskLookup::Task(_) | TaskLookup::Gone => true,
                TaskLookup::Owed => false,
            });
            if let Some(answer) = answers.get_mut(*nth) {
                *answer = Some(over);
            }
        }
    }
    answers.into_iter().map(|result| result.unwrap_or(Ok(true))).collect()
}

/// Returns `None` if the last run must be read.
fn without_a_look(stored: &StoredSchedule, now: Millis) -> Option<bool> {
    match stored.progress.last.filter(|_| stored.schedule.overlap != Overlap::Allow) {
        None => Some(true),
        Some(last) if now < last.at => Some(false),
        Some(_) => None,
    }
}

enum TaskLookup {
    Task(Box<Task>),
    Gone,
    /// The task of the run must still be created.
    Owed,
}

fn key(stored: &StoredSchedule, last: LastRun) -> RunKey {
    RunKey { schedule: stored.id, kind: RunKind::Planned, at: last.at, revision: last.version }
}

async fn tasks(
    inner: &PlannerState,
    of: &[(usize, &StoredSchedule, LastRun)],
) -> Vec<Result<TaskLookup, BackendError>> {
    let keys = of.iter().map(|(_, stored, last)| key(stored, *last)).collect();
    let lines = match inner.store.run_tasks(keys).await {
        Ok(lines) => lines,
        Err(error) => return of.iter().map(|_| Err(error.clone())).collect(),
    };
    let place = |line: &RunTask| match line {
        RunTask::Made(task_ref) => task_ref.parse::<TaskRef>().ok(),
        RunTask::Owed | RunTask::Unknown => None,
    };
    let asked: Vec<TaskRef> = lines.iter().filter_map(place).collect();
    let count = asked.len();
    let read = match inner.engine.read_each(asked).await.map_err(make::backend) {
        Ok(read) => read,
        Err(error) => vec![Err(error); count],
    };
    let mut read = read.into_iter();
    let found = |line: &RunTask| match (line, place(line)) {
        (RunTask::Owed, _) => Ok(TaskLookup::Owed),
        (_, None) => Ok(TaskLookup::Gone),
        (_, Some(_)) => match read.next() {
            Some(Ok(Some(task))) => Ok(TaskLookup::Task(Box::new(task))),
            Some(Err(error)) => Err(error),
            Some(Ok(None)) | None => Ok(TaskLookup::Gone),
        },
    };
    lines.iter().map(found).collect()
}

/// Asks the previous run to end. If that fails, it continues beside the new one, which already exists.
pub(crate) async fn stop(inner: &PlannerState, stored: &Arc<StoredSchedule>, last: LastRun) {
    let stopped = match place(inner, stored, last).await {
        Ok(Some(place)) => inner.engine.cancel(place, true, make::STOPPED_BY).await.map(drop),
        Ok(None) => Ok(()),
        Err(error) => Err(error.into()),
    };
    if let Err(error) = stopped {
        let schedule = stored.key.name.as_str();
        tracing::warn!(schedule, %error, "the run before could not be stopped; both go on");
    }
}

/// One that was not made yet is made, so that it can be cancelled.
async fn place(
    inner: &PlannerState,
    stored: &Arc<StoredSchedule>,
    last: LastRun,
) -> Result<Option<TaskRef>, BackendError> {
    let (from, before) = (last.at, Millis(last.at.0 + 1));
    let query = RunQuery { schedule: stored.id, from, before, limit: LINES_MAX };
    let key = key(stored, last);
    let found = inner.store.runs(&query).await?;
    let Some(run) = found.into_iter().find(|run| run.key == key && run.outcome == Outcome::Created) else {
        return Ok(None);
    };
    if let Some(place) = run.task_ref.as_deref().and_then(|task_ref| task_ref.parse().ok()) {
        return Ok(Some(place));
    }
    let made = [(Arc::clone(stored), recover::again(&run))];
    Ok(match make::make_some(inner, &made, Purpose::Revocation).await?.pop() {
        Some(Made::Task { task, .. }) => Some(task.place),
        Some(Made::Superseded | Made::TakenBack(_) | Made::NotNow) | None => None,
    })
}
