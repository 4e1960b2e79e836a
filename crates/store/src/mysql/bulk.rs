//! Bulk operations and what failed of them, in the catalog; and which tasks a filter finds, in all databases. What is decided
//! on a step is compared with it in the statement that makes the change; the failures of an advance are in its transaction.

use super::{
    hosted,
    ownership::statement::{Statement, apart},
    parts::Shard,
    query,
    routing::state::Patience,
    row, search,
    state::{MySqlState, MysqlStore},
    statements::sql,
    timeouts::LONG,
    walk::MySqlWalk,
};
use crate::{Error, rows, runs};
use async_trait::async_trait;
use punctual_contract::{
    BulkStore, Error as CallError, Happened,
    bulk::{AdvanceBulk, BulkFailure, FAILURES_MAX, Matching, NewBulk, StoredBulk, TaskFilter},
    store::Applied,
};
use punctual_domain::{
    bulk::BulkState,
    name::Name,
    place::{Partition, TaskRef},
    state::State,
    time::Millis,
};
use serde_json::json;
use sqlx::{MySqlConnection, Row as _, mysql::MySqlRow};
use std::{cmp::Reverse, collections::BTreeSet, sync::Arc};

#[async_trait]
impl BulkStore for MysqlStore {
    async fn create_bulk(&self, new: NewBulk, now: Millis) -> Result<StoredBulk, CallError> {
        self.changing("make a bulk operation", move |tx| Box::pin(create(tx, new, now))).await
    }

    async fn bulk(&self, namespace: &Name, id: i64) -> Result<Option<StoredBulk>, CallError> {
        let namespace = namespace.clone();
        let work = move |inner: Arc<MySqlState>| async move {
            let found = one(&mut *inner.catalog.acquire().await?, id).await?;
            Ok::<_, sqlx::Error>(found.filter(|bulk| bulk.namespace == namespace))
        };
        self.reading("read a bulk operation", work).await
    }

    async fn bulks(&self, namespace: &Name, below: i64, limit: usize) -> Result<Vec<StoredBulk>, CallError> {
        let namespace = namespace.clone();
        let work = move |inner: Arc<MySqlState>| async move {
            let asked = sqlx::query(sql!(bulk, list)).bind(namespace.as_str()).bind(below);
            let rows = asked.bind(most(limit)).fetch_all(&mut *inner.catalog.acquire().await?).await?;
            rows.iter().map(rows::bulk).collect::<sqlx::Result<_>>()
        };
        self.reading("list bulk operations", work).await
    }

    async fn due_bulks(&self, slots: u32, now: Millis, limit: usize) -> Result<Vec<StoredBulk>, CallError> {
        let work = move |inner: Arc<MySqlState>| async move {
            let asked = sqlx::query(sql!(bulk, list_due)).bind(now.0).bind(i64::from(slots));
            let rows = asked.bind(most(limit)).fetch_all(&mut *inner.catalog.acquire().await?).await?;
            rows.iter().map(rows::bulk).collect::<sqlx::Result<_>>()
        };
        self.reading("look for due bulk operations", work).await
    }

    async fn next_bulk_wake(&self) -> Result<Option<Millis>, CallError> {
        let work = |inner: Arc<MySqlState>| async move {
            let next = sqlx::query(sql!(bulk, find_next_wake));
            let next = next.fetch_optional(&mut *inner.catalog.acquire().await?).await?;
            next.map(|row| row::millis(&row, 0)).transpose()
        };
        self.reading("look for the next bulk operation", work).await
    }

    async fn advance_bulk(&self, advance_bulk: AdvanceBulk, now: Millis) -> Result<Applied, CallError> {
        self.changing("move a bulk operation on", move |tx| Box::pin(advance(tx, advance_bulk, now))).await
    }

    async fn bulk_failures(
        &self,
        bulk: i64,
        above: i64,
        limit: usize,
    ) -> Result<Vec<BulkFailure>, CallError> {
        let work = move |inner: Arc<MySqlState>| async move {
            let asked = sqlx::query(sql!(bulk, list_failures)).bind(bulk).bind(above).bind(most(limit));
            let rows = asked.fetch_all(&mut *inner.catalog.acquire().await?).await?;
            rows.iter().map(rows::bulk_failure).collect::<sqlx::Result<_>>()
        };
        self.reading("read what failed of a bulk operation", work).await
    }

