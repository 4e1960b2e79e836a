//! Tasks that a transaction in the user's own MySQL or MariaDB inserts, into the table that `punctual inbox install` makes: with
//! sqlx here, with diesel in the module `diesel`. Must do nothing beside the caller's transaction.

#[cfg(feature = "diesel")]
pub mod diesel;
#[cfg(feature = "sqlx")]
mod sqlx;

#[cfg(feature = "sqlx")]
pub use self::sqlx::{insert_in, insert_into, insert_into_table};
use punctual_protocol::{FieldError, InsertTask, Invalid, OnConflict, When};

const INSERT: &str = include_str!("inbox.sql");

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InboxError {
    /// A field that the server would refuse, or that an inbox does not have.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error("a field has no JSON form: {0}")]
    Json(#[from] serde_json::Error),
    /// The error of the caller's transaction, which should be rolled back.
    #[cfg(feature = "sqlx")]
    #[error(transparent)]
    Database(#[from] ::sqlx::Error),
    /// The error of a transaction of diesel, which should be rolled back.
    #[cfg(feature = "diesel")]
    #[error(transparent)]
    Diesel(#[from] ::diesel::result::Error),
}

/// The table that `punctual inbox install --table NAME` has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxTable {
    insert: String,
}

impl InboxTable {
    const CHARS_MAX: usize = 47;

    /// # Errors
    /// A name that `punctual inbox install` does not take.
    pub fn named(name: &str) -> Result<Self, InboxError> {
        let is_good = name.len() <= Self::CHARS_MAX
            && name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if !is_good {
            let problem = format!("must be 1 to {} characters of a-z 0-9 _, no digit first", Self::CHARS_MAX);
            return Err(Invalid::from(FieldError::new("/table", problem)).into());
        }
        Ok(Self { insert: INSERT.replace("{table}", name) })
    }
}

impl Default for InboxTable {
    fn default() -> Self {
        Self { insert: INSERT.replace("{table}", "punctual_inbox") }
    }
}

/// What the row of a task has in its columns, in the order of `inbox.sql`.
struct InboxRow {
    namespace: Option<String>,
    queue: String,
    kind: Option<String>,
    key: Option<String>,
    task_version: Option<i64>,
    name: Option<String>,
    priority: Option<i64>,
    execute_at_ms: Option<i64>,
    delay_ms: Option<i64>,
    payload: Option<String>,
    payload_bytes: Option<Vec<u8>>,
    max_attempts: Option<i64>,
    retry: Option<String>,
    timeout_ms: Option<i64>,
    deadline_ms: Option<i64>,
    labels: Option<String>,
    concurrency_key: Option<String>,
    handler_versions: Option<String>,
    traceparent: Option<String>,
}

impl InboxRow {
    fn of(namespace: Option<&str>, task: &InsertTask) -> Result<Self, InboxError> {
        task.check()?;
        fits(task)?;
        let (execute_at_ms, delay_ms) = match task.schedule().map_err(Invalid::from)? {
            None => (None, None),
            Some(When::AtMs(at_ms)) => (Some(at_ms), None),
            Some(When::AfterMs(after_ms)) => (None, Some(after_ms)),
        };
        let labels = Some(&task.labels).filter(|labels| !labels.is_empty());
        Ok(Self {
            namespace: namespace.map(str::to_owned),
            queue: task.queue.clone(),
            kind: task.kind.clone(),
            key: task.key.clone(),
            task_version: task.task_version.map(i64::from),
            name: task.name.clone(),
            priority: task.priority.map(i64::from),
            execute_at_ms,
            delay_ms,
            payload: task.payload.as_ref().map(|payload| payload.get().to_owned()),
            payload_bytes: task.payload_base64.as_ref().map(|bytes| bytes.0.clone()),
            max_attempts: task.max_attempts.map(i64::from),
            retry: task.retry.as_ref().map(serde_json::to_string).transpose()?,
            timeout_ms: task.timeout_ms,
            deadline_ms: task.deadline_ms,
            labels: labels.map(serde_json::to_string).transpose()?,
            concurrency_key: task.concurrency_key.clone(),
            handler_versions: task.handler_versions.clone(),
            traceparent: task.traceparent.clone(),
        })
    }
}

fn fits(task: &InsertTask) -> Result<(), Invalid> {
    if task.task_id.is_some() {
        return Err(FieldError::new("/task_id", "an inbox has no such column; take a key").into());
    }
    if task.on_conflict.is_some_and(|on_conflict| on_conflict != OnConflict::Keep) {
        let problem = "must be keep in an inbox; to replace a task, give a higher task_version";
        return Err(FieldError::new("/on_conflict", problem).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_name_that_is_safe_in_a_statement() {
        assert!(InboxTable::named("jobs").unwrap().insert.contains("INSERT INTO `jobs` ("));
        assert!(InboxTable::default().insert.contains("INSERT INTO `punctual_inbox` ("));
        for wrong in ["", "Jobs", "a`b", "1a", &"a".repeat(48)] {
            assert!(InboxTable::named(wrong).is_err(), "{wrong}");
        }
    }
}
