//! A workflow drawn: a node is in the layer behind the last of what it waits for, and edges lead from layer to layer. A layer of many
//! nodes is one box that counts them, and so are layers that follow each other where there are very many, so that ten thousand nodes are a
//! picture, too, wide or long. Drawn by the server; scripts only pan and zoom.

use super::{
    geometry::{HEIGHT, Point, WIDTH, geometry, path},
    shared::{address, counts, node_word},
};
use crate::{api::segment, context::Context, parts, texts};
use maud::{Markup, html};
use punctual_protocol::{NodeStatus, Workflow};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
};

/// Nodes of a layer that stand one by one.
const LAYER_MAX: usize = 12;
/// Boxes of a picture; where there would be more, every layer of several nodes is one box.
const BOXES_MAX: usize = 400;
/// Columns of a picture; where there are more layers, as many as need be share one.
const COLUMNS_MAX: usize = 60;
/// The distance between the frame of a box and its text.
const PADDING: usize = 10;

/// The tools, which are beside the picture, so that they stay as they are when it is drawn again.
pub(super) fn tools() -> Markup {
    html! {
        div.buttons.small.graph-tools data-js role="group" aria-label="Size of the picture" {
            button type="button" data-zoom="out" aria-label="Smaller" { "−" }
            button type="button" data-zoom="in" aria-label="Larger" { "+" }
            button type="button" data-zoom="fit" { "Fit" }
            span.hint { "Drag to move, Ctrl and wheel to zoom." }
        }
    }
}

/// A node, or what is folded.
struct Boxed<'a> {
    column: usize,
    /// All that the column shows.
    layers: Range<usize>,
    names: Vec<&'a str>,
}

pub(super) fn drawn(context: &Context, workflow: &Workflow, nodes: &BTreeMap<String, NodeStatus>) -> Markup {
    if nodes.is_empty() {
        return html! {};
    }
    let boxes = boxes(&layers(nodes));
    let columns: Vec<usize> = boxes.iter().map(|boxed| boxed.column).collect();
    let drawing = geometry(&columns, &edges(&boxes, nodes));
    let (width, height) = (drawing.width, drawing.height);
    // What is wider than the page is moved in its frame.
    html! {
        div.scroll.graph tabindex="0" role="region" aria-label="Graph" data-graph data-scrolls {
            svg #graph viewBox={ "0 0 " (width) " " (height) } width=(width) height=(height) role="group" aria-label={ "Graph of " (texts::count(nodes.len() as u64, "node", "nodes")) } {
                @for route in &drawing.routes { path.edge d=(path(route)) {} }
                @for (boxed, at) in boxes.iter().zip(&drawing.corners) { (one(context, workflow, nodes, boxed, *at)) }
            }
        }
    }
}

/// Names by layer; in a layer near to what they wait for.
fn layers(nodes: &BTreeMap<String, NodeStatus>) -> Vec<Vec<&str>> {
    let mut layer_of: HashMap<&str, usize> = HashMap::new();
    let mut children: HashMap<&str, Vec<&str>> = HashMap::new();
    let mut waits: HashMap<&str, usize> = HashMap::new();
    for (name, node) in nodes {
        let parents: BTreeSet<&str> =
            node.after.iter().map(String::as_str).filter(|parent| nodes.contains_key(*parent)).collect();
        waits.insert(name, parents.len());
        for parent in parents {
            children.entry(parent).or_default().push(name);
        }
    }
    let mut ready: Vec<&str> =
        nodes.keys().map(String::as_str).filter(|text| waits.get(text) == Some(&0)).collect();
    while let Some(name) = ready.pop() {
        let layer = *layer_of.entry(name).or_insert(0);
        for child in children.get(name).into_iter().flatten() {
            let of_child = layer_of.entry(child).or_insert(0);
            *of_child = (*of_child).max(layer + 1);
            let left = waits.entry(child).or_insert(1);
            *left = left.saturating_sub(1);
            if *left == 0 {
                ready.push(child);
            }
        }
    }
    let mut layers: Vec<Vec<&str>> =
        vec![Vec::new(); layer_of.values().max().map_or(0, |layer_of| layer_of + 1)];
    for name in nodes.keys() {
        if let Some(layer) = layer_of.get(name.as_str()).and_then(|index| layers.get_mut(*index)) {
            layer.push(name);
        }
    }
    arranged(layers, nodes)
}

/// Each at the mean of the places of what it waits for: few lines cross then.
fn arranged<'a>(mut layers: Vec<Vec<&'a str>>, nodes: &'a BTreeMap<String, NodeStatus>) -> Vec<Vec<&'a str>> {
    let mut place: HashMap<&str, usize> = HashMap::new();
    for layer in &mut layers {
        let mean = |name: &&str| {
            let parents = nodes.get(*name).map_or(&[][..], |node| &node.after);
            let places: Vec<usize> =
                parents.iter().filter_map(|parent| place.get(parent.as_str()).copied()).collect();
            // In thousandths, so that it is a whole number.
            places.iter().sum::<usize>() * 1_000 / places.len().max(1)
        };
        layer.sort_by_cached_key(mean);
        for (nth, name) in layer.iter().enumerate() {
            place.insert(name, nth);
        }
    }
    layers
}

