//! The running account inside one transaction: jobs enter what they move, the commit writes the sums. Entries of
//! a job that fails are cut off again. Must never be written in another transaction than the rows it counts.

use super::{
    register::{bit, ids_of},
    statements::sql,
};
use crate::chunks;
use punctual_domain::{name::Name, place::Partition, state::State};
use rusqlite::{Connection, OptionalExtension as _, params};
use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap, HashSet},
};

/// Names that are kept from one transaction to the next: they may be made up without end.
const NAMES_MAX: usize = 10_000;

/// A queue, by the order in which it was first met. Means something within one transaction only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(usize);

#[derive(Clone, Copy, Debug)]
struct LedgerEntry {
    slot: Slot,
    state: State,
    tasks: i64,
    /// Of payloads of tasks that wait.
    bytes: i64,
}

/// How much the transaction has counted so far.
#[derive(Clone, Copy, Debug, Default)]
struct LedgerCounts {
    accepted: i64,
    deleted: i64,
    /// Row ids given out.
    ids: i64,
}

/// Where a job began, to cut back to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    entries: usize,
    rows: usize,
    counts: LedgerCounts,
}

#[derive(Clone, Copy, Debug)]
struct RowEntry {
    id: i64,
    partition: Partition,
    /// The transaction creates the row. False: it deletes the row.
    is_new: bool,
}

#[derive(Debug)]
pub(crate) struct Ledger {
    slots: HashMap<Box<str>, HashMap<Box<str>, Slot>>,
    names: Vec<(Box<str>, Box<str>)>,
    last: Slot,
    entries: Vec<LedgerEntry>,
    /// Rows that were created or deleted.
    rows: Vec<RowEntry>,
    counts: LedgerCounts,
    /// The highest row id of committed transactions.
    last_id: i64,
    /// Chunks in which a queue has tasks of a kind, that were entered; and those that this transaction enters.
    chunks: HashSet<(Slot, Name, i64)>,
    new_chunks: Vec<(Slot, Name, i64)>,
    /// Rows of a namespace in a chunk.
    chunk_rows: HashMap<(Box<str>, i64), usize>,
}

impl Ledger {
    pub(crate) fn load(conn: &Connection) -> rusqlite::Result<Self> {
        let last_id =
            conn.prepare_cached(sql!(ledger, read_meta))?.query_row(["last_id"], |value| value.get(0))?;
        Ok(Self {
            slots: HashMap::new(),
            names: Vec::new(),
            last: Slot(0),
            entries: Vec::new(),
            rows: Vec::new(),
            counts: LedgerCounts::default(),
            last_id,
            chunks: HashSet::new(),
            new_chunks: Vec::new(),
            chunk_rows: HashMap::new(),
        })
    }

    pub(crate) fn slot(&mut self, namespace: &str, queue: &str) -> Slot {
        let last = self.names.get(self.last.0);
        if last.is_some_and(|pair| *pair.0 == *namespace && *pair.1 == *queue) {
            return self.last;
        }
        let known = self.slots.get(namespace).and_then(|slot| slot.get(queue)).copied();
        self.last = known.unwrap_or_else(|| self.meet(namespace, queue));
        self.last
    }

    /// Of another queue in the same namespace.
    pub(crate) fn slot_beside(&mut self, slot: Slot, queue: &str) -> Slot {
        let namespace = self.names.get(slot.0).map(|name| name.0.to_string()).unwrap_or_default();
        self.slot(&namespace, queue)
    }

    fn meet(&mut self, namespace: &str, queue: &str) -> Slot {
        let slot = Slot(self.names.len());
        self.names.push((namespace.into(), queue.into()));
        self.slots.entry(namespace.into()).or_default().insert(queue.into(), slot);
        slot
    }

    /// A row id that was never used, for a row that is accepted, or for nothing.
    pub(crate) fn next_id(&mut self) -> i64 {
        self.counts.ids += 1;
        self.last_id + self.counts.ids
    }

