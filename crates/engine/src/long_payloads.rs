//! Contents above the row limit: they are stored outside the database, and rows have their keys. Order of
//! steps, and what a crash between two of them leaves:
//!
//! 1. The object is put. Crash: an object without a row; `maintenance::unused` deletes it a day later.
//! 2. The row is written, with the key (insert, reschedule, outcome). Crash: nothing is missing, only the
//!    answer. If the write is refused, or certainly failed, the object is deleted. If that is unknown, the
//!    object stays, for `unused`.
//! 3. The object that was replaced is deleted, if its key is known. Crash, or an unknown key (a replacement
//!    by an insert, a deleted task): as 1.
//!
//! No object is deleted while a row may refer to it: step 3 follows the commit, and `unused` asks the store.
//! Contents are fetched after a lease is committed and before the task is handed over (`fetch`). If the
//! storage does not answer, is not configured, or belongs to another store, the task is `dispatch_failed`,
//! its attempt is returned, and the compensator retries it: an outage buries no task. If the storage answers
//! and belongs to this store, a missing object is lost, and waiting does not help. That spends attempts
//! (`lost`), so that the task is dead after the last one, and an operator learns of it.

pub(crate) mod key;
mod lost;

use crate::{
    answer,
    core::Core,
    identity,
    pipeline::{hand_over::release::give_back, push::unsent},
};
use futures_util::{StreamExt as _, stream};
use key::BlobKey;
use punctual_contract::{
    Blobs, Error, Happened,
    store::{Assignment, Inserted},
};
use punctual_domain::{
    insert::Decision,
    name::Name,
    task::{Content, NewTask, Task},
};
use std::{sync::Arc, time::Duration};

/// Objects that one call works on at the same time.
const AT_ONCE: usize = 8;
/// The maximum size of the payloads that are fetched for one hand-over: an executor that requests more tasks than fit
/// gets fewer.
const FETCH_MAX_BYTES: usize = 256 << 20;
const READ: &str = "read a long payload or result";
/// Leases tick meanwhile.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// Ids for tasks with a long payload and without an id: the upper half of those that are exact in JavaScript.
/// The engine's counted ids stay far below.
const IDS: std::ops::Range<i64> = (1 << 52) + (1 << 51)..1 << 53;

/// A content that may be long, and whose it is.
pub(crate) struct Owned<'a> {
    pub(crate) nth: usize,
    pub(crate) namespace: &'a Name,
    pub(crate) task_id: i64,
    pub(crate) task_version: i64,
    pub(crate) content: &'a mut Content,
}

/// Keys of objects that were just put, with the number of the item that they are for.
pub(crate) type Put = Vec<(usize, String)>;

impl Core {
    pub(crate) fn is_long(&self, content: &Content) -> bool {
        self.blobs.is_some() && !content.is_outside && content.bytes.len() > self.options.inline_max_bytes
    }
}

/// Stores the long contents, and replaces them by references. On an error, the stored objects are deleted.
pub(crate) async fn put(core: &Arc<Core>, contents: Vec<Owned<'_>>) -> Result<Put, Error> {
    let Some(blobs) = core.blobs.clone() else { return Ok(Vec::new()) };
    let long = contents.into_iter().filter(|content| core.is_long(content.content));
    let all: Vec<_> = long.map(|owned| put_one(core, Arc::clone(&blobs), owned)).collect();
    let (mut put, mut failed) = (Vec::with_capacity(all.len()), None);
    for pair in stream::iter(all).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await {
        match pair {
            Ok(pair) => put.push(pair),
            Err(error) => failed = Some(error),
        }
    }
    let Some(error) = failed else { return Ok(put) };
    delete_soon(core, keys(put));
    // Whether or not the object exists: no row has changed.
    Err(Error { happened: Happened::No, ..error })
}

