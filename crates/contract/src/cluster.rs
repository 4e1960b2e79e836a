//! What engines write down so that an operator can ask any of them about all: events, what each has counted, and who has
//! fallen silent. No task rests on any of it, and none waits for it.

use crate::{error::Error, store::Applied};
use async_trait::async_trait;
use punctual_domain::{event::EventKind, name::QueueKey, place::Partition, time::Millis};
use std::fmt;

/// Promises:
/// - **Durable.** What was appended is there after any crash.
/// - **Once.** Of events with one key the first stands, whoever appends the others.
/// - **Bounded.** A look passes over no more than what `trim_events` leaves, or than its own limit.
#[async_trait]
pub trait ClusterStore: Send + Sync + fmt::Debug + 'static {
    /// Lost: one with this key stands already.
    async fn append_event(&self, event: Event) -> Result<Applied, Error>;

    /// Events with their numbers, the newest first.
    async fn events(&self, query: EventQuery) -> Result<Vec<(i64, Event)>, Error>;

    /// Forgets the oldest events that are from before an instant, or beyond so many; at most `limit`. How many.
    async fn trim_events(&self, before: Millis, most: usize, limit: usize) -> Result<usize, Error>;

    /// Keeps what an engine has counted in one step, in the place of what it said of that step before.
    async fn save_sample(&self, sample: Sample) -> Result<(), Error>;

    /// Of all engines, from a step on, in order of step and engine.
    async fn samples(&self, since: Millis) -> Result<Vec<Sample>, Error>;

    /// The same by queue; its body has `started_ms`, `until_ms`, and in `queues` the counts of each under [`in_sample`].
    async fn save_queue_sample(&self, sample: Sample) -> Result<(), Error>;

    /// As `samples`, of queues. Of one queue only: the body has `counts` instead of `queues`, `{}` where none were told.
    async fn queue_samples(&self, since: Millis, only: Option<&QueueKey>) -> Result<Vec<Sample>, Error>;

    /// Forgets samples of steps before an instant, of queues too. How many steps of engines.
    async fn trim_samples(&self, before: Millis) -> Result<usize, Error>;

    /// The last heartbeat of every engine that has not left, by name; those that are silent for long may be missing.
    /// Empty: no engines share this store.
    async fn signs_of_life(&self) -> Result<Vec<SignOfLife>, Error>;

    /// What one database holds, as it estimates it.
    async fn database(&self, part: usize) -> Result<Database, Error>;

    /// Partitions that are on their way from one database to another, by number.
    async fn moves(&self) -> Result<Vec<Move>, Error>;

    /// How many tasks of one partition wait for a time in each step of a span: one range of the key.
    async fn due_counts(&self, look: DueLook) -> Result<DueCounts, Error>;
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub at: Millis,
    pub kind: EventKind,
    /// Of what happened once it is one, whoever has noticed it; at most [`EVENT_KEY_MAX`] bytes.
    pub key: String,
    /// Which engine it is about, or noticed it; None: no engine did.
    pub engine: Option<String>,
    /// A sentence for people.
    pub text: String,
    /// A JSON object.
    pub details: String,
}

pub const EVENT_KEY_MAX: usize = 255;

/// All given conditions hold together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventQuery {
    pub kind: Option<EventKind>,
    pub engine: Option<String>,
    /// Inclusive.
    pub since: Option<Millis>,
    /// Exclusive.
    pub until: Option<Millis>,
    /// Go on below this number.
    pub before_id: Option<i64>,
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    pub step_at: Millis,
    pub engine: String,
    /// JSON; what is in it is the engines' own.
    pub body: String,
}

/// Under what a queue is in samples.
#[must_use]
pub fn in_sample(queue: &QueueKey) -> String {
    format!("{}/{}", queue.namespace, queue.queue)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignOfLife {
    pub engine: String,
    /// On the keeper's clock: the engine counts as alive until then.
    pub alive_until: Millis,
    /// How long ago that was; 0: it is alive.
    pub silent_ms: i64,
    pub has_hot: bool,
}

/// Estimates of its server; None: it gives none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Database {
    pub name: String,
    pub rows: Option<i64>,
    pub bytes: Option<i64>,
    /// Slices of the time axis; None: it is not cut.
    pub buckets: Option<i64>,
    /// Of these, that are wider than they should be and cannot be cut; None: nobody has looked.
    pub buckets_wide: Option<i64>,
    /// In order of time; empty: it is not cut.
    pub axis: Vec<Slice>,
    /// How often archives of it were published; None: nothing is archived of it.
    pub archives: Option<i64>,
}

/// Of a partition, from one database to another: begun, and neither over nor revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub partition: Partition,
    pub from: usize,
    pub to: usize,
}

/// A piece of the time axis of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Exclusive; None: the last one, which has no end.
    pub until: Option<Millis>,
    /// As the server estimates it.
    pub rows: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueLook {
    pub partition: Partition,
    /// Inclusive.
    pub from: Millis,
    /// Exclusive.
    pub until: Millis,
    pub step_ms: i64,
    /// Tasks that are passed over.
    pub limit: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueCounts {
    /// By step, the first is 0; those without a task are left out.
    pub steps: Vec<(usize, u64)>,
    /// As many as `limit` were counted: what is due later was not looked at.
    pub is_cut: bool,
}
