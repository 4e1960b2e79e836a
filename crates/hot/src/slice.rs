//! One partition: an entry is in `due`, or in `firing`, or in neither. The caller holds its lock for the length of
//! one method, which is what makes each step atomic. Knows nothing of queues.

use crate::line::Line;
use punctual_contract::hot::{HotEntry, Withdrawn};
use punctual_domain::time::Millis;
use std::{collections::HashSet, ops::Range};

/// Of what hand-overs need, in all partitions of one process. A partition has its share of it.
pub(crate) const ASKS_MAX_BYTES: usize = 32 << 20;

#[derive(Debug)]
pub(crate) struct Slice {
    due: Line,
    /// In order of `fired_at`.
    firing: Line,
    /// The newest term that has taken here.
    term: i64,
    /// Of what hand-overs need. Entries that come beyond it are kept without.
    asks_max_bytes: usize,
}

/// What became of one entry of a load.
#[derive(Debug)]
pub(crate) enum Loaded {
    /// The same or a newer fence is there.
    Refused,
    /// `displaced`: an older one that was firing, and must leave its ready set.
    Put { displaced: Option<HotEntry> },
}

impl Slice {
    pub(crate) fn new(asks_max_bytes: usize) -> Self {
        Self {
            due: Line::by(|it| it.due_at),
            firing: Line::by(|it| it.fired_at),
            term: i64::MIN,
            asks_max_bytes,
        }
    }

    /// Of what hand-overs need, which its entries bring.
    pub(crate) const fn ask_bytes(&self) -> usize {
        self.due.ask_bytes() + self.firing.ask_bytes()
    }

    fn bounded(&self, mut entry: HotEntry) -> HotEntry {
        if self.ask_bytes() >= self.asks_max_bytes {
            entry.leave_out_ask();
        }
        entry
    }

    /// The newest that has taken here.
    pub(crate) fn term(&self) -> i64 {
        self.term
    }

    /// Answers what was firing.
    pub(crate) fn clear(&mut self, term: i64) -> Vec<HotEntry> {
        if term < self.term {
            return Vec::new();
        }
        let firing = self.fired_before(Millis::MAX, 0..usize::MAX).cloned().collect();
        *self = Self { term, ..Self::new(self.asks_max_bytes) };
        firing
    }

    pub(crate) fn load(&mut self, entry: HotEntry) -> Loaded {
        let id = entry.place.id;
        if self.fence(id).is_some_and(|it| it >= entry.fence) {
            return Loaded::Refused;
        }
        let displaced = self.firing.remove(id);
        let entry = self.bounded(entry);
        self.due.put(HotEntry { fired_at: Millis::ZERO, ..entry });
        Loaded::Put { displaced }
    }

    /// It was taken elsewhere.
    pub(crate) fn load_fired(&mut self, entry: HotEntry) -> Loaded {
        let id = entry.place.id;
        let is_newer = self.due.get(id).is_some_and(|it| it.fence > entry.fence);
        if is_newer || self.firing.get(id).is_some_and(|it| it.fence >= entry.fence) {
            return Loaded::Refused;
        }
        self.due.remove(id);
        let displaced = self.firing.remove(id);
        let entry = self.bounded(entry);
        self.firing.put(entry);
        Loaded::Put { displaced }
    }

    /// Of the entry with this id, wherever it is.
    pub(crate) fn fence(&self, id: i64) -> Option<i64> {
        self.due.get(id).or_else(|| self.firing.get(id)).map(|it| it.fence)
    }

    pub(crate) fn peek(&self, after: Option<(Millis, i64)>, until: Millis, limit: usize) -> Vec<HotEntry> {
        self.due.range(after, until).take(limit).cloned().collect()
    }

    /// How many are due by then, if they are fewer than `limit`.
    pub(crate) fn due_until(&self, until: Millis, limit: usize) -> usize {
        self.due.range(None, until).take(limit).count()
    }

    pub(crate) fn take(
        &mut self,
        term: i64,
        now: Millis,
        limit: usize,
        settled: &[(i64, i64)],
    ) -> Vec<HotEntry> {
        let settled: HashSet<(i64, i64)> = settled.iter().copied().collect();
        let mut taken = Vec::new();
        if term < self.term {
            return taken;
        }
        self.term = term;
        while taken.len() < limit {
            let Some(entry) = self.due.pop_until(now) else { break };
            let entry = HotEntry { fired_at: now, ..entry };
            if !settled.contains(&(entry.place.id, entry.fence)) {
                self.firing.put(entry.clone());
            }
            taken.push(entry);
        }
        taken
    }

    pub(crate) fn withdraw(&mut self, id: i64, fence: i64) -> Withdrawn {
        if self.firing.get(id).is_some() {
            return Withdrawn::Fired;
        }
        match self.due.get(id) {
            Some(it) if it.fence <= fence => {
                self.due.remove(id);
                Withdrawn::Removed
            }
            _ => Withdrawn::Absent,
        }
    }

    /// The entry that left `firing`, which must leave its ready set too.
    pub(crate) fn settle(&mut self, id: i64, fence: i64) -> Option<HotEntry> {
        if self.due.get(id).is_some_and(|it| it.fence <= fence) {
            self.due.remove(id);
        }
        self.firing.get(id).filter(|it| it.fence <= fence)?;
        self.firing.remove(id)
    }

    pub(crate) fn is_firing(&self, id: i64, fence: i64) -> bool {
        self.firing.get(id).is_some_and(|it| it.fence == fence)
    }

    /// Fired before `before`, the oldest first.
    pub(crate) fn fired_before(
        &self,
        before: Millis,
        places: Range<usize>,
    ) -> impl Iterator<Item = &HotEntry> {
        self.firing
            .range(None, before)
            .take_while(move |it| it.fired_at < before)
            .skip(places.start)
            .take(places.len())
    }

    pub(crate) fn depth(&self) -> (usize, usize) {
        (self.due.len(), self.firing.len())
    }
}
