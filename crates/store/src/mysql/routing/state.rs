//! The engine's view of the place of each partition, and the time for which a call has searched for one. It may be
//! outdated: the databases refuse what comes to the wrong place (`hosted`). Must know no step that waits for a
//! partition.

use crate::{
    Error,
    mysql::{
        connections::Connections,
        session::DatabaseAddress,
        shards::placement::{self, Placement},
        timeouts::{READ, within},
    },
};
use parking_lot::RwLock;
use std::sync::Arc;
use tokio::{sync::Notify, time::Instant};

#[derive(Debug)]
pub(crate) struct Routing {
    /// The number of the cluster: a database that is added later must have the same.
    cluster: i64,
    now: RwLock<Arc<Placement>>,
    reading: tokio::sync::Mutex<Option<Instant>>,
    pub(super) closing: Notify,
}

impl Routing {
    pub(crate) fn new(cluster: i64, placement: Placement) -> Self {
        let now = RwLock::new(Arc::new(placement));
        Self { cluster, now, reading: tokio::sync::Mutex::new(None), closing: Notify::new() }
    }

    pub(crate) fn placement(&self) -> Arc<Placement> {
        Arc::clone(&self.now.read())
    }

    /// The placement is known here as the catalog says it.
    pub(crate) fn is_current(&self, version: i64, members: usize) -> bool {
        let known = self.now.read();
        (version, members) == (known.version, known.members)
    }

    pub(crate) fn close(&self) {
        self.closing.notify_one();
    }

    /// Reads the placement again if there is a newer one. Calls that come while one reads are served by the next
    /// reading, together.
    pub(crate) async fn read(
        &self,
        catalog: &Connections,
        addresses: &[DatabaseAddress],
    ) -> Result<(), Error> {
        let asked = Instant::now();
        let mut last = self.reading.lock().await;
        if last.is_some_and(|instant| instant > asked) {
            return Ok(());
        }
        let began = Instant::now();
        let look = async { placement::version(&mut *catalog.acquire().await?).await };
        let (version, members) = within(READ, look).await?;
        let known = self.placement();
        if (version, members) != (known.version, known.members) {
            if members > addresses.len() {
                return Err(Error::DatabaseCount { named: addresses.len(), known: members });
            }
            for (nth, address) in addresses.iter().enumerate().take(members).skip(known.members) {
                placement::is_member(address, self.cluster, nth).await?;
            }
            let read = async { placement::read(&mut *catalog.acquire().await?, version, members).await };
            if let Some(new) = within(READ, read).await? {
                tracing::info!(version, members, "the placement of partitions has changed");
                *self.now.write() = Arc::new(new);
            }
        }
        *last = Some(began);
        Ok(())
    }
}

/// The tries of one call that came to the wrong place.
#[derive(Debug)]
pub(crate) struct Patience {
    pub(super) began: Instant,
    pub(super) tries: u32,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), tries: 0 }
    }
}
