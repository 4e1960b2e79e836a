//! Heartbeats: an executor says which leases it still works on, and learns which were lost or should stop.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::executors::{Declared, check_declared, check_log};
use crate::fields::{Checks, Invalid};
use crate::limits::BATCH_MAX;
use crate::{Json, NewLogLine, Wish, parse};

/// A heartbeat of one executor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatRequest {
    /// The name of the executor.
    pub executor: String,
    /// The number of tasks that the executor can run at one time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// The version of its handlers, major.minor.patch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "2.1.0")]
    pub version: Option<String>,
    /// The name of its machine, shown with the executor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "worker-7.example.org", max_length = 253)]
    pub host: Option<String>,
    /// The queues from which it takes tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 1000)]
    pub queues: Option<BTreeSet<String>>,
    /// The kinds for which it has handlers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 1000)]
    pub kinds: Option<BTreeSet<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// True if the executor exits on purpose, and is removed from the list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leaving: bool,
    /// The leases to extend; may be empty.
    #[serde(default)]
    pub leases: Vec<LeaseBeat>,
}

impl HeartbeatRequest {
    /// Reads and checks one.
    pub fn from_json(json: &[u8]) -> Result<Self, Invalid> {
        let request: Self = parse(json)?;
        request.check()?;
        Ok(request)
    }

    /// Every rule that needs no store.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        checks.name("/executor", &self.executor);
        if self.leases.len() > BATCH_MAX {
            checks.refuse("/leases", format!("must have at most {BATCH_MAX} items"));
        }
        let (version, labels) = (self.version.as_deref(), self.labels.as_ref());
        let (kinds, queues) = (self.kinds.as_ref(), self.queues.as_ref());
        let host = self.host.as_deref();
        check_declared(&mut checks, Declared { version, host, kinds, queues, labels });
        for (nth, lease) in self.leases.iter().enumerate() {
            if !lease.log.is_empty() {
                check_log(&mut checks, &format!("/leases/{nth}/log"), &lease.log);
            }
            if lease.progress.is_some() {
                checks.readable(&format!("/leases/{nth}/progress"), lease.progress.as_ref());
            }
        }
        checks.done()
    }
}

/// A lease to extend.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseBeat {
    pub r#ref: String,
    pub token: String,
    /// The progress of the task; any JSON value.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "Json::some")]
    pub progress: Option<Json>,
    /// The handler's log lines since the last heartbeat; stored with the task, of which the oldest lines
    /// beyond 16 KiB are dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub log: Vec<NewLogLine>,
}

/// The state of the leases, in the order of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HeartbeatAnswer {
    pub leases: Vec<LeaseNews>,
    /// The desired state. Absent: continue normally.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wish: Option<Wish>,
}

/// The state of one lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LeaseNews {
    pub r#ref: String,
    /// The new end of the lease. Absent if the lease is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until_ms: Option<i64>,
    /// The executor is asked to stop the task. It still reports an outcome.
    #[serde(default)]
    pub cancel_requested: bool,
    /// The executor no longer holds the task. Its outcome would be refused.
    #[serde(default)]
    pub lost: bool,
    /// The task's database does not answer: the lease may or may not have been extended. Call again soon.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unavailable: bool,
    /// True if this heartbeat was the first of its attempt, so that the task has been running since. An executor that
    /// runs a task only after `true` never runs an attempt that was delivered twice. Absent if the lease is lost, if
    /// nothing is known, or if the engine is older than 0.3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_begun: Option<bool>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

impl LeaseNews {
    /// The lease continues.
    pub fn extended(r#ref: impl Into<String>, lease_until_ms: i64, cancel_requested: bool) -> Self {
        Self {
            r#ref: r#ref.into(),
            lease_until_ms: Some(lease_until_ms),
            cancel_requested,
            ..Self::default()
        }
    }

    /// The lease is over.
    pub fn lost(r#ref: impl Into<String>) -> Self {
        Self { r#ref: r#ref.into(), lost: true, ..Self::default() }
    }

    /// Reports that the state of the lease is unknown.
    pub fn unavailable(r#ref: impl Into<String>) -> Self {
        Self { r#ref: r#ref.into(), unavailable: true, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_progress_that_nobody_can_read_is_refused() {
        let json = br#"{"executor":"e","leases":[{"ref":"r","token":"t","progress":{"done":1e999}}]}"#;
        let refused = HeartbeatRequest::from_json(json).unwrap_err();
        assert_eq!(refused.errors[0].pointer, "/leases/0/progress/done");
    }

    #[test]
    fn a_heartbeat_is_read_and_written_back() {
        let json =
            r#"{"executor":"w-1","capacity":8,"leases":[{"ref":"a","token":"k","progress":{"done": 0.5}}]}"#;
        let beat = HeartbeatRequest::from_json(json.as_bytes()).unwrap();
        assert_eq!(serde_json::to_string(&beat).unwrap(), json);
        assert!(HeartbeatRequest::from_json(br#"{"executor":"w-1"}"#).is_ok());
    }

    #[test]
    fn rules_are_held() {
        let refused =
            |json: &str| HeartbeatRequest::from_json(json.as_bytes()).unwrap_err().errors.remove(0).pointer;
        assert_eq!(refused("{}"), "/executor");
        assert_eq!(refused(r#"{"executor":"a b"}"#), "/executor");
        assert_eq!(refused(r#"{"executor":"w","leases":[{"ref":"a"}]}"#), "/leases/0/token");
        assert_eq!(refused(r#"{"executor":"w","leases":[{"ref":"a","token":"k","x":1}]}"#), "/leases/0/x");
        let long = format!(
            r#"{{"executor":"w","leases":[{{"ref":"a","token":"k","log":[{{"text":"{}"}}]}}]}}"#,
            "x".repeat(4_097)
        );
        assert_eq!(refused(&long), "/leases/0/log/0/text");
        assert_eq!(refused(r#"{"executor":"w","version":"x"}"#), "/version");
        let many = HeartbeatRequest {
            executor: "w".into(),
            leases: vec![LeaseBeat::default(); 10_001],
            ..HeartbeatRequest::default()
        };
        assert_eq!(many.check().unwrap_err().errors[0].pointer, "/leases");
    }

    #[test]
    fn news_read_like_this() {
        let answer = HeartbeatAnswer {
            leases: vec![
                LeaseNews::extended("a", 5, true),
                LeaseNews::lost("b"),
                LeaseNews::unavailable("c"),
            ],
            wish: None,
        };
        let golden = concat!(
            r#"{"leases":[{"ref":"a","lease_until_ms":5,"cancel_requested":true,"lost":false},"#,
            r#"{"ref":"b","cancel_requested":false,"lost":true},"#,
            r#"{"ref":"c","cancel_requested":false,"lost":false,"unavailable":true}]}"#
        );
        assert_eq!(serde_json::to_string(&answer).unwrap(), golden);
        assert_eq!(serde_json::from_str::<HeartbeatAnswer>(golden).unwrap(), answer);
    }
}
