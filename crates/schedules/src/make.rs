//! Makes the tasks of runs that stand in the history as created. An id and a version come from the schedule and the instant,
//! and what stands under them stays: made twice, it is one task, however late the second comes.

use crate::{expressions, planner::Inner};
use punctual_contract::{
    Error as BackendError,
    schedules::{NewRun, SettleRun, StoredSchedule},
    store::Inserted,
};
use punctual_domain::{
    insert::{Decision, OnConflict},
    name::QueueKey,
    schedule::{Payload, TaskIdentity},
    task::{Content, NewTask, Task},
    time::Millis,
};
use std::ops::RangeInclusive;

/// In the histories of tasks.
pub(crate) const BY: &str = "schedule";
/// On every task of a schedule, unless its template has a label of that name.
const LABEL: &str = "schedule";
/// The same: the instant, epoch milliseconds.
const LABEL_AT: &str = "scheduled_at_ms";
/// Ids that are tried where others have taken one.
pub(crate) const SALTS: RangeInclusive<u8> = 0..=3;
/// Tasks of one insert.
const BATCH: usize = 1_000;

/// The payload of a run, filled in.
pub(crate) fn payload(stored: &StoredSchedule, run: &NewRun) -> Result<Option<Content>, String> {
    Ok(match &stored.schedule.task.payload {
        None => None,
        Some(Payload::Bytes(bytes)) => Some(Content::binary(bytes.clone())),
        Some(Payload::Json(text)) => {
            let variables = expressions::Variables {
                schedule: stored.key.name.as_str(),
                scheduled_at: run.at,
                run: run.number,
            };
            Some(Content::json(expressions::fill(text, &variables)?))
        }
    })
}

fn identity<'a>(stored: &'a StoredSchedule, run: &NewRun) -> TaskIdentity<'a> {
    let (namespace, schedule) = (&stored.key.namespace, &stored.key.name);
    TaskIdentity { namespace, schedule, kind: run.kind, at: run.at }
}

/// Whether a task is of this schedule and instant: as far as it says so itself.
pub(crate) fn is_of(task: &Task, stored: &StoredSchedule, at: Millis) -> bool {
    let own = &stored.schedule.task.labels;
    let says = |label: &str, value: &str| {
        own.contains_key(label) || task.ask.labels.get(label).is_none_or(|it| it == value)
    };
    says(LABEL, stored.key.name.as_str()) && says(LABEL_AT, &at.0.to_string())
}

fn task(inner: &Inner, stored: &StoredSchedule, run: &NewRun, salt: u8) -> Result<NewTask, String> {
    let template = &stored.schedule.task;
    let namespace = &stored.key.namespace;
    let queue = QueueKey { namespace: namespace.clone(), queue: template.queue.clone() };
    let set = inner.engine.known_settings(&queue);
    let mut task = template.task(namespace, run.execute_at, &set);
    task.payload = payload(stored, run)?.unwrap_or_default();
    task.task_id = Some(identity(stored, run).task_id(salt));
    task.task_version = run.revision;
    task.on_conflict = OnConflict::Keep;
    task.labels.entry(LABEL.to_owned()).or_insert_with(|| stored.key.name.as_str().to_owned());
    task.labels.entry(LABEL_AT.to_owned()).or_insert_with(|| run.at.0.to_string());
    Ok(task)
}

/// What became of the wish to make a run's task.
#[derive(Debug)]
pub(crate) enum Made {
    Task(Box<Task>),
    /// The same instant was made by a later document.
    Superseded,
    /// It is tried again.
    NotNow,
}

/// Makes them, and says so in the history. How many. What fails is left for [`crate::recover`].
pub(crate) async fn make(inner: &Inner, runs: Vec<(StoredSchedule, NewRun)>) -> Result<usize, BackendError> {
    let mut made = 0;
    for some in runs.chunks(BATCH) {
        let answers = make_some(inner, some).await?;
        made += settle(inner, some, &answers).await?;
    }
    Ok(made)
}

/// Says in the history what came of runs. How many have a task.
pub(crate) async fn settle(
    inner: &Inner,
    runs: &[(StoredSchedule, NewRun)],
    answers: &[Made],
) -> Result<usize, BackendError> {
    let (mut settled, mut superseded) = (Vec::new(), Vec::new());
    for ((stored, run), made) in runs.iter().zip(answers) {
        let key = run.key(stored.id);
        match made {
            Made::Task(task) => settled.push(SettleRun { key, task_ref: task.place.to_string() }),
            Made::Superseded => superseded.push(key),
            Made::NotNow => {}
        }
    }
    let made = settled.len();
    if made > 0 {
        inner.store.settle_runs(settled).await?;
    }
    if !superseded.is_empty() {
        inner.store.cancel_runs(superseded, "the schedule was changed").await?;
    }
    Ok(made)
}

/// What becomes of each, in order.
pub(crate) async fn make_some(
    inner: &Inner,
    runs: &[(StoredSchedule, NewRun)],
) -> Result<Vec<Made>, BackendError> {
    // None: its id is another's, and the next is tried.
    let mut answers: Vec<Option<Made>> = runs.iter().map(|_| None).collect();
    for salt in SALTS {
        let (mut places, mut tasks) = (Vec::new(), Vec::new());
        for (nth, ((stored, run), answer)) in runs.iter().zip(&mut answers).enumerate() {
            match (&answer, task(inner, stored, run, salt)) {
                (Some(_), _) => {}
                (None, Ok(task)) => {
                    places.push(nth);
                    tasks.push(task);
                }
                (None, Err(problem)) => {
                    let schedule = stored.key.name.as_str();
                    tracing::error!(
                        schedule,
                        problem,
                        "a payload that was filled in before cannot be any more"
                    );
                    *answer = Some(Made::NotNow);
                }
            }
        }
        if tasks.is_empty() {
            break;
        }
        let inserted = inner.engine.insert_each(tasks, BY).await.map_err(backend)?;
        for (nth, inserted) in places.into_iter().zip(inserted) {
            if let (Some((stored, run)), Some(answer)) = (runs.get(nth), answers.get_mut(nth)) {
                *answer = told(inserted, stored, run);
            }
        }
    }
    Ok(answers.into_iter().map(|it| it.unwrap_or(Made::NotNow)).collect())
}

fn told(inserted: Result<Inserted, BackendError>, stored: &StoredSchedule, run: &NewRun) -> Option<Made> {
    let schedule = stored.key.name.as_str();
    match inserted {
        Ok(it) => match it.decision {
            Decision::Create | Decision::Replace => Some(Made::Task(Box::new(it.task))),
            Decision::ReturnExisting if is_of(&it.task, stored, run.at) => {
                Some(Made::Task(Box::new(it.task)))
            }
            Decision::Superseded if is_of(&it.task, stored, run.at) => Some(Made::Superseded),
            Decision::ReturnExisting | Decision::Superseded | Decision::Exists => None,
        },
        // It may be there: under another id it would be made twice.
        Err(error) => {
            tracing::warn!(schedule, %error, "a run could not be made; it is tried again");
            Some(Made::NotNow)
        }
    }
}

pub(crate) fn backend(error: punctual_engine::Error) -> BackendError {
    match error {
        punctual_engine::Error::Backend(error) => error,
        other => BackendError::did_not_happen("make the runs of schedules", other),
    }
}
