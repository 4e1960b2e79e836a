//! Converts a row to a task, and back to column values. A row that does not decode is an error that names the column,
//! never a guess.

use crate::extras;
use punctual_domain::{
    history,
    insert::OnConflict,
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    retry::RetryPolicy,
    state::State,
    task::{Content, Demands, Lease, NewTask, Priority, Task, TaskResult},
    time::Millis,
};
use sqlx::{Decode, MySql, Row as _, Type, mysql::MySqlRow};
use std::{collections::BTreeMap, error};

/// Payloads up to this many bytes stay in the task's row; longer ones would be rewritten at every move.
pub(crate) const PAYLOAD_INLINE_MAX: usize = 1_024;

/// The columns that a statement for complete tasks selects, in the order of `Column`. A test compares the scripts
/// with it. `body` is joined for the payloads that are not inline.
#[cfg(test)]
pub(crate) const TASK_COLUMNS: &str = "task.id, task.partition_no, task.namespace, task.task_id, task.task_version, \
     queue, kind, priority, state, fence, attempt, max_attempts, execute_at, task.due_at, fired_at, created_at, \
     updated_at, keep_until, place_due_at, timeout_ms, deadline_ms, lease_executor, lease_since, lease_until, \
     cancel_requested, retry, labels, traceparent, demands, progress, log, result_code, result_msg, result_is_json, result_body, \
     last_error, payload_is_json, COALESCE(task.payload, body.payload),";

/// The number of those columns, with the history: further ones of a statement come after them.
pub(crate) const TASK_COLUMNS_LEN: usize = Column::History as usize + 1;

#[derive(Clone, Copy)]
#[repr(usize)]
enum Column {
    Id,
    Partition,
    Namespace,
    TaskId,
    TaskVersion,
    Queue,
    Kind,
    Priority,
    State,
    Fence,
    Attempt,
    MaxAttempts,
    ExecuteAt,
    DueAt,
    FiredAt,
    CreatedAt,
    UpdatedAt,
    KeepUntil,
    PlaceDueAt,
    TimeoutMs,
    DeadlineMs,
    LeaseExecutor,
    LeaseSince,
    LeaseUntil,
    CancelRequested,
    Retry,
    Labels,
    Traceparent,
    Demands,
    Progress,
    Log,
    ResultCode,
    ResultMsg,
    ResultIsJson,
    ResultBody,
    LastError,
    PayloadIsJson,
    Payload,
    History,
}

pub(crate) fn whole_task(row: &MySqlRow) -> sqlx::Result<Task> {
    let history: &str = get(row, Column::History)?;
    Ok(Task {
        place: TaskRef {
            partition: partition(row, Column::Partition as usize)?,
            due_at: millis(row, Column::PlaceDueAt as usize)?,
            id: get(row, Column::Id)?,
        },
        ask: ask(row)?,
        state: state(row, Column::State as usize)?,
        fence: get(row, Column::Fence)?,
        attempt: small(row, Column::Attempt as usize)?,
        due_at: millis(row, Column::DueAt as usize)?,
        fired_at: get::<Option<i64>>(row, Column::FiredAt)?.map(Millis),
        created_at: millis(row, Column::CreatedAt as usize)?,
        updated_at: millis(row, Column::UpdatedAt as usize)?,
        keep_until: get::<Option<i64>>(row, Column::KeepUntil)?.map(Millis),
        lease: lease(row)?,
        progress: get(row, Column::Progress)?,
        log: get(row, Column::Log)?,
        result: result(row)?,
        last_error: get(row, Column::LastError)?,
        history: history::decode(history),
    })
}

fn ask(row: &MySqlRow) -> sqlx::Result<NewTask> {
    let extras = extras::read(get::<Option<&str>>(row, Column::Demands)?);
    let (demands, key, title) = extras.map_err(|error| odd(Column::Demands as usize, error))?;
    Ok(NewTask {
        queue: queue_key(row, Column::Namespace as usize, Column::Queue as usize)?,
        task_id: Some(get(row, Column::TaskId)?),
        task_version: get(row, Column::TaskVersion)?,
        kind: name(row, Column::Kind as usize)?,
        priority: priority(row, Column::Priority as usize)?,
        execute_at: millis(row, Column::ExecuteAt as usize)?,
        payload: content(row, Column::PayloadIsJson as usize, Column::Payload as usize)?,
        max_attempts: small(row, Column::MaxAttempts as usize)?,
        retry: retry(row)?,
        timeout_ms: get(row, Column::TimeoutMs)?,
        deadline_ms: get(row, Column::DeadlineMs)?,
        labels: labels(row, Column::Labels as usize)?,
        traceparent: get(row, Column::Traceparent)?,
        demands,
        key,
        name: title,
        on_conflict: OnConflict::default(),
        insert_by: None,
    })
}

fn lease(row: &MySqlRow) -> sqlx::Result<Option<Lease>> {
    let Some(until) = get::<Option<i64>>(row, Column::LeaseUntil)? else { return Ok(None) };
    Ok(Some(Lease {
        executor: get(row, Column::LeaseExecutor)?,
        until: Millis(until),
        since: millis(row, Column::LeaseSince as usize)?,
        cancel_requested: get(row, Column::CancelRequested)?,
    }))
}

