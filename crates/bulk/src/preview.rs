//! The preview of an operation: how many tasks match, and the first of them. The number is exact if the
//! account has it; otherwise the tasks are counted. If that takes longer than the caller waits, the runner
//! continues counting, and until then the number is a lower bound.

use crate::{error::Error, state::RunnerState};
use punctual_contract::{
    Error as BackendError,
    bulk::{NewBulk, StoredBulk, TaskFilter},
    store::Books,
};
use punctual_domain::{
    bulk::{Bulk, Progress},
    name::Name,
    place::TaskRef,
    task::Task,
    time::Millis,
};

/// Places of one read.
const LOOK: usize = 20_000;

#[derive(Debug)]
pub struct Previewed {
    pub stored: StoredBulk,
    pub sample: Vec<Task>,
}

pub(crate) async fn preview(
    inner: &RunnerState,
    namespace: &Name,
    bulk: Bulk,
    by: &str,
) -> Result<Previewed, Error> {
    if bulk.states().is_empty() {
        return Err(Error::Nothing);
    }
    let now = inner.engine.now();
    let look = look(namespace, &bulk, now);
    let first = TaskFilter { limit: inner.options.sample.max(1), ..look.clone() };
    let (counted, sample) = match account(inner, namespace, &bulk).await? {
        Some(count) => (Counted { count, below: None }, sample(inner, first).await?),
        None => walk(inner, look).await?,
    };
    let progress = Progress {
        count: counted.count,
        count_is_exact: counted.below.is_none(),
        counting_below: counted.below,
        previewed_at: now,
        ..Progress::default()
    };
    let new = NewBulk { namespace: namespace.clone(), bulk, progress, by: by.to_owned() };
    let stored = inner.store.create_bulk(new, now).await?;
    inner.has_work.notify_one();
    Ok(Previewed { stored, sample })
}

/// The running count.
pub(crate) struct Counted {
    pub(crate) count: u64,
    /// The position where the count continues. `None` if all were read.
    pub(crate) below: Option<i64>,
}

/// All that matches and was made until now.
pub(crate) fn look(namespace: &Name, bulk: &Bulk, now: Millis) -> TaskFilter {
    let filter = bulk.filter.clone();
    TaskFilter {
        namespace: Some(namespace.clone()),
        queue: filter.queue,
        states: bulk.states(),
        kind: filter.kind,
        label: filter.label,
        due_after: filter.due_after,
        due_before: filter.due_before,
        error: filter.error,
        created_until: Some(now),
        partitions: None,
        before_id: None,
        limit: LOOK,
    }
}

/// Returns `None` if the account does not have the count.
async fn account(inner: &RunnerState, namespace: &Name, bulk: &Bulk) -> Result<Option<u64>, Error> {
    if !bulk.filter.is_of_the_account() {
        return Ok(None);
    }
    let (states, queue) = (bulk.states(), bulk.filter.queue.as_ref());
    let Books { tallies, .. } = inner.engine.store().books().await?;
    let of_it = tallies.iter().filter(|tally| {
        tally.queue.namespace == *namespace
            && queue.is_none_or(|queue| *queue == tally.queue.queue)
            && states.contains(&tally.state)
    });
    Ok(Some(u64::try_from(of_it.map(|tally| tally.tasks).sum::<i64>()).unwrap_or(0)))
}

async fn sample(inner: &RunnerState, mut look: TaskFilter) -> Result<Vec<Task>, Error> {
    for _ in 0..inner.options.preview_looks {
        let found = inner.store.matching(&look).await?;
        if !found.places.is_empty() {
            return read(inner, &found.places).await;
        }
        let Some(next) = found.next_before_id else { break };
        look.before_id = Some(next);
    }
    Ok(Vec::new())
}

async fn read(inner: &RunnerState, places: &[TaskRef]) -> Result<Vec<Task>, Error> {
    let first: Vec<_> = places.iter().take(inner.options.sample).copied().collect();
    Ok(inner.engine.store().read(&first).await?.into_iter().flatten().collect())
}

/// Counts the tasks, as far as a preview does at once.
async fn walk(inner: &RunnerState, look: TaskFilter) -> Result<(Counted, Vec<Task>), Error> {
    let mut first = Vec::new();
    let counted = count_on(inner, look, Some(&mut first)).await?;
    Ok((counted, read(inner, &first).await?))
}

/// Continues counting, with a bounded number of reads.
pub(crate) async fn count_on(
    inner: &RunnerState,
    mut look: TaskFilter,
    mut first: Option<&mut Vec<TaskRef>>,
) -> Result<Counted, BackendError> {
    let mut count = 0_u64;
    for _ in 0..inner.options.preview_looks.max(1) {
        let found = inner.store.matching(&look).await?;
        count += u64::try_from(found.places.len()).unwrap_or(u64::MAX);
        if let Some(first) = first.as_mut().filter(|places| places.len() < inner.options.sample) {
            first.extend(found.places.iter().copied());
            first.truncate(inner.options.sample);
        }
        look.before_id = found.next_before_id;
        if look.before_id.is_none() {
            break;
        }
    }
    Ok(Counted { count, below: look.before_id })
}