    /// A new task has this id. Of a job that fails it stays: a look too many.
    pub(crate) fn enter_chunk(&mut self, slot: Slot, kind: &Name, id: i64) {
        let entry = (slot, kind.clone(), chunks::of(id));
        if self.chunks.insert(entry.clone()) {
            self.new_chunks.push(entry);
        }
    }

    /// `bytes`, here and below: of the task's payload.
    pub(crate) fn accepted(&mut self, (partition, id): (Partition, i64), slot: Slot, bytes: i64) {
        self.counts.accepted += 1;
        self.rows.push(RowEntry { id, partition, is_new: true });
        self.enter(slot, State::Scheduled, 1, bytes);
    }

    pub(crate) fn moved(&mut self, from: (Slot, State), to: (Slot, State), bytes: i64) {
        if from != to {
            self.enter(from.0, from.1, -1, bytes);
            self.enter(to.0, to.1, 1, bytes);
        }
    }

    /// One that waits has so many more bytes, or fewer.
    pub(crate) fn resized(&mut self, slot: Slot, state: State, by: i64) {
        self.enter(slot, state, 0, by);
    }

    pub(crate) fn deleted(
        &mut self,
        (partition, id): (Partition, i64),
        slot: Slot,
        state: State,
        bytes: i64,
    ) {
        self.counts.deleted += 1;
        self.rows.push(RowEntry { id, partition, is_new: false });
        self.enter(slot, state, -1, bytes);
    }

    /// The bytes come and go with the task.
    fn enter(&mut self, slot: Slot, state: State, tasks: i64, bytes: i64) {
        let bytes = match tasks {
            _ if !state.is_pending() => 0,
            ..0 => -bytes,
            _ => bytes,
        };
        self.entries.push(LedgerEntry { slot, state, tasks, bytes });
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { entries: self.entries.len(), rows: self.rows.len(), counts: self.counts }
    }

    pub(crate) fn cut(&mut self, mark: Mark) {
        self.entries.truncate(mark.entries);
        self.rows.truncate(mark.rows);
        self.counts = mark.counts;
    }

    /// Writes the sums; to be followed by the commit.
    pub(crate) fn write(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        let LedgerCounts { accepted, deleted, ids } = self.counts;
        let mut count = conn.prepare_cached(sql!(ledger, add_to_counter))?;
        for (key, by) in [("accepted", accepted), ("deleted", deleted), ("last_id", ids)] {
            if by != 0 {
                count.execute(params![key, by])?;
            }
        }
        self.write_chunks(conn)?;
        self.write_register(conn)?;
        self.write_partitions(conn)?;
        self.entries.sort_unstable_by_key(|entry| (entry.slot, entry.state));
        let mut add = conn.prepare_cached(sql!(ledger, add_to_books))?;
        for run in self.entries.chunk_by(|a, b| (a.slot, a.state) == (b.slot, b.state)) {
            let (tasks, bytes) =
                run.iter().fold((0, 0), |sum, entry| (sum.0 + entry.tasks, sum.1 + entry.bytes));
            let first = run.first().filter(|_| tasks != 0 || bytes != 0);
            if let Some((entry, names)) = first.and_then(|entry| Some((entry, self.names.get(entry.slot.0)?)))
            {
                add.execute(params![names.0, names.1, entry.state.code(), tasks, bytes])?;
            }
        }
        Ok(())
    }

    /// Ids of a batch follow each other: one statement for each row of the register.
    fn write_register(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        // Stable: of one id, the last entry counts.
        self.rows.sort_by_key(|entry| entry.id);
        let mut register = conn.prepare_cached(sql!(ledger, register))?;
        let mut unregister = conn.prepare_cached(sql!(ledger, unregister))?;
        for run in self.rows.chunk_by(|a, b| ids_of(a.id) == ids_of(b.id)) {
            let (mut new, mut gone) = (0, 0);
            for entry in run {
                let bit = bit(entry.id);
                (new, gone) = if entry.is_new { (new | bit, gone & !bit) } else { (new & !bit, gone | bit) };
            }
            let Some(row) = run.first().map(|entry| ids_of(entry.id)) else { continue };
            if new != 0 {
                register.execute([row, new])?;
            }
            if gone != 0
                && unregister.query_row([row, gone], |bits| bits.get::<_, i64>(0)).optional()? == Some(0)
            {
                conn.prepare_cached(sql!(ledger, delete_registered))?.execute([row])?;
            }
        }
        Ok(())
    }

