//! The store in one SQLite file, or in memory. One connection writes: what comes at the same time is committed
//! together; reads run beside it. In memory there are no threads at all: jobs run in the caller, the same code.

mod access;
mod agenda;
mod archive;
mod audit;
mod bulk;
mod cluster;
mod count;
mod doctor;
mod due;
mod evaluations;
mod executors;
mod insert;
mod jobs;
mod labels;
mod lanes;
mod lease;
mod ledger;
mod moves;
mod namespaces;
mod open;
mod options;
mod payloads;
mod query;
mod register;
mod repair;
mod reply;
mod retention;
mod row;
mod schedules;
mod session;
mod settings;
mod state;
mod statements;
mod template;
#[cfg(test)]
mod tests;
mod threads;
mod wal;
mod walk;
mod workflows;

use crate::{
    Error, archived,
    change_log::{self, ChangeLog},
    turns::Tenant,
};
pub use archive::{ArchiveOptions, ArchiveReport};
use async_trait::async_trait;
pub use doctor::{SqliteDoctor, SqliteFacts};
use insert::InsertContext;
use jobs::{chunks, inline};
use lanes::Lane;
use ledger::Ledger;
pub use options::{Activity, Options};
use parking_lot::Mutex;
use punctual_contract::{
    Error as CallError, Store,
    hot::HotEntry,
    store::{
        Agenda, Applied, Beat, Books, Dispatched, Extended, Grant, Inserted, LeasePosition, OverdueLook,
        OverduePage, Page, Query, Reply, ReplyKey, Reservation, Reserved, Retired, Scan, Step, Stepped,
    },
};
use punctual_domain::{
    executor::{DesiredState, Executor, Roll, Sign},
    name::Name,
    place::{Partition, TaskRef},
    task::{NewTask, Task},
    time::Millis,
};
use rusqlite::Connection;
use session::Session;
use state::Runs;
pub use state::SqliteStore;
use statements::sql;
use std::{
    path::Path,
    sync::atomic::{AtomicI64, Ordering::Relaxed},
};
use template::TemplateFile;
use threads::Threads;

/// The maximum age of a success whose retention is over at once: longer than any call takes.
const STOPPED_BEHIND_MS: i64 = 60_000;
/// Rows that one job of retention takes; deleting costs more than inserting.
const RETIRE_CHUNK_ROWS: usize = 250;

impl SqliteStore {
    /// Opens a file, makes it if it is not there, and brings its schema up to date.
    ///
    /// # Errors
    /// When it is in use, no database of ours, newer than this program, or cannot be written. It is left as it was.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Self, Error> {
        check(options)?;
        let mut opened = open::file(path.as_ref(), options)?;
        let (partitions, migrated) = (opened.partitions, std::mem::take(&mut opened.migrated));
        Ok(Self::new(partitions, migrated, Runs::OnThreads(Threads::start(opened, options)?)))
    }

    /// A store without a file, threads or a runtime. It ends with the value.
    ///
    /// # Errors
    /// When the options are out of range, or memory is.
    pub fn in_memory(options: &Options) -> Result<Self, Error> {
        check(options)?;
        let (conn, partitions) = open::memory(options)?;
        let opening = |error| Error::opening(Path::new(":memory:"), error);
        let template = TemplateFile::of(&conn).map_err(opening)?;
        let session = Session::new(conn).map_err(opening)?;
        let store = Self::new(partitions, Vec::new(), Runs::Inline(Box::new(Mutex::new(session))));
        Ok(Self { template: Some(template), ..store })
    }

    /// Makes a store in memory as new again, faster than another one is made. False, and nothing is done: it is in a file.
    ///
    /// # Errors
    /// When memory runs out; then it is of no use any more.
    pub fn renew(&self) -> Result<bool, Error> {
        let (Runs::Inline(session), Some(template)) = (&self.runs, &self.template) else { return Ok(false) };
        let renewed = session.lock().renew(template);
        renewed.map_err(|error| Error::opening(Path::new(":memory:"), error))?;
        self.stopped_to.store(i64::MIN, Relaxed);
        Ok(true)
    }

    fn new(partitions: u16, migrated: Vec<&'static str>, runs: Runs) -> Self {
        Self {
            partitions,
            migrated,
            runs,
            archive: None,
            template: None,
            stopped_to: AtomicI64::new(i64::MIN),
        }
    }

    /// Brings the schema of a file up to date and answers the names of the migrations that were applied.
    ///
    /// # Errors
    /// Fails like `open`.
    pub fn migrate(path: impl AsRef<Path>, options: &Options) -> Result<Vec<&'static str>, Error> {
        check(options)?;
        Ok(open::file(path.as_ref(), options)?.migrated)
    }

    /// The migrations that opening the store applied. Empty if the schema was current.
    #[must_use]
    pub fn migrated(&self) -> &[&'static str] {
        &self.migrated
    }

    /// Finishes what was begun, moves the log into the file, and gives the file free. Blocks for as long as that
    /// takes. Later calls are refused with `Closed`; a store in memory has nothing to close.
    pub fn close(&self) {
        if let Runs::OnThreads(threads) = &self.runs {
            threads.close();
        }
    }
}

