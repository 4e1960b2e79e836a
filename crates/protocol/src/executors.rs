//! Executors as they declare themselves and as they are shown, their desired states, and their handlers' log
//! lines.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::fields::{Checks, Invalid};
use crate::limits::{
    EXECUTOR_KINDS_MAX, HOST_MAX_CHARS, LOG_LEVEL_MAX_CHARS, LOG_LINES_MAX, LOG_TEXT_MAX_CHARS, PAGE_MAX,
    VERSION_MAX_CHARS,
};
use crate::{At, State};

/// The desired state of an executor that is not to serve normally.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Wish {
    /// It gets no new tasks until an operator resumes it.
    Quiet,
    /// It gets no new tasks. It finishes its tasks and exits.
    Drain,
}

/// The status of an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecutorState {
    Alive,
    /// It gets no new tasks until it is resumed.
    Quiet,
    /// It gets no new tasks, finishes its tasks and exits.
    Draining,
    /// It sends no heartbeats. Its tasks run elsewhere when their leases end.
    Dead,
}

/// An executor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Executor {
    #[schema(example = "mailer-1")]
    pub name: String,
    pub state: ExecutorState,
    /// The version of its handlers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "2.1.0")]
    pub version: Option<String>,
    /// The name of its machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "worker-7.example.org")]
    pub host: Option<String>,
    /// The number of tasks that the executor can run at one time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// The maximum number of tasks that the executor holds at one time, as its last lease declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// The number of leases that the executor's last heartbeat named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<u64>,
    /// The queues from which it takes tasks.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub queues: BTreeSet<String>,
    /// The kinds for which it has handlers. Empty: any kind.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub kinds: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    pub first_seen_at: At,
    pub first_seen_at_ms: i64,
    pub last_seen_at: At,
    pub last_seen_at_ms: i64,
    /// The executor counts as dead from this instant if it sends no heartbeat until then.
    pub alive_until: At,
    pub alive_until_ms: i64,
    /// The tasks that it runs, of those that its last heartbeat named. Only in answers about one executor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leases: Option<Vec<HeldLease>>,
}

/// Query parameters of `GET /v1/executors`.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema, utoipa::IntoParams,
)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListExecutors {
    /// Items per page, 1 to 1,000. Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next_cursor` of the preceding page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

impl ListExecutors {
    /// Every rule.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        checks.range("/limit", self.limit, 1..=PAGE_MAX);
        checks.done()
    }
}

/// A task that an executor runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HeldLease {
    pub r#ref: String,
    pub task_id: i64,
    pub task_version: i64,
    pub queue: String,
    pub kind: String,
    pub state: State,
    pub attempt: u32,
    /// The instant at which the executor received this attempt. Engines before 0.2.0 do not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub since: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<i64>,
    pub lease_until: At,
    pub lease_until_ms: i64,
    #[serde(default)]
    pub cancel_requested: bool,
}

/// A log line of a handler about its task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewLogLine {
    /// The time, by the executor's clock. Default: when the line arrives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<i64>,
    /// Any word: `info`, `warn`, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    pub text: String,
}

/// A handler's log line about its task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LogLine {
    pub at: At,
    pub at_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    pub text: String,
}

/// An executor's declaration, in each call that has these fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Declared<'a> {
    pub(crate) version: Option<&'a str>,
    pub(crate) host: Option<&'a str>,
    pub(crate) kinds: Option<&'a BTreeSet<String>>,
    pub(crate) queues: Option<&'a BTreeSet<String>>,
    pub(crate) labels: Option<&'a BTreeMap<String, String>>,
}

pub(crate) fn check_declared(checks: &mut Checks, declared: Declared<'_>) {
    checks.text("/version", declared.version, VERSION_MAX_CHARS);
    checks.version("/version", declared.version);
    checks.text("/host", declared.host, HOST_MAX_CHARS);
    for (pointer, names) in [("/kinds", declared.kinds), ("/queues", declared.queues)] {
        let names = names.into_iter().flatten();
        if names.clone().nth(EXECUTOR_KINDS_MAX).is_some() {
            checks.refuse(pointer, format!("must have at most {EXECUTOR_KINDS_MAX} items"));
        }
        names.enumerate().for_each(|(nth, name)| checks.name(&format!("{pointer}/{nth}"), name));
    }
    if let Some(labels) = declared.labels {
        checks.labels(labels);
    }
}

pub(crate) fn check_log(checks: &mut Checks, pointer: &str, log: &[NewLogLine]) {
    if log.len() > LOG_LINES_MAX {
        checks.refuse(pointer, format!("must have at most {LOG_LINES_MAX} items"));
    }
    for (nth, line) in log.iter().enumerate() {
        checks.at_most_chars(&format!("{pointer}/{nth}/level"), line.level.as_deref(), LOG_LEVEL_MAX_CHARS);
        checks.at_most_chars(&format!("{pointer}/{nth}/text"), Some(&line.text), LOG_TEXT_MAX_CHARS);
    }
}