    fn write_partitions(&self, conn: &Connection) -> rusqlite::Result<()> {
        let mut sums: BTreeMap<Partition, (i64, i64)> = BTreeMap::new();
        for entry in &self.rows {
            let (accepted, deleted) = sums.entry(entry.partition).or_default();
            *(if entry.is_new { accepted } else { deleted }) += 1;
        }
        let mut add = conn.prepare_cached(sql!(ledger, add_to_partition))?;
        for (partition, (accepted, deleted)) in sums {
            add.execute(params![partition.0, accepted, deleted])?;
        }
        Ok(())
    }

    /// Where new tasks are; and of the chunk that gets no more of them, that it has none.
    fn write_chunks(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        let filled = chunks::of(self.last_id);
        if chunks::of(self.last_id + self.counts.ids) > filled {
            conn.prepare_cached(sql!(labels, delete_empty_chunk))?.execute([filled])?;
        }
        let mut enter = conn.prepare_cached(sql!(labels, insert_chunk))?;
        for (slot, kind, chunk) in &self.new_chunks {
            let Some((namespace, queue)) = self.names.get(slot.0) else { continue };
            let rows = self.chunk_rows.entry((namespace.clone(), *chunk)).or_default();
            *rows += 1;
            if *rows == 1 {
                enter.execute(params![namespace, "", chunk, ""])?;
            }
            match (*rows).cmp(&(chunks::ROWS_MAX + 1)) {
                Ordering::Less => enter.execute(params![namespace, queue, chunk, kind.as_str()])?,
                Ordering::Equal => enter.execute(params![namespace, chunks::ANY, chunk, ""])?,
                Ordering::Greater => 0,
            };
        }
        Ok(())
    }

    pub(crate) fn committed(&mut self) {
        self.last_id += self.counts.ids;
        self.new_chunks.clear();
        self.undone();
    }

    pub(crate) fn undone(&mut self) {
        self.entries.clear();
        self.rows.clear();
        self.counts = LedgerCounts::default();
        if !self.new_chunks.is_empty() {
            // Of those rows none is there.
            self.chunk_rows.clear();
        }
        for new_chunk in self.new_chunks.drain(..) {
            self.chunks.remove(&new_chunk);
        }
        if self.names.len() > NAMES_MAX || self.chunks.len() > NAMES_MAX {
            (self.slots, self.names, self.last) = (HashMap::new(), Vec::new(), Slot(0));
            self.chunks = HashSet::new();
            self.chunk_rows = HashMap::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_forgotten_after_a_transaction_when_they_are_many() {
        let mut ledger = Ledger {
            slots: HashMap::new(),
            names: Vec::new(),
            last: Slot(0),
            entries: Vec::new(),
            rows: Vec::new(),
            counts: LedgerCounts::default(),
            last_id: 0,
            chunks: HashSet::new(),
            new_chunks: Vec::new(),
            chunk_rows: HashMap::new(),
        };
        let mut meet = |from: usize, to: usize| {
            for nth in from..to {
                let slot = ledger.slot("n", &format!("q{nth}"));
                ledger.accepted((Partition(0), 1), slot, 0);
            }
            ledger.committed();
            ledger.names.len()
        };
        assert_eq!([meet(0, NAMES_MAX), meet(NAMES_MAX - 1, NAMES_MAX + 2), meet(0, 2)], [NAMES_MAX, 0, 2]);
    }
}
