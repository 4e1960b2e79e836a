//! The labels that queues declare: as in the catalog, and as each database enters them. Must not enter a task under
//! one.

use crate::mysql::{row, statements::sql};
use punctual_domain::{
    name::QueueKey,
    settings::{Scope, Setting},
};
use sqlx::{MySqlConnection, Row as _, mysql::MySqlRow};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn label(row: &MySqlRow) -> sqlx::Result<(QueueKey, String)> {
    let label = std::str::from_utf8(row.try_get(2)?).map_err(|error| row::odd(2, error))?;
    Ok((row::queue_key(row, 0, 1)?, label.to_owned()))
}

/// Reads the declared labels, in a transaction that holds the epoch.
pub(crate) async fn declared(conn: &mut MySqlConnection) -> sqlx::Result<Vec<(QueueKey, String)>> {
    sqlx::query(sql!(labels, list_declared)).fetch_all(conn).await?.iter().map(label).collect()
}

/// Reads the declared labels from the settings in the catalog.
pub(crate) async fn wanted(catalog: &mut MySqlConnection) -> sqlx::Result<BTreeSet<(QueueKey, String)>> {
    let mut all = BTreeSet::new();
    for rows in sqlx::query(sql!(labels, list_wanted)).fetch_all(catalog).await? {
        let queue = row::queue_key(&rows, 0, 1)?;
        let setting = Setting::of_json(&Scope::Queue(queue.clone()), rows.try_get(2)?);
        let setting = setting.map_err(|error| row::odd(2, error))?;
        all.extend(setting.indexed_labels().map(|label| (queue.clone(), label.to_owned())));
    }
    Ok(all)
}

/// Declares the labels that this database enters from the commit on, in the transaction that has advanced the epoch.
pub(crate) async fn declare(
    tx: &mut MySqlConnection,
    wanted: &BTreeSet<(QueueKey, String)>,
) -> sqlx::Result<()> {
    let stand: BTreeSet<_> = declared(tx).await?.into_iter().collect();
    let gone = stand.difference(wanted).map(|difference| (sql!(labels, undeclare_label), difference));
    let new = wanted.difference(&stand).map(|difference| (sql!(labels, declare_label), difference));
    for (text, (queue, label)) in gone.chain(new) {
        let one = sqlx::query(text).bind(queue.namespace.as_str()).bind(queue.queue.as_str());
        one.bind(label.as_bytes()).execute(&mut *tx).await?;
    }
    Ok(())
}

/// The labels of a row; none where it has none.
pub(crate) fn labels_of(row: &MySqlRow, column: usize) -> sqlx::Result<BTreeMap<String, String>> {
    let Some(text) = row.try_get::<Option<&str>, _>(column)? else { return Ok(BTreeMap::new()) };
    serde_json::from_str(text).map_err(|error| row::odd(column, error))
}
