//! The nodes of a workflow as a table, a page at a time: what the picture shows, and what it has no room for.

use super::{
    graph,
    shared::{CHANGE, LIST, NODE_STATES, address, node_word, took},
};
use crate::{context::Context, layout::under, parts, texts};
use maud::{Markup, html};
use punctual_protocol::{NodeState, NodeStatus, Workflow, WorkflowState};
use std::collections::BTreeMap;

const ROWS: usize = 100;
/// Items of a fan-out that are shown.
const ITEMS: usize = 50;

/// The id of a node's row.
pub(super) fn id(name: &str) -> String {
    format!("node-{name}")
}

pub(super) fn table(context: &Context, workflow: &Workflow, nodes: &BTreeMap<String, NodeStatus>) -> Markup {
    let state = context.query("state").and_then(|query| NODE_STATES.iter().find(|known| known.1 == query));
    let layer = context.query("layer").and_then(|query| graph::names_of_layers(nodes, query));
    let from: usize = context.query("from").and_then(|query| query.parse().ok()).unwrap_or(0);
    let is_wanted = |name: &str, node: &NodeStatus| {
        state.is_none_or(|state| state.0 == node.state)
            && layer.as_ref().is_none_or(|layer| layer.contains(name))
    };
    let found: Vec<(&String, &NodeStatus)> =
        nodes.iter().filter(|entry| is_wanted(entry.0, entry.1)).collect();
    html! {
        section.panel #nodes {
            h2 { "Nodes"
                @if let Some(state) = state { ", " (state.1) " " a href=(context.here_with("state", "")) { "all states" } }
                @if layer.is_some() { ", of one box " a href=(context.here_with("layer", "")) { "all of them" } }
            }
            div.scroll tabindex="0" role="region" aria-label="Nodes" { table.cards {
                caption.hidden { "Nodes" }
                thead { tr {
                    th scope="col" { "Node" } th scope="col" { "State" } th scope="col" { "Do" } th scope="col" { "Task" } th.num scope="col" { "Attempt" } th scope="col" { "Begun" }
                    th.num scope="col" { "Took" } th scope="col" { "Why" } th scope="col" { "Undone" }
                } }
                tbody { @for (name, node) in found.iter().skip(from).take(ROWS) { (row(context, workflow, name, node)) } }
            } }
            @if found.is_empty() { p.dim { "No node is like that." } }
            p { @if from > 0 { a.button href=(context.here_with("from", &from.saturating_sub(ROWS).to_string())) { "Those before" } " " }
                @if found.len() > from + ROWS { a.button.next href=(context.here_with("from", &(from + ROWS).to_string())) { "The next ones" } " " }
                span.dim { (texts::count(found.len() as u64, "node", "nodes")) } }
        }
    }
}

fn row(context: &Context, workflow: &Workflow, name: &str, node: &NodeStatus) -> Markup {
    let (word, tone) = node_word(node.state);
    let skip = context
        .href(&format!("{}/nodes/{}/skip", under(LIST, &workflow.r#ref), crate::api::segment(name)), &[]);
    // Of one that has failed, before it is retried.
    let can_be_skipped = match workflow.state {
        WorkflowState::Running => {
            matches!(node.state, NodeState::Blocked | NodeState::Running | NodeState::Failed)
        }
        WorkflowState::Failed => node.state == NodeState::Failed,
        _ => false,
    };
    html! {
        tr id=(id(name)) data-row data-name=(name) data-state=(word) {
            th scope="row" { (name) @if !node.after.is_empty() { br; span.dim { "after " (parts::short(&node.after.join(", "), 120)) } } }
            td data-label="State" { (parts::badge(word, tone)) }
            td data-label="Do" { @if can_be_skipped { (parts::button(context, CHANGE, &skip, "Skip", "")) } @else { (parts::dash()) } }
            td data-label="Task" { (leads(context, workflow, name, node)) }
            td.num data-label="Attempt" { @if node.attempt > 0 { (node.attempt) } @else { (parts::dash()) } }
            td data-label="Begun" { @match node.begun_at_ms { Some(at) => (parts::ago(context, at)), None => (parts::dash()) } }
            td.num data-label="Took" { @match node.begun_at_ms { Some(at) => (took(at, node.ended_at_ms)), None => (parts::dash()) } }
            td.wrap data-label="Why" { @match &node.error { Some(error) => (parts::short(error, 500)), None => (parts::dash()) } }
            td data-label="Undone" { @match &node.compensation {
                Some(compensation) => { @let (word, tone) = node_word(compensation.state); (parts::badge(word, tone)) @if let Some(task) = &compensation.task_ref { " " (parts::task_link(context, task)) } @if let Some(error) = &compensation.error { " " (parts::short(error, 300)) } },
                None => (parts::dash()),
            } }
        }
    }
}

fn leads(context: &Context, workflow: &Workflow, name: &str, node: &NodeStatus) -> Markup {
    html! {
        @match (&node.task_ref, &node.workflow_ref, &node.items) {
            (Some(task), ..) => (parts::task_link(context, task)),
            (_, Some(sub), _) => a.ref href=(graph::leads_to(context, workflow, name, node)) { (sub) },
            (None, None, Some(items)) => {
                details id={ "items-" (name) } {
                    summary { (texts::count(items.len() as u64, "item", "items")) }
                    ol.chain start="0" { @for node in items.iter().take(ITEMS) { @let (word, tone) = node_word(node.state);
                        li { (parts::badge(word, tone)) @if let Some(task) = &node.task_ref { " " (parts::task_link(context, task)) } @if let Some(sub) = &node.workflow_ref { " " a.ref href=(address(context, sub)) { (sub) } } @if let Some(error) = &node.error { " " (parts::short(error, 160)) } }
                    } }
                    @if items.len() > ITEMS { p.dim { "The first " (ITEMS) "." } }
                }
            },
            (None, None, None) => (parts::dash()),
        }
    }
}
