//! Bulk operations: one action on all tasks that match a filter. Defines which states an action applies to,
//! what a filter matches, and an operation's progress. Pure; the calls that change single tasks change them
//! here, too.

mod filter;
mod progress;
mod walk;

pub use filter::Filter;
pub use progress::{Progress, Tally};
pub use walk::Walk;

use crate::{
    name::Name,
    state::{Event, State},
    task::{Priority, Task},
    time::Millis,
};
use serde::{Deserialize, Serialize};

/// The author in the history of each task that an operation has changed. Only the operation writes it, in the
/// transaction of the change: the task is done.
#[must_use]
pub fn mark(id: i64) -> String {
    format!("bulk:{id}")
}

/// True if an operation has changed a task, whatever happened to the task since. Only for a task that was read with
/// its history.
#[must_use]
pub fn is_marked(task: &Task, id: i64) -> bool {
    let mark = mark(id);
    task.history.iter().any(|entry| entry.by == mark)
}

/// The definition of an operation. Stored as JSON: a field or a variant is never renamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bulk {
    pub action: Action,
    pub filter: Filter,
    /// Tasks a second.
    pub rate: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The action on each task, with its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    Cancel {
        stop_if_fired: bool,
    },
    Reschedule(NewTime),
    SetPriority {
        priority: Priority,
    },
    /// Moves the tasks to another queue of the same namespace.
    SetQueue {
        queue: Name,
    },
    RunNow,
    Redrive,
    Bury,
    /// Finished ones.
    Delete,
    /// Changes nothing: finds and counts the tasks.
    Export,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NewTime {
    /// Later by so much, or earlier.
    ByMs(i64),
    At(Millis),
}

impl NewTime {
    #[must_use]
    pub fn of(self, execute_at: Millis) -> Millis {
        match self {
            Self::ByMs(ms) => execute_at.plus(ms),
            Self::At(at) => at,
        }
    }
}

impl Action {
    /// The words of all actions, in the order of documentation.
    pub const WORDS: [&'static str; 9] = [
        "cancel",
        "reschedule",
        "set_priority",
        "set_queue",
        "run_now",
        "redrive",
        "bury",
        "delete",
        "export",
    ];

    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Cancel { .. } => "cancel",
            Self::Reschedule(_) => "reschedule",
            Self::SetPriority { .. } => "set_priority",
            Self::SetQueue { .. } => "set_queue",
            Self::RunNow => "run_now",
            Self::Redrive => "redrive",
            Self::Bury => "bury",
            Self::Delete => "delete",
            Self::Export => "export",
        }
    }

    /// The states in which it has something to do.
    #[must_use]
    pub fn leaves(&self, state: State) -> bool {
        let may = |event: Event| state.after(event).is_ok();
        match self {
            Self::Cancel { stop_if_fired: false } => may(Event::Cancel),
            Self::Cancel { stop_if_fired: true } => {
                may(Event::Cancel) || may(Event::Withdraw) || state.is_in_flight()
            }
            Self::Reschedule(_) | Self::SetPriority { .. } | Self::SetQueue { .. } | Self::RunNow => {
                may(Event::Reschedule)
            }
            Self::Redrive => may(Event::Redrive),
            Self::Bury => may(Event::DeadLetter),
            Self::Delete => state.is_finished(),
            Self::Export => true,
        }
    }
}

impl Bulk {
    /// The states that are searched; none: no task can match.
    #[must_use]
    pub fn states(&self) -> Vec<State> {
        let is_asked = |state: &State| self.filter.fits_state(*state) && self.action.leaves(*state);
        State::ALL.into_iter().filter(is_asked).collect()
    }

    #[must_use]
    pub fn fits(&self, task: &Task) -> bool {
        self.action.leaves(task.state) && self.filter.fits(task)
    }

    /// The duration of the operation at its rate.
    #[must_use]
    pub fn takes_ms(&self, tasks: u64) -> u64 {
        tasks.saturating_mul(1_000) / u64::from(self.rate.max(1))
    }
}

/// The state of an operation. Codes are stored: never renumber, never reuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum BulkState {
    /// Counted but not confirmed: nothing happens.
    Previewed = 1,
    Running = 2,
    Paused = 3,
    /// Stopped before its end; it does not continue.
    Stopped = 4,
    Done = 5,
}

impl BulkState {
    pub const ALL: [Self; 5] = [Self::Previewed, Self::Running, Self::Paused, Self::Stopped, Self::Done];

    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.code() == code)
    }

    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Previewed => "previewed",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
            Self::Done => "done",
        }
    }

    /// The operation changes no further tasks by itself.
    #[must_use]
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Stopped | Self::Done)
    }
}

#[cfg(test)]
mod tests;
