//! The near future: a cache of what is due soon, that can be rebuilt from the store at any time. It decides one
//! thing: whether a task was withdrawn before it fired, or fired before it was withdrawn.

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
/// - **One place at a time.** An entry (told apart by id) is in `due`, or not. What is drained is in the caller's hands.
/// - **One owner.** `drain` gives nothing to a term that is older than one it has seen.
/// - **Newest fence wins.** An entry never takes the place of one with the same or a newer fence.
/// - **Definite withdrawal.** `withdraw` and `drain` of one entry: exactly one of them gets it.
/// - **Bounded.** Every method does at most as much as its limit or its argument says.
#[async_trait]
pub trait Hot: Send + Sync + fmt::Debug + 'static {
    /// Puts entries into `due`, each unless the same id is there with the same or a newer fence. An older one is replaced.
    /// Loading twice is harmless. Answers how many were put in. What is broken in one partition is an error, and the entries of the
    /// others are put in.
    async fn load(&self, entries: Vec<HotEntry>) -> Result<usize, Error>;

    /// Pops what is due at or before `until` in each of these partitions, the earliest first, at most `limit` in each, which is at
    /// most 1,000. An answer for each, in order: a failure of one keeps none of the others. A tenure of an older term than has been seen
    /// here gets nothing.
    async fn drain(
        &self,
        tenures: &[Tenure],
        until: Millis,
        limit: usize,
    ) -> Vec<Result<Vec<HotEntry>, Error>>;

    /// Takes an entry with at most this fence out of `due`.
    async fn withdraw(&self, partition: Partition, id: i64, fence: i64) -> Result<Withdrawn, Error>;

    /// How many entries there are, of all partitions.
    async fn count_due(&self) -> Result<usize, Error>;

    /// What became of these partitions since this was first asked with this tenure; in order. `Lost` at the first
    /// question, and once after each loss of a whole partition (a flush), and after each restart or failover of a server, which may
    /// lack what was put in last: the owner loads it again. A loss of a few entries of a server that lives is not noticed here. A caller that asks with an older term than has been seen
    /// here is told so each time, and changes nothing.
    async fn is_whole(&self, tenures: &[Tenure]) -> Result<Vec<Wholeness>, Error>;

    /// Forgets all that is due in a partition, unless a newer term has been seen there: what is stored there is of a time that the
    /// store has lost. From then on older terms drain nothing.
    async fn clear(&self, tenure: Tenure) -> Result<(), Error>;

    /// What of a task's way it keeps, always the same. Makes no call.
    fn keeps(&self) -> Keeps {
        Keeps::Due
    }

    /// In words, whose it is, once `is_whole` has found that it is not this store's: from then on until it is found to
    /// be this store's again every method fails and does nothing. Asks nobody.
    fn stranger(&self) -> Option<String> {
        None
    }

    /// In words, why no call passes through to its servers: they have not answered a first look, must not be used by an engine, or
    /// hold another store's entries. None: calls go through. Makes no call.
    fn refusal(&self) -> Option<String> {
        self.stranger()
    }

    /// How full it is, in thousandths of what it may hold, where it is fullest; 0: it has no bound. From 1000 on `load`
    /// may be refused, which changes nothing of what is there; every other method continues. Cheap: asked after each
    /// thousand entries.
    async fn fullness(&self) -> Result<u32, Error>;
}

/// What of a task's way a hot set keeps. What it does not keep, the store has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// What is due soon, until its owner drains it.
    Due,
    /// It is always empty.
    Nothing,
}

/// What became of a partition in the hot set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wholeness {
    Whole,
    /// What was there may be gone.
    Lost,
    /// This newer term has been seen: a caller that asks is out of date, or the back end that gives terms has gone back in time.
    NewerTerm(i64),
    /// What is kept there is not what was put there: nothing is known of it, and of the other partitions all is.
    Broken,
}

/// What the hot set keeps of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotEntry {
    pub place: TaskRef,
    pub due_at: Millis,
    pub fence: i64,
    pub queue: Arc<QueueKey>,
    pub priority: Priority,
    pub task_id: i64,
    pub task_version: i64,
    /// Not started by then, it is dead; `Millis::MAX`: none.
    pub deadline_at: Millis,
    /// As the store had it when the entry was made: tells a claim from taking over a dead owner's claim.
    pub state: State,
    /// When it fired; `Millis::ZERO`: not yet.
    pub fired_at: Millis,
    /// Attempts begun: not 0 is a task that is tried again.
    pub attempt: u32,
    pub details: Arc<Details>,
}

/// What differs in length. Behind a pointer, and shared by entries that say the same: millions of entries are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// None: the entry was written by a release that did not keep it. The row says.
    pub kind: Option<Name>,
    pub demands: Demands,
    /// What a hand-over needs besides. None: too long to travel, or left out for want of room. The row says.
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

    /// Where its row is now: a store that is clustered by due time finds it there without a search.
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

    /// Its row is read before a hand-over.
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
    /// Not in `due`: never loaded, or drained. Its owner, or the store, knows.
    Absent,
}

/// How much is to be popped, and how it is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Admission {
    pub limit: usize,
    pub chooser: Chooser,
    /// What the choices are drawn from.
    pub seed: u32,
}

impl Admission {
    /// The default choice.
    #[must_use]
    pub fn of(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }
}

/// Why something is parked: what it waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ParkReason {
    /// A slot, or the rate, of this `concurrency_key`.
    Key(String),
    /// A slot for what is tried again.
    Retries,
    /// An executor with a version in this range.
    Version(String),
    /// An executor that takes tasks of this kind, where one asked that takes only others.
    Kind(String),
}
