//! A search along the due times, the latest first, among what waits: the index of what waits has them in order within each
//! partition. A page is of a range of time that all partitions have been looked through, so that what follows is earlier.

use super::{row, statements as sql};
use punctual_contract::store::{Along, DuePosition, Page, Query};
use punctual_domain::{name::Name, state::State, task::Task, time::Millis};
use rusqlite::{Connection, OptionalExtension as _, params};
use std::cmp::Reverse;

/// Tasks that one look passes over, in all partitions together, and in one at least.
const TASKS_MAX: usize = 20_000;
const OF_ONE_MIN: usize = 50;

/// Whether the index has all that could match.
pub(crate) fn is_of_the_index(query: &Query) -> bool {
    // As the table's check has it: in these states a task has its time in the index.
    query.state.is_some_and(|it| !it.is_in_flight() && !it.is_finished() && it != State::Blocked)
}

pub(crate) fn list(conn: &Connection, partitions: u16, query: &Query) -> rusqlite::Result<Page> {
    let at = |due_at| DuePosition { due_at, id: i64::MIN };
    let end = at(query.due_before.unwrap_or(Millis(i64::MAX)));
    let before = query.before_due.map_or(end, |it| it.min(end));
    let whole = at(query.due_after.unwrap_or(Millis(i64::MIN)));
    let of_one = (TASKS_MAX / usize::from(partitions.max(1))).max(OF_ONE_MIN);
    let mut from = whole;
    let mut bound = conn.prepare_cached(sql::DUE_BOUND)?;
    for partition in 0..partitions {
        let asked = params![partition, from.due_at.0, before.due_at.0, before.id, rows(of_one) - 1];
        let position =
            |it: &rusqlite::Row<'_>| Ok(DuePosition { due_at: row::millis(it, 0)?, id: it.get(1)? });
        from = from.max(bound.query_row(asked, position).optional()?.unwrap_or(from));
    }
    let limit = query.limit.max(1);
    let mut tasks = Vec::new();
    for partition in 0..partitions {
        tasks.extend(of_partition(conn, query, partition, (from, before))?);
    }
    tasks.sort_by_key(|it| Reverse(position(it)));
    tasks.truncate(limit);
    let full = tasks.last().filter(|_| tasks.len() >= limit).map(position);
    let next_before_due = full.or(Some(from)).filter(|it| *it > whole);
    Ok(Page { tasks, next_before_due, along: Along::DueTime, ..Page::default() })
}

fn position(it: &Task) -> DuePosition {
    DuePosition { due_at: it.due_at, id: it.place.id }
}

fn of_partition(
    conn: &Connection,
    query: &Query,
    partition: u16,
    (from, before): (DuePosition, DuePosition),
) -> rusqlite::Result<Vec<Task>> {
    let label = query.label.as_ref();
    let asked = params![
        partition,
        from.due_at.0,
        from.id,
        before.due_at.0,
        before.id,
        rows(query.limit.max(1)),
        query.namespace.as_ref().map(Name::as_str),
        query.queue.as_ref().map(Name::as_str),
        query.state.map(State::code),
        query.kind.as_ref().map(Name::as_str),
        label.map(|it| it.0.as_str()),
        label.map(|it| it.1.as_str()),
        query.updated_from.map(|it| it.0),
        query.error,
    ];
    conn.prepare_cached(sql::LIST_BY_DUE)?.query_map(asked, row::whole_task)?.collect()
}

fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
