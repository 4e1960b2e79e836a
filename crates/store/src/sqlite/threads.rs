//! The threads of a store on a file: one that writes, a few that read, one that moves the log. Each owns its
//! connection. They end when the lanes are closed and empty; nothing that was taken is left undone.

use super::{
    lanes::{Lane, LaneLimits, SqliteLanes},
    ledger::Ledger,
    open::{self, Opened},
    options::{Activity, CHUNK_ROWS, Options},
    session::{self, Failed, Session, Unfinished},
    wal::{self, Watch},
};
use crate::{Error, turns::Tenant};
use parking_lot::Mutex;
use punctual_contract::{Error as CallError, Happened};
use rusqlite::{Connection, InterruptHandle};
use std::{
    fs::File,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, Builder, JoinHandle},
    time::Duration,
};
use tokio::{sync::oneshot, time::Instant};

/// Rows of one transaction: about ten milliseconds of work where urgent jobs do not come, or others would fall behind.
/// Urgent ones wait for at most one chunk of the rest (`CHUNK_ROWS`), and are not committed with it. (A bound of 100 bulk
/// rows beside urgent ones, backlog or not, was tried: inserts fell behind at 10,000 tasks/s.)
const BATCH: LaneLimits =
    LaneLimits { urgent: 1_000, bulk: 500, yield_after: CHUNK_ROWS, backlog: 500 / CHUNK_ROWS };

/// A transaction that takes this long delays every task that is due meanwhile; an operator should know.
const SLOW: Duration = Duration::from_millis(100);

/// Of a connection that reads each page once.
const BESIDE_CACHE_KIB: u32 = 2 << 10;

/// So that a repeated panic does not take a processor.
const AFTER_PANIC: Duration = Duration::from_millis(10);

type Read = Box<dyn FnOnce(&mut Connection) + Send>;
type Answer<T> = oneshot::Receiver<Result<T, CallError>>;

pub(crate) struct Threads {
    writes: Arc<SqliteLanes<Box<dyn SqliteJob>>>,
    reads: Arc<SqliteLanes<Read>>,
    watch: Arc<Watch>,
    counts: Arc<WriterCounts>,
    /// The threads in the order in which they end.
    running: Mutex<Vec<JoinHandle<()>>>,
    path: PathBuf,
    /// Of connections that read beside all others, as long as they do.
    beside: Mutex<Vec<(Weak<()>, InterruptHandle)>>,
    lock: Mutex<Option<File>>,
    /// Closed after every connection: see `wal::run`.
    database: Mutex<Option<Arc<File>>>,
}

#[derive(Debug, Default)]
struct WriterCounts {
    transactions: AtomicU64,
    jobs: AtomicU64,
    log_pages: AtomicU64,
}

impl Threads {
    pub(crate) fn start(opened: Opened, options: &Options) -> Result<Self, Error> {
        let path = opened.path;
        let session = Session::new(opened.conn).map_err(|error| Error::opening(&path, error))?;
        let threads = Self {
            writes: Arc::new(SqliteLanes::new()),
            reads: Arc::new(SqliteLanes::new()),
            watch: Arc::default(),
            counts: Arc::default(),
            running: Mutex::default(),
            path: path.clone(),
            beside: Mutex::default(),
            lock: Mutex::new(Some(opened.lock)),
            database: Mutex::default(),
        };
        for nth in 0..options.readers.max(1) {
            let conn = open::reader(&path, options.reader_cache_kib)?;
            let reads = Arc::clone(&threads.reads);
            // One of them alone serves long searches: they never hold up the short reads of the others.
            let mut conn = conn;
            threads.spawn("punctual-read", move || kept_on(|| read(&mut conn, &reads, nth == 0)))?;
        }
        let (conn, watch) = (open::checkpointer(&path)?, Arc::clone(&threads.watch));
        let file = Arc::clone(threads.database.lock().insert(open::database(&path)?));
        threads.spawn("punctual-log", move || kept_on(|| wal::run(&conn, &file, &watch)))?;
        let (writes, watch) = (Arc::clone(&threads.writes), Arc::clone(&threads.watch));
        let counts = Arc::clone(&threads.counts);
        threads.spawn("punctual-write", move || {
            let _abandon = AbandonOnDrop(&writes);
            let mut writer = Writer { session, watch, counts, stop_at: wal::STOP_PAGES };
            kept_on(|| writer.run(&writes));
        })?;
        Ok(threads)
    }

    fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let thread = Builder::new().name(name.to_owned()).spawn(work).map_err(Error::Thread)?;
        self.running.lock().push(thread);
        Ok(())
    }

    /// Puts a job into its lane at once, before anything is awaited: from here on it runs to its end.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        doing: &'static str,
        lane: Lane,
        rows: usize,
        work: impl FnOnce(&Connection, &mut Ledger) -> rusqlite::Result<T> + Send + 'static,
    ) -> Answer<T> {
        self.write_of(Tenant::NONE, (doing, lane, rows), work)
    }

    /// The same for a tenant: those of the urgent and of the bulk lane take turns.
    pub(crate) fn write_of<T: Send + 'static>(
        &self,
        tenant: Tenant,
        (doing, lane, rows): (&'static str, Lane, usize),
        work: impl FnOnce(&Connection, &mut Ledger) -> rusqlite::Result<T> + Send + 'static,
    ) -> Answer<T> {
        let (reply, answer) = oneshot::channel();
        let call = StoreCall { doing, lane, rows, tenant, work: Some(work), result: None, reply };
        if self.writes.push_of(lane, (tenant, rows), Box::new(call)) { answer } else { refused(doing) }
    }

    pub(crate) fn read<T: Send + 'static>(
        &self,
        doing: &'static str,
        lane: Lane,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Answer<T> {
        let (reply, answer) = oneshot::channel();
        let read = move |conn: &mut Connection| {
            if !reply.is_closed() {
                let result = session::caught(|| snapshot(conn, work));
                drop(reply.send(result.map_err(|failed| CallError::did_not_happen(doing, failed))));
            }
        };
        if self.reads.push(lane, Box::new(read)) { answer } else { refused(doing) }
    }

    /// A read that takes long, on a snapshot of its own, in a thread that nothing waits for. `close` interrupts it.
    pub(crate) fn read_beside<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Answer<T> {
        if self.lock.lock().is_none() {
            return refused(doing);
        }
        match self.begin_beside(doing, work) {
            Ok(answer) => answer,
            Err(error) => {
                let (reply, answer) = oneshot::channel();
                drop(reply.send(Err(CallError::did_not_happen(doing, error))));
                answer
            }
        }
    }

    fn begin_beside<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<Answer<T>, Error> {
        let mut conn = open::reader(&self.path, BESIDE_CACHE_KIB)?;
        let (alive, interrupt) = (Arc::new(()), conn.get_interrupt_handle());
        {
            let mut beside = self.beside.lock();
            beside.retain(|(alive, _)| alive.strong_count() > 0);
            beside.push((Arc::downgrade(&alive), interrupt));
        }
        let (reply, answer) = oneshot::channel();
        let read = move || {
            let result = session::caught(|| snapshot(&mut conn, work));
            drop(reply.send(result.map_err(|failed| CallError::did_not_happen(doing, failed))));
            drop(alive);
        };
        let thread = Builder::new().name("punctual-beside".to_owned()).spawn(read).map_err(Error::Thread)?;
        let mut running = self.running.lock();
        running.retain(|thread| !thread.is_finished());
        running.push(thread);
        Ok(answer)
    }

    pub(crate) fn activity(&self) -> Activity {
        Activity {
            transactions: self.counts.transactions.load(Ordering::Relaxed),
            jobs: self.counts.jobs.load(Ordering::Relaxed),
            log_pages: self.counts.log_pages.load(Ordering::Relaxed),
        }
    }

    /// Finishes all requests, moves the log into the database, and releases the file.
    pub(crate) fn close(&self) {
        self.writes.close();
        self.reads.close();
        self.watch.close();
        for (_, read) in self.beside.lock().drain(..) {
            read.interrupt();
        }
        for thread in self.running.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the store had panicked");
            }
        }
        self.database.lock().take();
        self.lock.lock().take();
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.close();
    }
}

fn refused<T>(doing: &'static str) -> Answer<T> {
    let (reply, answer) = oneshot::channel();
    drop(reply.send(Err(CallError::did_not_happen(doing, Error::Closed))));
    answer
}

/// A job that was taken and never answered went down with its thread, before its commit or after it.
pub(crate) async fn answer<T>(doing: &'static str, answer: Answer<T>) -> Result<T, CallError> {
    answer.await.unwrap_or_else(|_| Err(CallError::may_have_happened(doing, Error::WriterPanicked)))
}

/// However the writer ends, no caller waits for it in vain.
struct AbandonOnDrop<'a>(&'a SqliteLanes<Box<dyn SqliteJob>>);

