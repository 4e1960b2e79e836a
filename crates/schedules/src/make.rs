//! Creates the tasks of created runs in the history. An id and a version are derived from the schedule and the
//! instant, and an existing task stays: created twice, it is one task, however late the second insert is. If the id
//! belongs to a task that is not the run's, the run gets the next id, and its line states that.

use crate::{evaluate, expressions, planner::PlannerState};
use punctual_contract::{
    Error as BackendError,
    schedules::{NewRun, RecordRun, StoredSchedule},
    store::Inserted,
};
use punctual_domain::{
    identity::IdentitySecret,
    insert::{Decision, OnConflict},
    name::QueueKey,
    place::TaskRef,
    schedule::{Outcome, Payload, RunIdentity, UnkeyedIdentity},
    state::State,
    task::{Content, NewTask, Task},
    time::Millis,
};
use punctual_engine::Engine;
use punctual_expressions::Budget;
use std::{ops::RangeInclusive, sync::Arc};

/// The author in the histories of tasks.
pub(crate) const BY: &str = "schedule";
/// The same, for a task that is made to be cancelled: nothing else ever happens to it.
const TAKING_BACK: &str = "schedule (taking back)";
/// The same, of a run that is stopped for the next one (`cancel_other`). Not revoked: it is not made again.
pub(crate) const STOPPED_BY: &str = "schedule (cancel_other)";
/// The label on every task of a schedule, unless its template has a label of that name.
const LABEL: &str = "schedule";
/// The same: the instant, epoch milliseconds.
const LABEL_AT: &str = "scheduled_at_ms";
/// The number of ids that are tried if other tasks have them.
const SALTS: RangeInclusive<u8> = 0..=7;
/// Tasks of one insert.
const BATCH: usize = 1_000;
/// A task that is made to be cancelled does not fire before that is done.
const FAR_AWAY_MS: i64 = 3_600_000;

/// A run with the schedule that it is of, as it is stored now.
pub(crate) type OwnedRun = (Arc<StoredSchedule>, NewRun);

/// The purpose of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The task must fire.
    Run,
    /// The task must exist as cancelled, so that an engine that creates the same run later finds it so.
    Revocation,
}

/// The payload of a run, filled in.
pub(crate) fn payload(
    stored: &StoredSchedule,
    at: Millis,
    number: u64,
    budget: &mut Budget,
) -> Result<Option<Content>, String> {
    Ok(match &stored.schedule.task.payload {
        None => None,
        Some(Payload::Bytes(bytes)) => Some(Content::binary(bytes.clone())),
        Some(Payload::Json(text)) => {
            let variables =
                expressions::Variables { schedule: stored.key.name.as_str(), scheduled_at: at, run: number };
            Some(Content::json(expressions::fill(text, &variables, budget)?))
        }
    })
}

fn task_id(stored: &StoredSchedule, run: &NewRun, secret: &IdentitySecret, salt: u8) -> i64 {
    let (kind, at) = (run.kind, run.at);
    if run.version.is_some() {
        let (schedule, created_at) = (stored.id, stored.created_at);
        return RunIdentity { schedule, created_at, kind, at }.task_id(secret, salt);
    }
    let (namespace, schedule) = (&stored.key.namespace, &stored.key.name);
    UnkeyedIdentity { namespace, schedule, kind, at }.task_id(salt)
}

/// True if a task was created by a run of this schedule and instant.
pub(crate) fn is_of(task: &Task, stored: &StoredSchedule, at: Millis) -> bool {
    let own = &stored.schedule.task.labels;
    let says = |label: &str, value: &str| {
        own.contains_key(label) || task.ask.labels.get(label).is_none_or(|label| label == value)
    };
    let is_inserted_here = inserted_by(task).is_none_or(|by| [BY, TAKING_BACK].contains(&by));
    is_inserted_here && says(LABEL, stored.key.name.as_str()) && says(LABEL_AT, &at.0.to_string())
}

fn inserted_by(task: &Task) -> Option<&str> {
    task.history.iter().find(|entry| entry.event.is_none()).map(|entry| entry.by.as_str())
}

