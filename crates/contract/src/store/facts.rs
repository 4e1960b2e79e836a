//! A caller's facts about a row, so that the store need not read it before a move. Facts are part of the
//! call: the store keeps none. They are never trusted alone: the move itself names their state and fence. If
//! one row differs, everything is undone, the rows are read, and the move is made again. So a fact must not
//! be able to change while a task keeps its state and its fence.

use super::attempt::{Assignment, EndedAttempt};
use crate::{ask::Ask, hot::HotEntry};
use punctual_domain::{
    name::{Name, QueueKey},
    place::TaskRef,
    state::{Event, State},
    task::Priority,
    time::Millis,
};
use std::sync::Arc;

/// All data of a waiting task that its hand-over needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The state of the task's row.
    pub state: State,
    /// The place as in the task's reference. The grant names the present place of the row.
    pub place: TaskRef,
    pub queue: Arc<QueueKey>,
    pub task_id: i64,
    pub task_version: i64,
    pub priority: Priority,
    /// Attempts begun so far.
    pub attempt: u32,
    pub kind: Name,
    pub ask: Arc<Ask>,
}

impl Facts {
    /// Reads the data from an entry whose row is still in the entry's state. `None` if the entry has no dispatch
    /// data.
    #[must_use]
    pub fn of(entry: &HotEntry) -> Option<Self> {
        let (kind, ask) = entry.kind().zip(entry.ask())?;
        Some(Self {
            state: entry.state,
            place: entry.place,
            queue: Arc::clone(&entry.queue),
            task_id: entry.task_id,
            task_version: entry.task_version,
            priority: entry.priority,
            attempt: entry.attempt,
            kind: kind.clone(),
            ask: Arc::clone(ask),
        })
    }

    /// The move that they are for may leave the state that they name.
    #[must_use]
    pub fn may_go(&self) -> bool {
        self.state.after(Event::Dispatch).is_ok()
    }
}

/// The data of an attempt that was assigned, without any report since: its row is dispatched, with the fence of the
/// step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseFacts {
    /// The due time of the row, which locates it.
    pub due_at: Millis,
    pub queue: Arc<QueueKey>,
    pub attempt: u32,
    pub leased_since: Millis,
    pub traceparent: Option<String>,
}

impl LeaseFacts {
    /// The state of the attempt's row.
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

    /// The answer of the move that ends it.
    #[must_use]
    pub fn ended(&self) -> EndedAttempt {
        let (queue, traceparent) = ((*self.queue).clone(), self.traceparent.clone());
        EndedAttempt { queue, leased_since: self.leased_since, traceparent }
    }
}
