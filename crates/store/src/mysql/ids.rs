//! Row ids: ascending, given out once. The catalog gives blocks of them, so that inserts into several databases by
//! several engines need no counter in common. What is left of a block when an engine stops is never used.

use super::{
    connections::Connections,
    statements::sql,
    timeouts::{URGENT, twice},
};
use sqlx::MySqlConnection;
use tokio::sync::{Mutex, MutexGuard};

/// Ids of one block: at 100,000 tasks/s ten blocks a second, each one short statement.
const BLOCK: i64 = 10_000;

#[derive(Debug)]
pub(crate) struct Ids {
    catalog: Connections,
    free: Mutex<std::ops::Range<i64>>,
}

impl Ids {
    pub(crate) fn new(catalog: Connections) -> Self {
        Self { catalog, free: Mutex::new(0..0) }
    }

    /// Ascending ids that no other caller gets.
    pub(crate) async fn take(&self, count: usize) -> sqlx::Result<Vec<i64>> {
        Ok(self.take_in_turn(count).await?.0)
    }

    /// The same. Who asks next waits until the turn is over.
    pub(crate) async fn take_in_turn(&self, count: usize) -> sqlx::Result<(Vec<i64>, Turn<'_>)> {
        let mut ids = Vec::with_capacity(count);
        let mut free = self.free.lock().await;
        while ids.len() < count {
            if free.is_empty() {
                let end = counted(&self.catalog, "last_id", BLOCK).await? + 1;
                *free = end - BLOCK..end;
            }
            ids.extend(free.by_ref().take(count - ids.len()));
        }
        Ok((ids, Turn { _free: free }))
    }
}

/// The turn of a caller. Callers get their turns in the order of their calls.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    _free: MutexGuard<'a, std::ops::Range<i64>>,
}

/// Adds to a counter of the catalog and answers its new value. Perhaps twice: numbers that no caller got are left out.
pub(crate) async fn counted(catalog: &Connections, name: &'static str, by: i64) -> sqlx::Result<i64> {
    twice(URGENT, || async { counted_by(&mut *catalog.acquire().await?, name, by).await }).await
}

pub(crate) async fn counted_by(
    catalog: &mut MySqlConnection,
    name: &'static str,
    by: i64,
) -> sqlx::Result<i64> {
    let done = sqlx::query(sql!(shards, take_numbers)).bind(by).bind(name).execute(catalog).await?;
    i64::try_from(done.last_insert_id())
        .ok()
        .filter(|insert_id| *insert_id > 0)
        .ok_or(sqlx::Error::RowNotFound)
}
