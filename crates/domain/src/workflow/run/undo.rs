//! The end of a workflow: when all nodes have ended; or, if it fails or is cancelled, when no task runs any
//! more and the completed work is undone in reverse order, one after the other.

use super::{Ending, NodeKey, NodeRow, NodeState, Role, Run, WorkflowState};
use crate::workflow::Graph;

impl Run {
    /// Finishes the workflow as far as its rows allow; the next compensations to make are open afterwards.
    pub fn finish(&mut self, graph: &Graph) {
        if self.state.is_finished() {
            return;
        }
        let Some(ending) = self.ending else {
            let mut nodes = 0..u32::try_from(graph.len()).unwrap_or(u32::MAX);
            if nodes.all(|node| self.state_of(node).has_ended()) {
                self.state = WorkflowState::Succeeded;
            }
            return;
        };
        if self.open().any(|pair| pair.0.role == Role::Action) {
            return;
        }
        self.undo(graph, ending);
    }

    /// True if the workflow still waits for something, and every row belongs to one of its nodes. The check runs
    /// after all consequences of the rows were applied: a workflow that fails it would wait forever.
    #[must_use]
    pub fn adds_up(&self, graph: &Graph) -> bool {
        let nodes = u32::try_from(graph.len()).unwrap_or(u32::MAX);
        let waits = self.open().next().is_some();
        let whole = self.rows().iter().all(|(key, row)| {
            let items = || u32::try_from(self.items(key.node).count()).ok();
            let is_fan_out = key.item.is_none() && key.role == Role::Action;
            key.node < nodes && (!is_fan_out || row.items.is_none_or(|number| items() == Some(number)))
        });
        whole && waits != self.state.is_finished()
    }

    fn undo(&mut self, graph: &Graph, ending: Ending) {
        let undone = |pair: &(&NodeKey, &NodeRow)| {
            pair.0.role == Role::Action
                && pair.1.state == NodeState::Succeeded
                && pair.1.items.is_none()
                && graph.rules(pair.0.node).is_some_and(|rules| rules.compensates)
        };
        let mut done: Vec<(Option<u64>, NodeKey)> =
            self.rows().iter().filter(undone).map(|row| (row.1.order, *row.0)).collect();
        done.sort_unstable_by(|a, b| b.cmp(a));
        let mut all_undone = true;
        for key in done.iter().map(|pair| pair.1.undoing()) {
            match self.row(&key).map(|row| row.state) {
                None => {
                    self.state = WorkflowState::Compensating;
                    let row = NodeRow { state: NodeState::Open, attempt: 1, ..NodeRow::default() };
                    return self.put(key, row);
                }
                Some(state) if state.is_open() => return,
                Some(state) => all_undone &= state == NodeState::Succeeded,
            }
        }
        self.state = match (done.is_empty(), all_undone, ending) {
            (false, true, _) => WorkflowState::Compensated,
            (false, false, _) | (true, _, Ending::Failed) => WorkflowState::Failed,
            (true, _, Ending::Cancelled) => WorkflowState::Cancelled,
        };
    }
}
