//! What stands already under the ids that callers give, locked. Most ids are new, and those of a batch often follow each
//! other: then one look at the range in which they lie says that none of them is there. Must not decide what becomes of
//! a task.

mod near;

use super::Row;
use crate::mysql::{
    place,
    query::{self, Hold},
    row, statements as sql,
};
use punctual_domain::{
    place::{Partition, TaskRef},
    task::Task,
};
use sqlx::{MySqlConnection, Row as _};
use std::{collections::HashMap, fmt::Write as _};

/// The highest version that stands under each caller's id, unless it is lower than the one that is asked for: then
/// it makes no difference. Locked.
pub(super) async fn standing(
    conn: &mut MySqlConnection,
    rows: &[Row<'_>],
) -> sqlx::Result<HashMap<usize, Task>> {
    let mut highest: HashMap<usize, (i64, TaskRef)> = HashMap::new();
    let callers: Vec<Row<'_>> = rows.iter().filter(|it| it.ask.task.task_id.is_some()).copied().collect();
    let mut namespaces: Vec<&str> = callers.iter().map(|it| it.ask.namespace()).collect();
    namespaces.sort_unstable();
    namespaces.dedup();
    for namespace in namespaces {
        let of: Vec<_> = callers.iter().filter(|it| it.ask.namespace() == namespace).copied().collect();
        if near::none_stands(conn, namespace, &of).await? {
            continue;
        }
        let look = sqlx::query(sql::WANTED).bind(wanted(&of)).bind(namespace);
        for it in look.fetch_all(&mut *conn).await? {
            let (nth, version) = (row::small::<u32>(&it, 0)? as usize, it.try_get(1)?);
            let Some(row) = of.iter().find(|it| it.nth == nth) else { continue };
            let due_at = row::millis(&it, 3)?;
            let place = TaskRef { partition: row.ask.partition, due_at, id: it.try_get(2)? };
            let known = highest.entry(nth).or_insert((version, place));
            if known.0 < version {
                *known = (version, place);
            }
        }
    }
    whole(conn, highest.into_iter().map(|(nth, (_, place))| (nth, place)).collect()).await
}

/// The tasks themselves, locked. One that has gone or moved since the registry was read is found when the
/// transaction is run again; one whose bucket was dropped, and that is not settled yet, is taken back.
async fn whole(
    conn: &mut MySqlConnection,
    mut places: Vec<(usize, TaskRef)>,
) -> sqlx::Result<HashMap<usize, Task>> {
    if places.is_empty() {
        return Ok(HashMap::new());
    }
    places.sort_unstable_by_key(|it| it.1);
    let refs: Vec<TaskRef> = places.iter().map(|it| it.1).collect();
    let mut tasks = query::read(conn, &refs, Hold::Locked).await?;
    if tasks.iter().any(Option::is_none) {
        let missing = refs.iter().zip(&tasks).filter(|it| it.1.is_none());
        take_back(conn, &missing.map(|it| *it.0).collect::<Vec<_>>()).await?;
        tasks = query::read(conn, &refs, Hold::Locked).await?;
    }
    let found =
        places.iter().zip(tasks).map(|((nth, _), task)| Ok((*nth, task.ok_or(sqlx::Error::RowNotFound)?)));
    found.collect()
}

/// Rows of a bucket that was dropped and waits: for its archive, which may be away, or to be settled. Whoever settles holds
/// the same lock, so a row is settled, with its entry in the registry, or taken back.
async fn take_back(conn: &mut MySqlConnection, missing: &[TaskRef]) -> sqlx::Result<()> {
    sqlx::query(sql::GONE_LOCK).fetch_optional(&mut *conn).await?;
    for part in missing.chunks(place::ROWS_MAX) {
        let wanted = query::wanted(part);
        if sqlx::query(sql::GONE_BACK).bind(&wanted).execute(&mut *conn).await?.rows_affected() > 0 {
            sqlx::query(sql::GONE_TAKEN).bind(&wanted).execute(&mut *conn).await?;
        }
    }
    Ok(())
}

/// Rows as one parameter: `[[number in the batch, partition, task_id, task_version], ...]`.
fn wanted(rows: &[Row<'_>]) -> String {
    let mut json = String::with_capacity(rows.len() * 40 + 2);
    for it in rows {
        let comma = if json.is_empty() { '[' } else { ',' };
        let (Partition(partition), _, task_id, version) = it.key();
        let _ = write!(json, "{comma}[{},{partition},{task_id},{version}]", it.nth);
    }
    json.push(']');
    json
}
