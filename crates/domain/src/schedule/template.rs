//! The task that each run makes: everything but its id and its time.

use super::Invalid;
use crate::{
    name::{Name, QueueKey},
    retry::RetryPolicy,
    task::{Content, Demands, MAX_ATTEMPTS_LIMIT, NewTask, Priority},
    time::Millis,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The payload of a run. JSON may have expressions that are evaluated for each run (`{"$expr": ...}`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Payload {
    /// JSON text, letter for letter.
    Json(String),
    Bytes(Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskTemplate {
    pub queue: Name,
    pub kind: Name,
    #[serde(default)]
    pub priority: Priority,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Payload>,
    /// `None`, here and below, selects the queue's setting when the run is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Demands::is_none")]
    pub demands: Demands,
}

impl TaskTemplate {
    #[must_use]
    pub fn new(queue: Name, kind: Name) -> Self {
        Self {
            queue,
            kind,
            priority: Priority::default(),
            payload: None,
            max_attempts: None,
            retry: None,
            timeout_ms: None,
            deadline_ms: None,
            labels: BTreeMap::new(),
            demands: Demands::default(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        if self
            .max_attempts
            .is_some_and(|max_attempts| max_attempts == 0 || max_attempts > MAX_ATTEMPTS_LIMIT)
        {
            return Err(Invalid::new("task/max_attempts", format!("must be 1 to {MAX_ATTEMPTS_LIMIT}")));
        }
        let checked = self.retry.as_ref().map_or(Ok(()), RetryPolicy::check);
        checked.map_err(|error| Invalid::new(format!("task/retry/{}", error.field), error.problem))
    }

    /// A task as an insert would request it, with the unevaluated payload and without an id. `set`: the
    /// queue's settings for tasks that leave them out.
    #[must_use]
    pub fn task(
        &self,
        namespace: &Name,
        execute_at: Millis,
        set: &crate::settings::QueueSettings,
    ) -> NewTask {
        let queue = QueueKey { namespace: namespace.clone(), queue: self.queue.clone() };
        let plain = NewTask::new(queue, self.kind.clone(), execute_at);
        NewTask {
            priority: self.priority,
            payload: self.payload.as_ref().map(content).unwrap_or_default(),
            max_attempts: self.max_attempts.or(set.max_attempts).unwrap_or(plain.max_attempts),
            retry: self.retry.clone().or_else(|| set.retry.clone()).unwrap_or_default(),
            timeout_ms: self.timeout_ms.or(set.timeout_ms),
            deadline_ms: self.deadline_ms,
            labels: self.labels.clone(),
            demands: self.demands.clone(),
            ..plain
        }
    }
}

fn content(payload: &Payload) -> Content {
    match payload {
        Payload::Json(text) => Content::json(text.as_str()),
        Payload::Bytes(bytes) => Content::binary(bytes.clone()),
    }
}
