//! Settles what a check finds: entries that lead to no task, copies that a move left over, an account that does not
//! agree with its rows. What tasks are looked up by is entered once more, by the engines. In bounded batches; never touches a task that is where it belongs.

use super::{
    MySqlState, MysqlStore,
    hosted::{self, HostedState, WritePartitions},
    ledger::ADD_TO_BOOKS,
    limits::lasting,
    moving::{self, guard},
    query::wanted,
    row, shards,
    statements::{bind, sql},
    stats::{self, Accounts, uncounted},
};
use crate::Error;
use punctual_contract::store::Books;
use punctual_domain::{
    name::QueueKey,
    place::{Partition, TaskRef},
    state::State as TaskState,
    time::Millis,
};
use sqlx::{Connection as _, MySqlConnection, Row as _, mysql::MySqlArguments};
use std::collections::{BTreeMap, BTreeSet};

/// Entries of one page, and rows of one deletion.
const PAGE: i64 = 1_000;

/// What was done in one database, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardRepair {
    pub shard_no: usize,
    /// Entries of the registry, moved places and long payloads without a task.
    pub entries_alone: u64,
    pub places_alone: u64,
    pub bodies_alone: u64,
    /// Partitions of which rows were here that are elsewhere.
    pub strangers: Vec<Partition>,
    /// Their rows, in all tables; 0 when nothing is changed.
    pub strange_rows: u64,
    /// Accounts of a queue and state that were corrected, by how many tasks altogether, and by how many bytes of payloads
    /// that wait.
    pub accounts: usize,
    pub corrected: u64,
    pub corrected_bytes: u64,
    /// By how much the number of accepted tasks was corrected.
    pub accepted: i64,
}

impl ShardRepair {
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self { shard_no: self.shard_no, ..Self::default() }
    }
}

impl MysqlStore {
    /// Settles what `check` finds; when `dry_run`, only says what it would settle. A partition that is in the wrong
    /// database is not touched.
    ///
    /// # Errors
    /// When a database fails, or a mover is at work.
    pub async fn repair(&self, dry_run: bool) -> Result<Vec<ShardRepair>, Error> {
        lasting(Box::pin(all(&self.inner, dry_run))).await
    }
}

