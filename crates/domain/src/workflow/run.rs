//! The state of a workflow, and what follows from ended tasks. Only decided nodes have rows: a node without a
//! row is blocked. Everything is a function of the rows, so that the order in which ends arrive does not
//! affect the result.

mod rows;
mod undo;

pub use rows::{NodeKey, NodeRow, NodeState, Role};

use super::{Graph, Join, OnFailure};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The codes are stored and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowState {
    Running,
    Compensating,
    Succeeded,
    Failed,
    Compensated,
    Cancelled,
}

impl WorkflowState {
    pub const ALL: [Self; 6] = [
        Self::Running,
        Self::Compensating,
        Self::Succeeded,
        Self::Failed,
        Self::Compensated,
        Self::Cancelled,
    ];

    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Running => 1,
            Self::Compensating => 2,
            Self::Succeeded => 3,
            Self::Failed => 4,
            Self::Compensated => 5,
            Self::Cancelled => 6,
        }
    }

    /// Returns `None` if no such code exists.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.code() == code)
    }

    #[must_use]
    pub const fn is_finished(self) -> bool {
        !matches!(self, Self::Running | Self::Compensating)
    }

    /// The displayed name of the state.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Compensating => "compensating",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Compensated => "compensated",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Why no node begins any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    Failed,
    Cancelled,
}

/// The end of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Succeeded,
    Failed,
    Cancelled,
}

/// The decision on a node whose join holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Run,
    /// A fan-out of this many items.
    Each(u32),
    Skip,
    /// It cannot be begun.
    Fail,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is over.
    Finished,
    /// It is not over.
    Running,
    /// The node has ended already.
    Ended,
    /// The completed work has been undone.
    Undone,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub state: WorkflowState,
    pub ending: Option<Ending>,
    /// Nodes and items that have succeeded so far: their order.
    pub completed: u64,
    rows: BTreeMap<NodeKey, NodeRow>,
    changed: BTreeSet<NodeKey>,
}

impl Default for Run {
    fn default() -> Self {
        Self::of(WorkflowState::Running, None, 0, BTreeMap::new())
    }
}

impl Run {
    #[must_use]
    pub const fn of(
        state: WorkflowState,
        ending: Option<Ending>,
        completed: u64,
        rows: BTreeMap<NodeKey, NodeRow>,
    ) -> Self {
        Self { state, ending, completed, rows, changed: BTreeSet::new() }
    }

    #[must_use]
    pub const fn rows(&self) -> &BTreeMap<NodeKey, NodeRow> {
        &self.rows
    }

    #[must_use]
    pub fn row(&self, key: &NodeKey) -> Option<&NodeRow> {
        self.rows.get(key)
    }

    /// The state of a node, with all its items.
    #[must_use]
    pub fn state_of(&self, node: u32) -> NodeState {
        self.rows.get(&NodeKey::node(node)).map_or(NodeState::Blocked, |row| row.state)
    }

