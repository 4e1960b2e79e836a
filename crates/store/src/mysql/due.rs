//! A search along the due times, the latest first: the key of `task` has them in order within each partition. A page is of a
//! range of time that all partitions have been looked through, so that what follows is earlier. Partitions are looked at one
//! after the other: no join ranges over the second column of a key.

use super::{
    Inner, hosted,
    query::label_text,
    row,
    statements::{self, sql},
};
use crate::Error;
use punctual_contract::store::{Along, DuePosition, Page, Query};
use punctual_domain::{name::Name, place::Partition, state::State, task::Task, time::Millis};
use sqlx::{MySqlConnection, Row as _};
use std::cmp::Reverse;

/// Tasks that one look passes over, in all partitions together, and in one at least.
const TASKS_MAX: usize = 20_000;
const OF_ONE_MIN: usize = 50;

/// Between its ends, without the upper one.
#[derive(Clone, Copy, Debug)]
struct Range {
    from: DuePosition,
    before: DuePosition,
}

impl Range {
    fn of(query: &Query) -> Self {
        let at = |due_at| DuePosition { due_at, id: i64::MIN };
        let end = at(query.due_before.unwrap_or(Millis(i64::MAX)));
        let before = query.before_due.map_or(end, |it| it.min(end));
        Self { from: at(query.due_after.unwrap_or(Millis(i64::MIN))), before }
    }
}

pub(super) async fn list(inner: &Inner, query: &Query) -> Result<Page, Error> {
    let mut range = Range::of(query);
    let whole = range.from;
    let of_one = (TASKS_MAX / usize::from(inner.cluster.partitions.max(1))).max(OF_ONE_MIN);
    let mut places = Vec::new();
    for shard in inner.members() {
        let (_permit, mut conn) = shard.long_reader().await?;
        let here = hosted::here(&mut conn).await?;
        for partition in &here {
            range.from = range.from.max(bound(&mut conn, *partition, range, of_one).await?);
        }
        places.push(here);
    }
    let limit = query.limit.max(1);
    let mut tasks = Vec::new();
    for (shard, here) in inner.members().iter().zip(places) {
        let (_permit, mut conn) = shard.long_reader().await?;
        for partition in here {
            tasks.extend(of_partition(&mut conn, query, partition, range).await?);
        }
    }
    tasks.sort_by_key(|it| Reverse(position(it)));
    tasks.dedup_by_key(|it| it.place.id);
    tasks.truncate(limit);
    let full = tasks.last().filter(|_| tasks.len() >= limit).map(position);
    let next_before_due = full.or(Some(range.from)).filter(|it| *it > whole);
    if let Some((key, value)) = &query.label {
        tasks.retain(|it| it.ask.labels.get(key) == Some(value));
    }
    Ok(Page { tasks, next_before_due, along: Along::DueTime, ..Page::default() })
}

fn position(it: &Task) -> DuePosition {
    DuePosition { due_at: it.due_at, id: it.place.id }
}

/// Where a look at one partition ends.
async fn bound(
    conn: &mut MySqlConnection,
    partition: Partition,
    Range { from, before }: Range,
    tasks: usize,
) -> sqlx::Result<DuePosition> {
    let asked =
        sqlx::query(sql!("query/due_bound.sql")).bind(row::partition_no(partition)).bind(from.due_at.0);
    let asked = asked.bind(before.due_at.0).bind(before.due_at.0).bind(before.id);
    let found = asked.bind(i64::try_from(tasks - 1).unwrap_or(i64::MAX)).fetch_optional(conn).await?;
    found.map_or(Ok(from), |it| Ok(DuePosition { due_at: row::millis(&it, 0)?, id: it.try_get(1)? }))
}

async fn of_partition(
    conn: &mut MySqlConnection,
    query: &Query,
    partition: Partition,
    Range { from, before }: Range,
) -> sqlx::Result<Vec<Task>> {
    let (namespace, queue) =
        (query.namespace.as_ref().map(Name::as_str), query.queue.as_ref().map(Name::as_str));
    let kind = query.kind.as_ref().map(Name::as_str);
    let state = query.state.map(|it: State| i32::from(it.code()));
    let label = query.label.as_ref().map(label_text);
    let updated = query.updated_from.map(|it| it.0);
    let search = sqlx::query(statements::LIST_BY_DUE)
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