impl Drop for AbandonOnDrop<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// The life of a thread: `work` ends when its lanes are closed; if it panics it begins again. What it had taken is
/// dropped, and its callers learn that it may have happened.
fn kept_on(mut work: impl FnMut()) {
    while catch_unwind(AssertUnwindSafe(&mut work)).is_err() {
        tracing::error!("a thread of the store panicked; it continues");
        thread::park_timeout(AFTER_PANIC);
    }
}

fn read(conn: &mut Connection, lanes: &SqliteLanes<Read>, bulk_too: bool) {
    while let Some(read) = lanes.one(bulk_too) {
        read(conn);
    }
}

/// One snapshot for all statements of a read.
fn snapshot<T>(
    conn: &mut Connection,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let transaction = conn.transaction()?;
    work(&transaction)
}

/// A unit of work in a lane, and a caller that waits for it.
pub(crate) trait SqliteJob: Send {
    fn lane(&self) -> Lane;
    fn rows(&self) -> usize;
    fn tenant(&self) -> Tenant;
    fn run(&mut self, conn: &Connection, ledger: &mut Ledger) -> rusqlite::Result<()>;
    fn failed(&mut self, why: Failed);
    /// Answers after the transaction. `Some` states that it was not confirmed.
    fn answer(self: Box<Self>, unfinished: Option<&Unfinished>);
}

struct StoreCall<T, F> {
    doing: &'static str,
    lane: Lane,
    rows: usize,
    tenant: Tenant,
    work: Option<F>,
    result: Option<Result<T, CallError>>,
    reply: oneshot::Sender<Result<T, CallError>>,
}

