//! Deletes the contents of namespaces that are being deleted. In each database the engine that leads there
//! does it, so that an unavailable database does not stop the others, and another engine continues after a
//! crash. It deletes small batches at a bounded rate, so that other namespaces' tasks stay punctual. Order of
//! steps, and what a crash leaves:
//!
//! 1. The deletion is stored in the settings (`namespaces`), and every engine learns of it. Crash: the
//!    leading engine continues.
//! 2. Executors are asked to stop, and get time to report; then their tasks are deleted too.
//! 3. Tasks are deleted in batches: from the store, then from the hot set, then their slots. Crash between:
//!    the store refuses what the hot set still has; the reconciler frees the slots.
//! 4. When the account has none left: lines, settings of its queues and traces are deleted. Crash: this is
//!    repeated.
//! 5. The namespace's own settings, and with them the deletion. Then the namespace no longer exists, and can
//!    be created again.

pub(crate) mod state;

use crate::{control, core::Core, namespaces::tasks_in, parts, pipeline::freed};
use futures_util::future::try_join_all;
use punctual_contract::{
    Error,
    limiter::Member,
    namespaces::{DeleteTasks, DeletedTasks},
    settings::{SaveSetting, StoredSetting},
};
use punctual_domain::{
    name::Name,
    place::TaskRef,
    settings::{Deletion, Scope},
    time::Millis,
};
use state::DeletionState;
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

pub(crate) const PERIOD: Duration = Duration::from_millis(250);
/// Tasks of one transaction: about five milliseconds in which inserts of that writer wait.
const BATCH: usize = 100;
/// Batches of one run in one part: 1,600 tasks a second.
const BATCHES: usize = 4;
/// The time that executors have to report their running attempts.
const GRACE_MS: i64 = 5_000;
/// The minimum time before a namespace is removed. By then every engine refuses its tasks, and those that were
/// accepted before are found.
const GONE_AFTER_MS: i64 = 12_000;
/// The number of rows of one statement that deletes traces.
const TRACES: usize = 500;
/// Settings of queues that one run removes.
const QUEUES: usize = 100;

/// Tasks deleted.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    let going = going(core);
    if going.is_empty() {
        *core.maintenance.deletions.inner.lock() = DeletionState::default();
        return Ok(0);
    }
    // At each engine: the others' lines are not this one's.
    for (namespace, _) in &going {
        empty_lines(core, namespace);
    }
    let deleted =
        parts::each(core, "deletion", parts::PATIENCE, move |core, part| run_in(core, part, now)).await;
    let mut ended = Ok(());
    if core.leads() {
        for (namespace, deletion) in going {
            if let Err(error) = end(core, &namespace, &deletion, now).await {
                ended = Err(error);
            }
        }
    }
    deleted.and_then(|count| ended.map(|()| count))
}

/// Some namespace is being deleted.
pub(crate) fn is_going(core: &Core) -> bool {
    core.settings.known().namespaces.values().any(|set| set.deletion.is_some())
}

/// The namespaces in rotation: each run begins with the next namespace.
fn going(core: &Core) -> Vec<(Name, Deletion)> {
    let known = core.settings.known();
    let deletion = |(name, set): (&Name, &punctual_domain::settings::ScopeSettings)| {
        Some((name.clone(), *set.deletion.clone()?))
    };
    let mut going: Vec<_> = known.namespaces.iter().filter_map(deletion).collect();
    going.sort_by(|a, b| a.0.cmp(&b.0));
    let turn = core.maintenance.deletions.turn.fetch_add(1, Relaxed) % going.len().max(1);
    going.rotate_left(turn);
    going
}

async fn run_in(core: Arc<Core>, part: usize, now: Millis) -> Result<usize, Error> {
    if !core.leads_in(part) {
        return Ok(0);
    }
    let (mut count, mut batches) = (0, BATCHES);
    for (namespace, deletion) in going(&core) {
        let in_flight = !(0..GRACE_MS).contains(&now.since(deletion.since));
        while batches > 0 {
            batches -= 1;
            let key = (namespace.clone(), part);
            let from = core.maintenance.deletions.inner.lock().from.get(&key).copied();
            let asked = DeleteTasks { namespace: namespace.clone(), from, limit: BATCH, in_flight, now };
            let done = core.store.delete_tasks_in(part, asked).await?;
            count += done.deleted.len();
            forget_deleted(&core, &done).await;
            let mut inner = core.maintenance.deletions.inner.lock();
            match done.next {
                Some(next) => drop(inner.from.insert(key, next)),
                None => {
                    inner.from.remove(&key);
                    break;
                }
            }
        }
    }
    Ok(count)
}