fn boxes<'a>(layers: &[Vec<&'a str>]) -> Vec<Boxed<'a>> {
    let fold_above = |most: usize| {
        layers.iter().map(|layer| if layer.len() > most { 1 } else { layer.len() }).sum::<usize>()
    };
    let most = if fold_above(LAYER_MAX) > BOXES_MAX { 1 } else { LAYER_MAX };
    let shared = layers.len().div_ceil(COLUMNS_MAX).max(1);
    let mut boxes = Vec::new();
    for (column, together) in layers.chunks(shared).enumerate() {
        let names: Vec<&str> = together.iter().flatten().copied().collect();
        let layers = column * shared..column * shared + together.len();
        match names.len() > most || together.len() > 1 {
            true => boxes.push(Boxed { column, layers, names }),
            false => boxes.extend(names.iter().map(|name| Boxed {
                column,
                layers: layers.clone(),
                names: vec![*name],
            })),
        }
    }
    boxes
}

/// The edges between boxes, each once. An edge from a box to itself is inside the box.
fn edges(boxes: &[Boxed<'_>], nodes: &BTreeMap<String, NodeStatus>) -> BTreeSet<(usize, usize)> {
    let mut box_of: HashMap<&str, usize> = HashMap::new();
    for (place, boxed) in boxes.iter().enumerate() {
        box_of.extend(boxed.names.iter().map(|name| (*name, place)));
    }
    let mut edges = BTreeSet::new();
    for (name, node) in nodes {
        let parents = node.after.iter().filter_map(|text| box_of.get(text.as_str()));
        let between = parents.filter_map(|parent| Some((*parent, *box_of.get(name.as_str())?)));
        edges.extend(between.filter(|pair| pair.0 != pair.1));
    }
    edges
}

fn one(
    context: &Context,
    workflow: &Workflow,
    nodes: &BTreeMap<String, NodeStatus>,
    boxed: &Boxed<'_>,
    at: Point,
) -> Markup {
    match boxed.names.as_slice() {
        [name] => {
            html! { @if let Some(node) = nodes.get(*name) { (single(context, workflow, name, node, at)) } }
        }
        names => {
            folded(context, &boxed.layers, names.iter().filter_map(|name| nodes.get(*name)), names.len(), at)
        }
    }
}

/// The address of the node's task, of its own workflow, or of its line of the table.
pub(super) fn leads_to(context: &Context, workflow: &Workflow, name: &str, node: &NodeStatus) -> String {
    match (&node.task_ref, &node.workflow_ref) {
        (Some(task), _) => context.href(&format!("/console/tasks/{}", segment(task)), &[]),
        (_, Some(sub)) => address(context, sub),
        (None, None) => format!("{}#{}", address(context, &workflow.r#ref), super::nodes::id(name)),
    }
}

fn single(context: &Context, workflow: &Workflow, name: &str, node: &NodeStatus, (x, y): Point) -> Markup {
    let (word, tone) = node_word(node.state);
    let undone = node.compensation.as_ref().map(|compensation| node_word(compensation.state).0);
    html! {
        a href=(leads_to(context, workflow, name, node)) data-node=(name) data-state=(word) {
            title { (name) ": " (word) @if let Some(error) = &node.error { ": " (parts::short(error, 300)) } }
            rect class={ "node " (tone) @if undone.is_some() { " undone" } } x=(x) y=(y) width=(WIDTH) height=(HEIGHT) rx="6" {}
            (lettering((x, y), &html! {
                div.name { (name) }
                div.below { (below(word, node)) @if let Some(undone) = undone { " · undo " (undone) } }
            }))
        }
    }
}

/// Text of a page, and not of a drawing: it ends where the box ends, with dots.
fn lettering((x, y): Point, inside: &Markup) -> Markup {
    html! { foreignObject x=(x + PADDING) y=(y + 3) width=(WIDTH - 2 * PADDING) height=(HEIGHT - 6) { (inside) } }
}

fn below(word: &str, node: &NodeStatus) -> String {
    match &node.items {
        Some(items) => {
            let over = items.iter().filter(|node| node.ended_at_ms.is_some()).count();
            format!("{word} · {over} of {} items", items.len())
        }
        None if node.attempt > 1 => format!("{word} · attempt {}", node.attempt),
        None => word.to_owned(),
    }
}

/// One box, with the shares of its states.
fn folded<'a>(
    context: &Context,
    layers: &Range<usize>,
    nodes: impl Iterator<Item = &'a NodeStatus>,
    count: usize,
    (x, y): Point,
) -> Markup {
    let counts = counts(nodes);
    let of_layers = match layers.len() {
        0 | 1 => layers.start.to_string(),
        _ => format!("{}-{}", layers.start, layers.end - 1),
    };
    let said: Vec<String> =
        counts.iter().map(|count| format!("{} {}", texts::number(count.2), count.0)).collect();
    let mut from = 0;
    let bars: Vec<(&str, usize, usize)> = counts
        .iter()
        .map(|row| {
            let width = usize::try_from(row.2).unwrap_or(0) * (WIDTH - 2 * PADDING) / count.max(1);
            from += width;
            (row.1, from - width, width)
        })
        .collect();
    html! {
        a href={ (context.here_with("layer", &of_layers)) "#nodes" } data-layer=(of_layers) {
            title { @if layers.len() > 1 { (layers.len()) " layers: " } (said.join(", ")) }
            rect.node.many x=(x) y=(y) width=(WIDTH) height=(HEIGHT) rx="6" {}
            (lettering((x, y), &html! { div.name { (texts::count(count as u64, "node", "nodes")) } }))
            @for (tone, from, width) in bars { rect class={ "fill-" (tone) } x=(x + PADDING + from) y=(y + 28) width=(width) height="8" {} }
        }
    }
}

/// The names of the nodes of one layer or of several, `3` or `3-7`, as in the picture.
pub(super) fn names_of_layers(
    nodes: &BTreeMap<String, NodeStatus>,
    wanted: &str,
) -> Option<BTreeSet<String>> {
    let (first, last) = wanted.split_once('-').unwrap_or((wanted, wanted));
    let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
    let layers = layers(nodes);
    let wanted = layers.iter().enumerate().filter(|entry| (first..=last).contains(&entry.0));
    Some(wanted.flat_map(|pair| pair.1).map(|text| (*text).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_protocol::NodeState;

    fn node(after: &[&str]) -> NodeStatus {
        NodeStatus {
            state: NodeState::Blocked,
            task_ref: None,
            workflow_ref: None,
            result: None,
            error: None,
            attempt: 0,
            after: after.iter().map(|text| (*text).to_owned()).collect(),
            begun_at: None,
            begun_at_ms: None,
            ended_at: None,
            ended_at_ms: None,
            items: None,
            compensation: None,
        }
    }

    fn nodes(all: &[(&str, &[&str])]) -> BTreeMap<String, NodeStatus> {
        all.iter().map(|pair| (pair.0.to_owned(), node(pair.1))).collect()
    }

    #[test]
    fn a_node_stands_behind_the_last_of_what_it_waits_for() {
        let nodes =
            nodes(&[("a", &[]), ("b", &["a"]), ("c", &["a", "b"]), ("d", &[]), ("e", &["d", "c", "c"])]);
        assert_eq!(layers(&nodes), [vec!["a", "d"], vec!["b"], vec!["c"], vec!["e"]]);
    }

    #[test]
    fn nodes_stand_near_to_what_they_wait_for() {
        let nodes = nodes(&[("a", &[]), ("b", &[]), ("x", &["b"]), ("y", &["a"])]);
        assert_eq!(layers(&nodes), [vec!["a", "b"], vec!["y", "x"]]);
    }

    #[test]
    fn ten_thousand_nodes_are_a_picture_of_few_boxes() {
        let mut nodes = nodes(&[("first", &[]), ("last", &[])]);
        for nth in 0..9_998 {
            nodes.insert(format!("n{nth}"), node(&["first"]));
            nodes.get_mut("last").unwrap().after.push(format!("n{nth}"));
        }
        let layers = layers(&nodes);
        let boxes = boxes(&layers);
        assert_eq!(boxes.iter().map(|boxed| boxed.names.len()).collect::<Vec<_>>(), [1, 9_998, 1]);
        assert_eq!(edges(&boxes, &nodes), BTreeSet::from([(0, 1), (1, 2)]));
    }

    #[test]
    fn a_long_chain_is_a_picture_of_few_boxes_that_have_all_of_its_nodes() {
        let mut nodes = nodes(&[("n0000", &[])]);
        for nth in 1..1_000 {
            let before = format!("n{:04}", nth - 1);
            nodes.insert(format!("n{nth:04}"), node(&[before.as_str()]));
        }
        let boxes = boxes(&layers(&nodes));
        assert_eq!(boxes.len(), 59);
        assert_eq!(boxes.iter().map(|boxed| boxed.names.len()).sum::<usize>(), 1_000);
        assert_eq!(edges(&boxes, &nodes).len(), 58);
        let first = names_of_layers(&nodes, "0-16").unwrap();
        assert_eq!(first.iter().map(String::as_str).collect::<Vec<_>>(), boxes[0].names);
        assert_eq!(names_of_layers(&nodes, "3").unwrap().len(), 1);
        assert_eq!(names_of_layers(&nodes, "x"), None);
    }
}
