//! An engine's state of its journal of outcomes: its location, the databases that do not answer, and the records that
//! could not be applied by a working database. Stores no outcome: the journal does. Does not read the store.

use super::identity::Identity;
use hashbrown::{HashMap, HashSet, hash_map::Entry};
use parking_lot::Mutex;
use punctual_contract::{
    Journal,
    journal::{AttemptKey, JournalSize},
};
use punctual_domain::place::TaskRef;
use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{
            AtomicBool, AtomicU64, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::Duration,
};
use tokio::time::Instant;

/// A record that fails alone this often, while its database accepts others, no longer keeps its lease from
/// expiring.
const TRIES_MAX: u32 = 5;

/// The maximum number of tries of an outcome that arrives before the engine that handed its task over has written the
/// lease.
const BEHIND_ITS_LEASE_MAX: u32 = 50;

/// The period in which the engine checks for journals that other engines left in the same directory.
const LOOK_AROUND_EVERY: Duration = Duration::from_secs(1);

type Listener = Box<dyn Fn(TaskRef) + Send + Sync>;

#[derive(Default)]
pub(crate) struct ForLater {
    journal: OnceLock<Arc<dyn Journal>>,
    listener: OnceLock<Listener>,
    inner: Mutex<JournalState>,
    is_applying: AtomicBool,
    /// Some record could not be applied: only then is it recorded which databases accept outcomes.
    is_failing: AtomicBool,
    /// Calls that are about to keep leases in the journal.
    handing_over: AtomicUsize,
    counts: JournalCounts,
}

#[derive(Debug, Default)]
struct JournalState {
    /// Databases that are not asked before their waiting records are applied.
    away: HashSet<usize>,
    /// Databases that made no leases of queues that hand over without them.
    no_leases: HashSet<usize>,
    /// Databases that have accepted an outcome since one of their records could not be applied.
    taken: HashSet<usize>,
    /// The number of failed tries of records for which others did not wait.
    tries: HashMap<AttemptKey, u32>,
    looked_around_at: Option<Instant>,
    /// Names of running inserts, and how many inserts use each.
    inserting: HashMap<Identity, usize>,
    /// The positions of the runs by database.
    read_to: HashMap<usize, ReadTo>,
}

/// The positions, by record numbers, up to which the runs of one database have read the journal.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadTo {
    /// Up to here, none of its records waits.
    pub(super) passed: u64,
    /// Up to here, the table knows its leases.
    pub(super) seen: u64,
    /// The assignment of partitions to databases during the read. If it has changed, the run begins with the first
    /// record again.
    pub(super) placement: u64,
}

#[derive(Debug, Default)]
struct JournalCounts {
    kept: AtomicU64,
    refused: AtomicU64,
    applied: AtomicU64,
    stale: AtomicU64,
    handed_over: AtomicU64,
    leases_written: AtomicU64,
    leases_refused: AtomicU64,
}

/// Outcomes that this engine has taken for later since the process began, and the records that wait now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalNumbers {
    /// Acknowledged as accepted for later.
    pub kept: u64,
    /// Outcomes that were not acknowledged: the journal was full, or could not be written.
    pub refused: u64,
    /// Accepted by their database, when it was back.
    pub applied: u64,
    /// Refused by their database: the attempt no longer held its task.
    pub stale: u64,
    /// Tasks that executors got while their database was unavailable.
    pub handed_over: u64,
    /// Of these leases, those that the database has made since.
    pub leases_written: u64,
    /// Of these leases, those that the database has refused: the tasks were cancelled or changed meanwhile, or leased
    /// elsewhere.
    pub leases_refused: u64,
    /// Leases that the database does not know yet.
    pub leases_waiting: u64,
    /// Outcomes and leases.
    pub waiting: JournalSize,
}

impl fmt::Debug for ForLater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForLater").field("journal", &self.journal.get()).field("inner", &self.inner).finish()
    }
}

/// A running pass over the waiting records.
pub(super) struct Begun<'s>(&'s ForLater);

