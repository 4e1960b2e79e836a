//! Checks every rule of a document, reporting the path to each mistake; and builds the graph of a valid one.

use super::{
    DEADLINE_MAX_MS, DEPTH_MAX, Definition, EDGES_MAX, Invalid, Join, NESTED_MAX, NODES_MAX, Node, OnFailure,
    TaskTemplate, Work,
};
use crate::{name::Name, time::Span};
use std::collections::{HashMap, HashSet};

/// Labels that begin so are the engine's.
const LABELS: &str = "workflow";

/// The nodes of one document by number, in the order of their names; sub-workflows have graphs of their own.
#[derive(Clone, Debug)]
pub struct Graph {
    names: Vec<Name>,
    numbers: HashMap<Name, u32>,
    rules: Vec<Rules>,
    /// Parents before children.
    order: Vec<u32>,
}

#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) parents: Vec<u32>,
    /// The number of parents that must hold.
    pub(super) need: usize,
    pub(super) on_failure: OnFailure,
    pub(super) compensates: bool,
}

impl Graph {
    /// Checks a document, sub-workflows included.
    ///
    /// # Errors
    /// The first mistake, with the path to it.
    pub fn of(definition: &Definition) -> Result<Self, Invalid> {
        let mut nodes = 0;
        checked(definition, "", 0, &mut nodes)
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    #[must_use]
    pub fn number(&self, node: &Name) -> Option<u32> {
        self.numbers.get(node).copied()
    }

    #[must_use]
    pub fn name(&self, node: u32) -> Option<&Name> {
        self.names.get(at(node))
    }

    #[must_use]
    pub fn names(&self) -> &[Name] {
        &self.names
    }

    #[must_use]
    pub fn parents(&self, node: u32) -> &[u32] {
        self.rules.get(at(node)).map_or(&[], |rule| &rule.parents)
    }

    pub(super) fn order(&self) -> &[u32] {
        &self.order
    }

    pub(super) fn rules(&self, node: u32) -> Option<&Rules> {
        self.rules.get(at(node))
    }

    /// The ancestors of each node, by any path.
    #[must_use]
    pub fn ancestors(&self) -> Ancestors {
        let words = self.len().div_ceil(64);
        let mut of: Vec<Vec<u64>> = vec![Vec::new(); self.len()];
        for node in &self.order {
            let mut own = vec![0_u64; words];
            for parent in self.parents(*node) {
                set(&mut own, *parent);
                for (word, above) in own.iter_mut().zip(of.get(at(*parent)).into_iter().flatten()) {
                    *word |= above;
                }
            }
            if let Some(list) = of.get_mut(at(*node)) {
                *list = own;
            }
        }
        Ancestors { of }
    }
}

/// The ancestors of each node.
#[derive(Debug)]
pub struct Ancestors {
    of: Vec<Vec<u64>>,
}

impl Ancestors {
    #[must_use]
    pub fn has(&self, node: u32, above: u32) -> bool {
        let word = self.of.get(at(node)).and_then(|list| list.get(at(above) / 64));
        word.is_some_and(|word| word >> (above % 64) & 1 == 1)
    }
}

fn set(bits: &mut [u64], nth: u32) {
    if let Some(word) = bits.get_mut(at(nth) / 64) {
        *word |= 1 << (nth % 64);
    }
}

fn at(node: u32) -> usize {
    usize::try_from(node).unwrap_or(usize::MAX)
}

fn checked(definition: &Definition, path: &str, depth: usize, nodes: &mut usize) -> Result<Graph, Invalid> {
    let wrong = |field: &str, problem: String| Err(Invalid::new(format!("{path}{field}"), problem));
    if depth > NESTED_MAX {
        return wrong("nodes", format!("is nested in more than {NESTED_MAX} other workflows"));
    }
    if definition.deadline_ms.is_some_and(|deadline_ms| !(1..=DEADLINE_MAX_MS).contains(&deadline_ms)) {
        return wrong("deadline_ms", format!("must be 1 ms to {}, in milliseconds", Span(DEADLINE_MAX_MS)));
    }
    *nodes += definition.nodes.len();
    if definition.nodes.is_empty() {
        return wrong("nodes", "has no node: a workflow needs at least one".to_owned());
    }
    if *nodes > NODES_MAX {
        return wrong("nodes", format!("has more than {NODES_MAX} nodes, those of sub-workflows included"));
    }
    let edges: usize = definition.nodes.values().map(|node| node.after.len()).sum();
    if edges > EDGES_MAX {
        return wrong("nodes", format!("has {edges} edges, and may have at most {EDGES_MAX}"));
    }
    for (name, node) in &definition.nodes {
        let path = format!("{path}nodes/{name}/");
        checked_node(definition, name, node, &path)?;
        if let Work::Workflow(sub) = &node.work {
            checked(&sub.definition, &format!("{path}workflow/"), depth + 1, nodes)?;
        }
    }
    graph(definition, path)
}

fn checked_node(definition: &Definition, name: &Name, node: &Node, path: &str) -> Result<(), Invalid> {
    let wrong = |field: String, problem: String| Err(Invalid::new(format!("{path}{field}"), problem));
    let mut seen = HashSet::new();
    for (nth, parent) in node.after.iter().enumerate() {
        let field = format!("after/{nth}");
        if parent == name {
            return wrong(field, format!("is the node itself: {name} → {name} is a cycle"));
        }
        if !definition.nodes.contains_key(parent) {
            return wrong(field, format!("there is no node {:?}", parent.as_str()));
        }
        if !seen.insert(parent) {
            return wrong(field, format!("names {:?} a second time", parent.as_str()));
        }
    }
    let parents = node.after.len();
    match node.join {
        Join::Any if parents == 0 => {
            return wrong("join".to_owned(), "needs `after`: without parents nothing is joined".to_owned());
        }
        Join::AtLeast(0) => return wrong("join/at_least".to_owned(), "must be at least 1".to_owned()),
        Join::AtLeast(need) if usize::try_from(need).unwrap_or(usize::MAX) > parents => {
            return wrong(
                "join/at_least".to_owned(),
                format!("can never hold: it asks for {need} of {parents} parents"),
            );
        }
        _ => {}
    }
    if let Some(delay_ms) = node.delay_ms {
        if !(0..=DEADLINE_MAX_MS).contains(&delay_ms) {
            return wrong(
                "delay_ms".to_owned(),
                format!("must be 0 ms to {}, in milliseconds", Span(DEADLINE_MAX_MS)),
            );
        }
        if matches!(node.work, Work::Workflow(_)) {
            return wrong("delay_ms".to_owned(), "only a task waits: give it to the first nodes".to_owned());
        }
    }
    if let Work::Task(task) = &node.work {
        checked_task(task, path, "task")?;
    }
    node.compensate.as_ref().map_or(Ok(()), |compensate| checked_task(compensate, path, "compensate/task"))
}

fn checked_task(task: &TaskTemplate, path: &str, field: &str) -> Result<(), Invalid> {
    task.check().map_err(|invalid| {
        let within = invalid.field.strip_prefix("task").unwrap_or(&invalid.field);
        Invalid::new(format!("{path}{field}{within}"), invalid.problem.clone())
    })?;
    match task.labels.keys().find(|key| key.starts_with(LABELS)) {
        None => Ok(()),
        Some(label) => Err(Invalid::new(
            format!("{path}{field}/labels/{label}"),
            format!("labels that begin with `{LABELS}` are set by the engine"),
        )),
    }
}

fn graph(definition: &Definition, path: &str) -> Result<Graph, Invalid> {
    let names: Vec<Name> = definition.nodes.keys().cloned().collect();
    let numbers: HashMap<Name, u32> = names.iter().cloned().zip(0..).collect();
    let rules: Vec<Rules> = definition.nodes.values().map(|node| rules(node, &numbers)).collect();
    let order = ordered(&rules);
    if order.len() < names.len() {
        return Err(cycle(definition, path, &names, &rules, &order));
    }
    let graph = Graph { names, numbers, rules, order };
    deepest(&graph, path)?;
    Ok(graph)
}

fn rules(node: &Node, numbers: &HashMap<Name, u32>) -> Rules {
    let parents: Vec<u32> = node.after.iter().filter_map(|name| numbers.get(name).copied()).collect();
    let need = match node.join {
        Join::All => parents.len(),
        Join::Any => 1,
        Join::AtLeast(need) => usize::try_from(need).unwrap_or(usize::MAX),
    };
    Rules { parents, need, on_failure: node.on_failure, compensates: node.compensate.is_some() }
}

/// Parents first; those on a cycle, and those behind one, are missing.
fn ordered(rules: &[Rules]) -> Vec<u32> {
    let mut children: Vec<Vec<u32>> = vec![Vec::new(); rules.len()];
    let mut missing: Vec<usize> = rules.iter().map(|rule| rule.parents.len()).collect();
    for (child, rule) in (0..).zip(rules) {
        for parent in &rule.parents {
            if let Some(of) = children.get_mut(at(*parent)) {
                of.push(child);
            }
        }
    }
    let mut order: Vec<u32> = (0..).zip(&missing).filter(|pair| *pair.1 == 0).map(|pair| pair.0).collect();
    let mut next = 0;
    while let Some(node) = order.get(next).copied() {
        next += 1;
        for child in children.get(at(node)).into_iter().flatten() {
            if let Some(left) = missing.get_mut(at(*child)) {
                *left -= 1;
                if *left == 0 {
                    order.push(*child);
                }
            }
        }
    }
    order
}

/// Walks upwards among nodes that have no order, until one occurs again.
fn cycle(definition: &Definition, path: &str, names: &[Name], rules: &[Rules], order: &[u32]) -> Invalid {
    let free: HashSet<u32> = order.iter().copied().collect();
    let from = (0..).zip(names).map(|pair| pair.0).find(|number| !free.contains(number));
    let (mut way, mut seen, mut node) = (Vec::<u32>::new(), HashSet::new(), from.unwrap_or(0));
    while seen.insert(node) {
        way.push(node);
        let above =
            rules.get(at(node)).and_then(|rule| rule.parents.iter().find(|parent| !free.contains(parent)));
        match above {
            Some(parent) => node = *parent,
            None => break,
        }
    }
    let begins = way.iter().position(|number| *number == node).unwrap_or(0);
    // Upwards: the last node of the path is the parent of the first only.
    let mut round: Vec<u32> = way.into_iter().skip(begins).collect();
    round.reverse();
    let name = |number: &u32| names.get(at(*number)).map_or("", Name::as_str);
    let mut told: Vec<&str> = round.iter().map(name).collect();
    let (first, last) = (told.first().copied().unwrap_or(""), told.last().copied().unwrap_or(""));
    told.push(first);
    let nth = definition
        .nodes
        .iter()
        .find(|node| node.0.as_str() == first)
        .and_then(|node| node.1.after.iter().position(|name| name.as_str() == last))
        .unwrap_or(0);
    Invalid::new(format!("{path}nodes/{first}/after/{nth}"), format!("closes a cycle: {}", told.join(" → ")))
}

fn deepest(graph: &Graph, path: &str) -> Result<(), Invalid> {
    let mut depth = vec![1_usize; graph.len()];
    for node in graph.order() {
        let above = graph.parents(*node).iter().filter_map(|parent| depth.get(at(*parent))).max();
        let own = above.map_or(1, |number| number + 1);
        if own > DEPTH_MAX {
            let name = graph.name(*node).map_or("", Name::as_str);
            let problem =
                format!("is the {own}th on the way to it: a workflow may be {DEPTH_MAX} nodes deep");
            return Err(Invalid::new(format!("{path}nodes/{name}"), problem));
        }
        if let Some(depth) = depth.get_mut(at(*node)) {
            *depth = own;
        }
    }
    Ok(())
}