async fn put_one(core: &Core, blobs: Arc<dyn Blobs>, owned: Owned<'_>) -> Result<(usize, String), Error> {
    let Owned { nth, namespace, task_id, task_version, content } = owned;
    let (put_at, number) = (core.now(), fastrand::u64(..));
    let key = BlobKey { namespace: namespace.clone(), task_id, task_version, put_at, number }.to_string();
    let bytes = std::mem::take(&mut content.bytes);
    *content = Content::outside(content.is_json, &key, bytes.len());
    blobs.put(&key, bytes).await?;
    Ok((nth, key))
}

/// Stores the long payloads of an insert. A task without an id gets one, because its object is found by it.
pub(crate) async fn put_payloads(core: &Arc<Core>, tasks: &mut [NewTask]) -> Result<Put, Error> {
    for task in tasks.iter_mut().filter(|task| task.task_id.is_none() && core.is_long(&task.payload)) {
        let namespace = &task.queue.namespace;
        task.task_id = Some(match &task.key {
            Some(key) => identity::id_of_key(core, namespace, key).await?,
            None => free_id(core, namespace).await?,
        });
    }
    put(core, tasks.iter_mut().enumerate().map(owned_payload).collect()).await
}

fn owned_payload<'a>((nth, task): (usize, &'a mut NewTask)) -> Owned<'a> {
    let NewTask { queue, task_id, task_version, payload: content, .. } = task;
    let (task_id, task_version) = (task_id.unwrap_or_default(), *task_version);
    Owned { nth, namespace: &queue.namespace, task_id, task_version, content }
}

async fn free_id(core: &Core, namespace: &Name) -> Result<i64, Error> {
    loop {
        let id = fastrand::i64(IDS);
        if core.store.versions(namespace, id, None, 1).await?.is_empty() {
            return Ok(id);
        }
    }
}

/// Deletes objects without a row after the insert.
pub(crate) fn inserted(core: &Arc<Core>, put: Put, inserted: &Result<Vec<Result<Inserted, Error>>, Error>) {
    match inserted {
        Ok(inserted) => {
            // If the result is unknown, a row may refer to the object.
            let is_stored = |result: &Result<Inserted, Error>| match result {
                Ok(inserted) => matches!(inserted.decision, Decision::Create | Decision::Replace),
                Err(error) => error.happened == Happened::Maybe,
            };
            let refused = put.into_iter().filter(|pair| !inserted.get(pair.0).is_some_and(is_stored));
            delete_soon(core, keys(refused));
        }
        Err(error) => failed(core, error, put),
    }
}

/// The rows were not written, or it is unknown.
pub(crate) fn failed(core: &Arc<Core>, error: &Error, put: Put) {
    if error.happened == Happened::No {
        delete_soon(core, keys(put));
    }
}

pub(crate) fn keys(put: impl IntoIterator<Item = (usize, String)>) -> Vec<String> {
    put.into_iter().map(|pair| pair.1).collect()
}

/// The key of a content that a row no longer refers to.
pub(crate) fn key_of(content: &Content) -> Option<String> {
    content.reference().map(|reference| reference.key.to_owned())
}

/// Deletes objects. No caller waits for this; `unused` finds objects that it fails to delete.
pub(crate) fn delete_soon(core: &Arc<Core>, keys: Vec<String>) {
    let Some(blobs) = core.blobs.clone().filter(|_| !keys.is_empty()) else { return };
    core.work.detach(async move {
        if let Err(error) = blobs.delete(&keys).await {
            tracing::debug!(%error, "objects that nothing refers to are left; they are found a day later");
        }
    });
}

/// Why a content is not here.
#[derive(Debug)]
pub(crate) enum Unread {
    /// The object may exist, but the storage does not answer.
    Away(Error),
    /// The object is missing, or differs from what was stored: a sentence for operators.
    Lost(String),
}

impl From<Unread> for Error {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Away(error) => error,
            Unread::Lost(problem) => Self::did_not_happen(READ, problem),
        }
    }
}

/// The content itself.
pub(crate) async fn read(core: &Core, content: &mut Content) -> Result<(), Unread> {
    if !content.is_outside {
        return Ok(());
    }
    let Some(blobs) = &core.blobs else {
        return Err(away("it is kept outside of the store, and payloads.url is not set".to_owned()));
    };
    let read = read_at(blobs.as_ref(), content);
    let read = tokio::time::timeout(FETCH_TIMEOUT, read).await;
    *content = read.map_err(|_| away(format!("it was not read within {FETCH_TIMEOUT:?}")))??;
    Ok(())
}

