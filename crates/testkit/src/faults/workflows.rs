//! A store of workflows with two dials, with workflows that cannot be read, and with a contest that nobody wins.

use super::Faults;
use async_trait::async_trait;
use parking_lot::Mutex;
use punctual_contract::{
    Error, IdentityStore, WorkflowStore,
    store::Applied,
    workflows::{
        AdvanceWorkflow, CreatedWorkflow, MadeNode, NewWorkflow, NodeContent, StoredDefinition, StoredNode,
        StoredWorkflow, WorkflowId, WorkflowMark, WorkflowQuery,
    },
};
use punctual_domain::{identity::IdentitySecret, time::Millis};
use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkflowGroup {
    Read,
    Write,
    Mark,
    Unmark,
}

#[derive(Debug)]
pub struct FaultyWorkflows {
    inner: Arc<dyn WorkflowStore>,
    pub faults: Faults<WorkflowGroup>,
    /// Nodes of these cannot be read.
    pub unreadable: Mutex<HashSet<WorkflowId>>,
    /// Somebody else is always faster.
    pub is_contended: AtomicBool,
}

impl FaultyWorkflows {
    #[must_use]
    pub fn new(inner: Arc<dyn WorkflowStore>, seed: u64) -> Self {
        let (unreadable, is_contended) = Default::default();
        Self { inner, faults: Faults::seeded(seed), unreadable, is_contended }
    }
}

crate::evaluations::passes_evaluations_on!(FaultyWorkflows);

#[async_trait]
impl IdentityStore for FaultyWorkflows {
    async fn identity_secret(&self, offered: IdentitySecret) -> Result<IdentitySecret, Error> {
        let call = self.inner.identity_secret(offered);
        self.faults.run(WorkflowGroup::Write, "keep the secret of ids", call).await
    }
}

#[async_trait]
impl WorkflowStore for FaultyWorkflows {
    async fn create_workflow(&self, new: NewWorkflow, now: Millis) -> Result<CreatedWorkflow, Error> {
        let call = self.inner.create_workflow(new, now);
        self.faults.run(WorkflowGroup::Write, "create a workflow", call).await
    }

    async fn workflow(&self, id: WorkflowId) -> Result<Option<StoredWorkflow>, Error> {
        self.faults.run(WorkflowGroup::Read, "read a workflow", self.inner.workflow(id)).await
    }

    async fn definition(&self, id: i64) -> Result<Option<StoredDefinition>, Error> {
        self.faults.run(WorkflowGroup::Read, "read a document", self.inner.definition(id)).await
    }

    async fn workflows(&self, query: &WorkflowQuery) -> Result<Vec<StoredWorkflow>, Error> {
        self.faults.run(WorkflowGroup::Read, "list workflows", self.inner.workflows(query)).await
    }

    async fn node_rows(&self, id: WorkflowId) -> Result<Vec<StoredNode>, Error> {
        if self.unreadable.lock().contains(&id) {
            return Err(Error::did_not_happen("read the nodes of a workflow", "they cannot be read"));
        }
        self.faults.run(WorkflowGroup::Read, "read nodes", self.inner.node_rows(id)).await
    }

    async fn node_contents(&self, id: WorkflowId, nodes: Vec<u32>) -> Result<Vec<NodeContent>, Error> {
        let call = self.inner.node_contents(id, nodes);
        self.faults.run(WorkflowGroup::Read, "read what nodes carry", call).await
    }

    async fn advance_workflow(&self, advance: AdvanceWorkflow, now: Millis) -> Result<Applied, Error> {
        if self.is_contended.load(Relaxed) {
            return Ok(Applied::Lost);
        }
        let call = self.inner.advance_workflow(advance, now);
        self.faults.run(WorkflowGroup::Write, "move a workflow on", call).await
    }

    async fn nodes_made(&self, id: WorkflowId, made: Vec<MadeNode>) -> Result<(), Error> {
        let call = self.inner.nodes_made(id, made);
        self.faults.run(WorkflowGroup::Write, "note tasks", call).await
    }

    async fn due_workflows(
        &self,
        slots: u32,
        now: Millis,
        limit: usize,
    ) -> Result<Vec<StoredWorkflow>, Error> {
        let call = self.inner.due_workflows(slots, now, limit);
        self.faults.run(WorkflowGroup::Read, "look for due workflows", call).await
    }

    async fn next_workflow_wake(&self) -> Result<Option<Millis>, Error> {
        let call = self.inner.next_workflow_wake();
        self.faults.run(WorkflowGroup::Read, "look for the next workflow", call).await
    }

    async fn mark_workflows(&self, marks: Vec<WorkflowMark>, now: Millis) -> Result<(), Error> {
        let call = self.inner.mark_workflows(marks, now);
        self.faults.run(WorkflowGroup::Mark, "mark workflows", call).await
    }

    async fn marked_workflows(
        &self,
        slots: u32,
        before: Millis,
        limit: usize,
    ) -> Result<Vec<WorkflowMark>, Error> {
        let call = self.inner.marked_workflows(slots, before, limit);
        self.faults.run(WorkflowGroup::Read, "look for marks", call).await
    }

    async fn unmark_workflows(&self, ids: Vec<i64>) -> Result<(), Error> {
        let call = self.inner.unmark_workflows(ids);
        self.faults.run(WorkflowGroup::Unmark, "unmark workflows", call).await
    }

    async fn forget_workflows(&self, finished_before: Millis, limit: usize) -> Result<usize, Error> {
        let call = self.inner.forget_workflows(finished_before, limit);
        self.faults.run(WorkflowGroup::Write, "forget workflows", call).await
    }
}
