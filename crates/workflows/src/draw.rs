//! A workflow as a picture: text that Mermaid or Graphviz draw.

use crate::Plan;
use punctual_domain::workflow::{Join, NodeState, Run};
use std::fmt::Write as _;

/// Draws the workflow for Mermaid.
#[must_use]
pub fn mermaid(plan: &Plan, run: &Run) -> String {
    let mut text = "flowchart TD\n".to_owned();
    for (number, name, document) in nodes(plan) {
        let state = run.state_of(number);
        let label = label(name, &shown(document, run, number), "<br/>");
        let _ = writeln!(text, "    n{number}[\"{label}\"]:::{}", state.word());
    }
    edges(plan, |from, to, join| {
        let _ = match join {
            Some(join) => writeln!(text, "    n{from} -->|{join}| n{to}"),
            None => writeln!(text, "    n{from} --> n{to}"),
        };
    });
    for (state, colour) in COLOURS {
        let _ = writeln!(text, "    classDef {} fill:{colour}", state.word());
    }
    text
}

/// Draws the workflow for Graphviz.
#[must_use]
pub fn dot(plan: &Plan, run: &Run) -> String {
    let mut text = "digraph workflow {\n    node [shape=box, style=filled];\n".to_owned();
    for (number, name, document) in nodes(plan) {
        let state = run.state_of(number);
        let colour = COLOURS
            .into_iter()
            .find(|colour| colour.0.word() == state.word())
            .map_or("#ffffff", |colour| colour.1);
        let label = label(name, &shown(document, run, number), "\\n");
        let _ = writeln!(text, "    n{number} [label=\"{label}\", fillcolor=\"{colour}\"];");
    }
    edges(plan, |from, to, join| {
        let label = join.map(|join| format!(" [label=\"{join}\"]")).unwrap_or_default();
        let _ = writeln!(text, "    n{from} -> n{to}{label};");
    });
    text.push_str("}\n");
    text
}

const COLOURS: [(NodeState, &str); 6] = [
    (NodeState::Blocked, "#eeeeee"),
    (NodeState::Open, "#cfe2ff"),
    (NodeState::Succeeded, "#d1e7dd"),
    (NodeState::Failed, "#f8d7da"),
    (NodeState::Skipped, "#f8f9fa"),
    (NodeState::Cancelled, "#fff3cd"),
];

fn nodes(plan: &Plan) -> impl Iterator<Item = (u32, &str, &punctual_domain::workflow::Node)> {
    (0..).zip(&plan.definition.nodes).map(|(number, (name, node))| (number, name.as_str(), node))
}

/// The text below the name: names are plain, so nothing must be escaped.
fn shown(node: &punctual_domain::workflow::Node, run: &Run, number: u32) -> String {
    let state = run.state_of(number).word();
    let items = run.row(&punctual_domain::workflow::NodeKey::node(number)).and_then(|row| row.items);
    match (items, node.for_each.is_some()) {
        (Some(items), _) => format!("{state}, {items} items"),
        (None, true) => format!("{state}, for each"),
        (None, false) => state.to_owned(),
    }
}

fn label(name: &str, below: &str, line: &str) -> String {
    format!("{name}{line}{below}")
}

fn edges(plan: &Plan, mut draw: impl FnMut(u32, u32, Option<String>)) {
    for (number, _, node) in nodes(plan) {
        let join = (node.join != Join::All).then(|| node.join.word());
        for parent in plan.graph.parents(number) {
            draw(*parent, number, join.clone());
        }
    }
}
