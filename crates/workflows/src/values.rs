//! The values of expressions: the input, and the states and results of nodes. Results are fetched once per
//! step, as text, and parsed where they are evaluated, on a thread of the pool.

use crate::{Plan, runner::WorkflowsState};
use punctual_contract::{
    Error as BackendError,
    workflows::{Carried, NodeContent, StoredWorkflow, WorkflowId},
};
use punctual_domain::workflow::{NodeKey, NodeState, Role, Run};
use punctual_expressions::{Value, Variables, read_json};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The maximum size of a result that is stored for expressions, and of all items of a fan-out together.
pub(crate) const RESULT_MAX_BYTES: usize = 64 << 10;
const RESULTS_MAX_BYTES: usize = 4 << 20;
/// The maximum size of the values that are cached in one step; beyond this, values are read again.
const READ_MAX_BYTES: usize = 16 << 20;
/// Nodes whose values are read together: each names some, with results up to 64 KiB, or 4 MiB for a fan-out.
pub(crate) const NODES_AT_ONCE: usize = 64;
/// An item's share, however many there are.
const RESULT_MIN_BYTES: usize = 256;

/// The maximum size of the result of one of this many items, or of a node.
pub(crate) fn most_bytes(items: Option<u32>) -> usize {
    let items = items.and_then(|number| usize::try_from(number).ok()).unwrap_or(1).max(1);
    (RESULTS_MAX_BYTES / items).clamp(RESULT_MIN_BYTES, RESULT_MAX_BYTES)
}

/// The contents of rows: as stored, and as changed by this step.
#[derive(Debug, Default)]
pub(crate) struct RowValues {
    read: BTreeSet<u32>,
    carried: HashMap<NodeKey, Carried>,
    /// The size of the cached values.
    bytes: usize,
    /// The values of this step that must be written.
    pub(crate) changed: HashMap<NodeKey, Carried>,
}

impl RowValues {
    pub(crate) fn set(&mut self, key: NodeKey, carried: Carried) {
        self.changed.insert(key, carried);
    }

    pub(crate) fn of(&self, key: &NodeKey) -> Option<&Carried> {
        self.changed.get(key).or_else(|| self.carried.get(key))
    }

    /// Reads the contents of these nodes that are not known yet.
    pub(crate) async fn read(
        &mut self,
        inner: &WorkflowsState,
        stored: &StoredWorkflow,
        nodes: impl Iterator<Item = u32>,
    ) -> Result<(), BackendError> {
        let wanted: BTreeSet<u32> = nodes.collect();
        if self.bytes > READ_MAX_BYTES && !wanted.is_subset(&self.read) {
            (self.bytes, self.read, self.carried) = (0, BTreeSet::new(), HashMap::new());
        }
        let missing: Vec<u32> = wanted.into_iter().filter(|number| self.read.insert(*number)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let found = inner.store.node_contents(stored.id, missing).await?;
        self.bytes += found.iter().map(|content| bytes_of(&content.carried)).sum::<usize>();
        self.carried.extend(found.into_iter().map(|content| (content.key, content.carried)));
        Ok(())
    }

    /// The values that expressions may name: `input`, and the named ones of `nodes`.
    pub(crate) fn sources(
        &self,
        stored: &StoredWorkflow,
        plan: &Plan,
        run: &Run,
        named: impl Iterator<Item = u32>,
    ) -> Sources {
        let source = |node: u32| {
            let name = plan.graph.name(node)?.as_str().to_owned();
            Some((
                node,
                NodeResult { name, state: run.state_of(node).word(), result: self.result(run, node) },
            ))
        };
        Sources { input: stored.input.clone(), nodes: named.filter_map(source).collect() }
    }

    /// The result of a node: for a fan-out the results of its items, null for items without one.
    pub(crate) fn result(&self, run: &Run, node: u32) -> Result<Text, String> {
        let key = NodeKey::node(node);
        match run.row(&key) {
            Some(row) if row.items.is_some() => {
                let mut bytes = 0;
                let items = run.items(node).map(|(key, row)| {
                    bytes += self.of(key).and_then(|carried| carried.result.as_ref()).map_or(0, String::len);
                    if bytes > RESULTS_MAX_BYTES {
                        return Err(format!(
                            "its results are longer than {RESULTS_MAX_BYTES} bytes together"
                        ));
                    }
                    self.own_result(key, row.state)
                });
                items.collect::<Result<Vec<_>, _>>().map(Text::Items)
            }
            Some(row) => self.own_result(&key, row.state),
            None => Ok(Text::None),
        }
    }

    /// The result of one row.
    pub(crate) fn own_result(&self, key: &NodeKey, state: NodeState) -> Result<Text, String> {
        let Some(carried) = self.of(key).filter(|_| state == NodeState::Succeeded) else {
            return Ok(Text::None);
        };
        match (&carried.result, &carried.error) {
            (Some(text), _) => Ok(Text::One(text.clone())),
            // It was too long to be kept.
            (None, Some(problem)) => Err(problem.clone()),
            (None, None) => Ok(Text::None),
        }
    }

    /// The array that a fan-out runs over, as text.
    pub(crate) fn items(&self, node: u32) -> Option<String> {
        self.of(&NodeKey::node(node))?.items.clone()
    }
}

/// A result, as JSON text.
#[derive(Clone, Debug, Default)]
pub(crate) enum Text {
    /// There is no result: null.
    #[default]
    None,
    One(String),
    /// The results of the items of a fan-out.
    Items(Vec<Self>),
}

impl Text {
    pub(crate) fn read(&self) -> Result<Value, String> {
        match self {
            Self::None => Ok(Value::Null),
            Self::One(text) => read_json(text),
            Self::Items(all) => all.iter().map(Self::read).collect::<Result<_, _>>().map(Value::list),
        }
    }

