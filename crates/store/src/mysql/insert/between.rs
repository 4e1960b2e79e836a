//! Reads the tasks whose ids are close to each other: one read of their range in the registry, however many they are.
//! Locks nothing.

use crate::mysql::{
    row,
    statements::{Listed, bind, sql},
};
use punctual_domain::place::Partition;
use sqlx::{MySqlConnection, Row as _, mysql::MySqlArguments};

static LIST_BETWEEN: Listed = Listed::new(sql!(insert, list_between));

/// The ids from `from` to `to`, each as often as it has versions, and no more than about `most`: with fewer, they are
/// all there are.
pub(super) async fn between(
    conn: &mut MySqlConnection,
    namespace: &str,
    mut partitions: Vec<Partition>,
    (from, to): (i64, i64),
    most: i64,
) -> sqlx::Result<Vec<(Partition, i64)>> {
    partitions.sort_unstable();
    partitions.dedup();
    let mut found = Vec::new();
    for (part, text) in LIST_BETWEEN.parts(&partitions) {
        let mut values = MySqlArguments::default();
        for partition in part {
            bind!(values, row::partition_no(*partition));
        }
        bind!(values, namespace, from, to, most);
        for rows in sqlx::query_with(text, values).fetch_all(&mut *conn).await? {
            found.push((row::partition(&rows, 0)?, rows.try_get(1)?));
        }
    }
    Ok(found)
}
