//! Tasks that a transaction in the user's own MySQL or MariaDB inserts, into the table that `punctual inbox install` makes.
//! Must do nothing beside the caller's transaction.

use punctual_protocol::{FieldError, InsertTask, Invalid, OnConflict, When};
use sqlx::MySqlConnection;

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
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Writes a task into the inbox, in namespace `default`: it exists when the transaction commits. Answers the row's number.
///
/// ```no_run
/// # async fn run(pool: sqlx::MySqlPool) -> Result<(), Box<dyn std::error::Error>> {
/// use punctual_sdk::{NewTask, inbox::insert_in};
///
/// let mut tx = pool.begin().await?;
/// sqlx::query("UPDATE orders SET state = 'placed' WHERE id = 7").execute(&mut *tx).await?;
/// insert_in(&mut tx, &NewTask::to("mail").key("order-7").payload(&"ada")?.into()).await?;
/// tx.commit().await?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// The insert fails for a task that the server would refuse, for a task with a `task_id` or with another
/// `on_conflict` than `keep` (a row has a key, and is never replaced), and if the database fails.
pub async fn insert_in(transaction: &mut MySqlConnection, task: &InsertTask) -> Result<u64, InboxError> {
    insert_into(transaction, None, task).await
}

/// The same, in a namespace.
///
/// # Errors
/// See [`insert_in`].
pub async fn insert_into(
    transaction: &mut MySqlConnection,
    namespace: Option<&str>,
    task: &InsertTask,
) -> Result<u64, InboxError> {
    task.check()?;
    fits(task)?;
    let (execute_at_ms, delay_ms) = match task.schedule().map_err(Invalid::from)? {
        None => (None, None),
        Some(When::AtMs(at_ms)) => (Some(at_ms), None),
        Some(When::AfterMs(after_ms)) => (None, Some(after_ms)),
    };
    let retry = task.retry.as_ref().map(serde_json::to_string).transpose()?;
    let labels = Some(&task.labels).filter(|labels| !labels.is_empty());
    let labels = labels.map(serde_json::to_string).transpose()?;
    let insert = sqlx::query(INSERT)
        .bind(namespace)
        .bind(&task.queue)
        .bind(task.kind.as_deref())
        .bind(task.key.as_deref())
        .bind(task.task_version.map(i64::from))
        .bind(task.name.as_deref())
        .bind(task.priority.map(i64::from))
        .bind(execute_at_ms)
        .bind(delay_ms)
        .bind(task.payload.as_ref().map(|payload| payload.get().to_owned()))
        .bind(task.payload_base64.as_ref().map(|bytes| bytes.0.clone()))
        .bind(task.max_attempts.map(i64::from))
        .bind(retry)
        .bind(task.timeout_ms)
        .bind(task.deadline_ms)
        .bind(labels)
        .bind(task.concurrency_key.as_deref())
        .bind(task.handler_versions.as_deref())
        .bind(task.traceparent.as_deref());
    Ok(insert.execute(transaction).await?.last_insert_id())
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
