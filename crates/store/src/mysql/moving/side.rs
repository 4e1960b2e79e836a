//! One of the two databases of a move, with the lock of its buckets: while a partition moves, no bucket is made, swapped
//! or dropped there. All work of a mover in a database runs on the connection that has the lock, so that it ends with it.

use super::{
    columns::TAKEN,
    steps::{self, Row},
    work::{Piece, Sum},
};
use crate::{
    Error,
    mysql::{
        hosted::HostedState,
        ownership::statement::is_lock,
        row,
        session::{DatabaseAddress, Known},
        statements::{bind, sql},
        timeouts::elsewhere,
    },
};
use punctual_domain::place::Partition;
use sqlx::{Connection as _, MySqlConnection, mysql::MySqlArguments};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::{Instant, sleep};

/// The time limit of the wait for other work on the buckets: a run ends after seconds, or continues a minute later.
const BUCKETS_WAIT: Duration = Duration::from_secs(120);
const BUCKETS_AGAIN: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(super) struct Side {
    pub(super) conn: MySqlConnection,
    number: u64,
    pub(super) address: DatabaseAddress,
    pub(super) partition: Partition,
}

impl Side {
    /// Waits until no caller changes the buckets, and none is being dropped.
    pub(super) async fn alone(address: &DatabaseAddress, partition: Partition) -> Result<Self, Error> {
        let began = Instant::now();
        while began.elapsed() < BUCKETS_WAIT {
            let Known { mut conn, number } = address.own().await.map_err(|error| address.failed(error))?;
            let alone: Option<i64> =
                sqlx::query_scalar(sql!(buckets, lock_maintenance)).fetch_one(&mut conn).await?;
            let is_free = alone == Some(1)
                && sqlx::query(sql!(dropped_buckets, has_rows)).fetch_optional(&mut conn).await?.is_none();
            let side = Self { conn, number, address: address.clone(), partition };
            if is_free {
                return Ok(side);
            }
            side.free().await;
            elsewhere(sleep(BUCKETS_AGAIN)).await;
        }
        Err(Error::BucketsBusy { at: address.to_string(), waited_s: BUCKETS_WAIT.as_secs() })
    }

    pub(super) async fn free(mut self) {
        if let Err(error) = sqlx::raw_sql(sql!(buckets, unlock_maintenance)).execute(&mut self.conn).await {
            tracing::debug!(%error, "a connection was gone before it was closed");
        }
        Known { conn: self.conn, number: self.number }.close().await;
    }

    /// The lock was never lost.
    pub(super) async fn is_alone(&mut self) -> sqlx::Result<bool> {
        let held: i64 = sqlx::query_scalar(sql!(moving, holds_bucket_lock)).fetch_one(&mut self.conn).await?;
        Ok(held == 1)
    }

    pub(super) async fn mark(&mut self, text: &'static str, term: i64) -> sqlx::Result<u64> {
        let mark = sqlx::query(text).bind(term).bind(row::partition_no(self.partition)).bind(term);
        Ok(mark.execute(&mut self.conn).await?.rows_affected())
    }

    /// True if no writer writes in the partition any more. False if transactions were under way for too long.
    pub(super) async fn close(&mut self, term: i64) -> Result<bool, Error> {
        sqlx::raw_sql(sql!(hosted, set_short_lock_wait)).execute(&mut self.conn).await?;
        let close = sqlx::query(sql!(hosted, close)).bind(row::partition_no(self.partition)).bind(term);
        let closed = close.execute(&mut self.conn).await;
        sqlx::raw_sql(sql!(hosted, set_long_lock_wait)).execute(&mut self.conn).await?;
        match closed {
            Ok(done) if done.rows_affected() == 1 => Ok(true),
            Ok(_) => Err(Error::NewerTerm { partition: self.partition.0 }),
            Err(error) if is_lock(&error) => Ok(false),
            Err(error) => Err(self.address.failed(error)),
        }
    }

    /// The rows of a piece, summed up by account.
    pub(super) async fn sums(&mut self, piece: Piece) -> sqlx::Result<Vec<Sum>> {
        let rows = piece.bind(sql!(moving, sum_piece), self.partition).fetch_all(&mut self.conn).await?;
        rows.iter().map(Sum::read).collect()
    }

    /// Begins a transaction in which this mover may still work.
    pub(super) async fn begin(
        &mut self,
        state: HostedState,
        term: i64,
    ) -> Result<sqlx::Transaction<'_, sqlx::MySql>, Error> {
        let partition = self.partition;
        let mut tx = self.conn.begin().await?;
        if steps::guard(&mut tx, partition, state, term).await? {
            Ok(tx)
        } else {
            Err(Error::NewerTerm { partition: partition.0 })
        }
    }

    /// Enters what moves with the partition, in place of what an earlier run wrote.
    pub(super) async fn enter(
        &mut self,
        (state, term): (HostedState, i64),
        account: &BTreeMap<(String, String, i8), (i64, i64)>,
    ) -> Result<(), Error> {
        let partition = row::partition_no(self.partition);
        let mut tx = self.begin(state, term).await?;
        sqlx::query(sql!(moving, delete_taken_along)).bind(partition).execute(&mut *tx).await?;
        let rows: Vec<_> = account.iter().collect();
        for (part, text) in TAKEN.parts(&rows) {
            let mut values = MySqlArguments::default();
            for ((namespace, queue, state), (tasks, bytes)) in part {
                bind!(values, partition, namespace.as_str(), queue.as_str(), *state, *tasks, *bytes);
            }
            sqlx::query_with(text, values).execute(&mut *tx).await?;
        }
        Ok(tx.commit().await?)
    }

    /// Deletes all rows of the partition here, in small transactions.
    pub(super) async fn empty(
        &mut self,
        state: HostedState,
        row: &Row,
        rows_max: i64,
        mut deleted: impl FnMut(u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let partition = row::partition_no(self.partition);
        for text in [
            sql!(moving, delete_remaining_tasks),
            sql!(moving, delete_remaining_entries),
            sql!(moving, delete_remaining_moved_places),
            sql!(moving, delete_remaining_bodies),
            sql!(moving, delete_remaining_lookups),
        ] {
            loop {
                let mut tx = self.begin(state, row.term).await?;
                let delete = sqlx::query(text).bind(partition).bind(rows_max);
                let rows = delete.execute(&mut *tx).await?.rows_affected();
                tx.commit().await?;
                deleted(rows)?;
                if i64::try_from(rows).is_ok_and(|rows| rows < rows_max) {
                    break;
                }
            }
        }
        let mut tx = self.begin(state, row.term).await?;
        sqlx::query(sql!(moving, delete_taken_along)).bind(partition).execute(&mut *tx).await?;
        Ok(tx.commit().await?)
    }

    pub(super) async fn forget(&mut self, state: HostedState, term: i64) -> sqlx::Result<()> {
        let forget = sqlx::query(sql!(hosted, delete)).bind(row::partition_no(self.partition));
        forget.bind(state as i8).bind(term).execute(&mut self.conn).await.map(drop)
    }
}
