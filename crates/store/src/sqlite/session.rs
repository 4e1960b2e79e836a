//! The one connection that writes, and its transactions. Whatever fails, the next transaction begins clean, and
//! what is said about the failed one is true: not done, or perhaps done.

use super::{ledger::Ledger, template::TemplateFile};
use crate::Error;
use punctual_contract::Happened;
use rusqlite::{Connection, ErrorCode};
use std::{any::Any, panic, panic::AssertUnwindSafe, sync::Arc};

#[derive(Debug)]
pub(crate) struct Session {
    conn: Connection,
    ledger: Ledger,
}

/// A transaction that was not confirmed: each of its jobs is notified.
#[derive(Clone, Debug)]
pub(crate) struct Unfinished {
    pub(crate) happened: Happened,
    pub(crate) source: Arc<rusqlite::Error>,
}

impl Unfinished {
    fn before_commit(source: rusqlite::Error) -> Self {
        Self { happened: Happened::No, source: Arc::new(source) }
    }
}

/// Why one job failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failed {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Panicked(Error),
}

impl Session {
    pub(crate) fn new(conn: Connection) -> rusqlite::Result<Self> {
        let ledger = Ledger::load(&conn)?;
        Ok(Self { conn, ledger })
    }

    /// Resets the session to the state of [`Session::new`] on a new database.
    pub(crate) fn renew(&mut self, template: &TemplateFile) -> rusqlite::Result<()> {
        self.undo();
        template.restore(&self.conn)?;
        self.ledger = Ledger::load(&self.conn)?;
        Ok(())
    }

    pub(crate) const fn conn(&self) -> &Connection {
        &self.conn
    }

    pub(crate) const fn conn_mut(&mut self) -> &mut Connection {
        &mut self.conn
    }

    pub(crate) fn begin(&mut self) -> Result<(), Unfinished> {
        self.undo();
        run(&self.conn, "BEGIN IMMEDIATE").map_err(Unfinished::before_commit)
    }

    /// Runs one job of a transaction: its own changes are undone if it fails, and no others. Returns `Err` if the
    /// failure has ended the complete transaction (disk full does).
    pub(crate) fn apart<T>(
        &mut self,
        work: impl FnOnce(&Connection, &mut Ledger) -> rusqlite::Result<T>,
    ) -> Result<Result<T, Failed>, Unfinished> {
        let mark = self.ledger.mark();
        run(&self.conn, "SAVEPOINT job").map_err(Unfinished::before_commit)?;
        let failed = match self.caught(work) {
            Ok(done) => {
                run(&self.conn, "RELEASE job").map_err(Unfinished::before_commit)?;
                return Ok(Ok(done));
            }
            Err(failed) => failed,
        };
        self.ledger.cut(mark);
        if self.conn.is_autocommit() {
            return Err(Unfinished::before_commit(ended(failed)));
        }
        let undone = run(&self.conn, "ROLLBACK TO job").and_then(|()| run(&self.conn, "RELEASE job"));
        undone.map_err(Unfinished::before_commit)?;
        Ok(Err(failed))
    }

    fn caught<T>(
        &mut self,
        work: impl FnOnce(&Connection, &mut Ledger) -> rusqlite::Result<T>,
    ) -> Result<T, Failed> {
        let Self { conn, ledger } = self;
        caught(|| work(conn, ledger))
    }

    /// One job, alone in its transaction.
    pub(crate) fn alone<T>(
        &mut self,
        work: impl FnOnce(&Connection, &mut Ledger) -> rusqlite::Result<T>,
    ) -> Result<Result<T, Failed>, Unfinished> {
        self.begin()?;
        match self.caught(work) {
            Ok(done) => self.finish().map(|()| Ok(done)),
            Err(failed) => {
                self.undo();
                Ok(Err(failed))
            }
        }
    }

    /// Writes the account and commits.
    pub(crate) fn finish(&mut self) -> Result<(), Unfinished> {
        if let Err(error) = self.ledger.write(&self.conn) {
            self.undo();
            return Err(Unfinished::before_commit(error));
        }
        if let Err(source) = run(&self.conn, "COMMIT") {
            let happened = if self.undo() { after_rollback(&source) } else { Happened::Maybe };
            return Err(Unfinished { happened, source: Arc::new(source) });
        }
        self.ledger.committed();
        Ok(())
    }

    /// Ends what is open, so that the next transaction can begin. True if nothing of it is left.
    pub(crate) fn undo(&mut self) -> bool {
        self.ledger.undone();
        if self.conn.is_autocommit() {
            return true;
        }
        let done = run(&self.conn, "ROLLBACK");
        if let Err(error) = &done {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
        done.is_ok() && self.conn.is_autocommit()
    }
}

/// Work that panics fails, and takes nothing else down.
pub(crate) fn caught<T>(work: impl FnOnce() -> rusqlite::Result<T>) -> Result<T, Failed> {
    match panic::catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => Ok(result?),
        Err(payload) => Err(Failed::Panicked(Error::Panicked(message(payload.as_ref())))),
    }
}

/// A commit that found no room had not written its last page, and one that met a lock had written nothing. After
/// an I/O error the last page may be on the medium: a crash before the next commit would bring it back.
fn after_rollback(error: &rusqlite::Error) -> Happened {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::ConstraintViolation) => Happened::No,
        _ => Happened::Maybe,
    }
}

fn ended(failed: Failed) -> rusqlite::Error {
    match failed {
        Failed::Sqlite(error) => error,
        Failed::Panicked(error) => rusqlite::Error::ToSqlConversionFailure(error.into()),
    }
}

/// A statement of transaction control.
fn run(conn: &Connection, control: &'static str) -> rusqlite::Result<()> {
    conn.prepare_cached(control)?.raw_execute().map(drop)
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|payload| (*payload).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    #[test]
    fn only_a_commit_that_cannot_be_on_the_medium_is_said_not_to_have_happened() {
        let after = |code| after_rollback(&rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
        for code in [ffi::SQLITE_FULL, ffi::SQLITE_BUSY, ffi::SQLITE_CONSTRAINT] {
            assert_eq!(after(code), Happened::No, "{code}");
        }
        for code in [ffi::SQLITE_IOERR, ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_CORRUPT, ffi::SQLITE_NOMEM] {
            assert_eq!(after(code), Happened::Maybe, "{code}");
        }
    }
}
