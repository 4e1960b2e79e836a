//! Who changed what: written before the change, and completed with its result after it.

use crate::error::Error;
use async_trait::async_trait;
use punctual_domain::time::Millis;

/// Promises:
/// - **Durable.** What was appended is there after any crash.
/// - **Append-only.** An entry is never changed, but for its result, once.
/// - **Bounded.** A page comes back after so much work, with a position to continue from, however little matches.
#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Appends an entry, and answers its number: higher than that of every entry that was answered before. One whose key
    /// is there already is not appended again: the number of the one that stands is answered.
    async fn append_audit(&self, entry: AuditEntry) -> Result<i64, Error>;

    /// Completes an entry. One that has a result keeps it.
    async fn complete_audit(&self, id: i64, result: AuditResult) -> Result<(), Error>;

    /// Entries, the newest first.
    async fn audit_entries(&self, query: AuditQuery) -> Result<AuditPage, Error>;

    /// Forgets the oldest entries from before an instant, at most so many; answers how many.
    async fn trim_audit(&self, before: Millis, limit: usize) -> Result<usize, Error>;
}

/// What somebody was about to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditEntry {
    pub at: Millis,
    /// None: no token was asked for, or none was good.
    pub token_id: Option<String>,
    /// The name of the token, or what else is known of who it was.
    pub caller: String,
    pub address: Option<String>,
    /// The name of the operation.
    pub action: String,
    /// Method and address of the request, or the command.
    pub request: String,
    /// None: it is of no namespace.
    pub namespace: Option<String>,
    pub request_id: Option<String>,
    /// How many alike it represents, at least 1.
    pub times: i64,
    /// Of what was refused it is known at once.
    pub result: Option<AuditResult>,
    /// Drawn by whoever may append it twice, because the first answer may be lost; None: it is appended once. It is not
    /// read again.
    pub key: Option<AuditKey>,
}

/// Random, so that no two entries have the same.
pub type AuditKey = [u8; 16];

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditResult {
    pub at: Millis,
    /// HTTP status; of commands 200 or 500.
    pub status: u16,
    pub reason: Option<String>,
    /// JSON, of what has settings: in its earlier state and in its current state.
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
    /// Go on below this number.
    pub before_id: Option<i64>,
    pub limit: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditPage {
    pub entries: Vec<(i64, AuditEntry)>,
    /// `before_id` of the next page; None: this was the last.
    pub next_before_id: Option<i64>,
}
