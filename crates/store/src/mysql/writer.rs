//! One connection that writes. What waits for it together is committed together; a job that cannot be done is told
//! so, and takes no other down with it; one whose partition is not here goes back to its caller. Runs in a task of its own: whoever hangs up drops an answer, not the work.

use super::{
    hosted::{self, Begun, Wanted},
    insert::Context,
    job::{self, Done, Guess, Job, Shared},
    ledger::Ledger,
    line::Line,
    pauses::Pauses,
    session::Door,
    trips::{FirstLook, Trips},
};
use crate::Error;
use futures_util::{FutureExt as _, TryStreamExt as _};
use punctual_contract::Happened;
use punctual_domain::place::Partition;
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection, mysql::MySqlDatabaseError};
use std::{any::Any, collections::BTreeSet, panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Runs of one transaction that lost its race each time: deadlocks of two engines end after one or two.
const TRIES_MAX: u32 = 8;
/// A lost race is run again after this, longer each time: whoever won it is done by then.
const AGAIN_AFTER: Duration = Duration::from_millis(2);
/// A database that does not answer for so long is as good as gone.
const SILENT_AFTER: Duration = Duration::from_secs(30);
/// A transaction that takes this long delays every task that is due meanwhile; an operator should know.
const SLOW: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) door: Door,
    pub(crate) line: Arc<Line<Job>>,
    pub(crate) context: Arc<Context>,
    pub(crate) ledger: Ledger,
    /// As of the last transaction that handed tasks over.
    pub(crate) pauses: Pauses,
    /// The least time from one transaction to the next.
    pub(crate) pace: Duration,
    /// None: not yet, or lost.
    pub(crate) conn: Option<MySqlConnection>,
}

/// A transaction that was not confirmed.
#[derive(Clone, Debug)]
pub(crate) struct Unfinished {
    pub(crate) happened: Happened,
    pub(crate) source: Arc<Error>,
    /// What one job asked for may be to blame: the others are run without it.
    blames_a_job: bool,
}

/// Why one run of a transaction ended without a commit.
enum Failed {
    /// Another transaction was faster.
    Raced(sqlx::Error),
    /// The connection was gone before the commit.
    Gone(sqlx::Error),
    Refused(Error),
    Elsewhere(BTreeSet<Partition>),
    /// The commit was sent, and its answer was lost.
    Unknown(Error),
}

