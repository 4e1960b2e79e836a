//! How many attempts may be in flight, and how fast they may start. A slot is not a number that is counted up and down:
//! it is a member, an attempt with the scopes that it holds, so that it cannot drift, says who has it, and is given up
//! once however often that is said. The store has the truth; what is here can be rebuilt from its leases.

use crate::error::Error;
use async_trait::async_trait;
use punctual_domain::{limits::Scope, name::QueueKey, place::TaskRef, settings::Rate, time::Millis};
use std::fmt;

/// Promises:
/// - **Never above.** `grant` leaves no scope with more members than the limit that the wish names for it, any other that
///   grants at the same time.
/// - **All or nothing.** A wish gets a place in all of its scopes and a start from all of its rates, or none of either.
/// - **Once.** A member that holds a place already is granted again without cost. It holds it anew from then on: whoever was
///   granted it before cannot `retract` it any more.
/// - **Never over the rate.** From a rate come at most its burst and what the rate brings, in any stretch of time. Where
///   engines share a limiter it has one clock for all of them, so that it does not matter how theirs differ.
/// - **Never by time.** A place is given up by `release` and `retract` and by nothing else. `until` only says when to look.
/// - **Whole or nothing.** What has lost members, or may have (another server answers, or the same one after a restart),
///   knows it, and grants nothing until `make_whole`.
/// - **Bounded.** Every method does at most as much as its arguments say.
/// - **Nothing rests on demands.** They are what engines tell each other so as to share alike; one that is not learned of for
///   `DEMANDS_KNOWN_MS` is forgotten, and a loss of all members may take them along.
#[async_trait]
pub trait Limiter: Send + Sync + fmt::Debug + 'static {
    /// One answer a wish, in order; an earlier one is served before a later one. `now` on the engine's own clock.
    async fn grant(&self, requests: Vec<SlotRequest>, now: Millis) -> Result<Vec<Verdict>, Error>;

    /// What could be granted now to wishes with just these limits and rates: so that no more is taken than can go.
    async fn room(&self, limits: &[Limit], rates: &[Flowing], now: Millis) -> Result<Room, Error>;

    /// Gives places up. One answer a member, in order: what it held, if it did.
    async fn release(&self, members: &[Member]) -> Result<Vec<Option<Held>>, Error>;

    /// Takes back grants that nothing has come of: each by when it was granted. One answer each, as `release`; who has been
    /// granted again since, or holds nothing, keeps what it has.
    async fn retract(&self, granted: &[(Member, Millis)]) -> Result<Vec<Option<Held>>, Error>;

    /// Says anew when to look at members; who holds nothing is passed over.
    async fn prolong(&self, members: &[(Member, Millis)]) -> Result<(), Error>;

    /// These hold places, whatever the limits say: they are in flight. Takes the place of what a member held.
    async fn restore(&self, held: Vec<Held>) -> Result<(), Error>;

    /// Members to be looked at by `until`, in that order, without the first `skip`.
    async fn members(&self, until: Millis, skip: usize, limit: usize) -> Result<Vec<Held>, Error>;

    /// What these hold, in any order; who holds nothing is left out.
    async fn find(&self, members: &[Member]) -> Result<Vec<Held>, Error>;

    /// Who holds a scope: how many, and the first of them.
    async fn holders(&self, scope: &Scope, limit: usize) -> Result<Holders, Error>;

    /// How many members each of these scopes has, in order.
    async fn held(&self, scopes: &[Scope]) -> Result<Vec<usize>, Error>;

    /// Says what one engine has lately seen asked for, in the place of what it said before. Answers what each engine has
    /// said within `DEMANDS_KNOWN_MS`, this one's too, in no order; several engines may speak of one queue.
    async fn demands(&self, engine: &str, seen: &[Demand], now: Millis) -> Result<Vec<Demand>, Error>;

    /// Whether it has all its members. Not at first, and not after it has lost them.
    async fn is_whole(&self) -> Result<bool, Error>;

    /// All that is in flight is about to be restored. Changes nothing where all members are there.
    async fn begin_anew(&self, who: Rebuilding) -> Result<(), Error>;

    /// All that is in flight has been restored since `begin_anew`. False: something was lost again, or another has
    /// begun after that; nothing is changed.
    async fn make_whole(&self, who: Rebuilding) -> Result<bool, Error>;
}

/// Where a limiter that engines share by their store keeps its members and buckets: one value with a version.
#[async_trait]
pub trait LimiterState: Send + Sync + fmt::Debug + 'static {
    /// The stored value. `known`: a version whose value need not be read again.
    async fn read(&self, known: i64) -> Result<StoredState, Error>;

    /// Replaces the value of `version` by this one, whose version is the next. False: the stored version is another, and nothing
    /// is changed.
    async fn swap(&self, version: i64, value: Vec<u8>) -> Result<bool, Error>;
}

/// The stored value of a limiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredState {
    /// From 0 on.
    pub version: i64,
    /// What the clock of the store shows.
    pub now: Millis,
    /// Empty: none was written yet. None: it is known.
    pub value: Option<Vec<u8>>,
}

/// How long what an engine has said of demands is known.
pub const DEMANDS_KNOWN_MS: i64 = 5_000;

/// What an engine has seen of one queue that counts for limits which queues share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    pub queue: QueueKey,
    /// Executors asked for its tasks and were deferred by a limit, or by a rate.
    pub short_of_slots: bool,
    pub short_of_starts: bool,
    /// Attempts that it let start, in a thousand seconds.
    pub starts_per_ks: u64,
}

/// One who restores members. No other has the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebuilding(pub u64);

/// An attempt: `fence` is the one that the hand-over will make, or has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    pub id: i64,
    pub fence: i64,
}

/// At most this many members in a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    pub scope: Scope,
    pub most: u32,
}

/// At most this fast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flowing {
    pub scope: Scope,
    pub rate: Rate,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRequest {
    pub member: Member,
    pub place: TaskRef,
    /// When to look whether it is still in flight.
    pub until: Millis,
    /// Scopes that it counts for without a limit have `u32::MAX`.
    pub limits: Vec<Limit>,
    pub rates: Vec<Flowing>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Granted,
    /// The first of its scopes that is full.
    Blocked(Scope),
    /// The first of its rates that has no start left, and how long until it has; None: never.
    Throttled {
        scope: Scope,
        wait_ms: Option<i64>,
    },
    /// The limiter has lost its members.
    NotWhole,
}

/// A member with what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub member: Member,
    pub place: TaskRef,
    pub granted_at: Millis,
    pub until: Millis,
    pub scopes: Vec<Scope>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    pub free: usize,
    /// What is in the way of more.
    pub bound: Option<Verdict>,
}

impl Room {
    /// It is no more than this, for this reason.
    pub fn narrow(&mut self, free: usize, bound: impl FnOnce() -> Verdict) {
        if free < self.free {
            *self = Self { free, bound: Some(bound()) };
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    pub count: usize,
    pub first: Vec<Held>,
}
