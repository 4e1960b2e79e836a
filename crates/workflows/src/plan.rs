//! A checked document: its graph, and its parsed expressions with the nodes that they name. Checks every rule
//! of `domain::workflow`, and that each expression can be parsed and names only what is known when it is
//! evaluated. Reads user input, so it is made on a thread of the pool.

use punctual_domain::{
    name::Name,
    schedule::Payload,
    workflow::{Ancestors, Definition, Graph, Invalid, Node, Role, TaskTemplate, Work},
};
use punctual_expressions::{Expression, Names, Problem, Template};
use std::{collections::BTreeSet, sync::Arc};

/// Longest payload of a node, and longest input of a workflow.
pub(crate) const PAYLOAD_MAX_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub struct Plan {
    pub definition: Arc<Definition>,
    pub graph: Graph,
    /// The nodes by number.
    nodes: Vec<Read>,
}

/// A parse error is reported where the expression is needed: an older program may have stored a document that
/// this one refuses.
type Stored<T> = Result<T, Problem>;

/// The expressions of a node. `None` if it has none.
#[derive(Debug, Default)]
struct Read {
    when: Option<Stored<Expression>>,
    for_each: Option<Stored<Expression>>,
    /// The template of the node's payload, or of the input of the workflow that it is.
    action: Option<Stored<Template>>,
    compensation: Option<Stored<Template>>,
    reads: Reads,
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
        Self::checked(definition, false)
    }

    /// The plan of a document that was checked when it was stored.
    pub(crate) fn stored(definition: Arc<Definition>) -> Result<Self, Invalid> {
        Self::checked(definition, true)
    }

    fn checked(definition: Arc<Definition>, is_stored: bool) -> Result<Self, Invalid> {
        let graph = Graph::of(&definition)?;
        let nodes =
            Checker { definition: &definition, graph: &graph, ancestors: None, path: "", is_stored }.all()?;
        Ok(Self { definition, graph, nodes })
    }

    pub(crate) fn when(&self, node: u32) -> Option<&Stored<Expression>> {
        self.of_node(node)?.when.as_ref()
    }

    pub(crate) fn for_each(&self, node: u32) -> Option<&Stored<Expression>> {
        self.of_node(node)?.for_each.as_ref()
    }

    /// It has a condition or an array.
    pub(crate) fn is_decided(&self, node: u32) -> bool {
        self.when(node).is_some() || self.for_each(node).is_some()
    }

    /// The template of a row, if it has expressions.
    pub(crate) fn template(&self, node: u32, role: Role) -> Option<&Stored<Template>> {
        let node = self.of_node(node)?;
        match role {
            Role::Action => node.action.as_ref(),
            Role::Compensation => node.compensation.as_ref(),
        }
    }

    /// The plan's approximate size in memory.
    pub(crate) fn bytes(&self) -> usize {
        const OF_A_NODE: usize = 1_024;
        /// The memory of one byte of an expression: a name or sign of one letter is a node of a tree.
        const OF_A_BYTE: usize = 64;
        let expressions = self.nodes.iter().flat_map(|node| [&node.when, &node.for_each]);
        let own = expressions.flatten().flatten().map(|expression| expression.text().len());
        let templates = self.nodes.iter().flat_map(|node| [&node.action, &node.compensation]);
        let within = templates.flatten().flatten().map(Template::bytes_of_expressions);
        self.nodes.len() * OF_A_NODE + own.chain(within).sum::<usize>() * OF_A_BYTE
    }

    #[must_use]
    pub fn node(&self, node: u32) -> Option<&Node> {
        self.definition.nodes.get(self.graph.name(node)?)
    }

    /// Nodes that the condition and the array of a node name.
    pub(crate) fn read_by_decision(&self, node: u32) -> impl Iterator<Item = u32> {
        self.of_node(node).into_iter().flat_map(|read| read.reads.decision.iter().copied())
    }

    /// The nodes that a node's content names.
    pub(crate) fn read_by(&self, node: u32, role: Role) -> impl Iterator<Item = u32> {
        self.of_node(node).into_iter().flat_map(move |read| match role {
            Role::Action => read.reads.action.iter().copied(),
            Role::Compensation => read.reads.compensation.iter().copied(),
        })
    }

    fn of_node(&self, node: u32) -> Option<&Read> {
        self.nodes.get(usize::try_from(node).ok()?)
    }

    /// Nodes without successors.
    pub(crate) fn leaves(&self) -> Vec<u32> {
        let nodes = 0..u32::try_from(self.graph.len()).unwrap_or(u32::MAX);
        let parents: BTreeSet<u32> =
            nodes.clone().flat_map(|node| self.graph.parents(node).iter().copied()).collect();
        nodes.filter(|node| !parents.contains(node)).collect()
    }
}

