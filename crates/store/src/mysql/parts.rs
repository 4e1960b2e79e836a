//! The databases of a store as an engine has them: writers by their lines, and readers. Which items of a call go to which of
//! them. Must not run any of the work.

use super::{
    MySqlState, MysqlOptions, SLOTS,
    connections::Connections,
    insert::Context,
    job::Job,
    line::{self, JobQueue, WriterKind},
    session::DatabaseAddress,
    spawn,
    writer::Writer,
};
use punctual_domain::place::Partition;
use std::sync::Arc;
use tokio::{sync::Semaphore, task::JoinHandle};

/// Items that wait in one line, with their numbers. None: in no database that this engine knows.
pub(super) type Part<'a, T> = (Option<&'a Arc<JobQueue<Job>>>, Vec<usize>, Vec<T>);

/// One database.
pub(super) struct Shard {
    /// By the lane, in the order of `WriterKind::ALL`.
    pub(super) lines: [Vec<Arc<JobQueue<Job>>>; WriterKind::ALL.len()],
    pub(super) readers: Connections,
    /// How many readers long searches may have at once: short reads never wait for all of them.
    pub(super) long: Arc<Semaphore>,
}

impl Shard {
    pub(super) fn start(
        address: &DatabaseAddress,
        options: &MysqlOptions,
        mut slot: i64,
        context: &Arc<Context>,
        running: &mut Vec<JoinHandle<()>>,
    ) -> Self {
        let mut start = |lane: WriterKind, (line, writers): (Arc<JobQueue<Job>>, usize)| {
            for _ in 0..writers {
                slot += 1;
                let its_slot = i32::try_from(slot.rem_euclid(SLOTS)).unwrap_or_default();
                let writer = Writer::new(address, (lane, Arc::clone(&line)), context, its_slot);
                running.push(spawn(writer.run()));
            }
            line
        };
        let writers = options.writers_per_database.clamp(1, 8);
        let lines =
            WriterKind::ALL.map(|lane| line::lines(lane, writers).map(|line| start(lane, line)).collect());
        let readers = options.readers_per_database.max(2);
        let long = Arc::new(Semaphore::new(usize::try_from(readers / 2).unwrap_or(1)));
        Self { lines, readers: address.connections(readers), long }
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

    /// Where the partition is, as far as this engine knows.
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
