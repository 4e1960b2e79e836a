//! Where this engine believes each partition to be, and what it does when it was wrong: it reads the placement again and
//! asks there. Only a belief: the databases refuse what comes to the wrong place (`hosted`). Also looks, now and then,
//! after moves whose mover has died, and after pauses that did not come to every database.

use super::{
    MySqlState,
    connections::Connections,
    limits::{READ, within},
    moving,
    session::DatabaseAddress,
    shards::{self, Placement},
    to_its_end,
};
use crate::Error;
use futures_util::FutureExt as _;
use parking_lot::RwLock;
use punctual_domain::{place::Partition, time::Span};
use std::{
    collections::BTreeSet,
    panic::AssertUnwindSafe,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout},
};

/// How long a call waits for a partition that is between two databases. With the longest transaction it stays below
/// what `floor::LATE_MS` allows for a row that appears late.
const PATIENCE: Duration = Duration::from_secs(15);
/// Between two tries, longer each time.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// How often the placement is looked at although nothing was missed.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Routing {
    /// Of the cluster: what a database must be of that is met later.
    cluster: i64,
    now: RwLock<Arc<Placement>>,
    reading: tokio::sync::Mutex<Option<Instant>>,
    closing: Notify,
}

impl Routing {
    pub(crate) fn new(cluster: i64, placement: Placement) -> Self {
        let now = RwLock::new(Arc::new(placement));
        Self { cluster, now, reading: tokio::sync::Mutex::new(None), closing: Notify::new() }
    }

    pub(crate) fn placement(&self) -> Arc<Placement> {
        Arc::clone(&self.now.read())
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
        let look = async { shards::version(&mut *catalog.acquire().await?).await };
        let (version, members) = within(READ, look).await?;
        let known = self.placement();
        if (version, members) != (known.version, known.members) {
            if members > addresses.len() {
                return Err(Error::DatabaseCount { named: addresses.len(), known: members });
            }
            for (nth, address) in addresses.iter().enumerate().take(members).skip(known.members) {
                shards::is_member(address, self.cluster, nth).await?;
            }
            let read = async { shards::read(&mut *catalog.acquire().await?, version, members).await };
            if let Some(new) = within(READ, read).await? {
                tracing::info!(version, members, "the placement of partitions has changed");
                *self.now.write() = Arc::new(new);
            }
        }
        *last = Some(began);
        Ok(())
    }
}

/// Of one call that came to the wrong place.
#[derive(Debug)]
pub(crate) struct Patience {
    began: Instant,
    tries: u32,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), tries: 0 }
    }
}

impl MySqlState {
    /// After a call came to the wrong place: finds out where its partitions are, or waits a little for them.
    pub(crate) async fn follow(
        self: &Arc<Self>,
        patience: &mut Patience,
        partitions: &BTreeSet<Partition>,
    ) -> Result<(), Error> {
        let waited = patience.began.elapsed();
        if waited > PATIENCE {
            let partition = partitions.first().map_or(0, |partition| partition.0);
            return Err(Error::PartitionAway { partition, waited: Span::of(waited) });
        }
        let before = self.routing.placement();
        let inner = Arc::clone(self);
        patience.tries += 1;
        // In a task of its own: the caller may hang up.
        let look = to_its_end(async move { inner.routing.read(&inner.catalog, &inner.addresses).await });
        look.await.map_err(|error| Error::Panicked(error.to_string()))??;
        let now = self.routing.placement();
        if partitions.iter().all(|partition| now.shard_of(*partition) == before.shard_of(*partition)) {
            sleep((PAUSE_MIN * patience.tries).min(PAUSE_MAX)).await;
        }
        Ok(())
    }
}

/// Looks at the placement and at moves, until the store is gone or closed.
pub(crate) async fn keep(inner: Weak<MySqlState>, routing: Arc<Routing>) {
    while timeout(LOOK_INTERVAL, routing.closing.notified()).await.is_err() {
        let Some(inner) = inner.upgrade() else { return };
        let looked = async {
            routing.read(&inner.catalog, &inner.addresses).await?;
            inner.spread.mend(&inner.catalog, &inner.addresses).await?;
            moving::mend(&inner.catalog, &inner.addresses).await
        };
        let Ok(looked) = AssertUnwindSafe(looked).catch_unwind().await else {
            tracing::error!("a look at the placement panicked; again in a second");
            continue;
        };
        match looked {
            Ok(()) => {}
            Err(
                error @ (Error::DatabaseCount { .. } | Error::WrongPlace { .. } | Error::OtherCluster { .. }),
            ) => {
                tracing::error!(%error, "this engine does not know all databases of its cluster");
            }
            Err(error) => tracing::debug!(%error, "the placement could not be read; again in a second"),
        }
    }
}
