//! The state of a store: its databases, where this engine believes each partition to be, and what its calls share. All steps
//! import it; it must import none of them.

use super::{
    archive::state::Archive,
    chunks::pruning::Pruning,
    connections::Connections,
    floor::Floors,
    insert::ask::Context,
    job::Job,
    line::{JobQueue, WriterKind},
    parts::Shard,
    pauses::Spread,
    routing::state::Routing,
    session::DatabaseAddress,
    shards::placement::Cluster,
};
use punctual_domain::place::Partition;
use std::{collections::BTreeMap, fmt, sync::Arc};
use tokio::task::JoinHandle;

/// The items that wait in one line, with their indexes. `None` is for those in no database that this engine knows.
pub(super) type Part<'a, T> = (Option<&'a Arc<JobQueue<Job>>>, Vec<usize>, Vec<T>);

/// See `Store` for what it promises. Dropping it finishes what was begun, in the background; `close` waits for that.
pub struct MysqlStore {
    pub(super) inner: Arc<MySqlState>,
    pub(super) migrated: Vec<String>,
    pub(super) running: parking_lot::Mutex<Vec<JoinHandle<()>>>,
    pub(super) archive: Option<Archive>,
}

/// The state that all calls of a store share.
pub(super) struct MySqlState {
    pub(super) cluster: Cluster,
    pub(super) routing: Arc<Routing>,
    /// All databases that are named; the cluster may not have the last of them yet.
    pub(super) addresses: Vec<DatabaseAddress>,
    pub(super) shards: Vec<Shard>,
    pub(super) catalog: Connections,
    pub(super) access: Connections,
    pub(super) context: Arc<Context>,
    pub(super) floors: Floors,
    pub(super) spread: Spread,
    /// The searches by the numbers of databases.
    pub(super) pruning: parking_lot::Mutex<BTreeMap<usize, Pruning>>,
}

impl fmt::Debug for MysqlStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MysqlStore")
            .field("partitions", &self.inner.cluster.partitions)
            .field("databases", &self.inner.members().len())
            .finish_non_exhaustive()
    }
}

impl Drop for MysqlStore {
    fn drop(&mut self) {
        self.inner.close_lines();
        self.inner.routing.close();
    }
}

impl MySqlState {
    pub(super) fn close_lines(&self) {
        self.shards.iter().flat_map(|shard| &shard.lines).flatten().for_each(|line| line.close());
    }

    /// The databases that the cluster has.
    pub(super) fn members(&self) -> &[Shard] {
        let members = self.routing.placement().members;
        self.shards.get(..members).unwrap_or(&self.shards)
    }

    /// The database of the partition, as far as this engine knows.
    pub(super) fn shard(&self, partition: Partition) -> Option<&Shard> {
        self.shards.get(self.routing.placement().shard_of(partition))
    }

    /// Jobs of one lane for a task are always with the same writer of this engine: they do not wait for each other's
    /// locks.
    pub(super) fn line(&self, lane: WriterKind, partition: Partition) -> Option<&Arc<JobQueue<Job>>> {
        let placement = self.routing.placement();
        let lines = self.shards.get(placement.shard_of(partition))?.lines.get(lane as usize)?;
        // Not by the partition alone: where there are as many databases as writers, some would get nothing.
        let nth = usize::from(partition.0) / placement.members.max(1);
        lines.get(nth % lines.len().max(1))
    }

    /// Items by the line they wait in, with their numbers.
    pub(super) fn apart<T>(
        &self,
        lane: WriterKind,
        items: Vec<(usize, T)>,
        partition: impl Fn(&T) -> Partition,
    ) -> Vec<Part<'_, T>> {
        let mut parts: Vec<Part<'_, T>> = Vec::new();
        let same = |a: Option<&Arc<JobQueue<Job>>>, b: Option<&Arc<JobQueue<Job>>>| match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        };
        for (nth, item) in items {
            let line = self.line(lane, partition(&item));
            match parts.iter_mut().find(|part| same(part.0, line)) {
                Some((_, numbers, part)) => {
                    numbers.push(nth);
                    part.push(item);
                }
                None => parts.push((line, vec![nth], vec![item])),
            }
        }
        parts
    }
}
