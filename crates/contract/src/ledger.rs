//! Conservation over rows: every accepted task is one row, in one place, until it is deleted. A database keeps three
//! witnesses of its tasks: the account (`store::Books`), a register of ids, and the rows. A count compares all three.

use crate::error::Error;
use async_trait::async_trait;
use punctual_domain::{
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    state::State,
    time::Millis,
};

/// Promises:
/// - **Of one instant.** Whatever moves meanwhile is in all witnesses or in none: a count beside traffic finds nothing false.
/// - **Complete.** A row that is missing, doubled or elsewhere, an entry without a row, and an account that was altered are found.
/// - **Read only.** A count changes nothing, and delays no caller.
#[async_trait]
pub trait LedgerStore: Send + Sync {
    /// Counts every row of one database. None: the database is being rebuilt at the moment; ask again later.
    async fn count_ledger(&self, part: usize) -> Result<Option<LedgerCount>, Error>;

    /// The last report of each database that has one, and whether a count is requested, by number.
    async fn ledger_reports(&self) -> Result<Vec<LedgerReport>, Error>;

    /// Stores the report of a count, which answers the requests up to `answers`, instead of the one before.
    async fn save_ledger_report(&self, part: usize, report: &str, answers: i64) -> Result<(), Error>;

    /// Requests a count of one database, whichever engine makes it.
    async fn request_ledger_count(&self, part: usize) -> Result<(), Error>;
}

/// Of one database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerReport {
    pub part: usize,
    /// How often a count was requested, ever; and how many of the requests the report answers.
    pub requests: i64,
    pub answered: i64,
    /// JSON, whose content the engines define; None: it was never counted.
    pub body: Option<String>,
}

/// What one count found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerCount {
    /// Of the account.
    pub accepted: i64,
    pub deleted: i64,
    /// Ids in the register.
    pub registered: i64,
    /// By number; without those that have nothing.
    pub partitions: Vec<PartitionCount>,
    /// Where the account and the rows differ, by queue and state.
    pub differences: Vec<TallyDifference>,
    /// By id; at most `FAULTS_MAX` for each partition.
    pub faults: Vec<LedgerFault>,
}

/// Faults that are named, in each partition; of more, only how many tasks are missing or too many is known.
pub const FAULTS_MAX: usize = 100;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionCount {
    pub partition: Partition,
    /// Tasks that came into the partition, and that were deleted from it, since the store counts them by partition.
    pub accepted: i64,
    pub deleted: i64,
    pub waiting: i64,
    pub in_flight: i64,
    pub finished: i64,
}

impl PartitionCount {
    #[must_use]
    pub const fn rows(&self) -> i64 {
        self.waiting + self.in_flight + self.finished
    }

    /// Accepted tasks without a row. Negative: rows without an accepted task.
    #[must_use]
    pub const fn missing(&self) -> i64 {
        self.accepted - self.deleted - self.rows()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TallyDifference {
    pub queue: QueueKey,
    pub state: State,
    /// Tasks by the account, and by the rows.
    pub books: i64,
    pub rows: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// Registered, and there is no row.
    Lost,
    /// A second row of a task that is where it should be.
    Doubled,
    /// Its row is where no reference leads.
    Misplaced,
    /// A row that the register does not have.
    Unregistered,
}

impl FaultKind {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Doubled => "doubled",
            Self::Misplaced => "misplaced",
            Self::Unregistered => "unregistered",
        }
    }
}

/// One task that is not as it should be, with all that is known of it. Of a lost one, queue and state are what the account
/// still counts and no row has: None if that is not definite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerFault {
    pub kind: FaultKind,
    pub id: i64,
    pub partition: Option<Partition>,
    pub task: Option<RegisteredTask>,
    pub queue: Option<QueueKey>,
    pub state: Option<State>,
    /// Where the row is. For a lost task: where its reference leads.
    pub due_at: Option<Millis>,
    /// The task's reference, where it is known.
    pub reference: Option<TaskRef>,
}

/// The caller's name of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredTask {
    pub namespace: Name,
    pub task_id: i64,
    pub task_version: i64,
}

impl LedgerCount {
    #[must_use]
    pub fn rows(&self) -> i64 {
        self.partitions.iter().map(PartitionCount::rows).sum()
    }

    /// How many tasks are not as they are accounted for, at least; 0: all are.
    #[must_use]
    pub fn unaccounted(&self) -> i64 {
        let missing: i64 = self.differences.iter().map(|tally| (tally.books - tally.rows).max(0)).sum();
        let too_many: i64 = self.differences.iter().map(|tally| (tally.rows - tally.books).max(0)).sum();
        let stored = self.accepted - self.deleted;
        let faults = i64::try_from(self.faults.len()).unwrap_or(i64::MAX);
        let by_partition =
            |sign: i64| -> i64 { self.partitions.iter().map(|count| (sign * count.missing()).max(0)).sum() };
        let by_sum = [(stored - self.rows()).abs(), (self.registered - self.rows()).abs()];
        let sums = by_sum.into_iter().chain([by_partition(1), by_partition(-1)]);
        sums.chain([missing, too_many, faults]).max().unwrap_or(0)
    }
}
