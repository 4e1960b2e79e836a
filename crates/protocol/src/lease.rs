//! Leasing: an executor asks for work and waits for it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::executors::{Declared, check_declared};
use crate::fields::{Checks, Invalid};
use crate::limits::{
    DEFAULT_EXECUTOR, LEASE_MAX, LEASE_MS_DEFAULT, LEASE_MS_MAX, LEASE_MS_MIN, LIMIT_MAX, WAIT_MS_MAX,
};
use crate::{Base64, Body, Json, Wish, parse};

/// A request for work; every field has a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LeaseRequest {
    /// At most this many tasks, 1 to 10,000; 1 unless given.
    #[schema(minimum = 1, maximum = 10000)]
    pub max: u32,
    /// How long to wait for the first one, up to 60,000; 0 unless given.
    #[schema(maximum = 60000)]
    pub wait_ms: u64,
    /// How long the lease lasts without a heartbeat, 100 to 86,400,000; 30,000 unless given.
    #[schema(minimum = 100, maximum = 86_400_000)]
    pub lease_ms: u64,
    /// Name of the executor; appears in the history. `anonymous` unless given.
    pub executor: String,
    /// Of its handlers, major.minor.patch. Without one, it gets no task that demands `handler_versions`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "2.1.0")]
    pub version: Option<String>,
    /// Of the machine that it runs on; shown with the executor.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "worker-7.example.org", max_length = 253)]
    pub host: Option<String>,
    /// At most so many tasks are in its hands at one time, 1 to 1,000,000: of all queues of the namespace, and leased at
    /// whichever engines. Held by the cluster: of more than that, none is leased until one of them has ended. What counts
    /// are the leases whose requests say so. Needs an `executor` with a name of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub concurrency: Option<u32>,
    /// Tasks it can run at one time; shown, and no limit: that is `max`, and over all engines `concurrency`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// Those it has handlers for; shown, and no filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 1000)]
    pub kinds: Option<BTreeSet<String>>,
    /// Shown with the executor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
}

impl Default for LeaseRequest {
    fn default() -> Self {
        Self {
            max: 1,
            wait_ms: 0,
            lease_ms: LEASE_MS_DEFAULT,
            executor: DEFAULT_EXECUTOR.into(),
            version: None,
            host: None,
            concurrency: None,
            capacity: None,
            kinds: None,
            labels: None,
        }
    }
}

impl LeaseRequest {
    /// Reads and checks one; an empty body is the default.
    pub fn from_json(json: &[u8]) -> Result<Self, Invalid> {
        let request: Self = if json.trim_ascii().is_empty() { Self::default() } else { parse(json)? };
        request.check()?;
        Ok(request)
    }

    /// Every rule.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        checks.range("/max", Some(self.max), 1..=LEASE_MAX);
        checks.range("/wait_ms", Some(self.wait_ms), 0..=WAIT_MS_MAX);
        checks.range("/lease_ms", Some(self.lease_ms), LEASE_MS_MIN..=LEASE_MS_MAX);
        checks.name("/executor", &self.executor);
        let (version, kinds, labels) = (self.version.as_deref(), self.kinds.as_ref(), self.labels.as_ref());
        let host = self.host.as_deref();
        check_declared(&mut checks, Declared { version, host, kinds, queues: None, labels });
        checks.range("/concurrency", self.concurrency, 1..=LIMIT_MAX);
        if self.concurrency.is_some() && self.executor == DEFAULT_EXECUTOR {
            checks.refuse("/concurrency", "needs an `executor` with a name of its own");
        }
        checks.done()
    }
}

/// The tasks that are now the executor's; empty when none came in time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LeaseAnswer {
    pub tasks: Vec<LeasedTask>,
    /// Absent: go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wish: Option<Wish>,
}

/// A task in an executor's hands, until `lease_until_ms` or the outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LeasedTask {
    pub r#ref: String,
    pub task_id: i64,
    pub task_version: i64,
    pub queue: String,
    pub kind: String,
    pub priority: u8,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    pub max_attempts: u32,
    /// Proves the lease; goes back with heartbeats and with the outcome.
    pub token: String,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "Json::some")]
    pub payload: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<Base64>,
    pub execute_at_ms: i64,
    pub fired_at_ms: i64,
    pub lease_until_ms: i64,
    /// How long the attempt may run, if limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// W3C trace context of the insert.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

impl LeasedTask {
    /// Puts a payload into the field it belongs in.
    pub fn set_payload(&mut self, payload: Option<Body>) {
        (self.payload, self.payload_base64) = payload.map_or((None, None), Body::into_fields);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_a_request_has_a_default() {
        let expected = LeaseRequest {
            max: 1,
            wait_ms: 0,
            lease_ms: 30_000,
            executor: "anonymous".into(),
            ..LeaseRequest::default()
        };
        for json in ["", "{}"] {
            assert_eq!(LeaseRequest::from_json(json.as_bytes()).as_ref(), Ok(&expected));
        }
    }

    #[test]
    fn bounds_are_held() {
        let refused =
            |json: &str| LeaseRequest::from_json(json.as_bytes()).unwrap_err().errors.remove(0).pointer;
        assert_eq!(refused(r#"{"max":0}"#), "/max");
        assert_eq!(refused(r#"{"max":10001}"#), "/max");
        assert_eq!(refused(r#"{"wait_ms":60001}"#), "/wait_ms");
        assert_eq!(refused(r#"{"lease_ms":99}"#), "/lease_ms");
        assert_eq!(refused(r#"{"lease_ms":86400001}"#), "/lease_ms");
        assert_eq!(refused(r#"{"executor":""}"#), "/executor");
        assert_eq!(refused(r#"{"queue":"x"}"#), "/queue");
        assert_eq!(refused(r#"{"version":"two"}"#), "/version");
        assert_eq!(refused(r#"{"kinds":["a b"]}"#), "/kinds/0");
        assert_eq!(refused(r#"{"executor":"w","concurrency":0}"#), "/concurrency");
        assert_eq!(refused(r#"{"concurrency":2}"#), "/concurrency", "nobody knows who that is");
        assert_eq!(refused(&format!(r#"{{"host":"{}"}}"#, "h".repeat(254))), "/host");
        let declared = r#"{"version":"2.1.0-rc.1","capacity":3,"kinds":["a","b"],"labels":{"zone":"x"}}"#;
        assert_eq!(LeaseRequest::from_json(declared.as_bytes()).map(|it| it.capacity), Ok(Some(3)));
        let edges = r#"{"max":10000,"wait_ms":60000,"lease_ms":100,"executor":"w-1"}"#;
        assert!(LeaseRequest::from_json(edges.as_bytes()).is_ok());
    }

    #[test]
    fn a_leased_task_reads_like_this() {
        let mut task =
            LeasedTask { r#ref: "t_1".into(), token: "k".into(), attempt: 1, ..LeasedTask::default() };
        task.set_payload(Some(Body::Bytes(b"hello".to_vec())));
        let golden = concat!(
            r#"{"tasks":[{"ref":"t_1","task_id":0,"task_version":0,"queue":"","kind":"","priority":0,"attempt":1,"#,
            r#""max_attempts":0,"token":"k","payload_base64":"aGVsbG8=","execute_at_ms":0,"fired_at_ms":0,"lease_until_ms":0}]}"#
        );
        let answer = LeaseAnswer { tasks: vec![task], wish: None };
        assert_eq!(serde_json::to_string(&answer).unwrap(), golden);
        assert_eq!(serde_json::from_str::<LeaseAnswer>(golden).unwrap(), answer);
    }
}
