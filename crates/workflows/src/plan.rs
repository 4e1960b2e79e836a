//! A document that was checked: its graph, and what its expressions name. Every rule of `domain::workflow`, and that each
//! expression can be read and names nothing but what is known when it is evaluated.

use punctual_domain::{
    name::Name,
    schedule::Payload,
    workflow::{Ancestors, Definition, Graph, Invalid, Node, Role, TaskTemplate, Work},
};
use punctual_expressions::{Names, names_in_payload, names_of};
use std::{collections::BTreeSet, sync::Arc};

/// Longest payload of a node, and longest input of a workflow.
pub(crate) const PAYLOAD_MAX_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub struct Plan {
    pub definition: Arc<Definition>,
    pub graph: Graph,
    /// By the number of the node.
    reads: Vec<Reads>,
}

/// Nodes that its expressions name.
#[derive(Debug, Default)]
struct Reads {
    decision: BTreeSet<u32>,
    action: BTreeSet<u32>,
    compensation: BTreeSet<u32>,
}

impl Plan {
    /// # Errors
    /// The first mistake, with the path to it.
    pub fn of(definition: Arc<Definition>) -> Result<Self, Invalid> {
        let graph = Graph::of(&definition)?;
        let reads = Checker::new(&definition, &graph, "").all()?;
        Ok(Self { definition, graph, reads })
    }

    /// Of a document that was checked when it was stored.
    pub(crate) fn stored(definition: Arc<Definition>) -> Result<Self, Invalid> {
        Self::of(definition)
    }

    #[must_use]
    pub fn node(&self, node: u32) -> Option<&Node> {
        self.definition.nodes.get(self.graph.name(node)?)
    }

    /// Nodes that the condition and the array of a node name.
    pub(crate) fn read_by_decision(&self, node: u32) -> impl Iterator<Item = u32> {
        self.of_node(node).into_iter().flat_map(|it| it.decision.iter().copied())
    }

    /// Nodes that what a node carries names.
    pub(crate) fn read_by(&self, node: u32, role: Role) -> impl Iterator<Item = u32> {
        self.of_node(node).into_iter().flat_map(move |it| match role {
            Role::Action => it.action.iter().copied(),
            Role::Compensation => it.compensation.iter().copied(),
        })
    }

    fn of_node(&self, node: u32) -> Option<&Reads> {
        self.reads.get(usize::try_from(node).ok()?)
    }

    /// Nodes that no other comes after.
    pub(crate) fn leaves(&self) -> Vec<u32> {
        let nodes = 0..u32::try_from(self.graph.len()).unwrap_or(u32::MAX);
        let parents: BTreeSet<u32> =
            nodes.clone().flat_map(|it| self.graph.parents(it).iter().copied()).collect();
        nodes.filter(|it| !parents.contains(it)).collect()
    }
}

struct Checker<'a> {
    definition: &'a Definition,
    graph: &'a Graph,
    /// Made when an expression names a node.
    ancestors: Option<Ancestors>,
    path: &'a str,
}

/// What may be named at a place.
#[derive(Clone, Copy)]
struct Allowed {
    node: u32,
    items: bool,
    own: bool,
}

impl<'a> Checker<'a> {
    const fn new(definition: &'a Definition, graph: &'a Graph, path: &'a str) -> Self {
        Self { definition, graph, ancestors: None, path }
    }

    fn all(mut self) -> Result<Vec<Reads>, Invalid> {
        let nodes = (0..).zip(&self.definition.nodes);
        nodes.map(|(number, (name, node))| self.node(number, name, node)).collect()
    }

