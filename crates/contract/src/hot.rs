//! The near future: a cache of tasks that are due soon, which can be rebuilt from the store at any time. It
//! decides one thing: whether a task was withdrawn before it fired, or fired before it was withdrawn.

use crate::{ask::Ask, error::Error, ownership::Tenure};
use async_trait::async_trait;
use punctual_domain::{
    chooser::Chooser,
    name::{Name, QueueKey},
    order::Versioned,
    place::{Partition, TaskRef},
    state::State,
    task::{Demands, Priority},
    time::Millis,
};
use std::{fmt, sync::Arc};

/// Promises:
/// - **One place at a time.** An entry (identified by id) is in `due`, or not. A drained entry is the
///   caller's.
/// - **One owner.** `drain` gives nothing to a term that is older than one it has seen.
/// - **Newest fence wins.** An entry never replaces one with the same or a newer fence.
/// - **Definite withdrawal.** `withdraw` and `drain` of one entry: exactly one of them gets it.
/// - **Bounded.** The work of every method is bounded by its limit or its argument.
#[async_trait]
pub trait Hot: Send + Sync + fmt::Debug + 'static {
    /// Puts entries into `due`, except those whose id exists there with the same or a newer fence. An older
    /// one is replaced. Loading twice is harmless. Returns how many were added. A broken partition is an
    /// error, and entries of the others are added nevertheless.
    async fn load(&self, entries: Vec<HotEntry>) -> Result<usize, Error>;

    /// Pops the entries due at or before `until` in each of these partitions, the earliest first, at most `limit` in
    /// each, which is at most 1,000. Returns one result per partition, in order: a failure of one does not affect the
    /// others. A tenure with an older term than the highest known term gets nothing.
    async fn drain(
        &self,
        tenures: &[Tenure],
        until: Millis,
        limit: usize,
    ) -> Vec<Result<Vec<HotEntry>, Error>>;

    /// Removes an entry with at most this fence from `due`.
    async fn withdraw(&self, partition: Partition, id: i64, fence: i64) -> Result<Withdrawn, Error>;

    /// The number of entries of all partitions.
    async fn count_due(&self) -> Result<usize, Error>;

    /// Returns the state of these partitions since the first call with this tenure, in order. The first call returns
    /// `Lost` once after each loss of a complete partition (a flush), and after each restart or failover of a server,
    /// which may lack its last writes: the owner loads the partition again. The call does not detect the loss of
    /// single entries of a live server. A caller with an older term than the highest known term gets that result each
    /// time, and changes nothing.
    async fn is_whole(&self, tenures: &[Tenure]) -> Result<Vec<Wholeness>, Error>;

    /// Deletes all due entries of a partition, unless a newer term has been seen there: the data dates from a
    /// time that the store has lost. From then on older terms drain nothing.
    async fn clear(&self, tenure: Tenure) -> Result<(), Error>;

    /// The part of a task's path that it keeps, always the same. Makes no call.
    fn keeps(&self) -> Keeps {
        Keeps::Due
    }

    /// The owner of its data, once `is_whole` has found that this is another store's. From then on every
    /// method fails and does nothing, until it is found to be this store's again. Makes no call.
    fn stranger(&self) -> Option<String> {
        None
    }

    /// Why no call reaches its servers: they have not answered a first check, must not be used by an engine, or have
    /// another store's entries. `None` if calls pass through. Makes no call.
    fn refusal(&self) -> Option<String> {
        self.stranger()
    }

    /// The fill level of the fullest part, in thousandths of its bound; 0 if it has no bound. From 1000 on `load` may
    /// be refused, which changes none of the entries; every other method continues. Cheap: called after each thousand
    /// entries.
    async fn fullness(&self) -> Result<u32, Error>;
}

/// The part of a task's path that a hot set keeps. The rest is in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Tasks that are due soon, until their owner drains them.
    Due,
    /// It is always empty.
    Nothing,
}

/// The state of a partition in the hot set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wholeness {
    Whole,
    /// Entries may be missing.
    Lost,
    /// This newer term has been seen: the caller is outdated, or the back end that assigns terms was set
    /// back.
    NewerTerm(i64),
    /// The stored data differs from what was written: the state of this partition is unknown, while the
    /// others are unaffected.
    Broken,
}

/// A task's entry in the hot set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotEntry {
    pub place: TaskRef,
    pub due_at: Millis,
    pub fence: i64,
    pub queue: Arc<QueueKey>,
    pub priority: Priority,
    pub task_id: i64,
    pub task_version: i64,
    /// A task that has not started by then is dead; `Millis::MAX`: no deadline.
    pub deadline_at: Millis,
    /// The stored state when the entry was made: distinguishes a claim from the takeover of a dead owner's
    /// claim.
    pub state: State,
    /// The instant at which the task fired; `Millis::ZERO` if it has not.
    pub fired_at: Millis,
    /// Attempts begun: not 0 is a task that is tried again.
    pub attempt: u32,
    pub details: Arc<Details>,
}

/// The variable parts of an entry. They are behind a pointer, and equal entries share them, because millions of
/// entries are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// `None` if an older release wrote the entry without the kind. The row has it.
    pub kind: Option<Name>,
    pub demands: Demands,
    /// Further data for a hand-over. `None` means too long to travel, or omitted for lack of room. The row has it.
    pub ask: Option<Arc<Ask>>,
}

impl Details {
    /// Entries that say no more than this share it.
    #[must_use]
    pub fn are_plain(&self) -> bool {
        self.demands.is_none() && self.ask.is_none()
    }
}

impl Versioned for HotEntry {
    fn version(&self) -> (i64, i64) {
        (self.task_id, self.task_version)
    }
}

impl HotEntry {
    #[must_use]
    pub const fn key(&self) -> (Millis, i64) {
        (self.due_at, self.place.id)
    }

    /// The current location of the entry's row: a store that is clustered by due time finds it there without a
    /// search.
    #[must_use]
    pub const fn row(&self) -> TaskRef {
        TaskRef { due_at: self.due_at, ..self.place }
    }

    #[must_use]
    pub fn kind(&self) -> Option<&Name> {
        self.details.kind.as_ref()
    }

    #[must_use]
    pub fn demands(&self) -> &Demands {
        &self.details.demands
    }

    #[must_use]
    pub fn ask(&self) -> Option<&Arc<Ask>> {
        self.details.ask.as_ref()
    }

    /// Removes the hand-over data from the entry. Its row is then read before a hand-over.
    pub fn leave_out_ask(&mut self) {
        if self.details.ask.is_some() {
            Arc::make_mut(&mut self.details).ask = None;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawn {
    /// It was due later, and now it is not there.
    Removed,
    /// The entry is not in `due`: it was never loaded, or was drained. Its owner, or the store, knows.
    Absent,
}

/// The number of entries to pop, and the rules of their selection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Admission {
    pub limit: usize,
    pub chooser: Chooser,
    /// The seed of the random choices.
    pub seed: u32,
}

impl Admission {
    /// The default choice.
    #[must_use]
    pub fn of(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }
}

/// Why a task is parked: what it waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ParkReason {
    /// A slot, or the rate, of this `concurrency_key`.
    Key(String),
    /// A slot for retries.
    Retries,
    /// An executor with a version in this range.
    Version(String),
    /// An executor that takes tasks of this kind; an executor that asked takes only other kinds.
    Kind(String),
}