fn check(options: &Options) -> Result<(), Error> {
    if options.partitions == 0 { Err(Error::Partitions { found: 0 }) } else { Ok(()) }
}

#[async_trait]
impl Store for SqliteStore {
    async fn insert_each(
        &self,
        tasks: Vec<NewTask>,
        by: &str,
        now: Millis,
    ) -> Result<Vec<Result<Inserted, CallError>>, CallError> {
        const DOING: &str = "insert tasks";
        let partitions = self.partitions;
        let job = |tasks: Vec<NewTask>| {
            let by = by.to_owned();
            move |conn: &Connection, ledger: &mut Ledger| {
                insert::insert(conn, ledger, &InsertContext { partitions, by: &by, now }, tasks)
            }
        };
        let threads = match &self.runs {
            Runs::Inline(session) => {
                let inserted = inline(&mut session.lock(), DOING, job(tasks))?;
                let answers: Vec<_> = inserted.into_iter().map(Ok).collect();
                change_log::inserted(&answers, by);
                return Ok(answers);
            }
            Runs::OnThreads(threads) => threads,
        };
        let chunks = chunks(tasks).into_iter();
        let begun = |tasks: Vec<NewTask>| {
            let tenant = tasks.first().map_or(Tenant::NONE, |task| Tenant::of(task.queue.namespace.as_str()));
            (tasks.len(), threads.write_of(tenant, (DOING, Lane::Bulk, tasks.len()), job(tasks)))
        };
        let begun: Vec<_> = chunks.map(begun).collect();
        let mut answers = Vec::new();
        for (count, answer) in begun {
            match threads::answer(DOING, answer).await {
                Ok(inserted) => answers.extend(inserted.into_iter().map(Ok)),
                Err(error) => answers.extend((0..count).map(|_| Err(error.clone()))),
            }
        }
        change_log::inserted(&answers, by);
        Ok(answers)
    }

    async fn apply(&self, steps: Vec<Step>, now: Millis) -> Result<Vec<Stepped>, CallError> {
        let work = move |conn: &Connection, ledger: &mut Ledger, steps: &[Step]| {
            moves::apply(conn, ledger, steps, now)
        };
        let log = ChangeLog::of_steps(&steps);
        let done = self.in_chunks(("move tasks", Tenant::NONE), steps, work).await?;
        log.stepped(&done);
        Ok(done)
    }

    async fn dispatch(&self, grants: Vec<Grant>, now: Millis) -> Result<Vec<Dispatched>, CallError> {
        let tenant = Tenant::of_grants(&grants);
        let work = move |conn: &Connection, ledger: &mut Ledger, grants: &[Grant]| {
            lease::dispatch(conn, ledger, grants, now)
        };
        let log = ChangeLog::of_grants(&grants);
        let done = self.in_chunks(("dispatch tasks", tenant), grants, work).await?;
        log.dispatched(&done);
        Ok(done)
    }

