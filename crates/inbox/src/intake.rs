//! What a relay asks of its engine. Must not offer a way past admission, limits or namespaces.

use async_trait::async_trait;
use punctual_domain::{name::Name, time::Millis};
use punctual_protocol::InsertTask;
use std::fmt::Debug;

#[async_trait]
pub trait Intake: Debug + Send + Sync {
    fn now(&self) -> Millis;

    /// How long a task of this queue is known by its key at least, whatever becomes of it.
    fn known_for_ms(&self, namespace: &Name, queue: &str) -> i64;

    /// A longer payload is refused without being read.
    fn payload_max_bytes(&self) -> u64;

    /// As a call of the API inserts them, but none after `by`, by the clock of the store (`NewTask::insert_by`). As many answers as
    /// tasks, in order. No two of one call have the same key.
    async fn insert(
        &self,
        inbox: &str,
        namespace: &Name,
        tasks: Vec<InsertTask>,
        by: Millis,
    ) -> Vec<RowVerdict>;

    /// Whether a task of this key and version exists; an error in words if that is not known.
    async fn is_known(&self, namespace: &Name, key: &str, version: i64) -> Result<bool, String>;

    /// What to alert about, until the next report of this inbox.
    fn report(&self, inbox: &str, trouble: Trouble);
}

/// What became of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowVerdict {
    /// Durably.
    Inserted,
    /// It was there.
    Existing,
    /// A higher version is there.
    Superseded,
    /// For good, until the row is another one.
    Refused(String),
    /// Not inserted, and it may be later: its queue or its namespace takes nothing now.
    NotNow(String),
    /// The same; if all rows of a call are answered so, the relay rests.
    Closed(String),
    /// It may be inserted. If all rows of a call are answered so, or `Closed`, the relay rests.
    Unknown(String),
}

/// Sentences for alerts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    pub behind: Option<String>,
    pub refused: Option<String>,
}
