//! The hot set of several engines, in memory. A model of `RedisHot`'s promises, checked by the same suite; a
//! product's engine without Redis uses its store and its own table.

use async_trait::async_trait;
use parking_lot::Mutex;
use punctual_contract::{
    Error, Hot,
    hot::{HotEntry, Wholeness, Withdrawn},
    ownership::Tenure,
};
use punctual_domain::{place::Partition, time::Millis};
use std::collections::{BTreeMap, HashMap};

/// The cost of an entry in the accounting of `with_memory_max`.
pub const ENTRY_BYTES: u64 = 560;

/// A hot set in memory. No method holds two locks.
#[derive(Debug)]
pub struct SharedHot {
    slices: Vec<Mutex<Slice>>,
    /// `None` if the memory is unlimited.
    memory_max_bytes: Option<u64>,
}

/// The due entries of one partition.
#[derive(Debug)]
struct Slice {
    due: BTreeMap<(Millis, i64), HotEntry>,
    by_id: HashMap<i64, Millis>,
    /// The newest term that has drained here.
    term: i64,
    /// The newest term that has asked if the slice is complete.
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

    /// False if the same or a newer fence is there.
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
            return Wholeness::NewerTerm(newest);
        }
        let was_there = std::mem::replace(&mut self.noted, term) == term;
        if was_there { Wholeness::Whole } else { Wholeness::Lost }
    }
}

impl SharedHot {
    /// Creates a hot set with as many partitions as the store has; 1 at least.
    #[must_use]
    pub fn new(partitions: u16) -> Self {
        let slices = (0..partitions.max(1)).map(|_| Mutex::new(Slice::of(i64::MIN, i64::MIN))).collect();
        Self { slices, memory_max_bytes: None }
    }

    /// Limits the memory like Redis with this `maxmemory`, except that it refuses nothing.
    #[must_use]
    pub fn with_memory_max(self, bytes: u64) -> Self {
        Self { memory_max_bytes: Some(bytes), ..self }
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

    async fn count_due(&self) -> Result<usize, Error> {
        Ok(self.due())
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
        let entries = u64::try_from(self.due()).unwrap_or(u64::MAX);
        let thousandths = entries.saturating_mul(ENTRY_BYTES).saturating_mul(1_000) / most.max(1);
        Ok(u32::try_from(thousandths).unwrap_or(u32::MAX))
    }
}
