//! The statistics of each database for operators: its size, and a check that everything in it is accounted for.
//! Changes nothing.

pub(super) mod uncounted;

use super::{
    buckets, count, hosted, moving,
    parts::Shard,
    query::Sum,
    row,
    state::{MySqlState, MysqlStore},
    statements::sql,
    timeouts::LONG,
};
use crate::{Error, ShardCheck};
use punctual_contract::{Error as CallError, store::Books};
use punctual_domain::{place::Partition, time::Millis};
use sqlx::{MySqlConnection, Row as _};
use std::{collections::BTreeSet, sync::Arc};

/// One database, as its server estimates it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardStats {
    pub shard_no: usize,
    pub database: String,
    pub partitions: Vec<Partition>,
    /// An estimate: the server's own.
    pub rows: i64,
    pub task_bytes: i64,
    /// The size of all tables.
    pub bytes: i64,
    pub buckets: i64,
    /// The due time of the earliest task, in any state.
    pub oldest_due_at: Option<Millis>,
}

/// A check is made again so often when partitions seem to be in the wrong place.
const CHECKS_MAX: u32 = 3;

impl MysqlStore {
    /// Costs a few statements for each partition.
    ///
    /// # Errors
    /// When a database cannot be read.
    pub async fn stats(&self) -> Result<Vec<ShardStats>, CallError> {
        let work = |inner: Arc<MySqlState>| async move {
            let mut all = Vec::new();
            for (shard_no, shard) in inner.members().iter().enumerate() {
                all.push(stats(shard_no, shard, partitions(&inner, shard_no)).await?);
            }
            Ok::<_, sqlx::Error>(all)
        };
        self.reading_within(LONG, "read the sizes of databases", work).await
    }

    /// Reads every row.
    ///
    /// # Errors
    /// When a database cannot be read.
    pub async fn check(&self) -> Result<Vec<ShardCheck>, CallError> {
        let work = |inner: Arc<MySqlState>| async move {
            let mut tries = 0;
            loop {
                tries += 1;
                inner.routing.read(&inner.catalog, &inner.addresses).await?;
                let (moving, placement) = (moving::underway(&inner).await?, inner.routing.placement());
                let mut all = Vec::new();
                for (shard_no, shard) in inner.members().iter().enumerate() {
                    all.push(
                        check(shard_no, shard, &placement.partitions(shard_no).collect(), &moving).await?,
                    );
                }
                // A move that ended meanwhile looks like this.
                if tries == CHECKS_MAX || all.iter().all(|check| check.misplaced.is_empty()) {
                    return Ok::<_, Error>(all);
                }
            }
        };
        self.reading_within(LONG, "check databases", work).await
    }
}

fn partitions(inner: &MySqlState, shard_no: usize) -> Vec<Partition> {
    inner.routing.placement().partitions(shard_no).collect()
}

async fn stats(shard_no: usize, shard: &Shard, partitions: Vec<Partition>) -> sqlx::Result<ShardStats> {
    let mut conn = shard.readers.acquire().await?;
    let sizes = sqlx::query(sql!(cluster, read_table_sizes)).fetch_one(&mut *conn).await?;
    let mut oldest_due_at = None;
    for partition in &partitions {
        let oldest = sqlx::query_scalar(sql!(cluster, find_earliest_due)).bind(i32::from(partition.0));
        let oldest: Option<i64> = oldest.fetch_optional(&mut *conn).await?;
        oldest_due_at = oldest_due_at.into_iter().chain(oldest.map(Millis)).min();
    }
    Ok(ShardStats {
        shard_no,
        database: sizes.try_get(0)?,
        partitions,
        rows: sizes.try_get(1)?,
        task_bytes: sizes.try_get(2)?,
        bytes: sizes.try_get(3)?,
        buckets: sizes.try_get(4)?,
        oldest_due_at,
    })
}

async fn check(
    shard_no: usize,
    shard: &Shard,
    placed: &BTreeSet<Partition>,
    moving: &BTreeSet<Partition>,
) -> Result<ShardCheck, Error> {
    // Its own: it ends with its snapshot.
    let mut conn = shard.readers.acquire().await?;
    conn.close_on_drop();
    let Accounts { books, counted, bytes_uncounted } = accounts(&mut conn).await?;
    let (mut entries_alone, mut places_alone) = (0, 0);
    let here = hosted::here(&mut conn).await?;
    let misplaced: Vec<Partition> = here.symmetric_difference(placed).copied().collect();
    let misplaced = misplaced.into_iter().filter(|partition| !moving.contains(partition)).collect();
    let strangers = sqlx::query(sql!(hosted, list_foreign)).fetch_all(&mut *conn).await?;
    let strangers =
        strangers.iter().map(|stranger| row::partition(stranger, 0)).collect::<sqlx::Result<_>>()?;
    for partition in &here {
        entries_alone += count(&mut conn, sql!(doctor, count_dangling_entries), *partition).await?;
        places_alone += count(&mut conn, sql!(doctor, count_dangling_places), *partition).await?;
    }
    let ledger = count::on_snapshot(&mut conn).await?;
    Ok(ShardCheck {
        shard_no,
        books,
        counted,
        bytes_uncounted,
        entries_alone,
        places_alone,
        misplaced,
        strangers,
        ledger,
    })
}

/// The account as it runs and as it is counted, of one instant.
pub(super) struct Accounts {
    pub(super) books: Books,
    pub(super) counted: Books,
    pub(super) bytes_uncounted: bool,
}

/// Reads the account and the rows on one snapshot, so that a task that moves meanwhile is in both or in neither.
pub(super) async fn accounts(conn: &mut MySqlConnection) -> sqlx::Result<Accounts> {
    let (mut books, mut counted) = (Sum::default(), Sum::default());
    sqlx::raw_sql(sql!(session, begin_snapshot)).execute(&mut *conn).await?;
    books.add(&sqlx::query(sql!(ledger, read_books)).fetch_all(&mut *conn).await?)?;
    counted.add(&sqlx::query(sql!(ledger, count_books)).fetch_all(&mut *conn).await?)?;
    counted.add_tallies(buckets::unsettled(conn).await?);
    let bytes_uncounted = uncounted::is_marked(conn).await?;
    sqlx::raw_sql("ROLLBACK").execute(conn).await?;
    Ok(Accounts { books: books.books(), counted: counted.books(), bytes_uncounted })
}

async fn count(conn: &mut MySqlConnection, text: &'static str, of: Partition) -> sqlx::Result<i64> {
    sqlx::query_scalar(text).bind(i32::from(of.0)).fetch_one(conn).await
}