/// These are deleted: none of them may be due, fire, or hold a slot. What fails here is later refused by the
/// store.
async fn forget_deleted(core: &Arc<Core>, done: &DeletedTasks) {
    if done.deleted.is_empty() {
        return;
    }
    let gone: Vec<TaskRef> = done.deleted.iter().map(|deleted| deleted.place).collect();
    {
        let mut table = core.live.lock();
        gone.iter().for_each(|place| _ = table.withdraw(place.id, i64::MAX));
    }
    let withdrawn = gone.iter().map(|place| core.hot.withdraw(place.partition, place.id, i64::MAX));
    if let Err(error) = try_join_all(withdrawn).await {
        tracing::warn!(%error, "deleted tasks stay in the hot set until their time comes");
    }
    let flown = done.deleted.iter().filter(|deleted_task| deleted_task.was_in_flight);
    let members = flown.map(|deleted| (Member { id: deleted.place.id, fence: deleted.fence }, None));
    freed::free(core, members.collect()).await;
}

/// Ends the deletion of a namespace that is empty.
async fn end(core: &Arc<Core>, namespace: &Name, deletion: &Deletion, now: Millis) -> Result<(), Error> {
    let is_too_early = (0..GONE_AFTER_MS).contains(&now.since(deletion.since));
    if is_too_early || tasks_in(core, namespace).await? > 0 {
        return Ok(());
    }
    for part in 0..core.store.parts() {
        let asked =
            DeleteTasks { namespace: namespace.clone(), from: None, limit: BATCH, in_flight: true, now };
        let done = core.store.delete_tasks_in(part, asked).await?;
        if done.replies > 0 || !done.deleted.is_empty() {
            forget_deleted(core, &done).await;
            return Ok(());
        }
    }
    if empty_lines(core, namespace) > 0 || reset_queues(core, namespace, deletion, now).await? > 0 {
        return Ok(());
    }
    if core.store.delete_traces(namespace, TRACES).await? > 0 {
        return Ok(());
    }
    let scope = Scope::Namespace(namespace.clone());
    let Some(current) = all_set(core).await?.into_iter().find(|standing| standing.scope == scope) else {
        return Ok(());
    };
    remove(core, current, deletion, now).await?;
    tracing::info!(%namespace, "a namespace and all that it held is deleted");
    Ok(())
}

async fn all_set(core: &Core) -> Result<Vec<StoredSetting>, Error> {
    Ok(core.store.settings().await?.all)
}

/// Removes a setting only if it is unchanged since it was read. Deleting the namespace includes its queues'
/// settings.
async fn remove(
    core: &Arc<Core>,
    standing: StoredSetting,
    deletion: &Deletion,
    now: Millis,
) -> Result<(), Error> {
    let asked = SaveSetting {
        scope: standing.scope,
        setting: None,
        expected: Some(standing.revision),
        by: deletion.by.clone(),
    };
    control::save_known(core, asked, now).await.map(drop)
}

/// Resets the queues. Returns the number of removed settings.
async fn reset_queues(
    core: &Arc<Core>,
    namespace: &Name,
    deletion: &Deletion,
    now: Millis,
) -> Result<usize, Error> {
    let is_its =
        |standing: &StoredSetting| matches!(&standing.scope, Scope::Queue(of) if of.namespace == *namespace);
    let its: Vec<StoredSetting> = all_set(core).await?.into_iter().filter(is_its).take(QUEUES).collect();
    let count = its.len();
    for standing in its {
        remove(core, standing, deletion, now).await?;
    }
    Ok(count)
}

/// Removes fired tasks that were not handed over from the lines. Their rows were deleted, or a crash left them.
/// Returns their number.
fn empty_lines(core: &Core, namespace: &Name) -> usize {
    core.live.lock().serve_no_more(|queue| queue.namespace == *namespace, |_| true).len()
}
