//! The action on one task: by the engine's own calls, guarded so that the task still matches. A changed task
//! has the operation's mark in its history, written in the transaction of the change. So a batch that is
//! repeated, by any engine, changes no task twice.

use crate::state::RunnerState;
use punctual_contract::{Error as BackendError, bulk::StoredBulk, store::Change};
use punctual_domain::{
    bulk::{self, Action},
    place::TaskRef,
    state::State,
    task::Task,
};
use punctual_engine::{Changed, Deleted, Error};

/// The result for one task.
#[derive(Debug)]
pub(crate) enum Acted {
    Done,
    /// It is not (or no more) one that the operation is about.
    Skipped,
    Failed(String),
    /// The store or the hot set could not be reached: it is tried again.
    NotNow(String),
}

/// The maximum number of reads of a task that changes between them.
const LOOKS: usize = 8;

/// `read`: the task as read together with the others of its batch.
pub(crate) async fn act(
    inner: &RunnerState,
    stored: &StoredBulk,
    place: TaskRef,
    read: Result<Option<Task>, BackendError>,
) -> Acted {
    match try_to(inner, stored, place, read).await {
        Ok(acted) => acted,
        // A missing task is no failure.
        Err(Error::NotFound) if matches!(stored.bulk.action, Action::Delete) => Acted::Done,
        Err(Error::NotFound) => Acted::Skipped,
        Err(error @ Error::Contended) => Acted::Failed(error.to_string()),
        Err(error @ (Error::Backend(_) | Error::Stopping)) => Acted::NotNow(error.to_string()),
    }
}

async fn try_to(
    inner: &RunnerState,
    stored: &StoredBulk,
    place: TaskRef,
    read: Result<Option<Task>, BackendError>,
) -> Result<Acted, Error> {
    let mut task = read?.ok_or(Error::NotFound)?;
    for _ in 0..LOOKS {
        if bulk::is_marked(&task, stored.id) {
            return Ok(Acted::Done);
        }
        if !is_meant(stored, &task) {
            return Ok(Acted::Skipped);
        }
        if let Some(acted) = change(inner, stored, task).await? {
            return Ok(acted);
        }
        task = inner.engine.read(place).await?;
    }
    Err(Error::Contended)
}

fn is_meant(stored: &StoredBulk, task: &Task) -> bool {
    task.ask.queue.namespace == stored.namespace
        && task.created_at <= stored.progress.previewed_at
        && stored.bulk.fits(task)
}

/// Returns `None` if the task has changed since it was read.
async fn change(inner: &RunnerState, stored: &StoredBulk, task: Task) -> Result<Option<Acted>, Error> {
    let (engine, place, by) = (&inner.engine, task.place, bulk::mark(stored.id));
    let (fence, state, id) = (task.fence, task.state, stored.id);
    let guarded = stored.bulk.clone();
    // An entry that is claimed or fires meanwhile has moved on, but is still the same task.
    let expected = move |task: &Task| !bulk::is_marked(task, id) && guarded.fits(task);
    let as_read =
        move |task: &Task| task.fence == fence && (task.state == state || task.state == State::Dispatching);
    let reschedule =
        |execute_at, priority, queue| Change::Reschedule { execute_at, priority, payload: None, queue };
    Ok(match &stored.bulk.action {
        Action::Cancel { stop_if_fired } => {
            let cancelled = engine.cancel_seen(task, *stop_if_fired, &by, expected).await?;
            cancelled.map(|done| if done { Acted::Done } else { Acted::Skipped })
        }
        Action::Reschedule(time) => {
            let change = reschedule(Some(time.of(task.ask.execute_at)), None, None);
            engine.reschedule_seen(task, change, &by, as_read).await?.map(changed)
        }
        Action::SetPriority { priority } => {
            let change = reschedule(None, Some(*priority), None);
            engine.reschedule_seen(task, change, &by, expected).await?.map(changed)
        }
        Action::SetQueue { queue } => {
            // It may get room, or another mode: it is tried again for a while, and is listed then.
            if let Some(why) = engine.queue_refused(&task, queue).await {
                return Ok(Some(Acted::NotNow(format!("queue {queue}: {why}"))));
            }
            let change = reschedule(None, None, Some(queue.clone()));
            engine.reschedule_seen(task, change, &by, expected).await?.map(changed)
        }
        Action::RunNow => {
            let change = reschedule(Some(engine.now()), None, None);
            engine.reschedule_seen(task, change, &by, expected).await?.map(changed)
        }
        Action::Redrive => engine.redrive_seen(task, &by, expected).await?.map(changed),
        Action::Bury => {
            let reason = stored.bulk.reason.as_deref();
            engine.bury_seen(task, reason, &by, expected).await?.map(changed)
        }
        // Its tasks are never in a batch.
        Action::Export => Some(Acted::Skipped),
        Action::Delete => engine.delete(place, expected).await?.map(|deleted| match deleted {
            Deleted::Deleted(_) => Acted::Done,
            Deleted::Refused(_) => Acted::Skipped,
        }),
    })
}

fn changed(changed: Changed) -> Acted {
    match changed {
        Changed::Changed(_) => Acted::Done,
        Changed::Refused(_) => Acted::Skipped,
    }
}
