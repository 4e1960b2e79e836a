//! One task as one line of JSON, and back. The lines are read for ever: a field is never renamed and never gets
//! another meaning, new ones are optional, unknown ones are passed over. docs/archive.md explains each.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use punctual_domain::{
    history::Entry,
    insert::OnConflict,
    key::Key as Identity,
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    retry::RetryPolicy,
    state::{Event, State},
    task::{Content, Demands, Lease, NewTask, Priority, Task, TaskResult},
    time::Millis,
};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, collections::BTreeMap};

type Text<'a> = Cow<'a, str>;

/// The fields of a line that a search needs.
#[derive(Debug, Deserialize)]
pub(super) struct SearchKey<'a> {
    pub(super) id: i64,
    #[serde(borrow)]
    pub(super) namespace: Text<'a>,
    pub(super) task_id: Option<i64>,
}

/// The fields of a line in the order in which they are written. Instants (`_at`, `_until`, `_since`, history `at`) are
/// UTC epoch milliseconds.
#[derive(Debug, Serialize, Deserialize)]
struct TaskLine<'a> {
    /// The reference that was issued, for people who search the text. Its parts follow.
    #[serde(rename = "ref", default)]
    reference: String,
    id: i64,
    partition: u16,
    place_due_at: i64,
    #[serde(borrow)]
    namespace: Text<'a>,
    #[serde(borrow)]
    queue: Text<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task_id: Option<i64>,
    task_version: i64,
    #[serde(borrow)]
    kind: Text<'a>,
    priority: Priority,
    state: State,
    execute_at: i64,
    due_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fired_at: Option<i64>,
    created_at: i64,
    updated_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keep_until: Option<i64>,
    fence: i64,
    attempt: u32,
    max_attempts: u32,
    /// Also when it is the default one, which may be another in ten years.
    retry: Cow<'a, RetryPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadline_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "no_labels")]
    labels: Cow<'a, BTreeMap<String, String>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    traceparent: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "no_demands")]
    demands: Cow<'a, Demands>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<Cow<'a, Identity>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    payload: Bytes<'a>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    lease: Option<RecordedLease<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    progress: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    log: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    result: Option<ArchivedOutcome<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    last_error: Option<Text<'a>>,
    #[serde(borrow)]
    history: Vec<Change<'a>>,
}

/// Exactly one of `text` and `base64`: bytes that are UTF-8 stand as such.
#[derive(Debug, Serialize, Deserialize)]
struct Bytes<'a> {
    is_json: bool,
    /// The bytes are an object of their own, which stays: this is its length and key.
    #[serde(default, skip_serializing_if = "is_false")]
    is_outside: bool,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    base64: Option<Text<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct RecordedLease<'a> {
    #[serde(borrow)]
    executor: Text<'a>,
    until: i64,
    since: i64,
    cancel_requested: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct ArchivedOutcome<'a> {
    status_code: i64,
    #[serde(borrow)]
    status_msg: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    content: Option<Bytes<'a>>,
}

/// A line of the history. Without `event`, it is the insert.
#[derive(Debug, Serialize, Deserialize)]
struct Change<'a> {
    at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    event: Option<Event>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<State>,
    to: State,
    attempt: u32,
    #[serde(borrow)]
    by: Text<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    due_at: Option<i64>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    reason: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    error: Option<Text<'a>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

fn no_demands(demands: &Demands) -> bool {
    demands.is_none()
}

fn no_labels(labels: &BTreeMap<String, String>) -> bool {
    labels.is_empty()
}

/// Appends the task's line, its end included.
pub(super) fn write(task: &Task, to: &mut Vec<u8>) {
    serde_json::to_writer(&mut *to, &line(task)).expect("strings and numbers always have a JSON form");
    to.push(b'\n');
}

/// The problem, if the line is no task.
pub(super) fn read(text: &str) -> Result<Task, String> {
    let line: TaskLine<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    task(line)
}

fn line(task: &Task) -> TaskLine<'_> {
    let ask = &task.ask;
    TaskLine {
        reference: task.place.to_string(),
        id: task.place.id,
        partition: task.place.partition.0,
        place_due_at: task.place.due_at.0,
        namespace: Cow::Borrowed(ask.queue.namespace.as_str()),
        queue: Cow::Borrowed(ask.queue.queue.as_str()),
        task_id: ask.task_id,
        task_version: ask.task_version,
        kind: Cow::Borrowed(ask.kind.as_str()),
        priority: ask.priority,
        state: task.state,
        execute_at: ask.execute_at.0,
        due_at: task.due_at.0,
        fired_at: task.fired_at.map(|fired_at| fired_at.0),
        created_at: task.created_at.0,
        updated_at: task.updated_at.0,
        keep_until: task.keep_until.map(|at| at.0),
        fence: task.fence,
        attempt: task.attempt,
        max_attempts: ask.max_attempts,
        retry: Cow::Borrowed(&ask.retry),
        timeout_ms: ask.timeout_ms,
        deadline_ms: ask.deadline_ms,
        labels: Cow::Borrowed(&ask.labels),
        traceparent: borrowed(ask.traceparent.as_ref()),
        demands: Cow::Borrowed(&ask.demands),
        key: ask.key.as_ref().map(Cow::Borrowed),
        name: borrowed(ask.name.as_ref()),
        payload: Bytes::of(&ask.payload),
        lease: task.lease.as_ref().map(RecordedLease::of),
        progress: borrowed(task.progress.as_ref()),
        log: borrowed(task.log.as_ref()),
        result: task.result.as_ref().map(ArchivedOutcome::of),
        last_error: borrowed(task.last_error.as_ref()),
        history: task.history.iter().map(Change::of).collect(),
    }
}

