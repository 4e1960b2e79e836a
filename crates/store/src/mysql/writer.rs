//! One connection that writes. Jobs that wait for it together are committed together. A job that cannot be done is
//! refused, fails no other, and blocks none: the batch is halved until it is alone, and while it waits to be tried
//! again the others continue. A job whose partition is not here returns to its caller. Runs in a task of its own: a
//! caller that disconnects drops an answer, not the work.

mod retry_queue;

use super::{
    hosted::{self, Begun, WritePartitions},
    insert::ask::Context,
    job::{
        Done, Job, Unfinished,
        run::{self, JobContext, Opening},
    },
    ledger::Ledger,
    line::{JobBatch, JobQueue, WriterKind},
    pauses::Pauses,
    session::{DatabaseAddress, Known},
    timeouts::{PING, WorkTimeout, silent, watched},
    trips::{FirstLook, Trips},
};
use crate::Error;
use futures_util::{FutureExt as _, TryStreamExt as _};
use punctual_contract::Happened;
use punctual_domain::place::Partition;
pub(crate) use retry_queue::RetryQueue;
use retry_queue::pause;
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection, mysql::MySqlDatabaseError};
use std::{any::Any, collections::BTreeSet, panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

/// Runs of one transaction that lost its race each time: deadlocks of two engines end after one or two. Then it is halved.
const TRIES_TOGETHER: u32 = 3;
/// The maximum number of tries of a job that is alone. After the first few it is deferred, and others run in between.
const TRIES_MAX: u32 = 8;
/// A writer that has nothing to do asks whether its connection lives: one that a firewall forgot is replaced before a
/// task waits for it, and the server, which closes what is silent for 3 s (`set_writer_timeout` in session.sql), learns of it in time.
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// The time limit of a rollback, which writes to no disk; a connection that takes longer is dropped, which rolls back
/// too.
const UNDO: Duration = Duration::from_secs(2);
/// A transaction that takes this long delays every task that is due meanwhile; an operator should know.
const SLOW: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) address: DatabaseAddress,
    pub(crate) line: Arc<JobQueue<Job>>,
    pub(crate) context: Arc<Context>,
    pub(crate) ledger: Ledger,
    /// The pauses as of the last transaction that handed tasks over.
    pub(crate) pauses: Pauses,
    /// The least time from one transaction to the next.
    pub(crate) pace: Duration,
    /// `None` if there is no connection yet, or it was lost.
    pub(crate) conn: Option<Known>,
    pub(crate) limit: WorkTimeout,
    /// The instant at which the writer was last used.
    pub(crate) used_at: Instant,
    /// Jobs that lost their races, in the order in which they are tried again.
    pub(crate) aside: RetryQueue,
}

/// One step of a writer.
enum WriterStep {
    Batch(Vec<Job>),
    Again(Box<Job>, u32),
}

/// The basis of the first run of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rests {
    /// The facts that the callers know of their rows.
    OnFacts,
    /// Facts were wrong, or another transaction was faster.
    OnALook,
}

/// Why one run of a transaction ended without a commit.
enum Failed {
    /// Another transaction was faster.
    Raced(sqlx::Error),
    /// The connection was gone, or silent, before the commit.
    Gone(sqlx::Error),
    /// There was no connection.
    Away(sqlx::Error),
    Refused(Error),
    Elsewhere(BTreeSet<Partition>),
    /// Leases are among the jobs that must not be made any more.
    Void,
    /// The commit was sent, and its answer was lost.
    Unknown(Error),
}

/// Why a transaction was not confirmed.
enum NotConfirmed {
    Unfinished(Unfinished),
    /// Some of its partitions are not here, or closed. Nothing happened.
    Elsewhere(BTreeSet<Partition>),
    /// Some of the jobs are void. Nothing happened.
    Void,
}

/// Why a transaction did not come to its commit.
enum Stopped {
    Database(sqlx::Error),
    Elsewhere(BTreeSet<Partition>),
}

