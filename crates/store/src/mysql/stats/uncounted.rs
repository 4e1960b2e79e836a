//! Adds to the account the bytes of payloads of tasks that stood before it knew bytes: once in each database, by whichever
//! engine comes first, while engines run. What is missing is the difference between the rows and the account at one instant,
//! whatever is moved afterwards: its writer enters it. Changes no task.

use crate::{
    Error,
    mysql::{
        buckets, hosted,
        query::Sum,
        repair::account,
        row,
        state::{MySqlState, MysqlStore},
        statements::sql,
        timeouts::{READ, lasting, within},
    },
};
use futures_util::future::BoxFuture;
use punctual_contract::Error as CallError;
use punctual_domain::name::QueueKey;
use sqlx::{Connection as _, MySqlConnection, Row as _};
use std::collections::BTreeMap;

type Bytes = BTreeMap<QueueKey, i64>;

impl MysqlStore {
    /// Returns the number of databases that were counted now. One that is counted already costs a read.
    ///
    /// # Errors
    /// Returns the error of the last database that failed; the others are counted nevertheless.
    pub fn count_old_payloads(&self) -> BoxFuture<'_, Result<usize, CallError>> {
        Box::pin(async move {
            let (mut counted, mut failed) = (0, None);
            for shard_no in 0..self.inner.members().len() {
                match one(&self.inner, shard_no).await {
                    Ok(was_counted) => counted += usize::from(was_counted),
                    Err(error) => failed = Some(error),
                }
            }
            let failed = failed.map(|error| CallError::may_have_happened("count payloads", error));
            failed.map_or(Ok(counted), Err)
        })
    }
}

async fn one(inner: &MySqlState, shard_no: usize) -> Result<bool, Error> {
    let look = async {
        let mut conn = inner.members().get(shard_no).ok_or(Error::NoDatabase)?.readers.acquire().await?;
        Ok::<_, Error>(is_marked(&mut conn).await?)
    };
    if !within(READ, look).await? {
        return Ok(false);
    }
    lasting(Box::pin(async {
        let mut known = inner.address(shard_no)?.own().await?;
        let is_alone: Option<i64> =
            sqlx::query_scalar(sql!(ledger, lock_uncounted)).fetch_one(&mut known.conn).await?;
        let counted = if is_alone == Some(1) { count(&mut known.conn, shard_no).await } else { Ok(false) };
        // Which frees its lock.
        known.close().await;
        counted
    }))
    .await
}

/// True if the account lacks the bytes of tasks that are older than the column for them.
pub(super) async fn is_marked(conn: &mut MySqlConnection) -> sqlx::Result<bool> {
    Ok(sqlx::query(sql!(ledger, has_uncounted)).fetch_optional(conn).await?.is_some())
}

/// Removes the mark, in the transaction that adds the bytes. Returns false if another one has added them.
pub(crate) async fn forget(conn: &mut MySqlConnection) -> sqlx::Result<bool> {
    Ok(sqlx::query(sql!(ledger, delete_uncounted)).execute(conn).await?.rows_affected() > 0)
}

/// False if another was first.
async fn count(conn: &mut MySqlConnection, shard_no: usize) -> Result<bool, Error> {
    sqlx::raw_sql(sql!(session, begin_snapshot)).execute(&mut *conn).await?;
    let missing = if is_marked(conn).await? { Some(missing(conn, shard_no).await?) } else { None };
    sqlx::raw_sql("ROLLBACK").execute(&mut *conn).await?;
    let Some(missing) = missing else { return Ok(false) };
    let mut tx = conn.begin().await?;
    if !forget(&mut tx).await? {
        tx.rollback().await?;
        return Ok(false);
    }
    let bytes: i64 = missing.values().sum();
    account::add_bytes(&mut tx, missing).await?;
    tx.commit().await?;
    tracing::info!(shard_no, bytes, "payloads from before the upgrade are in the account");
    Ok(true)
}

/// The number of bytes that the account lacks, on the snapshot of the caller.
async fn missing(conn: &mut MySqlConnection, shard_no: usize) -> Result<Bytes, Error> {
    let (mut books, mut missing) = (Sum::default(), Bytes::new());
    books.add(&sqlx::query(sql!(ledger, read_books)).fetch_all(&mut *conn).await?)?;
    for known in books.books().pending_bytes {
        *missing.entry(known.queue).or_default() -= known.bytes;
    }
    for (tally, bytes) in buckets::unsettled(conn).await? {
        *missing.entry(tally.queue).or_default() += bytes;
    }
    let partitions = hosted::here(conn).await?;
    for (nth, partition) in partitions.iter().enumerate() {
        let rows = sqlx::query(sql!(ledger, sum_uncounted)).bind(row::partition_no(*partition));
        for rows in rows.fetch_all(&mut *conn).await? {
            *missing.entry(row::queue_key(&rows, 0, 1)?).or_default() += rows.try_get::<i64, _>(2)?;
        }
        let (counted, of) = (nth + 1, partitions.len());
        tracing::info!(
            shard_no,
            counted,
            of,
            "partitions whose payloads from before the upgrade are counted"
        );
    }
    missing.retain(|_, bytes| *bytes != 0);
    Ok(missing)
}
