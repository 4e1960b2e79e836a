//! The slow walk of retention through the complete key: each call continues where the last one stopped, and from the
//! beginning after the end. It finds what nothing else has (tasks from before there were spans, or that were moved to
//! another time, partitions that came from elsewhere), so it reads few rows, a fixed number. Changes nothing.

use super::{super::row, over::Over};
use crate::mysql::statements::sql;
use punctual_domain::{place::TaskRef, time::Millis};
use sqlx::{MySqlConnection, Row as _, mysql::MySqlRow};

/// The number of rows that one call reads. A small store is always read completely.
const LOOKS: usize = 2_000;
/// Rows of one statement.
const CHUNK_ROWS: usize = 1_000;

/// Continues the walk. Of finished tasks that are no successes, only those due later than the first instant count.
pub(super) async fn walk(
    conn: &mut MySqlConnection,
    (over_after, now): (Millis, Millis),
    began: Option<TaskRef>,
    over: &mut Over<'_>,
) -> sqlx::Result<Option<TaskRef>> {
    let (mut cursor, mut looks, mut again) = (began, LOOKS, false);
    while looks > 0 {
        let rows = looks.min(CHUNK_ROWS);
        let looked = chunk(conn, (over_after, now), cursor, rows).await?;
        looks -= looked.len();
        let came = pass(&looked, began.filter(|_| again), over);
        if came == Came::Short {
            break;
        }
        let at_end = looked.len() < rows;
        cursor = looked.last().filter(|_| !at_end).map(|row| row.place);
        if came == Came::Round || (at_end && (again || began.is_none())) {
            break;
        }
        again |= at_end;
    }
    Ok(cursor)
}

/// The reason why a walk stops before its rows are spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Through,
    /// The walk has returned to the place where it began.
    Round,
    /// The walk has found more tasks than may be retired: the rest is left for the next walk.
    Short,
}

fn pass(looked: &[WalkRow], round_at: Option<TaskRef>, over: &mut Over<'_>) -> Came {
    for row in looked {
        if round_at.is_some_and(|began| row.place > began) {
            return Came::Round;
        }
        if row.is_over && !over.add(row.place) {
            return Came::Short;
        }
    }
    Came::Through
}

#[derive(Clone, Copy, Debug)]
struct WalkRow {
    place: TaskRef,
    is_over: bool,
}

/// Rows after a place, in the order of the key.
async fn chunk(
    conn: &mut MySqlConnection,
    (over_after, now): (Millis, Millis),
    after: Option<TaskRef>,
    limit: usize,
) -> sqlx::Result<Vec<WalkRow>> {
    let mut looked = Vec::new();
    let partition = after.map_or(-1, |place| row::partition_no(place.partition));
    if let Some(place) = after {
        let walk = sqlx::query(sql!(retention, walk))
            .bind(over_after.0)
            .bind(now.0)
            .bind(partition)
            .bind(place.due_at.0);
        let walk = walk.bind(partition).bind(place.due_at.0).bind(place.id).bind(rows(limit));
        add(&mut looked, &walk.fetch_all(&mut *conn).await?)?;
    }
    let left = limit - looked.len().min(limit);
    if left > 0 {
        let walk = sqlx::query(sql!(retention, walk_next_partition))
            .bind(over_after.0)
            .bind(now.0)
            .bind(partition)
            .bind(rows(left));
        add(&mut looked, &walk.fetch_all(conn).await?)?;
    }
    Ok(looked)
}

fn add(looked: &mut Vec<WalkRow>, rows: &[MySqlRow]) -> sqlx::Result<()> {
    for row in rows {
        let place =
            TaskRef { partition: row::partition(row, 0)?, due_at: row::millis(row, 1)?, id: row.try_get(2)? };
        looked.push(WalkRow { place, is_over: row.try_get::<Option<i64>, _>(3)? == Some(1) });
    }
    Ok(())
}

fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