fn task(line: TaskLine<'_>) -> Result<Task, String> {
    let place =
        TaskRef { partition: Partition(line.partition), due_at: Millis(line.place_due_at), id: line.id };
    Ok(Task {
        place,
        state: line.state,
        fence: line.fence,
        attempt: line.attempt,
        due_at: Millis(line.due_at),
        fired_at: line.fired_at.map(Millis),
        created_at: Millis(line.created_at),
        updated_at: Millis(line.updated_at),
        keep_until: line.keep_until.map(Millis),
        lease: line.lease.map(RecordedLease::lease),
        progress: line.progress.map(Cow::into_owned),
        log: line.log.map(Cow::into_owned),
        result: line.result.map(ArchivedOutcome::result).transpose()?,
        last_error: line.last_error.map(Cow::into_owned),
        history: line.history.into_iter().map(Change::entry).collect(),
        ask: NewTask {
            queue: QueueKey { namespace: name(&line.namespace)?, queue: name(&line.queue)? },
            task_id: line.task_id,
            task_version: line.task_version,
            kind: name(&line.kind)?,
            priority: line.priority,
            execute_at: Millis(line.execute_at),
            payload: line.payload.content()?,
            max_attempts: line.max_attempts,
            retry: line.retry.into_owned(),
            timeout_ms: line.timeout_ms,
            deadline_ms: line.deadline_ms,
            labels: line.labels.into_owned(),
            traceparent: line.traceparent.map(Cow::into_owned),
            demands: line.demands.into_owned(),
            key: line.key.map(Cow::into_owned),
            name: line.name.map(Cow::into_owned),
            on_conflict: OnConflict::default(),
            insert_by: None,
        },
    })
}

fn name(text: &str) -> Result<Name, String> {
    Name::new(text).map_err(|error| error.to_string())
}

fn borrowed(text: Option<&String>) -> Option<Text<'_>> {
    text.map(|text| Cow::Borrowed(text.as_str()))
}

impl<'a> Bytes<'a> {
    fn of(content: &'a Content) -> Self {
        let (is_json, is_outside) = (content.is_json, content.is_outside);
        match str::from_utf8(&content.bytes) {
            Ok(text) => Self { is_json, is_outside, text: Some(Cow::Borrowed(text)), base64: None },
            Err(_) => {
                Self { is_json, is_outside, text: None, base64: Some(STANDARD.encode(&content.bytes).into()) }
            }
        }
    }

    fn content(self) -> Result<Content, String> {
        let bytes = match (self.text, self.base64) {
            (Some(text), None) => text.into_owned().into_bytes(),
            (None, Some(base64)) => STANDARD.decode(&*base64).map_err(|error| error.to_string())?,
            _ => return Err("a content has neither text nor base64, or both".to_owned()),
        };
        Ok(Content { is_json: self.is_json, is_outside: self.is_outside, bytes })
    }
}

impl<'a> RecordedLease<'a> {
    fn of(lease: &'a Lease) -> Self {
        Self {
            executor: Cow::Borrowed(&lease.executor),
            until: lease.until.0,
            since: lease.since.0,
            cancel_requested: lease.cancel_requested,
        }
    }

    fn lease(self) -> Lease {
        Lease {
            executor: self.executor.into_owned(),
            until: Millis(self.until),
            since: Millis(self.since),
            cancel_requested: self.cancel_requested,
        }
    }
}

impl<'a> ArchivedOutcome<'a> {
    fn of(result: &'a TaskResult) -> Self {
        Self {
            status_code: result.status_code,
            status_msg: Cow::Borrowed(&result.status_msg),
            content: result.content.as_ref().map(Bytes::of),
        }
    }

    fn result(self) -> Result<TaskResult, String> {
        Ok(TaskResult {
            status_code: self.status_code,
            status_msg: self.status_msg.into_owned(),
            content: self.content.map(Bytes::content).transpose()?,
        })
    }
}

impl<'a> Change<'a> {
    fn of(entry: &'a Entry) -> Self {
        Self {
            at: entry.at.0,
            event: entry.event,
            from: entry.from,
            to: entry.to,
            attempt: entry.attempt,
            by: Cow::Borrowed(&entry.by),
            due_at: entry.due_at.map(|due_at| due_at.0),
            reason: borrowed(entry.reason.as_ref()),
            error: borrowed(entry.error.as_ref()),
        }
    }

    fn entry(self) -> Entry {
        Entry {
            at: Millis(self.at),
            event: self.event,
            from: self.from,
            to: self.to,
            attempt: self.attempt,
            by: self.by.into_owned(),
            due_at: self.due_at.map(Millis),
            reason: self.reason.map(Cow::into_owned),
            error: self.error.map(Cow::into_owned),
        }
    }
}