fn away(problem: String) -> Unread {
    Unread::Away(Error::did_not_happen(READ, problem))
}

async fn read_at(blobs: &dyn Blobs, content: &Content) -> Result<Content, Unread> {
    let Some(reference) = content.reference() else {
        return Err(Unread::Lost("its reference cannot be read".to_owned()));
    };
    let (key, len) = (reference.key, reference.len);
    let problem = match blobs.get(key).await.map_err(Unread::Away)? {
        Some(bytes) if bytes.len() == len => return Ok(Content::inside(content.is_json, bytes)),
        Some(bytes) => format!("the object {key} has {} bytes, and should have {len}", bytes.len()),
        None => format!("there is no object {key}"),
    };
    match blobs.is_own().await {
        Ok(true) => Err(Unread::Lost(problem)),
        Ok(false) => Err(away(format!("{problem}, in a place that is not marked as this store's"))),
        Err(error) => Err(Unread::Away(error)),
    }
}

/// The task with its payload and its result. Where they were replaced meanwhile, those of now; without those that are lost.
pub(crate) async fn whole(core: &Core, task: Task) -> Result<Task, answer::Error> {
    let place = task.place;
    match read_both(core, task).await {
        Ok((task, false)) => Ok(task),
        _ => Ok(read_both(core, crate::change::read(core, place).await?).await?.0),
    }
}

/// Reads the task's payload and result. The flag is true if one of them is lost.
async fn read_both(core: &Core, mut task: Task) -> Result<(Task, bool), Error> {
    let result = task.result.as_mut().and_then(|result| result.content.as_mut());
    let mut is_lost = false;
    for content in result.into_iter().chain([&mut task.ask.payload]) {
        match read(core, content).await {
            Err(Unread::Lost(_)) => is_lost = true,
            other => other?,
        }
    }
    Ok((task, is_lost))
}

/// Returns the leases with their contents, in order. A task whose content cannot be read has its attempt
/// returned and is retried, or has spent the attempt if the content is lost. Tasks beyond the byte limit are
/// ready again.
pub(crate) async fn fetch(core: &Arc<Core>, leased: Vec<Assignment>) -> Vec<Assignment> {
    if leased.iter().all(|lease| !lease.payload.is_outside) {
        return leased;
    }
    let (fitting, too_much) = within(leased, FETCH_MAX_BYTES);
    give_back(core, too_much, "too_much_at_once").await;
    let fetching = fitting.into_iter().map(|mut lease| async move {
        let read = read(core, &mut lease.payload).await;
        (lease, read)
    });
    let (mut fetched, mut away, mut lost) = (Vec::new(), Vec::new(), Vec::new());
    for (lease, read) in stream::iter(fetching).buffered(AT_ONCE).collect::<Vec<_>>().await {
        match read {
            Ok(()) => fetched.push(lease),
            Err(Unread::Away(error)) => away.push((lease, error.to_string())),
            Err(Unread::Lost(problem)) => lost.push((lease, problem)),
        }
    }
    if let Some((_, error)) = away.first() {
        tracing::warn!(tasks = away.len(), error, "long payloads cannot be read; their tasks come again");
    }
    unsent::mark_failed(core, away).await;
    lost::spend(core, lost).await;
    fetched
}

/// Splits off as many leases as fit, at least one.
fn within(leased: Vec<Assignment>, max_bytes: usize) -> (Vec<Assignment>, Vec<Assignment>) {
    let (mut sum, mut fitting, mut rest) = (0_usize, Vec::new(), Vec::new());
    for lease in leased {
        sum = sum.saturating_add(lease.payload.reference().map_or(0, |reference| reference.len));
        if sum <= max_bytes || fitting.is_empty() { fitting.push(lease) } else { rest.push(lease) }
    }
    (fitting, rest)
}