    async fn forget_bulks(&self, unchanged_since: Millis, limit: usize) -> Result<usize, CallError> {
        let work = move |inner: Arc<MySqlState>| async move {
            let asked = sqlx::query(sql!(bulk, list_old)).bind(unchanged_since.0).bind(most(limit));
            let rows = asked.fetch_all(&mut *inner.catalog.acquire().await?).await?;
            rows.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<Vec<i64>>>()
        };
        let old = self.reading("look for old bulk operations", work).await?;
        let (count, catalog) = (old.len(), self.inner.catalog.clone());
        apart("forget old bulk operations", Happened::Maybe, async move {
            for id in old {
                Statement::new(sql!(bulk, delete)).int(id).execute(&catalog).await?;
            }
            Ok(count)
        })
        .await
    }

    async fn matching(&self, look: &TaskFilter) -> Result<Matching, CallError> {
        let look = look.clone();
        let work = move |inner: Arc<MySqlState>| matching(inner, look);
        self.reading_within(LONG, "look for matching tasks", work).await
    }
}

fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

async fn one(catalog: &mut MySqlConnection, id: i64) -> sqlx::Result<Option<StoredBulk>> {
    let found = sqlx::query(sql!(bulk, read)).bind(id).fetch_optional(catalog).await?;
    found.map(|row| rows::bulk(&row)).transpose()
}

async fn create(tx: &mut MySqlConnection, new: NewBulk, now: Millis) -> sqlx::Result<StoredBulk> {
    let wake_at = new.wake_at(now).map(|wake_at| wake_at.0);
    let create =
        sqlx::query(sql!(bulk, create)).bind(new.namespace.as_str()).bind(code(BulkState::Previewed));
    let create = create.bind(runs::text(&new.bulk)).bind(runs::text(&new.progress));
    let done = create.bind(wake_at).bind(now.0).bind(new.by).bind(now.0).execute(&mut *tx).await?;
    let id = i64::try_from(done.last_insert_id()).map_err(|_| sqlx::Error::RowNotFound)?;
    one(tx, id).await?.ok_or(sqlx::Error::RowNotFound)
}

fn code(state: BulkState) -> i32 {
    i32::from(state.code())
}

async fn advance(tx: &mut MySqlConnection, advance_bulk: AdvanceBulk, now: Millis) -> sqlx::Result<Applied> {
    let moved = sqlx::query(sql!(bulk, advance))
        .bind(code(advance_bulk.state))
        .bind(runs::text(&advance_bulk.progress));
    let moved = moved
        .bind(advance_bulk.wake_at.map(|wake_at| wake_at.0))
        .bind(now.0)
        .bind(advance_bulk.id)
        .bind(advance_bulk.step);
    if moved.execute(&mut *tx).await?.rows_affected() == 0 {
        return Ok(Applied::Lost);
    }
    if !advance_bulk.mended.is_empty() {
        let rows: Vec<_> = advance_bulk.mended.iter().map(|task| json!([advance_bulk.id, task])).collect();
        sqlx::query(sql!(bulk, delete_failures)).bind(runs::text(&rows)).execute(&mut *tx).await?;
    }
    if !advance_bulk.failed.is_empty() {
        let row = |failed: &BulkFailure| {
            json!([advance_bulk.id, failed.place.id, failed.place.to_string(), failed.at.0, failed.error])
        };
        let rows: Vec<_> = advance_bulk.failed.iter().map(row).collect();
        let failed = sqlx::query(sql!(bulk, save_failures)).bind(runs::text(&rows));
        failed.bind(advance_bulk.id).bind(most(FAILURES_MAX)).execute(&mut *tx).await?;
    }
    Ok(Applied::Moved)
}

/// Searches like `search`: it begins anew when partitions moved meanwhile, or had moved before, and this engine did
/// not know.
async fn matching(inner: Arc<MySqlState>, look: TaskFilter) -> Result<Matching, Error> {
    let mut patience = Patience::new();
    loop {
        let (found, missed) = search::while_nothing_moves(&inner, || matching_once(&inner, &look)).await?;
        if missed.is_empty() {
            return Ok(found);
        }
        inner.follow(&mut patience, &missed).await?;
    }
}

/// Also returns the partitions that were not where they were searched.
async fn matching_once(
    inner: &MySqlState,
    look: &TaskFilter,
) -> Result<(Matching, BTreeSet<Partition>), Error> {
    let Some(partitions) = &look.partitions else {
        let all: Vec<&Shard> = inner.members().iter().collect();
        return Ok((matching_in(&all, look).await?, BTreeSet::new()));
    };
    let placement = inner.routing.placement();
    let numbers: BTreeSet<usize> =
        partitions.iter().map(|partition| placement.shard_of(*partition)).collect();
    let here: Vec<(usize, &Shard)> =
        numbers.into_iter().filter_map(|number| Some((number, inner.members().get(number)?))).collect();
    let shards: Vec<&Shard> = here.iter().map(|pair| pair.1).collect();
    let (found, mut missed) = (matching_in(&shards, look).await?, BTreeSet::new());
    for (number, shard) in here {
        let asked = partitions.iter().copied().filter(|partition| placement.shard_of(*partition) == number);
        let missing = async { hosted::missing(&mut *shard.readers.acquire().await?, asked).await };
        missed.extend(missing.await.map_err(|error| shard.failed(error))?);
    }
    Ok((found, missed))
}

