//! A workflow as a drawing: nodes and edges.

use serde::{Deserialize, Serialize};

use crate::workflow_status::NodeState;
use crate::workflows::Join;

/// The format in which a workflow is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GraphFormat {
    /// Text for Mermaid.
    #[default]
    Mermaid,
    /// Text for Graphviz.
    Dot,
    /// Nodes and edges.
    Json,
}

/// Query parameters of a drawing of a workflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DrawWorkflow {
    /// Default: `mermaid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(inline)]
    pub format: Option<GraphFormat>,
}

/// A workflow as nodes and edges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WorkflowGraph {
    pub nodes: Vec<GraphNode>,
    pub edges: Vec<GraphEdge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GraphNode {
    pub name: String,
    pub state: NodeState,
    pub join: Join,
    /// The number of items of a fan-out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GraphEdge {
    pub from: String,
    pub to: String,
}
