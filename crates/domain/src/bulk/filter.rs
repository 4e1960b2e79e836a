//! The selection of an operation's tasks. A task matches if it meets all conditions that are set.

use crate::{
    name::Name,
    state::{Phase, State},
    task::Task,
    time::Millis,
};
use serde::{Deserialize, Serialize};

/// The conditions. Stored as JSON: a field is never renamed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Filter {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<(String, String)>,
    /// Inclusive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_after: Option<Millis>,
    /// Exclusive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_before: Option<Millis>,
    /// The task's last error contains this text, letter for letter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Filter {
    /// Every task of the namespace.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    #[must_use]
    pub fn fits_state(&self, state: State) -> bool {
        self.state.is_none_or(|this_state| this_state == state)
            && self.phase.is_none_or(|phase| phase == state.phase())
    }

    /// Ignores the namespace.
    #[must_use]
    pub fn fits(&self, task: &Task) -> bool {
        let label = |(key, value): &(String, String)| task.ask.labels.get(key) == Some(value);
        let error =
            |text: &String| task.last_error.as_ref().is_some_and(|error| error.contains(text.as_str()));
        self.fits_state(task.state)
            && self.queue.as_ref().is_none_or(|queue| *queue == task.ask.queue.queue)
            && self.kind.as_ref().is_none_or(|kind| *kind == task.ask.kind)
            && self.label.as_ref().is_none_or(label)
            && self.due_after.is_none_or(|at| at <= task.due_at)
            && self.due_before.is_none_or(|at| task.due_at < at)
            && self.error.as_ref().is_none_or(error)
    }

    /// True if the counters of queues and states are sufficient to count the matching tasks.
    #[must_use]
    pub const fn is_of_the_account(&self) -> bool {
        self.kind.is_none()
            && self.label.is_none()
            && self.due_after.is_none()
            && self.due_before.is_none()
            && self.error.is_none()
    }
}
