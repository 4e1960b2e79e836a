//! A task in answers. Every instant is given twice, as RFC 3339 and as epoch milliseconds; unknown values are
//! omitted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{At, Base64, Json, LogLine, Retry};

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The task waits for its time.
    Scheduled,
    /// The task of a push queue is about to be sent.
    Dispatching,
    /// The task has fired, and waits for a slot or a free executor.
    Ready,
    /// The task is on the bus, or leased.
    Dispatched,
    /// The executor has begun.
    Running,
    /// The task could not be sent. It is tried again.
    DispatchFailed,
    /// The attempt failed, and the next one has a time.
    Retrying,
    /// The task succeeded. It is stored until its retention ends.
    Succeeded,
    /// The task is dead: its attempts are used up, it was rejected, or it has timed out.
    Dead,
    /// The task was cancelled before it fired, or stopped on request.
    Cancelled,
    /// The retention of the task is over.
    Stopped,
    /// The task waits for its parents in a workflow.
    Blocked,
}

/// A general word for the state of a task: `pending` for scheduled, dispatching, ready,
/// dispatch_failed, retrying, blocked; `processing` for dispatched, running; `success` for succeeded;
/// `failed` for dead; `stopped` for cancelled, stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Pending,
    Processing,
    Success,
    Failed,
    Stopped,
}

/// The effect of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum InsertOutcome {
    Created,
    /// A task of the same id and version that had not begun, or was dead or cancelled, was replaced.
    Replaced,
    /// The task already existed. Nothing changed.
    Existing,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Task {
    /// The opaque reference of the task. It stays valid for ever, also after a reschedule.
    pub r#ref: String,
    pub namespace: String,
    pub task_id: i64,
    /// The key that the caller sent instead of a `task_id`. The engine then assigns the `task_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub task_version: i64,
    pub queue: String,
    pub kind: String,
    pub priority: u8,
    pub state: State,
    pub phase: Phase,
    /// The final state of a finished task: `succeeded`, `dead` or `cancelled`. It stays after retention, when `state`
    /// is `stopped`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_as: Option<State>,
    /// The effect of the insert. Only in answers to an insert.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<InsertOutcome>,
    pub execute_at: At,
    pub execute_at_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fired_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fired_at_ms: Option<i64>,
    /// `fired_at` − `execute_at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_ms: Option<i64>,
    /// The instant at which the current or last attempt was delivered. Present only in answers about one task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at_ms: Option<i64>,
    /// The instant at which the task succeeded, died or was cancelled. Present only in answers about one task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at_ms: Option<i64>,
    /// The number of the current or last attempt; 0 before the first.
    pub attempt: u32,
    pub max_attempts: u32,
    pub created_at: At,
    pub created_at_ms: i64,
    pub updated_at: At,
    pub updated_at_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "Json::some")]
    pub payload: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<Base64>,
    /// Present if the payload is stored outside the database and is not in this answer: its length in bytes. An answer
    /// about this task alone contains it, unless it is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_outside_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<TaskResult>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler_versions: Option<String>,
    /// The trace of its insert (W3C trace context).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The executor and the end of the lease. Present only for a task in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<TaskLease>,
    /// The last progress that its executor reported.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "Json::some")]
    pub progress: Option<Json>,
    /// Log lines of the task's handlers, the oldest first, at most 16 KiB. Present only in answers about one task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogLine>,
    /// All changes of state, the oldest first. Only in answers about one task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<HistoryEntry>,
}

impl Task {
    /// The opaque name that works for ever: `ref`, which is a word of Rust's own.
    pub fn reference(&self) -> &str {
        &self.r#ref
    }
}

/// The executor of a task, and the end of its lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TaskLease {
    /// The name of the executor; `bus` for a task that was sent over the bus and was not yet taken.
    pub executor: String,
    pub until: At,
    pub until_ms: i64,
    /// The executor is asked to stop, and learns this with its next heartbeat.
    #[serde(default)]
    pub cancel_requested: bool,
}

/// The executor's report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TaskResult {
    pub status_code: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_msg: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "Json::some")]
    pub result: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_base64: Option<Base64>,
    /// Like `payload_outside_bytes` of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_outside_bytes: Option<u64>,
}

