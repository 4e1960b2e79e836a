//! The task as all code above the domain sees it: the request, its state, its result.

pub use crate::content::Content;
use crate::{
    history::Entry,
    insert::OnConflict,
    key::Key,
    name::{Name, QueueKey},
    place::TaskRef,
    retry::RetryPolicy,
    state::State,
    time::Millis,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Ids that the engine counts for tasks without a caller's id start here: far from small callers' ids and, up
/// to 2^53, exact in JavaScript. Row ids are counted from 1: at 10,000 tasks/s they reach 2^52 in 14,000
/// years. Uniqueness does not depend on it: a used id is skipped.
pub const ENGINE_TASK_ID_BASE: i64 = 1 << 52;

/// A priority from 1 (the most urgent) to 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Priority(u8);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("priority {0} is not one of 1 (highest) to 5 (lowest)")]
pub struct InvalidPriority(pub u8);

impl Priority {
    pub const HIGHEST: Self = Self(1);
    pub const LOWEST: Self = Self(5);

    /// # Errors
    /// Outside 1..=5.
    pub const fn new(level: u8) -> Result<Self, InvalidPriority> {
        if level >= 1 && level <= 5 { Ok(Self(level)) } else { Err(InvalidPriority(level)) }
    }

    #[must_use]
    pub const fn level(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self(3)
    }
}

impl TryFrom<u8> for Priority {
    type Error = InvalidPriority;
    fn try_from(level: u8) -> Result<Self, InvalidPriority> {
        Self::new(level)
    }
}

impl From<Priority> for u8 {
    fn from(priority: Priority) -> Self {
        priority.0
    }
}

/// A caller's request: the part of a task that an insert sets and a replacement sets again.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTask {
    pub queue: QueueKey,
    /// If `None`, the id is derived from `key`, or the engine assigns one.
    pub task_id: Option<i64>,
    /// The identity as a text. A stored task has an id besides.
    pub key: Option<Key>,
    pub task_version: i64,
    pub kind: Name,
    pub priority: Priority,
    /// The instant for which the current or next attempt is planned: the caller's instant, until a retry, a
    /// snooze or a redrive plans another.
    pub execute_at: Millis,
    pub payload: Content,
    pub max_attempts: u32,
    pub retry: RetryPolicy,
    /// The longest time of one attempt, or `None` means as long as its lease is extended.
    pub timeout_ms: Option<i64>,
    /// Counted from `execute_at`: not started by then, it is dead. It marks an instant: when a retry moves
    /// `execute_at`, it shrinks by as much, and may become negative.
    pub deadline_ms: Option<i64>,
    pub labels: BTreeMap<String, String>,
    pub traceparent: Option<String>,
    pub demands: Demands,
    /// The name of the task for people.
    pub name: Option<String>,
    /// Applies to the insert alone: no store keeps it.
    pub on_conflict: OnConflict,
    /// Of the insert alone, too. Later, by the clock of its database, it is not stored: however long its caller, or the engine, was
    /// frozen on the way. None: it may be stored whenever it arrives.
    pub insert_by: Option<Millis>,
}

/// A task's demands on its executor, beyond the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demands {
    /// Tasks of one queue that name the same key share the queue's limits per key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency_key: Option<String>,
    /// Versions of the handler that may run it, as a range (`>=2.1, <3`). `None` means any, even an unnamed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler_versions: Option<String>,
}

impl Demands {
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

pub const MAX_ATTEMPTS_DEFAULT: u32 = 5;
pub const MAX_ATTEMPTS_LIMIT: u32 = 1_000;

impl NewTask {
    /// The engine assigns its id: it is unknown before, so no task can have it already.
    #[must_use]
    pub const fn is_anonymous(&self) -> bool {
        self.task_id.is_none() && self.key.is_none()
    }

    /// A task with every optional part at its default.
    #[must_use]
    pub fn new(queue: QueueKey, kind: Name, execute_at: Millis) -> Self {
        Self {
            queue,
            task_id: None,
            key: None,
            task_version: 0,
            kind,
            priority: Priority::default(),
            execute_at,
            payload: Content::default(),
            max_attempts: MAX_ATTEMPTS_DEFAULT,
            retry: RetryPolicy::default(),
            timeout_ms: None,
            deadline_ms: None,
            labels: BTreeMap::new(),
            traceparent: None,
            demands: Demands::default(),
            name: None,
            on_conflict: OnConflict::default(),
            insert_by: None,
        }
    }
}

/// The report of an executor that the store accepted.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TaskResult {
    pub status_code: i64,
    pub status_msg: String,
    pub content: Option<Content>,
}

/// The holder of a task in flight, and the end of its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub executor: String,
    pub until: Millis,
    /// The instant at which this attempt was delivered; `timeout_ms` counts from here.
    pub since: Millis,
    pub cancel_requested: bool,
}

impl Lease {
    /// The holder's name when an engine preleases a task that it will hand over when due. No executor can
    /// have this name.
    #[must_use]
    pub fn ahead(engine: &str) -> String {
        format!("({engine})")
    }

    /// True if, as far as the store knows, no executor has the attempt yet.
    #[must_use]
    pub fn is_ahead(&self) -> bool {
        self.executor.starts_with('(')
    }
}

/// A task with all known facts.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub place: TaskRef,
    /// The caller's request; `task_id` is always set here.
    pub ask: NewTask,
    pub state: State,
    /// Fencing number: grows with every hand-over and every change of plan. A lease token and a hot entry carry
    /// it, and whatever carries an old one is refused.
    pub fence: i64,
    /// Attempts begun, of `ask.max_attempts`.
    pub attempt: u32,
    /// The instant at which the engine should fire the task next (or did last): `ask.execute_at`, but never before
    /// that was accepted.
    pub due_at: Millis,
    pub fired_at: Option<Millis>,
    pub created_at: Millis,
    pub updated_at: Millis,
    /// The instant at which a finished task is deleted.
    pub keep_until: Option<Millis>,
    pub lease: Option<Lease>,
    /// JSON text, the last that the executor reported.
    pub progress: Option<String>,
    /// The log lines of its handlers, one JSON object per line, the oldest first; bounded, so that the oldest
    /// are dropped.
    pub log: Option<String>,
    pub result: Option<TaskResult>,
    pub last_error: Option<String>,
    pub history: Vec<Entry>,
}

impl Task {
    #[must_use]
    pub fn task_id(&self) -> i64 {
        self.ask.task_id.unwrap_or(self.place.id)
    }

    /// fired − execute_at, in milliseconds. For a task that was inserted after its time, that is more than the
    /// engine's own lateness, which counts from `due_at`.
    #[must_use]
    pub fn lateness_ms(&self) -> Option<i64> {
        self.fired_at.map(|fired_at| fired_at.since(self.ask.execute_at))
    }
}
