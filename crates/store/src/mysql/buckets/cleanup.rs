//! Settles what a dropped bucket leaves: account, registry, moved places, long payloads. In batches, each one
//! transaction with the mark of how far it is. Must never touch `task_gone` itself before all of it is settled.

use super::row_key::RowKey;
use crate::mysql::{hosted, ledger::Ledger, ownership::statement::is_lock, row, statements::sql};
use punctual_contract::store::Tally;
use punctual_domain::{
    name::{Name, QueueKey},
    place::Partition,
    state::State,
    time::Millis,
};
use sqlx::{Connection, MySqlConnection, Row, mysql::MySqlRow};

/// The slot of the account and of the counters that no writer has. Only one connection at a time settles.
const SLOT: i32 = -1;
/// A transaction that loses a deadlock did nothing.
const TRIES: u32 = 5;

/// The position of the settlement in `task_gone`.
#[derive(Debug)]
pub(super) struct Settling {
    done_to: RowKey,
    batch_rows: u32,
    now: Millis,
}

impl Settling {
    pub(super) async fn go_on(
        conn: &mut MySqlConnection,
        batch_rows: u32,
        now: Millis,
    ) -> sqlx::Result<Self> {
        let done_to = done_to(conn).await?;
        Ok(Self { done_to, batch_rows: batch_rows.max(1), now })
    }

    pub(super) async fn is_left(&self, conn: &mut MySqlConnection) -> sqlx::Result<bool> {
        let left = self.done_to.bind_after(sqlx::query(sql!(dropped_buckets, has_unsettled)));
        Ok(left.fetch_optional(conn).await?.is_some())
    }

    /// Returns the number of deleted tasks. `None` if nothing was done, because a partition is about to leave.
    pub(super) async fn batch(&mut self, conn: &mut MySqlConnection) -> sqlx::Result<Option<u64>> {
        let step = self
            .done_to
            .bind_after(sqlx::query(sql!(dropped_buckets, find_batch_end)))
            .bind(self.batch_rows - 1);
        let upto = step.fetch_optional(&mut *conn).await?;
        let upto = upto.as_ref().map_or(Ok(RowKey::END), RowKey::from_row)?;
        let mut tries = 1;
        let forgotten = loop {
            match self.transaction(conn, upto).await {
                Err(error) if tries < TRIES && is_lock(&error) => tries += 1,
                other => break other?,
            }
        };
        if forgotten.is_some() {
            self.done_to = upto;
        }
        Ok(forgotten)
    }

    async fn transaction(&self, conn: &mut MySqlConnection, upto: RowKey) -> sqlx::Result<Option<u64>> {
        let batch =
            |file: &'static str| upto.bind_upto(self.done_to.bind_after(sqlx::query(file))).bind(self.now.0);
        let mut tx = conn.begin().await?;
        // First: an insert that takes a row back holds it, and no statement that follows sees half of that.
        sqlx::query(sql!(insert, lock_dropped)).fetch_optional(&mut *tx).await?;
        if one_is_leaving(&mut tx).await? {
            return tx.rollback().await.map(|()| None);
        }
        // As an insert: registry first.
        for file in [
            sql!(dropped_buckets, delete_entries),
            sql!(dropped_buckets, delete_moved_places),
            sql!(dropped_buckets, delete_bodies),
            sql!(dropped_buckets, delete_lookups),
            sql!(dropped_buckets, restore_kept),
        ] {
            batch(file).execute(&mut *tx).await?;
        }
        let (mut ledger, mut deleted) = (Ledger::new(SLOT), 0);
        for row in batch(sql!(dropped_buckets, count_batch)).fetch_all(&mut *tx).await? {
            let tally = tally(&row)?;
            detach(&mut ledger, &tally);
            ledger.deleted(row::partition(&row, 4)?, tally.tasks);
            deleted += tally.tasks;
        }
        ledger.write(&mut tx).await?;
        upto.bind(sqlx::query(sql!(dropped_buckets, save_settled_place))).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(Some(deleted.unsigned_abs()))
    }
}

async fn one_is_leaving(conn: &mut MySqlConnection) -> sqlx::Result<bool> {
    let rows = sqlx::query(sql!(hosted, lock_hosted)).fetch_all(conn).await?;
    let states: Vec<i8> = rows.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<_>>()?;
    Ok(states.contains(&(hosted::HostedState::Closed as i8)))
}

