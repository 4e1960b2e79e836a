//! What has become of the run before: asked by the reference that its line of history has, and where it has none yet by its
//! task's id and version, which follow from its instant.

use crate::{make, planner::Inner};
use futures_util::{StreamExt as _, stream};
use punctual_contract::{
    Error as BackendError,
    schedules::{RunKey, StoredSchedule},
};
use punctual_domain::{
    place::TaskRef,
    schedule::{LastRun, Overlap, RunKind, TaskIdentity},
    task::Task,
    time::Millis,
};

/// Runs before that are looked at by themselves at one time.
const LOOKS_AT_ONCE: usize = 8;
/// A task that is not there may not be made yet for so long; later it is forgotten.
const MADE_WITHIN_MS: i64 = 60_000;

/// Whether the runs are over that have to be, in order. The history says where their tasks are: that is asked once, and the tasks
/// of all of them are read together. One whose database is away says nothing of the others.
pub(crate) async fn last_are_over(
    inner: &Inner,
    all: &[StoredSchedule],
    now: Millis,
) -> Vec<Result<bool, BackendError>> {
    let mut answers: Vec<Option<Result<bool, BackendError>>> =
        all.iter().map(|it| without_a_look(it, now).map(Ok)).collect();
    let unknown = |answers: &[Option<_>]| -> Vec<(usize, &StoredSchedule, LastRun)> {
        let left = all.iter().enumerate().filter(|it| answers.get(it.0).is_some_and(Option::is_none));
        left.filter_map(|(nth, it)| Some((nth, it, it.progress.last?))).collect()
    };
    let wanted = unknown(&answers);
    if !wanted.is_empty() {
        for ((nth, stored, last), found) in wanted.iter().zip(tasks(inner, &wanted).await) {
            let over = match found {
                Ok(Found::Task(task)) if make::is_of(&task, stored, last.at) => Ok(task.state.is_finished()),
                // What has a task that is not there any more was over long ago.
                Ok(Found::Gone) => Ok(true),
                Ok(Found::Task(_) | Found::Unknown) => continue,
                Err(error) => Err(error),
            };
            if let Some(answer) = answers.get_mut(*nth) {
                *answer = Some(over);
            }
        }
    }
    let looks = unknown(&answers).into_iter();
    let looks = looks.map(|(nth, it, last)| async move { (nth, is_over(inner, it, last, now).await) });
    let looked: Vec<_> = stream::iter(looks.collect::<Vec<_>>()).buffered(LOOKS_AT_ONCE).collect().await;
    for (nth, over) in looked {
        if let Some(answer) = answers.get_mut(nth) {
            *answer = Some(over);
        }
    }
    answers.into_iter().map(|it| it.unwrap_or(Ok(true))).collect()
}

/// None: its last run has to be looked at.
fn without_a_look(stored: &StoredSchedule, now: Millis) -> Option<bool> {
    match stored.progress.last.filter(|_| stored.schedule.overlap != Overlap::Allow) {
        None => Some(true),
        Some(last) if now < last.at => Some(false),
        Some(_) => None,
    }
}

enum Found {
    Task(Box<Task>),
    Gone,
    /// The history does not say which it is.
    Unknown,
}

async fn tasks(inner: &Inner, of: &[(usize, &StoredSchedule, LastRun)]) -> Vec<Result<Found, BackendError>> {
    let key = |it: &(usize, &StoredSchedule, LastRun)| RunKey {
        schedule: it.1.id,
        kind: RunKind::Planned,
        at: it.2.at,
        revision: it.2.version,
    };
    let refs = match inner.store.run_refs(of.iter().map(key).collect()).await {
        Ok(refs) => refs,
        Err(error) => return of.iter().map(|_| Err(error.clone())).collect(),
    };
    let places: Vec<Option<TaskRef>> = refs.iter().map(|it| it.as_ref()?.parse().ok()).collect();
    let asked: Vec<TaskRef> = places.iter().copied().flatten().collect();
    let count = asked.len();
    let read = match count {
        0 => Vec::new(),
        _ => inner
            .engine
            .read_each(asked)
            .await
            .map_err(make::backend)
            .unwrap_or_else(|it| vec![Err(it); count]),
    };
    let mut read = read.into_iter();
    let one = |place: Option<TaskRef>| match place.and_then(|_| read.next()) {
        None => Ok(Found::Unknown),
        Some(Ok(Some(task))) => Ok(Found::Task(Box::new(task))),
        Some(Ok(None)) => Ok(Found::Gone),
        Some(Err(error)) => Err(error),
    };
    places.into_iter().map(one).collect()
}

/// By the id that follows from its instant.
async fn is_over(
    inner: &Inner,
    stored: &StoredSchedule,
    last: LastRun,
    now: Millis,
) -> Result<bool, BackendError> {
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
