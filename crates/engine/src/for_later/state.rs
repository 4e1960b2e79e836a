//! What an engine knows of its journal of outcomes: where it is, which databases do not answer, and which records could not be
//! applied although their database does. Keeps no outcome: the journal does. Asks nobody.

use hashbrown::{HashMap, HashSet};
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
            AtomicBool, AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::Duration,
};
use tokio::time::Instant;

/// A record that fails so often by itself, while its database takes others, keeps its lease from ending no longer.
const TRIES_MAX: u32 = 5;

/// Between two looks for what engines of the same directory have left.
const LOOK_AROUND_EVERY: Duration = Duration::from_secs(1);

type Listener = Box<dyn Fn(TaskRef) + Send + Sync>;

#[derive(Default)]
pub(crate) struct ForLater {
    journal: OnceLock<Arc<dyn Journal>>,
    listener: OnceLock<Listener>,
    inner: Mutex<Inner>,
    is_applying: AtomicBool,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Inner {
    /// Databases of which nothing is asked before what waits for them is applied.
    away: HashSet<usize>,
    /// How often records could not be applied that others did not wait for.
    tries: HashMap<AttemptKey, u32>,
    looked_around_at: Option<Instant>,
}

#[derive(Debug, Default)]
struct Counts {
    kept: AtomicU64,
    refused: AtomicU64,
    applied: AtomicU64,
    stale: AtomicU64,
}

/// Outcomes that this engine has taken for later, since the process began, and what waits now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalNumbers {
    /// Acknowledged as accepted for later.
    pub kept: u64,
    /// Not acknowledged: the journal was full, or could not be written.
    pub refused: u64,
    /// Accepted by their database, when it was back.
    pub applied: u64,
    /// Refused by it: the attempt did not hold its task any more.
    pub stale: u64,
    pub waiting: JournalSize,
}

impl fmt::Debug for ForLater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForLater").field("journal", &self.journal.get()).field("inner", &self.inner).finish()
    }
}

/// What waits is being applied.
pub(super) struct Turn<'s>(&'s ForLater);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.is_applying.store(false, SeqCst);
    }
}

impl ForLater {
    /// False: it has one.
    pub(super) fn set_journal(&self, journal: Arc<dyn Journal>) -> bool {
        self.journal.set(journal).is_ok()
    }

    pub(super) fn set_listener(&self, listener: Listener) -> bool {
        self.listener.set(listener).is_ok()
    }

    /// None: what its database does not take is refused.
    pub(super) fn journal(&self) -> Option<&Arc<dyn Journal>> {
        self.journal.get()
    }

    pub(super) fn ended(&self, task: TaskRef) {
        if let Some(listener) = self.listener.get() {
            listener(task);
        }
    }

    /// None: another is at it.
    pub(super) fn begin(&self) -> Option<Turn<'_>> {
        (!self.is_applying.swap(true, SeqCst)).then_some(Turn(self))
    }

    /// Whether it is time to look for what engines have left that are gone.
    pub(super) fn looks_around(&self, now: Instant) -> bool {
        let mut inner = self.inner.lock();
        let is_time = inner.looked_around_at.is_none_or(|at| now.duration_since(at) >= LOOK_AROUND_EVERY);
        if is_time {
            inner.looked_around_at = Some(now);
        }
        is_time
    }

    pub(super) fn is_away(&self, part: usize) -> bool {
        self.inner.lock().away.contains(&part)
    }

    pub(super) fn goes_away(&self, part: usize) {
        self.inner.lock().away.insert(part);
    }

    pub(super) fn is_back(&self, part: usize) {
        self.inner.lock().away.remove(&part);
    }

    /// It could not be applied, and not for want of its database. True: for the first time.
    pub(super) fn failed_alone(&self, key: AttemptKey) -> bool {
        let mut inner = self.inner.lock();
        let tries = inner.tries.entry(key).or_default();
        *tries = tries.saturating_add(1);
        *tries == 1
    }

    pub(super) fn is_over(&self, keys: impl Iterator<Item = AttemptKey>) {
        let mut inner = self.inner.lock();
        if !inner.tries.is_empty() {
            for key in keys {
                inner.tries.remove(&key);
            }
        }
    }

    /// Its executor has been told that the outcome is taken: its lease does not end before that is applied.
    pub(crate) fn holds(&self, task: i64, fence: i64) -> bool {
        let Some(journal) = self.journal.get() else { return false };
        let key = AttemptKey { task, fence };
        let has_failed = || self.inner.lock().tries.get(&key).is_some_and(|tries| *tries >= TRIES_MAX);
        journal.digest_of(key).is_some() && !has_failed()
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

    /// None: there is no journal.
    pub(super) fn numbers(&self) -> Option<JournalNumbers> {
        let waiting = self.journal.get()?.size();
        let [kept, refused, applied, stale] =
            [&self.counts.kept, &self.counts.refused, &self.counts.applied, &self.counts.stale]
                .map(|counter| counter.load(Relaxed));
        Some(JournalNumbers { kept, refused, applied, stale, waiting })
    }
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Relaxed);
}
