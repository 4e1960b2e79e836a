//! Tasks of a partition that should have fired and have not, read from their rows: ranges of the clustered key, without
//! locks. Must never begin at, or skip by, anything that is remembered of a partition (`floor`): it is there to show what
//! those who trust in that do not see.

use super::{
    hosted, row,
    statements::{sql, with_numbers},
};
use punctual_contract::store::{Overdue, OverdueLook, OverduePage};
use punctual_domain::{place::TaskRef, time::Millis};
use sqlx::{MySqlConnection, Row as _, mysql::MySqlRow};

type Key = (Millis, i64);

/// `database` is the number of the one that is asked. `None` if the partition is not there.
pub(crate) async fn look(
    conn: &mut MySqlConnection,
    look: &OverdueLook,
    database: usize,
) -> sqlx::Result<Option<OverduePage>> {
    let bound = match look.rows {
        Some(rows) => bound(conn, look, rows).await?,
        None => None,
    };
    let until = bound.map_or(look.until, |bound| bound.0);
    let (partition, after) = (i64::from(row::partition_no(look.partition)), after(look));
    let limit = i64::try_from(look.limit).unwrap_or(i64::MAX);
    let values = [partition, after.0.0, until.0, partition, after.0.0, after.1, limit];
    // In one round trip: whether the partition is here, after the read.
    let here = hosted::here_text(&[look.partition].into());
    let text = format!("{};\n{here}", with_numbers(sql!(scan, list_overdue), &values));
    let Ok([found, here]) = <[Vec<MySqlRow>; 2]>::try_from(hosted::answers(conn, text).await?) else {
        return Err(sqlx::Error::RowNotFound);
    };
    if here.is_empty() {
        return Ok(None);
    }
    let found: Vec<Overdue> = found.iter().map(|rows| overdue(rows, look)).collect::<sqlx::Result<_>>()?;
    // A page that is full ends at its last task, whatever rows it was to look at.
    let is_full = found.len() >= look.limit;
    let next = if is_full { found.last().map(|overdue| (overdue.due_at, overdue.place.id)) } else { bound };
    Ok(Some(OverduePage { found, next, database }))
}

fn after(look: &OverdueLook) -> Key {
    look.after.unwrap_or((Millis(-1), i64::MAX))
}

async fn bound(conn: &mut MySqlConnection, look: &OverdueLook, rows: usize) -> sqlx::Result<Option<Key>> {
    let (partition, after) = (row::partition_no(look.partition), after(look));
    let passed = i64::try_from(rows.saturating_sub(1)).unwrap_or(i64::MAX);
    let asked =
        sqlx::query(sql!(scan, find_overdue_bound)).bind(partition).bind(after.0.0).bind(look.until.0);
    let asked = asked.bind(partition).bind(after.0.0).bind(after.1).bind(passed);
    let bound = asked.fetch_optional(conn).await?;
    bound.map(|bound| Ok((row::millis(&bound, 0)?, bound.try_get(1)?))).transpose()
}

/// Columns of `list_overdue` in scan.sql.
fn overdue(row: &MySqlRow, look: &OverdueLook) -> sqlx::Result<Overdue> {
    let place = TaskRef { partition: look.partition, due_at: row::millis(row, 2)?, id: row.try_get(1)? };
    Ok(Overdue { place, due_at: row::millis(row, 0)?, fence: row.try_get(3)? })
}
