//! Bulk operations: their documents, progress and failures; and which tasks match a filter. Durable; changes
//! no task, and decides nothing about time: an operation is due at `wake_at`, which the service that runs
//! them sets.

use crate::{error::Error, evaluations::EvaluationStore, store::Applied};
use async_trait::async_trait;
use punctual_domain::{
    bulk::{Bulk, BulkState, Progress},
    name::Name,
    place::{Partition, TaskRef},
    state::State,
    time::Millis,
};
use std::collections::BTreeSet;

/// Operations are spread over this many slots, by their ids; engines share slots.
pub const SLOTS: u8 = 32;
/// The maximum number of stored failures of one operation. All failures are counted.
pub const FAILURES_MAX: usize = 10_000;

/// Promises, for every method:
/// - **Durable.** `Ok` means committed, and synced to the medium.
/// - **Complete.** A unit of work runs to its end whatever happens to the caller.
/// - **Compared.** Every change of an operation names the `step` that it was decided on, and increments it:
///   of two callers that decide on the same step, one change is applied, and the other caller gets `Lost` and
///   has changed nothing.
/// - **With its failures.** An advance and its failures are stored in the same transaction.
#[async_trait]
pub trait BulkStore: EvaluationStore {
    /// A new operation, with an id that is never used again, at step 1.
    async fn create_bulk(&self, new: NewBulk, now: Millis) -> Result<StoredBulk, Error>;

    async fn bulk(&self, namespace: &Name, id: i64) -> Result<Option<StoredBulk>, Error>;

    /// Returns the operations of a namespace below an id, the newest first, at most `limit`.
    async fn bulks(&self, namespace: &Name, below: i64, limit: usize) -> Result<Vec<StoredBulk>, Error>;

    /// Returns the operations whose `wake_at` has passed, the longest ago first, at most `limit`. `slots` has bit n
    /// for slot n.
    async fn due_bulks(&self, slots: u32, now: Millis, limit: usize) -> Result<Vec<StoredBulk>, Error>;

    /// The earliest `wake_at` of all.
    async fn next_bulk_wake(&self) -> Result<Option<Millis>, Error>;

    async fn advance_bulk(&self, advance: AdvanceBulk, now: Millis) -> Result<Applied, Error>;

    /// Returns the current failures above a task id, in the order of ids, at most `limit`.
    async fn bulk_failures(&self, bulk: i64, above: i64, limit: usize) -> Result<Vec<BulkFailure>, Error>;

    /// Deletes operations, with their failures, that have not changed since an instant and are not at work, at most
    /// `limit`. Returns the number of deleted operations.
    async fn forget_bulks(&self, unchanged_since: Millis, limit: usize) -> Result<usize, Error>;

    /// Returns the places of the matching tasks, the newest first, at most `look.limit`. The number of rows that it
    /// reads is bounded: a page may have fewer places and a position to continue from.
    async fn matching(&self, look: &TaskFilter) -> Result<Matching, Error>;
}

#[derive(Clone, Debug, PartialEq)]
pub struct NewBulk {
    pub namespace: Name,
    pub bulk: Bulk,
    pub progress: Progress,
    pub by: String,
}

impl NewBulk {
    /// There is something to do before it is confirmed: it is counted on.
    #[must_use]
    pub fn wake_at(&self, now: Millis) -> Option<Millis> {
        self.progress.counting_below.map(|_| now)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct StoredBulk {
    pub id: i64,
    pub namespace: Name,
    /// Grows with every change.
    pub step: i64,
    pub bulk: Bulk,
    pub state: BulkState,
    pub progress: Progress,
    pub wake_at: Option<Millis>,
    pub created_at: Millis,
    pub created_by: String,
    pub updated_at: Millis,
}

impl StoredBulk {
    #[must_use]
    pub fn slot(&self) -> u8 {
        u8::try_from(self.id.rem_euclid(i64::from(SLOTS))).unwrap_or(0)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct AdvanceBulk {
    pub id: i64,
    /// The step that it was decided on.
    pub step: i64,
    pub state: BulkState,
    pub progress: Progress,
    pub wake_at: Option<Millis>,
    /// Each replaces an earlier failure of the same task. Beyond [`FAILURES_MAX`] they are not stored.
    pub failed: Vec<BulkFailure>,
    /// Ids of tasks that are no failures any more.
    pub mended: Vec<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkFailure {
    pub place: TaskRef,
    pub at: Millis,
    pub error: String,
}

/// All given conditions hold together. `due_*` are inclusive / exclusive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskFilter {
    pub namespace: Option<Name>,
    pub queue: Option<Name>,
    /// One of these.
    pub states: Vec<State>,
    pub kind: Option<Name>,
    pub label: Option<(String, String)>,
    pub due_after: Option<Millis>,
    pub due_before: Option<Millis>,
    /// The task's last error contains this text, letter for letter.
    pub error: Option<String>,
    /// Made at or before.
    pub created_until: Option<Millis>,
    /// The task is in one of these partitions. Only the parts of the store that have them are read, wherever they are
    /// at that time.
    pub partitions: Option<BTreeSet<Partition>>,
    /// Continue below this id.
    pub before_id: Option<i64>,
    pub limit: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matching {
    pub places: Vec<TaskRef>,
    /// `before_id` of the next page, or `None` if this was the last.
    pub next_before_id: Option<i64>,
    /// Ids that were examined, of which the result is a part; for an index, the number of results.
    pub examined: u64,
}
