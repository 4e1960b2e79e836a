//! One connection that writes. What waits for it together is committed together; a job that cannot be done is told
//! so, and takes no other down with it. Runs in a task of its own: whoever hangs up drops an answer, not the work.

use super::{
    insert::Context,
    job::{self, Done, Job},
    ledger::Ledger,
    line::Line,
    session::Door,
};
use crate::Error;
use futures_util::FutureExt as _;
use punctual_contract::Happened;
use sqlx::{Connection as _, MySqlConnection, mysql::MySqlDatabaseError};
use std::{any::Any, panic::AssertUnwindSafe, sync::Arc, time::Duration};
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
    /// The commit was sent, and its answer was lost.
    Unknown(Error),
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
            self.serve(batch).await;
            if !self.pace.is_zero() {
                sleep_until(next_at).await;
            }
        }
        if let Some(conn) = self.conn.take() {
            drop(conn.close().await);
        }
    }

    async fn serve(&mut self, batch: Vec<Job>) {
        let done = self.finished(&batch).await;
        if batch.len() > 1 && done.as_ref().is_err_and(|it| it.blames_a_job) {
            for job in batch {
                let alone = std::slice::from_ref(&job);
                let done = self.finished(alone).await;
                answer(vec![job], done);
            }
        } else {
            answer(batch, done);
        }
    }

    /// One transaction, run again as long as it loses races.
    async fn finished(&mut self, jobs: &[Job]) -> Result<Vec<Done>, Unfinished> {
        let began = Instant::now();
        let mut tries = 0;
        let done = loop {
            tries += 1;
            let failed = match self.transaction(jobs).await {
                Ok(done) => break Ok(done),
                Err(failed) => failed,
            };
            match failed {
                Failed::Raced(_) if tries < TRIES_MAX => sleep(pause(tries)).await,
                // It may have been idle for too long, which is nobody's fault.
                Failed::Gone(_) if tries == 1 => {}
                failed => break Err(self.unfinished(failed)),
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
            Failed::Unknown(source) => (Happened::Maybe, false, source),
        };
        let may_have_happened = happened == Happened::Maybe;
        tracing::warn!(error = %source, may_have_happened, "a transaction failed");
        Unfinished { happened, source: Arc::new(source), blames_a_job }
    }

    /// The connection is given up whenever it is not known to be outside of a transaction.
    async fn transaction(&mut self, jobs: &[Job]) -> Result<Vec<Done>, Failed> {
        let mut conn = match self.conn.take() {
            Some(conn) => conn,
            None => self.door.connect().await.map_err(Failed::Gone)?,
        };
        self.ledger.clear();
        let work = AssertUnwindSafe(self.work(&mut conn, jobs)).catch_unwind();
        let done = match timeout(SILENT_AFTER, work).await {
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
        self.commit(conn).await?;
        Ok(done)
    }

    async fn work(&mut self, conn: &mut MySqlConnection, jobs: &[Job]) -> sqlx::Result<Vec<Done>> {
        control(conn, "BEGIN").await?;
        let done = job::run(conn, &mut self.ledger, &self.context, jobs).await?;
        self.ledger.write(conn).await?;
        Ok(done)
    }

    fn before_commit(&self, error: sqlx::Error) -> Failed {
        let at = self.door.to_string();
        match &error {
            sqlx::Error::RowNotFound => Failed::Raced(error),
            _ if was_raced(&error) => Failed::Raced(error),
            sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::WorkerCrashed => Failed::Gone(error),
            _ if was_ended(&error) => Failed::Gone(error),
            _ => Failed::Refused(Error::Database { at, source: error }),
        }
    }

    async fn commit(&mut self, mut conn: MySqlConnection) -> Result<(), Failed> {
        let at = || self.door.to_string();
        match timeout(SILENT_AFTER, control(&mut conn, "COMMIT")).await {
            Ok(Ok(())) => {
                self.conn = Some(conn);
                Ok(())
            }
            // A cluster that certifies at the commit says so with a deadlock: nothing of it is left.
            Ok(Err(error)) if was_raced(&error) => Err(Failed::Raced(error)),
            Ok(Err(source)) => Err(Failed::Unknown(Error::Database { at: at(), source })),
            Err(_) => Err(Failed::Unknown(Error::Silent { at: at() })),
        }
    }
}

fn answer(batch: Vec<Job>, done: Result<Vec<Done>, Unfinished>) {
    match done {
        Ok(done) => batch.into_iter().zip(done).for_each(|(job, done)| job.done(done)),
        Err(why) => batch.into_iter().for_each(|it| it.failed(&why)),
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
