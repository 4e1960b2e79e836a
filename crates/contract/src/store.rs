//! The durable truth. Acknowledged work survives any crash. Every change of state is decided here, by a
//! statement that names the expected states (`domain::state`) and the expected fence.

mod attempt;
mod books;
mod change;
mod facts;
mod reply;
mod scan;
mod search;

pub use attempt::{Assignment, EndedAttempt};
pub use books::{Books, PendingBytes, Tally};
pub use change::Change;
pub use facts::{Facts, LeaseFacts};
pub use reply::{Reply, ReplyKey, Reservation, Reserved};
pub use scan::{Overdue, OverdueLook, OverduePage, Scan};
pub use search::{Along, DuePosition, Page, Query};

use crate::{
    access::AccessStore,
    audit::AuditStore,
    error::{Error, Happened},
    hot::HotEntry,
    labels::LabelStore,
    ledger::LedgerStore,
    namespaces::NamespaceStore,
    settings::SettingStore,
};
use async_trait::async_trait;
use punctual_domain::{
    executor::{DesiredState, Executor, Roll, Sign},
    history::Note,
    insert::Decision,
    name::Name,
    place::{Partition, TaskRef},
    task::{NewTask, Task},
    time::Millis,
};
use std::fmt;

/// Promises, for every method:
/// - **Durable.** `Ok` means committed, and synced to the medium.
/// - **Complete.** A unit of work runs to its end whatever happens to the caller: dropping the future does not undo
///   half of it. Each item of a batch takes effect completely or not at all.
/// - **In order.** Results are in the order of the request.
/// - **Said.** A lost race is an answer (`Lost`), never an error. An error states whether it may have happened.
/// - **Recorded.** Every move appends one history line in the same statement.
/// - **No clock.** `now` is an argument.
#[async_trait]
pub trait Store:
    SettingStore
    + LabelStore
    + NamespaceStore
    + AccessStore
    + AuditStore
    + LedgerStore
    + Send
    + Sync
    + fmt::Debug
    + 'static
{
    /// Stores new tasks; for an existing task with the same id, `domain::insert::decide` decides, within the
    /// transaction of the insert. A task without an id gets one that is unique in its namespace. A new row is
    /// due at the later of `execute_at` and `now`: no row ever appears far in the past. A replacement keeps
    /// its `place`, gets a new fence, and its attempts are reset. Each task has its own answer: databases
    /// fail independently, and commits of the others are reported. The error concerns all of them.
    ///
    /// A task with `insert_by` is not stored later than that: its database compares its own clock in the transaction that
    /// inserts, and what would come later is an error that says that it did not happen. From that comparison to the commit
    /// passes no more than the database lets a silent transaction live.
    async fn insert_each(
        &self,
        tasks: Vec<NewTask>,
        by: &str,
        now: Millis,
    ) -> Result<Vec<Result<Inserted, Error>>, Error>;

    /// Inserts like `insert_each`, for callers that want all or an error. The error is `Happened::No` only if no task
    /// was stored.
    async fn insert(&self, tasks: Vec<NewTask>, by: &str, now: Millis) -> Result<Vec<Inserted>, Error> {
        all_of(self.insert_each(tasks, by, now).await?)
    }

    /// Moves each task along the table, if its state is a source of the event and, if `fence` is given, has
    /// that fence. A `place` with an outdated `due_at` still finds its task. Steps in one database take
    /// effect together or not at all; those in several independently, with one error for all. A caller that
    /// must know more asks each database separately. The same holds for `dispatch` and `extend`.
    ///
    /// Data of ended attempts in the answer is known from the move itself; no further read is made for it.
    ///
    /// A step may contain the caller's facts about the row, and so may a grant. A row is read only if facts
    /// are missing or wrong. Answer, history and account are the same with and without facts, whatever the
    /// facts are, if they belong to a task with this fence.
    async fn apply(&self, steps: Vec<Step>, now: Millis) -> Result<Vec<Stepped>, Error>;

    /// Assigns tasks to executors (event `dispatch`): spends an attempt, makes a new fence, and sets the lease, which
    /// ends no later than the task's `timeout_ms` allows. No task of a paused queue is assigned.
    async fn dispatch(&self, grants: Vec<Grant>, now: Millis) -> Result<Vec<Dispatched>, Error>;

    /// Heartbeats of leases: extends each that is still held (never beyond the task's `timeout_ms`), keeps its
    /// progress, and moves a dispatched task to running.
    async fn extend(&self, beats: Vec<Beat>, now: Millis) -> Result<Vec<Extended>, Error>;

    /// Marks a task that is in flight, so that its executor learns at its next heartbeat that it should stop.
    async fn request_stop(&self, place: TaskRef, now: Millis) -> Result<Applied, Error>;

    /// Waiting tasks of one partition with `due_at <= until`, in order of (due_at, id), after a position.
    async fn scan(&self, scan: Scan) -> Result<Vec<HotEntry>, Error>;

    /// Scans of several partitions that a back end can answer together, in the order of `scans`. `None` if this one
    /// needs a `scan` of its own. A back end to which a call costs little answers none.
    async fn scan_together(&self, scans: Vec<Scan>) -> Result<Vec<Option<Vec<HotEntry>>>, Error> {
        Ok(scans.iter().map(|_| None).collect())
    }

    /// Due, unfired tasks of one partition (`State::waits_for_its_time`), in order of (due_at, id), after a
    /// position. Depends on the rows alone: on no watermark, no hint, no remembered state of the partition.
    /// Bounded by its arguments; returns where it stopped.
    async fn overdue(&self, look: OverdueLook) -> Result<OverduePage, Error>;

    /// Tasks in flight of one part whose lease ended at or before `now`, the longest ended first. Histories are not filled in.
    async fn leases_ended_in(&self, part: usize, now: Millis, limit: usize) -> Result<Vec<Task>, Error>;

    /// Returns the ended leases of all parts, or an error.
    async fn leases_ended(&self, now: Millis, limit: usize) -> Result<Vec<Task>, Error> {
        let mut tasks = Vec::new();
        for part in 0..self.parts() {
            tasks.extend(self.leases_ended_in(part, now, limit).await?);
        }
        tasks.sort_by_key(|task| task.lease.as_ref().map(|lease| lease.until));
        tasks.truncate(limit);
        Ok(tasks)
    }

    /// All tasks in flight, page by page: about `limit` of them, and where the next page begins, or `None` if that
    /// was all. A lease that is extended meanwhile may be returned twice; a new one may be missing. Histories are not
    /// included.
    async fn in_flight(
        &self,
        after: Option<LeasePosition>,
        limit: usize,
    ) -> Result<(Vec<Task>, Option<LeasePosition>), Error>;

    /// Reads complete tasks, histories included.
    async fn read(&self, places: &[TaskRef]) -> Result<Vec<Option<Task>>, Error>;

    /// Returns the versions of one caller's id (or the given version), the highest first, at most `limit`.
    async fn versions(
        &self,
        namespace: &Name,
        task_id: i64,
        version: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Task>, Error>;

    /// The highest version of each of a few callers' ids, in one read, in no order; ids without a task are
    /// omitted.
    async fn latest_versions(&self, namespace: &Name, task_ids: &[i64]) -> Result<Vec<Task>, Error>;

    /// Search, newest first unless the query says otherwise. Bounded: a page may have fewer than `limit`
    /// tasks and a position to continue from.
    async fn list(&self, query: &Query) -> Result<Page, Error>;

    /// Ends retention in one database, in one bounded batch: expired successes become stopped (stored until
    /// `stopped_until`), other expired finished tasks are deleted.
    async fn retire_in(
        &self,
        part: usize,
        now: Millis,
        stopped_until: Millis,
        limit: usize,
    ) -> Result<Retired, Error>;

    /// Ends retention in all parts, or returns an error.
    async fn retire(&self, now: Millis, stopped_until: Millis, limit: usize) -> Result<Retired, Error> {
        let mut all = Retired::default();
        for part in 0..self.parts() {
            let left = limit - all.stopped - all.deleted;
            let more = self.retire_in(part, now, stopped_until, left).await?;
            (all.stopped, all.deleted) = (all.stopped + more.stopped, all.deleted + more.deleted);
            all.has_more |= more.has_more;
        }
        Ok(all)
    }

    /// Has every writer of a database commit something that no task depends on: whether each can write now.
    /// Costs a sync or two; intended for every few seconds. An error states why the first of them cannot.
    async fn check_writers_in(&self, part: usize) -> Result<(), Error>;

    /// Returns the running account, which the transactions that move tasks maintain. The call is cheap.
    async fn books(&self) -> Result<Books, Error>;

    /// The same account, counted from the rows: costs a scan.
    async fn audit(&self) -> Result<Books, Error>;

    /// Reserves an idempotency key for a request without an answer yet: one owner at a time has it, until it
    /// expires. Repeated by the same owner, it is extended.
    async fn reserve_reply(
        &self,
        key: &ReplyKey,
        reservation: &Reservation,
        now: Millis,
    ) -> Result<Reserved, Error>;

    /// Releases a key that this owner has reserved, because no answer is worth keeping. A stored answer
    /// stays.
    async fn release_reply(&self, key: &ReplyKey, owner: &str) -> Result<(), Error>;

    /// Keeps the answer to a request under its idempotency key until `keep_until`, in the place of a reservation.
    async fn save_reply(&self, key: &ReplyKey, reply: &Reply) -> Result<(), Error>;

    /// Returns the answer that is stored under a key, unless it has expired.
    async fn load_reply(&self, key: &ReplyKey, now: Millis) -> Result<Option<Reply>, Error>;

    /// Stores heartbeats of executors, and returns desired states other than to serve, by namespace and name. Omitted
    /// fields keep their value; a heartbeat that is older than the last changes nothing. After a farewell the
    /// executor has no desired state, and is in no list. At most one heartbeat per executor.
    async fn note_executors(&self, signs: Vec<Sign>) -> Result<Vec<(Name, Name, DesiredState)>, Error>;

    /// Executors of a namespace, by name, from a name on (inclusive).
    async fn executors(&self, namespace: &Name, from: &str, limit: usize) -> Result<Vec<Executor>, Error>;

    /// Sets an executor's desired state, and returns the previous one. `None` if no executor has this name.
    async fn desired_state_of_executor(
        &self,
        namespace: &Name,
        name: &Name,
        desired: DesiredState,
    ) -> Result<Option<DesiredState>, Error>;

    /// Counts the executors. Each that became silent by `now` is found dead once, whichever engine calls.
    /// Those that have been silent since before `silent_since`, or left before `left_before`, are deleted.
    async fn sweep_silent(
        &self,
        now: Millis,
        silent_since: Millis,
        left_before: Millis,
    ) -> Result<Roll, Error>;

    /// The number of partitions of the rows. It is fixed when the store is created.
    fn partitions(&self) -> u16;

    /// The number of parts of the store that can fail independently: databases. It may grow.
    fn parts(&self) -> usize;

    /// The database that has a partition, as far as is known here: below `parts`. The partition may have
    /// moved; then calls follow it.
    fn part_of(&self, partition: Partition) -> usize;
}

/// All answers of a batch, or an error: it did not happen only if no part of it did.
pub fn all_of<T>(answers: Vec<Result<T, Error>>) -> Result<Vec<T>, Error> {
    let happened =
        |result: &Result<T, Error>| !matches!(result, Err(error) if error.happened == Happened::No);
    let some_happened = answers.iter().any(happened);
    let all: Result<Vec<T>, Error> = answers.into_iter().collect();
    all.map_err(|error| if some_happened { error.after_a_change() } else { error })
}

/// The result of inserting one task: for `ReturnExisting` and `Superseded`, `task` is the existing one.
#[derive(Clone, Debug, PartialEq)]
pub struct Inserted {
    pub decision: Decision,
    pub task: Task,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    Moved,
    Lost,
}

/// The result of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stepped {
    pub applied: Applied,
    /// The attempt that a move out of `dispatched` or `running` ended.
    pub attempt: Option<EndedAttempt>,
}