struct Checker<'a> {
    definition: &'a Definition,
    graph: &'a Graph,
    /// Made when an expression names a node.
    ancestors: Option<Ancestors>,
    path: &'a str,
    is_stored: bool,
}

/// The names that are allowed at a place.
#[derive(Clone, Copy)]
struct Allowed {
    node: u32,
    items: bool,
    own: bool,
}

impl<'a> Checker<'a> {
    fn all(mut self) -> Result<Vec<Read>, Invalid> {
        let nodes = (0..).zip(&self.definition.nodes);
        nodes.map(|(number, (name, node))| self.node(number, name, node)).collect()
    }

    fn node(&mut self, number: u32, name: &Name, node: &Node) -> Result<Read, Invalid> {
        let path = format!("{}nodes/{name}", self.path);
        let mut read = Read::default();
        let reads = &mut read.reads;
        let plain = Allowed { node: number, items: false, own: false };
        for (field, text, place) in
            [("when", &node.when, &mut read.when), ("for_each", &node.for_each, &mut read.for_each)]
        {
            if let Some(text) = text {
                let path = format!("{path}/{field}");
                let expression = self.kept(&path, Expression::parse(text))?;
                if let Ok(expression) = &expression {
                    self.names(plain, &path, &expression.names("nodes"), &mut reads.decision)?;
                }
                *place = Some(expression);
            }
        }
        let within = Allowed { items: node.for_each.is_some(), ..plain };
        match &node.work {
            Work::Task(task) => {
                read.action = self.task(within, &format!("{path}/task"), task, &mut reads.action)?;
            }
            Work::Workflow(sub) => {
                if let Some(input) = &sub.input {
                    read.action =
                        self.text(within, &format!("{path}/workflow/input"), input, &mut reads.action)?;
                }
                let graph = Graph::of(&sub.definition)?;
                let (definition, is_stored) = (&sub.definition, self.is_stored);
                let path = format!("{path}/workflow/");
                Checker { definition, graph: &graph, ancestors: None, path: &path, is_stored }.all()?;
            }
        }
        if let Some(task) = &node.compensate {
            let undoing = Allowed { own: true, ..within };
            read.compensation =
                self.task(undoing, &format!("{path}/compensate"), task, &mut reads.compensation)?;
        }
        Ok(read)
    }

    /// A mistake is refused where the document is new.
    fn kept<T>(&self, path: &str, read: Result<T, Problem>) -> Result<Stored<T>, Invalid> {
        match read {
            Err(problem) if !self.is_stored => Err(invalid(path, problem)),
            read => Ok(read),
        }
    }

    fn task(
        &mut self,
        allowed: Allowed,
        path: &str,
        task: &TaskTemplate,
        reads: &mut BTreeSet<u32>,
    ) -> Result<Option<Stored<Template>>, Invalid> {
        let path = format!("{path}/payload");
        match &task.payload {
            None => Ok(None),
            Some(Payload::Bytes(bytes)) => short(&path, bytes.len()).map(|()| None),
            Some(Payload::Json(text)) => self.text(allowed, &path, text, reads),
        }
    }

    fn text(
        &mut self,
        allowed: Allowed,
        path: &str,
        text: &str,
        reads: &mut BTreeSet<u32>,
    ) -> Result<Option<Stored<Template>>, Invalid> {
        short(path, text.len())?;
        let template = self.kept(path, Template::parse(text))?;
        for (below, names) in template.iter().flatten().flat_map(|template| template.names("nodes")) {
            self.names(allowed, &format!("{path}{below}"), &names, reads)?;
        }
        Ok(template.transpose())
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
        let found = Name::new(entry).ok().and_then(|name| self.graph.number(&name));
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
