//! The index of chunks of ids that have tasks of a queue: the rows that a writer enters (`noted`), along with the
//! commit of the tasks, and remembers so that it enters a row once; the tasks from before an upgrade; and the removal
//! of rows of empty chunks (`pruning`). Must not remember what is not committed.
//!
//! The steps, and what a crash after each leaves:
//! 1. Tasks are inserted, replaced or put into another queue, in a transaction of their writer. Nothing: it is undone.
//! 2. The rows of their chunks that the writer does not remember are written, in the same transaction, along with its
//!    sums and with COMMIT. Before the COMMIT nothing is stored, neither a row nor a task; the writer forgets what it
//!    has entered (`clear`), whether it was undone or its answer was lost, and enters it again with the next task.
//! 3. Committed: both are there. The writer remembers the row (`committed`) for ten minutes.
//! 4. What was stored before an upgrade is entered a batch at a time: the rows and how far it has come are one transaction. Below that id
//!    searches walk all ids, so that what is not entered yet is found, too.
//! 5. The rows of a chunk without tasks are removed a day after they were last entered, when no writer remembers
//!    them. A superfluous row costs a read of an empty chunk; a missing row would hide tasks, so none is removed on a
//!    guess.

pub(super) mod noted;
pub(super) mod pruning;

use super::{
    query,
    session::Known,
    state::MySqlState,
    statements::sql,
    timeouts::{PING, READ, WRITE, silent, twice, watched},
};
use crate::{Error, chunks};
use sqlx::{Connection as _, MySqlConnection, Row as _};
use tokio::time::timeout;

/// Tasks below this id are not entered; 0: all are, or `None` if it is not begun.
pub(super) async fn not_entered_below(conn: &mut MySqlConnection) -> sqlx::Result<Option<i64>> {
    let found = sqlx::query(sql!(labels, read_chunks_below)).fetch_optional(conn).await?;
    found.map(|row| row.try_get(0)).transpose()
}

/// The newest chunks of a database that may have tasks of a queue, down from one.
pub(super) async fn newest(
    conn: &mut MySqlConnection,
    [namespace, queue]: [&str; 2],
    kind: Option<&str>,
    down_from: i64,
) -> sqlx::Result<Vec<i64>> {
    let asked = sqlx::query(sql!(labels, list_newest_chunks)).bind(namespace).bind(queue).bind(down_from);
    let most = i64::try_from(chunks::LOOK).unwrap_or(i64::MAX);
    let asked = asked.bind(kind).bind(kind).bind(most).bind(namespace).bind(down_from).bind(most).bind(most);
    asked.fetch_all(conn).await?.iter().map(|rows| rows.try_get(0)).collect()
}

/// Enters what stood before, a bounded number of ids. How many were passed over.
pub(super) async fn enter_stood(inner: &MySqlState, part: usize, limit: usize) -> Result<usize, Error> {
    let Some(shard) = inner.members().get(part) else { return Ok(0) };
    let below = || async { not_entered_below(&mut *shard.readers.acquire().await?).await };
    match twice(READ, below).await.map_err(|error| shard.failed(error))? {
        Some(0) => return prune(inner, part).await.map(|()| 0),
        None if is_one_behind(inner).await? => return Ok(0),
        _ => {}
    }
    let address = inner.address(part)?;
    let Known { mut conn, number } = address.writer().await.map_err(|error| address.failed(error))?;
    let work = stood(&mut conn, limit);
    let done = watched(WRITE, || vec![(number, address.clone())], work).await;
    let passed = done.unwrap_or_else(|| Err(silent())).map_err(|error| address.failed(error))?;
    drop(timeout(PING, conn.close()).await);
    Ok(passed)
}

async fn prune(inner: &MySqlState, part: usize) -> Result<(), Error> {
    let mut pruning = inner.pruning.lock().remove(&part).unwrap_or_default();
    if pruning.is_due() {
        let address = inner.address(part)?;
        let Known { mut conn, number } = address.writer().await.map_err(|error| address.failed(error))?;
        let work = pruning.run(&mut conn);
        let done = watched(WRITE, || vec![(number, address.clone())], work).await;
        done.unwrap_or_else(|| Err(silent())).map_err(|error| address.failed(error))?;
        drop(timeout(PING, conn.close()).await);
    }
    inner.pruning.lock().insert(part, pruning);
    Ok(())
}

/// An engine of an older release inserts, and enters nothing.
async fn is_one_behind(inner: &MySqlState) -> sqlx::Result<bool> {
    let behind = || async {
        let behind = sqlx::query(sql!(labels, has_engine_without_chunks));
        behind.fetch_optional(&mut *inner.catalog.acquire().await?).await
    };
    Ok(twice(READ, behind).await?.is_some())
}

async fn stood(conn: &mut MySqlConnection, limit: usize) -> sqlx::Result<usize> {
    let mut tx = conn.begin().await?;
    let held = sqlx::query(sql!(labels, lock_chunks_below)).fetch_optional(&mut *tx).await?;
    let Some(below) = held.map(|row| row.try_get::<i64, _>(0)).transpose()? else {
        sqlx::query(sql!(labels, begin_chunks)).execute(&mut *tx).await?;
        tx.commit().await?;
        return Ok(limit.max(1));
    };
    let newest = query::newest_below(&mut tx, below).await?;
    let rows = i64::try_from(limit.max(1)).unwrap_or(i64::MAX);
    let floor = newest.map_or(0, |newest| newest.saturating_sub(rows - 1).max(0));
    if let Some(newest) = newest {
        for of_any in [false, true] {
            let stood = sqlx::query(sql!(labels, enter_earlier_chunks)).bind(of_any).bind(of_any);
            stood.bind(floor).bind(newest).execute(&mut *tx).await?;
        }
    }
    sqlx::query(sql!(labels, advance_chunks)).bind(floor).execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(limit.max(1))
}