async fn all(inner: &MySqlState, dry_run: bool) -> Result<Vec<ShardRepair>, Error> {
    let mut catalog = moving::alone(inner.address(0)?).await?;
    let (_, members) = shards::version(&mut catalog.conn).await?;
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

/// In the name of what entries are deleted.
#[derive(Clone, Copy, Debug)]
enum Hold {
    /// Of a mover that copies, with its term.
    Copy(i64),
    Open,
    DryRun,
}

/// Before the last round of copying: entries that lead to nothing at the new place. Whichever of them belongs to a task
/// that only stands elsewhere now comes again with its row.
pub(super) async fn tidy_copy(
    conn: &mut MySqlConnection,
    partition: Partition,
    term: i64,
) -> Result<(), Error> {
    tidy(conn, partition, Hold::Copy(term)).await.map(drop)
}

/// How many entries of the registry, moved places and long payloads there are without a task. An entry that is alone
/// stays alone: an insert of the same id finds it, and a task is never without its entry.
async fn tidy(conn: &mut MySqlConnection, partition: Partition, hold: Hold) -> Result<[u64; 3], Error> {
    let number = row::partition_no(partition);
    let (mut found, mut after) = ([0; 3], (String::new(), i64::MIN, i64::MIN));
    loop {
        let page = sqlx::query(sql!(doctor, list_entries)).bind(number).bind(&after.0);
        let page = page.bind(number).bind(&after.0).bind(after.1);
        let page = page.bind(number).bind(&after.0).bind(after.1).bind(after.2).bind(PAGE);
        let page = page.fetch_all(&mut *conn).await?;
        let mut alone = Vec::new();
        for row in &page {
            if row.try_get::<i64, _>(4)? == 1 {
                alone.push(row.try_get(3)?);
            }
        }
        found[0] += forget(conn, partition, &alone, hold, sql!(moving, delete_entries)).await?;
        let Some(last) = page.last() else { break };
        after = (last.try_get(0)?, last.try_get(1)?, last.try_get(2)?);
    }
    let tables = [
        (sql!(doctor, list_moved_places), sql!(moving, delete_moved_places)),
        (sql!(doctor, list_bodies), sql!(moving, delete_bodies)),
    ];
    for (found, (text, gone)) in found.iter_mut().skip(1).zip(tables) {
        let mut after = i64::MIN;
        loop {
            let page = sqlx::query(text).bind(number).bind(after).bind(PAGE).fetch_all(&mut *conn).await?;
            let mut alone = Vec::new();
            for row in &page {
                if row.try_get::<i64, _>(1)? == 1 {
                    alone.push(row.try_get(0)?);
                }
            }
            *found += forget(conn, partition, &alone, hold, gone).await?;
            let Some(last) = page.last() else { break };
            after = last.try_get(0)?;
        }
    }
    Ok(found)
}

async fn forget(
    conn: &mut MySqlConnection,
    partition: Partition,
    ids: &[i64],
    hold: Hold,
    text: &'static str,
) -> Result<u64, Error> {
    let count = u64::try_from(ids.len()).unwrap_or(u64::MAX);
    if ids.is_empty() || matches!(hold, Hold::DryRun) {
        return Ok(count);
    }
    let places: Vec<TaskRef> =
        ids.iter().map(|id| TaskRef { partition, due_at: Millis::ZERO, id: *id }).collect();
    let is_mine = match hold {
        Hold::Copy(term) => {
            sqlx::raw_sql("BEGIN").execute(&mut *conn).await?;
            guard(conn, partition, HostedState::Arriving, term).await?
        }
        _ => {
            let wanted = WritePartitions { these: [partition].into(), ..WritePartitions::default() };
            !hosted::begin(conn, &wanted, None).await?.open.is_empty()
        }
    };
    if is_mine {
        sqlx::query(text).bind(wanted(&places)).execute(&mut *conn).await?;
    }
    sqlx::raw_sql("COMMIT").execute(&mut *conn).await?;
    if is_mine { Ok(count) } else { Err(Error::NewerTerm { partition: partition.0 }) }
}

/// The difference between the account and the rows at one instant is added to the account: whatever is moved since then
/// is added besides.
async fn account(conn: &mut MySqlConnection, dry_run: bool, done: &mut ShardRepair) -> Result<(), Error> {
    // Who counts old payloads at the same time may have been first, and then it is found out anew; there is no third time.
    while !correct(conn, dry_run, done).await? {}
    Ok(())
}

/// False: what it found out is no longer so, and it has changed nothing.
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

/// Adds bytes of payloads that wait to the account.
pub(super) async fn add_bytes(
    conn: &mut MySqlConnection,
    bytes: BTreeMap<QueueKey, i64>,
) -> Result<(), Error> {
    let code = i32::from(TaskState::Scheduled.code());
    let difference = |(queue, bytes)| Difference { queue, code, tasks: 0, bytes };
    add(conn, &bytes.into_iter().map(difference).collect::<Vec<_>>()).await
}

async fn add(conn: &mut MySqlConnection, differences: &[Difference]) -> Result<(), Error> {
    for (part, text) in ADD_TO_BOOKS.parts(differences) {
        let mut values = MySqlArguments::default();
        for difference in part {
            let (namespace, queue) = (difference.queue.namespace.as_str(), difference.queue.queue.as_str());
            bind!(values, SLOT, namespace, queue, difference.code, difference.tasks, difference.bytes);
        }
        sqlx::query_with(text, values).execute(&mut *conn).await?;
    }
    Ok(())
}

/// Of the account: as movers.
const SLOT: i32 = -2;

/// How many more there are than the account says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Difference {
    queue: QueueKey,
    code: i32,
    tasks: i64,
    /// Of payloads that wait. They are the queue's, whatever the state.
    bytes: i64,
}

fn differences(books: &Books, counted: &Books) -> Vec<Difference> {
    let mut sums = BTreeMap::<(QueueKey, i32), (i64, i64)>::new();
    let waiting = i32::from(TaskState::Scheduled.code());
    for (all, sign) in [(books, -1), (counted, 1)] {
        for tally in &all.tallies {
            sums.entry((tally.queue.clone(), tally.state.code().into())).or_default().0 += sign * tally.tasks;
        }
        for pending_bytes in &all.pending_bytes {
            sums.entry((pending_bytes.queue.clone(), waiting)).or_default().1 += sign * pending_bytes.bytes;
        }
    }
    let differs = sums.into_iter().filter(|differ| differ.1 != (0, 0));
    differs.map(|((queue, code), (tasks, bytes))| Difference { queue, code, tasks, bytes }).collect()
}
