//! The hot set of several engines, in memory. A model of what `RedisHot` promises, held to the same suite; a product's engine
//! without Redis has its store and its own table.

use super::ready::ReadySet;
use async_trait::async_trait;
use parking_lot::Mutex;
use punctual_contract::{
    Error, Hot,
    hot::{Admission, Depth, HotEntry, Lane, Wholeness, Withdrawn},
    ownership::Tenure,
};
use punctual_domain::{chooser::Draws, name::QueueKey, place::Partition, settings::Retries, time::Millis};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// What an entry costs, as far as `with_memory_max` counts.
pub const ENTRY_BYTES: u64 = 560;

/// No method holds two locks.
#[derive(Debug)]
pub struct SharedHot {
    slices: Vec<Mutex<Slice>>,
    ready: Mutex<HashMap<Arc<QueueKey>, ReadySet>>,
    /// None: as much as there is.
    memory_max_bytes: Option<u64>,
}

/// What is due in one partition.
#[derive(Debug)]
struct Slice {
    due: BTreeMap<(Millis, i64), HotEntry>,
    by_id: HashMap<i64, Millis>,
    /// The newest term that has drained here.
    term: i64,
    /// The newest that has asked whether it is whole.
    noted: i64,
}

impl Slice {
    fn of(term: i64, noted: i64) -> Self {
        Self { due: BTreeMap::new(), by_id: HashMap::new(), term, noted }
    }

    fn fence(&self, id: i64) -> Option<i64> {
        self.due.get(&(*self.by_id.get(&id)?, id)).map(|entry| entry.fence)
    }

    fn remove(&mut self, id: i64) -> Option<HotEntry> {
        let due_at = self.by_id.remove(&id)?;
        self.due.remove(&(due_at, id))
    }

    /// False: the same or a newer fence is there.
    fn load(&mut self, entry: HotEntry) -> bool {
        let id = entry.place.id;
        if self.fence(id).is_some_and(|fence| fence >= entry.fence) {
            return false;
        }
        self.remove(id);
        self.by_id.insert(id, entry.due_at);
        self.due.insert(entry.key(), HotEntry { fired_at: Millis::ZERO, ..entry });
        true
    }

    fn drain(&mut self, term: i64, until: Millis, limit: usize) -> Vec<HotEntry> {
        let mut drained = Vec::new();
        if term < self.term {
            return drained;
        }
        self.term = term;
        while drained.len() < limit
            && let Some(first) = self.due.first_entry().filter(|first| first.key().0 <= until)
        {
            let entry = first.remove();
            self.by_id.remove(&entry.place.id);
            drained.push(entry);
        }
        drained
    }

    fn wholeness(&mut self, term: i64) -> Wholeness {
        let newest = self.term.max(self.noted);
        if newest > term {
            return Wholeness::Overtaken(newest);
        }
        let was_there = std::mem::replace(&mut self.noted, term) == term;
        if was_there { Wholeness::Whole } else { Wholeness::Lost }
    }
}

impl SharedHot {
    /// Of as many partitions as the store has; 1 at least.
    #[must_use]
    pub fn new(partitions: u16) -> Self {
        let slices = (0..partitions.max(1)).map(|_| Mutex::new(Slice::of(i64::MIN, i64::MIN))).collect();
        Self { slices, ready: Mutex::default(), memory_max_bytes: None }
    }

    /// As Redis with this `maxmemory`, but that it refuses nothing.
    #[must_use]
    pub fn with_memory_max(self, bytes: u64) -> Self {
        Self { memory_max_bytes: Some(bytes), ..self }
    }

    /// What stands in ready sets: id, fence and task.
    #[must_use]
    pub fn standing(&self) -> Vec<(i64, i64, i64)> {
        self.ready.lock().values().flat_map(ReadySet::standing).collect()
    }

    fn due(&self) -> usize {
        self.slices.iter().map(|slice| slice.lock().due.len()).sum()
    }

    fn slice(&self, doing: &'static str, partition: Partition) -> Result<&Mutex<Slice>, Error> {
        self.slices.get(usize::from(partition.0)).ok_or_else(|| {
            let problem =
                format!("partition {} does not exist: there are {}", partition.0, self.slices.len());
            Error::did_not_happen(doing, problem)
        })
    }
}

#[async_trait]
impl Hot for SharedHot {
    async fn load(&self, entries: Vec<HotEntry>) -> Result<usize, Error> {
        const DOING: &str = "load entries";
        for entry in &entries {
            self.slice(DOING, entry.place.partition)?;
        }
        let mut put = 0;
        for entry in entries {
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
        let mut slice = self.slice("withdraw an entry", partition)?.lock();
        if slice.fence(id).is_some_and(|known| known <= fence) {
            slice.remove(id);
            return Ok(Withdrawn::Removed);
        }
        Ok(Withdrawn::Absent)
    }

    async fn offer(&self, entries: Vec<HotEntry>, retries: Retries) -> Result<usize, Error> {
        let (mut put, mut ready) = (0, self.ready.lock());
        for entry in entries {
            let set = ready.entry(Arc::clone(&entry.queue)).or_default();
            put += usize::from(set.put(entry, retries));
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
        let mut ready = self.ready.lock();
        for entry in entries {
            ready.entry(Arc::clone(&entry.queue)).or_default().park(lane, entry, retries);
        }
        Ok(())
    }

    async fn unpark(&self, queue: &QueueKey, lane: &Lane, limit: usize) -> Result<usize, Error> {
        Ok(self.ready.lock().get_mut(queue).map_or(0, |set| set.unpark(lane, limit)))
    }

    async fn lanes(
        &self,
        queue: &QueueKey,
        after: Option<&Lane>,
        limit: usize,
    ) -> Result<Vec<(Lane, usize)>, Error> {
        Ok(self.ready.lock().get(queue).map_or_else(Vec::new, |set| set.lanes(after, limit)))
    }

    async fn depth(&self) -> Result<Depth, Error> {
        let mut depth = Depth { due: self.due(), ..Depth::default() };
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
        let wholeness = |tenure: &Tenure| {
            let slice = self.slice("look whether anything was lost", tenure.partition)?;
            Ok(slice.lock().wholeness(tenure.term))
        };
        tenures.iter().map(wholeness).collect()
    }

    async fn clear(&self, tenure: Tenure) -> Result<(), Error> {
        let mut slice = self.slice("clear a partition", tenure.partition)?.lock();
        if tenure.term >= slice.term {
            *slice = Slice::of(tenure.term, slice.noted);
        }
        Ok(())
    }

    async fn fullness(&self) -> Result<u32, Error> {
        let Some(most) = self.memory_max_bytes else { return Ok(0) };
        let standing: usize = self.ready.lock().values().map(|set| set.len() + set.parked()).sum();
        let entries = u64::try_from(self.due() + standing).unwrap_or(u64::MAX);
        let thousandths = entries.saturating_mul(ENTRY_BYTES).saturating_mul(1_000) / most.max(1);
        Ok(u32::try_from(thousandths).unwrap_or(u32::MAX))
    }
}
