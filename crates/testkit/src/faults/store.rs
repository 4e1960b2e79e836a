//! A store with two dials.

use super::{Faults, Gate};
use crate::decorators::{methods_of, names::*};
use parking_lot::Mutex;
use punctual_contract::store::Change;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};
use tokio::sync::watch;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreGroup {
    Insert,
    /// `apply`, `request_stop`.
    Apply,
    Dispatch,
    Extend,
    /// Reads of the engine's loops.
    Scan,
    /// `leases_ended`.
    Leases,
    /// `overdue`: changes nothing, and nothing is fired by it.
    Look,
    /// Reads of callers.
    Read,
    Retire,
    /// `check_writers_in`.
    Writers,
    Replies,
    Settings,
    /// The list of executors.
    Executors,
    /// Tokens.
    Access,
    Audit,
    /// The deletion of a namespace.
    Namespaces,
}

#[derive(Debug)]
pub struct FaultyStore {
    pub(super) inner: Arc<dyn Store>,
    pub faults: Faults<StoreGroup>,
    /// Parts that it says to have; 0: as many as the store.
    split: AtomicUsize,
    /// The part that refuses every request. The caller knows that.
    part_away: Mutex<Option<usize>>,
    /// Moves of tasks there are not answered.
    part_stuck: watch::Sender<Option<usize>>,
    /// This partition cannot be scanned.
    pub hides_partition: Mutex<Option<Partition>>,
    /// The gate at which answers of scans with results wait.
    found: Mutex<Option<Arc<Gate>>>,
    said: Mutex<Said>,
}

/// The number of requested moves, and of those with facts of the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    pub grants: usize,
    pub known_grants: usize,
    pub successes: usize,
    pub known_successes: usize,
}

impl FaultyStore {
    #[must_use]
    pub fn new(inner: Arc<dyn Store>, seed: u64) -> Self {
        let (split, part_away, part_stuck, hides_partition, found, said) = Default::default();
        Self {
            inner,
            faults: Faults::seeded(seed),
            split,
            part_away,
            part_stuck,
            hides_partition,
            found,
            said,
        }
    }

    /// Delays scans with results until the gate is opened: by then their results are old.
    pub fn hold_found(&self) -> Arc<Gate> {
        let gate = Arc::new(Gate::default());
        *self.found.lock() = Some(Arc::clone(&gate));
        gate
    }

    /// The counts since the last call.
    pub fn said(&self) -> Said {
        std::mem::take(&mut *self.said.lock())
    }

    /// Distributes the partitions over this many databases, which fail independently.
    pub fn split(&self, parts: usize) {
        self.split.store(parts, SeqCst);
    }

    /// Moves, leases, heartbeats and reads by place are refused if they concern this database; so are counts of
    /// everything, and a page of its tasks in flight. `None` means no database.
    pub fn set_part_away(&self, part: Option<usize>) {
        *self.part_away.lock() = part;
    }

    /// Moves of tasks in this database are answered when this becomes None, or another one. Reads are
    /// answered immediately.
    pub fn set_part_stuck(&self, part: Option<usize>) {
        self.part_stuck.send_replace(part);
    }

    async fn pass_stuck(&self, partitions: Vec<Partition>) {
        let goes_on =
            |stuck: &Option<usize>| !partitions.iter().any(|one| *stuck == Some(self.part_of(*one)));
        drop(self.part_stuck.subscribe().wait_for(goes_on).await);
    }

    fn pass_part(
        &self,
        doing: &'static str,
        mut partitions: impl Iterator<Item = Partition>,
    ) -> Result<(), Error> {
        let away = *self.part_away.lock();
        if partitions.any(|partition| away == Some(self.part_of(partition))) {
            return Err(Error::did_not_happen(doing, "this part was sent away by a test"));
        }
        Ok(())
    }

    /// Passes a call over all parts.
    fn pass_all(&self, doing: &'static str) -> Result<(), Error> {
        self.pass_part(doing, (0..self.partitions()).map(Partition))
    }

    /// One after the other, as a store of several parts does: each page has tasks of one only.
    async fn in_flight_apart(
        &self,
        after: Option<LeasePosition>,
        limit: usize,
    ) -> Result<(Vec<Task>, Option<LeasePosition>), Error> {
        let part = after.map_or(0, |position| position.part);
        if *self.part_away.lock() == Some(part) {
            return Err(Error::did_not_happen("read what is in flight", "this part was sent away by a test"));
        }
        let inside = after.map(|position| LeasePosition { part: 0, ..position });
        let (mut tasks, next) = self.inner.in_flight(inside, limit).await?;
        tasks.retain(|task| self.part_of(task.place.partition) == part);
        let next_part = (part + 1 < self.parts()).then(|| LeasePosition::beginning_of(part + 1));
        Ok((tasks, next.map(|position| LeasePosition { part, ..position }).or(next_part)))
    }
}