impl Stepped {
    pub const LOST: Self = Self { applied: Applied::Lost, attempt: None };
}

impl PartialEq<Applied> for Stepped {
    fn eq(&self, applied: &Applied) -> bool {
        self.applied == *applied
    }
}

/// One move of one task.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub place: TaskRef,
    /// `None` accepts any fence.
    pub fence: Option<i64>,
    pub change: Change,
    pub note: Note,
    /// The instant at which the attempt fired, for the last outcome of a task. `None` if it equals the hand-over.
    pub fired_at: Option<Millis>,
    /// The caller's facts about the attempt that a success ends. `None` if the row is read.
    pub known: Option<LeaseFacts>,
}

/// A slot granted to a task that has fired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub place: TaskRef,
    pub fence: i64,
    /// May be in the future: then the attempt begins there, and its `timeout_ms` counts from there.
    pub fired_at: Millis,
    pub lease_until: Millis,
    pub executor: String,
    /// The tenant: tenants take turns at committing leases. Decides nothing else.
    pub namespace: Name,
    /// The executor already has the task, and the store learns of it late: a pause of its queue, which stops
    /// new starts, does not refuse it.
    pub has_begun: bool,
    /// The caller's facts about the task. `None` if the row is read.
    pub known: Option<Facts>,
}

