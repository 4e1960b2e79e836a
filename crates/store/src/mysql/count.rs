//! Counts every row of one database against its account and its registry, on one snapshot, partition by partition. A sum of
//! fingerprints says of each partition whether rows and entries agree; only where they do not, both are joined, to name what
//! differs. Changes nothing.

use super::{
    buckets, hosted,
    ownership::statement::{Statement, apart, number},
    query::Sum,
    row,
    state::{MySqlState, MysqlStore},
    statements::sql,
    timeouts::lasting,
};
use crate::{Error, counting::Counting, rows};
use async_trait::async_trait;
use punctual_contract::{
    Error as CallError, Happened,
    ledger::{FAULTS_MAX, FaultKind, LedgerCount, LedgerFault, LedgerReport, LedgerStore, RegisteredTask},
    store::Tally,
};
use punctual_domain::{
    name::Name,
    place::{Partition, TaskRef},
};
use sqlx::{MySqlConnection, Row as _, mysql::MySqlRow};
use std::{collections::BTreeMap, sync::Arc};

/// The table was rebuilt after the snapshot began (ER_TABLE_DEF_CHANGED).
const TABLE_CHANGED: u16 = 1_412;

#[async_trait]
impl LedgerStore for MysqlStore {
    async fn count_ledger(&self, part: usize) -> Result<Option<LedgerCount>, CallError> {
        let counted = Box::pin(lasting(Box::pin(one(&self.inner, part)))).await;
        counted.map_err(|error| CallError::did_not_happen("count the ledger", error))
    }

    async fn ledger_reports(&self) -> Result<Vec<LedgerReport>, CallError> {
        let work = |inner: Arc<MySqlState>| async move {
            let list = sqlx::query(sql!(ledger, list_reports));
            let found = list.fetch_all(&mut *inner.catalog.acquire().await?).await?;
            found.iter().map(rows::ledger_report).collect::<sqlx::Result<_>>()
        };
        self.reading("read reports of the ledger", work).await
    }

    async fn save_ledger_report(&self, part: usize, report: &str, answers: i64) -> Result<(), CallError> {
        let (catalog, report) = (self.inner.catalog.clone(), report.to_owned());
        apart("keep a report of the ledger", Happened::Maybe, async move {
            let save = Statement::new(sql!(ledger, save_report)).int(part_no(part)).int(answers).int(answers);
            save.text(&report).execute(&catalog).await.map(drop)
        })
        .await
    }

    async fn request_ledger_count(&self, part: usize) -> Result<(), CallError> {
        let catalog = self.inner.catalog.clone();
        apart("request a count", Happened::Maybe, async move {
            Statement::new(sql!(ledger, request_count)).int(part_no(part)).execute(&catalog).await.map(drop)
        })
        .await
    }
}

fn part_no(part: usize) -> i64 {
    i64::try_from(part).unwrap_or(i64::MAX)
}

async fn one(inner: &MySqlState, part: usize) -> Result<Option<LedgerCount>, Error> {
    let mut known = inner.address(part)?.own().await?;
    // A change of the table would wait for the snapshot, and everything else for the change.
    let locked: Option<i64> =
        sqlx::query_scalar(sql!(buckets, lock_maintenance)).fetch_one(&mut known.conn).await?;
    let is_alone = locked == Some(1);
    let counted = if is_alone { on_snapshot(&mut known.conn).await.map(Some) } else { Ok(None) };
    if is_alone {
        // The server may notice later that the connection is closed.
        sqlx::raw_sql(sql!(buckets, unlock_maintenance)).execute(&mut known.conn).await?;
    }
    known.close().await;
    match counted {
        Err(Error::Driver(error)) if number(&error) == Some(TABLE_CHANGED) => Ok(None),
        counted => counted,
    }
}

pub(super) async fn on_snapshot(conn: &mut MySqlConnection) -> Result<LedgerCount, Error> {
    sqlx::raw_sql(sql!(session, begin_snapshot)).execute(&mut *conn).await?;
    let counted = count(conn).await;
    sqlx::raw_sql("ROLLBACK").execute(conn).await?;
    counted
}

/// What rows or entries of a partition are together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fingerprint {
    tasks: i64,
    sum: i64,
}