impl<T: Send, F> SqliteJob for StoreCall<T, F>
where
    F: FnOnce(&Connection, &mut Ledger) -> rusqlite::Result<T> + Send,
{
    fn lane(&self) -> Lane {
        self.lane
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn tenant(&self) -> Tenant {
        self.tenant
    }

    fn run(&mut self, conn: &Connection, ledger: &mut Ledger) -> rusqlite::Result<()> {
        if let Some(work) = self.work.take() {
            self.result = Some(Ok(work(conn, ledger)?));
        }
        Ok(())
    }

    fn failed(&mut self, why: Failed) {
        self.result = Some(Err(CallError::did_not_happen(self.doing, why)));
    }

    fn answer(self: Box<Self>, unfinished: Option<&Unfinished>) {
        let result = match (self.result, unfinished) {
            (Some(Ok(done)), None) => Ok(done),
            (Some(Err(error)), _) => Err(error),
            (_, Some(why)) => Err(why.reported(self.doing)),
            (None, None) => Err(CallError::did_not_happen(self.doing, Error::Closed)),
        };
        // A caller that has gone does not want it.
        drop(self.reply.send(result));
    }
}

impl Unfinished {
    pub(crate) fn reported(&self, doing: &'static str) -> CallError {
        CallError { doing, happened: self.happened, source: self.source.clone() }
    }
}

/// The only one that writes.
struct Writer {
    session: Session,
    watch: Arc<Watch>,
    counts: Arc<WriterCounts>,
    /// The length of the log at which it stops to empty it.
    stop_at: u64,
}

impl Writer {
    /// Each transaction begins clean, whatever a panic left of the one before.
    fn run(&mut self, lanes: &SqliteLanes<Box<dyn SqliteJob>>) {
        if let Err(error) = wal::count_pages(self.session.conn_mut()) {
            tracing::warn!(%error, "SQLite checkpoints the log by its own rule: its pages cannot be counted");
        }
        while let Some(batch) = lanes.batch(BATCH, |job| job.rows()) {
            let left = self.commit(batch, lanes);
            lanes.put_back(left, |job| (job.lane(), job.tenant(), job.rows()));
            self.keep_log_short();
        }
        if let Err(error) = wal::checkpoint(self.session.conn(), "TRUNCATE") {
            tracing::warn!(%error, "the last checkpoint failed; the next start will do its work");
        }
    }

    /// Answers what it left for the next transaction.
    fn commit(
        &mut self,
        mut batch: Vec<Box<dyn SqliteJob>>,
        lanes: &SqliteLanes<Box<dyn SqliteJob>>,
    ) -> Vec<Box<dyn SqliteJob>> {
        let began = Instant::now();
        let (done, unfinished) = match self.transaction(&mut batch, lanes) {
            Ok(done) => (done, None),
            Err(unfinished) => (batch.len(), Some(unfinished)),
        };
        let left = batch.split_off(done);
        let jobs = u64::try_from(done).unwrap_or_default();
        let took = began.elapsed();
        if took > SLOW {
            let rows: usize = batch.iter().map(|job| job.rows()).sum();
            tracing::warn!(
                took_ms = took.as_millis(),
                jobs,
                rows,
                "a slow commit: the disk, or a large batch"
            );
        }
        if let Some(Unfinished { happened, source }) = &unfinished {
            self.session.undo();
            let may_have_happened = *happened == Happened::Maybe;
            tracing::error!(error = %source, jobs, may_have_happened, "a transaction failed");
        }
        self.counts.transactions.fetch_add(1, Ordering::Relaxed);
        self.counts.jobs.fetch_add(jobs, Ordering::Relaxed);
        self.counts.log_pages.store(wal::pages(), Ordering::Relaxed);
        for job in batch {
            job.answer(unfinished.as_ref());
        }
        left
    }

    /// Answers how many of the jobs, from the first, it has committed.
    fn transaction(
        &mut self,
        batch: &mut [Box<dyn SqliteJob>],
        lanes: &SqliteLanes<Box<dyn SqliteJob>>,
    ) -> Result<usize, Unfinished> {
        self.session.begin()?;
        let (mut done, mut patient_rows) = (0, 0);
        for job in batch {
            let is_patient = job.lane() != Lane::Urgent;
            if is_patient && patient_rows >= BATCH.yield_after && lanes.is_pressed(BATCH.backlog) {
                break;
            }
            if let Err(why) = self.session.apart(|conn, ledger| job.run(conn, ledger))? {
                job.failed(why);
            }
            done += 1;
            patient_rows += if is_patient { job.rows() } else { 0 };
        }
        self.session.finish()?;
        Ok(done)
    }

    fn keep_log_short(&mut self) {
        let pages = wal::pages();
        self.watch.grown(pages);
        if self.watch.is_nearly_moved() {
            if let Err(error) = wal::checkpoint(self.session.conn(), "PASSIVE") {
                tracing::warn!(%error, "the rest of the log could not be moved; it keeps growing");
            }
            return;
        }
        if pages < self.stop_at {
            return;
        }
        let emptied = wal::checkpoint(self.session.conn(), "TRUNCATE");
        self.stop_at = match emptied {
            Ok(moved) if moved.all => wal::STOP_PAGES,
            _ => pages + wal::STOP_AGAIN_PAGES,
        };
        let (moved, error) = match emptied {
            Ok(moved) => (moved.pages, None),
            Err(error) => (0, Some(error.to_string())),
        };
        tracing::warn!(
            pages,
            moved,
            error,
            "the log grew faster than it could be moved; the writer stopped for it"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    /// Panics where no job is run, but the writer itself.
    struct Broken;

    impl SqliteJob for Broken {
        fn lane(&self) -> Lane {
            Lane::Urgent
        }
        /// More than a batch has: it is alone in its own.
        fn rows(&self) -> usize {
            1 << 30
        }
        fn tenant(&self) -> Tenant {
            Tenant::NONE
        }
        fn run(&mut self, _: &Connection, _: &mut Ledger) -> rusqlite::Result<()> {
            Ok(())
        }
        fn failed(&mut self, _: Failed) {}
        fn answer(self: Box<Self>, _: Option<&Unfinished>) {
            panic!("of this test")
        }
    }

    #[tokio::test]
    async fn a_writer_and_readers_that_panicked_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::default();
        let opened = open::file(&dir.path().join("test.db"), &options).unwrap();
        let threads = Threads::start(opened, &options).unwrap();
        assert!(threads.writes.push_of(Lane::Urgent, (Broken.tenant(), Broken.rows()), Box::new(Broken)));
        for _ in 0..options.readers.max(1) {
            assert!(threads.reads.push(Lane::Urgent, Box::new(|_| panic!("of this test"))));
        }
        let written = threads.write("write", Lane::Urgent, 1, |_, _| Ok(1));
        let read = threads.read("read", Lane::Urgent, |_| Ok(2));
        assert_eq!((answer("write", written).await.unwrap(), answer("read", read).await.unwrap()), (1, 2));
        let (reply, lost) = oneshot::channel::<Result<(), CallError>>();
        drop(reply);
        let error = answer("write", lost).await.unwrap_err();
        assert_eq!(error.happened, Happened::Maybe);
    }
}
