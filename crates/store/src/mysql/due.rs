//! A search along the due times, the latest or the earliest first: the key of `task` has them in order within each
//! partition. A page covers a range of time that was searched in all partitions, so that the following tasks are
//! further on. Partitions are searched one after the other: no join ranges over the second column of a key.

use super::{hosted, query::label_text, row, state::MySqlState, statements::sql};
use crate::{
    Error,
    due_range::{DueRange, tasks_of_one},
};
use punctual_contract::store::{DuePosition, Page, Query};
use punctual_domain::{name::Name, place::Partition, state::State, task::Task};
use sqlx::{MySqlConnection, Row as _};

pub(super) async fn list(inner: &MySqlState, query: &Query) -> Result<Page, Error> {
    let mut range = DueRange::of(query);
    let whole = range;
    let of_one = tasks_of_one(inner.cluster.partitions);
    let mut places = Vec::new();
    for shard in inner.members() {
        let (_permit, mut conn) = shard.long_reader().await?;
        let here = hosted::here(&mut conn).await?;
        for partition in &here {
            if let Some(last) = bound(&mut conn, *partition, range, of_one).await? {
                range.narrow(last);
            }
        }
        places.push(here);
    }
    let mut tasks = Vec::new();
    for (shard, here) in inner.members().iter().zip(places) {
        let (_permit, mut conn) = shard.long_reader().await?;
        for partition in here {
            tasks.extend(of_partition(&mut conn, query, partition, range).await?);
        }
    }
    let mut page = range.page(whole, tasks, query.limit.max(1));
    if let Some((key, value)) = &query.label {
        page.tasks.retain(|task| task.ask.labels.get(key) == Some(value));
    }
    Ok(page)
}

/// The position where the search of one partition ends. `None` is the end of the range.
async fn bound(
    conn: &mut MySqlConnection,
    partition: Partition,
    DueRange { from, before, is_rising }: DueRange,
    tasks: usize,
) -> sqlx::Result<Option<DuePosition>> {
    let partition = row::partition_no(partition);
    let asked = if is_rising {
        let asked = sqlx::query(sql!(query, find_due_bound_rising)).bind(partition).bind(from.due_at.0);
        asked.bind(from.due_at.0).bind(from.id)
    } else {
        sqlx::query(sql!(query, find_due_bound)).bind(partition).bind(from.due_at.0)
    };
    let asked = asked.bind(before.due_at.0).bind(before.due_at.0).bind(before.id);
    let found = asked.bind(i64::try_from(tasks - 1).unwrap_or(i64::MAX)).fetch_optional(conn).await?;
    found.map(|row| Ok(DuePosition { due_at: row::millis(&row, 0)?, id: row.try_get(1)? })).transpose()
}

async fn of_partition(
    conn: &mut MySqlConnection,
    query: &Query,
    partition: Partition,
    DueRange { from, before, is_rising }: DueRange,
) -> sqlx::Result<Vec<Task>> {
    let (namespace, queue) =
        (query.namespace.as_ref().map(Name::as_str), query.queue.as_ref().map(Name::as_str));
    let kind = query.kind.as_ref().map(Name::as_str);
    let state = query.state.map(|state: State| i32::from(state.code()));
    let label = query.label.as_ref().map(label_text);
    let updated = query.updated_from.map(|at| at.0);
    let text = if is_rising { sql!(query, list_by_due_rising) } else { sql!(query, list_by_due) };
    let search = sqlx::query(text)
        .bind(row::partition_no(partition))
        .bind(from.due_at.0)
        .bind(from.due_at.0)
        .bind(from.id)
        .bind(before.due_at.0)
        .bind(before.due_at.0)
        .bind(before.id)
        .bind(namespace)
        .bind(namespace)
        .bind(queue)
        .bind(queue)
        .bind(state)
        .bind(state)
        .bind(kind)
        .bind(kind)
        .bind(label.as_deref())
        .bind(label.as_deref())
        .bind(updated)
        .bind(updated)
        .bind(query.error.as_deref())
        .bind(query.error.as_deref())
        .bind(i64::try_from(query.limit.max(1)).unwrap_or(i64::MAX));
    search.fetch_all(conn).await?.iter().map(row::whole_task).collect()
}
