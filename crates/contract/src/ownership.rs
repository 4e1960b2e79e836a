//! The assignment of partitions to engines, if several engines share the work. It makes waking and wheels cheap;
//! correctness never depends on it: claims are atomic, terms fence outdated engines, the store decides.

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
/// - **One owner.** A partition has at most one owner with an unexpired lease.
/// - **Terms ascend.** Each change of owner gives the partition a higher term; renewing keeps it.
/// - **One clock.** Leases are compared on the keeper's clock; the engines' clocks do not matter.
/// - **Said.** A loss is an answer, never an error.
#[async_trait]
pub trait Ownership: Send + Sync + fmt::Debug + 'static {
    /// A heartbeat of `engine`, valid for `ttl`, with its report. Returns all live engines, sorted by name.
    async fn beat(&self, engine: &str, ttl: Duration, says: &Says) -> Result<Vec<Live>, Error>;

    /// Acquires the partitions that are free, whose lease has expired, or that `engine` already owns (then the term
    /// stays), for `ttl`. One answer per partition, in order, or `None` if another engine owns it.
    async fn acquire(
        &self,
        engine: &str,
        partitions: &[Partition],
        ttl: Duration,
    ) -> Result<Vec<Option<Tenure>>, Error>;

    /// Makes leases last `ttl` from now. One answer a tenure, in order; false: it is lost.
    async fn renew(&self, engine: &str, held: &[Tenure], ttl: Duration) -> Result<Vec<bool>, Error>;

    /// Gives partitions that `engine` holds by these tenures a term above `above`, unless theirs is higher: the hot
    /// set has seen newer terms, because this back end was restored or has lost its last writes. One answer per
    /// tenure, in order, or `None` if it is lost. An engine that does not hold a partition raises nothing.
    async fn raise(&self, engine: &str, held: &[Tenure], above: i64) -> Result<Vec<Option<Tenure>>, Error>;

    /// Ends leases immediately, so that others need not wait for their end. Partitions that are no longer
    /// held are skipped.
    async fn release(&self, engine: &str, held: &[Tenure]) -> Result<(), Error>;

    /// `engine` stops: it is not among the live any more.
    async fn leave(&self, engine: &str) -> Result<(), Error>;

    /// The keeper's clock, in one short round trip: the time on which all engines agree. `None` if it has no clock
    /// besides the engine's own.
    async fn now(&self) -> Result<Option<Millis>, Error>;

    /// Every partition that ever had an owner, in order.
    async fn owners(&self) -> Result<Vec<Owner>, Error>;
}

/// An engine's report in its heartbeat.
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

/// A live engine, as of its last heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    pub engine: String,
    pub has_hot: bool,
    /// The same as `Says::without`. `None` if the engine's release does not report it.
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
    /// The remaining time of the owner's lease; zero if it has ended.
    pub left: Duration,
}

/// Signals between engines, so that they need not poll so often. Delivery is not guaranteed: a receiver that depends
/// on them also polls at an interval. A signal may also reach its sender.
#[async_trait]
pub trait Signals: Send + Sync + fmt::Debug + 'static {
    /// Returns the engines that have not received signals for them alone, as far as the bus can tell: they do
    /// not listen.
    async fn announce(&self, signals: Vec<Signal>) -> Result<Vec<String>, Error>;

    /// Names this engine: from its next `next` on it receives signals for this engine alone. Makes no call.
    fn belongs_to(&self, _engine: &str) {}

    /// Waits for the next signals: for all engines, or for this one; others may be included. An error means
    /// that some may have been missed; the next call listens again.
    async fn next(&self) -> Result<Vec<Signal>, Error>;

    /// This engine stops listening: signals for it alone are reported to their senders as not received.
    async fn close(&self) {}

    /// The time after which a caller that waits for a signal polls without one: the signal may have been lost.
    fn look_after(&self) -> Duration {
        Duration::from_millis(250)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Something was loaded into the hot set that is due at this time.
    Due { partition: Partition, due_at: Millis },
    /// This engine receives demands, and repeats this each second.
    Hello { engine: String },
    /// Executors at this engine accept this many tasks of the queue.
    Wanted { engine: String, queue: QueueKey, places: usize },
    /// Tasks of this queue wait at this engine without an executor.
    Ready { engine: String, queue: QueueKey },
    /// Attempts have ended at this engine, and this many slots of a queue are free: of one lane, or of all
    /// its tasks.
    Freed { engine: String, queue: QueueKey, lane: Option<ParkReason>, places: usize },
    /// A signal to one engine, `Demand::to`.
    Demand(Box<Demand>),
    /// A signal to one engine, `Passed::to`.
    Passed(Box<Passed>),
}

impl Signal {
    /// The engine that it is for. `None` means all of them.
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

/// A request of an executor that waits at one engine, for tasks that wait at another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    pub to: String,
    pub from: String,
    /// The answer names it.
    pub number: u64,
    pub queue: QueueKey,
    /// The number of tasks that the executor accepts.
    pub places: usize,
    pub lease_ms: i64,
    pub executor: String,
    /// The version of its handlers. `None` if it takes only tasks that demand none.
    pub version: Option<String>,
    /// `None` accepts tasks of any kind.
    pub kinds: Option<BTreeSet<Name>>,
    /// The maximum number of tasks that the executor holds. `None` if unknown.
    pub bound: Option<u32>,
}

/// The answer to a demand: tasks that may start now. The requesting engine has the store lease them. Or
/// unfired tasks, for an engine that announced that its executors accept some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    pub to: String,
    pub from: String,
    pub number: u64,
    pub queue: QueueKey,
    pub entries: Vec<HotEntry>,
    /// The instant that the limiter was given when it granted their slots. `None` if they need none.
    pub granted_at: Option<Millis>,
    /// More of the queue wait there.
    pub has_more: bool,
}

impl Passed {
    /// The number for unfired tasks: no demand has it.
    pub const AHEAD: u64 = 0;
}
