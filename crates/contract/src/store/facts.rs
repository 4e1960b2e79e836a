//! What a caller of the store knows of a row, so that the store need not look at it before a move. Facts come with the call:
//! the store keeps none. They are never believed alone: the move itself names the state and the fence that they rest on, and if
//! one row is otherwise, everything is undone, the rows are looked at, and the move is made again. So a fact must be something
//! that cannot change while a task keeps its state and its fence.

use super::attempt::{Assignment, EndedAttempt};
use punctual_domain::{
    name::{Name, QueueKey},
    place::TaskRef,
    state::{Event, State},
    task::{Content, NewTask, Priority},
    time::Millis,
};
use std::{collections::BTreeMap, sync::Arc};

/// Of a task that waits: all that its hand-over answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// In which its row is.
    pub state: State,
    /// As its reference has it; the grant names the place where the row is.
    pub place: TaskRef,
    pub queue: Arc<QueueKey>,
    pub task_id: i64,
    pub task_version: i64,
    pub priority: Priority,
    /// Attempts begun so far.
    pub attempt: u32,
    pub ask: Arc<Ask>,
}

/// What a caller has asked for, as far as executors are handed it and no entry of the hot set has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub kind: Name,
    pub payload: Content,
    pub max_attempts: u32,
    pub execute_at: Millis,
    pub timeout_ms: Option<i64>,
    pub labels: BTreeMap<String, String>,
    pub traceparent: Option<String>,
}

impl Ask {
    /// A task with a longer payload is looked at.
    pub const PAYLOAD_LEN_MAX: usize = 1_024;

    /// None: its payload is too long.
    #[must_use]
    pub fn of(task: &NewTask) -> Option<Self> {
        (task.payload.bytes.len() <= Self::PAYLOAD_LEN_MAX).then(|| Self {
            kind: task.kind.clone(),
            payload: task.payload.clone(),
            max_attempts: task.max_attempts,
            execute_at: task.execute_at,
            timeout_ms: task.timeout_ms,
            labels: task.labels.clone(),
            traceparent: task.traceparent.clone(),
        })
    }

    /// Of what differs in length, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let labels: usize = self.labels.iter().map(|(key, value)| key.len() + value.len()).sum();
        self.payload.bytes.len() + labels
    }
}

impl Facts {
    /// The move that they are for may leave the state that they name.
    #[must_use]
    pub fn may_go(&self) -> bool {
        self.state.after(Event::Dispatch).is_ok()
    }
}

/// Of an attempt that was handed over and of which nobody has heard since: its row is dispatched, with the fence of the step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseFacts {
    /// Where its row is.
    pub due_at: Millis,
    pub queue: Arc<QueueKey>,
    pub attempt: u32,
    pub leased_since: Millis,
    pub traceparent: Option<String>,
}

impl LeaseFacts {
    /// In which its row is.
    pub const STATE: State = State::Dispatched;

    #[must_use]
    pub fn of(lease: &Assignment, queue: &Arc<QueueKey>) -> Self {
        Self {
            due_at: lease.due_at,
            queue: Arc::clone(queue),
            attempt: lease.attempt,
            leased_since: lease.leased_since,
            traceparent: lease.traceparent.clone(),
        }
    }

    /// What the move that ends it answers.
    #[must_use]
    pub fn ended(&self) -> EndedAttempt {
        let (queue, traceparent) = ((*self.queue).clone(), self.traceparent.clone());
        EndedAttempt { queue, leased_since: self.leased_since, traceparent }
    }
}
