//! Schedules: their documents, progress, and the history of their runs. Durable; knows tasks only by their
//! references, and decides nothing about time: a schedule is due at `wake_at`, which the planner sets.

use crate::{error::Error, evaluations::EvaluationStore, identity::IdentityStore, store::Applied};
use async_trait::async_trait;
use punctual_domain::{
    name::Name,
    schedule::{Outcome, Progress, RunKind, Schedule},
    time::Millis,
};

/// Schedules are spread over this many slots; engines share slots, not schedules.
pub const SLOTS: u8 = 32;

/// Promises, for every method:
/// - **Durable.** `Ok` means committed, and synced to the medium.
/// - **Complete.** A unit of work runs to its end whatever happens to the caller.
/// - **Compared.** Every change of a schedule names the `step` that it was decided on, and increments it: of
///   two callers that decide on the same step, one change is applied, and the other caller gets `Lost` and
///   has changed nothing.
/// - **With its runs.** If an advance is applied, its runs are stored, and those that it revokes are
///   cancelled, in the same transaction; otherwise none is.
/// - **Only what is due.** The cost of `due_schedules` grows with its result, not with the number of
///   schedules.
#[async_trait]
pub trait ScheduleStore: IdentityStore + EvaluationStore {
    async fn schedule(&self, key: &ScheduleKey) -> Result<Option<StoredSchedule>, Error>;

    /// Returns the schedules of a namespace by name, after a name, at most `limit`.
    async fn schedules(
        &self,
        namespace: &Name,
        after: &str,
        limit: usize,
    ) -> Result<Vec<StoredSchedule>, Error>;

    /// Stores a document, with a higher revision than any earlier change of any schedule. `None` if the stored
    /// schedule is not as expected, and nothing has changed.
    async fn save_schedule(&self, save: SaveSchedule, now: Millis) -> Result<Option<StoredSchedule>, Error>;

    /// Deletes a schedule. Its runs are deleted over time.
    async fn remove_schedule(&self, id: i64, step: i64) -> Result<Applied, Error>;

    /// Returns the schedules whose `wake_at` has passed, the longest ago first, at most `limit`. `slots` has bit n
    /// for slot n.
    async fn due_schedules(
        &self,
        slots: u32,
        now: Millis,
        limit: usize,
    ) -> Result<Vec<StoredSchedule>, Error>;

    /// The earliest `wake_at` of all.
    async fn next_wake(&self) -> Result<Option<Millis>, Error>;

    /// Moves schedules on, each by itself; answers in order.
    async fn advance_schedules(&self, all: Vec<Advance>, now: Millis) -> Result<Vec<Applied>, Error>;

    /// Records the results of created, unsettled runs. A run that is settled, or does not exist, is
    /// unchanged.
    async fn record_runs(&self, runs: Vec<RecordRun>) -> Result<(), Error>;

    /// Runs that were created, or postponed, before an instant and never settled, with their schedule; the
    /// oldest first. Of any schedule, or those that older documents of one schedule planned.
    async fn unsettled_runs(
        &self,
        of: Option<OlderDocuments>,
        before: Millis,
        limit: usize,
    ) -> Result<Vec<(StoredSchedule, Run)>, Error>;

    /// Moves runs that cannot be settled now behind all others. A run that is settled, or does not exist, is
    /// unchanged.
    async fn put_off_runs(&self, runs: Vec<RunKey>, now: Millis) -> Result<(), Error>;

    /// Runs of one schedule, the latest instant first. Runs of one instant are never split, so a page may be
    /// slightly longer than `limit`.
    async fn runs(&self, query: &RunQuery) -> Result<Vec<Run>, Error>;

    /// The tasks of created runs, in order.
    async fn run_tasks(&self, runs: Vec<RunKey>) -> Result<Vec<RunTask>, Error>;

    /// Created runs that have no task, or no longer have one: they get this outcome.
    async fn withdraw_runs(&self, runs: Vec<RunKey>, outcome: Outcome, reason: &str) -> Result<(), Error>;

    /// Deletes runs that were created before an instant, in one bounded batch. How many.
    async fn forget_runs(&self, created_before: Millis, limit: usize) -> Result<usize, Error>;
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScheduleKey {
    pub namespace: Name,
    pub name: Name,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StoredSchedule {
    /// Never used again.
    pub id: i64,
    pub key: ScheduleKey,
    /// The revision of the last change of the document.
    pub revision: i64,
    /// Grows with every change, of the document or of the progress.
    pub step: i64,
    pub schedule: Schedule,
    pub progress: Progress,
    pub wake_at: Option<Millis>,
    pub created_at: Millis,
    pub updated_at: Millis,
    pub updated_by: String,
}

impl ScheduleKey {
    /// FNV-1a over both names. Stored with the schedule.
    #[must_use]
    pub fn slot(&self) -> u8 {
        let bytes = self.namespace.as_str().bytes().chain([0]).chain(self.name.as_str().bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        u8::try_from((hash ^ (hash >> 32)) % u64::from(SLOTS)).unwrap_or(0)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct SaveSchedule {
    pub key: ScheduleKey,
    pub schedule: Schedule,
    pub progress: Progress,
    pub wake_at: Option<Millis>,
    /// The step that it was decided on, or `None` if the schedule does not exist.
    pub expected: Option<i64>,
    pub by: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Advance {
    pub id: i64,
    /// The step that it was decided on.
    pub step: i64,
    pub progress: Progress,
    pub wake_at: Option<Millis>,
    pub runs: Vec<NewRun>,
    pub takes_back: Option<TakesBack>,
}

/// Created runs that are cancelled with an advance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakesBack {
    pub runs: Vec<RunKey>,
    pub reason: String,
}

/// One line of history. If it is repeated with the same instant, kind, revision and outcome, the existing
/// line stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    pub kind: RunKind,
    pub at: Millis,
    pub execute_at: Millis,
    /// The revision of the document that created the run.
    pub revision: i64,
    /// The version of its task. `None` if an older program decided the run, and its task's name is derived from the
    /// revision.
    pub version: Option<i64>,
    pub number: u64,
    /// Created: its task must be made, and it is unsettled until then.
    pub outcome: Outcome,
    pub reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunKey {
    pub schedule: i64,
    pub kind: RunKind,
    pub at: Millis,
    pub revision: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordRun {
    pub key: RunKey,
    /// The reference of its task.
    pub task_ref: String,
    /// The new note, or `None` means the existing one.
    pub note: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub key: RunKey,
    pub execute_at: Millis,
    /// The same as in a [`NewRun`].
    pub version: Option<i64>,
    pub number: u64,
    pub outcome: Outcome,
    pub reason: Option<String>,
    pub task_ref: Option<String>,
    /// True if the run's task was created, and for runs that are not created.
    pub is_recorded: bool,
    pub created_at: Millis,
}

/// States if a created run has its task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunTask {
    /// The reference of its task.
    Made(String),
    /// It is in the history, and its task must be made.
    Owed,
    /// The run does not exist: it was deleted, or revoked.
    Unknown,
}

/// The documents of a schedule before this revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OlderDocuments {
    pub schedule: i64,
    pub revision: i64,
}

#[derive(Clone, Copy, Debug)]
pub struct RunQuery {
    pub schedule: i64,
    /// Inclusive.
    pub from: Millis,
    /// Exclusive.
    pub before: Millis,
    pub limit: usize,
}

impl NewRun {
    #[must_use]
    pub const fn key(&self, schedule: i64) -> RunKey {
        RunKey { schedule, kind: self.kind, at: self.at, revision: self.revision }
    }
}
