//! Workflows whose results are long together: reads, memory and answers of one are bounded by bytes.

use super::rig::{WorkflowsRig, document, node, on_both, with_payload};
use punctual_domain::{
    outcome::Report,
    workflow::{Node, NodeState, WorkflowState},
};

/// About 18 MiB of results: more than one look reads, and more than an answer holds.
const NODES: usize = 300;
const RESULT_BYTES: usize = 62_000;

on_both!(a_workflow_whose_results_are_long_together_is_looked_at_in_pieces_and_told_without_them);
async fn a_workflow_whose_results_are_long_together_is_looked_at_in_pieces_and_told_without_them(
    rig: WorkflowsRig,
) {
    let names: Vec<String> = (0..NODES).map(|nth| format!("n{nth}")).collect();
    let mut nodes: Vec<(&str, Node)> = names.iter().map(|name| (name.as_str(), node("n", &[]))).collect();
    let after: Vec<&str> = names.iter().map(String::as_str).collect();
    let payload = r#"{"long": {"$expr": "size(nodes.n7.result)"}, "state": {"$expr": "nodes.n299.state"}}"#;
    nodes.push(("last", with_payload("last", &after, payload)));
    let id = rig.begin(document(nodes), "null").await;
    rig.run_once().await;
    let leased = rig.leased().await;
    assert_eq!(leased.len(), NODES);
    let result = format!("\"{}\"", "x".repeat(RESULT_BYTES));
    for lease in &leased {
        rig.report_holders(lease, Report::Succeeded, Some(&result)).await;
    }
    // The engine that took the reports is dead, and no engine was notified of any of them.
    let other = rig.beside();
    other.pass(90).await;
    let last = other.leased().await;
    assert_eq!(last.len(), 1, "all of them were found");
    let payload: serde_json::Value = serde_json::from_slice(&last[0].payload.bytes).unwrap();
    assert_eq!(payload, serde_json::json!({"long": RESULT_BYTES, "state": "succeeded"}));
    let view = other.view(id).await;
    assert!(view.contents.is_none(), "too long to be told");
    assert_eq!(view.nodes.iter().filter(|node| node.row.state == NodeState::Succeeded).count(), NODES);
    other.report(&last[0], Report::Succeeded, None).await;
    other.run_once().await;
    assert_eq!(other.current(id).await.state, WorkflowState::Succeeded);
}
