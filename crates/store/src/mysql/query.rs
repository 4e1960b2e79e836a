//! The reads of one database. Each statement runs on one snapshot, bounded by its limit; none changes anything.

use super::{row, statements::sql, walk::MySqlWalk};
use punctual_contract::store::{Books, PendingBytes, Query, Tally};
use punctual_domain::{
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    state::State,
    task::Task,
};
use sqlx::{MySqlConnection, Row as _, mysql::MySqlRow};
use std::{collections::BTreeMap, fmt::Write as _};

/// Places of one statement: its JSON stays under 64 KiB.
const READ_ROWS_MAX: usize = 1_000;

/// What a read of places may do to the rows it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    Nothing,
    /// Locked until the end of the transaction.
    Locked,
}

/// Whole tasks, in the order of the places.
pub(crate) async fn read(
    conn: &mut MySqlConnection,
    places: &[TaskRef],
    hold: Hold,
) -> sqlx::Result<Vec<Option<Task>>> {
    let text = if hold == Hold::Locked { sql!(query, lock_tasks) } else { sql!(query, read_tasks) };
    let mut found = Vec::with_capacity(places.len());
    for part in places.chunks(READ_ROWS_MAX) {
        let from = found.len();
        found.resize_with(from + part.len(), || None);
        for rows in sqlx::query(text).bind(wanted(part)).fetch_all(&mut *conn).await? {
            let nth: usize = row::small(&rows, row::TASK_COLUMNS_LEN)?;
            if let Some(place) = found.get_mut(from + nth) {
                *place = Some(row::whole_task(&rows)?);
            }
        }
    }
    Ok(found)
}

/// Places as one parameter: `[[number, partition, due_at, id], ...]`.
pub(crate) fn wanted(places: &[TaskRef]) -> String {
    let mut json = String::with_capacity(places.len() * 40 + 2);
    for (nth, place) in places.iter().enumerate() {
        let comma = if nth == 0 { '[' } else { ',' };
        let _ = write!(json, "{comma}[{nth},{},{},{}]", place.partition.0, place.due_at.0, place.id);
    }
    json.push_str(if places.is_empty() { "[]" } else { "]" });
    json
}

pub(crate) async fn versions(
    conn: &mut MySqlConnection,
    (partition, namespace, task_id): (Partition, &Name, i64),
    version: Option<i64>,
    limit: usize,
) -> sqlx::Result<Vec<Task>> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let (text, last) = match version {
        Some(version) => (sql!(query, read_version), version),
        None => (sql!(query, list_versions), rows(limit)),
    };
    let query = sqlx::query(text)
        .bind(row::partition_no(partition))
        .bind(namespace.as_str())
        .bind(task_id)
        .bind(last);
    tasks(&query.fetch_all(conn).await?)
}

pub(crate) async fn latest_versions(
    conn: &mut MySqlConnection,
    namespace: &Name,
    wanted: &[(Partition, i64)],
) -> sqlx::Result<Vec<Task>> {
    let rows: Vec<(u16, i64)> = wanted.iter().map(|pair| (pair.0.0, pair.1)).collect();
    let rows = serde_json::to_string(&rows).expect("numbers always have a JSON form");
    tasks(
        &sqlx::query(sql!(query, read_latest_versions))
            .bind(rows)
            .bind(namespace.as_str())
            .fetch_all(conn)
            .await?,
    )
}

/// The newest task below an id.
pub(crate) async fn newest_below(conn: &mut MySqlConnection, id: i64) -> sqlx::Result<Option<i64>> {
    sqlx::query(sql!(query, find_newest_below)).bind(id).fetch_one(conn).await?.try_get(0)
}

