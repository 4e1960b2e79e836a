//! An attempt at a task, as an executor gets it and as it has ended. Must not know what caused it: neither a
//! step nor a grant.

use punctual_domain::{
    name::{Name, QueueKey},
    place::TaskRef,
    task::{Content, Priority},
    time::Millis,
};
use std::collections::BTreeMap;

/// The data that an executor gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    pub place: TaskRef,
    pub queue: QueueKey,
    pub task_id: i64,
    pub task_version: i64,
    /// The fence of this attempt: the lease token.
    pub fence: i64,
    pub attempt: u32,
    pub max_attempts: u32,
    pub kind: Name,
    pub priority: Priority,
    pub payload: Content,
    /// The requested execution time. `due_at` is later if this was in the past when the task was accepted.
    pub execute_at: Millis,
    pub due_at: Millis,
    pub fired_at: Millis,
    /// The stored instant at which the executor received the attempt.
    pub leased_since: Millis,
    pub lease_until: Millis,
    /// The longest time that the attempt may take, from its hand-over.
    pub timeout_ms: Option<i64>,
    pub labels: BTreeMap<String, String>,
    pub traceparent: Option<String>,
}

/// An ended attempt: the data of the row that the move found, whichever engine had assigned it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedAttempt {
    pub queue: QueueKey,
    /// The stored instant at which the executor received the attempt.
    pub leased_since: Millis,
    pub traceparent: Option<String>,
}
