//! Deletes entries that lead to no task: of the registry, of moved places, of long payloads. In bounded batches, each under the
//! right to write in its partition. Must never touch an entry of a task.

use crate::{
    Error,
    mysql::{
        hosted::{self, HostedState, WritePartitions},
        moving::steps::guard,
        parameters::wanted,
        row,
        statements::sql,
    },
};
use punctual_domain::{
    place::{Partition, TaskRef},
    time::Millis,
};
use sqlx::{MySqlConnection, Row as _};

/// Entries of one page.
const PAGE: i64 = 1_000;

/// The right by which entries are deleted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Hold {
    /// The right of a mover that copies, with its term.
    Copy(i64),
    Open,
    DryRun,
}

/// Removes entries that lead to nothing at the new place, before the last round of copying. An entry of a task that
/// has only moved is entered again with its row.
pub(crate) async fn tidy_copy(
    conn: &mut MySqlConnection,
    partition: Partition,
    term: i64,
) -> Result<(), Error> {
    tidy(conn, partition, Hold::Copy(term)).await.map(drop)
}

/// Returns the numbers of entries of the registry, of moved places and of long payloads without a task. An entry
/// without a task stays so: an insert of the same id finds it, and a task is never without its entry.
pub(super) async fn tidy(
    conn: &mut MySqlConnection,
    partition: Partition,
    hold: Hold,
) -> Result<[u64; 3], Error> {
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
