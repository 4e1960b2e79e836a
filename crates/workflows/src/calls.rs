//! Users' requests about workflows: to start, show and cancel them, and to continue after a failure.

use crate::{
    Error, Plan, Runner,
    advance::{Command, MovedRows, StepRequest},
    evaluate,
    plan::PAYLOAD_MAX_BYTES,
    values,
};
use punctual_contract::workflows::{
    NewWorkflow, NodeContent, StoredNode, StoredWorkflow, WorkflowId, WorkflowQuery,
};
use punctual_domain::{
    name::Name,
    workflow::{Definition, Invalid, Progress, Run, fingerprint},
};
use std::sync::Arc;

/// Results are included for workflows with up to this many rows and bytes.
const REPORTED_MAX: usize = 2_000;
const REPORTED_MAX_BYTES: usize = 16 << 20;

/// A new workflow.
#[derive(Clone, Debug)]
pub struct Submission {
    pub namespace: Name,
    pub definition: Arc<Definition>,
    /// JSON text.
    pub input: String,
    /// Two submissions with the same key make one workflow. Any length.
    pub key: Option<String>,
    pub by: String,
}

/// A workflow with its nodes.
#[derive(Clone, Debug)]
pub struct View {
    pub stored: StoredWorkflow,
    pub plan: Arc<Plan>,
    /// A node without a row is blocked.
    pub nodes: Vec<StoredNode>,
    /// `None` if there are too many.
    pub contents: Option<Vec<NodeContent>>,
}

impl View {
    /// The domain's view of the run.
    #[must_use]
    pub fn run(&self) -> Run {
        let rows = self.nodes.iter().map(|node| (node.key, node.row)).collect();
        let progress = &self.stored.progress;
        Run::of(self.stored.state, progress.ending, progress.completed, rows)
    }
}

impl Runner {
    /// Checks a document.
    ///
    /// # Errors
    /// [`Error::Invalid`], with the path to the mistake; [`Error::Busy`].
    pub async fn check(&self, namespace: &Name, definition: &Arc<Definition>) -> Result<Plan, Error> {
        let definition = Arc::clone(definition);
        Ok(evaluate::for_request(self.inner.options.pool, namespace, |_| Plan::of(definition)).await??)
    }

    /// Stores a workflow, and begins it. False if its key was there.
    ///
    /// # Errors
    /// [`Error::Invalid`], a failing store.
    pub async fn create(&self, asked: Submission) -> Result<(StoredWorkflow, bool), Error> {
        if asked.input.len() > PAYLOAD_MAX_BYTES {
            let problem = format!(
                "has {} bytes, and may have at most {PAYLOAD_MAX_BYTES}: keep it elsewhere, and send its key",
                asked.input.len()
            );
            return Err(Invalid { field: "input".to_owned(), problem }.into());
        }
        self.check(&asked.namespace, &asked.definition).await?;
        let inner = &self.inner;
        let now = inner.engine.now();
        let deadline_at = asked.definition.deadline_ms.map(|deadline_ms| now.plus(deadline_ms));
        let new = NewWorkflow {
            namespace: asked.namespace,
            definition: asked.definition,
            input: asked.input,
            key: asked.key.map(|key| fingerprint(&key)),
            progress: Progress { deadline_at, is_keyed: true, ..Progress::default() },
            wake_at: Some(now.plus(inner.options.first_look_ms)),
            by: asked.by,
        };
        let created = inner.store.create_workflow(new, now).await?;
        if created.is_new
            && let Err(error) = inner.advance(created.workflow.id, StepRequest::default()).await
        {
            let workflow = created.workflow.id;
            tracing::warn!(%workflow, %error, "a workflow could not be begun; it is looked at again");
        }
        Ok((created.workflow, created.is_new))
    }

    /// Reads a workflow of this namespace.
    ///
    /// # Errors
    /// [`Error::NotFound`], a failing store.
    pub async fn get(&self, namespace: &Name, id: WorkflowId) -> Result<(StoredWorkflow, Arc<Plan>), Error> {
        let found = self.inner.store.workflow(id).await?;
        let stored = found.filter(|workflow| workflow.namespace == *namespace).ok_or(Error::NotFound)?;
        let plan = self.inner.plan(&stored.namespace, stored.definition).await?.ok_or(Error::NotFound)?;
        Ok((stored, plan))
    }

    /// Reads a workflow with all known facts of its nodes.
    ///
    /// # Errors
    /// Fails like [`Runner::get`].
    pub async fn view(&self, namespace: &Name, id: WorkflowId) -> Result<View, Error> {
        let (stored, plan) = self.get(namespace, id).await?;
        let nodes = self.inner.store.node_rows(id).await?;
        let contents = if nodes.len() > REPORTED_MAX {
            None
        } else {
            let mut with_rows: Vec<u32> = nodes.iter().map(|node| node.key.node).collect();
            with_rows.sort_unstable();
            with_rows.dedup();
            values::at_most(&self.inner, id, &with_rows, REPORTED_MAX_BYTES).await?
        };
        Ok(View { stored, plan, nodes, contents })
    }

    /// Newest first.
    ///
    /// # Errors
    /// A failing store.
    pub async fn list(&self, query: &WorkflowQuery) -> Result<Vec<(StoredWorkflow, Arc<Plan>)>, Error> {
        let mut all = Vec::new();
        for stored in self.inner.store.workflows(query).await? {
            // One that was forgotten meanwhile.
            if let Some(plan) = self.inner.plan(&stored.namespace, stored.definition).await? {
                all.push((stored, plan));
            }
        }
        Ok(all)
    }

    /// Cancels a workflow. No further node begins; unstarted tasks are cancelled, and executors are requested to
    /// stop. Then completed work is undone.
    ///
    /// # Errors
    /// [`Error::Refused`] if it has ended, or a failing store.
    pub async fn cancel(&self, id: WorkflowId, reason: &str) -> Result<MovedRows, Error> {
        let reason = reason.to_owned();
        self.inner.carry_out(id, Command::Cancel { reason }).await
    }

    /// Continues from failed nodes.
    ///
    /// # Errors
    /// Fails like [`Runner::cancel`].
    pub async fn retry(&self, id: WorkflowId) -> Result<MovedRows, Error> {
        self.inner.carry_out(id, Command::Retry).await
    }

    /// Marks a node as done.
    ///
    /// # Errors
    /// [`Error::NoSuchNode`]; as [`Runner::cancel`].
    pub async fn skip(&self, id: WorkflowId, plan: &Plan, node: &Name) -> Result<MovedRows, Error> {
        let node = plan.graph.number(node).ok_or(Error::NoSuchNode)?;
        self.inner.carry_out(id, Command::Skip { node }).await
    }
}
