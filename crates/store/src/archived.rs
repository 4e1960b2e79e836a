//! Reads of tasks that may be archived, for both back ends: the database first, then archive storage for what is missing there.
//! Must never answer "no such task" for an archive that cannot be read.

use crate::{ArchiveError, ArchiveStorage};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use hashbrown::HashMap;
use punctual_domain::{
    place::{Partition, TaskRef},
    task::Task,
};
use std::cmp::Reverse;

/// The number of references that are looked up at the same time.
const AT_ONCE: usize = 8;

pub(crate) fn missing(places: &[TaskRef], found: &[Option<Task>]) -> Vec<TaskRef> {
    places.iter().zip(found).filter(|pair| pair.1.is_none()).map(|pair| *pair.0).collect()
}

/// The ids of callers under which nothing was found.
pub(crate) fn missing_ids(task_ids: &[i64], found: &[Task]) -> Vec<i64> {
    task_ids.iter().copied().filter(|id| found.iter().all(|task| task.task_id() != *id)).collect()
}

/// Puts tasks into the slots of their places.
pub(crate) fn fill(places: &[TaskRef], found: &mut [Option<Task>], tasks: Vec<Task>) {
    let tasks: HashMap<(Partition, i64), Task> =
        tasks.into_iter().map(|task| ((task.place.partition, task.place.id), task)).collect();
    for (place, slot) in places.iter().zip(found) {
        if slot.is_none() {
            *slot = tasks.get(&(place.partition, place.id)).cloned();
        }
    }
}

pub(crate) async fn tasks(
    archive_storage: &ArchiveStorage,
    places: Vec<TaskRef>,
) -> Result<Vec<Task>, ArchiveError> {
    let reads: Vec<_> = places.into_iter().map(|place| archive_storage.read(place)).collect();
    let tasks = stream::iter(reads).buffer_unordered(AT_ONCE).try_collect::<Vec<_>>().await;
    Ok(tasks?.into_iter().flatten().collect())
}

/// The highest versions first. Of one version, the task that is first counts: it is nearer to the present.
pub(crate) fn versions(mut found: Vec<Task>, version: Option<i64>, limit: usize) -> Vec<Task> {
    found.retain(|task| version.is_none_or(|wanted| task.ask.task_version == wanted));
    // Stable.
    found.sort_by_key(|task| Reverse(task.ask.task_version));
    found.dedup_by_key(|task| task.ask.task_version);
    found.truncate(limit);
    found
}
