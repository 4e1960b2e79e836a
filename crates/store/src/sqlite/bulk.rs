//! Bulk operations, what failed of them, and which tasks a filter finds. A change and the step that it was decided on are
//! compared in the statement that makes it; the failures of an advance are in its transaction.

use super::{lanes::Lane, ledger::Ledger, row, state::SqliteStore, statements::sql, walk::SqliteWalk};
use crate::{rows, runs};
use async_trait::async_trait;
use punctual_contract::{
    BulkStore, Error as CallError,
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
use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, params};
use std::ops::RangeInclusive;

#[async_trait]
impl BulkStore for SqliteStore {
    async fn create_bulk(&self, new: NewBulk, now: Millis) -> Result<StoredBulk, CallError> {
        let work = move |conn: &Connection, _: &mut Ledger| {
            conn.prepare_cached(sql!(bulk, create))?.execute(params![
                new.namespace.as_str(),
                BulkState::Previewed.code(),
                runs::text(&new.bulk),
                runs::text(&new.progress),
                now.0,
                new.by,
                new.wake_at(now).map(|wake_at| wake_at.0)
            ])?;
            conn.prepare_cached(sql!(bulk, read))?
                .query_row([conn.last_insert_rowid()], |row| rows::bulk(row))
        };
        self.writing("make a bulk operation", 1, work).await
    }

    async fn bulk(&self, namespace: &Name, id: i64) -> Result<Option<StoredBulk>, CallError> {
        let namespace = namespace.clone();
        let work = move |conn: &Connection| {
            let found =
                conn.prepare_cached(sql!(bulk, read))?.query_row([id], |row| rows::bulk(row)).optional()?;
            Ok(found.filter(|bulk| bulk.namespace == namespace))
        };
        self.reading("read a bulk operation", Lane::Urgent, work).await
    }

    async fn bulks(&self, namespace: &Name, below: i64, limit: usize) -> Result<Vec<StoredBulk>, CallError> {
        let namespace = namespace.clone();
        let work = move |conn: &Connection| {
            let asked = params![namespace.as_str(), below, most(limit)];
            conn.prepare_cached(sql!(bulk, list))?.query_map(asked, |row| rows::bulk(row))?.collect()
        };
        self.reading("list bulk operations", Lane::Bulk, work).await
    }

    async fn due_bulks(&self, slots: u32, now: Millis, limit: usize) -> Result<Vec<StoredBulk>, CallError> {
        let work = move |conn: &Connection| {
            let asked = params![slots, now.0, most(limit)];
            conn.prepare_cached(sql!(bulk, list_due))?.query_map(asked, |row| rows::bulk(row))?.collect()
        };
        self.reading("look for due bulk operations", Lane::Urgent, work).await
    }

    async fn next_bulk_wake(&self) -> Result<Option<Millis>, CallError> {
        let work = |conn: &Connection| {
            conn.prepare_cached(sql!(bulk, find_next_wake))?
                .query_row([], |row| row::millis(row, 0))
                .optional()
        };
        self.reading("look for the next bulk operation", Lane::Urgent, work).await
    }

    async fn advance_bulk(&self, advance_bulk: AdvanceBulk, now: Millis) -> Result<Applied, CallError> {
        let rows = 1 + advance_bulk.failed.len() + advance_bulk.mended.len();
        let work = move |conn: &Connection, _: &mut Ledger| advance(conn, &advance_bulk, now);
        self.writing("move a bulk operation on", rows, work).await
    }

    async fn bulk_failures(
        &self,
        bulk: i64,
        above: i64,
        limit: usize,
    ) -> Result<Vec<BulkFailure>, CallError> {
        let work = move |conn: &Connection| {
            let asked = params![bulk, above, most(limit)];
            conn.prepare_cached(sql!(bulk, list_failures))?
                .query_map(asked, |row| rows::bulk_failure(row))?
                .collect()
        };
        self.reading("read what failed of a bulk operation", Lane::Bulk, work).await
    }

