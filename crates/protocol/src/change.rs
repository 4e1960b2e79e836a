//! Requests about an existing task: change, cancel, run now, redrive, bury, delete; each has a definite
//! answer.

use serde::{Deserialize, Serialize};

use crate::fields::{Checks, FieldError, Invalid};
use crate::limits::{DURATION_MAX_MS, MAX_ATTEMPTS_MAX, PAUSE_REASON_MAX_CHARS, PRIORITY_MAX, PRIORITY_MIN};
use crate::retry::Retry;
use crate::schedule::{When, schedule};
use crate::task::Task;
use crate::{Base64, Body, Json, parse};

/// A change to a task that has not fired, or that is dead; omitted fields are unchanged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchTask {
    /// The execution time, RFC 3339. At most one of `execute_at`, `execute_at_ms` and `delay_ms` can be set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub execute_at: Option<String>,
    /// Epoch milliseconds, not before 2001. Smaller numbers are refused, because they are probably seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 978307200000_i64)]
    pub execute_at_ms: Option<i64>,
    /// Milliseconds from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub delay_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 5)]
    pub priority: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "Json::some")]
    pub payload: Option<Json>,
    /// Bytes, instead of `payload`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<Base64>,
    /// Another queue of the same namespace. The task keeps the attempts, retry policy and labels of its insert.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Only for a dead task: its number of attempts after a redrive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub max_attempts: Option<u32>,
    /// Only for a dead task: its retry policy after a redrive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Only for a dead task: the longest time of an attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub timeout_ms: Option<i64>,
}

impl PatchTask {
    /// Reads and checks one.
    pub fn from_json(json: &[u8]) -> Result<Self, Invalid> {
        let patch: Self = parse(json)?;
        patch.check()?;
        Ok(patch)
    }

    /// Parses the body of a redrive. Returns `None` for an empty body or an empty object, which change nothing.
    pub fn from_json_of_redrive(json: &[u8]) -> Result<Option<Self>, Invalid> {
        let patch: Self = if json.trim_ascii().is_empty() { Self::default() } else { parse(json)? };
        if patch == Self::default() {
            return Ok(None);
        }
        patch.check()?;
        Ok(Some(patch))
    }

    /// Checks every rule that needs no clock and no store; an empty change is a mistake.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        if *self == Self::default() {
            checks.refuse("", "must change at least one of execute_at, execute_at_ms, delay_ms, priority, payload, payload_base64, queue, and of a dead task max_attempts, retry, timeout_ms");
        }
        checks.take(self.schedule());
        checks.range("/priority", self.priority, PRIORITY_MIN..=PRIORITY_MAX);
        if let Some(queue) = &self.queue {
            checks.name("/queue", queue);
        }
        checks.range("/max_attempts", self.max_attempts, 1..=MAX_ATTEMPTS_MAX);
        if let Some(retry) = &self.retry {
            retry.check(&mut checks);
        }
        checks.span("/timeout_ms", self.timeout_ms, 1..=DURATION_MAX_MS);
        checks.readable("/payload", self.payload.as_ref());
        checks.at_most_one(
            ("payload", self.payload.is_some()),
            ("payload_base64", self.payload_base64.is_some()),
        );
        checks.done()
    }

    /// True if the patch names another payload.
    pub fn replaces_payload(&self) -> bool {
        self.payload.is_some() || self.payload_base64.is_some()
    }

    /// A field that only a dead task allows, by its pointer.
    pub fn only_of_the_dead(&self) -> Option<&'static str> {
        let fields = [
            ("/max_attempts", self.max_attempts.is_some()),
            ("/retry", self.retry.is_some()),
            ("/timeout_ms", self.timeout_ms.is_some()),
        ];
        fields.into_iter().find(|field| field.1).map(|field| field.0)
    }

    /// True if a dead task needs a redrive for this change.
    pub fn is_of_the_plan(&self) -> bool {
        self.queue.is_some()
            || self.execute_at.is_some()
            || self.execute_at_ms.is_some()
            || self.delay_ms.is_some()
    }

    /// The new time; `None`: unchanged.
    pub fn schedule(&self) -> Result<Option<When>, FieldError> {
        schedule(self.execute_at.as_deref(), self.execute_at_ms, self.delay_ms)
    }

    /// Takes the new payload out; `None`: unchanged.
    pub fn take_payload(&mut self) -> Option<Body> {
        Body::from_fields(self.payload.take(), self.payload_base64.take())
    }
}

