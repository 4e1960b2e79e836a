//! Unavailable databases: they are recognized by a query for nothing. A walk's partitions there continue in a
//! separate walk, so that the other tasks do not wait for them. That walk waits without limit, and none of
//! its tasks counts as failed. Must not decide anything about a task.

use crate::{preview, state::RunnerState};
use futures_util::{StreamExt as _, stream};
use punctual_contract::bulk::{StoredBulk, TaskFilter};
use punctual_domain::{bulk::Walk, history::clip, place::Partition};
use std::collections::{BTreeMap, BTreeSet};

/// Longest text of why something is waited for, in bytes.
const ERROR_LEN_MAX: usize = 512;
/// Databases that are asked at one time.
const ASKED_AT_ONCE: usize = 16;

/// The parts of a walk that do not answer.
#[derive(Debug, Default)]
pub(crate) struct Away {
    pub(crate) parts: Vec<DatabasePartitions>,
    /// True if none of its databases answers.
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

    /// The error, if all of it is unavailable.
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

/// The first walk names none: it has the partitions that no other walk has.
fn partitions(inner: &RunnerState, stored: &StoredBulk, walk: &Walk) -> BTreeSet<Partition> {
    if !walk.partitions.is_empty() {
        return walk.partitions.iter().copied().map(Partition).collect();
    }
    let apart: BTreeSet<u16> = stored.progress.partitions_apart().collect();
    (0..inner.engine.store().partitions()).filter(|nth| !apart.contains(nth)).map(Partition).collect()
}

/// Databases with partitions of the walk that do not answer. Empty for an operation that repeats its
/// failures: those are walked along their own list.
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

/// A query for nothing: no task has so low an id.
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