    async fn forget_bulks(&self, unchanged_since: Millis, limit: usize) -> Result<usize, CallError> {
        let work = move |conn: &Connection, _: &mut Ledger| {
            let asked = params![unchanged_since.0, most(limit)];
            let old: Vec<i64> = conn
                .prepare_cached(sql!(bulk, list_old))?
                .query_map(asked, |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            for id in &old {
                conn.prepare_cached(sql!(bulk, delete_failures_of_bulk))?.execute([id])?;
                conn.prepare_cached(sql!(bulk, delete))?.execute([id])?;
            }
            Ok(old.len())
        };
        self.writing("forget old bulk operations", limit, work).await
    }

    async fn matching(&self, look: &TaskFilter) -> Result<Matching, CallError> {
        let look = look.clone();
        self.reading("look for matching tasks", Lane::Bulk, move |conn| matching(conn, &look)).await
    }
}

fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn advance(conn: &Connection, advance_bulk: &AdvanceBulk, now: Millis) -> rusqlite::Result<Applied> {
    let wake_at = advance_bulk.wake_at.map(|wake_at| wake_at.0);
    let moved = params![
        advance_bulk.id,
        advance_bulk.step,
        advance_bulk.state.code(),
        runs::text(&advance_bulk.progress),
        wake_at,
        now.0
    ];
    if conn.prepare_cached(sql!(bulk, advance))?.execute(moved)? == 0 {
        return Ok(Applied::Lost);
    }
    for task in &advance_bulk.mended {
        conn.prepare_cached(sql!(bulk, delete_failure))?.execute([advance_bulk.id, *task])?;
    }
    for failed in &advance_bulk.failed {
        conn.prepare_cached(sql!(bulk, save_failure))?.execute(params![
            advance_bulk.id,
            failed.place.id,
            failed.place.to_string(),
            failed.at.0,
            failed.error,
            most(FAILURES_MAX)
        ])?;
    }
    Ok(Applied::Moved)
}

fn matching(conn: &Connection, look: &TaskFilter) -> rusqlite::Result<Matching> {
    let of_tasks = (look.queue.as_ref(), look.kind.as_ref());
    let dead = look.states == [State::Dead];
    let walk = SqliteWalk::of(conn, look.namespace.as_ref(), of_tasks, look.label.as_ref(), dead)?;
    let looked = walk.look(conn, look.before_id.unwrap_or(i64::MAX))?;
    let Some(floor) = looked.last().map(|range| *range.start()) else { return Ok(Matching::default()) };
    let limit = look.limit.max(1);
    let mut places: Vec<TaskRef> = Vec::new();
    for ids in &looked {
        places.extend(within(conn, look, &walk, (ids, limit - places.len()))?);
        if places.len() >= limit {
            break;
        }
    }
    let full = places.last().filter(|_| places.len() >= limit).map(|place| place.id);
    let next = walk.newest_below(conn, full.unwrap_or(floor))?;
    let examined = walk.examined(&looked, full, places.len());
    Ok(Matching { places, next_before_id: next.map(|next| next.saturating_add(1)), examined })
}

/// The matching tasks among some ids.
fn within(
    conn: &Connection,
    look: &TaskFilter,
    walk: &SqliteWalk,
    (ids, limit): (&RangeInclusive<i64>, usize),
) -> rusqlite::Result<Vec<TaskRef>> {
    let label = look.label.as_ref();
    let (below, floor) = (ids.end().saturating_add(1), *ids.start());
    let (limited, states) = (most(limit), runs::bits(&look.states));
    let (namespace, queue) =
        (look.namespace.as_ref().map(Name::as_str), look.queue.as_ref().map(Name::as_str));
    let kind = look.kind.as_ref().map(Name::as_str);
    let (due_after, due_before) = (look.due_after.map(|at| at.0), look.due_before.map(|at| at.0));
    let (key, value) = (label.map(|label| label.0.as_str()), label.map(|label| label.1.as_str()));
    let (error, created, entered) = (look.error.as_deref(), look.created_until.map(|at| at.0), walk.label());
    let partitions = look.partitions.as_ref().map(runs::text);
    let all: [&dyn ToSql; 15] = [
        &below,
        &floor,
        &limited,
        &states,
        &namespace,
        &queue,
        &kind,
        &due_after,
        &due_before,
        &key,
        &value,
        &error,
        &created,
        &partitions,
        &entered,
    ];
    let asked = if entered.is_some() { all.as_slice() } else { all.get(..14).unwrap_or_default() };
    let text = walk.text([
        sql!(bulk, list_matching),
        sql!(bulk, list_matching_by_label),
        sql!(bulk, list_matching_dead),
    ]);
    let place = |row: &Row<'_>| {
        Ok(TaskRef { partition: Partition(row.get(0)?), due_at: row::millis(row, 1)?, id: row.get(2)? })
    };
    conn.prepare_cached(text)?.query_map(asked, place)?.collect()
}