/// Why a transaction was not confirmed.
enum Ended {
    Unfinished(Unfinished),
    /// Some of its partitions are not here, or closed. Nothing happened.
    Elsewhere(BTreeSet<Partition>),
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

/// However the writer ends, nobody waits for it in vain.
struct AbandonOnDrop(Arc<Line<Job>>);

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl Writer {
    pub(crate) async fn run(mut self) {
        let line = Arc::clone(&self.line);
        let _abandon = AbandonOnDrop(Arc::clone(&line));
        // Else the first task would wait for it. A database that is away is tried again with the first job.
        self.conn = self.door.connect().await.ok();
        while let Some(batch) = line.batch(Job::rows).await {
            let next_at = Instant::now() + self.pace;
            // The jobs of the batch are dropped with it: their callers learn that it may have happened.
            if let Err(panic) = AssertUnwindSafe(self.serve(batch)).catch_unwind().await {
                tracing::error!(panic = message(panic.as_ref()), at = %self.door, "a writer panicked; it goes on");
                // Nothing that it knew is believed, and its connection may be inside of a transaction.
                (self.conn, self.pauses) = (None, Pauses::default());
            }
            if !self.pace.is_zero() {
                sleep_until(next_at).await;
            }
        }
        if let Some(conn) = self.conn.take() {
            drop(conn.close().await);
        }
    }

    async fn serve(&mut self, mut batch: Vec<Job>) {
        loop {
            match self.finished(&batch).await {
                Ok(done) => return batch.into_iter().zip(done).for_each(|(job, done)| job.done(done)),
                Err(Ended::Elsewhere(closed)) => {
                    let is_here = |it: &Job| it.partitions().is_none_or(|it| it.is_disjoint(&closed));
                    let (here, elsewhere): (Vec<Job>, Vec<Job>) = batch.into_iter().partition(is_here);
                    elsewhere.into_iter().for_each(|it| it.elsewhere(&closed));
                    batch = here;
                }
                Err(Ended::Unfinished(why)) if batch.len() > 1 && why.blames_a_job => {
                    for job in batch {
                        self.alone(job).await;
                    }
                    return;
                }
                Err(Ended::Unfinished(why)) => return batch.into_iter().for_each(|it| it.failed(&why)),
            }
            if batch.is_empty() {
                return;
            }
        }
    }

    async fn alone(&mut self, job: Job) {
        match self.finished(std::slice::from_ref(&job)).await {
            Ok(done) => done.into_iter().zip([job]).for_each(|(done, job)| job.done(done)),
            Err(Ended::Elsewhere(closed)) => job.elsewhere(&closed),
            Err(Ended::Unfinished(why)) => job.failed(&why),
        }
    }

    /// One transaction, run again as long as it loses races.
    async fn finished(&mut self, jobs: &[Job]) -> Result<Vec<Done>, Ended> {
        let began = Instant::now();
        let mut tries = 0;
        let mut guess = job::guess(jobs, &self.context);
        let done = loop {
            tries += 1;
            let guess = guess.take();
            let is_guessed = guess.is_some();
            let failed = match self.transaction(jobs, guess).await {
                Ok(done) => {
                    job::learn(&self.context, jobs, &done);
                    if is_guessed {
                        self.context.leased.trust();
                    }
                    break Ok(done);
                }
                Err(failed) => failed,
            };
            if is_guessed && matches!(failed, Failed::Raced(sqlx::Error::RowNotFound)) {
                self.context.leased.doubt();
            }
            match failed {
                Failed::Raced(_) if tries < TRIES_MAX => sleep(pause(tries)).await,
                // It may have been idle for too long, which is nobody's fault.
                Failed::Gone(_) if tries == 1 => {}
                Failed::Elsewhere(closed) => break Err(Ended::Elsewhere(closed)),
                failed => break Err(Ended::Unfinished(self.unfinished(failed))),
            }
        };
        let took = began.elapsed();
        if took > SLOW {
            let rows: usize = jobs.iter().map(Job::rows).sum();
            let took_ms = took.as_millis();
            tracing::warn!(took_ms, jobs = jobs.len(), rows, tries, at = %self.door, "a slow transaction");
        }
        done
    }

    fn unfinished(&self, failed: Failed) -> Unfinished {
        let at = self.door.to_string();
        let (happened, blames_a_job, source) = match failed {
            Failed::Raced(source) => (Happened::No, true, Error::Database { at, source }),
            Failed::Gone(source) => (Happened::No, false, Error::Database { at, source }),
            Failed::Refused(source) => (Happened::No, true, source),
            Failed::Elsewhere(_) => (Happened::No, false, Error::Closed),
            Failed::Unknown(source) => (Happened::Maybe, false, source),
        };
        let may_have_happened = happened == Happened::Maybe;
        tracing::warn!(error = %source, may_have_happened, "a transaction failed");
        Unfinished { happened, source: Arc::new(source), blames_a_job }
    }

    /// The connection is given up whenever it is not known to be outside of a transaction.
    async fn transaction(&mut self, jobs: &[Job], guess: Option<Guess>) -> Result<Vec<Done>, Failed> {
        let mut conn = match self.conn.take() {
            Some(conn) => conn,
            None => self.door.connect().await.map_err(Failed::Gone)?,
        };
        self.ledger.clear();
        let work = AssertUnwindSafe(self.work(&mut conn, jobs, guess)).catch_unwind();
        let (done, trips) = match timeout(SILENT_AFTER, work).await {
            Ok(Ok(Ok(done))) => done,
            Ok(Ok(Err(error))) => {
                if undo(&mut conn).await {
                    self.conn = Some(conn);
                }
                return Err(self.before_commit(error));
            }
            Ok(Err(panic)) => return Err(Failed::Refused(Error::Panicked(message(panic.as_ref())))),
            Err(_) => return Err(Failed::Refused(Error::Silent { at: self.door.to_string() })),
        };
        self.commit(conn, trips).await?;
        Ok(done)
    }

    async fn work(
        &mut self,
        conn: &mut MySqlConnection,
        jobs: &[Job],
        guess: Option<Guess>,
    ) -> Result<(Vec<Done>, Trips), Stopped> {
        let wanted = self.wanted(jobs);
        let Guess { look: first, leases, fresh } =
            guess.unwrap_or_else(|| Guess { look: job::first_look(jobs), ..Guess::default() });
        let look = first.as_ref().map(FirstLook::sql);
        let Begun { open, pause_epoch, found } = hosted::begin(conn, &wanted, look.as_deref()).await?;
        let closed: BTreeSet<Partition> = wanted.these.difference(&open).copied().collect();
        if !closed.is_empty() {
            return Err(Stopped::Elsewhere(closed));
        }
        if let Some(epoch) = pause_epoch {
            self.pauses.look(conn, epoch).await?;
        }
        let mut trips = Trips::new(first.map(|it| it.answered(found)));
        let mut shared = Shared {
            trips: &mut trips,
            ledger: &mut self.ledger,
            context: &self.context,
            open: &open,
            pauses: &self.pauses,
            leases,
            fresh,
        };
        let done = job::run(conn, &mut shared, jobs).await?;
        self.ledger.write_at_last(&mut trips);
        Ok((done, trips))
    }

    fn wanted(&self, jobs: &[Job]) -> Wanted {
        let mut wanted = Wanted::default();
        for it in jobs {
            match it.partitions() {
                Some(these) => wanted.these.extend(these),
                None => wanted.any = true,
            }
            wanted.hands_over |= it.hands_over();
        }
        // No row can be in any other: nothing to hold.
        wanted.these.retain(|it| it.0 < self.context.partitions);
        wanted
    }

    fn before_commit(&self, stopped: Stopped) -> Failed {
        let at = self.door.to_string();
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

    /// What was kept for last goes along: the first of it that fails keeps the server from the COMMIT.
    async fn commit(&mut self, mut conn: MySqlConnection, trips: Trips) -> Result<(), Failed> {
        let at = || self.door.to_string();
        let (text, before) = trips.commit();
        let mut done = 0;
        let sent = async {
            let mut answers = sqlx::raw_sql(AssertSqlSafe(text)).fetch_many(&mut conn);
            while let Some(it) = answers.try_next().await? {
                done += usize::from(it.is_left());
            }
            Ok(())
        };
        match timeout(SILENT_AFTER, sent).await {
            Ok(Ok(())) => {
                self.conn = Some(conn);
                Ok(())
            }
            // Said by the server, and not of the commit.
            Ok(Err(error)) if done < before && code(&error).is_some() => {
                if undo(&mut conn).await {
                    self.conn = Some(conn);
                }
                Err(self.before_commit(Stopped::Database(error)))
            }
            // A cluster that certifies at the commit says so with a deadlock: nothing of it is left.
            Ok(Err(error)) if was_raced(&error) => Err(Failed::Raced(error)),
            Ok(Err(source)) => Err(Failed::Unknown(Error::Database { at: at(), source })),
            Err(_) => Err(Failed::Unknown(Error::Silent { at: at() })),
        }
    }
}

/// True: the connection is outside of any transaction.
async fn undo(conn: &mut MySqlConnection) -> bool {
    matches!(timeout(SILENT_AFTER, control(conn, "ROLLBACK")).await, Ok(Ok(())))
}

/// A statement of transaction control.
async fn control(conn: &mut MySqlConnection, control: &'static str) -> sqlx::Result<()> {
    sqlx::raw_sql(control).execute(conn).await.map(drop)
}

/// Deadlock, lock timeout, or a row that another engine inserted between the look and the insert. The first two are
/// the usual end of a race; the third is decided anew by what stands now.
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

fn pause(tries: u32) -> Duration {
    AGAIN_AFTER * (tries - 1).pow(2)
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|it| (*it).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
