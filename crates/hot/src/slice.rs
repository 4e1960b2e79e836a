//! What is due in one partition. The caller holds its lock for the length of one method, which is what makes each step
//! atomic. Must not know a queue.

use crate::line::Line;
use punctual_contract::hot::{HotEntry, Withdrawn};
use punctual_domain::time::Millis;

/// Of what hand-overs need, in all partitions of one process. A partition has its share of it.
pub(crate) const ASKS_MAX_BYTES: usize = 32 << 20;

#[derive(Debug)]
pub(crate) struct Slice {
    due: Line,
    /// The newest term that has drained here.
    term: i64,
    /// Of what hand-overs need. Entries that come beyond it are kept without.
    asks_max_bytes: usize,
}

impl Slice {
    pub(crate) fn new(asks_max_bytes: usize) -> Self {
        Self { due: Line::by(|entry| entry.due_at), term: i64::MIN, asks_max_bytes }
    }

    pub(crate) fn len(&self) -> usize {
        self.due.len()
    }

    /// Of what hand-overs need, which its entries bring.
    pub(crate) const fn ask_bytes(&self) -> usize {
        self.due.ask_bytes()
    }

    /// The newest that has drained here.
    pub(crate) const fn term(&self) -> i64 {
        self.term
    }

    pub(crate) fn clear(&mut self, term: i64) {
        if term >= self.term {
            *self = Self { term, ..Self::new(self.asks_max_bytes) };
        }
    }

    /// False: the same or a newer fence is there.
    pub(crate) fn load(&mut self, mut entry: HotEntry) -> bool {
        if self.due.get(entry.place.id).is_some_and(|known| known.fence >= entry.fence) {
            return false;
        }
        if self.ask_bytes() >= self.asks_max_bytes {
            entry.leave_out_ask();
        }
        self.due.put(HotEntry { fired_at: Millis::ZERO, ..entry });
        true
    }

    pub(crate) fn drain(&mut self, term: i64, until: Millis, limit: usize) -> Vec<HotEntry> {
        let mut drained = Vec::new();
        if term < self.term {
            return drained;
        }
        self.term = term;
        while drained.len() < limit {
            let Some(entry) = self.due.pop_until(until) else { break };
            drained.push(entry);
        }
        drained
    }

    pub(crate) fn withdraw(&mut self, id: i64, fence: i64) -> Withdrawn {
        match self.due.get(id) {
            Some(entry) if entry.fence <= fence => {
                self.due.remove(id);
                Withdrawn::Removed
            }
            _ => Withdrawn::Absent,
        }
    }
}