/// One change of state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HistoryEntry {
    pub at: At,
    pub at_ms: i64,
    /// The event, for example `insert`, `fire`, `lease` or `fail`.
    pub event: String,
    /// Absent for the first entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<State>,
    pub to: State,
    pub attempt: u32,
    /// The author: a caller, an executor, or an engine. A `dispatch` names the executor. If the task was leased ahead of
    /// its time, it names the engine, in parentheses, until the executor is known: after 0.2 s, or by its first
    /// heartbeat. An attempt that ends sooner keeps the engine's name.
    pub by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The time of the next attempt, if the change set one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at_ms: Option<i64>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample() -> Task {
        let entry = HistoryEntry {
            at: At::from_ms(1_000),
            at_ms: 1_000,
            event: "insert".into(),
            from: None,
            to: State::Scheduled,
            attempt: 0,
            by: "api".into(),
            reason: None,
            error: None,
            due_at: Some(At::from_ms(2_500)),
            due_at_ms: Some(2_500),
        };
        Task {
            r#ref: "t_1".into(),
            namespace: "default".into(),
            task_id: 7,
            key: None,
            name: None,
            task_version: 1,
            queue: "mail".into(),
            kind: "welcome".into(),
            priority: 3,
            state: State::DispatchFailed,
            phase: Phase::Pending,
            ended_as: None,
            outcome: Some(InsertOutcome::Created),
            execute_at: At::from_ms(2_500),
            execute_at_ms: 2_500,
            fired_at: Some(At::from_ms(2_501)),
            fired_at_ms: Some(2_501),
            lateness_ms: Some(1),
            started_at: None,
            started_at_ms: None,
            finished_at: None,
            finished_at_ms: None,
            attempt: 1,
            max_attempts: 5,
            created_at: At::from_ms(1_000),
            created_at_ms: 1_000,
            updated_at: At::from_ms(1_000),
            updated_at_ms: 1_000,
            payload: Some(Json::from_text(r#"{"to": "x"}"#.into()).unwrap()),
            payload_base64: None,
            payload_outside_bytes: None,
            result: Some(TaskResult {
                status_code: 3,
                status_msg: Some("no".into()),
                ..TaskResult::default()
            }),
            last_error: Some("no".into()),
            labels: [("team".to_owned(), "a".to_owned())].into(),
            timeout_ms: Some(1_000),
            deadline_ms: None,
            retry: Some(Retry::Immediate {}),
            concurrency_key: None,
            handler_versions: None,
            traceparent: None,
            lease: None,
            progress: None,
            log: Vec::new(),
            history: vec![entry],
        }
    }

    const GOLDEN: &str = concat!(
        r#"{"ref":"t_1","namespace":"default","task_id":7,"task_version":1,"queue":"mail","kind":"welcome","priority":3,"#,
        r#""state":"dispatch_failed","phase":"pending","outcome":"created","#,
        r#""execute_at":"1970-01-01T00:00:02.500Z","execute_at_ms":2500,"#,
        r#""fired_at":"1970-01-01T00:00:02.501Z","fired_at_ms":2501,"lateness_ms":1,"attempt":1,"max_attempts":5,"#,
        r#""created_at":"1970-01-01T00:00:01.000Z","created_at_ms":1000,"#,
        r#""updated_at":"1970-01-01T00:00:01.000Z","updated_at_ms":1000,"payload":{"to": "x"},"#,
        r#""result":{"status_code":3,"status_msg":"no"},"last_error":"no","labels":{"team":"a"},"timeout_ms":1000,"#,
        r#""retry":{"strategy":"immediate"},"history":[{"at":"1970-01-01T00:00:01.000Z","at_ms":1000,"event":"insert","#,
        r#""to":"scheduled","attempt":0,"by":"api","due_at":"1970-01-01T00:00:02.500Z","due_at_ms":2500}]}"#
    );

    #[test]
    fn a_task_reads_like_this() {
        assert_eq!(serde_json::to_string(&sample()).unwrap(), GOLDEN);
        assert_eq!(serde_json::from_str::<Task>(GOLDEN).unwrap(), sample());
    }

    #[test]
    fn a_client_ignores_what_a_newer_server_adds() {
        let newer = GOLDEN.replacen('{', r#"{"mood":"fine","#, 1);
        assert_eq!(serde_json::from_str::<Task>(&newer).unwrap(), sample());
    }
}
