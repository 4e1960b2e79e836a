//! Archives of the embedded store: what is over is written to archive storage, and then deleted. There are no buckets here,
//! so tasks are archived together when many are over, or when the first of them has been for a while.
//!
//! | step | a crash after it leaves | what the next run does |
//! |---|---|---|
//! | 1 read tasks that are over, write them to an archive, sync it, read it back | an archive that has tasks which the file has, too | archives them again; a task that is archived twice is found once |
//! | 2 list the archives, so that readers find them | as 1 | as 1 |
//! | 3 delete a batch of those tasks, and account for it, in one transaction; what came back to life has another fence, and stays | the batches after it | archives those again |
//!
//! Every task is always in the file, in an archive that readers know, or in both. Without archives nothing of this runs;
//! with them (`meta`) retention deletes nothing.

use super::{lanes::Lane, ledger::Ledger, row, state::SqliteStore, statements::sql};
use crate::{ArchiveSource, ArchiveStorage, Error, archived};
use punctual_contract::Error as CallError;
use punctual_domain::{
    name::Name,
    place::{Partition, TaskRef, partition_of},
    task::Task,
    time::Millis,
};
use rusqlite::{Connection, OptionalExtension as _, params};
use std::{
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

/// Present in `meta`: this file has archives. Its value is the store's number.
pub(super) const PLACE: &str = "archive_place";
/// A random number that tells this store from others.
const STORE: &str = "store";
/// There is only one database.
const SHARD: u16 = 0;
/// Tasks that one job reads, and payloads beyond which the next reads fewer.
const ROWS_MAX: usize = 500;
const ROWS_MIN: usize = 10;
const PAYLOAD_BYTES: usize = 4 * 1_048_576;
/// Tasks that one job deletes.
const FORGET_ROWS: usize = 250;

type Failed = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveOptions {
    /// So many tasks that are over are archived at once.
    pub rows_min: u32,
    /// The time in milliseconds since the first of them was over, after which fewer tasks are archived: archives are
    /// two files each.
    pub wait_ms: i64,
    /// Tasks of one run.
    pub rows_max: u32,
}

impl Default for ArchiveOptions {
    fn default() -> Self {
        Self { rows_min: 50_000, wait_ms: 24 * 3_600_000, rows_max: 200_000 }
    }
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveReport {
    pub archived: u64,
    /// The number of bytes in archive storage: data and indexes.
    pub archived_bytes: u64,
    /// Deleted from the file.
    pub forgotten: u64,
}

impl SqliteStore {
    /// Tasks are archived before they are deleted, and archived tasks can be read. The file remembers it.
    ///
    /// # Errors
    /// When it has archives elsewhere, the place has those of another store, or file or storage fail.
    pub async fn with_archive(mut self, archive_storage: Arc<ArchiveStorage>) -> Result<Self, Error> {
        let known = self.meta(PLACE).await?;
        let found = archive_storage.place().await?;
        if known.is_some() && known != found {
            return Err(Error::OtherArchives { at: AT.to_owned(), found });
        }
        let number = self.number().await?;
        let place = archive_storage.take_place(number).await?;
        if place != number {
            return Err(Error::OtherArchives { at: AT.to_owned(), found: Some(place) });
        }
        self.keep(PLACE, place).await?;
        self.archive = Some(archive_storage);
        Ok(self)
    }

    /// Checks, for a program that opens the store without archives, that it has none.
    ///
    /// # Errors
    /// When the file has archives, or does not answer.
    pub async fn has_no_archive(&self) -> Result<(), Error> {
        match self.meta(PLACE).await? {
            Some(_) => Err(Error::NoArchives { at: AT.to_owned() }),
            None => Ok(()),
        }
    }

    /// The number that identifies this store; created at the first call.
    pub(super) async fn number(&self) -> Result<i64, Error> {
        let random = RandomState::new().hash_one(STORE) >> 1;
        self.keep(STORE, i64::try_from(random).unwrap_or(i64::MAX)).await
    }

    pub(super) async fn meta(&self, key: &'static str) -> Result<Option<i64>, Error> {
        let work = move |conn: &Connection| number(conn, key);
        self.reading("read a setting", Lane::Urgent, work).await.map_err(Error::Call)
    }

    /// Stores a value unless one is stored. Returns the stored value.
    pub(super) async fn keep(&self, key: &'static str, value: i64) -> Result<i64, Error> {
        let work = move |conn: &Connection, _: &mut Ledger| {
            conn.prepare_cached(sql!(ledger, insert_meta))?.execute(params![key, value])?;
            Ok(number(conn, key)?.unwrap_or(value))
        };
        self.writing("keep a setting", 1, work).await.map_err(Error::Call)
    }

    /// Archives what is over, if it is time for that. Nothing without archives.
    ///
    /// # Errors
    /// When file or storage fail: what was not archived is not deleted, and the next run continues.
    pub async fn archive_once(
        &self,
        now: Millis,
        options: ArchiveOptions,
    ) -> Result<ArchiveReport, CallError> {
        let Some(archive_storage) = &self.archive else { return Ok(ArchiveReport::default()) };
        let work = move |conn: &Connection| is_time(conn, now, options);
        if !self.reading("look what is over", Lane::Bulk, work).await? {
            return Ok(ArchiveReport::default());
        }
        let left = usize::try_from(options.rows_max).unwrap_or(usize::MAX);
        let mut over = Over {
            store: self,
            archive_storage,
            now,
            at: None,
            rows: ROWS_MIN,
            left,
            read: Vec::new(),
            forgotten: 0,
        };
        let written = archive_storage.write_bucket(SHARD, now, &mut over).await;
        let written = written.map_err(|error| CallError::may_have_happened("archive tasks", error))?;
        Ok(ArchiveReport {
            archived: written.tasks,
            archived_bytes: written.bytes,
            forgotten: over.forgotten,
        })
    }

    /// Fills in what was not found.
    pub(super) async fn read_archived(
        &self,
        archive_storage: &ArchiveStorage,
        places: &[TaskRef],
        mut found: Vec<Option<Task>>,
    ) -> Result<Vec<Option<Task>>, CallError> {
        let tasks = archived::tasks(archive_storage, archived::missing(places, &found)).await;
        let tasks = tasks.map_err(|error| CallError::did_not_happen("read archived tasks", error))?;
        archived::fill(places, &mut found, tasks);
        Ok(found)
    }

    /// Adds archived versions to those that were found.
    pub(super) async fn archived_versions(
        &self,
        archive_storage: &ArchiveStorage,
        (namespace, task_id): (&Name, i64),
        version: Option<i64>,
        (limit, mut found): (usize, Vec<Task>),
    ) -> Result<Vec<Task>, CallError> {
        if found.len() >= limit || (version.is_some() && !found.is_empty()) {
            return Ok(found);
        }
        let partition = partition_of(namespace, task_id, self.partitions);
        let archive_storage = archive_storage.find(Some(partition), namespace, task_id, usize::MAX).await;
        found.extend(
            archive_storage.map_err(|error| CallError::did_not_happen("read archived versions", error))?,
        );
        Ok(archived::versions(found, version, limit))
    }
}

/// The name of the store in errors.
pub(super) const AT: &str = "the embedded store";

pub(super) fn number(conn: &Connection, key: &str) -> rusqlite::Result<Option<i64>> {
    conn.prepare_cached(sql!(ledger, read_meta))?.query_row([key], |value| value.get(0)).optional()
}

/// Many are over, or the first has been for long.
fn is_time(conn: &Connection, now: Millis, options: ArchiveOptions) -> rusqlite::Result<bool> {
    let mut waiting = conn.prepare_cached(sql!(retention, find_waiting_since))?;
    let mut nth = |nth: u32| waiting.query_row([now.0, nth.into()], |row| row.get(0)).optional();
    let first: Option<i64> = nth(0)?;
    let Some(first) = first else { return Ok(false) };
    Ok(now.since(Millis(first)) >= options.wait_ms || nth(options.rows_min.max(1) - 1)?.is_some())
}

/// The tasks that are over, the longest over first.
struct Over<'s> {
    store: &'s SqliteStore,
    archive_storage: &'s ArchiveStorage,
    now: Millis,
    /// The last that was read.
    at: Option<(i64, i64)>,
    rows: usize,
    /// Tasks that this run may still read.
    left: usize,
    /// Id and fence of those that are not deleted yet.
    read: Vec<(i64, i64)>,
    forgotten: u64,
}

impl ArchiveSource for Over<'_> {
    async fn next(&mut self) -> Result<Vec<Task>, Failed> {
        let (now, at, limit) = (self.now, self.at, self.rows.min(self.left));
        if limit == 0 {
            return Ok(Vec::new());
        }
        let work = move |conn: &Connection| over(conn, now, at, limit);
        let tasks = self.store.reading("read what is over", Lane::Bulk, work).await?;
        self.left -= tasks.len();
        let key = |task: &Task| Some((task.keep_until?.0, task.place.id));
        self.at = tasks.last().and_then(key).or(self.at);
        self.read.extend(tasks.iter().map(|task| (task.place.id, task.fence)));
        let payload_bytes: usize = tasks.iter().map(|task| task.ask.payload.bytes.len()).sum();
        let next = if payload_bytes > PAYLOAD_BYTES { self.rows / 2 } else { self.rows * 2 };
        self.rows = next.clamp(ROWS_MIN, ROWS_MAX);
        Ok(tasks)
    }

    async fn is_archived(&mut self) -> Result<(), Failed> {
        self.archive_storage.refresh().await?;
        let (read, now) = (std::mem::take(&mut self.read), self.now);
        for part in read.chunks(FORGET_ROWS) {
            let part = part.to_vec();
            let work = move |conn: &Connection, ledger: &mut Ledger| forget(conn, ledger, &part, now);
            self.forgotten += self.store.maintaining("forget archived tasks", FORGET_ROWS, work).await?;
        }
        Ok(())
    }
}

