//! Checks inserts against the caps on waiting tasks and on their payload bytes. Cheap: the engine counts once a
//! second from the account, only where a cap is set, and adds its own inserts between two counts. It does not see
//! inserts of other engines until the next count, so a cap is exceeded by at most what they accept in a second.
//! Decides nothing about existing tasks.

pub(crate) mod state;

use crate::{control, core::Core, engine::Engine, identity, namespaces, quota};
use punctual_contract::Error;
use punctual_domain::{
    name::{Name, QueueKey},
    state::State,
    task::{Content, NewTask, Task},
};
use state::{CapCounts, QueueRefused, Refused, TooManyBytes, bytes_of};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, timeout};

/// The maximum age of a count.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// The time for which an insert waits for a new count.
const PATIENCE: Duration = Duration::from_secs(2);

/// While the store cannot be counted, no caller waits: caps use the last count plus later inserts. Without a
/// first count they use the inserts alone, so an unavailable database blocks no task of the others.
async fn count(core: &Arc<Core>) {
    let is_fresh = || {
        core.limits.caps.counts.lock().counted_at.is_some_and(|counted_at| counted_at.elapsed() < FRESH_FOR)
    };
    if is_fresh() {
        return;
    }
    let is_old = core.limits.caps.counts.lock().is_old;
    if is_old {
        let its = Arc::clone(core);
        core.work.detach(async move {
            if let Ok(_one_counts) = its.limits.caps.counting.try_lock() {
                count_now(&its).await;
            }
        });
        return;
    }
    let _one_counts = core.limits.caps.counting.lock().await;
    if !is_fresh() {
        count_now(core).await;
    }
}

async fn count_now(core: &Core) {
    let silent = || Error::did_not_happen("count what waits", "no answer");
    match timeout(PATIENCE, core.store.books()).await.unwrap_or_else(|_| Err(silent())) {
        Ok(books) => *core.limits.caps.counts.lock() = CapCounts::of(&books),
        Err(error) => {
            tracing::warn!(%error, "what waits cannot be counted; caps go by the last count");
            let mut counts = core.limits.caps.counts.lock();
            (counts.counted_at, counts.is_old) = (Some(Instant::now()), true);
        }
    }
}

/// Returns the refusals in order. `None` if the task fits, its room is reserved, and it is within its rate.
pub(crate) async fn refused(core: &Arc<Core>, tasks: &[NewTask]) -> Result<Vec<Option<Refused>>, Error> {
    if core.options.explicit_namespaces {
        // An unread namespace would be mistaken for a missing one.
        control::loaded(core).await?;
    }
    let known = core.settings.known();
    let closed = tasks.iter().map(|task| namespaces::closed(core, &known, &task.queue.namespace));
    let mut refused: Vec<Option<Refused>> = closed.map(|closed| closed.map(Refused::Closed)).collect();
    quota::keep_slow(core, tasks, &mut refused);
    if !known.has_caps() {
        return Ok(refused);
    }
    count(core).await;
    {
        let mut counts = core.limits.caps.counts.lock();
        for (task, refused) in tasks.iter().zip(&mut refused).filter(|(_, refused)| refused.is_none()) {
            *refused = counts.let_in(&known, task);
        }
    }
    for (task, refused) in tasks.iter().zip(&mut refused) {
        // An existing task is replaced, or is the answer: the number of waiting tasks does not grow.
        let (false, Some(why @ (Refused::Full(_) | Refused::TooManyBytes(_)))) =
            (task.is_anonymous(), &refused)
        else {
            continue;
        };
        let version = Some(task.task_version);
        // If the store cannot be asked, the insert itself reports why. The other tasks are unaffected.
        let stored_task = timeout(PATIENCE, identity::stored_task(core, task, version, 1)).await;
        let is_refused = match stored_task {
            Ok(Ok(stored_task)) => match (stored_task.first(), why) {
                (None, _) => true,
                (Some(stored_task), Refused::TooManyBytes(_)) => grows(stored_task, &task.payload),
                (Some(_), _) => false,
            },
            _ => false,
        };
        if !is_refused {
            *refused = None;
        }
    }
    Ok(refused)
}

/// True if inserting an existing task adds to the waiting bytes: a longer payload replaces it, or restarts it after
/// its end.
fn grows(stored_task: &Task, payload: &Content) -> bool {
    let is_answer = stored_task.state.is_in_flight() || stored_task.state == State::Succeeded;
    let was = if stored_task.state.is_pending() { bytes_of(&stored_task.ask.payload) } else { 0 };
    !is_answer && bytes_of(payload) > was
}

/// Why a waiting task cannot get this payload. `None` if it fits.
async fn other_payload(core: &Arc<Core>, task: &Task, payload: &Content) -> Option<TooManyBytes> {
    let known = core.settings.known();
    let more = bytes_of(payload).saturating_sub(bytes_of(&task.ask.payload));
    if more == 0 || !known.caps_bytes() || !task.state.is_pending() {
        return None;
    }
    count(core).await;
    let mut counts = core.limits.caps.counts.lock();
    let namespace = &task.ask.queue.namespace;
    let refused = counts.too_many_bytes(&known, namespace, more);
    if refused.is_none() {
        counts.add_bytes(namespace, more);
    }
    refused
}

/// Why a waiting task may not be moved into another queue of its namespace.
async fn other_queue(core: &Arc<Core>, task: &Task, queue: &Name) -> Option<QueueRefused> {
    let from = &task.ask.queue;
    if queue == &from.queue {
        return None;
    }
    let to = QueueKey { namespace: from.namespace.clone(), queue: queue.clone() };
    if let Some(versions) = task.ask.demands.handler_versions.clone().filter(|_| core.pushes(&to)) {
        return Some(QueueRefused::Versions(versions));
    }
    let known = core.settings.known();
    if !known.has_caps() || !task.state.is_pending() {
        return None;
    }
    count(core).await;
    core.limits.caps.counts.lock().let_into(&known, from, &to).map(QueueRefused::Full)
}

impl Engine {
    /// Why a waiting task may not be moved into another queue. If it may, its room there is reserved until
    /// the next count.
    pub async fn queue_refused(&self, task: &Task, queue: &Name) -> Option<QueueRefused> {
        other_queue(&self.core, task, queue).await
    }

    /// Why a waiting task may not get this payload: it does not fit.
    pub async fn payload_refused(&self, task: &Task, payload: &Content) -> Option<TooManyBytes> {
        other_payload(&self.core, task, payload).await
    }

    /// Returns which of these tasks exceed a cap or their rate, in order. Capacity for the others is reserved until
    /// the next count.
    ///
    /// # Errors
    /// A failing store, where a cap is set.
    pub async fn refused(&self, tasks: &[NewTask]) -> Result<Vec<Option<Refused>>, crate::Error> {
        Ok(refused(&self.core, tasks).await?)
    }
}
