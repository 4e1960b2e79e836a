//! Databases that are unavailable: which they are is found by asking each for nothing. What a walk has there goes by itself from then
//! on, so that the others' tasks do not wait for it; it is waited for without end, and no task of it counts as failed.
//! Must not decide anything about a task.

use crate::{preview, runner::RunnerState};
use futures_util::{StreamExt as _, stream};
use punctual_contract::bulk::{StoredBulk, TaskFilter};
use punctual_domain::{bulk::Walk, history::clip, place::Partition};
use std::collections::{BTreeMap, BTreeSet};

/// Longest text of why something is waited for, in bytes.
const ERROR_LEN_MAX: usize = 512;
/// Databases that are asked at one time.
const ASKED_AT_ONCE: usize = 16;

/// What does not answer of a walk.
#[derive(Debug, Default)]
pub(crate) struct Away {
    pub(crate) parts: Vec<DatabasePartitions>,
    /// Nothing else of it does.
    is_all: bool,
}

/// The partitions of one database.
#[derive(Debug)]
pub(crate) struct DatabasePartitions {
    pub(crate) partitions: Vec<u16>,
    pub(crate) error: String,
}

impl DatabasePartitions {
    pub(crate) fn has(&self, partition: Partition) -> bool {
        self.partitions.binary_search(&partition.0).is_ok()
    }
}

impl Away {
    pub(crate) const fn is_none(&self) -> bool {
        self.parts.is_empty()
    }

    pub(crate) fn has(&self, partition: Partition) -> bool {
        self.parts.iter().any(|part| part.has(partition))
    }

    /// Why, where all of it is unavailable.
    pub(crate) fn of_all(&self) -> Option<&str> {
        self.parts.first().filter(|_| self.is_all).map(|part| part.error.as_str())
    }
}

/// All that matches of a walk.
pub(crate) fn look(inner: &RunnerState, stored: &StoredBulk, walk: &Walk) -> TaskFilter {
    let all = preview::look(&stored.namespace, &stored.bulk, stored.progress.previewed_at);
    let is_whole = walk.partitions.is_empty() && stored.progress.apart.is_empty();
    let partitions = (!is_whole).then(|| partitions(inner, stored, walk));
    TaskFilter { partitions, ..all }
}

/// The first walk names none: it has what no other has.
fn partitions(inner: &RunnerState, stored: &StoredBulk, walk: &Walk) -> BTreeSet<Partition> {
    if !walk.partitions.is_empty() {
        return walk.partitions.iter().copied().map(Partition).collect();
    }
    let apart: BTreeSet<u16> = stored.progress.partitions_apart().collect();
    (0..inner.engine.store().partitions()).filter(|nth| !apart.contains(nth)).map(Partition).collect()
}

/// Databases that have partitions of the walk and do not answer. None of one that passes through its failures again: those are
/// walked along their own list.
pub(crate) async fn away(inner: &RunnerState, stored: &StoredBulk, walk: &Walk) -> Away {
    if stored.progress.repeats {
        return Away::default();
    }
    let mut by_part: BTreeMap<usize, BTreeSet<Partition>> = BTreeMap::new();
    for partition in partitions(inner, stored, walk) {
        by_part.entry(inner.engine.store().part_of(partition)).or_default().insert(partition);
    }
    let count = by_part.len();
    let all = preview::look(&stored.namespace, &stored.bulk, stored.progress.previewed_at);
    let asking: Vec<_> = by_part.into_values().map(|partitions| ask(inner, &all, partitions)).collect();
    let answers: Vec<Option<DatabasePartitions>> =
        stream::iter(asking).buffer_unordered(ASKED_AT_ONCE).collect().await;
    let parts: Vec<DatabasePartitions> = answers.into_iter().flatten().collect();
    Away { is_all: parts.len() == count, parts }
}

/// For nothing: no task has so low an id.
async fn ask(
    inner: &RunnerState,
    all: &TaskFilter,
    partitions: BTreeSet<Partition>,
) -> Option<DatabasePartitions> {
    let numbers = partitions.iter().map(|partition| partition.0).collect();
    let look =
        TaskFilter { before_id: Some(i64::MIN + 1), limit: 1, partitions: Some(partitions), ..all.clone() };
    let error = inner.store.matching(&look).await.err()?;
    let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), |error| error.to_string());
    Some(DatabasePartitions { partitions: numbers, error: clip(&why, ERROR_LEN_MAX).to_owned() })
}
