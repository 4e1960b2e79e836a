//! A search along the due times, the latest or the earliest first, among waiting tasks: their index has them in order
//! within each partition. A page covers a range of time that was searched in all partitions, so that the following
//! tasks are further on.

use super::{row, statements::sql};
use crate::due_range::{DueRange, tasks_of_one};
use punctual_contract::store::{DuePosition, Page, Query};
use punctual_domain::{name::Name, state::State, task::Task};
use rusqlite::{Connection, OptionalExtension as _, params};

/// True if the index has all that could match.
pub(crate) fn is_of_the_index(query: &Query) -> bool {
    // As the table's check has it: in these states a task has its time in the index.
    query.state.is_some_and(|state| !state.is_in_flight() && !state.is_finished() && state != State::Blocked)
}

pub(crate) fn list(conn: &Connection, partitions: u16, query: &Query) -> rusqlite::Result<Page> {
    let whole = DueRange::of(query);
    let mut range = whole;
    let of_one = tasks_of_one(partitions);
    for partition in 0..partitions {
        if let Some(last) = bound(conn, partition, range, of_one)? {
            range.narrow(last);
        }
    }
    let mut tasks = Vec::new();
    for partition in 0..partitions {
        tasks.extend(of_partition(conn, query, partition, range)?);
    }
    Ok(range.page(whole, tasks, query.limit.max(1)))
}

/// The position where the search of one partition ends. `None` is the end of the range.
fn bound(
    conn: &Connection,
    partition: u16,
    DueRange { from, before, is_rising }: DueRange,
    tasks: usize,
) -> rusqlite::Result<Option<DuePosition>> {
    let position =
        |row: &rusqlite::Row<'_>| Ok(DuePosition { due_at: row::millis(row, 0)?, id: row.get(1)? });
    let skip = rows(tasks) - 1;
    if is_rising {
        let asked = params![partition, from.due_at.0, from.id, before.due_at.0, before.id, skip];
        return conn
            .prepare_cached(sql!(query, find_due_bound_rising))?
            .query_row(asked, position)
            .optional();
    }
    let asked = params![partition, from.due_at.0, before.due_at.0, before.id, skip];
    conn.prepare_cached(sql!(query, find_due_bound))?.query_row(asked, position).optional()
}

fn of_partition(
    conn: &Connection,
    query: &Query,
    partition: u16,
    DueRange { from, before, is_rising }: DueRange,
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
        label.map(|label| label.0.as_str()),
        label.map(|label| label.1.as_str()),
        query.updated_from.map(|at| at.0),
        query.error,
    ];
    let text = if is_rising { sql!(query, list_by_due_rising) } else { sql!(query, list_by_due) };
    conn.prepare_cached(text)?.query_map(asked, row::whole_task)?.collect()
}

fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
