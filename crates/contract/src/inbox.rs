//! A user's table of rows that become tasks, in the user's own database. What one relay asks of it; it never
//! decides what becomes of a row.

use crate::error::Error;
use async_trait::async_trait;
use std::fmt::Debug;

/// Promises, for every method:
/// - **One holder.** Of several relays, `hold` answers true to one at a time. The others read counts only. A
///   holder that loses its connection, or is frozen for 15 s, is no holder any more, and its next call fails.
/// - **Committed only.** A row is seen after its transaction has committed, whatever its number. A row with a
///   lower number may become visible later, and is then first.
/// - **Named rows.** A change concerns the rows that it names, and no other. A row that is gone is passed over.
#[async_trait]
pub trait InboxTable: Debug + Send + Sync {
    /// `host:port/database`, without a password.
    fn at(&self) -> String;

    /// Becomes or stays the holder. False if another relay is.
    async fn hold(&self) -> Result<bool, Error>;

    /// Returns the waiting rows above a number, in the order of numbers, at most `limit`.
    async fn heads(&self, above: i64, limit: usize) -> Result<Vec<RowHead>, Error>;

    /// Notes that these rows are offered from now on, and reads them, by number. A row that was offered before keeps
    /// its first note, and has the time since then.
    async fn offer(&self, ids: &[i64]) -> Result<Vec<InboxRow>, Error>;

    /// Removes the notes of rows that were certainly not inserted.
    async fn withdraw_offer(&self, ids: &[i64]) -> Result<(), Error>;

    /// These are tasks now: they go.
    async fn remove(&self, ids: &[i64]) -> Result<(), Error>;

    /// These wait no more until the user repairs them.
    async fn refuse(&self, refused: &[RefusedRow]) -> Result<(), Error>;

    /// Also for a relay that does not hold the table.
    async fn counts(&self) -> Result<InboxCounts, Error>;

    /// Another relay may hold the table.
    async fn let_go(&self);
}

/// The fields that decide if a row is offered now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowHead {
    pub id: i64,
    pub namespace: String,
    pub queue: String,
    pub key: Option<String>,
    /// The size of the row's payload.
    pub bytes: u64,
}

/// One row, as the user wrote it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InboxRow {
    pub head: RowHead,
    /// The id of the table, unique among all tables. Together with the row's number and instant, it is the key of a
    /// row without a key.
    pub table: String,
    pub created_at_ms: i64,
    /// The age of the row, by the clock of the user's database.
    pub age_ms: i64,
    /// The time since the row was first offered, if it was offered before.
    pub offered_before_ms: Option<i64>,
    pub version: i64,
    pub kind: Option<String>,
    pub name: Option<String>,
    pub execute_at_ms: Option<i64>,
    pub delay_ms: Option<i64>,
    pub priority: Option<i64>,
    pub payload: Option<String>,
    pub payload_bytes: Option<Vec<u8>>,
    pub labels: Option<String>,
    pub max_attempts: Option<i64>,
    pub retry: Option<String>,
    pub timeout_ms: Option<i64>,
    pub deadline_ms: Option<i64>,
    pub concurrency_key: Option<String>,
    pub handler_versions: Option<String>,
    pub traceparent: Option<String>,
    /// JSON object: other fields of a task. A column that is set wins.
    pub options: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedRow {
    pub id: i64,
    pub why: String,
    /// It may be a task all the same: its note of being offered stays.
    pub maybe_inserted: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxCounts {
    /// Counted up to `InboxCounts::MOST`.
    pub waiting: u64,
    /// The age of the waiting row with the lowest number.
    pub oldest_ms: Option<i64>,
    pub refused: u64,
}

impl InboxCounts {
    pub const MOST: u64 = 100_000;
}
