//! Archives the rows of a bucket that was swapped out, before any of them is settled: an archive has them, durably and
//! read back, or they stay. They are not changed meanwhile, and readers find them in `task_gone`.
//!
//! All that is finished is archived, whatever its time: a later run, with a later `now`, deletes more of it. A task
//! that is moved back is archived again with its next bucket, and its later life counts. The progress of the archives
//! is in `gone_to`, so a crash costs no more than the archive that was being written, and a copy of the last one at
//! most.

use super::row_key::RowKey;
use crate::{
    archive_storage::{ArchiveSource, ArchiveStorage, Error},
    mysql::{
        row,
        statements::sql,
        timeouts::{elsewhere, here},
    },
};
use punctual_domain::{task::Task, time::Millis};
use sqlx::MySqlConnection;

/// Rows of one statement, and payloads of one statement, beyond which the next asks for fewer.
const ROWS_MAX: u32 = 1_000;
const ROWS_MIN: u32 = 10;
const LONG_BYTES: usize = 4 * 1_048_576;

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Exported {
    pub(super) tasks: u64,
    /// Data and indexes.
    pub(super) bytes: u64,
    /// True if everything that may be deleted is in archives.
    pub(super) is_whole: bool,
}

/// Spends one of the budget for each statement. `settled`: up to where nothing is left to archive.
pub(super) async fn export(
    conn: &mut MySqlConnection,
    (archive_storage, shard): (&ArchiveStorage, u16),
    settled: RowKey,
    now: Millis,
    budget: &mut u32,
) -> Result<Exported, Error> {
    let at = archived_to(conn).await.map_err(source)?.max(settled);
    if at == RowKey::END {
        return Ok(Exported { is_whole: true, ..Exported::default() });
    }
    let mut gone = Gone { conn, at, budget, rows: ROWS_MAX / 10, is_whole: false };
    let written = elsewhere(archive_storage.write_bucket(shard, now, &mut gone)).await?;
    let is_whole = gone.is_whole;
    if is_whole {
        end(conn).await.map_err(source)?;
    }
    Ok(Exported { tasks: written.tasks, bytes: written.bytes, is_whole })
}

fn source(error: sqlx::Error) -> Error {
    Error::Source(error.into())
}

/// Converts the error of a source that is a database.
pub(super) fn database(error: Box<dyn std::error::Error + Send + Sync>) -> sqlx::Error {
    match error.downcast() {
        Ok(error) => *error,
        Err(other) => sqlx::Error::Decode(other),
    }
}

async fn archived_to(conn: &mut MySqlConnection) -> sqlx::Result<RowKey> {
    let mark = sqlx::query(sql!(dropped_buckets, read_exported_place)).fetch_optional(conn).await?;
    mark.as_ref().map_or(Ok(RowKey::START), RowKey::from_row)
}

/// Starts from the beginning, for the next bucket. Only while `task_gone` is empty.
pub(super) async fn start_again(conn: &mut MySqlConnection) -> sqlx::Result<()> {
    mark(conn, RowKey::START).await
}

async fn mark(conn: &mut MySqlConnection, at: RowKey) -> sqlx::Result<()> {
    at.bind(sqlx::query(sql!(dropped_buckets, save_exported_place))).execute(conn).await?;
    Ok(())
}

/// Readers learn of new archives before anything is settled.
async fn end(conn: &mut MySqlConnection) -> sqlx::Result<()> {
    sqlx::query(sql!(dropped_buckets, bump_archive_generation)).execute(&mut *conn).await?;
    mark(conn, RowKey::END).await
}

/// The finished rows of `task_gone`, in the order of its key.
struct Gone<'a> {
    conn: &'a mut MySqlConnection,
    at: RowKey,
    budget: &'a mut u32,
    rows: u32,
    is_whole: bool,
}

impl ArchiveSource for Gone<'_> {
    async fn next(&mut self) -> Result<Vec<Task>, Box<dyn std::error::Error + Send + Sync>> {
        if *self.budget == 0 {
            return Ok(Vec::new());
        }
        *self.budget -= 1;
        let rows = self.at.bind_after(sqlx::query(sql!(dropped_buckets, list_exportable))).bind(self.rows);
        let rows = here(rows.fetch_all(&mut *self.conn)).await?;
        let tasks: Vec<Task> = rows.iter().map(row::whole_task).collect::<Result<_, _>>()?;
        match tasks.last() {
            Some(last) => self.at = RowKey::of(last),
            None => self.is_whole = true,
        }
        self.rows = rows_next(self.rows, tasks.iter().map(bytes_of).sum());
        Ok(tasks)
    }

    async fn is_archived(&mut self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(here(mark(self.conn, self.at)).await?)
    }
}

/// The size of the long parts of a task.
fn bytes_of(task: &Task) -> usize {
    let errors = task.history.iter().filter_map(|entry| entry.error.as_ref()).chain(&task.last_error);
    task.ask.payload.bytes.len() + errors.map(String::len).sum::<usize>()
}

/// Long payloads or errors: few rows, so that they fit into memory.
fn rows_next(rows: u32, long_bytes: usize) -> u32 {
    let next = if long_bytes > LONG_BYTES { rows / 2 } else { rows * 2 };
    next.clamp(ROWS_MIN, ROWS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::row::TASK_COLUMNS;
    use punctual_domain::state::State;

    #[test]
    fn everything_that_is_ever_forgotten_is_archived() {
        let over =
            [State::Dead, State::Cancelled, State::Stopped].map(|state| state.code().to_string()).join(", ");
        assert!(sql!(dropped_buckets, list_exportable).contains(&format!("task.state IN ({over})\n")));
        assert!(!sql!(dropped_buckets, list_exportable).contains("keep_until <="), "whatever its time");
        assert!(sql!(dropped_buckets, delete_entries).contains(&format!("state IN ({over})")));
    }

    #[test]
    fn whole_tasks_are_read_in_the_order_in_which_they_are_decoded() {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words(sql!(dropped_buckets, list_exportable)).contains(&words(TASK_COLUMNS)));
    }

    #[test]
    fn long_payloads_make_short_statements() {
        assert_eq!(rows_next(100, 0), 200);
        assert_eq!(rows_next(1_000, 0), 1_000);
        assert_eq!(rows_next(1_000, LONG_BYTES + 1), 500);
        assert_eq!(rows_next(10, LONG_BYTES + 1), 10);
    }
}