    fn node(&mut self, number: u32, name: &Name, node: &Node) -> Result<Reads, Invalid> {
        let path = format!("{}nodes/{name}", self.path);
        let mut reads = Reads::default();
        let plain = Allowed { node: number, items: false, own: false };
        for (field, text) in [("when", &node.when), ("for_each", &node.for_each)] {
            if let Some(text) = text {
                let path = format!("{path}/{field}");
                let names = names_of(text, "nodes").map_err(|it| invalid(&path, it))?;
                self.names(plain, &path, &names, &mut reads.decision)?;
            }
        }
        let within = Allowed { items: node.for_each.is_some(), ..plain };
        match &node.work {
            Work::Task(task) => self.task(within, &format!("{path}/task"), task, &mut reads.action)?,
            Work::Workflow(sub) => {
                if let Some(input) = &sub.input {
                    self.text(within, &format!("{path}/workflow/input"), input, &mut reads.action)?;
                }
                let graph = Graph::of(&sub.definition)?;
                Checker::new(&sub.definition, &graph, &format!("{path}/workflow/")).all()?;
            }
        }
        if let Some(task) = &node.compensate {
            let undoing = Allowed { own: true, ..within };
            self.task(undoing, &format!("{path}/compensate"), task, &mut reads.compensation)?;
        }
        Ok(reads)
    }

    fn task(
        &mut self,
        allowed: Allowed,
        path: &str,
        task: &TaskTemplate,
        reads: &mut BTreeSet<u32>,
    ) -> Result<(), Invalid> {
        let path = format!("{path}/payload");
        match &task.payload {
            None => Ok(()),
            Some(Payload::Bytes(bytes)) => short(&path, bytes.len()),
            Some(Payload::Json(text)) => self.text(allowed, &path, text, reads),
        }
    }

    fn text(
        &mut self,
        allowed: Allowed,
        path: &str,
        text: &str,
        reads: &mut BTreeSet<u32>,
    ) -> Result<(), Invalid> {
        short(path, text.len())?;
        let all = names_in_payload(text, "nodes").map_err(|it| invalid(path, it))?;
        for (below, names) in all {
            self.names(allowed, &format!("{path}{below}"), &names, reads)?;
        }
        Ok(())
    }

    fn names(
        &mut self,
        allowed: Allowed,
        path: &str,
        names: &Names,
        reads: &mut BTreeSet<u32>,
    ) -> Result<(), Invalid> {
        if names.whole {
            return Err(invalid(path, "names `nodes` as a whole: name one of them, as in `nodes.a.result`"));
        }
        for variable in &names.variables {
            let is_known = match variable.as_str() {
                "input" | "nodes" => true,
                "item" | "index" => allowed.items,
                "result" => allowed.own,
                _ => false,
            };
            if !is_known {
                let known = match (allowed.items, allowed.own) {
                    (false, false) => "input, nodes",
                    (true, false) => "input, nodes, item, index",
                    (false, true) => "input, nodes, result",
                    (true, true) => "input, nodes, item, index, result",
                };
                return Err(invalid(
                    path,
                    format!("names {variable:?}, which is unknown here: there are {known}"),
                ));
            }
        }
        for entry in &names.entries {
            reads.insert(self.entry(allowed, path, entry)?);
        }
        Ok(())
    }

    fn entry(&mut self, allowed: Allowed, path: &str, entry: &str) -> Result<u32, Invalid> {
        let found = Name::new(entry).ok().and_then(|it| self.graph.number(&it));
        let Some(above) = found else {
            return Err(invalid(path, format!("names the node {entry:?}, and there is none")));
        };
        let graph = self.graph;
        let ancestors = self.ancestors.get_or_insert_with(|| graph.ancestors());
        if ancestors.has(allowed.node, above) || (allowed.own && above == allowed.node) {
            return Ok(above);
        }
        let name = self.graph.name(allowed.node).map_or("", Name::as_str);
        let problem =
            format!("names the node {entry:?}, which does not come before {name:?}: put it into `after`");
        Err(invalid(path, problem))
    }
}

fn short(path: &str, bytes: usize) -> Result<(), Invalid> {
    if bytes > PAYLOAD_MAX_BYTES {
        let problem = format!(
            "has {bytes} bytes, and may have at most {PAYLOAD_MAX_BYTES}: keep it elsewhere, and send its key"
        );
        return Err(invalid(path, problem));
    }
    Ok(())
}

fn invalid(path: &str, problem: impl Into<String>) -> Invalid {
    Invalid { field: path.to_owned(), problem: problem.into() }
}
