//! The connection that changes a database's buckets, and the statements it needs. It is taken out of the pool and
//! closed afterwards: its lock must not reach another caller.

use super::{
    calendar::{self, Piece, TimeBucket},
    cleanup,
    contents::BucketContents,
    export,
    rate::Rate,
    row_key::{RowKey, Statement},
};
use crate::mysql::{
    connections::Connections,
    lease_ends,
    ownership::statement::is_lock,
    parameters::{ROWS_MAX, wanted},
    place, row,
    session::Known,
    statements::sql,
};
use crate::subject::filled;
use punctual_domain::{place::TaskRef, time::Millis};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, Row, mysql::MySqlRow};

/// A transaction that loses a deadlock did nothing.
const CARRY_TRIES: u32 = 5;

/// A change of the table's definition: all of them wait for statements under way, and all others wait for them.
#[derive(Clone, Copy, Debug)]
pub(super) enum TableChange<'a> {
    Cut(&'a str, &'a [Piece]),
    Swap(&'a str),
    Drop(&'a str),
    Empty,
}

#[derive(Debug)]
pub(super) struct Session {
    pub(super) conn: MySqlConnection,
    number: u64,
}

impl Session {
    /// Returns `None` if another session has the lock.
    pub(super) async fn alone(pool: &Connections) -> sqlx::Result<Option<Self>> {
        let mut session = Self::beside(pool).await?;
        let locked: Option<i64> =
            sqlx::query_scalar(sql!(buckets, lock_maintenance)).fetch_one(&mut session.conn).await?;
        if locked == Some(1) {
            return Ok(Some(session));
        }
        session.close().await;
        Ok(None)
    }

    /// Opens a session without the lock, for reads only.
    pub(super) async fn beside(pool: &Connections) -> sqlx::Result<Self> {
        let Known { conn, number } = pool.own().await?;
        let mut session = Self { conn, number };
        for file in [sql!(buckets, set_lock_wait), sql!(buckets, set_read_committed)] {
            sqlx::raw_sql(file).execute(&mut session.conn).await?;
        }
        Ok(session)
    }

    pub(super) async fn close(mut self) {
        if let Err(error) = sqlx::raw_sql(sql!(buckets, unlock_maintenance)).execute(&mut self.conn).await {
            tracing::debug!(%error, "a connection was gone before it was closed");
        }
        Known { conn: self.conn, number: self.number }.close().await;
    }

    pub(super) async fn buckets(&mut self) -> sqlx::Result<Vec<TimeBucket>> {
        let rows = sqlx::query(sql!(buckets, list)).fetch_all(&mut self.conn).await?;
        let listed: sqlx::Result<Vec<_>> =
            rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect();
        Ok(calendar::in_order(listed?))
    }

    /// The number of tasks that this database has accepted from callers, and its last measurement. A measurement of
    /// an older engine counted others too: its rate is kept, and counting begins anew.
    pub(super) async fn rate(&mut self) -> sqlx::Result<(i64, Option<Rate>)> {
        let row = sqlx::query(sql!(buckets, read_rate)).fetch_one(&mut self.conn).await?;
        let number = |at: usize| row.try_get::<Option<i64>, _>(at).map(Option::unwrap_or_default);
        let last = row.try_get::<Option<i64>, _>(1)?;
        let accepted = row.try_get(0)?;
        let counted = row.try_get::<Option<i64>, _>(2)?.unwrap_or(accepted);
        let rate = Rate { at: number(1)?, accepted: counted, peak: number(3)?, mean: number(4)? };
        Ok((accepted, last.map(|_| rate)))
    }

    /// Measures again, if it is time; in the run that has the lock.
    pub(super) async fn measure(&mut self, now: Millis) -> sqlx::Result<Rate> {
        let (accepted, last) = self.rate().await?;
        let Some(last) = last else {
            let first = Rate { at: now.0, accepted, ..Rate::default() };
            self.keep_rate(first).await?;
            return Ok(first);
        };
        // Time that was set back measures nothing.
        let last = if last.at > now.0 { Rate { at: now.0, accepted, ..last } } else { last };
        match last.after(now, accepted) {
            Some(rate) => {
                self.keep_rate(rate).await?;
                Ok(rate)
            }
            None => Ok(last),
        }
    }

    /// Writes only what is new.
    pub(super) async fn keep_wide(&mut self, wide: usize) -> sqlx::Result<()> {
        let known = sqlx::query(sql!(buckets, read_rate)).fetch_one(&mut self.conn).await?;
        let wide = i64::try_from(wide).unwrap_or(i64::MAX);
        if known.try_get::<Option<i64>, _>(5)? != Some(wide) {
            sqlx::query(sql!(buckets, save_wide_count)).bind(wide).execute(&mut self.conn).await?;
        }
        Ok(())
    }

    pub(super) async fn keep_rate(&mut self, rate: Rate) -> sqlx::Result<()> {
        let Rate { at, accepted, peak, mean } = rate;
        let keep = sqlx::query(sql!(buckets, save_rate)).bind(at).bind(accepted).bind(peak).bind(mean);
        keep.execute(&mut self.conn).await?;
        Ok(())
    }

    /// The number of rows of the bucket, counted no further than `most`.
    pub(super) async fn rows_upto(&mut self, bucket: &TimeBucket, most: u64) -> sqlx::Result<u64> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let some = within(bucket, sqlx::query(sql!(buckets, count_up_to))).bind(most);
        Ok(some.fetch_one(&mut self.conn).await?.try_get::<i64, _>(0)?.unsigned_abs())
    }

    pub(super) async fn has_rows(&mut self, bucket: &TimeBucket) -> sqlx::Result<bool> {
        let any = within(bucket, sqlx::query(sql!(buckets, has_rows)));
        Ok(any.fetch_optional(&mut self.conn).await?.is_some())
    }

    /// The last row of the next piece, or `None` if the piece is the rest.
    pub(super) async fn piece(
        &mut self,
        bucket: &TimeBucket,
        after: RowKey,
        rows: u32,
    ) -> sqlx::Result<Option<RowKey>> {
        let step =
            after.bind_after(within(bucket, sqlx::query(sql!(buckets, find_piece_end)))).bind(rows - 1);
        step.fetch_optional(&mut self.conn).await?.as_ref().map(RowKey::from_row).transpose()
    }

    pub(super) async fn count(
        &mut self,
        bucket: &TimeBucket,
        (after, upto): (RowKey, RowKey),
        now: Millis,
    ) -> sqlx::Result<BucketContents> {
        let count = within(bucket, sqlx::query(sql!(buckets, count_piece)).bind(now.0).bind(now.0));
        let row = upto.bind_upto(after.bind_after(count)).fetch_one(&mut self.conn).await?;
        let number = |at: usize| row.try_get::<i64, _>(at).map(i64::unsigned_abs);
        Ok(BucketContents {
            rows: number(0)?,
            unfinished: number(1)?,
            retained: number(2)?,
            stopping: number(3)?,
        })
    }

    /// At most `rows` of the tasks that must be kept, in order.
    pub(super) async fn needed(
        &mut self,
        bucket: &TimeBucket,
        (after, upto): (RowKey, RowKey),
        now: Millis,
        rows: u32,
    ) -> sqlx::Result<Vec<TaskRef>> {
        let needed = after.bind_after(within(bucket, sqlx::query(sql!(buckets, list_needed))));
        let found = upto.bind_upto(needed).bind(now.0).bind(rows).fetch_all(&mut self.conn).await?;
        found.iter().map(place_of).collect()
    }

    /// At most `rows` of the tasks in flight whose leases ended then or before, in order.
    pub(super) async fn unwatched(
        &mut self,
        bucket: &TimeBucket,
        (after, upto): (RowKey, RowKey),
        ended_before: Millis,
        rows: u32,
    ) -> sqlx::Result<Vec<TaskRef>> {
        let in_flight = after.bind_after(within(bucket, sqlx::query(sql!(buckets, list_unwatched))));
        let found = upto.bind_upto(in_flight).bind(ended_before.0).bind(rows);
        found.fetch_all(&mut self.conn).await?.iter().map(place_of).collect()
    }

    /// Entries for the leases of tasks in flight: how many.
    pub(super) async fn watch(&mut self, places: &[TaskRef]) -> sqlx::Result<usize> {
        lease_ends::watch(&mut self.conn, places).await
    }

    /// Moves tasks to `to`, all or none. A task that is no longer where it was found has moved on by itself.
    pub(super) async fn carry(&mut self, places: &[TaskRef], to: Millis) -> sqlx::Result<usize> {
        let mut tries = 1;
        loop {
            match self.carry_once(places, to).await {
                Err(error) if tries < CARRY_TRIES && is_lock(&error) => tries += 1,
                other => return other,
            }
        }
    }

    async fn carry_once(&mut self, places: &[TaskRef], to: Millis) -> sqlx::Result<usize> {
        let mut tx = self.conn.begin().await?;
        let mut locked = Vec::with_capacity(places.len());
        for part in places.chunks(ROWS_MAX) {
            for rows in sqlx::query(sql!(moves, lock_places)).bind(wanted(part)).fetch_all(&mut *tx).await? {
                locked.extend(part.get(row::small::<usize>(&rows, 0)?));
            }
        }
        place::carry(&mut tx, &locked, to).await?;
        tx.commit().await?;
        Ok(locked.len())
    }

    pub(super) async fn has_gone_rows(&mut self) -> sqlx::Result<bool> {
        cleanup::has_rows(&mut self.conn).await
    }

    /// Only while `task_gone` is empty.
    pub(super) async fn prepare_swap(&mut self) -> sqlx::Result<()> {
        export::start_again(&mut self.conn).await?;
        cleanup::start_again(&mut self.conn).await
    }

    pub(super) async fn change(&mut self, change: TableChange<'_>) -> sqlx::Result<()> {
        let text = match change {
            TableChange::Cut(name, pieces) => cut(name, pieces),
            TableChange::Swap(name) => filled(sql!(buckets, exchange), "{name}", name),
            TableChange::Drop(name) => return self.detach(name).await,
            TableChange::Empty => return cleanup::empty(&mut self.conn).await,
        };
        self.run(text).await
    }

    async fn run(&mut self, text: String) -> sqlx::Result<()> {
        sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut self.conn).await?;
        Ok(())
    }

    async fn detach(&mut self, name: &str) -> sqlx::Result<()> {
        match self.run(filled(sql!(buckets, detach), "{name}", name)).await {
            Err(error) if is_unknown(&error) => self.run(filled(sql!(buckets, drop), "{name}", name)).await,
            other => other,
        }
    }

    /// Drops the table of a bucket that has left `task`. Rows that arrived in it at the last moment are moved back
    /// first, all or none.
    pub(super) async fn drop_detached(&mut self) -> sqlx::Result<()> {
        if sqlx::query(sql!(buckets, has_detached)).fetch_optional(&mut self.conn).await?.is_none() {
            return Ok(());
        }
        let mut tx = self.conn.begin().await?;
        sqlx::raw_sql(sql!(buckets, restore_detached)).execute(&mut *tx).await?;
        tx.commit().await?;
        sqlx::raw_sql(sql!(buckets, drop_detached)).execute(&mut self.conn).await?;
        Ok(())
    }
}

