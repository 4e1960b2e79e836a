//! Finds the tasks that are already stored under the ids that callers send, locked. Most ids are new, and those of a
//! batch often follow each other: then one read of their range shows that none of them exists. Must not decide about
//! a task.

mod near;

use super::ask::Row;
use crate::mysql::{
    parameters,
    query::{self, Hold},
    row,
    statements::sql,
};
use punctual_domain::{
    key::is_id_of_keys,
    place::{Partition, TaskRef},
    task::Task,
};
use sqlx::{MySqlConnection, Row as _};
use std::{collections::HashMap, fmt::Write as _};

/// The task that is stored under the id or key of an insert.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// The id among those of its key that a task has. `None` if it is the one in the insert.
    pub(super) task_id: Option<i64>,
    /// The highest version, unless that is lower than the one that is asked for, where it would make no difference; or a
    /// task of another identity, where no id is left.
    pub(super) task: Option<Task>,
}

/// A look-up of an id, for a row.
struct IdLookup<'a> {
    row: Row<'a>,
    task_id: i64,
    /// Versions below it make no difference.
    version: i64,
}

/// The existing tasks by the indexes of the rows, locked.
pub(super) async fn existing(
    conn: &mut MySqlConnection,
    rows: &[Row<'_>],
) -> sqlx::Result<HashMap<usize, Standing>> {
    let mut highest: HashMap<(usize, i64), (i64, TaskRef)> = HashMap::new();
    let callers: Vec<Row<'_>> = rows.iter().filter(|row| !row.ask.task.is_anonymous()).copied().collect();
    let mut namespaces: Vec<&str> = callers.iter().map(|caller| caller.ask.namespace()).collect();
    namespaces.sort_unstable();
    namespaces.dedup();
    for namespace in namespaces {
        let of: Vec<_> =
            callers.iter().filter(|caller| caller.ask.namespace() == namespace).copied().collect();
        let is_keyed = of.iter().any(|row| row.ask.second_id.is_some());
        if !is_keyed && near::none_exists(conn, namespace, &of).await? {
            continue;
        }
        let wanted = wanted(&of);
        let look = sqlx::query(sql!(insert, lock_existing)).bind(text(&wanted)).bind(namespace);
        for rows in look.fetch_all(&mut *conn).await? {
            let (nth, version) = (row::small::<u32>(&rows, 0)? as usize, rows.try_get(1)?);
            let Some(IdLookup { row, task_id, .. }) = wanted.get(nth) else { continue };
            let due_at = row::millis(&rows, 3)?;
            let place = TaskRef { partition: row.ask.partition, due_at, id: rows.try_get(2)? };
            let known = highest.entry((row.nth, *task_id)).or_insert((version, place));
            if known.0 < version {
                *known = (version, place);
            }
        }
    }
    let tasks = whole(conn, highest.into_iter().map(|(of, (_, place))| (of, place)).collect()).await?;
    Ok(identified(&callers, tasks))
}

/// The ids to look up. Ids that keys may have are looked up in all versions: the stored task shows which key has it.
fn wanted<'a>(rows: &[Row<'a>]) -> Vec<IdLookup<'a>> {
    let mut wanted = Vec::with_capacity(rows.len());
    for row in rows {
        let Some(second) = row.ask.second_id else {
            let is_of_keys = is_id_of_keys(row.task_id);
            let version = if is_of_keys { i64::MIN } else { row.ask.task.task_version };
            wanted.push(IdLookup { row: *row, task_id: row.task_id, version });
            continue;
        };
        let of = |task_id| IdLookup { row: *row, task_id, version: i64::MIN };
        wanted.extend([of(row.ask.task_id), of(second)]);
    }
    // The order of the registry: the caller that inserts the same at once, locks in the same order.
    wanted.sort_by_key(|wanted| (wanted.row.ask.partition, wanted.task_id));
    wanted
}

fn identified(rows: &[Row<'_>], mut tasks: HashMap<(usize, i64), Task>) -> HashMap<usize, Standing> {
    let mut existing = HashMap::with_capacity(tasks.len());
    for row in rows {
        let mut under = |task_id: i64| tasks.remove(&(row.nth, task_id));
        let is_own = |task: &Task| task.ask.key == row.ask.task.key;
        let first = row.task_id;
        let (task_id, task) = match row.ask.second_id {
            None => (None, under(first)),
            Some(second) => match (under(first), under(second)) {
                (Some(task), _) if is_own(&task) => (Some(first), Some(task)),
                (_, Some(task)) if is_own(&task) => (Some(second), Some(task)),
                (None, _) => (Some(first), None),
                (_, task) => (Some(second), task),
            },
        };
        let task = task.filter(|task| !is_own(task) || task.ask.task_version >= row.ask.task.task_version);
        existing.insert(row.nth, Standing { task_id, task });
    }
    existing
}

/// The tasks themselves, locked. One that has gone or moved since the registry was read is found when the
/// transaction is run again; one whose bucket was dropped, and that is not settled yet, is revoked.
async fn whole(
    conn: &mut MySqlConnection,
    mut places: Vec<((usize, i64), TaskRef)>,
) -> sqlx::Result<HashMap<(usize, i64), Task>> {
    if places.is_empty() {
        return Ok(HashMap::new());
    }
    places.sort_unstable_by_key(|place| place.1);
    let refs: Vec<TaskRef> = places.iter().map(|place| place.1).collect();
    let mut tasks = query::read(conn, &refs, Hold::Locked).await?;
    if tasks.iter().any(Option::is_none) {
        let missing = refs.iter().zip(&tasks).filter(|pair| pair.1.is_none());
        revoke(conn, &missing.map(|pair| *pair.0).collect::<Vec<_>>()).await?;
        tasks = query::read(conn, &refs, Hold::Locked).await?;
    }
    let found =
        places.iter().zip(tasks).map(|((nth, _), task)| Ok((*nth, task.ok_or(sqlx::Error::RowNotFound)?)));
    found.collect()
}

/// Rows of a bucket that was dropped and waits: for its archive, which may be unavailable, or to be settled. A run that settles them holds
/// the same lock, so a row is settled, with its entry in the registry, or revoked.
async fn revoke(conn: &mut MySqlConnection, missing: &[TaskRef]) -> sqlx::Result<()> {
    sqlx::query(sql!(insert, lock_dropped)).fetch_optional(&mut *conn).await?;
    for part in missing.chunks(parameters::ROWS_MAX) {
        let wanted = parameters::wanted(part);
        if sqlx::query(sql!(insert, restore_dropped)).bind(&wanted).execute(&mut *conn).await?.rows_affected()
            > 0
        {
            sqlx::query(sql!(insert, delete_restored)).bind(&wanted).execute(&mut *conn).await?;
        }
    }
    Ok(())
}

/// The look-ups as one parameter: `[[index of the look-up, partition, task_id, task_version], ...]`.
fn text(wanted: &[IdLookup<'_>]) -> String {
    let mut json = String::with_capacity(wanted.len() * 40 + 2);
    for (nth, wanted) in wanted.iter().enumerate() {
        let comma = if json.is_empty() { '[' } else { ',' };
        let Partition(partition) = wanted.row.ask.partition;
        let _ = write!(json, "{comma}[{nth},{partition},{},{}]", wanted.task_id, wanted.version);
    }
    json.push(']');
    json
}