/// The result of one grant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly all are made: a box for each would cost more")]
pub enum Dispatched {
    Made(Assignment),
    /// The queue of the task is paused: nothing has changed, and the grant remains valid.
    Paused,
    /// Another call was faster, or the task was cancelled, changed or deleted: the grant is void.
    Lost,
}

impl Dispatched {
    #[must_use]
    pub fn made(self) -> Option<Assignment> {
        match self {
            Self::Made(lease) => Some(lease),
            Self::Paused | Self::Lost => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    pub place: TaskRef,
    pub fence: i64,
    pub lease_until: Millis,
    /// JSON text.
    pub progress: Option<String>,
    /// The handler's log lines since the last heartbeat, as `domain::log::encode` writes them; appended to
    /// the earlier ones, of which the oldest are dropped.
    pub log: Option<String>,
    pub executor: String,
    /// The instant at which an engine assigned the task to this executor. Only an engine sets it. The lease then
    /// belongs to the executor; it does not count as begun, and a lease end that a heartbeat has set meanwhile stays.
    /// `None` for a heartbeat of an executor.
    pub handed_over_at: Option<Millis>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extended {
    Held {
        lease_until: Millis,
        cancel_requested: bool,
        /// This heartbeat moved the task to running.
        has_begun: bool,
    },
    /// The lease ended, or the task is with another attempt, or it is finished.
    Lost,
}

/// The position where a page of `in_flight` ended. Only the store can interpret it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeasePosition {
    pub part: usize,
    pub until: Millis,
    pub id: i64,
}

impl LeasePosition {
    /// The position before the first lease of a database, where a caller continues that cannot read the preceding
    /// database.
    #[must_use]
    pub const fn beginning_of(part: usize) -> Self {
        Self { part, until: Millis(i64::MIN), id: i64::MIN }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retired {
    pub stopped: usize,
    pub deleted: usize,
    /// The batch ended before everything was read, so the next may find more, even if this one found nothing.
    pub has_more: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_of_which_a_part_happened_is_never_said_not_to_have_happened() {
        let refused = || Error::did_not_happen("insert tasks", "away");
        let lost = || Error::may_have_happened("insert tasks", "silent");
        let reported = |answers| all_of::<u8>(answers).map_err(|error| error.happened);
        assert_eq!(reported(vec![Ok(1), Ok(2)]), Ok(vec![1, 2]));
        assert_eq!(reported(vec![Err(refused()), Err(refused())]), Err(Happened::No));
        for answers in [
            vec![Ok(1), Err(refused())],
            vec![Err(refused()), Ok(1)],
            vec![Err(refused()), Err(lost())],
            vec![Err(lost()), Err(refused())],
        ] {
            assert_eq!(reported(answers), Err(Happened::Maybe));
        }
    }
}