/// The server does not know the words.
fn is_unknown(error: &sqlx::Error) -> bool {
    const SYNTAX: &str = "42000";
    error.as_database_error().is_some_and(|error| error.code().as_deref() == Some(SYNTAX))
}

/// The line of one piece, for each.
fn cut(bucket: &str, pieces: &[Piece]) -> String {
    let one = |line: &str, (name, ends_at): &Piece| {
        let ends_at = ends_at.map_or_else(|| "MAXVALUE".to_owned(), |ends_at| ends_at.to_string());
        filled(&filled(line, "{name}", name), "{ends_at}", &ends_at)
    };
    let lines = sql!(buckets, split).lines().map(|line| match line.contains("{name}") {
        true => pieces.iter().map(|piece| one(line, piece)).collect::<Vec<_>>().join(",\n"),
        false => line.replace("{bucket}", bucket),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn place_of(row: &MySqlRow) -> sqlx::Result<TaskRef> {
    Ok(TaskRef { partition: row::partition(row, 0)?, due_at: row::millis(row, 1)?, id: row.try_get(2)? })
}

fn within(bucket: &TimeBucket, statement: Statement) -> Statement {
    statement.bind(bucket.begins_at).bind(bucket.ends_at.unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_names_every_piece_and_the_last_may_have_no_end() {
        let text = cut("pmax", &[("p1".to_owned(), Some(10)), ("pmax".to_owned(), None)]);
        let statement: Vec<&str> =
            text.lines().filter(|line| !line.starts_with("--")).map(str::trim).collect();
        assert_eq!(
            statement.join(" "),
            "ALTER TABLE task REORGANIZE PARTITION pmax INTO ( PARTITION p1 VALUES LESS THAN (10), \
             PARTITION pmax VALUES LESS THAN (MAXVALUE) )"
        );
    }
}
