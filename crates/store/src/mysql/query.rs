//! The reads of one database. Each statement runs on one snapshot, bounded by its limit; none changes anything.

use super::{parameters::wanted, row, statements::sql};
use punctual_contract::store::{Books, PendingBytes, Tally};
use punctual_domain::{
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    state::State,
    task::Task,
};
use sqlx::{MySqlConnection, Row as _, mysql::MySqlRow};
use std::collections::BTreeMap;

/// Places of one statement: its JSON stays under 64 KiB.
const READ_ROWS_MAX: usize = 1_000;

/// The lock that a read of places puts on the rows that it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    Nothing,
    /// Locked until the end of the transaction.
    Locked,
}

/// Reads complete tasks, in the order of the places.
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

/// A label in its current state in the column.
pub(crate) fn label_text(label: &(String, String)) -> String {
    let one = BTreeMap::from([(&label.0, &label.1)]);
    let json = serde_json::to_string(&one).expect("a map of strings always has a JSON form");
    json.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default().to_owned()
}

pub(super) fn tasks(rows: &[MySqlRow]) -> sqlx::Result<Vec<Task>> {
    rows.iter().map(row::whole_task).collect()
}

pub(super) fn rows(limit: usize) -> i64 {
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

    /// Adds the tallies, with the bytes of payloads that wait.
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