/// The body of a cancel. Optional.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelRequest {
    /// Also cancel a task that has fired and waits, and ask a running executor to stop.
    #[serde(default)]
    pub stop_if_fired: bool,
}

impl CancelRequest {
    /// Reads one; an empty body is the default.
    pub fn from_json(json: &[u8]) -> Result<Self, Invalid> {
        if json.trim_ascii().is_empty() { Ok(Self::default()) } else { parse(json) }
    }
}

/// The body of a bury request. Optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BuryRequest {
    /// The new last error of the task; searches of dead tasks find it. Default: `buried manually`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
}

impl BuryRequest {
    /// Reads and checks one; an empty body is the default.
    pub fn from_json(json: &[u8]) -> Result<Self, Invalid> {
        let request: Self = if json.trim_ascii().is_empty() { Self::default() } else { parse(json)? };
        let mut checks = Checks::default();
        checks.text("/reason", request.reason.as_deref(), PAUSE_REASON_MAX_CHARS);
        checks.done()?;
        Ok(request)
    }
}

/// The effect of a cancel, run-now, redrive, bury or delete request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActionOutcome {
    /// The task will not run any more.
    Cancelled,
    /// An executor runs the task and was asked to stop. The executor decides whether it does.
    StopRequested,
    /// The task is due now.
    Scheduled,
    /// The task was dead, and is due now with a new set of attempts.
    Redriven,
    /// The task is dead. It can be inspected and redriven.
    Buried,
    /// The task was deleted with its history and payload.
    Deleted,
}

/// The answer to a cancel, run-now, redrive, bury or delete request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ActionAnswer {
    pub outcome: ActionOutcome,
    /// The task after the change, or as it was before a deletion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn a_patch_changes_time_priority_or_payload() {
        let mut patch = PatchTask::from_json(br#"{"delay_ms":5,"priority":1,"payload":null}"#).unwrap();
        assert_eq!((patch.schedule(), patch.priority), (Ok(Some(When::AfterMs(5))), Some(1)));
        assert_eq!(patch.take_payload().unwrap().into_bytes(), b"null");
    }

    #[test]
    fn a_patch_of_nothing_or_of_something_else_is_refused() {
        let refused = |json: &str| PatchTask::from_json(json.as_bytes()).unwrap_err();
        assert_eq!(refused("{}").errors[0].pointer, "");
        assert_eq!(refused(r#"{"kind":"x"}"#).code, Code::RequestUnknownField);
        assert_eq!(refused(r#"{"priority":9}"#).errors[0].pointer, "/priority");
        assert_eq!(refused(r#"{"max_attempts":0}"#).errors[0].pointer, "/max_attempts");
        assert_eq!(refused(r#"{"timeout_ms":0}"#).errors[0].pointer, "/timeout_ms");
        let retry = r#"{"retry":{"strategy":"list","delays_ms":[]}}"#;
        assert_eq!(refused(retry).errors[0].pointer, "/retry/delays_ms");
        assert_eq!(refused(r#"{"delay_ms":1,"execute_at_ms":1}"#).errors[0].pointer, "/execute_at_ms");
        assert_eq!(refused(r#"{"payload":1,"payload_base64":""}"#).errors[0].pointer, "/payload_base64");
    }

    #[test]
    fn a_payload_that_its_reader_cannot_parse_is_refused() {
        let refused = PatchTask::from_json(br#"{"payload":{"a":-1e999}}"#).unwrap_err();
        assert_eq!(refused.errors[0].pointer, "/payload/a");
    }

    #[test]
    fn a_cancel_needs_no_body() {
        assert_eq!(CancelRequest::from_json(b" \n"), Ok(CancelRequest::default()));
        assert_eq!(CancelRequest::from_json(b"{}"), Ok(CancelRequest { stop_if_fired: false }));
        assert_eq!(
            CancelRequest::from_json(br#"{"stop_if_fired":true}"#),
            Ok(CancelRequest { stop_if_fired: true })
        );
        assert!(CancelRequest::from_json(br#"{"force":true}"#).is_err());
    }

    #[test]
    fn answers_read_like_this() {
        for (outcome, json) in [
            (ActionOutcome::Cancelled, r#"{"outcome":"cancelled"}"#),
            (ActionOutcome::StopRequested, r#"{"outcome":"stop_requested"}"#),
            (ActionOutcome::Scheduled, r#"{"outcome":"scheduled"}"#),
            (ActionOutcome::Redriven, r#"{"outcome":"redriven"}"#),
        ] {
            assert_eq!(serde_json::to_string(&ActionAnswer { outcome, task: None }).unwrap(), json);
        }
    }
}
