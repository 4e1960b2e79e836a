//! Workflows: their documents, progress, and the rows of their nodes. Durable; knows tasks only by their
//! references, and decides nothing: the domain does.

use crate::{
    error::Error, evaluations::EvaluationStore, identity::IdentityStore, schedules::SLOTS, store::Applied,
};
use async_trait::async_trait;
use punctual_domain::{
    name::Name,
    time::Millis,
    workflow::{Definition, NodeKey, NodeRow, Progress, WorkflowState},
};
use std::{fmt, str::FromStr, sync::Arc};

/// Promises, for every method:
/// - **Durable.** `Ok` means committed, and synced to the medium.
/// - **Complete.** A unit of work runs to its end whatever happens to the caller.
/// - **Compared.** An advance names the `step` that it was decided on, and increments it: of two that were
///   decided on the same step, one is applied with all its rows, and the other gets `Lost` and has changed
///   nothing.
/// - **Once.** Of two creations with the same key in one namespace, the second finds the first one's
///   workflow.
/// - **Its version.** A workflow keeps the document that it was created with, whatever is later created under
///   its name.
/// - **Only what is due.** The cost of `due_workflows` and of `marked_workflows` grows with their result, not
///   with the number of workflows.
#[async_trait]
pub trait WorkflowStore: IdentityStore + EvaluationStore {
    /// Stores a workflow that begins. Its document gets the version that the same document has under that name, or the next.
    async fn create_workflow(&self, new: NewWorkflow, now: Millis) -> Result<CreatedWorkflow, Error>;

    async fn workflow(&self, id: WorkflowId) -> Result<Option<StoredWorkflow>, Error>;

    async fn definition(&self, id: i64) -> Result<Option<StoredDefinition>, Error>;

    /// Newest first. Bounded.
    async fn workflows(&self, query: &WorkflowQuery) -> Result<Vec<StoredWorkflow>, Error>;

    /// All rows of a workflow, without their contents.
    async fn node_rows(&self, id: WorkflowId) -> Result<Vec<StoredNode>, Error>;

    /// The contents of these nodes' rows: all of them, including items.
    async fn node_contents(&self, id: WorkflowId, nodes: Vec<u32>) -> Result<Vec<NodeContent>, Error>;

    /// Moves a workflow on, with its rows.
    async fn advance_workflow(&self, advance: AdvanceWorkflow, now: Millis) -> Result<Applied, Error>;

    /// The tasks of these rows exist. Rows that have another attempt by now, or a reference, are unchanged.
    async fn nodes_made(&self, id: WorkflowId, made: Vec<MadeNode>) -> Result<(), Error>;

    /// Returns the workflows whose `wake_at` has passed, the longest ago first, at most `limit`. `slots` has bit n
    /// for slot n.
    async fn due_workflows(
        &self,
        slots: u32,
        now: Millis,
        limit: usize,
    ) -> Result<Vec<StoredWorkflow>, Error>;

    /// The earliest `wake_at` of all.
    async fn next_workflow_wake(&self) -> Result<Option<Millis>, Error>;

    /// Marks these workflows before something of them ends that only the marking engine will know.
    async fn mark_workflows(&self, marks: Vec<WorkflowMark>, now: Millis) -> Result<(), Error>;

    /// Returns marks that were made before an instant, the oldest first, at most `limit`. `slots` has bit n for slot
    /// n.
    async fn marked_workflows(
        &self,
        slots: u32,
        before: Millis,
        limit: usize,
    ) -> Result<Vec<WorkflowMark>, Error>;

    /// Deletes marks, by their ids.
    async fn unmark_workflows(&self, ids: Vec<i64>) -> Result<(), Error>;

    /// Deletes workflows that ended before an instant, with their rows, and unreferenced documents, in one
    /// bounded batch. Returns the number of workflows.
    async fn forget_workflows(&self, finished_before: Millis, limit: usize) -> Result<usize, Error>;
}

/// Never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkflowId(pub i64);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a reference of a workflow")]
pub struct NoWorkflowRef;

impl fmt::Display for WorkflowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "w{}", self.0)
    }
}

