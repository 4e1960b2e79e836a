//! Who works on which partition, when several engines share the work. It makes waking and wheels cheap; correctness
//! never rests on it: claims are atomic, terms fence zombies, the store decides.

use crate::{
    error::Error,
    hot::{HotEntry, ParkReason},
};
use async_trait::async_trait;
use punctual_domain::{
    name::{Name, QueueKey},
    place::Partition,
    time::Millis,
};
use std::{collections::BTreeSet, fmt, time::Duration};

/// Promises:
/// - **One owner.** A partition has at most one owner whose lease has not ended.
/// - **Terms ascend.** Each change of owner gives the partition a higher term; renewing keeps it.
/// - **One clock.** Leases are compared on the keeper's clock; those of the engines do not matter.
/// - **Said.** What was lost is an answer, never an error.
#[async_trait]
pub trait Ownership: Send + Sync + fmt::Debug + 'static {
    /// A heartbeat of `engine`, good for `ttl`, with what it says of itself. Answers all live engines, sorted by name.
    async fn beat(&self, engine: &str, ttl: Duration, says: &Says) -> Result<Vec<Live>, Error>;

    /// Takes those partitions that are free, whose lease has ended, or that `engine` owns already (then the term
    /// stays), for `ttl`. One answer a partition, in order; None: another owns it.
    async fn acquire(
        &self,
        engine: &str,
        partitions: &[Partition],
        ttl: Duration,
    ) -> Result<Vec<Option<Tenure>>, Error>;

    /// Makes leases last `ttl` from now. One answer a tenure, in order; false: it is lost.
    async fn renew(&self, engine: &str, held: &[Tenure], ttl: Duration) -> Result<Vec<bool>, Error>;

    /// Gives partitions that `engine` holds by these tenures a term above `above`, where theirs is not: the hot set has
    /// seen newer terms, because this back end was restored or has lost its last writes. One answer a tenure, in order;
    /// None: it is lost. The engine that does not hold a partition raises nothing.
    async fn raise(&self, engine: &str, held: &[Tenure], above: i64) -> Result<Vec<Option<Tenure>>, Error>;

    /// Ends leases at once, so that others need not wait for their end. What is not held any more is passed over.
    async fn release(&self, engine: &str, held: &[Tenure]) -> Result<(), Error>;

    /// `engine` stops: it is not among the live any more.
    async fn leave(&self, engine: &str) -> Result<(), Error>;

    /// What the keeper's clock shows, in one short round trip: the time that all engines agree by. None: it has none beside the
    /// engine's own.
    async fn now(&self) -> Result<Option<Millis>, Error>;

    /// Every partition that ever had an owner, in order.
    async fn owners(&self) -> Result<Vec<Owner>, Error>;
}

/// What an engine says of itself with a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Says {
    /// The hot set answers it.
    pub has_hot: bool,
    /// Parts of the store that its writers do not reach, in order.
    pub without: Vec<usize>,
}

impl Default for Says {
    /// All is well.
    fn default() -> Self {
        Self { has_hot: true, without: Vec::new() }
    }
}

/// An engine that is alive, as it last said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    pub engine: String,
    pub has_hot: bool,
    /// As `Says::without`. None: it is of a release that does not say.
    pub without: Option<Vec<usize>>,
}

impl Live {
    #[must_use]
    pub fn new(engine: impl Into<String>, says: &Says) -> Self {
        Self { engine: engine.into(), has_hot: says.has_hot, without: Some(says.without.clone()) }
    }
}

/// The right to work on a partition, as long as no engine has a higher term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenure {
    pub partition: Partition,
    pub term: i64,
}

impl Tenure {
    /// The tenure of an engine that shares with no engine.
    #[must_use]
    pub const fn sole(partition: Partition) -> Self {
        Self { partition, term: 0 }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub tenure: Tenure,
    pub engine: String,
    /// How much longer its lease lasts; zero: it has ended.
    pub left: Duration,
}

/// What one engine tells the others, so that they need not look so often. Promises nothing: the engine that rests on it looks
/// at an interval all the same. A signal may reach its sender too.
#[async_trait]
pub trait Signals: Send + Sync + fmt::Debug + 'static {
    /// Returns the engines that have not heard what is for them alone, as far as the bus can tell: they do not listen.
    async fn announce(&self, signals: Vec<Signal>) -> Result<Vec<String>, Error>;

    /// Whose end this is: from its next `next` on it hears what is for this engine alone. Makes no call.
    fn belongs_to(&self, _engine: &str) {}

    /// Waits for the next signals from any engine: for all engines, or for this one; others may be among them. An error means that some may have been missed; the next call
    /// listens again.
    async fn next(&self) -> Result<Vec<Signal>, Error>;

    /// This engine listens no more: what is for it alone comes back to its sender.
    async fn close(&self) {}

    /// A caller that waits for a signal looks after this without one: it may have been lost.
    fn look_after(&self) -> Duration {
        Duration::from_millis(250)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Something was loaded into the hot set that is due at this time.
    Due { partition: Partition, due_at: Millis },
    /// This engine hears demands, and says so each second.
    Hello { engine: String },
    /// Executors at this engine take so many tasks of the queue.
    Wanted { engine: String, queue: QueueKey, places: usize },
    /// Tasks of this queue wait at this engine, and no executor takes them there.
    Ready { engine: String, queue: QueueKey },
    /// At this engine attempts have ended, and so many places of a queue are free: of one lane of it, or of all its tasks.
    Freed { engine: String, queue: QueueKey, lane: Option<ParkReason>, places: usize },
    /// For one engine: `Demand::to`.
    Demand(Box<Demand>),
    /// For one engine: `Passed::to`.
    Passed(Box<Passed>),
}

impl Signal {
    /// The engine that it is for. None: all of them.
    #[must_use]
    pub fn addressee(&self) -> Option<&str> {
        match self {
            Self::Due { .. }
            | Self::Hello { .. }
            | Self::Wanted { .. }
            | Self::Ready { .. }
            | Self::Freed { .. } => None,
            Self::Demand(demand) => Some(&demand.to),
            Self::Passed(passed) => Some(&passed.to),
        }
    }
}

/// An executor that waits at one engine asks for tasks that wait at another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    pub to: String,
    pub from: String,
    /// The answer names it.
    pub number: u64,
    pub queue: QueueKey,
    /// How many tasks it takes.
    pub places: usize,
    pub lease_ms: i64,
    pub executor: String,
    /// Of its handlers. None: it takes only tasks that demand none.
    pub version: Option<String>,
    /// None: tasks of any kind.
    pub kinds: Option<BTreeSet<Name>>,
    /// How many tasks the executor holds at most. None: it does not say.
    pub bound: Option<u32>,
}

/// The answer to a demand: tasks that may go now. The engine that asked has the store lease them. Or tasks whose time has not come, for
/// an engine that has said that its executors take some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    pub to: String,
    pub from: String,
    pub number: u64,
    pub queue: QueueKey,
    pub entries: Vec<HotEntry>,
    /// When the limiter granted each of them its places, as it was told. None: they need none.
    pub granted_at: Option<Millis>,
    /// More of the queue wait there.
    pub has_more: bool,
}

impl Passed {
    /// The number of tasks whose time has not come: no demand has it.
    pub const AHEAD: u64 = 0;
}
