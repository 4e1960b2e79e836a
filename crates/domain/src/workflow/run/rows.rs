//! The rows of a workflow: of a node, of an item of its fan-out, or of a compensation.

use serde::{Deserialize, Serialize};

/// The codes are stored and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Action,
    Compensation,
}

impl Role {
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Action => 0,
            Self::Compensation => 1,
        }
    }

    /// Returns `None` if no such code exists.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::Action, Self::Compensation].into_iter().find(|role| role.code() == code)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeKey {
    /// The node's number in the order of names.
    pub node: u32,
    /// `None` is the node itself.
    pub item: Option<u32>,
    pub role: Role,
}

impl NodeKey {
    #[must_use]
    pub const fn node(node: u32) -> Self {
        Self { node, item: None, role: Role::Action }
    }

    #[must_use]
    pub const fn item(node: u32, item: u32) -> Self {
        Self { node, item: Some(item), role: Role::Action }
    }

    #[must_use]
    pub const fn undoing(self) -> Self {
        Self { role: Role::Compensation, ..self }
    }
}

/// The codes are stored and never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeState {
    /// Waits for its parents.
    #[default]
    Blocked,
    /// It was decided that it runs; it has a task, or one is being made.
    Open,
    /// A caller skips it, and its task has not ended yet.
    Skipping,
    Succeeded,
    Failed,
    /// The node was skipped because of its condition or its parents.
    Skipped,
    /// A caller has skipped it: it counts as done.
    Passed,
    /// The node's task was cancelled.
    Cancelled,
}

impl NodeState {
    pub const ALL: [Self; 8] = [
        Self::Blocked,
        Self::Open,
        Self::Skipping,
        Self::Succeeded,
        Self::Failed,
        Self::Skipped,
        Self::Passed,
        Self::Cancelled,
    ];

    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Blocked => 0,
            Self::Open => 1,
            Self::Skipping => 2,
            Self::Succeeded => 3,
            Self::Failed => 4,
            Self::Skipped => 5,
            Self::Passed => 6,
            Self::Cancelled => 7,
        }
    }

    /// Returns `None` if no such code exists.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.code() == code)
    }

    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Open | Self::Skipping)
    }

    #[must_use]
    pub const fn has_ended(self) -> bool {
        !matches!(self, Self::Blocked | Self::Open | Self::Skipping)
    }

    #[must_use]
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::Cancelled)
    }

    /// The name of the state, as displayed and as in expressions.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Open | Self::Skipping => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Skipped | Self::Passed => "skipped",
            Self::Cancelled => "cancelled",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeRow {
    pub state: NodeState,
    /// The attempt of the node, counted by retries of the workflow. It is part of the identity of the node's task.
    pub attempt: u32,
    /// True if the task of the row exists.
    pub is_made: bool,
    /// The position of the row among the rows that have succeeded.
    pub order: Option<u64>,
    /// The number of items of a fan-out.
    pub items: Option<u32>,
}
