//! Repairs what a check finds: entries that lead to no task, copies that a move left over, an account that does not
//! agree with its rows. The engines enter the lookups of tasks once more. In bounded batches; never changes a task
//! that is where it belongs.

pub(super) mod account;
pub(super) mod tidy;

use super::{
    hosted, moving, row,
    shards::placement,
    state::{MySqlState, MysqlStore},
    statements::sql,
    stats::{self, Accounts, uncounted},
    timeouts::lasting,
};
use crate::Error;
use account::{add, differences};
use punctual_domain::place::Partition;
use sqlx::{Connection as _, MySqlConnection};
use std::collections::BTreeSet;
use tidy::{Hold, tidy};

/// Rows of one deletion.
const PAGE: i64 = 1_000;

/// The repairs that were done in one database, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardRepair {
    pub shard_no: usize,
    /// Entries of the registry, moved places and long payloads without a task.
    pub entries_alone: u64,
    pub places_alone: u64,
    pub bodies_alone: u64,
    /// Partitions of which rows were here that are elsewhere.
    pub strangers: Vec<Partition>,
    /// The rows of those partitions, in all tables; 0 if nothing is changed.
    pub strange_rows: u64,
    /// Accounts of a queue and state that were corrected, by how many tasks altogether, and by how many bytes of payloads
    /// that wait.
    pub accounts: usize,
    pub corrected: u64,
    pub corrected_bytes: u64,
    /// The correction of the number of accepted tasks.
    pub accepted: i64,
}

impl ShardRepair {
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self { shard_no: self.shard_no, ..Self::default() }
    }
}

impl MysqlStore {
    /// Repairs what `check` finds; with `dry_run`, only reports what it would repair. A partition that is in the
    /// wrong database is not changed.
    ///
    /// # Errors
    /// When a database fails, or a mover is at work.
    pub async fn repair(&self, dry_run: bool) -> Result<Vec<ShardRepair>, Error> {
        lasting(Box::pin(all(&self.inner, dry_run))).await
    }
}

async fn all(inner: &MySqlState, dry_run: bool) -> Result<Vec<ShardRepair>, Error> {
    let mut catalog = moving::alone(inner.address(0)?).await?;
    let (_, members) = placement::version(&mut catalog.conn).await?;
    let moving = moving::underway(inner).await?;
    let mut all = Vec::new();
    for shard_no in 0..members {
        all.push(one(inner, shard_no, &moving, dry_run).await?);
    }
    catalog.close().await;
    Ok(all)
}

async fn one(
    inner: &MySqlState,
    shard_no: usize,
    moving: &BTreeSet<Partition>,
    dry_run: bool,
) -> Result<ShardRepair, Error> {
    let mut known = inner.address(shard_no)?.own().await?;
    let conn = &mut known.conn;
    let mut done = ShardRepair { shard_no, ..ShardRepair::default() };
    strangers(conn, moving, dry_run, &mut done).await?;
    for partition in hosted::here(conn).await?.difference(moving) {
        let hold = if dry_run { Hold::DryRun } else { Hold::Open };
        let tidied = tidy(conn, *partition, hold).await?;
        done.entries_alone += tidied[0];
        done.places_alone += tidied[1];
        done.bodies_alone += tidied[2];
    }
    account(conn, dry_run, &mut done).await?;
    if !dry_run {
        sqlx::query(sql!(doctor, restart_labels)).execute(&mut *conn).await?;
        sqlx::query(sql!(doctor, restart_chunks)).execute(&mut *conn).await?;
    }
    known.close().await;
    Ok(done)
}

/// Copies and remains of partitions that are elsewhere, unless a move is not over, which deletes them itself.
async fn strangers(
    conn: &mut MySqlConnection,
    moving: &BTreeSet<Partition>,
    dry_run: bool,
    done: &mut ShardRepair,
) -> Result<(), Error> {
    for row in sqlx::query(sql!(hosted, list_foreign)).fetch_all(&mut *conn).await? {
        let partition = row::partition(&row, 0)?;
        if moving.contains(&partition) {
            continue;
        }
        done.strangers.push(partition);
        if dry_run {
            continue;
        }
        let number = row::partition_no(partition);
        for text in [
            sql!(moving, delete_remaining_tasks),
            sql!(moving, delete_remaining_entries),
            sql!(moving, delete_remaining_moved_places),
            sql!(moving, delete_remaining_bodies),
            sql!(moving, delete_remaining_lookups),
        ] {
            loop {
                let delete = sqlx::query(text).bind(number).bind(PAGE);
                let rows = delete.execute(&mut *conn).await?.rows_affected();
                done.strange_rows += rows;
                if rows == 0 {
                    break;
                }
            }
        }
        sqlx::query(sql!(doctor, delete_stray_mark)).bind(number).execute(&mut *conn).await?;
    }
    Ok(())
}

/// The difference between the account and the rows at one instant is added to the account: whatever is moved since then
/// is added besides.
async fn account(conn: &mut MySqlConnection, dry_run: bool, done: &mut ShardRepair) -> Result<(), Error> {
    // Who counts old payloads at the same time may have been first, and then it is found out anew; there is no third time.
    while !correct(conn, dry_run, done).await? {}
    Ok(())
}

/// False if what it found out is no longer so, and it has changed nothing.
async fn correct(conn: &mut MySqlConnection, dry_run: bool, done: &mut ShardRepair) -> Result<bool, Error> {
    let Accounts { books, counted, bytes_uncounted } = stats::accounts(conn).await?;
    let differences = differences(&books, &counted);
    let tallies: i64 = counted.tallies.iter().map(|tally| tally.tasks).sum();
    let accepted = tallies + books.deleted - books.accepted;
    done.accounts = differences.len();
    done.corrected = differences.iter().map(|difference| difference.tasks.unsigned_abs()).sum();
    done.corrected_bytes = differences.iter().map(|difference| difference.bytes.unsigned_abs()).sum();
    done.accepted = accepted;
    if dry_run || (differences.is_empty() && accepted == 0 && !bytes_uncounted) {
        return Ok(true);
    }
    let mut tx = conn.begin().await?;
    if bytes_uncounted && !uncounted::forget(&mut tx).await? {
        tx.rollback().await?;
        return Ok(false);
    }
    add(&mut tx, &differences).await?;
    if accepted != 0 {
        sqlx::query(sql!(doctor, correct_accepted)).bind(accepted).execute(&mut *tx).await?;
    }
    tx.commit().await?;
    Ok(true)
}