async fn matching_in(shards: &[&Shard], look: &TaskFilter) -> Result<Matching, Error> {
    let (namespace, of_tasks) = (look.namespace.as_ref(), (look.queue.as_ref(), look.kind.as_ref()));
    let dead = look.states == [State::Dead];
    let walk = MySqlWalk::of(shards, namespace, of_tasks, look.label.as_ref(), dead).await?;
    let looked = walk.look(shards, look.before_id.unwrap_or(i64::MAX)).await?;
    let Some(floor) = looked.last().map(|range| *range.start()) else { return Ok(Matching::default()) };
    let limit = look.limit.max(1);
    let mut found: Vec<BulkRow> = Vec::new();
    for ids in &looked {
        let (mut here, room) = (Vec::new(), limit - found.len());
        for shard in shards {
            let found_here = async {
                let (_permit, mut conn) = shard.long_reader().await?;
                in_database(&mut conn, look, &walk, (ids, room)).await
            };
            here.extend(found_here.await.map_err(|error| shard.failed(error))?);
        }
        here.sort_by_key(|found| Reverse(found.place.id));
        here.dedup_by_key(|found| found.place.id);
        here.truncate(room);
        found.extend(here);
        if found.len() >= limit {
            break;
        }
    }
    let full = found.last().filter(|_| found.len() >= limit).map(|found| found.place.id);
    let next = walk.newest_below(shards, full.unwrap_or(floor)).await?;
    Ok(Matching {
        examined: walk.examined(&looked, full, found.len()),
        places: found.into_iter().filter(|found| found.fits(look)).map(|found| found.place).collect(),
        next_before_id: next.map(|next| next.saturating_add(1)),
    })
}

struct BulkRow {
    place: TaskRef,
    labels: Option<String>,
}

impl BulkRow {
    /// The label may stand in another one's value.
    fn fits(&self, look: &TaskFilter) -> bool {
        let Some((key, value)) = &look.label else { return true };
        let labels =
            self.labels.as_deref().and_then(|labels| serde_json::from_str::<serde_json::Value>(labels).ok());
        labels.is_some_and(|labels| labels.get(key).and_then(serde_json::Value::as_str) == Some(value))
    }
}

async fn in_database(
    conn: &mut MySqlConnection,
    look: &TaskFilter,
    walk: &MySqlWalk,
    (ids, limit): (&std::ops::RangeInclusive<i64>, usize),
) -> sqlx::Result<Vec<BulkRow>> {
    let namespace = look.namespace.as_ref().map(Name::as_str);
    let (queue, kind) = (look.queue.as_ref().map(Name::as_str), look.kind.as_ref().map(Name::as_str));
    let (after, before) = (look.due_after.map(|at| at.0), look.due_before.map(|at| at.0));
    let label = look.label.as_ref().map(query::label_text);
    let created = look.created_until.map(|at| at.0);
    let partitions = look.partitions.as_ref().map(hosted::list);
    let text = match walk {
        MySqlWalk::Ids | MySqlWalk::Chunks(_) => sql!(bulk, list_matching),
        MySqlWalk::Term(..) => sql!(bulk, list_matching_by_term),
    };
    let asked =
        sqlx::query(text).bind(label.is_some()).bind(partitions.as_deref()).bind(partitions.as_deref());
    let asked = if let MySqlWalk::Term(term, _) = walk { asked.bind(*term) } else { asked };
    let asked = asked
        .bind(ids.end().saturating_add(1))
        .bind(ids.start())
        .bind(runs::bits(&look.states))
        .bind(namespace)
        .bind(namespace)
        .bind(queue)
        .bind(queue)
        .bind(kind)
        .bind(kind)
        .bind(after)
        .bind(after)
        .bind(before)
        .bind(before)
        .bind(label.as_deref())
        .bind(label.as_deref())
        .bind(look.error.as_deref())
        .bind(look.error.as_deref())
        .bind(created)
        .bind(created)
        .bind(most(limit));
    let found = |row: &MySqlRow| {
        let partition: Partition = row::partition(row, 0)?;
        let place = TaskRef { partition, due_at: row::millis(row, 1)?, id: row.try_get(2)? };
        Ok(BulkRow { place, labels: row.try_get(3)? })
    };
    asked.fetch_all(conn).await?.iter().map(found).collect()
}