    /// The rows that changed since the last call.
    pub fn take_changed(&mut self) -> Vec<(NodeKey, NodeRow)> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().filter_map(|key| Some((key, *self.rows.get(&key)?))).collect()
    }

    /// Open rows whose task is not known to exist.
    pub fn unmade(&self) -> impl Iterator<Item = (&NodeKey, &NodeRow)> {
        self.open().filter(|pair| !pair.1.is_made)
    }

    /// The rows that carry a task and have not ended.
    pub fn open(&self) -> impl Iterator<Item = (&NodeKey, &NodeRow)> {
        self.rows.iter().filter(|row| row.1.state.is_open() && row.1.items.is_none())
    }

    /// Records that the task of the row exists.
    pub fn made(&mut self, key: &NodeKey) {
        if let Some(row) = self.rows.get_mut(key) {
            row.is_made = true;
        }
    }

    fn put(&mut self, key: NodeKey, row: NodeRow) {
        self.rows.insert(key, row);
        self.changed.insert(key);
    }

    /// A task of this attempt has ended. False if it is not awaited.
    pub fn end(&mut self, graph: &Graph, key: NodeKey, attempt: u32, end: End) -> bool {
        let Some(row) =
            self.rows.get(&key).copied().filter(|row| row.state.is_open() && row.attempt == attempt)
        else {
            return false;
        };
        if row.items.is_some() {
            return false;
        }
        let state = match end {
            _ if row.state == NodeState::Skipping => NodeState::Passed,
            End::Succeeded => NodeState::Succeeded,
            End::Failed => NodeState::Failed,
            End::Cancelled => NodeState::Cancelled,
        };
        let order = (state == NodeState::Succeeded).then(|| self.next_order());
        self.put(key, NodeRow { state, order, is_made: true, ..row });
        if key.role == Role::Action && state.is_failure() {
            self.failed(graph, key.node);
        }
        true
    }

    fn next_order(&mut self) -> u64 {
        self.completed += 1;
        self.completed
    }

    /// A node, or an item of one, has failed.
    fn failed(&mut self, graph: &Graph, node: u32) {
        let on_failure = graph.rules(node).map(|rule| rule.on_failure);
        if on_failure == Some(OnFailure::Fail) && self.ending.is_none() {
            self.ending = Some(Ending::Failed);
        }
    }

    /// Draws conclusions from the rows: fan-outs that have ended, joins that can no longer hold. Returns the
    /// nodes whose join holds; the caller decides them, and calls this again.
    pub fn settle(&mut self, graph: &Graph) -> Vec<u32> {
        self.gather(graph);
        if self.state != WorkflowState::Running || self.ending.is_some() {
            return Vec::new();
        }
        let mut ready = Vec::new();
        for node in graph.order() {
            if self.state_of(*node) != NodeState::Blocked {
                continue;
            }
            match self.joined(graph, *node) {
                Some(true) => ready.push(*node),
                Some(false) => self.set(*node, NodeState::Skipped),
                None => {}
            }
        }
        ready
    }

    /// True if a node's join holds. `None` if that is undecided.
    fn joined(&self, graph: &Graph, node: u32) -> Option<bool> {
        let rules = graph.rules(node)?;
        let (mut held, mut waiting) = (0, 0);
        for parent in &rules.parents {
            let goes_on = graph.rules(*parent).is_some_and(|rules| rules.on_failure == OnFailure::Continue);
            match self.state_of(*parent) {
                state if !state.has_ended() => waiting += 1,
                NodeState::Succeeded | NodeState::Passed => held += 1,
                NodeState::Failed | NodeState::Cancelled if goes_on => held += 1,
                _ => {}
            }
        }
        match () {
            () if held >= rules.need => Some(true),
            () if held + waiting < rules.need => Some(false),
            () => None,
        }
    }

    fn set(&mut self, node: u32, state: NodeState) {
        let key = NodeKey::node(node);
        let row = self.rows.get(&key).copied().unwrap_or_default();
        let order = (state == NodeState::Succeeded).then(|| self.next_order());
        self.put(key, NodeRow { state, order, ..row });
    }

    /// Fan-outs all of whose items have ended.
    fn gather(&mut self, graph: &Graph) {
        let fanned = |pair: (&NodeKey, &NodeRow)| {
            (pair.1.items.is_some() && pair.1.state.is_open()).then_some(pair.0.node)
        };
        let fanned: Vec<u32> = self.rows.iter().filter_map(fanned).collect();
        for node in fanned {
            let has = |state| self.items(node).any(|pair| pair.1.state == state);
            let all = match () {
                () if has(NodeState::Failed) => NodeState::Failed,
                () if has(NodeState::Cancelled) => NodeState::Cancelled,
                () => NodeState::Succeeded,
            };
            let is_over = self.items(node).all(|pair| pair.1.state.has_ended());
            if is_over {
                let is_skipped = self.state_of(node) == NodeState::Skipping;
                self.set(node, if is_skipped { NodeState::Passed } else { all });
                if !is_skipped && all.is_failure() {
                    self.failed(graph, node);
                }
            }
        }
    }

    /// The items of a fan-out, in order.
    pub fn items(&self, node: u32) -> impl Iterator<Item = (&NodeKey, &NodeRow)> {
        let (first, last) = (NodeKey::item(node, 0), NodeKey::item(node, u32::MAX));
        self.rows.range(first..=last).filter(|row| row.0.role == Role::Action)
    }

    /// Applies the decision on a node whose join holds; does nothing if the workflow is ending.
    pub fn decide(&mut self, graph: &Graph, node: u32, decision: Decision) {
        if self.ending.is_some() {
            return;
        }
        let key = NodeKey::node(node);
        let attempt = self.rows.get(&key).map_or(1, |row| row.attempt.max(1));
        let open = NodeRow { state: NodeState::Open, attempt, ..NodeRow::default() };
        match decision {
            Decision::Run => self.put(key, open),
            Decision::Each(0) => {
                self.put(key, NodeRow { items: Some(0), ..open });
                self.set(node, NodeState::Succeeded);
            }
            Decision::Each(items) => {
                self.put(key, NodeRow { items: Some(items), ..open });
                for item in 0..items {
                    self.put(NodeKey::item(node, item), open);
                }
            }
            Decision::Skip => self.set(node, NodeState::Skipped),
            Decision::Fail => {
                self.put(key, NodeRow { state: NodeState::Failed, ..open });
                self.failed(graph, node);
            }
        }
    }

    /// Prevents the start of further nodes. Returns false if the workflow is already ending, or has ended.
    pub fn ending(&mut self, ending: Ending) -> bool {
        let begins = self.state == WorkflowState::Running && self.ending.is_none();
        if begins {
            self.ending = Some(ending);
        }
        begins
    }

    /// Continues from failed nodes, with a new attempt of each.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn retry(&mut self, graph: &Graph) -> Result<(), Refused> {
        match self.state {
            WorkflowState::Failed | WorkflowState::Cancelled => {}
            WorkflowState::Running | WorkflowState::Compensating => return Err(Refused::Running),
            WorkflowState::Succeeded => return Err(Refused::Finished),
            WorkflowState::Compensated => return Err(Refused::Undone),
        }
        if self.rows.keys().any(|key| key.role == Role::Compensation) {
            return Err(Refused::Undone);
        }
        let again: Vec<(NodeKey, NodeRow)> =
            self.rows.iter().filter_map(|(key, row)| Some((*key, self.again(graph, *key, *row)?))).collect();
        for (key, row) in again {
            self.put(key, row);
        }
        (self.state, self.ending) = (WorkflowState::Running, None);
        Ok(())
    }

    /// Returns `None` if the row stays as it is. If a failed node has `Continue`, the branch that followed it stays.
    fn again(&self, graph: &Graph, key: NodeKey, row: NodeRow) -> Option<NodeRow> {
        let goes_on = || graph.rules(key.node).is_some_and(|rules| rules.on_failure == OnFailure::Continue);
        let node_failed = match self.state_of(key.node) {
            // Because the workflow ended.
            NodeState::Cancelled => true,
            NodeState::Failed => !goes_on(),
            _ => false,
        };
        match row.state {
            NodeState::Skipped => Some(NodeRow { state: NodeState::Blocked, ..row }),
            _ if !node_failed || !row.state.is_failure() => None,
            // Its items are.
            _ if row.items.is_some() => Some(NodeRow { state: NodeState::Open, order: None, ..row }),
            _ => {
                let state = if key.item.is_some() { NodeState::Open } else { NodeState::Blocked };
                Some(NodeRow { state, attempt: row.attempt + 1, is_made: false, order: None, ..row })
            }
        }
    }

    /// A node counts as done; its running tasks are stopped, and then it is skipped.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn skip(&mut self, node: u32) -> Result<(), Refused> {
        let state = self.state_of(node);
        match self.state {
            WorkflowState::Running if self.ending.is_none() => {}
            // Before a retry.
            WorkflowState::Failed | WorkflowState::Cancelled
                if state.is_failure() || state == NodeState::Blocked => {}
            _ => return Err(Refused::Finished),
        }
        match state {
            NodeState::Blocked => self.set(node, NodeState::Passed),
            NodeState::Open => {
                let rows = [NodeKey::node(node)].into_iter().chain(self.items(node).map(|pair| *pair.0));
                let open: Vec<NodeKey> = rows.collect();
                for key in open {
                    if let Some(row) = self.rows.get(&key).copied().filter(|row| row.state == NodeState::Open)
                    {
                        self.put(key, NodeRow { state: NodeState::Skipping, ..row });
                    }
                }
            }
            state if state.is_failure() && self.state != WorkflowState::Running => {
                self.set(node, NodeState::Passed)
            }
            NodeState::Skipping => {}
            _ => return Err(Refused::Ended),
        }
        Ok(())
    }

    /// Rows whose tasks must be stopped.
    #[must_use]
    pub fn stopping(&self) -> Vec<NodeKey> {
        let ends = self.ending.is_some() && self.state == WorkflowState::Running;
        let stops = |pair: &(&NodeKey, &NodeRow)| ends || pair.1.state == NodeState::Skipping;
        self.open().filter(stops).map(|pair| *pair.0).collect()
    }
}

impl Join {
    /// The displayed form of the join.
    #[must_use]
    pub fn word(self) -> String {
        match self {
            Self::All => "all".to_owned(),
            Self::Any => "any".to_owned(),
            Self::AtLeast(need) => format!("at least {need}"),
        }
    }
}
