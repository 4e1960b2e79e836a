//! Data that engines store so that an operator can ask any of them about all: events, counts of each, and
//! silent engines. No task depends on it, and none waits for it.

use crate::{error::Error, store::Applied};
use async_trait::async_trait;
use punctual_domain::{event::EventKind, name::QueueKey, place::Partition, time::Millis};
use std::fmt;

/// Promises:
/// - **Durable.** An appended event survives any crash.
/// - **Once.** Of several events with one key, the store keeps the first, whichever engine appends the others.
/// - **Bounded.** A read examines at most the events that `trim_events` leaves, or its own limit.
#[async_trait]
pub trait ClusterStore: Send + Sync + fmt::Debug + 'static {
    /// Lost: an event with this key exists.
    async fn append_event(&self, event: Event) -> Result<Applied, Error>;

    /// Events with their numbers, the newest first.
    async fn events(&self, query: EventQuery) -> Result<Vec<(i64, Event)>, Error>;

    /// Deletes the oldest events that are from before an instant, or exceed `most`, at most `limit`. Returns the
    /// number of deleted events.
    async fn trim_events(&self, before: Millis, most: usize, limit: usize) -> Result<usize, Error>;

    /// Stores an engine's counts of one step, replacing its earlier counts of that step.
    async fn save_sample(&self, sample: Sample) -> Result<(), Error>;

    /// Returns the samples of all engines from a step on, in order of step and engine.
    async fn samples(&self, since: Millis) -> Result<Vec<Sample>, Error>;

    /// The same by queue; its body has `started_ms`, `until_ms`, and in `queues` the counts of each under [`in_sample`].
    async fn save_queue_sample(&self, sample: Sample) -> Result<(), Error>;

    /// Returns samples like `samples`, of queues. With `only`, the body has `counts` instead of `queues`, `{}` if
    /// there are none.
    async fn queue_samples(&self, since: Millis, only: Option<&QueueKey>) -> Result<Vec<Sample>, Error>;

    /// Deletes samples of steps before an instant, also those of queues. Returns the number of deleted steps of
    /// engines.
    async fn trim_samples(&self, before: Millis) -> Result<usize, Error>;

    /// The last heartbeat of every engine that has not left, by name; those that are silent for long may be missing.
    /// Empty: no engines share this store.
    async fn signs_of_life(&self) -> Result<Vec<SignOfLife>, Error>;

    /// A database's content, as it estimates it.
    async fn database(&self, part: usize) -> Result<Database, Error>;

    /// Partitions that are on their way from one database to another, by number.
    async fn moves(&self) -> Result<Vec<Move>, Error>;

    /// Counts the tasks of one partition that wait for a time in each step of a span. It reads one range of the key.
    async fn due_counts(&self, look: DueLook) -> Result<DueCounts, Error>;
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub at: Millis,
    pub kind: EventKind,
    /// The key of the event. An event that several engines notice has the same key at each; at most [`EVENT_KEY_MAX`]
    /// bytes.
    pub key: String,
    /// The engine that it concerns, or that noticed it, or `None` means no engine.
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
    /// Continue below this number.
    pub before_id: Option<i64>,
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    pub step_at: Millis,
    pub engine: String,
    /// JSON, whose content the engines define.
    pub body: String,
}

/// The name of a queue in samples.
#[must_use]
pub fn in_sample(queue: &QueueKey) -> String {
    format!("{}/{}", queue.namespace, queue.queue)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignOfLife {
    pub engine: String,
    /// The instant, on the keeper's clock, until which the engine counts as alive.
    pub alive_until: Millis,
    /// The time since `alive_until` passed; 0 if the engine is alive.
    pub silent_ms: i64,
    pub has_hot: bool,
}

/// Estimates of its server, or `None` if it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Database {
    pub name: String,
    pub rows: Option<i64>,
    pub bytes: Option<i64>,
    /// Slices of the time axis, or `None` if it is not partitioned.
    pub buckets: Option<i64>,
    /// The number of these buckets that are too wide and cannot be split. `None` if that was not checked yet.
    pub buckets_wide: Option<i64>,
    /// The slices of the time axis, in order of time. Empty if the axis is not sliced.
    pub axis: Vec<Slice>,
    /// The number of publications of the database's archives. `None` if it is not archived.
    pub archives: Option<i64>,
}

/// A move of a partition from one database to another that has begun, and is neither complete nor revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub partition: Partition,
    pub from: usize,
    pub to: usize,
}

/// A piece of the time axis of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Exclusive, or `None` for the last one, which has no end.
    pub until: Option<Millis>,
    /// The number of rows, estimated by the server of the database.
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
    /// The count of each step. The first step is 0. Steps without a task are omitted.
    pub steps: Vec<(usize, u64)>,
    /// `limit` tasks were counted: later ones were not read.
    pub is_cut: bool,
}