fn over(conn: &Connection, now: Millis, at: Option<(i64, i64)>, limit: usize) -> rusqlite::Result<Vec<Task>> {
    let rows = |limit: usize| i64::try_from(limit).unwrap_or(i64::MAX);
    let tasks = |text: &str, values: [i64; 3]| -> rusqlite::Result<Vec<Task>> {
        conn.prepare_cached(text)?.query_map(values, row::whole_task)?.collect()
    };
    let mut found = match at {
        Some((instant, id)) => tasks(sql!(retention, list_whole_expired_at), [instant, id, rows(limit)])?,
        None => Vec::new(),
    };
    let left = limit - found.len();
    if left > 0 {
        let after = at.map_or(i64::MIN, |pair| pair.0);
        found.extend(tasks(sql!(retention, list_whole_expired), [after, now.0, rows(left)])?);
    }
    Ok(found)
}

fn forget(
    conn: &Connection,
    ledger: &mut Ledger,
    tasks: &[(i64, i64)],
    now: Millis,
) -> rusqlite::Result<u64> {
    let mut forgotten = 0;
    let mut forget = conn.prepare_cached(sql!(retention, delete_archived))?;
    for (id, fence) in tasks {
        let mut rows = forget.query([*id, *fence, now.0])?;
        let Some(row) = rows.next()? else { continue };
        let slot = ledger.slot(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
        let (state, partition) = (row::state(row, 2)?, Partition(row.get(3)?));
        // There is one row at most; a statement that is not run to its end is not done.
        while rows.next()?.is_some() {}
        conn.prepare_cached(sql!(insert, delete_body))?.execute([id])?;
        // It is finished.
        ledger.deleted((partition, *id), slot, state, 0);
        forgotten += 1;
    }
    Ok(forgotten)
}
