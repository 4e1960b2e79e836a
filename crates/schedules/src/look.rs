//! What has become of the run before: asked by its task's id and version, which follow from its instant.

use crate::{make, planner::Inner};
use punctual_contract::{Error as BackendError, schedules::StoredSchedule};
use punctual_domain::{
    schedule::{LastRun, Overlap, RunKind, TaskIdentity},
    task::Task,
    time::Millis,
};

/// A task that is not there may not be made yet for so long; later it is forgotten.
const MADE_WITHIN_MS: i64 = 60_000;

/// Whether the run that has to be over is.
pub(crate) async fn last_is_over(
    inner: &Inner,
    stored: &StoredSchedule,
    now: Millis,
) -> Result<bool, BackendError> {
    let Some(last) = stored.progress.last.filter(|_| stored.schedule.overlap != Overlap::Allow) else {
        return Ok(true);
    };
    if now < last.at {
        return Ok(false);
    }
    Ok(match task(inner, stored, last).await? {
        Some(task) => task.state.is_finished(),
        None => now.since(last.planned_at) > MADE_WITHIN_MS,
    })
}

async fn task(inner: &Inner, stored: &StoredSchedule, last: LastRun) -> Result<Option<Task>, BackendError> {
    let (namespace, schedule) = (&stored.key.namespace, &stored.key.name);
    let identity = TaskIdentity { namespace, schedule, kind: RunKind::Planned, at: last.at };
    for salt in make::SALTS {
        let found =
            inner.engine.store().versions(namespace, identity.task_id(salt), Some(last.version), 1).await?;
        if let Some(task) = found.into_iter().find(|it| make::is_of(it, stored, last.at)) {
            return Ok(Some(task));
        }
    }
    Ok(None)
}

/// Asks the run before to end. Where that fails it goes on beside the new one: that one is there already.
pub(crate) async fn stop(inner: &Inner, stored: &StoredSchedule, last: LastRun) {
    let stopped = match task(inner, stored, last).await {
        Ok(Some(task)) => inner.engine.cancel(task.place, true, make::BY).await.map(drop),
        Ok(None) => Ok(()),
        Err(error) => Err(error.into()),
    };
    if let Err(error) = stopped {
        let schedule = stored.key.name.as_str();
        tracing::warn!(schedule, %error, "the run before could not be stopped; both go on");
    }
}
