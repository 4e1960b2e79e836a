//! The hot set in memory. Every method is done when it is first polled: nothing awaits, so nothing awaits while a
//! lock is held, and no runtime is needed.
//!
//! No method holds two locks.

use crate::{
    names::Names,
    ready::ReadySet,
    slice::{ASKS_MAX_BYTES, Slice},
};
use async_trait::async_trait;
use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::{
    Error, Hot,
    hot::{Admission, Depth, HotEntry, Lane, Wholeness, Withdrawn},
    ownership::Tenure,
};
use punctual_domain::{chooser::Draws, name::QueueKey, place::Partition, settings::Retries, time::Millis};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// As many as the store has; 1 at least.
    pub partitions: u16,
}

impl Default for Options {
    fn default() -> Self {
        Self { partitions: 64 }
    }
}

#[derive(Debug)]
pub struct MemoryHot {
    slices: Vec<Mutex<Slice>>,
    ready: Mutex<HashMap<Arc<QueueKey>, ReadySet>>,
    names: Mutex<Names>,
    /// By partition, the newest term in which `is_whole` was asked.
    notes: Mutex<HashMap<Partition, i64>>,
    /// None: as much as there is.
    memory_max_bytes: Option<u64>,
}

/// What is due so soon brings what its hand-over needs.
const ASKS_AHEAD_MS: i64 = 10_000;

/// What an entry costs, with its places in the orders and the index, its queue's name and what the allocator adds: measured
/// with 800,000 of them.
const ENTRY_BYTES: u64 = 560;

impl MemoryHot {
    #[must_use]
    pub fn new(options: Options) -> Self {
        let partitions = options.partitions.max(1);
        let slice = |_| Mutex::new(Slice::new(ASKS_MAX_BYTES / usize::from(partitions)));
        let slices = (0..partitions).map(slice).collect();
        Self {
            slices,
            ready: Mutex::default(),
            names: Mutex::default(),
            notes: Mutex::default(),
            memory_max_bytes: None,
        }
    }

    /// May fill so much memory; near it the engine leaves in the store what is not due soon. What is due soon goes in
    /// whatever the bound is.
    #[must_use]
    pub fn with_memory_max(self, bytes: u64) -> Self {
        Self { memory_max_bytes: Some(bytes), ..self }
    }

    /// What stands in ready sets, for tests: id, fence and task.
    #[doc(hidden)]
    #[must_use]
    pub fn standing(&self) -> Vec<(i64, i64, i64)> {
        self.ready.lock().values().flat_map(ReadySet::standing).collect()
    }

    /// Due, or in a ready set.
    fn entries(&self) -> usize {
        let due = self.slices.iter().map(|slice| slice.lock().len()).sum::<usize>();
        let ready = self.ready.lock().values().map(|set| set.len() + set.parked()).sum::<usize>();
        due + ready
    }

    fn slice(&self, doing: &'static str, partition: Partition) -> Result<&Mutex<Slice>, Error> {
        self.slices.get(usize::from(partition.0)).ok_or_else(|| {
            let problem =
                format!("partition {} does not exist: there are {}", partition.0, self.slices.len());
            Error::did_not_happen(doing, problem)
        })
    }

    fn with_shared_name(&self, entry: HotEntry) -> HotEntry {
        self.names.lock().shared(entry)
    }
}

#[async_trait]
impl Hot for MemoryHot {
    async fn load(&self, entries: Vec<HotEntry>) -> Result<usize, Error> {
        const DOING: &str = "load entries";
        for entry in &entries {
            self.slice(DOING, entry.place.partition)?;
        }
        let mut put = 0;
        for entry in entries {
            let entry = self.with_shared_name(entry);
            put += usize::from(self.slice(DOING, entry.place.partition)?.lock().load(entry));
        }
        Ok(put)
    }

    async fn drain(
        &self,
        tenures: &[Tenure],
        until: Millis,
        limit: usize,
    ) -> Vec<Result<Vec<HotEntry>, Error>> {
        let drain = |tenure: &Tenure| {
            let slice = self.slice("drain what is due", tenure.partition)?;
            Ok(slice.lock().drain(tenure.term, until, limit))
        };
        tenures.iter().map(drain).collect()
    }

    async fn withdraw(&self, partition: Partition, id: i64, fence: i64) -> Result<Withdrawn, Error> {
        Ok(self.slice("withdraw an entry", partition)?.lock().withdraw(id, fence))
    }

