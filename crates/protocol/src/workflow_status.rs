//! The state of a workflow and of its nodes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{At, Json, SetAside};

/// The state of a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowState {
    Running,
    /// Its completed work is being undone.
    Compensating,
    Succeeded,
    Failed,
    /// It failed or was cancelled, and its completed work was undone.
    Compensated,
    Cancelled,
}

impl WorkflowState {
    /// It does not change any more.
    pub const fn is_finished(self) -> bool {
        !matches!(self, Self::Running | Self::Compensating)
    }
}

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// Waits for its parents.
    Blocked,
    /// Its task was made; the task has the details.
    Running,
    Succeeded,
    Failed,
    Skipped,
    Cancelled,
}

/// The compensation of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Compensation {
    pub state: NodeState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_ref: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A node of a workflow, or an item of its fan-out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NodeStatus {
    pub state: NodeState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_ref: Option<String>,
    /// Of the workflow that the node is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_ref: Option<String>,
    /// For a fan-out: each item's result, null for items without one. Absent if it is too long to be passed
    /// on; the task has it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "Json::some")]
    pub result: Option<Json>,
    /// Why it failed, was skipped by hand, or has no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Counted by retries of the workflow; 0: it has not begun.
    pub attempt: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub begun_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_at_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<i64>,
    /// Of a fan-out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(no_recursion)]
    pub items: Option<Vec<Self>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensation: Option<Compensation>,
}

/// A workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Workflow {
    pub r#ref: String,
    pub namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Of the document under its name. A workflow keeps the one that it began with.
    pub version: i64,
    pub state: WorkflowState,
    /// It will end in this state, and its running tasks are being stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<WorkflowState>,
    /// Why it fails, or was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Set aside, because engines have died of it. Until it is retried or cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<SetAside>,
    /// The workflow that it is a node of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_ref: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub deadline_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at_ms: Option<i64>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: At,
    pub created_at_ms: i64,
    pub created_by: String,
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: At,
    pub updated_at_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finished_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at_ms: Option<i64>,
    /// Not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "Json::some")]
    pub input: Option<Json>,
    /// Not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<BTreeMap<String, NodeStatus>>,
    /// It has so many nodes and items that their results are omitted; their tasks have them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub results_left_out: bool,
}
