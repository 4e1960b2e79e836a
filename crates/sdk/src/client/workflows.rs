//! The calls about workflows.

use bytes::Bytes;
use punctual_protocol::{
    CancelWorkflow, CreateWorkflow, GraphFormat, Json, Page, RerunWorkflow, Workflow, WorkflowGraph,
    WorkflowState, headers,
};
use reqwest::Method;
use std::time::Duration;

use super::tasks::{body, new_key, segment};
use super::{Client, Repeat};
use crate::error::Error;

/// The first and the longest pause between two polls of [`Client::workflow_ended`].
const FIRST_LOOK: Duration = Duration::from_millis(20);
const LONGEST_LOOK: Duration = Duration::from_secs(2);

impl Client {
    /// Begins a workflow. Repeated under one `Idempotency-Key`: it begins once.
    pub async fn create_workflow(&self, workflow: &CreateWorkflow) -> Result<Workflow, Error> {
        workflow.check()?;
        self.begin("/v1/workflows".to_owned(), body(workflow)?).await
    }

    async fn begin(&self, path: String, body: Bytes) -> Result<Workflow, Error> {
        let mut call = self.new_call(Method::POST, path, body);
        call.headers.push((headers::IDEMPOTENCY_KEY, new_key()));
        self.call(call, Repeat::Safe).await
    }

    /// One workflow with its nodes.
    pub async fn workflow(&self, workflow_ref: &str) -> Result<Workflow, Error> {
        self.fetch(path(workflow_ref, "")).await
    }

    /// Waits until a workflow is over.
    pub async fn workflow_ended(&self, workflow_ref: &str) -> Result<Workflow, Error> {
        let mut pause = FIRST_LOOK;
        loop {
            let workflow = self.workflow(workflow_ref).await?;
            if workflow.state.is_finished() {
                return Ok(workflow);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_LOOK);
        }
    }

    /// A page of the workflows of the namespace, newest first, without their nodes.
    pub async fn workflows(
        &self,
        name: Option<&str>,
        state: Option<WorkflowState>,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<Page<Workflow>, Error> {
        let name = name.map(|name| format!("&name={}", segment(name))).unwrap_or_default();
        let word = state.and_then(|state| serde_json::to_value(state).ok());
        let state = word.as_ref().and_then(|word| word.as_str()).map(|word| format!("&state={word}"));
        let cursor = cursor.map(|cursor| format!("&cursor={}", segment(cursor))).unwrap_or_default();
        self.fetch(format!("/v1/workflows?limit={limit}{name}{}{cursor}", state.unwrap_or_default())).await
    }

    /// Cancels a workflow. No further node begins; completed work is undone.
    pub async fn cancel_workflow(&self, workflow_ref: &str, reason: Option<&str>) -> Result<Workflow, Error> {
        let request = CancelWorkflow { reason: reason.map(str::to_owned) };
        self.post(path(workflow_ref, "/cancel"), body(&request)?, Repeat::IfNotDone).await
    }

    /// Continues from failed nodes.
    pub async fn retry_workflow(&self, workflow_ref: &str) -> Result<Workflow, Error> {
        self.post(path(workflow_ref, "/retry"), Bytes::new(), Repeat::IfNotDone).await
    }

    /// Marks a node as done.
    pub async fn skip_node(&self, workflow_ref: &str, node: &str) -> Result<Workflow, Error> {
        self.post(
            path(workflow_ref, &format!("/nodes/{}/skip", segment(node))),
            Bytes::new(),
            Repeat::IfNotDone,
        )
        .await
    }

    /// Begins a copy; with the same input, unless another is given. Repeated under one `Idempotency-Key`.
    pub async fn rerun_workflow(&self, workflow_ref: &str, input: Option<Json>) -> Result<Workflow, Error> {
        self.begin(path(workflow_ref, "/rerun"), body(&RerunWorkflow { input })?).await
    }

    /// A workflow as a text that Mermaid or Graphviz draw.
    pub async fn workflow_drawing(&self, workflow_ref: &str, format: GraphFormat) -> Result<String, Error> {
        let word = if format == GraphFormat::Dot { "dot" } else { "mermaid" };
        self.text(path(workflow_ref, &format!("/graph?format={word}"))).await
    }

    /// A workflow as nodes and edges.
    pub async fn workflow_graph(&self, workflow_ref: &str) -> Result<WorkflowGraph, Error> {
        self.fetch(path(workflow_ref, "/graph?format=json")).await
    }
}

fn path(workflow_ref: &str, tail: &str) -> String {
    format!("/v1/workflows/{}{tail}", segment(workflow_ref))
}