    async fn extend(&self, beats: Vec<Beat>, now: Millis) -> Result<Vec<Extended>, CallError> {
        let work = move |conn: &Connection, ledger: &mut Ledger, beats: &[Beat]| {
            lease::extend(conn, ledger, beats, now)
        };
        let log = ChangeLog::of_beats(&beats);
        let done = self.in_chunks(("extend leases", Tenant::NONE), beats, work).await?;
        log.extended(&done);
        Ok(done)
    }

    async fn request_stop(&self, place: TaskRef, now: Millis) -> Result<Applied, CallError> {
        self.writing("ask a task to stop", 1, move |conn, _| lease::request_stop(conn, place, now)).await
    }

    async fn scan(&self, scan: Scan) -> Result<Vec<HotEntry>, CallError> {
        self.reading("scan a partition", Lane::Urgent, move |conn| query::scan(conn, &scan)).await
    }

    async fn overdue(&self, look: OverdueLook) -> Result<OverduePage, CallError> {
        self.reading("look for what is overdue", Lane::Urgent, move |conn| query::overdue(conn, &look)).await
    }

    async fn agenda_in(&self, _only_part: usize) -> Result<Agenda, CallError> {
        self.reading("read the agenda", Lane::Urgent, agenda::read).await
    }

    async fn leases_ended_in(
        &self,
        _only_part: usize,
        now: Millis,
        limit: usize,
    ) -> Result<Vec<Task>, CallError> {
        self.reading("look for ended leases", Lane::Urgent, move |conn| query::leases_ended(conn, now, limit))
            .await
    }

    async fn in_flight(
        &self,
        after: Option<LeasePosition>,
        limit: usize,
    ) -> Result<(Vec<Task>, Option<LeasePosition>), CallError> {
        let page = move |conn: &Connection| query::in_flight(conn, after, limit);
        self.reading("read what is in flight", Lane::Urgent, move |conn| page(conn)).await
    }

    async fn read(&self, places: &[TaskRef]) -> Result<Vec<Option<Task>>, CallError> {
        let asked = places.to_vec();
        let found = self.reading("read tasks", Lane::Urgent, move |conn| query::read(conn, &asked)).await?;
        match &self.archive {
            Some(archive_storage) if found.contains(&None) => {
                self.read_archived(archive_storage, places, found).await
            }
            _ => Ok(found),
        }
    }

