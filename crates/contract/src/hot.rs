//! The near future: a cache of what is due soon, that can be rebuilt from the store at any time. It decides one
//! thing: whether a task was withdrawn before it fired, or fired before it was withdrawn.

use crate::{ask::Ask, error::Error, ownership::Tenure};
use async_trait::async_trait;
use punctual_domain::{
    chooser::Chooser,
    name::{Name, QueueKey},
    order::Versioned,
    place::{Partition, TaskRef},
    settings::Retries,
    state::State,
    task::{Demands, Priority},
    time::Millis,
};
use std::{fmt, ops::Range, sync::Arc};

/// Promises:
/// - **One place at a time.** An entry (told apart by id) is in `due`, or in `firing`, or in neither. Each step
///   between is atomic.
/// - **Never early.** `take` pops nothing with `due_at > now`.
/// - **Newest fence wins.** An entry never takes the place of one with the same or a newer fence.
/// - **Definite withdrawal.** `withdraw` and `take` of one entry: exactly one of them gets it.
/// - **Bounded.** Every method does at most as much as its limit or its argument says.
#[async_trait]
pub trait Hot: Send + Sync + fmt::Debug + 'static {
    /// Puts entries into `due`, each unless the same id is there or firing with the same or a newer fence.
    /// An older one is replaced. Loading twice is harmless. Answers how many were put in.
    async fn load(&self, entries: Vec<HotEntry>) -> Result<usize, Error>;

    /// The same, for entries whose ids their insert has just made, while no other process loads anything here. A hot set
    /// that many processes share may keep them to this process, until `share`.
    async fn load_near(&self, entries: Vec<HotEntry>) -> Result<usize, Error> {
        self.load(entries).await
    }

    /// What it has kept to this process, of one partition or of all, is put where every process finds it. How many. What
    /// failed is put there by the next call.
    async fn share(&self, partition: Option<Partition>) -> Result<usize, Error> {
        let _ = partition;
        Ok(0)
    }

    /// Puts entries that were taken elsewhere into `firing`, each with its own `fired_at`, unless the same id fires with
    /// the same or a newer fence, or is due with a newer one. What it meets else under the same id is replaced. Answers
    /// how many were put in.
    async fn load_fired(&self, entries: Vec<HotEntry>) -> Result<usize, Error>;

    /// Reads, without moving anything, what is due at or before `until`, in order of (due_at, id), after a position.
    async fn peek(
        &self,
        partition: Partition,
        after: Option<(Millis, i64)>,
        until: Millis,
        limit: usize,
    ) -> Result<Vec<HotEntry>, Error>;

    /// Pops what is due from `due` into `firing`, the earliest first. What it pops is what fires. Whoever comes with
    /// an older term than has been seen here gets nothing. Those of `settled` (id and fence, each id once) that it pops
    /// do not stand in `firing` afterwards: their hand-over is known, as if they had been settled at once.
    async fn take_settling(
        &self,
        tenure: Tenure,
        now: Millis,
        limit: usize,
        settled: &[(i64, i64)],
    ) -> Result<Vec<HotEntry>, Error>;

    /// The same, where nothing is known of any hand-over.
    async fn take(&self, tenure: Tenure, now: Millis, limit: usize) -> Result<Vec<HotEntry>, Error> {
        self.take_settling(tenure, now, limit, &[]).await
    }

    /// Takes an entry with at most this fence out of `due`, if it has not fired.
    async fn withdraw(&self, partition: Partition, id: i64, fence: i64) -> Result<Withdrawn, Error>;

    /// The hand-over of these is known: they leave `firing` (and `due`) unless their fence is newer.
    async fn settle(&self, settled: &[(Partition, i64, i64)]) -> Result<(), Error>;

    /// Puts fired entries into the ready sets of their queues, each into the level that `retries` gives it. What
    /// stands there already, in order or parked, stays where it is unless this has a newer fence.
    async fn offer(&self, entries: Vec<HotEntry>, retries: Retries) -> Result<(), Error>;

    /// Pops from the order of a queue's ready set: the level that the chooser says, in it the oldest first; of two
    /// versions of one task the newer first. What was settled meanwhile is passed over. The same seed makes the same
    /// choices in every back end.
    async fn admit(&self, queue: &QueueKey, admission: Admission) -> Result<Vec<HotEntry>, Error>;

    /// Puts fired entries of one queue aside, out of its order, into a lane: they may not go now, and must not stand
    /// in the way of those that may. What stands in the order with the same fence is taken out of it.
    async fn park(&self, lane: &Lane, entries: Vec<HotEntry>, retries: Retries) -> Result<(), Error>;

    /// Brings the first of a lane back into the order, where they stand as if they had never left it. How many.
    async fn unpark(&self, queue: &QueueKey, lane: &Lane, limit: usize) -> Result<usize, Error>;

    /// Lanes of a queue in which something is parked, in order, after one, and how much.
    async fn lanes(
        &self,
        queue: &QueueKey,
        after: Option<&Lane>,
        limit: usize,
    ) -> Result<Vec<(Lane, usize)>, Error>;

    /// Entries of a partition that fired before `before` and that no hand-over has settled, the oldest first; of these
    /// the ones at `places`.
    async fn firing(
        &self,
        partition: Partition,
        before: Millis,
        places: Range<usize>,
    ) -> Result<Vec<HotEntry>, Error>;

    async fn depth(&self) -> Result<Depth, Error>;

    /// What became of these partitions since this was first asked with this tenure; in order. `Lost` at the first
    /// question, and once after each loss of a whole partition (a restart without its data, a flush): whoever owns it
    /// loads it again. A loss of a few entries is not noticed here. Whoever asks with an older term than has been seen
    /// here is told so each time, and changes nothing.
    async fn is_whole(&self, tenures: &[Tenure]) -> Result<Vec<Wholeness>, Error>;

    /// Forgets all that is due or fires in a partition, unless a newer term has been seen there: what stands there is of a
    /// time that the store has lost. From then on older terms take nothing.
    async fn clear(&self, tenure: Tenure) -> Result<(), Error>;

    /// Whether there is a hot set. False: it is always empty, every task fires from the store, and the store alone decides
    /// whether a task was withdrawn. Makes no call.
    fn is_there(&self) -> bool {
        true
    }

    /// In words, whose it is, once `is_whole` has found that it is not this store's: from then on until it is found to
    /// be this store's again every method fails and does nothing. Asks nobody.
    fn stranger(&self) -> Option<String> {
        None
    }

    /// In words, why no call goes through to its servers: they have not answered a first look, must not be used by an engine, or
    /// hold another store's entries. None: calls go through. Makes no call.
    fn refusal(&self) -> Option<String> {
        self.stranger()
    }

    /// How far ahead of their instants entries are to bring what a hand-over needs, in milliseconds. What is kept outside of this
    /// process brings it always; in this process memory is dearer than a read of a row. A back end may keep less of it than it is
    /// given, and answer entries without it.
    fn asks_ahead_ms(&self) -> i64 {
        i64::MAX
    }

    /// How full it is, in thousandths of what it may hold, where it is fullest; 0: it has no bound. From 1000 on `load`
    /// may be refused, which changes nothing of what is there; every other method goes on. Cheap: asked after each
    /// thousand entries.
    async fn fullness(&self) -> Result<u32, Error>;
}

/// What became of a partition in the hot set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wholeness {
    Whole,
    /// What was there may be gone.
    Lost,
    /// This newer term has been seen: whoever asks is out of date, or the back end that gives terms has gone back in time.
    Overtaken(i64),
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
    /// When it was taken; `Millis::ZERO`: not yet.
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
    /// Not in the hot set: never loaded, or its hand-over is done. The store knows.
    Absent,
    /// It has fired and waits to be handed over.
    Fired,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    pub due: usize,
    pub firing: usize,
    /// Per queue, what waits for an executor in its order.
    pub ready: Vec<(Arc<QueueKey>, usize)>,
    /// Per queue, what is parked.
    pub parked: Vec<(Arc<QueueKey>, usize)>,
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
pub enum Lane {
    /// A slot, or the rate, of this `concurrency_key`.
    Key(String),
    /// A slot for what is tried again.
    Retries,
    /// An executor with a version in this range.
    Version(String),
    /// An executor that takes tasks of this kind, where one asked that takes only others.
    Kind(String),
}
