//! Recovers when an engine searched for a partition in the wrong place: it reads the placement again and asks there.
//! Also checks, now and then, for moves whose mover has died, and for pauses that did not reach every database. Must
//! decide nothing about a move: that is the task of `moving`.

pub(super) mod state;

use super::{
    background::to_its_end,
    moving::steps::mend,
    shards::placement,
    state::MySqlState,
    timeouts::{READ, within},
};
use crate::Error;
use futures_util::FutureExt as _;
use punctual_domain::{place::Partition, time::Span};
use state::{Patience, Routing};
use std::{
    collections::BTreeSet,
    panic::AssertUnwindSafe,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::time::{sleep, timeout};

/// The time limit of a call's wait for a partition that is between two databases. With the longest transaction it
/// stays below what `floor::LATE_MS` allows for a row that appears late.
const PATIENCE: Duration = Duration::from_secs(15);
/// The first pause between two tries. It grows each time.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// The interval of reads of the placement, although nothing was missed.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

impl MySqlState {
    /// Finds the places of the partitions of a call that came to the wrong place, or waits briefly for them.
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

/// Polls the placement and moves, until the store is gone or closed.
pub(crate) async fn keep(inner: Weak<MySqlState>, routing: Arc<Routing>) {
    while timeout(LOOK_INTERVAL, routing.closing.notified()).await.is_err() {
        let Some(inner) = inner.upgrade() else { return };
        let looked = async {
            let watch = inner.catalog.read_unasked(async |conn| placement::watched(conn).await);
            let seen = within(READ, watch).await?;
            if !routing.is_current(seen.version, seen.members) {
                routing.read(&inner.catalog, &inner.addresses).await?;
            }
            if !inner.spread.is_current(seen.pauses_revision, seen.members) {
                inner.spread.mend(&inner.catalog, &inner.addresses).await?;
            }
            if seen.moves { mend(&inner.catalog, &inner.addresses).await } else { Ok(()) }
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