    async fn offer(&self, entries: Vec<HotEntry>, retries: Retries) -> Result<usize, Error> {
        let mut put = 0;
        for entry in entries {
            let entry = self.with_shared_name(entry);
            let mut ready = self.ready.lock();
            put += usize::from(ready.entry(Arc::clone(&entry.queue)).or_default().put(entry, retries));
        }
        Ok(put)
    }

    async fn are_ready(&self, entries: &[HotEntry]) -> Result<Vec<bool>, Error> {
        let ready = self.ready.lock();
        let is_ready = |entry: &HotEntry| {
            ready.get(&entry.queue).is_some_and(|set| set.fence(entry.place.id) == Some(entry.fence))
        };
        Ok(entries.iter().map(is_ready).collect())
    }

    async fn discard(&self, entries: &[HotEntry]) -> Result<(), Error> {
        let mut ready = self.ready.lock();
        for entry in entries {
            let Some(set) = ready.get_mut(&entry.queue) else { continue };
            set.remove(entry.place.id, entry.fence);
            if set.is_empty() {
                ready.remove(&entry.queue);
            }
        }
        Ok(())
    }

    async fn admit(&self, queue: &QueueKey, admission: Admission) -> Result<Vec<HotEntry>, Error> {
        let mut ready = self.ready.lock();
        let Some(set) = ready.get_mut(queue) else { return Ok(Vec::new()) };
        let (mut admitted, mut draws) = (Vec::new(), Draws::new(admission.seed));
        while admitted.len() < admission.limit {
            let Some(entry) = set.pop(&admission, &mut draws) else { break };
            admitted.push(entry);
        }
        if set.is_empty() {
            ready.remove(queue);
        }
        Ok(admitted)
    }

    async fn park(&self, lane: &Lane, entries: Vec<HotEntry>, retries: Retries) -> Result<(), Error> {
        for entry in entries {
            let entry = self.with_shared_name(entry);
            self.ready.lock().entry(Arc::clone(&entry.queue)).or_default().park(lane, entry, retries);
        }
        Ok(())
    }

    async fn unpark(&self, queue: &QueueKey, lane: &Lane, limit: usize) -> Result<usize, Error> {
        Ok(self.ready.lock().get_mut(queue).map_or(0, |it| it.unpark(lane, limit)))
    }

    async fn lanes(
        &self,
        queue: &QueueKey,
        after: Option<&Lane>,
        limit: usize,
    ) -> Result<Vec<(Lane, usize)>, Error> {
        Ok(self.ready.lock().get(queue).map_or_else(Vec::new, |it| it.lanes(after, limit)))
    }

    async fn depth(&self) -> Result<Depth, Error> {
        let mut depth = Depth::default();
        for slice in &self.slices {
            depth.due += slice.lock().len();
        }
        for (queue, set) in self.ready.lock().iter() {
            let counted = |count: usize| (count > 0).then(|| (Arc::clone(queue), count));
            depth.ready.extend(counted(set.len()));
            depth.parked.extend(counted(set.parked()));
        }
        depth.ready.sort_unstable();
        depth.parked.sort_unstable();
        Ok(depth)
    }

    async fn is_whole(&self, tenures: &[Tenure]) -> Result<Vec<Wholeness>, Error> {
        let mut notes = self.notes.lock();
        let mut wholeness = |it: &Tenure| {
            let drained = self.slice("look whether anything was lost", it.partition)?.lock().term();
            let note = notes.entry(it.partition).or_insert(i64::MIN);
            let newest = drained.max(*note);
            if newest > it.term {
                return Ok(Wholeness::Overtaken(newest));
            }
            let was_there = std::mem::replace(note, it.term) == it.term;
            Ok(if was_there { Wholeness::Whole } else { Wholeness::Lost })
        };
        tenures.iter().map(&mut wholeness).collect()
    }

    async fn clear(&self, tenure: Tenure) -> Result<(), Error> {
        self.slice("clear a partition", tenure.partition)?.lock().clear(tenure.term);
        Ok(())
    }

    /// What is due later is looked at: there may be a million of it.
    fn asks_ahead_ms(&self) -> i64 {
        ASKS_AHEAD_MS
    }

