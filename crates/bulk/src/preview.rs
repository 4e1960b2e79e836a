//! What an operation would be about: how many tasks, and the first of them. Exact where the account of queues and states says
//! so, or where all could be passed over; an estimate otherwise, which is said.

use crate::{error::Error, runner::Inner};
use punctual_contract::{
    bulk::{Look, NewBulk, StoredBulk},
    store::Books,
};
use punctual_domain::{
    bulk::{Bulk, Progress},
    name::Name,
    task::Task,
    time::Millis,
};

/// Places of one look.
const LOOK: usize = 20_000;

#[derive(Debug)]
pub struct Previewed {
    pub stored: StoredBulk,
    pub sample: Vec<Task>,
}

pub(crate) async fn preview(
    inner: &Inner,
    namespace: &Name,
    bulk: Bulk,
    by: &str,
) -> Result<Previewed, Error> {
    if bulk.states().is_empty() {
        return Err(Error::Nothing);
    }
    let now = inner.engine.now();
    let look = look(namespace, &bulk, now);
    let first = Look { limit: inner.options.sample.max(1), ..look.clone() };
    let (counted, sample) = match account(inner, namespace, &bulk).await? {
        Some(count) => (Counted { count, is_exact: true }, sample(inner, first).await?),
        None => walk(inner, look).await?,
    };
    let progress = Progress {
        count: counted.count,
        count_is_exact: counted.is_exact,
        previewed_at: now,
        ..Progress::default()
    };
    let new = NewBulk { namespace: namespace.clone(), bulk, progress, by: by.to_owned() };
    let stored = inner.store.create_bulk(new, now).await?;
    Ok(Previewed { stored, sample })
}

struct Counted {
    count: u64,
    is_exact: bool,
}

/// All that matches and was made until now.
pub(crate) fn look(namespace: &Name, bulk: &Bulk, now: Millis) -> Look {
    let filter = bulk.filter.clone();
    Look {
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

/// None: the account does not say.
async fn account(inner: &Inner, namespace: &Name, bulk: &Bulk) -> Result<Option<u64>, Error> {
    if !bulk.filter.is_of_the_account() {
        return Ok(None);
    }
    let (states, queue) = (bulk.states(), bulk.filter.queue.as_ref());
    let Books { standing, .. } = inner.engine.store().books().await?;
    let of_it = standing.iter().filter(|it| {
        it.queue.namespace == *namespace
            && queue.is_none_or(|queue| *queue == it.queue.queue)
            && states.contains(&it.state)
    });
    Ok(Some(u64::try_from(of_it.map(|it| it.tasks).sum::<i64>()).unwrap_or(0)))
}

async fn sample(inner: &Inner, mut look: Look) -> Result<Vec<Task>, Error> {
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

async fn read(inner: &Inner, places: &[punctual_domain::place::TaskRef]) -> Result<Vec<Task>, Error> {
    let first: Vec<_> = places.iter().take(inner.options.sample).copied().collect();
    Ok(inner.engine.store().read(&first).await?.into_iter().flatten().collect())
}

/// Counts them, as far as a preview looks.
async fn walk(inner: &Inner, mut look: Look) -> Result<(Counted, Vec<Task>), Error> {
    let (mut count, mut first) = (0_u64, Vec::new());
    // The span of ids that was looked through.
    let mut span: Option<(i64, i64)> = None;
    for _ in 0..inner.options.preview_looks.max(1) {
        let found = inner.store.matching(&look).await?;
        count += u64::try_from(found.places.len()).unwrap_or(u64::MAX);
        if first.len() < inner.options.sample {
            first.extend(found.places.iter().copied());
            first.truncate(inner.options.sample);
        }
        if let Some((low, high)) = found.looked_at {
            span = Some((low, span.map_or(high, |it| it.1)));
        }
        let Some(next) = found.next_before_id else {
            return Ok((Counted { count, is_exact: true }, read(inner, &first).await?));
        };
        look.before_id = Some(next);
    }
    Ok((Counted { count: estimate(count, span), is_exact: false }, read(inner, &first).await?))
}

/// As if the rest of all ids were like those that were looked through; ids begin at 1.
fn estimate(count: u64, span: Option<(i64, i64)>) -> u64 {
    let Some((low, high)) = span else { return count };
    let looked = u128::from(high.saturating_sub(low).saturating_add(1).max(1).unsigned_abs());
    let all = u128::from(high.max(1).unsigned_abs());
    u64::try_from(u128::from(count) * all / looked).unwrap_or(u64::MAX).max(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_in_proportion_and_not_below_what_was_counted() {
        assert_eq!(estimate(10, Some((901, 1_000))), 100);
        assert_eq!(estimate(10, Some((1, 1_000))), 10);
        assert_eq!(estimate(0, Some((901, 1_000))), 0);
        assert_eq!(estimate(7, None), 7);
    }
}