fn detach(ledger: &mut Ledger, tally: &Tally) {
    for _ in 0..tally.tasks {
        // What is over waits no more.
        let names = (tally.queue.namespace.as_str(), tally.queue.queue.as_str());
        ledger.moved(names, Some(tally.state), None, 0);
    }
}

fn tally(row: &MySqlRow) -> sqlx::Result<Tally> {
    let name = |at| Name::new(row.try_get::<&str, _>(at)?).map_err(|error| sqlx::Error::Decode(error.into()));
    let code = row.try_get::<i8, _>(2)?;
    let state = u8::try_from(code).ok().and_then(State::from_code);
    Ok(Tally {
        queue: QueueKey { namespace: name(0)?, queue: name(1)? },
        state: state.ok_or_else(|| sqlx::Error::Decode(format!("state {code}").into()))?,
        tasks: row.try_get(3)?,
    })
}

pub(super) async fn done_to(conn: &mut MySqlConnection) -> sqlx::Result<RowKey> {
    RowKey::from_row(&sqlx::query(sql!(dropped_buckets, read_settled_place)).fetch_one(conn).await?)
}

/// The tasks of a bucket that is being dropped that the account still counts, with the bytes of payloads that wait.
/// They must be added to a count of `task`, on the same snapshot.
pub(crate) async fn unsettled(conn: &mut MySqlConnection) -> sqlx::Result<Vec<(Tally, i64)>> {
    let done_to = done_to(conn).await?;
    let rows =
        done_to.bind_after(sqlx::query(sql!(dropped_buckets, count_unsettled))).fetch_all(conn).await?;
    rows.iter().map(|row| Ok((tally(row)?, row.try_get::<Option<i64>, _>(4)?.unwrap_or(0)))).collect()
}

/// What is left of a dropped bucket, of one partition, queue and state.
pub(crate) struct DroppedRows {
    pub(crate) partition: Partition,
    pub(crate) tally: Tally,
    /// Of their fingerprints.
    pub(crate) sum: i64,
}

/// As `unsettled`, for a count of the ledger.
pub(crate) async fn dropped_rows(conn: &mut MySqlConnection) -> sqlx::Result<Vec<DroppedRows>> {
    let done_to = done_to(conn).await?;
    let rows = done_to.bind_after(sqlx::query(sql!(dropped_buckets, count_dropped_rows)));
    let found = |row: &MySqlRow| {
        let tally =
            Tally { queue: row::queue_key(row, 1, 2)?, state: row::state(row, 3)?, tasks: row.try_get(4)? };
        Ok(DroppedRows { partition: row::partition(row, 0)?, tally, sum: row.try_get(5)? })
    };
    rows.fetch_all(conn).await?.iter().map(found).collect()
}

pub(super) async fn start_again(conn: &mut MySqlConnection) -> sqlx::Result<()> {
    RowKey::START.bind(sqlx::query(sql!(dropped_buckets, save_settled_place))).execute(conn).await?;
    Ok(())
}

pub(super) async fn has_rows(conn: &mut MySqlConnection) -> sqlx::Result<bool> {
    Ok(sqlx::query(sql!(dropped_buckets, has_rows)).fetch_optional(conn).await?.is_some())
}

pub(super) async fn empty(conn: &mut MySqlConnection) -> sqlx::Result<()> {
    sqlx::raw_sql(sql!(dropped_buckets, truncate)).execute(conn).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::state::State;

    #[test]
    fn what_may_be_forgotten_is_finished_and_no_success() {
        let over: Vec<String> =
            [State::Dead, State::Cancelled, State::Stopped].map(|state| state.code().to_string()).into();
        let over = format!("({})", over.join(", "));
        for file in [
            sql!(dropped_buckets, delete_entries),
            sql!(dropped_buckets, delete_moved_places),
            sql!(dropped_buckets, delete_bodies),
            sql!(dropped_buckets, delete_lookups),
            sql!(dropped_buckets, restore_kept),
            sql!(dropped_buckets, count_batch),
            sql!(buckets, list_needed),
        ] {
            // Of tasks, not of the partitions that are here.
            let of_tasks = file.replace("hosted.state IN (1, 2)", "");
            let lists: Vec<&str> = of_tasks
                .split("state ")
                .filter(|part| part.starts_with("IN (") || part.starts_with("NOT IN ("))
                .collect();
            assert_eq!(lists.len(), 1, "{file}");
            assert!(lists.iter().all(|text| text.split_once("IN ").unwrap().1.starts_with(&over)), "{file}");
        }
    }
}
