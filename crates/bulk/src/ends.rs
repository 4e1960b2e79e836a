//! Ends of workflow tasks by an operation: each workflow is marked before the batch, and notified after it, so that
//! it continues immediately. If this engine dies between the two, the mark leads to an early check. Must not decide
//! how a task or a workflow ends.

use crate::state::RunnerState;
use punctual_contract::{Error as BackendError, workflows::WorkflowId};
use punctual_domain::{bulk::Action, place::TaskRef, task::Task};
use punctual_workflows::{Expected, workflow_of};
use std::collections::BTreeMap;

/// The tasks of one batch that are of workflows.
#[derive(Debug)]
pub(crate) struct Ends {
    expected: Option<Expected>,
    workflows: BTreeMap<TaskRef, WorkflowId>,
    ended: Vec<TaskRef>,
}

impl Ends {
    pub(crate) async fn expected(
        inner: &RunnerState,
        action: &Action,
        read: &[Result<Option<Task>, BackendError>],
    ) -> Self {
        let workflows: BTreeMap<TaskRef, WorkflowId> = match action {
            Action::Cancel { .. } | Action::Bury => read.iter().filter_map(of_workflow).collect(),
            // These end no task.
            Action::Reschedule(_)
            | Action::SetPriority { .. }
            | Action::SetQueue { .. }
            | Action::RunNow
            | Action::Redrive
            | Action::Export
            | Action::Delete => BTreeMap::new(),
        };
        let expected = match inner.workflows.as_ref().filter(|_| !workflows.is_empty()) {
            Some(runner) => Some(runner.expect(workflows.values().copied()).await),
            None => None,
        };
        Self { expected, workflows, ended: Vec::new() }
    }

    /// It has ended.
    pub(crate) fn ended(&mut self, task: TaskRef) {
        if self.expected.is_some() && self.workflows.contains_key(&task) {
            self.ended.push(task);
        }
    }

    pub(crate) fn report(self) {
        let Self { expected, workflows, ended } = self;
        if let Some(expected) = expected {
            expected.ended(ended.into_iter().map(|place| (workflows.get(&place).copied(), place)));
        }
    }
}

fn of_workflow(read: &Result<Option<Task>, BackendError>) -> Option<(TaskRef, WorkflowId)> {
    let task = read.as_ref().ok()?.as_ref()?;
    Some((task.place, workflow_of(task)?))
}
