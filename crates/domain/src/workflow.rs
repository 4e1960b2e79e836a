//! Workflows: nodes that run as tasks, in the order of their edges. The document and its rules (`check`), and
//! the state of a workflow (`run`): a pure function of the ends, so that the order in which they arrive makes
//! no difference.
//!
//! Stored as JSON: a field is never renamed, and a new one has a default.

mod check;
mod identity;
mod progress;
mod run;

pub use crate::schedule::{Invalid, TaskTemplate};
pub use check::{Ancestors, Graph};
pub use identity::NodeIdentity;
pub use progress::{ParentNode, Progress, fingerprint};
pub use run::{Decision, End, Ending, NodeKey, NodeRow, NodeState, Refused, Role, Run, WorkflowState};

use crate::name::Name;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Nodes of a document, those of its sub-workflows included.
pub const NODES_MAX: usize = 10_000;
/// Nodes on the longest way through a document.
pub const DEPTH_MAX: usize = 1_000;
/// Edges of a document.
pub const EDGES_MAX: usize = 100_000;
/// Items of one fan-out.
pub const ITEMS_MAX: usize = 10_000;
/// Sub-workflows within sub-workflows.
pub const NESTED_MAX: usize = 8;
/// A century.
pub const DEADLINE_MAX_MS: i64 = 100 * 366 * 24 * 3_600_000;

/// A workflow's actions, independent of its input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Definitions of one name have versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// The time limit from the beginning of the workflow. A workflow that has not ended by then fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
    pub nodes: BTreeMap<Name, Node>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    pub work: Work,
    /// The parents of the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Name>,
    #[serde(default)]
    pub join: Join,
    /// The delay of the node's task after the node has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<i64>,
    /// An expression; where it is false the node is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// An expression that gives an array: the node runs once for each of its items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_each: Option<String>,
    /// Undoes the node's effects, if the workflow fails or is cancelled later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensate: Option<TaskTemplate>,
    #[serde(default)]
    pub on_failure: OnFailure,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    Task(Box<TaskTemplate>),
    Workflow(Box<SubWorkflow>),
}

/// A workflow that is one node of another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubWorkflow {
    pub definition: Definition,
    /// JSON text, with expressions. `None` means null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
}

/// The number of parents that must hold before a node runs. A parent holds if it succeeded, was skipped manually, or
/// failed with `Continue`; a parent that was skipped otherwise does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    #[default]
    All,
    Any,
    AtLeast(u32),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The workflow fails.
    #[default]
    Fail,
    /// The workflow continues; later nodes can read its state.
    Continue,
}

impl Node {
    /// One without parents, every other part at its default.
    #[must_use]
    pub const fn new(work: Work) -> Self {
        Self {
            work,
            after: Vec::new(),
            join: Join::All,
            delay_ms: None,
            when: None,
            for_each: None,
            compensate: None,
            on_failure: OnFailure::Fail,
        }
    }

    #[must_use]
    pub fn task(template: TaskTemplate) -> Self {
        Self::new(Work::Task(Box::new(template)))
    }
}

#[cfg(test)]
mod tests;