/// Tasks with ids in a range, newest first unless the query says otherwise. A label that stands inside another one's value is among them.
pub(crate) async fn list(
    conn: &mut MySqlConnection,
    query: &Query,
    walk: &MySqlWalk,
    ids: std::ops::RangeInclusive<i64>,
    limit: usize,
) -> sqlx::Result<Vec<Task>> {
    let (namespace, queue) = (query.namespace.as_ref().map(Name::as_str), query.queue.as_ref());
    let (queue, kind) = (queue.map(Name::as_str), query.kind.as_ref().map(Name::as_str));
    let state = query.state.map(|state| i32::from(state.code()));
    let (after, before) = (query.due_after.map(|at| at.0), query.due_before.map(|at| at.0));
    let label = query.label.as_ref().map(label_text);
    let updated = query.updated_from.map(|at| at.0);
    let search = match walk {
        MySqlWalk::Ids if query.oldest_first => sqlx::query(sql!(query, list_rising)),
        MySqlWalk::Ids | MySqlWalk::Chunks(_) => sqlx::query(sql!(query, list)),
        MySqlWalk::Term(term, _) => sqlx::query(sql!(query, list_by_term)).bind(*term),
    };
    let search = search
        .bind(ids.end().saturating_add(1))
        .bind(ids.start())
        .bind(namespace)
        .bind(namespace)
        .bind(queue)
        .bind(queue)
        .bind(state)
        .bind(state)
        .bind(kind)
        .bind(kind)
        .bind(after)
        .bind(after)
        .bind(before)
        .bind(before)
        .bind(label.as_deref())
        .bind(label.as_deref())
        .bind(updated)
        .bind(updated)
        .bind(query.error.as_deref())
        .bind(query.error.as_deref())
        .bind(rows(limit));
    tasks(&search.fetch_all(conn).await?)
}

/// A label in its current state in the column.
pub(crate) fn label_text(label: &(String, String)) -> String {
    let one = BTreeMap::from([(&label.0, &label.1)]);
    let json = serde_json::to_string(&one).expect("a map of strings always has a JSON form");
    json.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default().to_owned()
}

fn tasks(rows: &[MySqlRow]) -> sqlx::Result<Vec<Task>> {
    rows.iter().map(row::whole_task).collect()
}

fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// The account of several databases, added up.
#[derive(Debug, Default)]
pub(crate) struct Sum {
    accepted: i64,
    deleted: i64,
    tallies: BTreeMap<(QueueKey, State), i64>,
    bytes: BTreeMap<QueueKey, i64>,
}

impl Sum {
    pub(crate) fn add(&mut self, rows: &[MySqlRow]) -> sqlx::Result<()> {
        for row in rows {
            let tasks: i64 = row.try_get(1)?;
            match row.try_get::<Option<&str>, _>(0)? {
                Some("accepted") => self.accepted += tasks,
                Some("deleted") => self.deleted += tasks,
                Some(other) => return Err(row::odd(0, format!("{other} is not a counter"))),
                None => {
                    let tally =
                        Tally { queue: row::queue_key(row, 2, 3)?, state: row::state(row, 4)?, tasks };
                    self.add_tally(tally, row.try_get::<Option<i64>, _>(5)?.unwrap_or(0));
                }
            }
        }
        Ok(())
    }

    /// With the bytes of payloads that wait.
    pub(crate) fn add_tallies(&mut self, tallies: Vec<(Tally, i64)>) {
        tallies.into_iter().for_each(|(tally, bytes)| self.add_tally(tally, bytes));
    }

    fn add_tally(&mut self, tally: Tally, bytes: i64) {
        let Tally { queue, state, tasks } = tally;
        *self.bytes.entry(queue.clone()).or_default() += bytes;
        *self.tallies.entry((queue, state)).or_default() += tasks;
    }

    pub(crate) fn books(self) -> Books {
        let tallies = self.tallies.into_iter().filter(|pair| pair.1 != 0);
        let tally = |((queue, state), tasks)| Tally { queue, state, tasks };
        let pending = self.bytes.into_iter().filter(|byte| byte.1 != 0);
        Books {
            accepted: self.accepted,
            deleted: self.deleted,
            tallies: tallies.map(tally).collect(),
            pending_bytes: pending.map(|(queue, bytes)| PendingBytes { queue, bytes }).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::time::Millis;

    #[test]
    fn places_are_one_parameter() {
        let place = |id| TaskRef { partition: Partition(3), due_at: Millis(9), id };
        assert_eq!(wanted(&[]), "[]");
        assert_eq!(wanted(&[place(1), place(-2)]), "[[0,3,9,1],[1,3,9,-2]]");
    }

    #[test]
    fn a_label_stands_in_the_column_as_it_is_looked_for() {
        let labels: BTreeMap<_, _> =
            [("a", "1"), ("k\"}", "{v\\"), ("{", "}")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let column = row::labels_text(&labels).unwrap();
        for (key, value) in labels {
            let text = label_text(&(key, value));
            assert!(column.contains(&text), "{text} in {column}");
        }
    }
}