/// An engine has begun to revoke the run, and may have died before its line said so: whatever has changed
/// since, it is revoked. If it were made again, the result would be a cancelled task, or one without a
/// payload that fires an hour late.
fn is_taken_back(task: &Task) -> bool {
    let last = task.history.iter().rev().find(|entry| entry.to == State::Cancelled);
    let is_cancelled = task.state == State::Cancelled && last.is_some_and(|entry| entry.by == BY);
    is_cancelled || inserted_by(task) == Some(TAKING_BACK)
}

/// The task of a run, without its id.
fn task(engine: &Engine, (stored, run): &OwnedRun, purpose: Purpose) -> Result<NewTask, String> {
    let template = &stored.schedule.task;
    let namespace = &stored.key.namespace;
    let queue = QueueKey { namespace: namespace.clone(), queue: template.queue.clone() };
    let set = engine.known_settings(&queue);
    let mut task = template.task(namespace, run.execute_at, &set);
    match purpose {
        Purpose::Run => {
            task.payload =
                payload(stored, run.at, run.number, &mut expressions::budget())?.unwrap_or_default()
        }
        Purpose::Revocation => {
            task.payload = Content::default();
            task.execute_at = task.execute_at.max(engine.now().plus(FAR_AWAY_MS));
        }
    }
    task.task_version = run.version.unwrap_or(run.revision);
    task.on_conflict = OnConflict::Keep;
    task.labels.entry(LABEL.to_owned()).or_insert_with(|| stored.key.name.as_str().to_owned());
    task.labels.entry(LABEL_AT.to_owned()).or_insert_with(|| run.at.0.to_string());
    Ok(task)
}

/// The result of making a run's task.
#[derive(Debug)]
pub(crate) enum Made {
    Task {
        task: Box<Task>,
        /// Tasks of others that had its ids.
        conflicts: u8,
    },
    /// The same instant was made again since.
    Superseded,
    /// It was revoked before. Its line says so when the revocation ends, or else by [`crate::recover`].
    TakenBack(Box<Task>),
    /// It is tried again.
    NotNow,
}

/// Makes the tasks, and records them in the history. Returns how many. Failures are left to
/// [`crate::recover`].
pub(crate) async fn make(inner: &PlannerState, runs: Vec<OwnedRun>) -> Result<usize, BackendError> {
    let mut made = 0;
    for some in runs.chunks(BATCH) {
        let answers = make_some(inner, some, Purpose::Run).await?;
        made += record_made(inner, some, &answers).await?;
    }
    Ok(made)
}

/// Records the results of runs in the history. Returns how many have a task.
pub(crate) async fn record_made(
    inner: &PlannerState,
    runs: &[OwnedRun],
    answers: &[Made],
) -> Result<usize, BackendError> {
    let (mut settled, mut superseded) = (Vec::new(), Vec::new());
    for ((stored, run), made) in runs.iter().zip(answers) {
        let key = run.key(stored.id);
        match made {
            Made::Task { task, conflicts } => {
                let note = (*conflicts > 0).then(|| noted(run, *conflicts));
                settled.push(RecordRun { key, task_ref: task.place.to_string(), note });
            }
            Made::Superseded => superseded.push(key),
            Made::TakenBack(_) | Made::NotNow => {}
        }
    }
    let made = settled.len();
    if made > 0 {
        inner.store.record_runs(settled).await?;
    }
    if !superseded.is_empty() {
        inner.store.withdraw_runs(superseded, Outcome::Cancelled, "the schedule was changed").await?;
    }
    Ok(made)
}

fn noted(run: &NewRun, conflicts: u8) -> String {
    let conflict = format!("another task had its id: it got the next one, number {}", conflicts + 1);
    match &run.reason {
        Some(reason) => format!("{reason}; {conflict}"),
        None => conflict,
    }
}

