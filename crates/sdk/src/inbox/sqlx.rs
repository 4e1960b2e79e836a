//! With sqlx.

use super::{InboxError, InboxRow, InboxTable};
use punctual_protocol::InsertTask;
use sqlx::{AssertSqlSafe, MySqlConnection};

/// Writes a task into the inbox `punctual_inbox`, in the inbox's namespace, else `default`: it exists when the transaction commits.
/// Answers the row's number.
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
/// A task that the server would refuse; one with a `task_id`, or with another `on_conflict` than `keep`: a row has a key, and
/// is kept; a failing database.
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
    insert_into_table(transaction, &InboxTable::default(), namespace, task).await
}

/// The same, in another table.
///
/// # Errors
/// See [`insert_in`].
pub async fn insert_into_table(
    transaction: &mut MySqlConnection,
    table: &InboxTable,
    namespace: Option<&str>,
    task: &InsertTask,
) -> Result<u64, InboxError> {
    let row = InboxRow::of(namespace, task)?;
    let insert = sqlx::query(AssertSqlSafe(table.insert.clone()))
        .bind(row.namespace)
        .bind(row.queue)
        .bind(row.kind)
        .bind(row.key)
        .bind(row.task_version)
        .bind(row.name)
        .bind(row.priority)
        .bind(row.execute_at_ms)
        .bind(row.delay_ms)
        .bind(row.payload)
        .bind(row.payload_bytes)
        .bind(row.max_attempts)
        .bind(row.retry)
        .bind(row.timeout_ms)
        .bind(row.deadline_ms)
        .bind(row.labels)
        .bind(row.concurrency_key)
        .bind(row.handler_versions)
        .bind(row.traceparent);
    Ok(insert.execute(transaction).await?.last_insert_id())
}