    pub(crate) fn into_json(self) -> String {
        match self {
            Self::None => "null".to_owned(),
            Self::One(text) => text,
            Self::Items(all) => {
                let all: Vec<String> = all.into_iter().map(Self::into_json).collect();
                format!("[{}]", all.join(","))
            }
        }
    }
}

/// The values that expressions may name, as stored.
#[derive(Debug)]
pub(crate) struct Sources {
    input: String,
    nodes: BTreeMap<u32, NodeResult>,
}

#[derive(Debug)]
struct NodeResult {
    name: String,
    state: &'static str,
    result: Result<Text, String>,
}

/// The same, of which each is read when it is named first.
#[derive(Debug)]
pub(crate) struct Read {
    sources: Sources,
    input: Option<Result<Value, String>>,
    nodes: HashMap<u32, Result<Value, String>>,
}

impl Read {
    pub(crate) fn of(sources: Sources) -> Self {
        Self { sources, input: None, nodes: HashMap::new() }
    }

    pub(crate) fn variables(&mut self, named: impl Iterator<Item = u32>) -> Result<Variables, String> {
        let mut nodes = Vec::new();
        for node in named {
            let Some(source) = self.sources.nodes.get(&node) else { continue };
            let read = self.nodes.entry(node).or_insert_with(|| source.value());
            nodes.push((source.name.clone(), read.clone()?));
        }
        let text = &self.sources.input;
        let input =
            self.input.get_or_insert_with(|| read_json(text).map_err(|error| format!("the input: {error}")));
        Ok(vec![("input", input.clone()?), ("nodes", Value::map(nodes))])
    }
}

impl NodeResult {
    fn value(&self) -> Result<Value, String> {
        let Self { name, state, result } = self;
        let result = result.as_ref().map_err(Clone::clone).and_then(Text::read);
        let result = result.map_err(|error| format!("node {name:?}: {error}"))?;
        Ok(Value::map([("state".to_owned(), (*state).into()), ("result".to_owned(), result)]))
    }
}

fn bytes_of(carried: &Carried) -> usize {
    [&carried.result, &carried.error, &carried.items].into_iter().flatten().map(String::len).sum()
}

/// The contents of these nodes, if they are no longer than this together; a few are read at a time.
pub(crate) async fn at_most(
    inner: &WorkflowsState,
    id: WorkflowId,
    nodes: &[u32],
    bytes: usize,
) -> Result<Option<Vec<NodeContent>>, BackendError> {
    let (mut all, mut sum) = (Vec::new(), 0);
    for some in nodes.chunks(NODES_AT_ONCE) {
        let found = inner.store.node_contents(id, some.to_vec()).await?;
        sum += found.iter().map(|content| bytes_of(&content.carried)).sum::<usize>();
        if sum > bytes {
            return Ok(None);
        }
        all.extend(found);
    }
    Ok(Some(all))
}

/// The nodes that a node's content depends on: those that it names, and itself.
pub(crate) fn needed(plan: &Plan, node: u32, role: Role) -> impl Iterator<Item = u32> {
    plan.read_by(node, role).chain([node])
}
