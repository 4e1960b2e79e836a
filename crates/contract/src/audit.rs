//! The audit of changes and their authors: written before a change, and completed with its result afterwards.

use crate::error::Error;
use async_trait::async_trait;
use punctual_domain::time::Millis;

/// Promises:
/// - **Durable.** An appended entry survives any crash.
/// - **Append-only.** An entry is never changed, except that its result is added once.
/// - **Bounded.** A page returns after bounded work, with a position to continue from, however few entries
///   match.
#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Appends an entry, and returns its number: higher than that of every entry answered before. An entry
    /// whose key exists is not appended again: the existing number is returned.
    async fn append_audit(&self, entry: AuditEntry) -> Result<i64, Error>;

    /// Completes an entry. One that has a result keeps it.
    async fn complete_audit(&self, id: i64, result: AuditResult) -> Result<(), Error>;

    /// Entries, the newest first.
    async fn audit_entries(&self, query: AuditQuery) -> Result<AuditPage, Error>;

    /// Deletes the oldest entries from before an instant, at most `limit`; returns the number of deleted entries.
    async fn trim_audit(&self, before: Millis, limit: usize) -> Result<usize, Error>;
}

/// An operation that a caller requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditEntry {
    pub at: Millis,
    /// `None` if no token was required, or none was valid.
    pub token_id: Option<String>,
    /// The name of the token, or other known facts about the caller.
    pub caller: String,
    pub address: Option<String>,
    /// The name of the operation.
    pub action: String,
    /// Method and address of the request, or the command.
    pub request: String,
    /// `None` if the entry concerns no namespace.
    pub namespace: Option<String>,
    pub request_id: Option<String>,
    /// The number of equal events that the entry represents, at least 1.
    pub times: i64,
    /// The result of a refusal is known immediately.
    pub result: Option<AuditResult>,
    /// Drawn by a caller that may append the entry twice, because the first answer may be lost, or `None` if it is
    /// appended once. Not returned by reads.
    pub key: Option<AuditKey>,
}

/// Random, so that no two entries have the same.
pub type AuditKey = [u8; 16];

/// The result of the operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditResult {
    pub at: Millis,
    /// HTTP status; of commands 200 or 500.
    pub status: u16,
    pub reason: Option<String>,
    /// JSON of settings: the earlier and the current state.
    pub before: Option<String>,
    pub after: Option<String>,
}

/// All given conditions hold together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditQuery {
    pub token_id: Option<String>,
    pub action: Option<String>,
    pub namespace: Option<String>,
    /// Inclusive.
    pub since: Option<Millis>,
    /// Exclusive.
    pub until: Option<Millis>,
    /// Continue below this number.
    pub before_id: Option<i64>,
    pub limit: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditPage {
    pub entries: Vec<(i64, AuditEntry)>,
    /// `before_id` of the next page, or `None` if this was the last.
    pub next_before_id: Option<i64>,
}
