//! A store of workflows, as far as a life goes.

use super::Mortal;
use async_trait::async_trait;
use punctual_contract::{
    Error, IdentityStore, WorkflowStore,
    store::Applied,
    workflows::{
        AdvanceWorkflow, CreatedWorkflow, MadeNode, NewWorkflow, NodeContent, StoredDefinition, StoredNode,
        StoredWorkflow, WorkflowId, WorkflowMark, WorkflowQuery,
    },
};
use punctual_domain::{identity::IdentitySecret, time::Millis};

crate::evaluations::leaves_evaluations_out!(Mortal<dyn WorkflowStore>);

#[async_trait]
impl IdentityStore for Mortal<dyn WorkflowStore> {
    async fn identity_secret(&self, offered: IdentitySecret) -> Result<IdentitySecret, Error> {
        self.life.call(self.inner.identity_secret(offered)).await
    }
}

#[async_trait]
impl WorkflowStore for Mortal<dyn WorkflowStore> {
    async fn create_workflow(&self, new: NewWorkflow, now: Millis) -> Result<CreatedWorkflow, Error> {
        self.life.call(self.inner.create_workflow(new, now)).await
    }
    async fn workflow(&self, id: WorkflowId) -> Result<Option<StoredWorkflow>, Error> {
        self.life.call(self.inner.workflow(id)).await
    }
    async fn definition(&self, id: i64) -> Result<Option<StoredDefinition>, Error> {
        self.life.call(self.inner.definition(id)).await
    }
    async fn workflows(&self, query: &WorkflowQuery) -> Result<Vec<StoredWorkflow>, Error> {
        self.life.call(self.inner.workflows(query)).await
    }
    async fn node_rows(&self, id: WorkflowId) -> Result<Vec<StoredNode>, Error> {
        self.life.call(self.inner.node_rows(id)).await
    }
    async fn node_contents(&self, id: WorkflowId, nodes: Vec<u32>) -> Result<Vec<NodeContent>, Error> {
        self.life.call(self.inner.node_contents(id, nodes)).await
    }
    async fn advance_workflow(&self, advance: AdvanceWorkflow, now: Millis) -> Result<Applied, Error> {
        self.life.call(self.inner.advance_workflow(advance, now)).await
    }
    async fn nodes_made(&self, id: WorkflowId, made: Vec<MadeNode>) -> Result<(), Error> {
        self.life.call(self.inner.nodes_made(id, made)).await
    }
    async fn due_workflows(
        &self,
        slots: u32,
        now: Millis,
        limit: usize,
    ) -> Result<Vec<StoredWorkflow>, Error> {
        self.life.call(self.inner.due_workflows(slots, now, limit)).await
    }
    async fn next_workflow_wake(&self) -> Result<Option<Millis>, Error> {
        self.life.call(self.inner.next_workflow_wake()).await
    }
    async fn mark_workflows(&self, marks: Vec<WorkflowMark>, now: Millis) -> Result<(), Error> {
        self.life.call(self.inner.mark_workflows(marks, now)).await
    }
    async fn marked_workflows(
        &self,
        slots: u32,
        before: Millis,
        limit: usize,
    ) -> Result<Vec<WorkflowMark>, Error> {
        self.life.call(self.inner.marked_workflows(slots, before, limit)).await
    }
    async fn unmark_workflows(&self, ids: Vec<i64>) -> Result<(), Error> {
        self.life.call(self.inner.unmark_workflows(ids)).await
    }
    async fn forget_workflows(&self, finished_before: Millis, limit: usize) -> Result<usize, Error> {
        self.life.call(self.inner.forget_workflows(finished_before, limit)).await
    }
}
