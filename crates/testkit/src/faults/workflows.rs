//! A store of workflows with two dials, with unreadable workflows, and with a race that every caller loses.

use super::Faults;
use crate::decorators::{methods_of, names::*};
use parking_lot::Mutex;
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
    /// Another caller is always faster.
    pub is_contended: AtomicBool,
}

impl FaultyWorkflows {
    #[must_use]
    pub fn new(inner: Arc<dyn WorkflowStore>, seed: u64) -> Self {
        let (unreadable, is_contended) = Default::default();
        Self { inner, faults: Faults::seeded(seed), unreadable, is_contended }
    }

    fn inner(&self) -> &dyn WorkflowStore {
        &*self.inner
    }
}

methods_of! { EvaluationStore passes(inner) FaultyWorkflows {} }

methods_of! { IdentityStore fails(run WorkflowGroup) FaultyWorkflows {} }

methods_of! { WorkflowStore fails(run WorkflowGroup) FaultyWorkflows {
    async fn node_rows(&self, id: WorkflowId) -> Result<Vec<StoredNode>, Error> {
        if self.unreadable.lock().contains(&id) {
            return Err(Error::did_not_happen("read the nodes of a workflow", "they cannot be read"));
        }
        self.faults.run(WorkflowGroup::Read, "read nodes", self.inner.node_rows(id)).await
    }

    async fn advance_workflow(&self, advance: AdvanceWorkflow, now: Millis) -> Result<Applied, Error> {
        if self.is_contended.load(Relaxed) {
            return Ok(Applied::Lost);
        }
        let call = self.inner.advance_workflow(advance, now);
        self.faults.run(WorkflowGroup::Write, "move a workflow on", call).await
    }
} }
