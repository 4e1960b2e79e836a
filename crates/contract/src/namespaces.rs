//! The deletion of a namespace's contents, in small batches; and of single finished tasks. That a namespace
//! is being deleted, and so accepts nothing new, is a setting (`domain::settings::Deletion`). The engine runs
//! the batches, and decides when they have ended.

use crate::{error::Error, store::Applied};
use async_trait::async_trait;
use punctual_domain::{
    name::Name,
    place::{Partition, TaskRef},
    state::State,
    time::Millis,
};

/// Promises:
/// - **Bounded.** A batch reads at most `limit` tasks, and is one short transaction.
/// - **Of this namespace only.** Nothing of any other is touched, whatever its name begins with.
/// - **Accounted for.** The transaction that deletes tasks also updates the account.
/// - **Again.** Any engine may repeat a batch, also concurrently: deleted tasks are skipped.
#[async_trait]
pub trait NamespaceStore: Send + Sync {
    /// Deletes tasks of a namespace in one part of the store, in any state, with their histories, payloads and ids.
    /// Also deletes the answers that are stored there under its idempotency keys.
    async fn delete_tasks_in(&self, part: usize, asked: DeleteTasks) -> Result<DeletedTasks, Error>;

    /// Deletes a namespace's other data: executors, and the history of its queues' settings. At most `limit` rows of
    /// each; returns the number of deleted rows. Leaves current settings.
    async fn delete_traces(&self, namespace: &Name, limit: usize) -> Result<usize, Error>;

    /// Deletes finished tasks with their histories, payloads and ids, each if it is in this state with this fence; one that
    /// is not finished is never deleted. In order.
    async fn delete_finished(&self, tasks: Vec<FinishedTask>) -> Result<Vec<Applied>, Error>;

    /// Namespaces that have schedules, by name: tasks or settings they need not have.
    async fn namespaces_with_schedules(&self) -> Result<Vec<Name>, Error>;
}

/// A finished task as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinishedTask {
    pub place: TaskRef,
    pub fence: i64,
    pub state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteTasks {
    pub namespace: Name,
    /// Inclusive, or `None` means from the beginning.
    pub from: Option<TaskPosition>,
    /// The maximum number of tasks that are read, and of answers that are deleted.
    pub limit: usize,
    /// True to delete tasks that executors have, too. Otherwise their executors are requested to stop, with their
    /// next heartbeat.
    pub in_flight: bool,
    pub now: Millis,
}

/// The position where a batch begins, in the order of the part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskPosition {
    pub partition: Partition,
    pub task_id: i64,
    pub task_version: i64,
}

impl TaskPosition {
    #[must_use]
    pub const fn beginning_of(partition: Partition) -> Self {
        Self { partition, task_id: i64::MIN, task_version: i64::MIN }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeletedTasks {
    pub deleted: Vec<DeletedTask>,
    /// Tasks that executors have, which were left, and requested to stop.
    pub in_flight: Vec<TaskRef>,
    pub replies: usize,
    /// The position where the next batch continues. `None` at the end.
    pub next: Option<TaskPosition>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletedTask {
    pub place: TaskRef,
    pub fence: i64,
    pub was_in_flight: bool,
}
