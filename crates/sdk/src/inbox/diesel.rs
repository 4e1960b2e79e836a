//! With diesel (2), on any connection to MySQL: `diesel::MysqlConnection`, one of a pool, or one of your own. Needs no client
//! library in C; the connection of your program may.

use super::{InboxError, InboxRow, InboxTable};
use diesel::{
    connection::Connection,
    mysql::Mysql,
    query_builder::{QueryFragment, QueryId},
    query_dsl::methods::ExecuteDsl,
    sql_types::{BigInt, Binary, Nullable, Text},
};
use punctual_protocol::InsertTask;

/// Writes a task into the inbox `punctual_inbox`, in the inbox's namespace, else `default`: it exists when the transaction of this
/// connection commits.
///
/// ```no_run
/// # use diesel::{Connection, mysql::Mysql};
/// # fn run<C: Connection<Backend = Mysql>>(connection: &mut C) -> Result<(), punctual_sdk::inbox::InboxError> {
/// use diesel::RunQueryDsl as _;
/// use punctual_sdk::{NewTask, inbox::diesel::insert_in};
///
/// connection.transaction(|connection| {
///     diesel::sql_query("UPDATE orders SET state = 'placed' WHERE id = 7").execute(connection)?;
///     insert_in(connection, &NewTask::to("mail").key("order-7").into())
/// })
/// # }
/// ```
///
/// # Errors
/// A task that the server would refuse; one with a `task_id`, or with another `on_conflict` than `keep`: a row has a key, and
/// is kept; a failing database.
pub fn insert_in<C: Connection<Backend = Mysql>>(
    connection: &mut C,
    task: &InsertTask,
) -> Result<(), InboxError> {
    insert_into_table(connection, &InboxTable::default(), None, task)
}

/// The same, in a table and a namespace.
///
/// # Errors
/// See [`insert_in`].
pub fn insert_into_table<C: Connection<Backend = Mysql>>(
    connection: &mut C,
    table: &InboxTable,
    namespace: Option<&str>,
    task: &InsertTask,
) -> Result<(), InboxError> {
    ExecuteDsl::execute(insert(table, InboxRow::of(namespace, task)?), connection)?;
    Ok(())
}

fn insert(table: &InboxTable, row: InboxRow) -> impl QueryFragment<Mysql> + QueryId {
    diesel::sql_query(&table.insert)
        .bind::<Nullable<Text>, _>(row.namespace)
        .bind::<Text, _>(row.queue)
        .bind::<Nullable<Text>, _>(row.kind)
        .bind::<Nullable<Text>, _>(row.key)
        .bind::<Nullable<BigInt>, _>(row.task_version)
        .bind::<Nullable<Text>, _>(row.name)
        .bind::<Nullable<BigInt>, _>(row.priority)
        .bind::<Nullable<BigInt>, _>(row.execute_at_ms)
        .bind::<Nullable<BigInt>, _>(row.delay_ms)
        .bind::<Nullable<Text>, _>(row.payload)
        .bind::<Nullable<Binary>, _>(row.payload_bytes)
        .bind::<Nullable<BigInt>, _>(row.max_attempts)
        .bind::<Nullable<Text>, _>(row.retry)
        .bind::<Nullable<BigInt>, _>(row.timeout_ms)
        .bind::<Nullable<BigInt>, _>(row.deadline_ms)
        .bind::<Nullable<Text>, _>(row.labels)
        .bind::<Nullable<Text>, _>(row.concurrency_key)
        .bind::<Nullable<Text>, _>(row.handler_versions)
        .bind::<Nullable<Text>, _>(row.traceparent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NewTask;
    use std::time::Duration;

    #[test]
    fn each_column_has_a_value() {
        let task = NewTask::to("mail").key("order-7").delay(Duration::from_secs(60));
        let row = InboxRow::of(Some("billing"), &task).unwrap();
        let shown = diesel::debug_query::<Mysql, _>(&insert(&InboxTable::default(), row)).to_string();
        let (statement, binds) = shown.split_once(" -- binds: ").unwrap();
        assert_eq!(statement.matches('?').count(), 19, "{statement}");
        let order = ["billing", "mail", "order-7", "60000"].map(|value| binds.find(value).unwrap());
        assert!(order.is_sorted(), "{binds}");
        let wrong = InboxRow::of(None, &NewTask::to("mail").task_id(7)).map(|_| ()).unwrap_err();
        assert!(wrong.to_string().contains("an inbox has no such column"), "{wrong}");
    }
}