impl FromStr for WorkflowId {
    type Err = NoWorkflowRef;
    fn from_str(text: &str) -> Result<Self, NoWorkflowRef> {
        let digits = text.strip_prefix('w').ok_or(NoWorkflowRef)?;
        let id = Self(digits.parse().map_err(|_| NoWorkflowRef)?);
        // One spelling only.
        if id.0 > 0 && id.to_string() == text { Ok(id) } else { Err(NoWorkflowRef) }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct NewWorkflow {
    pub namespace: Name,
    pub definition: Arc<Definition>,
    /// JSON text.
    pub input: String,
    /// Up to 64 characters. Two creations with the same key make one workflow. `None` means always a new one.
    pub key: Option<String>,
    pub progress: Progress,
    pub wake_at: Option<Millis>,
    pub by: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreatedWorkflow {
    pub workflow: StoredWorkflow,
    /// False if its key was there.
    pub is_new: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StoredWorkflow {
    pub id: WorkflowId,
    pub namespace: Name,
    /// The name in the workflow's document.
    pub name: Option<Name>,
    pub version: i64,
    pub definition: i64,
    /// Grows with every change.
    pub step: i64,
    pub state: WorkflowState,
    pub progress: Progress,
    /// JSON text.
    pub input: String,
    pub wake_at: Option<Millis>,
    pub created_at: Millis,
    pub updated_at: Millis,
    pub finished_at: Option<Millis>,
    pub created_by: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StoredDefinition {
    pub id: i64,
    pub namespace: Name,
    pub definition: Definition,
    pub version: i64,
}

/// All given conditions hold together.
#[derive(Clone, Debug)]
pub struct WorkflowQuery {
    pub namespace: Name,
    pub name: Option<Name>,
    pub state: Option<WorkflowState>,
    /// Continue below this id.
    pub before: Option<WorkflowId>,
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredNode {
    pub key: NodeKey,
    pub row: NodeRow,
    /// The reference of its task, or of its workflow.
    pub task_ref: Option<String>,
    pub begun_at: Millis,
    pub ended_at: Option<Millis>,
}

/// The content of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// JSON text.
    pub result: Option<String>,
    pub error: Option<String>,
    /// The array that a fan-out runs over, as JSON text.
    pub items: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeContent {
    pub key: NodeKey,
    pub carried: Carried,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AdvanceWorkflow {
    pub id: WorkflowId,
    /// The step that it was decided on.
    pub step: i64,
    pub state: WorkflowState,
    pub progress: Progress,
    pub wake_at: Option<Millis>,
    pub rows: Vec<ChangedNode>,
    /// Made in the same transaction: a mark for the workflow of which this one is a node, when this one ends.
    pub mark: Option<WorkflowMark>,
}

/// The age by which a live engine has deleted its mark, unless the workflow is slow.
pub const MARK_STALE_AFTER_MS: i64 = 3_000;

/// A note that something of a workflow may have ended, for the surviving engines if its author dies. Each superfluous
/// mark costs a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkflowMark {
    /// Drawn by the marking engine.
    pub id: i64,
    pub workflow: WorkflowId,
}

impl WorkflowMark {
    /// Engines share slots, not marks.
    #[must_use]
    pub fn slot(&self) -> u8 {
        u8::try_from(self.workflow.0.rem_euclid(i64::from(SLOTS))).unwrap_or(0)
    }
}

/// A row as it is from then on. The instants are the store's: begun when it is first written, or is open again; ended when it
/// has. Items stay as they were written first; a reference stays while the attempt is the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedNode {
    pub key: NodeKey,
    pub row: NodeRow,
    pub carried: Carried,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeNode {
    pub key: NodeKey,
    pub attempt: u32,
    pub task_ref: String,
}

impl NewWorkflow {
    /// Engines share slots, not workflows. Workflows are spread by all that distinguishes them before they
    /// have an id.
    #[must_use]
    pub fn slot(&self, now: Millis) -> u8 {
        let key = self.key.as_deref().unwrap_or_default();
        let names = [self.namespace.as_str(), key, self.input.as_str()];
        let bytes = names.into_iter().flat_map(str::bytes).chain(now.0.to_le_bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        u8::try_from((hash ^ (hash >> 32)) % u64::from(SLOTS)).unwrap_or(0)
    }
}
