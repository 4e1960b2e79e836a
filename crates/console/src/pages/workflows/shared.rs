//! The common code of the pages of workflows: addresses, calls and the words of states. Must never draw a page.

use crate::{api::segment, context::Context, layout::under, parts};
use maud::Markup;
use punctual_protocol::{NodeState, NodeStatus, WorkflowState};

pub(super) const LIST: &str = "/console/workflows";
pub(super) const CHANGE: &str = "change_tasks";

pub(super) fn address(context: &Context, reference: &str) -> String {
    context.href(&under(LIST, reference), &[])
}

pub(super) fn call(context: &Context, rest: &str) -> String {
    format!("/v1/workflows/{}{rest}", segment(context.param("workflow")))
}

pub(super) const STATES: [(WorkflowState, &str, &str); 6] = [
    (WorkflowState::Running, "running", "run"),
    (WorkflowState::Compensating, "compensating", "warn"),
    (WorkflowState::Succeeded, "succeeded", "good"),
    (WorkflowState::Failed, "failed", "bad"),
    (WorkflowState::Compensated, "compensated", "warn"),
    (WorkflowState::Cancelled, "cancelled", "off"),
];

pub(super) fn word(state: WorkflowState) -> (&'static str, &'static str) {
    STATES.iter().find(|known| known.0 == state).map_or(("", ""), |known| (known.1, known.2))
}

pub(super) const NODE_STATES: [(NodeState, &str, &str); 6] = [
    (NodeState::Blocked, "blocked", "wait"),
    (NodeState::Running, "running", "run"),
    (NodeState::Succeeded, "succeeded", "good"),
    (NodeState::Failed, "failed", "bad"),
    (NodeState::Skipped, "skipped", "off"),
    (NodeState::Cancelled, "cancelled", "off"),
];

pub(super) fn node_word(state: NodeState) -> (&'static str, &'static str) {
    NODE_STATES.iter().find(|known| known.0 == state).map_or(("", ""), |known| (known.1, known.2))
}

/// The number of nodes in each state, in the order of a node's life.
pub(super) fn counts<'a>(
    nodes: impl Iterator<Item = &'a NodeStatus>,
) -> Vec<(&'static str, &'static str, i64)> {
    let mut counts = NODE_STATES.map(|node_state| (node_state.1, node_state.2, 0));
    for node in nodes {
        let word = node_word(node.state).0;
        if let Some(count) = counts.iter_mut().find(|count| count.0 == word) {
            count.2 += 1;
        }
    }
    counts.into_iter().filter(|count| count.2 > 0).collect()
}

pub(super) fn took(from_ms: i64, to_ms: Option<i64>) -> Markup {
    parts::duration_or_dash(to_ms.map(|to_ms| to_ms - from_ms))
}