    async fn fullness(&self) -> Result<u32, Error> {
        let Some(most) = self.memory_max_bytes else { return Ok(0) };
        let entries = u64::try_from(self.entries()).unwrap_or(u64::MAX);
        let asks: usize = self.slices.iter().map(|slice| slice.lock().ask_bytes()).sum();
        let bytes =
            entries.saturating_mul(ENTRY_BYTES).saturating_add(u64::try_from(asks).unwrap_or(u64::MAX));
        let thousandths = bytes.saturating_mul(1_000) / most.max(1);
        Ok(u32::try_from(thousandths).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
pub(crate) fn sample(id: i64, due_at: i64, fence: i64) -> HotEntry {
    use punctual_domain::{name::Name, place::TaskRef, state::State, task::Priority};
    let queue = Name::new("mail").unwrap();
    HotEntry {
        place: TaskRef { partition: Partition(0), due_at: Millis(due_at), id },
        due_at: Millis(due_at),
        fence,
        queue: Arc::new(QueueKey { namespace: Name::default_namespace(), queue }),
        priority: Priority::default(),
        task_id: id,
        task_version: 0,
        deadline_at: Millis::MAX,
        state: State::Scheduled,
        fired_at: Millis::ZERO,
        attempt: 0,
        details: Arc::new(punctual_contract::hot::Details {
            kind: Name::new("k").ok(),
            ..Default::default()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        pin::pin,
        task::{Context, Poll, Waker},
    };

    /// Polls once, without any runtime: what is not ready at once would panic here.
    fn at_once<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(it) => it,
            Poll::Pending => panic!("the memory hot set waits for nothing"),
        }
    }

    #[test]
    fn every_method_is_done_when_first_polled_and_needs_no_runtime() {
        let hot = MemoryHot::new(Options { partitions: 1 });
        let queue = Arc::clone(&sample(1, 1, 1).queue);
        assert_eq!(at_once(hot.load(vec![sample(1, 1, 1), sample(2, 9, 1)])).unwrap(), 2);
        let taken = at_once(hot.drain(&[Tenure::sole(Partition(0))], Millis(5), 9)).pop().unwrap().unwrap();
        assert_eq!(at_once(hot.offer(taken.clone(), Retries::default())).unwrap(), 1);
        assert_eq!(at_once(hot.depth()).unwrap().ready, [(Arc::clone(&queue), 1)]);
        assert_eq!(at_once(hot.are_ready(&taken)).unwrap(), [true]);
        assert_eq!(at_once(hot.admit(&queue, Admission::of(9))).unwrap().len(), 1);
        at_once(hot.discard(&taken)).unwrap();
        assert_eq!(at_once(hot.withdraw(Partition(0), 2, 1)).unwrap(), Withdrawn::Removed);
        assert_eq!(
            at_once(hot.depth()).unwrap(),
            Depth::default(),
            "nothing is left of a queue without entries"
        );
    }

    #[test]
    fn how_full_it_is_follows_what_is_in_it() {
        let hot = MemoryHot::new(Options { partitions: 1 }).with_memory_max(10 * ENTRY_BYTES);
        assert_eq!(at_once(hot.fullness()).unwrap(), 0);
        at_once(hot.load((1..=8).map(|id| sample(id, id, 1)).collect())).unwrap();
        assert_eq!(at_once(hot.fullness()).unwrap(), 800);
        let taken = at_once(hot.drain(&[Tenure::sole(Partition(0))], Millis(2), 9)).pop().unwrap().unwrap();
        assert_eq!(at_once(hot.fullness()).unwrap(), 600, "what is drained is the caller's");
        at_once(hot.offer(taken.clone(), Retries::default())).unwrap();
        assert_eq!(at_once(hot.fullness()).unwrap(), 800, "in its ready set");
        at_once(hot.discard(&taken)).unwrap();
        assert_eq!(at_once(hot.fullness()).unwrap(), 600);
        let unbounded = MemoryHot::new(Options { partitions: 1 });
        at_once(unbounded.load(vec![sample(1, 1, 1)])).unwrap();
        assert_eq!(at_once(unbounded.fullness()).unwrap(), 0);
    }

    #[test]
    fn a_partition_that_does_not_exist_is_refused_before_anything_happens() {
        let hot = MemoryHot::new(Options { partitions: 1 });
        let mut stray = sample(2, 1, 1);
        stray.place.partition = Partition(1);
        assert!(at_once(hot.load(vec![sample(1, 1, 1), stray])).is_err());
        assert_eq!(at_once(hot.depth()).unwrap(), Depth::default());
    }
}
