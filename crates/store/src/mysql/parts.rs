//! One database of a store as an engine has it: the lines of its writers, and its readers. Must not run any of the work.

use super::{
    connections::{Connections, Lent},
    job::Job,
    line::{JobQueue, WriterKind},
};
use crate::Error;
use std::sync::Arc;
use tokio::sync::{Semaphore, SemaphorePermit};

/// One database.
pub(super) struct Shard {
    /// The lines by lane, in the order of `WriterKind::ALL`.
    pub(super) lines: [Vec<Arc<JobQueue<Job>>>; WriterKind::ALL.len()],
    pub(super) readers: Connections,
    /// The readers that long searches may use at once: short reads never wait for all of them.
    pub(super) long: Arc<Semaphore>,
}

impl Shard {
    pub(super) async fn reader(&self) -> sqlx::Result<Lent> {
        self.readers.acquire().await
    }

    /// Adds the address to the error: with several databases it must name one.
    pub(super) fn failed(&self, source: sqlx::Error) -> Error {
        self.readers.address().failed(source)
    }

    /// Acquires a reader for a read that may take long.
    pub(super) async fn long_reader(&self) -> sqlx::Result<(SemaphorePermit<'_>, Lent)> {
        let permit = self.long.acquire().await.map_err(|_| sqlx::Error::PoolClosed)?;
        Ok((permit, self.readers.acquire().await?))
    }
}