async fn count(conn: &mut MySqlConnection) -> Result<LedgerCount, Error> {
    let (mut books, mut counting) = (Sum::default(), Counting::default());
    books.add(&sqlx::query(sql!(ledger, read_books)).fetch_all(&mut *conn).await?)?;
    let mut dropped = dropped(conn, &mut counting).await?;
    for partition in hosted::here(conn).await? {
        let number = row::partition_no(partition);
        let mut rows = dropped.remove(&partition).unwrap_or_default();
        let mut unplaced = 0;
        for found in sqlx::query(sql!(ledger, count_rows)).bind(number).fetch_all(&mut *conn).await? {
            let tasks = found.try_get(3)?;
            counting.rows(partition, row::queue_key(&found, 0, 1)?, row::state(&found, 2)?, tasks);
            rows.tasks += tasks;
            rows.sum += found.try_get::<i64, _>(4)?;
            unplaced += found.try_get::<i64, _>(5)?;
        }
        let entries = sqlx::query(sql!(ledger, count_entries)).bind(number).fetch_one(&mut *conn).await?;
        let entries = Fingerprint { tasks: entries.try_get(0)?, sum: entries.try_get(1)? };
        let deleted: i64 =
            sqlx::query_scalar(sql!(ledger, read_deleted)).bind(number).fetch_one(&mut *conn).await?;
        counting.account(partition, entries.tasks + deleted, deleted);
        counting.registered(entries.tasks);
        if unplaced > 0 || entries != rows {
            name_faults(conn, partition, &mut counting).await?;
        }
    }
    Ok(counting.finish(&books.books()))
}

/// The rows of a bucket that is being dropped, by partition: account and registry still have them.
async fn dropped(
    conn: &mut MySqlConnection,
    counting: &mut Counting,
) -> Result<BTreeMap<Partition, Fingerprint>, Error> {
    let mut all: BTreeMap<Partition, Fingerprint> = BTreeMap::new();
    for buckets::DroppedRows { partition, tally, sum } in buckets::dropped_rows(conn).await? {
        let Tally { queue, state, tasks } = tally;
        counting.rows(partition, queue, state, tasks);
        let rows = all.entry(partition).or_default();
        (rows.tasks, rows.sum) = (rows.tasks + tasks, rows.sum + sum);
    }
    Ok(all)
}

async fn name_faults(
    conn: &mut MySqlConnection,
    partition: Partition,
    counting: &mut Counting,
) -> Result<(), Error> {
    let number = row::partition_no(partition);
    let most = i64::try_from(FAULTS_MAX).unwrap_or(i64::MAX);
    let found = sqlx::query(sql!(ledger, list_lost)).bind(number).bind(most);
    for lost in found.fetch_all(&mut *conn).await? {
        let fault = fault(&lost, FaultKind::Lost, partition)?;
        let reference = fault.due_at.map(|due_at| TaskRef { partition, due_at, id: fault.id });
        counting.lost(LedgerFault { reference, ..fault });
    }
    let found = sqlx::query(sql!(ledger, list_strays)).bind(number).bind(most);
    for stray in found.fetch_all(&mut *conn).await? {
        let is_registered = stray.try_get::<i64, _>(7)? == 1;
        let kind = if is_registered { FaultKind::Doubled } else { FaultKind::Unregistered };
        let queue = row::queue_key(&stray, 0, 5)?;
        let state = row::state(&stray, 6)?;
        let fault = fault(&stray, kind, partition)?;
        let reference = Some(TaskRef { partition, due_at: row::millis(&stray, 8)?, id: fault.id });
        counting.stray(LedgerFault { queue: Some(queue), state: Some(state), reference, ..fault });
    }
    Ok(())
}

/// Columns that `list_lost` and `list_strays` begin with.
fn fault(found: &MySqlRow, kind: FaultKind, partition: Partition) -> sqlx::Result<LedgerFault> {
    let namespace: Name = row::name(found, 0)?;
    let task = RegisteredTask { namespace, task_id: found.try_get(1)?, task_version: found.try_get(2)? };
    Ok(LedgerFault {
        kind,
        id: found.try_get(3)?,
        partition: Some(partition),
        task: Some(task),
        queue: None,
        state: None,
        due_at: Some(row::millis(found, 4)?),
        reference: None,
    })
}
