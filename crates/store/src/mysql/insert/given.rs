//! Ids that the engine gives to tasks without one. A caller may have taken one of them long ago, in any version: it
//! is passed over. The next that fits is in the same partition, because the task is on its way to its writer.

use super::{
    ask::{Context, Row, given_task_id},
    between::between,
};
use punctual_domain::place::{Partition, partition_of};
use sqlx::MySqlConnection;
use std::collections::{BTreeMap, HashSet};

/// The maximum gap between ids of one range. Ids that are further apart are looked up separately: between them may be
/// many that others have inserted.
const GAP_MAX: i64 = 1_000;

type Taken = HashSet<(Partition, i64)>;

pub(super) async fn pass_over_taken(
    conn: &mut MySqlConnection,
    context: &Context,
    rows: &mut [Row<'_>],
) -> sqlx::Result<()> {
    let of_callers: HashSet<(&str, i64)> = rows
        .iter()
        .filter(|row| !row.ask.task.is_anonymous())
        .map(|row| (row.ask.namespace(), row.task_id))
        .collect();
    let mut unchecked: Vec<&mut Row<'_>> =
        rows.iter_mut().filter(|row| row.ask.task.is_anonymous()).collect();
    while !unchecked.is_empty() {
        let taken = taken(conn, &unchecked).await?;
        unchecked.retain(|row| {
            taken.contains(&(row.ask.partition, row.task_id))
                || of_callers.contains(&(row.ask.namespace(), row.task_id))
        });
        for row in &mut unchecked {
            (row.id, row.task_id) = next(context, row).await?;
        }
    }
    Ok(())
}

/// Another id, in the same partition: one of as many as there are partitions, on average.
async fn next(context: &Context, row: &Row<'_>) -> sqlx::Result<(i64, i64)> {
    let namespace = &row.ask.task.queue.namespace;
    loop {
        for id in context.ids.take(1).await? {
            let task_id = given_task_id(id);
            if partition_of(namespace, task_id, context.partitions) == row.ask.partition {
                return Ok((id, task_id));
            }
        }
    }
}

async fn taken(conn: &mut MySqlConnection, rows: &[&mut Row<'_>]) -> sqlx::Result<Taken> {
    let mut found = Taken::new();
    let mut namespaces: BTreeMap<&str, Vec<(i64, Partition)>> = BTreeMap::new();
    for row in rows {
        namespaces.entry(row.ask.namespace()).or_default().push((row.task_id, row.ask.partition));
    }
    for (namespace, mut ids) in namespaces {
        ids.sort_unstable();
        for near in ids.chunk_by(|a, b| b.0 - a.0 <= GAP_MAX) {
            let (Some(first), Some(last)) = (near.first(), near.last()) else { continue };
            let partitions = near.iter().map(|pair| pair.1).collect();
            found.extend(between(conn, namespace, partitions, (first.0, last.0), i64::MAX).await?);
        }
    }
    Ok(found)
}
