//! Reads over all databases of a store: each asks those that can know, and puts their answers together in order.
//! Must only ever run in a task of its own, because a read that is dropped in the middle spoils its connection.

use super::{
    Inner, Shard, buckets, ended,
    query::{self, Hold},
    reply, scan as scans,
    statements::{self as sql, sql},
    writer,
};
use punctual_contract::{
    hot::HotEntry,
    store::{Books, Page, Query, Reply, ReplyKey, Scan, Tally},
};
use punctual_domain::{
    name::Name,
    place::{Partition, TaskRef, partition_of},
    task::Task,
    time::Millis,
};
use sqlx::{MySql, MySqlConnection, mysql::MySqlRow, pool::PoolConnection};
use std::{cmp::Reverse, sync::Arc};
use tokio::sync::SemaphorePermit;

/// Most ids that one page of a search may look at.
const LIST_SCAN_MAX: i64 = 20_000;

/// `ER_TABLE_DEF_CHANGED`
const TABLE_CHANGED: u16 = 1412;
const SNAPSHOTS_MAX: u32 = 5;

/// Which account is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Account {
    Running,
    /// From the rows: reads all of them.
    Counted,
}

impl Shard {
    async fn reader(&self) -> sqlx::Result<PoolConnection<MySql>> {
        self.readers.acquire().await
    }

    /// For a read that may take long.
    async fn long_reader(&self) -> sqlx::Result<(SemaphorePermit<'_>, PoolConnection<MySql>)> {
        let permit = self.long.acquire().await.map_err(|_| sqlx::Error::PoolClosed)?;
        Ok((permit, self.readers.acquire().await?))
    }
}

impl Inner {
    fn shard_of(&self, partition: Partition) -> sqlx::Result<&Shard> {
        self.shard(partition).ok_or(sqlx::Error::PoolClosed)
    }
}

pub(super) async fn scan(inner: Arc<Inner>, scan: Scan) -> sqlx::Result<Vec<HotEntry>> {
    let mut conn = inner.shard_of(scan.partition)?.reader().await?;
    scans::scan(&mut conn, &inner.floors, &scan).await
}

pub(super) async fn leases_ended(inner: Arc<Inner>, now: Millis, limit: usize) -> sqlx::Result<Vec<Task>> {
    let mut tasks = Vec::new();
    for shard in &inner.shards {
        tasks.extend(ended::leases_ended(&mut *shard.reader().await?, now, limit).await?);
    }
    tasks.sort_by_key(|it| it.lease.as_ref().map(|it| it.until));
    tasks.truncate(limit);
    Ok(tasks)
}

pub(super) async fn read(inner: Arc<Inner>, places: Vec<TaskRef>) -> sqlx::Result<Vec<Option<Task>>> {
    let mut found: Vec<Option<Task>> = places.iter().map(|_| None).collect();
    for (number, shard) in inner.shards.iter().enumerate() {
        let here = |it: &(usize, &TaskRef)| inner.cluster.shard_of(it.1.partition) == number;
        let (numbers, places): (Vec<usize>, Vec<TaskRef>) =
            places.iter().enumerate().filter(here).map(|(nth, it)| (nth, *it)).unzip();
        if places.is_empty() {
            continue;
        }
        let tasks = query::read(&mut *shard.reader().await?, &places, Hold::Nothing).await?;
        for (nth, task) in numbers.into_iter().zip(tasks) {
            if let Some(place) = found.get_mut(nth) {
                *place = task;
            }
        }
    }
    Ok(found)
}

pub(super) async fn versions(
    inner: Arc<Inner>,
    namespace: Name,
    task_id: i64,
    version: Option<i64>,
    limit: usize,
) -> sqlx::Result<Vec<Task>> {
    let partition = partition_of(&namespace, task_id, inner.cluster.partitions);
    let mut conn = inner.shard_of(partition)?.reader().await?;
    query::versions(&mut conn, (partition, &namespace, task_id), version, limit).await
}

pub(super) async fn list(inner: Arc<Inner>, query: Query) -> sqlx::Result<Page> {
    let Some(newest) = newest_below(&inner, query.before_id.unwrap_or(i64::MAX)).await? else {
        return Ok(Page::default());
    };
    let floor = newest.saturating_sub(LIST_SCAN_MAX - 1);
    let limit = query.limit.max(1);
    let mut tasks = Vec::new();
    for shard in &inner.shards {
        let (_permit, mut conn) = shard.long_reader().await?;
        tasks.extend(query::list(&mut conn, &query, floor..=newest).await?);
    }
    tasks.sort_by_key(|it| Reverse(it.place.id));
    tasks.truncate(limit);
    let full = tasks.last().filter(|_| tasks.len() >= limit).map(|it| it.place.id);
    let next = newest_below(&inner, full.unwrap_or(floor)).await?;
    if let Some((key, value)) = &query.label {
        tasks.retain(|it| it.ask.labels.get(key) == Some(value));
    }
    Ok(Page { next_before_id: next.map(|it| it.saturating_add(1)), tasks })
}

async fn newest_below(inner: &Inner, id: i64) -> sqlx::Result<Option<i64>> {
    let mut newest = None;
    for shard in &inner.shards {
        newest = newest.max(query::newest_below(&mut *shard.reader().await?, id).await?);
    }
    Ok(newest)
}

pub(super) async fn account(inner: Arc<Inner>, which: Account) -> sqlx::Result<Books> {
    let mut sum = query::Sum::default();
    for shard in &inner.shards {
        match which {
            Account::Running => {
                sum.add(&sqlx::query(sql::BOOKS).fetch_all(&mut *shard.reader().await?).await?)?;
            }
            Account::Counted => {
                let (rows, unsettled) = counted(shard).await?;
                sum.add(&rows)?;
                sum.add_tallies(unsettled);
            }
        }
    }
    Ok(sum.books())
}

/// The rows of one database and what is between the rows and the account, on one snapshot.
async fn counted(shard: &Shard) -> sqlx::Result<(Vec<MySqlRow>, Vec<Tally>)> {
    let (_permit, mut conn) = shard.long_reader().await?;
    let mut tries = 1;
    loop {
        let counted = snapshot(&mut conn).await;
        let done = sqlx::raw_sql("ROLLBACK").execute(&mut *conn).await;
        match counted {
            // A bucket was made or dropped meanwhile, which no snapshot reaches over.
            Err(error) if tries < SNAPSHOTS_MAX && writer::code(&error) == Some(TABLE_CHANGED) => tries += 1,
            counted => {
                if done.is_err() {
                    // It must not go back with an open transaction.
                    conn.close_on_drop();
                }
                return counted;
            }
        }
    }
}

async fn snapshot(conn: &mut MySqlConnection) -> sqlx::Result<(Vec<MySqlRow>, Vec<Tally>)> {
    sqlx::raw_sql(sql!("query/snapshot.sql")).execute(&mut *conn).await?;
    let rows = sqlx::query(sql::AUDIT).fetch_all(&mut *conn).await?;
    Ok((rows, buckets::unsettled(conn).await?))
}

/// Where a reply is kept: all replies of a namespace together.
pub(super) fn partition_of_reply(key: &ReplyKey, partitions: u16) -> Partition {
    partition_of(&key.namespace, 0, partitions)
}

pub(super) async fn load_reply(inner: Arc<Inner>, key: ReplyKey, now: Millis) -> sqlx::Result<Option<Reply>> {
    let partition = partition_of_reply(&key, inner.cluster.partitions);
    let mut conn = inner.shard_of(partition)?.reader().await?;
    reply::load(&mut conn, &key, now).await
}