/// Leases that are about to be in the journal.
pub(super) struct HandingOver<'s>(&'s ForLater);

impl Drop for HandingOver<'_> {
    fn drop(&mut self) {
        self.0.handing_over.fetch_sub(1, SeqCst);
    }
}

/// Running inserts: only the database hands over tasks with their names.
pub(super) struct Inserting<'s> {
    state: &'s ForLater,
    named: Vec<Identity>,
}

impl Drop for Inserting<'_> {
    fn drop(&mut self) {
        let mut inner = self.state.inner.lock();
        for identity in &self.named {
            if let Entry::Occupied(mut count) = inner.inserting.entry(identity.clone()) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.0.is_applying.store(false, SeqCst);
    }
}

impl ForLater {
    /// False if it has one.
    pub(super) fn set_journal(&self, journal: Arc<dyn Journal>) -> bool {
        self.journal.set(journal).is_ok()
    }

    pub(super) fn set_listener(&self, listener: Listener) -> bool {
        self.listener.set(listener).is_ok()
    }

    pub(crate) fn has_journal(&self) -> bool {
        self.journal().is_some()
    }

    /// `None` if outcomes that their database does not accept are refused.
    pub(super) fn journal(&self) -> Option<&Arc<dyn Journal>> {
        self.journal.get()
    }

    pub(super) fn ended(&self, task: TaskRef) {
        if let Some(listener) = self.listener.get() {
            listener(task);
        }
    }