fn result(row: &MySqlRow) -> sqlx::Result<Option<TaskResult>> {
    let Some(status_code) = get(row, Column::ResultCode)? else { return Ok(None) };
    let content = match get::<Option<i64>>(row, Column::ResultIsJson)? {
        Some(_) => Some(content(row, Column::ResultIsJson as usize, Column::ResultBody as usize)?),
        None => None,
    };
    Ok(Some(TaskResult { status_code, status_msg: get(row, Column::ResultMsg)?, content }))
}

/// Reads a content from the column of its code and that of its bytes.
pub(crate) fn content(row: &MySqlRow, code: usize, bytes: usize) -> sqlx::Result<Content> {
    content_of(row, code, row.try_get(bytes)?)
}

/// Reads a content from the column of its code, and its bytes.
pub(crate) fn content_of(row: &MySqlRow, code: usize, bytes: Vec<u8>) -> sqlx::Result<Content> {
    let number: u8 = small(row, code)?;
    Content::from_code(number, bytes)
        .ok_or_else(|| odd(code, format!("{number} is not the code of a content")))
}

fn get<'r, T: Decode<'r, MySql> + Type<MySql>>(row: &'r MySqlRow, at: Column) -> sqlx::Result<T> {
    row.try_get(at as usize)
}

fn retry(row: &MySqlRow) -> sqlx::Result<RetryPolicy> {
    let Some(json) = get::<Option<&str>>(row, Column::Retry)? else { return Ok(RetryPolicy::default()) };
    serde_json::from_str(json).map_err(|error| odd(Column::Retry as usize, error))
}

pub(crate) fn labels(row: &MySqlRow, at: usize) -> sqlx::Result<BTreeMap<String, String>> {
    let Some(json) = row.try_get::<Option<&str>, _>(at)? else { return Ok(BTreeMap::new()) };
    serde_json::from_str(json).map_err(|error| odd(at, error))
}

pub(crate) fn demands(row: &MySqlRow, at: usize) -> sqlx::Result<Demands> {
    let Some(json) = row.try_get::<Option<&str>, _>(at)? else { return Ok(Demands::default()) };
    serde_json::from_str(json).map_err(|error| odd(at, error))
}

pub(crate) fn millis(row: &MySqlRow, at: usize) -> sqlx::Result<Millis> {
    row.try_get(at).map(Millis)
}

pub(crate) fn partition(row: &MySqlRow, at: usize) -> sqlx::Result<Partition> {
    small(row, at).map(Partition)
}

pub(crate) fn name(row: &MySqlRow, at: usize) -> sqlx::Result<Name> {
    Name::new(row.try_get(at)?).map_err(|error| odd(at, error))
}

pub(crate) fn queue_key(row: &MySqlRow, namespace: usize, queue: usize) -> sqlx::Result<QueueKey> {
    Ok(QueueKey { namespace: name(row, namespace)?, queue: name(row, queue)? })
}

pub(crate) fn state(row: &MySqlRow, at: usize) -> sqlx::Result<State> {
    let code: u8 = small(row, at)?;
    State::from_code(code).ok_or_else(|| odd(at, format!("{code} is not the code of a state")))
}

pub(crate) fn priority(row: &MySqlRow, at: usize) -> sqlx::Result<Priority> {
    Priority::new(small(row, at)?).map_err(|error| odd(at, error))
}

/// A number that is narrower here than its column: all columns are signed, because the driver decodes no others.
pub(crate) fn small<T>(row: &MySqlRow, at: usize) -> sqlx::Result<T>
where
    T: TryFrom<i64, Error: error::Error + Send + Sync + 'static>,
{
    T::try_from(row.try_get::<i64, _>(at)?).map_err(|error| odd(at, error))
}

pub(crate) fn odd(at: usize, problem: impl Into<Box<dyn error::Error + Send + Sync>>) -> sqlx::Error {
    sqlx::Error::ColumnDecode { index: at.to_string(), source: problem.into() }
}

/// The column value of a policy: NULL is the default one, which most tasks have.
pub(crate) fn retry_text(retry: &RetryPolicy) -> Option<String> {
    let text = || serde_json::to_string(retry).expect("numbers and words always have a JSON form");
    (*retry != RetryPolicy::default()).then(text)
}

pub(crate) fn labels_text(labels: &BTreeMap<String, String>) -> Option<String> {
    let text = || serde_json::to_string(labels).expect("a map of strings always has a JSON form");
    (!labels.is_empty()).then(text)
}

/// The size of a payload, inside or outside of the store.
pub(crate) fn size(payload: &Content) -> i64 {
    i64::try_from(payload.size()).unwrap_or(i64::MAX)
}

/// The payload column: None when the bytes belong into `body`.
pub(crate) fn inline(payload: &Content) -> Option<&[u8]> {
    (payload.bytes.len() <= PAYLOAD_INLINE_MAX).then_some(&payload.bytes)
}

/// The number of a partition as its column has it.
pub(crate) fn partition_no(partition: Partition) -> i32 {
    i32::from(partition.0)
}