methods_of! { SettingStore fails(run StoreGroup) FaultyStore {} }

methods_of! { Store fails(run StoreGroup) FaultyStore {
    async fn insert_each(
        &self,
        tasks: Vec<NewTask>,
        by: &str,
        now: Millis,
    ) -> Result<Vec<Result<Inserted, Error>>, Error> {
        self.faults.run(StoreGroup::Insert, "insert tasks", self.inner.insert_each(tasks, by, now)).await
    }

    async fn apply(&self, steps: Vec<Step>, now: Millis) -> Result<Vec<Stepped>, Error> {
        self.pass_part("move tasks", steps.iter().map(|step| step.place.partition))?;
        self.pass_stuck(steps.iter().map(|step| step.place.partition).collect()).await;
        let successes = steps.iter().filter(|step| matches!(step.change, Change::Succeed { .. }));
        for step in successes {
            let mut said = self.said.lock();
            said.successes += 1;
            said.known_successes += usize::from(step.known.is_some());
        }
        self.faults.run(StoreGroup::Apply, "move tasks", self.inner.apply(steps, now)).await
    }

    async fn dispatch(&self, grants: Vec<Grant>, now: Millis) -> Result<Vec<Dispatched>, Error> {
        self.pass_part("dispatch tasks", grants.iter().map(|grant| grant.place.partition))?;
        for grant in &grants {
            let mut said = self.said.lock();
            said.grants += 1;
            said.known_grants += usize::from(grant.known.is_some());
        }
        self.faults.run(StoreGroup::Dispatch, "dispatch tasks", self.inner.dispatch(grants, now)).await
    }

    async fn extend(&self, beats: Vec<Beat>, now: Millis) -> Result<Vec<Extended>, Error> {
        self.pass_part("extend leases", beats.iter().map(|beat| beat.place.partition))?;
        self.faults.run(StoreGroup::Extend, "extend leases", self.inner.extend(beats, now)).await
    }

    async fn scan(&self, scan: Scan) -> Result<Vec<HotEntry>, Error> {
        if *self.hides_partition.lock() == Some(scan.partition) {
            return Err(Error::did_not_happen("scan a partition", "hidden by a test"));
        }
        let found = self.faults.run(StoreGroup::Scan, "scan a partition", self.inner.scan(scan)).await;
        let gate = self.found.lock().clone();
        if let Some(gate) = gate.filter(|_| found.as_ref().is_ok_and(|found| !found.is_empty())) {
            gate.pass().await;
        }
        found
    }

    async fn scan_together(&self, scans: Vec<Scan>) -> Result<Vec<Option<Vec<HotEntry>>>, Error> {
        let hidden = *self.hides_partition.lock();
        let is_hidden: Vec<bool> = scans.iter().map(|scan| hidden == Some(scan.partition)).collect();
        let call = self.inner.scan_together(scans);
        let mut found = self.faults.run(StoreGroup::Scan, "scan partitions", call).await?;
        for (rows, _) in found.iter_mut().zip(is_hidden).filter(|(_, is_hidden)| *is_hidden) {
            *rows = None;
        }
        let gate = self.found.lock().clone();
        if let Some(gate) = gate.filter(|_| found.iter().flatten().any(|rows| !rows.is_empty())) {
            gate.pass().await;
        }
        Ok(found)
    }

    async fn in_flight(
        &self,
        after: Option<LeasePosition>,
        limit: usize,
    ) -> Result<(Vec<Task>, Option<LeasePosition>), Error> {
        let is_split = self.split.load(SeqCst) > 0;
        let call = async {
            if is_split {
                self.in_flight_apart(after, limit).await
            } else {
                self.inner.in_flight(after, limit).await
            }
        };
        self.faults.run(StoreGroup::Scan, "read what is in flight", call).await
    }

    async fn read(&self, places: &[TaskRef]) -> Result<Vec<Option<Task>>, Error> {
        self.pass_part("read tasks", places.iter().map(|place| place.partition))?;
        self.faults.run(StoreGroup::Read, "read tasks", self.inner.read(places)).await
    }

    async fn books(&self) -> Result<Books, Error> {
        self.pass_all("read the books")?;
        self.faults.run(StoreGroup::Read, "read the books", self.inner.books()).await
    }

    async fn audit(&self) -> Result<Books, Error> {
        self.pass_all("audit the books")?;
        self.faults.run(StoreGroup::Read, "audit the books", self.inner.audit()).await
    }

    fn partitions(&self) -> u16 {
        self.inner.partitions()
    }

    fn parts(&self) -> usize {
        match self.split.load(SeqCst) {
            0 => self.inner.parts(),
            parts => parts,
        }
    }

    fn part_of(&self, partition: Partition) -> usize {
        match self.split.load(SeqCst) {
            0 => self.inner.part_of(partition),
            parts => usize::from(partition.0) % parts,
        }
    }
} }
