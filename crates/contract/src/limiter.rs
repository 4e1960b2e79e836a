//! Limits the number of attempts in flight, and the rate of their starts. A slot is not a counter but a member: an
//! attempt with the scopes that it holds. So it cannot drift, names its holder, and is released once however often
//! that is requested. The store has the truth; the limiter can be rebuilt from its leases.

use crate::error::Error;
use async_trait::async_trait;
use punctual_domain::{limits::Scope, name::QueueKey, place::TaskRef, settings::Rate, time::Millis};
use std::fmt;

/// Promises:
/// - **Never above.** `grant` leaves no scope with more members than the limit that the request names for it,
///   even with concurrent grants.
/// - **All or nothing.** A request gets a slot in all of its scopes and a start from all of its rates, or
///   none at all.
/// - **Once.** A member that already holds a slot is granted again without cost. The slot then counts from
///   the new grant: the earlier grantee cannot `retract` it any more.
/// - **Never over the rate.** In any period, a rate grants at most its burst plus its starts in that period. Engines
///   that share a limiter use one clock, so differences between their own clocks do not matter.
/// - **Never by time.** Only `release` and `retract` free a slot. `until` is only the time of a check.
/// - **Complete or closed.** A limiter that has lost members, or may have (another server answers, or the same one
///   after a restart), notices it, and grants nothing until `make_whole`.
/// - **Bounded.** The work of every method is bounded by its arguments.
/// - **Nothing depends on demands.** Engines exchange them to compute equal shares; a demand that is not
///   repeated within `DEMANDS_KNOWN_MS` is dropped, and a loss of all members may include them.
#[async_trait]
pub trait Limiter: Send + Sync + fmt::Debug + 'static {
    /// One answer per request, in order; earlier requests are served first. `now` is the engine's own clock.
    async fn grant(&self, requests: Vec<SlotRequest>, now: Millis) -> Result<Vec<Verdict>, Error>;

    /// Returns the number of requests with just these limits and rates that could be granted now, so that no more
    /// tasks are selected than can start.
    async fn room(&self, limits: &[Limit], rates: &[Flowing], now: Millis) -> Result<Room, Error>;

    /// Releases slots. One answer per member, in order: what it held, if anything.
    async fn release(&self, members: &[Member]) -> Result<Vec<Option<Held>>, Error>;

    /// Revokes unused grants, each identified by its time. One answer each, as `release`. A member that has
    /// been granted again since, or holds nothing, is unchanged.
    async fn retract(&self, granted: &[(Member, Millis)]) -> Result<Vec<Option<Held>>, Error>;

    /// Sets new times at which to check members; those that hold nothing are skipped.
    async fn prolong(&self, members: &[(Member, Millis)]) -> Result<(), Error>;

    /// These hold slots, regardless of the limits: they are in flight. Replaces what a member held.
    async fn restore(&self, held: Vec<Held>) -> Result<(), Error>;

    /// Members to check by `until`, in that order, without the first `skip`.
    async fn members(&self, until: Millis, skip: usize, limit: usize) -> Result<Vec<Held>, Error>;

    /// Returns the slots that these members hold, in any order. Members that hold none are omitted.
    async fn find(&self, members: &[Member]) -> Result<Vec<Held>, Error>;

    /// The holders of a scope: their number, and the first of them.
    async fn holders(&self, scope: &Scope, limit: usize) -> Result<Holders, Error>;

    /// Returns the number of members of each of these scopes, in order.
    async fn held(&self, scopes: &[Scope]) -> Result<Vec<usize>, Error>;

    /// Stores one engine's recent demands, replacing its earlier ones. Returns the demands of all engines
    /// within `DEMANDS_KNOWN_MS`, including this one's, in no order; several engines may report one queue.
    async fn demands(&self, engine: &str, seen: &[Demand], now: Millis) -> Result<Vec<Demand>, Error>;

    /// True if the limiter has all its members. False at first, and after it has lost members.
    async fn is_whole(&self) -> Result<bool, Error>;

    /// All attempts in flight are about to be restored. Changes nothing if no member is missing.
    async fn begin_anew(&self, who: Rebuilding) -> Result<(), Error>;

    /// All attempts in flight have been restored since `begin_anew`. False if members were lost again, or another
    /// engine has begun after that; nothing is changed.
    async fn make_whole(&self, who: Rebuilding) -> Result<bool, Error>;
}

/// The storage of a limiter that engines share by their store: members and buckets are one value with a version.
#[async_trait]
pub trait LimiterState: Send + Sync + fmt::Debug + 'static {
    /// The stored value. `known`: a version whose value need not be read again.
    async fn read(&self, known: i64) -> Result<StoredState, Error>;

    /// Replaces the value of `version` by this one, whose version is the next. False if the stored version differs,
    /// and nothing is changed.
    async fn swap(&self, version: i64, value: Vec<u8>) -> Result<bool, Error>;
}

/// The stored value of a limiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredState {
    /// The version of the value, from 0 on.
    pub version: i64,
    /// The store's clock.
    pub now: Millis,
    /// Empty: none was written yet. `None` if the caller has it.
    pub value: Option<Vec<u8>>,
}

/// The time for which an engine's demands are valid.
pub const DEMANDS_KNOWN_MS: i64 = 5_000;

/// An engine's observation of a queue that counts for shared limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    pub queue: QueueKey,
    /// Executors requested its tasks and were deferred by a limit, or by a rate.
    pub short_of_slots: bool,
    pub short_of_starts: bool,
    /// Attempts that it let start, in a thousand seconds.
    pub starts_per_ks: u64,
}

/// An engine that restores members. No other has the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebuilding(pub u64);

/// An attempt: `fence` is the one that the hand-over will make, or has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    pub id: i64,
    pub fence: i64,
}

/// A limit of at most this many members in a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    pub scope: Scope,
    pub most: u32,
}

/// A rate limit of a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flowing {
    pub scope: Scope,
    pub rate: Rate,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRequest {
    pub member: Member,
    pub place: TaskRef,
    /// The instant of the check whether the member is still in flight.
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
    /// The first of its rates without a start, and how long until it has one, or `None` means never.
    Throttled {
        scope: Scope,
        wait_ms: Option<i64>,
    },
    /// The limiter has lost its members.
    NotWhole,
}

/// A member with the scopes that it holds.
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
    /// The limit that prevents more.
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
