//! The state of a workflow and of its nodes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{At, Json, SetAside};

/// The state of a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowState {
    Running,
    /// Completed work is being compensated.
    Compensating,
    Succeeded,
    Failed,
    /// The workflow failed or was cancelled, and its completed work was compensated.
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
    /// The node waits for its parents.
    Blocked,
    /// The task of the node was created. The task has the details.
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
    /// The reference of the workflow, if the node is a workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_ref: Option<String>,
    /// The result. For a fan-out, it has the result of each item, or null. Absent if it is too long to be passed on;
    /// the task has it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "Json::some")]
    pub result: Option<Json>,
    /// The reason of a failure, of a manual skip, or of a missing result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The number of the attempt, which grows with retries of the workflow; 0: the node has not begun.
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
    /// The items of a fan-out.
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
    /// The version of the document under its name. A workflow keeps the version with which it began.
    pub version: i64,
    pub state: WorkflowState,
    /// The state in which the workflow will end. Its running tasks are being stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<WorkflowState>,
    /// Why the workflow fails or was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Present if engines crashed while they evaluated it. It rests until it is retried or cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<SetAside>,
    /// The parent, if the workflow is a node of another workflow.
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
    /// The input of the workflow. Absent in lists.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "Json::some")]
    pub input: Option<Json>,
    /// The nodes by name. Absent in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<BTreeMap<String, NodeStatus>>,
    /// True if there are so many nodes and items that their results are omitted. Their tasks have them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub results_left_out: bool,
}
