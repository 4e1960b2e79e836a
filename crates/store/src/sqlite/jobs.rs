//! Runs work on the connections of a store: on its threads, or, for a store in memory, at once.

use super::{
    SqliteStore, lanes::Lane, ledger::Ledger, options::CHUNK_ROWS, session::Session, state::Runs, threads,
};
use crate::turns::Tenant;
use punctual_contract::{Error as CallError, store::all_of};
use rusqlite::Connection;

impl SqliteStore {
    pub(super) async fn writing<T: Send + 'static>(
        &self,
        doing: &'static str,
        rows: usize,
        work: impl FnOnce(&Connection, &mut Ledger) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, CallError> {
        match &self.runs {
            Runs::Inline(session) => inline(&mut session.lock(), doing, work),
            Runs::OnThreads(threads) => {
                threads::answer(doing, threads.write(doing, Lane::Urgent, rows, work)).await
            }
        }
    }

    /// Runs maintenance work, for which no caller waits.
    pub(super) async fn maintaining<T: Send + 'static>(
        &self,
        doing: &'static str,
        rows: usize,
        work: impl FnOnce(&Connection, &mut Ledger) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, CallError> {
        match &self.runs {
            Runs::Inline(session) => inline(&mut session.lock(), doing, work),
            Runs::OnThreads(threads) => {
                threads::answer(doing, threads.write(doing, Lane::Moves, rows, work)).await
            }
        }
    }

    /// Many rows at once let urgent work get between them. An error: it did not happen only if nothing of it did.
    pub(super) async fn in_chunks<I: Send + 'static, T: Send + 'static>(
        &self,
        (doing, tenant): (&'static str, Tenant),
        items: Vec<I>,
        work: impl Fn(&Connection, &mut Ledger, &[I]) -> rusqlite::Result<Vec<T>> + Clone + Send + 'static,
    ) -> Result<Vec<T>, CallError> {
        let rows = items.len();
        let threads = match &self.runs {
            Runs::Inline(session) => {
                return inline(&mut session.lock(), doing, |conn, ledger| work(conn, ledger, &items));
            }
            Runs::OnThreads(threads) if rows <= CHUNK_ROWS => {
                let job = move |conn: &Connection, ledger: &mut Ledger| work(conn, ledger, &items);
                return threads::answer(doing, threads.write_of(tenant, (doing, Lane::Urgent, rows), job))
                    .await;
            }
            Runs::OnThreads(threads) => threads,
        };
        let begun = |chunk: Vec<I>| {
            let (work, rows) = (work.clone(), chunk.len());
            let job = move |conn: &Connection, ledger: &mut Ledger| work(conn, ledger, &chunk);
            threads.write(doing, Lane::Moves, rows, job)
        };
        let begun: Vec<_> = chunks(items).into_iter().map(begun).collect();
        let mut answers = Vec::with_capacity(begun.len());
        for answer in begun {
            answers.push(threads::answer(doing, answer).await);
        }
        Ok(all_of(answers)?.into_iter().flatten().collect())
    }

    pub(super) async fn reading<T: Send + 'static>(
        &self,
        doing: &'static str,
        lane: Lane,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, CallError> {
        match &self.runs {
            Runs::Inline(session) => {
                work(session.lock().conn()).map_err(|error| CallError::did_not_happen(doing, error))
            }
            Runs::OnThreads(threads) => threads::answer(doing, threads.read(doing, lane, work)).await,
        }
    }
}

pub(super) fn inline<T>(
    session: &mut Session,
    doing: &'static str,
    work: impl FnOnce(&Connection, &mut Ledger) -> rusqlite::Result<T>,
) -> Result<T, CallError> {
    match session.alone(work) {
        Ok(done) => done.map_err(|failed| CallError::did_not_happen(doing, failed)),
        Err(unfinished) => Err(unfinished.reported(doing)),
    }
}

/// Splits a batch into parts of at most `CHUNK_ROWS`, in order.
pub(super) fn chunks<T>(items: Vec<T>) -> Vec<Vec<T>> {
    let mut chunks = Vec::with_capacity(items.len() / CHUNK_ROWS + 1);
    let mut rest = items.into_iter();
    while rest.len() > 0 {
        chunks.push(rest.by_ref().take(CHUNK_ROWS).collect());
    }
    chunks
}