/// The result for each, in order.
pub(crate) async fn make_some(
    inner: &PlannerState,
    runs: &[OwnedRun],
    purpose: Purpose,
) -> Result<Vec<Made>, BackendError> {
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    let secret = inner.engine.identity_secret(&*inner.store).await?;
    let (engine, all) = (inner.engine.clone(), runs.to_vec());
    let filled = move |run: &OwnedRun| {
        let filled = evaluate::one_of_many(|| task(&engine, run, purpose));
        filled.unwrap_or_else(|| Err("filling it in has panicked".to_owned()))
    };
    let fill = move || all.iter().map(filled).collect::<Vec<_>>();
    let prepared = evaluate::for_planner(inner.options.pool, fill).await?;
    let mut answers: Vec<Option<Made>> = Vec::with_capacity(runs.len());
    let mut left: Vec<(usize, NewTask)> = Vec::with_capacity(runs.len());
    for (nth, (prepared, (stored, _))) in prepared.into_iter().zip(runs).enumerate() {
        match prepared {
            Ok(task) => {
                left.push((nth, task));
                answers.push(None);
            }
            Err(problem) => {
                let schedule = stored.key.name.as_str();
                tracing::error!(schedule, problem, "a payload that was filled in before cannot be any more");
                answers.push(Some(Made::NotNow));
            }
        }
    }
    for salt in SALTS {
        if left.is_empty() {
            break;
        }
        let named = |(nth, task): &(usize, NewTask)| {
            let id = runs.get(*nth).map(|(stored, run)| task_id(stored, run, &secret, salt));
            NewTask { task_id: id, ..task.clone() }
        };
        let tasks = left.iter().map(named).collect();
        let by = if purpose == Purpose::Run { BY } else { TAKING_BACK };
        let inserted = inner.engine.insert_each(tasks, by).await.map_err(backend)?;
        let mut taken = Vec::new();
        for ((nth, task), inserted) in left.into_iter().zip(inserted) {
            let (Some((stored, run)), Some(answer)) = (runs.get(nth), answers.get_mut(nth)) else { continue };
            *answer = answer_of(inserted, stored, run, purpose, salt);
            if answer.is_none() {
                inner.engine.count_identity_conflict();
                taken.push((nth, task));
            }
        }
        left = taken;
    }
    let begun = answers.iter().flatten().filter_map(|answer| match answer {
        Made::TakenBack(task) if !task.state.is_finished() => Some(task.place),
        _ => None,
    });
    let begun: Vec<TaskRef> = begun.collect();
    if !begun.is_empty() {
        inner.engine.revoke(begun, BY).await.map_err(backend)?;
    }
    Ok(answers.into_iter().map(|answer| answer.unwrap_or(Made::NotNow)).collect())
}

/// Returns `None` if another task has the id, and the next one is tried.
fn answer_of(
    inserted: Result<Inserted, BackendError>,
    stored: &StoredSchedule,
    run: &NewRun,
    purpose: Purpose,
    conflicts: u8,
) -> Option<Made> {
    let schedule = stored.key.name.as_str();
    let Inserted { decision, task } = match inserted {
        Ok(inserted) => inserted,
        // It may be there: under another id it would be made twice.
        Err(error) => {
            tracing::warn!(schedule, %error, "a run could not be made; it is tried again");
            return Some(Made::NotNow);
        }
    };
    match decision {
        Decision::Create | Decision::Replace => Some(Made::Task { task: Box::new(task), conflicts }),
        Decision::ReturnExisting if is_of(&task, stored, run.at) => match purpose {
            Purpose::Run if is_taken_back(&task) => Some(Made::TakenBack(Box::new(task))),
            Purpose::Run | Purpose::Revocation => Some(Made::Task { task: Box::new(task), conflicts }),
        },
        Decision::Superseded if is_of(&task, stored, run.at) => Some(Made::Superseded),
        Decision::ReturnExisting | Decision::Superseded | Decision::Exists => {
            let scheduled_at_ms = run.at.0;
            tracing::error!(schedule, scheduled_at_ms, task = %task.place, "another task has the id of a run; the run gets the next one");
            None
        }
    }
}

pub(crate) fn backend(error: punctual_engine::Error) -> BackendError {
    match error {
        punctual_engine::Error::Backend(error) => error,
        other => BackendError::did_not_happen("make the runs of schedules", other),
    }
}