impl From<sqlx::Error> for Stopped {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

/// However the writer ends, no caller waits for it in vain.
struct AbandonOnDrop(Arc<JobQueue<Job>>);

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl Writer {
    /// Creates the writer of one of the lines of a lane. `slot` is its slot of the account.
    pub(crate) fn new(
        address: &DatabaseAddress,
        (lane, line): (WriterKind, Arc<JobQueue<Job>>),
        context: &Arc<Context>,
        slot: i32,
    ) -> Self {
        Self {
            address: address.clone(),
            line,
            context: Arc::clone(context),
            ledger: Ledger::new(slot),
            pauses: Pauses::default(),
            pace: lane.pace(),
            conn: None,
            limit: lane.limit(),
            used_at: Instant::now(),
            aside: RetryQueue::default(),
        }
    }

    pub(crate) async fn run(mut self) {
        let line = Arc::clone(&self.line);
        let _abandon = AbandonOnDrop(Arc::clone(&line));
        // Else the first task would wait for it.
        self.keep_connected().await;
        loop {
            if let Some((job, tries)) = self.aside.due(Instant::now()) {
                self.run_step(WriterStep::Again(Box::new(job), tries)).await;
            }
            let ping_at = Instant::now() + PING_INTERVAL;
            let until = self.aside.first_at().map_or(ping_at, |at| at.min(ping_at));
            let Ok(batch) = timeout_at(until, line.batch()).await else {
                self.keep_connected().await;
                continue;
            };
            let Some(JobBatch { jobs, under_way }) = batch else { break };
            let next_at = Instant::now() + self.pace;
            self.run_step(WriterStep::Batch(jobs)).await;
            drop(under_way);
            if !self.pace.is_zero() {
                sleep_until(next_at).await;
            }
        }
        // The line is closed: what is aside is tried for the last time.
        while let Some((job, _)) = self.aside.pop() {
            self.run_step(WriterStep::Again(Box::new(job), TRIES_MAX - 1)).await;
        }
        if let Some(known) = self.conn.take() {
            drop(timeout(PING, known.conn.close()).await);
        }
    }

    /// A database that is unavailable is tried again each second, and with each job.
    async fn keep_connected(&mut self) {
        if let Some(known) = &mut self.conn
            && self.used_at.elapsed() >= PING_INTERVAL
        {
            match timeout(PING, known.conn.ping()).await {
                Ok(Ok(())) => self.used_at = Instant::now(),
                _ => self.conn = None,
            }
        }
        if self.conn.is_none() {
            self.conn = self.connected().await.ok();
        }
    }

    async fn connected(&mut self) -> sqlx::Result<Known> {
        let known = self.address.writer().await;
        self.used_at = Instant::now();
        known
    }

    async fn run_step(&mut self, run_step: WriterStep) {
        let work = async {
            match run_step {
                WriterStep::Batch(batch) => self.serve(batch).await,
                WriterStep::Again(job, tries) => self.again(*job, tries).await,
            }
        };
        // The jobs of a turn are dropped with it: their callers learn that it may have happened.
        if let Err(panic) = AssertUnwindSafe(work).catch_unwind().await {
            tracing::error!(panic = message(panic.as_ref()), at = %self.address, "a writer panicked; it continues");
            // Nothing that it knew is believed, and its connection may be inside of a transaction.
            (self.conn, self.pauses) = (None, Pauses::default());
        }
    }

    async fn serve(&mut self, batch: Vec<Job>) {
        let mut parts = vec![batch];
        while let Some(part) = parts.pop() {
            self.part(part, &mut parts).await;
        }
    }

    /// Runs a part. The rest of its work is added to the parts.
    async fn part(&mut self, part: Vec<Job>, parts: &mut Vec<Vec<Job>>) {
        let (void, mut part): (Vec<Job>, Vec<Job>) = part.into_iter().partition(Job::is_void);
        void.into_iter().for_each(|job| job.not_done(Error::LeaseOver));
        if part.is_empty() {
            return;
        }
        match self.finished(&part, TRIES_TOGETHER, Rests::OnFacts).await {
            Ok(done) => part.into_iter().zip(done).for_each(|(job, done)| job.done(done)),
            Err(NotConfirmed::Elsewhere(closed)) => {
                let is_here =
                    |job: &Job| job.partitions().is_none_or(|partitions| partitions.is_disjoint(&closed));
                let (here, elsewhere): (Vec<Job>, Vec<Job>) = part.into_iter().partition(is_here);
                elsewhere.into_iter().for_each(|job| job.elsewhere(&closed));
                parts.extend((!here.is_empty()).then_some(here));
            }
            Err(NotConfirmed::Void) => parts.push(part),
            Err(NotConfirmed::Unfinished(why)) if why.blames_a_job && part.len() > 1 => {
                // With one that cannot be done among them, a few transactions more, and not one for each.
                let others = part.split_off(part.len() / 2);
                parts.extend([others, part]);
            }
            Err(NotConfirmed::Unfinished(why)) if why.is_race => {
                part.into_iter().for_each(|job| self.aside.push(job, TRIES_TOGETHER));
            }
            Err(NotConfirmed::Unfinished(why)) => part.into_iter().for_each(|job| job.failed(&why)),
        }
    }

    /// One more try of a job that lost its races.
    async fn again(&mut self, job: Job, tries: u32) {
        match self.finished(std::slice::from_ref(&job), 1, Rests::OnALook).await {
            Ok(done) => done.into_iter().zip([job]).for_each(|(done, job)| job.done(done)),
            Err(NotConfirmed::Elsewhere(closed)) => job.elsewhere(&closed),
            Err(NotConfirmed::Void) => job.not_done(Error::LeaseOver),
            Err(NotConfirmed::Unfinished(why)) if why.is_race && tries + 1 < TRIES_MAX => {
                self.aside.push(job, tries + 1)
            }
            Err(NotConfirmed::Unfinished(why)) => job.failed(&why),
        }
    }

    /// Runs one transaction, again as long as it loses races: then with a read of every row.
    async fn finished(
        &mut self,
        jobs: &[Job],
        tries_max: u32,
        rests: Rests,
    ) -> Result<Vec<Done>, NotConfirmed> {
        let began = Instant::now();
        let (mut tries, mut was_gone) = (0, false);
        let done = loop {
            tries += 1;
            let opening = match rests {
                Rests::OnFacts if tries == 1 => Opening::with_facts(jobs),
                _ => Opening::with_a_look(jobs),
            };
            let failed = match self.transaction(jobs, opening).await {
                Ok(done) => break Ok(done),
                Err(failed) => failed,
            };
            match failed {
                Failed::Raced(_) if tries < tries_max => sleep(pause(tries)).await,
                // Broken or silent, and no commit was sent: it did not happen, whatever was sent before. Once more, on a
                // new connection. A commit without an answer is never sent again: it may have happened.
                Failed::Gone(_) if !was_gone => was_gone = true,
                Failed::Elsewhere(closed) => break Err(NotConfirmed::Elsewhere(closed)),
                Failed::Void => break Err(NotConfirmed::Void),
                failed => break Err(NotConfirmed::Unfinished(self.unfinished(failed))),
            }
        };
        let took = began.elapsed();
        self.context.late.note(took);
        if took > SLOW {
            let rows: usize = jobs.iter().map(Job::rows).sum();
            let took_ms = took.as_millis();
            tracing::warn!(took_ms, jobs = jobs.len(), rows, tries, at = %self.address, "a slow transaction");
        }
        done
    }

    fn unfinished(&self, failed: Failed) -> Unfinished {
        let at = self.address.to_string();
        let is_race = matches!(failed, Failed::Raced(_));
        let (happened, blames_a_job, source) = match failed {
            Failed::Raced(source) => (Happened::No, true, Error::Database { at, source }),
            Failed::Gone(source) | Failed::Away(source) => {
                (Happened::No, false, Error::Database { at, source })
            }
            // Of a server that does not answer, none of them is to blame.
            Failed::Refused(source @ Error::Silent { .. }) => (Happened::No, false, source),
            Failed::Refused(source) => (Happened::No, true, source),
            Failed::Elsewhere(_) => (Happened::No, false, Error::Closed),
            Failed::Void => (Happened::No, false, Error::LeaseOver),
            Failed::Unknown(source) => (Happened::Maybe, false, source),
        };
        let may_have_happened = happened == Happened::Maybe;
        tracing::warn!(error = %source, may_have_happened, at = %self.address, "a transaction failed");
        Unfinished { happened, source: Arc::new(source), blames_a_job, is_race }
    }

    /// The connection is given up whenever it is not known to be outside of a transaction.
    async fn transaction(&mut self, jobs: &[Job], opening: Opening) -> Result<Vec<Done>, Failed> {
        let mut known = match self.conn.take() {
            Some(known) => known,
            None => self.connected().await.map_err(Failed::Away)?,
        };
        self.ledger.clear();
        let (limit, held) = (self.limit, vec![(known.number, self.address.clone())]);
        let work = AssertUnwindSafe(self.work(&mut known.conn, jobs, opening)).catch_unwind();
        let worked = watched(limit, || held.clone(), Box::pin(work)).await;
        let (done, trips) = match worked {
            Some(Ok(Ok(done))) => done,
            Some(Ok(Err(error))) => {
                self.undo(known).await;
                return Err(self.before_commit(error));
            }
            Some(Err(panic)) => return Err(Failed::Refused(Error::Panicked(message(panic.as_ref())))),
            // Dropped, the connection takes the transaction with it.
            None => return Err(Failed::Gone(silent())),
        };
        // It may have waited for rows that others held.
        if jobs.iter().any(Job::is_void) {
            self.undo(known).await;
            return Err(Failed::Void);
        }
        self.commit(known, trips).await?;
        Ok(done)
    }

    async fn work(
        &mut self,
        conn: &mut MySqlConnection,
        jobs: &[Job],
        Opening { look: first, rests_on_facts }: Opening,
    ) -> Result<(Vec<Done>, Trips), Stopped> {
        let wanted = self.wanted(jobs);
        let look = first.as_ref().map(FirstLook::sql);
        let Begun { open, pause_epoch, found } = hosted::begin(conn, &wanted, look.as_deref()).await?;
        let closed: BTreeSet<Partition> = wanted.these.difference(&open).copied().collect();
        if !closed.is_empty() {
            return Err(Stopped::Elsewhere(closed));
        }
        if let Some(epoch) = pause_epoch {
            self.pauses.look(conn, epoch).await?;
        }
        let mut trips = Trips::new(first.map(|first_look| first_look.answered(found)));
        let mut shared = JobContext {
            trips: &mut trips,
            ledger: &mut self.ledger,
            context: &self.context,
            open: &open,
            pauses: &self.pauses,
            rests_on_facts,
        };
        let done = run::run(conn, &mut shared, jobs).await?;
        self.ledger.write_at_last(&mut trips);
        Ok((done, trips))
    }

    fn wanted(&self, jobs: &[Job]) -> WritePartitions {
        let mut wanted = WritePartitions::default();
        for job in jobs {
            match job.partitions() {
                Some(these) => wanted.these.extend(these),
                None => wanted.any = true,
            }
            wanted.epoch |= job.hands_over() || job.has_labels();
        }
        // No row can be in any other: nothing to hold.
        wanted.these.retain(|partition| partition.0 < self.context.partitions);
        wanted
    }

    fn before_commit(&self, stopped: Stopped) -> Failed {
        let at = self.address.to_string();
        let error = match stopped {
            Stopped::Database(error) => error,
            Stopped::Elsewhere(closed) => return Failed::Elsewhere(closed),
        };
        match &error {
            sqlx::Error::RowNotFound => Failed::Raced(error),
            _ if was_raced(&error) => Failed::Raced(error),
            sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::WorkerCrashed => Failed::Gone(error),
            _ if was_ended(&error) => Failed::Gone(error),
            _ => Failed::Refused(Error::Database { at, source: error }),
        }
    }

    /// Commits. The last statements are sent along: the first of them that fails prevents the COMMIT.
    async fn commit(&mut self, mut known: Known, trips: Trips) -> Result<(), Failed> {
        let at = || self.address.to_string();
        let (text, before) = trips.commit();
        let mut done = 0;
        let sent = async {
            let mut answers = sqlx::raw_sql(AssertSqlSafe(text)).fetch_many(&mut known.conn);
            while let Some(either) = answers.try_next().await? {
                done += usize::from(either.is_left());
            }
            Ok(())
        };
        let held = vec![(known.number, self.address.clone())];
        let sent = watched(self.limit, || held.clone(), sent).await;
        match sent {
            Some(Ok(())) => {
                self.ledger.chunks.committed();
                self.keep(known);
                Ok(())
            }
            // Said by the server, and not of the commit.
            Some(Err(error)) if done < before && code(&error).is_some() => {
                self.undo(known).await;
                Err(self.before_commit(Stopped::Database(error)))
            }
            // A cluster that certifies at the commit says so with a deadlock: nothing of it is left.
            Some(Err(error)) if was_raced(&error) => Err(Failed::Raced(error)),
            Some(Err(source)) => Err(Failed::Unknown(Error::Database { at: at(), source })),
            None => Err(Failed::Unknown(Error::Silent { at: at() })),
        }
    }

    fn keep(&mut self, known: Known) {
        self.used_at = Instant::now();
        self.conn = Some(known);
    }

    /// Rolls back. The connection is kept only if it is outside of any transaction.
    async fn undo(&mut self, mut known: Known) {
        if matches!(timeout(UNDO, control(&mut known.conn, "ROLLBACK")).await, Ok(Ok(()))) {
            self.keep(known);
        }
    }
}

/// A statement of transaction control.
async fn control(conn: &mut MySqlConnection, control: &'static str) -> sqlx::Result<()> {
    sqlx::raw_sql(control).execute(conn).await.map(drop)
}

/// True after a deadlock, a lock timeout, or if another engine inserted a row between the read and the insert. The
/// first two are the usual end of a race; the third is decided anew by what is stored now.
fn was_raced(error: &sqlx::Error) -> bool {
    matches!(code(error), Some(1213 | 1205 | 1062))
}

/// The server is going down, or ended this session.
fn was_ended(error: &sqlx::Error) -> bool {
    matches!(code(error), Some(1053 | 1927 | 2006 | 2013 | 4031))
}

pub(super) fn code(error: &sqlx::Error) -> Option<u16> {
    Some(error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?.number())
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|payload| (*payload).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