    /// Returns `None` if another pass is running.
    pub(super) fn begin(&self) -> Option<Begun<'_>> {
        (!self.is_applying.swap(true, SeqCst)).then_some(Begun(self))
    }

    pub(super) fn hands_over(&self) -> HandingOver<'_> {
        self.handing_over.fetch_add(1, SeqCst);
        HandingOver(self)
    }

    /// The journal has something, or is about to have a lease.
    pub(super) fn may_have_leases(&self) -> bool {
        self.handing_over.load(SeqCst) > 0 || self.waiting() > 0
    }

    pub(super) fn begin_insert(&self, named: Vec<Identity>) -> Inserting<'_> {
        let mut inner = self.inner.lock();
        for identity in &named {
            *inner.inserting.entry(identity.clone()).or_default() += 1;
        }
        Inserting { state: self, named }
    }

    pub(super) fn is_being_inserted(&self, identity: &Identity) -> bool {
        self.inner.lock().inserting.contains_key(identity)
    }

    /// Each database has had a run over the journal's earlier records, and those of ended engines.
    pub(super) fn has_read_all(&self, databases: usize) -> bool {
        let inner = self.inner.lock();
        (0..databases).all(|part| inner.read_to.contains_key(&part))
    }

    /// There is more than was read.
    pub(super) fn reads_anew(&self) {
        self.inner.lock().read_to.clear();
    }

    /// True if it is time to check for journals of ended engines.
    pub(super) fn looks_around(&self, now: Instant) -> bool {
        let mut inner = self.inner.lock();
        let is_time = inner.looked_around_at.is_none_or(|at| now.duration_since(at) >= LOOK_AROUND_EVERY);
        if is_time {
            inner.looked_around_at = Some(now);
        }
        is_time
    }

    pub(super) fn read_by(&self, part: usize, placement: u64) -> ReadTo {
        let known = self.inner.lock().read_to.get(&part).copied();
        known
            .filter(|read| read.placement == placement)
            .unwrap_or_else(|| ReadTo { placement, ..ReadTo::default() })
    }

    pub(super) fn has_read(&self, part: usize, to: ReadTo) {
        self.inner.lock().read_to.insert(part, to);
    }

    pub(super) fn is_away(&self, part: usize) -> bool {
        self.inner.lock().away.contains(&part)
    }

    pub(super) fn mark_unavailable(&self, part: usize) {
        self.inner.lock().away.insert(part);
    }

    pub(super) fn mark_available(&self, part: usize) {
        let mut inner = self.inner.lock();
        inner.away.remove(&part);
        inner.no_leases.remove(&part);
    }

    /// The database is not asked for leases until it returns.
    pub(super) fn leases_nothing(&self, part: usize) -> bool {
        self.inner.lock().no_leases.contains(&part)
    }

    pub(super) fn stops_leasing(&self, part: usize) {
        self.inner.lock().no_leases.insert(part);
    }

    /// A database has accepted an outcome.
    pub(super) fn takes(&self, part: usize) {
        if self.is_failing.load(Relaxed) {
            self.inner.lock().taken.insert(part);
        }
    }

    /// True if the database has accepted an outcome since the last call, which the engine makes because of a record
    /// that could not be applied.
    pub(super) fn has_taken(&self, part: usize) -> bool {
        self.is_failing.store(true, Relaxed);
        self.inner.lock().taken.remove(&part)
    }

    /// It could not be applied, and not for want of its database. True means for the first time.
    pub(super) fn failed_alone(&self, key: AttemptKey) -> bool {
        let mut inner = self.inner.lock();
        let tries = inner.tries.entry(key).or_default();
        *tries = tries.saturating_add(1);
        *tries == 1
    }

    /// The task is as before the attempt. True if its lease may still be written.
    pub(super) fn may_be_early(&self, key: AttemptKey) -> bool {
        let mut inner = self.inner.lock();
        let tries = inner.tries.entry(key).or_default();
        *tries = tries.saturating_add(1);
        *tries < BEHIND_ITS_LEASE_MAX
    }

    pub(super) fn is_over(&self, keys: impl Iterator<Item = AttemptKey>) {
        let mut inner = self.inner.lock();
        if !inner.tries.is_empty() {
            for key in keys {
                inner.tries.remove(&key);
            }
        }
        if inner.tries.is_empty() {
            self.is_failing.store(false, Relaxed);
        }
    }

    /// True if the outcome was acknowledged, or the task was handed over without its database. Its lease must not
    /// expire before that is applied.
    pub(crate) fn holds(&self, task: i64, fence: i64) -> bool {
        let Some(journal) = self.journal.get() else { return false };
        let key = AttemptKey { task, fence };
        let has_failed = || self.inner.lock().tries.get(&key).is_some_and(|tries| *tries >= TRIES_MAX);
        let is_kept = journal.digest_of(key).is_some() || journal.digest_of(key.of_hand_over()).is_some();
        is_kept && !has_failed()
    }

    /// Outcomes in the journal.
    pub(crate) fn waiting(&self) -> u64 {
        self.journal.get().map_or(0, |journal| journal.size().records)
    }

    pub(super) fn count_kept(&self, count: usize) {
        add(&self.counts.kept, count);
    }

    pub(super) fn count_refused(&self, count: usize) {
        add(&self.counts.refused, count);
    }

    pub(super) fn count_applied(&self, applied: usize, stale: usize) {
        add(&self.counts.applied, applied);
        add(&self.counts.stale, stale);
    }

    pub(super) fn count_handed_over(&self, count: usize) {
        add(&self.counts.handed_over, count);
    }

    pub(super) fn count_leases_written(&self, count: usize) {
        add(&self.counts.leases_written, count);
    }

    pub(super) fn count_leases_refused(&self) {
        add(&self.counts.leases_refused, 1);
    }

    /// `None` if there is no journal.
    pub(super) fn numbers(&self) -> Option<JournalNumbers> {
        let waiting = self.journal.get()?.size();
        let counts = &self.counts;
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        Some(JournalNumbers {
            kept: of(&counts.kept),
            refused: of(&counts.refused),
            applied: of(&counts.applied),
            stale: of(&counts.stale),
            handed_over: of(&counts.handed_over),
            leases_written: of(&counts.leases_written),
            leases_refused: of(&counts.leases_refused),
            leases_waiting: 0,
            waiting,
        })
    }
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Relaxed);
}
