//! Converts a row to a task, and back to column values. A row that does not decode is an error that names the column,
//! never a guess.

use crate::extras;
use punctual_domain::{
    history,
    insert::OnConflict,
    key::Key,
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    retry::RetryPolicy,
    state::State,
    task::{Content, Demands, Lease, NewTask, Priority, Task, TaskResult},
    time::Millis,
};
use rusqlite::{Row, types::Type};
use std::{collections::BTreeMap, error};

/// Payloads up to this many bytes stay in the task's row; longer ones would be rewritten at every move.
pub(crate) const PAYLOAD_INLINE_MAX: usize = 1_024;

/// The columns of the view `whole_task`, in its order.
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

pub(crate) fn whole_task(row: &Row<'_>) -> rusqlite::Result<Task> {
    let history = text(row, Column::History)?.unwrap_or_default();
    Ok(Task {
        place: TaskRef {
            partition: Partition(get(row, Column::Partition)?),
            due_at: millis(row, Column::PlaceDueAt as usize)?,
            id: get(row, Column::Id)?,
        },
        ask: ask(row)?,
        state: state(row, Column::State as usize)?,
        fence: get(row, Column::Fence)?,
        attempt: get(row, Column::Attempt)?,
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

fn ask(row: &Row<'_>) -> rusqlite::Result<NewTask> {
    let extras = extras::read(text(row, Column::Demands)?);
    let (demands, key, title) = extras.map_err(|error| odd(Column::Demands as usize, error))?;
    Ok(NewTask {
        queue: queue_key(row, Column::Namespace as usize, Column::Queue as usize)?,
        task_id: Some(get(row, Column::TaskId)?),
        task_version: get(row, Column::TaskVersion)?,
        kind: name(row, Column::Kind as usize)?,
        priority: priority(row, Column::Priority as usize)?,
        execute_at: millis(row, Column::ExecuteAt as usize)?,
        payload: content(row, Column::PayloadIsJson as usize, Column::Payload as usize)?,
        max_attempts: get(row, Column::MaxAttempts)?,
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

fn lease(row: &Row<'_>) -> rusqlite::Result<Option<Lease>> {
    let Some(until) = get::<Option<i64>>(row, Column::LeaseUntil)? else { return Ok(None) };
    Ok(Some(Lease {
        executor: get(row, Column::LeaseExecutor)?,
        until: Millis(until),
        since: millis(row, Column::LeaseSince as usize)?,
        cancel_requested: get(row, Column::CancelRequested)?,
    }))
}

fn result(row: &Row<'_>) -> rusqlite::Result<Option<TaskResult>> {
    let Some(status_code) = get(row, Column::ResultCode)? else { return Ok(None) };
    let content = match get::<Option<u8>>(row, Column::ResultIsJson)? {
        Some(_) => Some(content(row, Column::ResultIsJson as usize, Column::ResultBody as usize)?),
        None => None,
    };
    Ok(Some(TaskResult { status_code, status_msg: get(row, Column::ResultMsg)?, content }))
}

/// Reads a content from the column of its code and that of its bytes.
pub(crate) fn content(row: &Row<'_>, code: usize, bytes: usize) -> rusqlite::Result<Content> {
    content_of(row, code, row.get(bytes)?)
}

/// Reads a content from the column of its code, and its bytes.
pub(crate) fn content_of(row: &Row<'_>, code: usize, bytes: Vec<u8>) -> rusqlite::Result<Content> {
    let number: u8 = row.get(code)?;
    Content::from_code(number, bytes)
        .ok_or_else(|| odd(code, format!("{number} is not the code of a content")))
}

fn get<T: rusqlite::types::FromSql>(row: &Row<'_>, at: Column) -> rusqlite::Result<T> {
    row.get(at as usize)
}

fn text<'r>(row: &'r Row<'_>, at: Column) -> rusqlite::Result<Option<&'r str>> {
    Ok(row.get_ref(at as usize)?.as_str_or_null()?)
}

fn retry(row: &Row<'_>) -> rusqlite::Result<RetryPolicy> {
    let Some(json) = text(row, Column::Retry)? else { return Ok(RetryPolicy::default()) };
    serde_json::from_str(json).map_err(|error| odd(Column::Retry as usize, error))
}

pub(crate) fn labels(row: &Row<'_>, at: usize) -> rusqlite::Result<BTreeMap<String, String>> {
    let Some(json) = row.get_ref(at)?.as_str_or_null()? else { return Ok(BTreeMap::new()) };
    serde_json::from_str(json).map_err(|error| odd(at, error))
}

pub(crate) fn demands(row: &Row<'_>, at: usize) -> rusqlite::Result<Demands> {
    let Some(json) = row.get_ref(at)?.as_str_or_null()? else { return Ok(Demands::default()) };
    serde_json::from_str(json).map_err(|error| odd(at, error))
}

/// Reads the key alone, from the rare fields of a task.
pub(crate) fn key(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Key>> {
    let (_, key, _) = extras::read(row.get_ref(at)?.as_str_or_null()?).map_err(|error| odd(at, error))?;
    Ok(key)
}

pub(crate) fn millis(row: &Row<'_>, at: usize) -> rusqlite::Result<Millis> {
    row.get(at).map(Millis)
}

pub(crate) fn name(row: &Row<'_>, at: usize) -> rusqlite::Result<Name> {
    Name::new(row.get_ref(at)?.as_str()?).map_err(|error| odd(at, error))
}

pub(crate) fn queue_key(row: &Row<'_>, namespace: usize, queue: usize) -> rusqlite::Result<QueueKey> {
    Ok(QueueKey { namespace: name(row, namespace)?, queue: name(row, queue)? })
}

pub(crate) fn state(row: &Row<'_>, at: usize) -> rusqlite::Result<State> {
    let code: u8 = row.get(at)?;
    State::from_code(code).ok_or_else(|| odd(at, format!("{code} is not the code of a state")))
}

pub(crate) fn priority(row: &Row<'_>, at: usize) -> rusqlite::Result<Priority> {
    Priority::new(row.get(at)?).map_err(|error| odd(at, error))
}

fn odd(at: usize, problem: impl Into<Box<dyn error::Error + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(at, Type::Text, problem.into())
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