    async fn versions(
        &self,
        namespace: &Name,
        task_id: i64,
        version: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Task>, CallError> {
        let name = namespace.clone();
        let work = move |conn: &Connection| query::versions(conn, &name, task_id, version, limit);
        let found = self.reading("read versions", Lane::Urgent, work).await?;
        match &self.archive {
            Some(archive_storage) => {
                self.archived_versions(archive_storage, (namespace, task_id), version, (limit, found)).await
            }
            None => Ok(found),
        }
    }

    async fn latest_versions(&self, namespace: &Name, task_ids: &[i64]) -> Result<Vec<Task>, CallError> {
        let (name, ids) = (namespace.clone(), task_ids.to_vec());
        let work = move |conn: &Connection| query::latest_versions(conn, &name, &ids);
        let mut found = self.reading("read the latest versions", Lane::Urgent, work).await?;
        if let Some(archive_storage) = &self.archive {
            for task_id in archived::missing_ids(task_ids, &found) {
                let of = (namespace, task_id);
                found.extend(self.archived_versions(archive_storage, of, None, (1, Vec::new())).await?);
            }
        }
        Ok(found)
    }

    async fn list(&self, query: &Query) -> Result<Page, CallError> {
        let query = query.clone();
        let partitions = self.partitions;
        self.reading("search tasks", Lane::Bulk, move |conn| query::list(conn, partitions, &query)).await
    }

    async fn retire_in(
        &self,
        _only_part: usize,
        now: Millis,
        stopped_until: Millis,
        limit: usize,
    ) -> Result<Retired, CallError> {
        let mut retired = Retired::default();
        let mut left = limit;
        // A clock that was set back begins again.
        let known = self.stopped_to.load(Relaxed);
        let stopped_to = Millis(if known > now.0 { i64::MIN } else { known });
        while left > 0 {
            let chunk = left.min(RETIRE_CHUNK_ROWS);
            let work = move |conn: &Connection, ledger: &mut Ledger| {
                retention::retire(conn, ledger, (now, stopped_until), stopped_to, chunk)
            };
            let part = self.maintaining("end retention", chunk, work).await?;
            retired.stopped += part.stopped;
            retired.deleted += part.deleted;
            if part.stopped + part.deleted < chunk {
                self.stopped_to.store(now.0.saturating_sub(STOPPED_BEHIND_MS), Relaxed);
                break;
            }
            left -= chunk;
        }
        retired.has_more = limit > 0 && left == 0;
        Ok(retired)
    }

    async fn books(&self) -> Result<Books, CallError> {
        self.reading("read the books", Lane::Urgent, query::books).await
    }

    async fn audit(&self) -> Result<Books, CallError> {
        self.reading("audit the books", Lane::Bulk, query::audit).await
    }

    async fn check_writers_in(&self, _only_part: usize) -> Result<(), CallError> {
        let check = |conn: &Connection, _: &mut Ledger| {
            conn.prepare_cached(sql!(ledger, check_writable))?.execute(["writer_checks"]).map(drop)
        };
        self.writing("check the writer", 1, check).await
    }

    async fn reserve_reply(
        &self,
        key: &ReplyKey,
        reservation: &Reservation,
        now: Millis,
    ) -> Result<Reserved, CallError> {
        let (key, reservation) = (key.clone(), reservation.clone());
        self.writing("reserve a reply", 1, move |conn, _| reply::reserve(conn, &key, &reservation, now)).await
    }

    async fn release_reply(&self, key: &ReplyKey, owner: &str) -> Result<(), CallError> {
        let (key, owner) = (key.clone(), owner.to_owned());
        self.writing("release a reply", 1, move |conn, _| reply::release(conn, &key, &owner)).await
    }

    async fn save_reply(&self, key: &ReplyKey, reply: &Reply) -> Result<(), CallError> {
        let (key, reply) = (key.clone(), reply.clone());
        self.writing("keep a reply", 1, move |conn, _| reply::save(conn, &key, &reply)).await
    }

    async fn load_reply(&self, key: &ReplyKey, now: Millis) -> Result<Option<Reply>, CallError> {
        let key = key.clone();
        self.reading("look up a reply", Lane::Urgent, move |conn| reply::load(conn, &key, now)).await
    }

    async fn note_executors(&self, signs: Vec<Sign>) -> Result<Vec<(Name, Name, DesiredState)>, CallError> {
        const DOING: &str = "note executors";
        // Thousands may come at one time, and no caller waits for them at an instant.
        let note = |conn: &Connection, _: &mut Ledger, signs: &[Sign]| executors::note(conn, signs);
        self.in_chunks((DOING, Tenant::NONE), signs, note).await?;
        self.reading(DOING, Lane::Urgent, executors::wishes).await
    }

    async fn executors(
        &self,
        namespace: &Name,
        from: &str,
        limit: usize,
    ) -> Result<Vec<Executor>, CallError> {
        let (namespace, from) = (namespace.clone(), from.to_owned());
        let work = move |conn: &Connection| executors::list(conn, &namespace, &from, limit);
        self.reading("list executors", Lane::Urgent, work).await
    }

    async fn desired_state_of_executor(
        &self,
        namespace: &Name,
        name: &Name,
        desired: DesiredState,
    ) -> Result<Option<DesiredState>, CallError> {
        let (namespace, name) = (namespace.clone(), name.clone());
        let work = move |conn: &Connection, _: &mut Ledger| {
            executors::set_desired_state(conn, &namespace, &name, desired)
        };
        self.writing("say what is wished of an executor", 1, work).await
    }

    async fn sweep_silent(
        &self,
        now: Millis,
        silent_since: Millis,
        left_before: Millis,
    ) -> Result<Roll, CallError> {
        let work = move |conn: &Connection, _: &mut Ledger| {
            executors::sweep_silent(conn, now, silent_since, left_before)
        };
        self.writing("call the roll of executors", 1, work).await
    }

    fn partitions(&self) -> u16 {
        self.partitions
    }

    fn parts(&self) -> usize {
        1
    }

    fn part_of(&self, _: Partition) -> usize {
        0
    }
}
