//! Rows of new tasks: the registry first, because its unique key is what decides between two engines.

use super::ask::{Ask, Row};
use crate::{
    extras,
    mysql::{
        ledger::Ledger,
        lookup::Entries,
        pauses::Pauses,
        row,
        statements::{Many, bind, sql},
    },
};
use punctual_domain::{
    history::{self, Note},
    place::TaskRef,
    retry::RetryPolicy,
    state::State,
    time::Millis,
};
use sqlx::{MySqlConnection, mysql::MySqlArguments};

static INSERT_ENTRIES: Many = Many::new(sql!(insert, insert_entries));
static INSERT_TASKS: Many = Many::new(sql!(insert, insert_tasks));
static INSERT_PLAIN_TASKS: Many = Many::new(sql!(insert, insert_plain_tasks));

/// The rows stand in the order of their keys.
pub(super) async fn create(
    conn: &mut MySqlConnection,
    ledger: &mut Ledger,
    pauses: &Pauses,
    rows: &[Row<'_>],
) -> sqlx::Result<()> {
    for (part, text) in INSERT_ENTRIES.parts(rows) {
        let mut values = MySqlArguments::default();
        for row in part {
            bind_key(&mut values, row)?;
        }
        sqlx::query_with(text, values).execute(&mut *conn).await?;
    }
    let mut rows = rows.to_vec();
    rows.sort_unstable_by_key(Row::place);
    let mut entries = Entries::default();
    rows.iter().for_each(|row| row.entered(&mut entries, pauses, row.place()));
    entries.add(conn).await?;
    let mut line = FirstHistoryLine::default();
    let (plain, others): (Vec<Row<'_>>, Vec<Row<'_>>) = rows.iter().copied().partition(is_plain);
    for (statement, rows, bind) in
        [(&INSERT_PLAIN_TASKS, plain, bind_plain as Bind), (&INSERT_TASKS, others, bind_task)]
    {
        for (part, text) in statement.parts(&rows) {
            let mut values = MySqlArguments::default();
            for row in part {
                bind(&mut values, row, line.of(row.ask))?;
            }
            sqlx::query_with(text, values).execute(&mut *conn).await?;
        }
    }
    for row in &rows {
        if row::inline(&row.ask.task.payload).is_none() {
            keep_body(conn, row.place(), &row.ask.task.payload.bytes).await?;
        }
        let (queue, bytes) = (&row.ask.task.queue, row::size(&row.ask.task.payload));
        let names = [queue.namespace.as_str(), queue.queue.as_str(), row.ask.task.kind.as_str()];
        ledger.chunks.enter(names, row.id);
        ledger.moved((queue.namespace.as_str(), queue.queue.as_str()), None, Some(State::Scheduled), bytes);
    }
    ledger.accepted(i64::try_from(rows.len()).unwrap_or(i64::MAX));
    Ok(())
}

pub(super) async fn keep_body(conn: &mut MySqlConnection, place: TaskRef, bytes: &[u8]) -> sqlx::Result<()> {
    let partition = row::partition_no(place.partition);
    sqlx::query(sql!(insert, insert_body)).bind(partition).bind(place.id).bind(bytes).execute(conn).await?;
    Ok(())
}

fn bind_key(values: &mut MySqlArguments, row: &Row<'_>) -> sqlx::Result<()> {
    let (partition, namespace, task_id, version) = row.key();
    bind!(values, row::partition_no(partition), namespace, task_id, version, row.id, row.ask.due_at().0);
    Ok(())
}

type Bind = fn(&mut MySqlArguments, &Row<'_>, &str) -> sqlx::Result<()>;

/// It has nothing that `insert_plain_tasks` in insert.sql leaves out.
fn is_plain(row: &Row<'_>) -> bool {
    let task = &row.ask.task;
    task.timeout_ms.is_none()
        && task.deadline_ms.is_none()
        && task.retry == RetryPolicy::default()
        && task.labels.is_empty()
        && task.traceparent.is_none()
        && extras::is_none(task)
}

fn bind_plain(values: &mut MySqlArguments, row: &Row<'_>, line: &str) -> sqlx::Result<()> {
    let (place, Ask { task, now, .. }) = (row.place(), row.ask);
    bind!(values, row::partition_no(place.partition), place.due_at.0, place.id);
    bind!(values, task.queue.namespace.as_str(), row.task_id, task.task_version, task.queue.queue.as_str());
    bind!(values, task.kind.as_str(), task.priority.level(), i64::from(task.max_attempts));
    bind!(values, task.execute_at.0, now.0, i64::from(task.payload.code()));
    bind!(values, row::inline(&task.payload), line);
    Ok(())
}

fn bind_task(values: &mut MySqlArguments, row: &Row<'_>, line: &str) -> sqlx::Result<()> {
    let (place, Ask { task, now, .. }) = (row.place(), row.ask);
    bind!(values, row::partition_no(place.partition), place.due_at.0, place.id);
    bind!(values, task.queue.namespace.as_str(), row.task_id, task.task_version, task.queue.queue.as_str());
    bind!(values, task.kind.as_str(), task.priority.level(), i64::from(task.max_attempts));
    bind!(values, task.execute_at.0, place.due_at.0, now.0, now.0, task.timeout_ms, task.deadline_ms);
    bind!(values, row::retry_text(&task.retry), row::labels_text(&task.labels), task.traceparent.as_deref());
    bind!(values, i64::from(task.payload.code()), row::inline(&task.payload), line);
    bind!(values, extras::text(task));
    Ok(())
}

/// The first history line: the tasks of a batch often share it.
#[derive(Default)]
struct FirstHistoryLine<'a> {
    of: Option<(Millis, Millis, &'a str)>,
    text: String,
}

impl<'a> FirstHistoryLine<'a> {
    fn of(&mut self, ask: &'a Ask) -> &str {
        let of = (ask.now, ask.due_at(), &*ask.by);
        if self.of != Some(of) {
            self.of = Some(of);
            self.text = first_line(ask);
        }
        &self.text
    }
}

fn first_line(ask: &Ask) -> String {
    let note = Note { by: (*ask.by).to_owned(), due_at: Some(ask.due_at()), ..Note::default() };
    let line = history::line(ask.now, None, &note);
    format!("{}{},0{}", line.head, State::Scheduled.code(), line.tail)
}
