//! A journal of one engine, on its own machine: acknowledged outcomes, and hand-overs, while the store did
//! not answer. Does not know what its records mean: they are bytes under the key of an attempt. Must not be
//! asked for anything that the store can answer.

use async_trait::async_trait;
use std::fmt;

/// The key of a record: a task and the fence of its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttemptKey {
    pub task: i64,
    pub fence: i64,
}

impl AttemptKey {
    /// The key of the record that names the attempt's holder, beside the record of its outcome. Fences are
    /// never negative, and this one is.
    #[must_use]
    pub const fn of_hand_over(self) -> Self {
        Self { task: self.task, fence: !self.fence }
    }

    #[must_use]
    pub const fn is_of_hand_over(self) -> bool {
        self.fence < 0
    }
}

/// A record to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecord {
    pub key: AttemptKey,
    /// Identifies the content: two records of one attempt with the same digest are equal.
    pub digest: u64,
    pub body: Vec<u8>,
}

/// A stored record. Numbers grow, and are valid in this process only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRecord {
    pub number: u64,
    pub key: AttemptKey,
    pub body: Vec<u8>,
}

/// The result for one new record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendResult {
    /// It is durable.
    New,
    /// An equal record was durable already.
    Before,
    /// A different record was there first, and stays.
    Otherwise,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum JournalError {
    #[error(
        "the journal of outcomes is full: {bytes} of {bytes_max} bytes wait for their database, and {asked} more do not fit; \
         report again later, or raise journal.max_mib"
    )]
    Full { bytes: u64, bytes_max: u64, asked: u64 },
    /// The journal stored no record of the call.
    #[error("the journal of outcomes cannot be written: {0}; report again later")]
    Unwritable(String),
    #[error("the journal of outcomes cannot be read: {0}")]
    Unreadable(String),
}

/// The number and size of the waiting records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalSize {
    pub records: u64,
    /// The size of the waiting records.
    pub bytes: u64,
    pub bytes_max: u64,
}

/// Promises:
/// - **Durable.** `keep` answers after the records are synced; concurrent calls share a sync. A later start
///   does not find a refused record, unless the medium failed while it was withdrawn: then it may, although
///   it was never acknowledged.
/// - **Once.** Each attempt has one record, the first.
/// - **In order.** `waiting` returns the oldest first.
/// - **Deleted late.** A later start may find records again that are `done`: they are applied under their fence.
/// - **Bounded.** More bytes than the bound are refused with `Full`.
#[async_trait]
pub trait Journal: Send + Sync + fmt::Debug + 'static {
    /// All of them or none; answers are in the order of the records.
    async fn keep(&self, records: Vec<NewRecord>) -> Result<Vec<AppendResult>, JournalError>;

    /// Records that are not done, after a number, up to about `bytes`, and at least one record, if there is
    /// one.
    async fn waiting(&self, after: u64, bytes: usize) -> Result<Vec<KeptRecord>, JournalError>;

    /// These are applied, or will never count.
    async fn done(&self, numbers: Vec<u64>);

    /// Moves the records of journals of ended engines in the same directory into this one. Returns how many.
    async fn take_over(&self) -> Result<usize, JournalError>;

    /// The digest of the record of an attempt that is not done. Asks memory.
    fn digest_of(&self, key: AttemptKey) -> Option<u64>;

    fn size(&self) -> JournalSize;
}
