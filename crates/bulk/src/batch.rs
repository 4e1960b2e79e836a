//! A batch: what became of its tasks, and the tasks of the next one. Stores both in one step.

use crate::{apart::Away, state::RunnerState};
use punctual_contract::{
    Error as BackendError,
    bulk::{AdvanceBulk, BulkFailure, StoredBulk},
    store::Applied,
};
use punctual_domain::{
    bulk::{BulkState, Progress, Walk},
    place::TaskRef,
    time::Millis,
};

/// The maximum number of changes of the operation by other callers (usually a pause) while a batch is running.
const COMMITS: usize = 8;
/// The pause after a batch that could not be done. It doubles each time, up to the second value.
pub(crate) const AGAIN_AFTER_MS: i64 = 500;
const AGAIN_AFTER_MAX_MS: i64 = 30_000;

/// The results of a batch.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) done: u64,
    pub(crate) skipped: u64,
    pub(crate) failed: Vec<BulkFailure>,
    /// The tasks that are no failures (any more).
    pub(crate) decided: Vec<i64>,
    pub(crate) left: Vec<TaskRef>,
    pub(crate) waits_for: Option<String>,
}

/// The tasks of the next batch.
#[derive(Debug, Default)]
pub(crate) struct Next {
    pub(crate) places: Vec<TaskRef>,
    /// Found, but without an action.
    pub(crate) counted: usize,
    /// `None` if no search was made.
    pub(crate) looked: Option<WalkPosition>,
}

#[derive(Debug)]
pub(crate) struct WalkPosition {
    pub(crate) before_id: Option<i64>,
    pub(crate) is_through: bool,
}

/// Accounts for a batch and stores the next, in one step. If the operation was paused or stopped meanwhile, the
/// running batch is still accounted for. `None` if another engine has done so.
pub(crate) async fn commit(
    inner: &RunnerState,
    mut stored: StoredBulk,
    (nth, walk): (usize, &Walk),
    acted: &Batch,
    (next, away): (&Next, &Away),
) -> Result<Option<StoredBulk>, BackendError> {
    let number = stored.progress.batch_number;
    for _ in 0..COMMITS {
        let now = inner.engine.now();
        let advance = advanced(&stored, (nth, walk), acted, (next, away), now);
        let (state, wake_at, progress) = (advance.state, advance.wake_at, advance.progress.clone());
        if inner.store.advance_bulk(advance, now).await? == Applied::Moved {
            let counted = u64::try_from(next.counted).unwrap_or(u64::MAX);
            let failed = u64::try_from(acted.failed.len()).unwrap_or(u64::MAX);
            inner.meters.add(&stored.bulk.action, [acted.done + counted, acted.skipped, failed]);
            inner.meters.carried_on(stored.id, state != BulkState::Running, now);
            let step = stored.step + 1;
            return Ok(Some(StoredBulk { step, state, wake_at, progress, ..stored }));
        }
        match inner.store.bulk(&stored.namespace, stored.id).await? {
            Some(now) if now.progress.batch_number == number => stored = now,
            _ => return Ok(None),
        }
    }
    Ok(None)
}

fn advanced(
    stored: &StoredBulk,
    (nth, walk): (usize, &Walk),
    acted: &Batch,
    (next, away): (&Next, &Away),
    now: Millis,
) -> AdvanceBulk {
    let mut progress = stored.progress.clone();
    progress.tally.done += acted.done + u64::try_from(next.counted).unwrap_or(u64::MAX);
    progress.tally.skipped += acted.skipped;
    let failed = u64::try_from(acted.failed.len()).unwrap_or(u64::MAX);
    progress.tally.failed += failed;
    let handled = acted.decided.len() + acted.failed.len();
    progress.pace(now, handled, stored.bulk.rate);
    progress.batch_number += 1;
    let walk = after(&mut progress, walk, acted, (next, away), now);
    progress.put(nth, walk);
    let (mut state, mut wake_at) = (stored.state, Some(progress.paced_until.max(progress.next_at())));
    if state == BulkState::Running && progress.is_over() {
        (state, progress.ended_at) = (BulkState::Done, Some(now));
    }
    if state != BulkState::Running {
        wake_at = None;
    }
    if stored.state == BulkState::Stopped {
        // Tasks that were planned before the stop are not processed.
        progress.drop_batches();
    }
    let mended = if progress.repeats { acted.decided.clone() } else { Vec::new() };
    AdvanceBulk {
        id: stored.id,
        step: stored.step,
        state,
        progress,
        wake_at,
        failed: acted.failed.clone(),
        mended,
    }
}

/// A walk after its batch. If others answer, its unavailable parts continue in separate walks.
fn after(
    progress: &mut Progress,
    walk: &Walk,
    acted: &Batch,
    (next, away): (&Next, &Away),
    now: Millis,
) -> Walk {
    let mut walk = walk.clone();
    let texts =
        |places: &mut dyn Iterator<Item = &TaskRef>| places.map(TaskRef::to_string).collect::<Vec<_>>();
    let again_at = |times: u32| {
        let again = AGAIN_AFTER_MS.saturating_mul(1 << times.min(8)).min(AGAIN_AFTER_MAX_MS);
        now.plus(again)
    };
    (walk.waits_for, walk.again_at) = (None, Millis::ZERO);
    if let Some(error) = away.of_all() {
        walk.waits += 1;
        walk.batch = texts(&mut acted.left.iter());
        (walk.waits_for, walk.again_at) = (Some(error.to_owned()), again_at(walk.waits));
        return walk;
    }
    walk.waits = 0;
    for part in &away.parts {
        let batch = texts(&mut acted.left.iter().filter(|place| part.has(place.partition)));
        let apart = Walk {
            partitions: part.partitions.clone(),
            batch,
            tries: 0,
            waits: 1,
            waits_for: Some(part.error.clone()),
            again_at: again_at(1),
            ..walk.clone()
        };
        progress.part(&mut walk, apart);
    }
    let left = texts(&mut acted.left.iter().filter(|place| !away.has(place.partition)));
    if left.is_empty() {
        walk.tries = 0;
        walk.batch = texts(&mut next.places.iter());
        if let Some(looked) = &next.looked {
            (walk.before_id, walk.is_through) = (looked.before_id, looked.is_through);
        }
    } else {
        walk.tries += 1;
        walk.batch = left;
        (walk.waits_for, walk.again_at) = (acted.waits_for.clone(), again_at(walk.tries));
    }
    walk
}
