//! Leasing: an executor requests tasks and waits for them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::executors::{Declared, check_declared};
use crate::fields::{Checks, FieldError, Invalid};
use crate::limits::{
    DEFAULT_EXECUTOR, LEASE_MAX, LEASE_MS_DEFAULT, LEASE_MS_MAX, LEASE_MS_MIN, LEASE_QUEUES_MAX, LIMIT_MAX,
    WAIT_MS_MAX,
};
use crate::{Base64, Body, Json, Wish, parse};

/// One of several queues in a lease request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseQueue {
    #[schema(example = "mail")]
    pub name: String,
    /// The maximum number of tasks of this queue, 1 to 10,000. Default: `max` of the request. A worker that runs at
    /// most four tasks of a queue requests only the difference to four, and omits the queue when it has four.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10000)]
    pub max: Option<u32>,
}

impl LeaseQueue {
    /// Creates an entry without its own limit.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), max: None }
    }
}

/// A request for work; every field has a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LeaseRequest {
    /// The maximum number of tasks, 1 to 10,000. Default: 1.
    #[schema(minimum = 1, maximum = 10000)]
    pub max: u32,
    /// The queues of `POST /v1/lease`, which requires 1 to 16 of them. Any of them that has tasks is served. If
    /// several have tasks, each is first equally often.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 16)]
    pub queues: Vec<LeaseQueue>,
    /// The maximum time in milliseconds to wait for the first task, up to 60,000. Default: 0.
    #[schema(maximum = 60000)]
    pub wait_ms: u64,
    /// The duration of the lease in milliseconds without a heartbeat, 100 to 86,400,000. Default: 30,000.
    #[schema(minimum = 100, maximum = 86_400_000)]
    pub lease_ms: u64,
    /// The name of the executor, shown in the history. Default: `anonymous`.
    pub executor: String,
    /// The version of its handlers, major.minor.patch. Without one, it gets no task that has `handler_versions`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "2.1.0")]
    pub version: Option<String>,
    /// The name of its machine, shown with the executor.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "worker-7.example.org", max_length = 253)]
    pub host: Option<String>,
    /// The maximum number of tasks that the executor holds at one time, 1 to 1,000,000, in all queues of the
    /// namespace and at all engines. The cluster enforces it: at the limit, no task is leased until one of them has
    /// ended. Only leases whose requests have this field count. Needs a unique `executor` name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub concurrency: Option<u32>,
    /// The number of tasks that the executor can run at one time. It is only displayed. The limits are `max` and,
    /// over all engines, `concurrency`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// The kinds for which it has handlers. Only shown, unless `only_kinds` makes it a filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 1000)]
    pub kinds: Option<BTreeSet<String>>,
    /// Lease only tasks of its `kinds`, which then must not be empty. Other tasks stay ready for other executors.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub only_kinds: bool,
    /// Labels, shown with the executor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
}

impl Default for LeaseRequest {
    fn default() -> Self {
        Self {
            max: 1,
            queues: Vec::new(),
            wait_ms: 0,
            lease_ms: LEASE_MS_DEFAULT,
            executor: DEFAULT_EXECUTOR.into(),
            version: None,
            host: None,
            concurrency: None,
            capacity: None,
            kinds: None,
            only_kinds: false,
            labels: None,
        }
    }
}

impl LeaseRequest {
    /// Reads and checks one of a queue that is named elsewhere; an empty body is the default.
    pub fn from_json(json: &[u8]) -> Result<Self, Invalid> {
        let request: Self = if json.trim_ascii().is_empty() { Self::default() } else { parse(json)? };
        request.check()?;
        if !request.queues.is_empty() {
            let detail = "the address names the queue; POST /v1/lease takes several";
            return Err(FieldError::new("/queues", detail).into());
        }
        Ok(request)
    }

    /// Reads and checks one that names its queues.
    pub fn of_several_from_json(json: &[u8]) -> Result<Self, Invalid> {
        let request: Self = if json.trim_ascii().is_empty() { Self::default() } else { parse(json)? };
        request.check()?;
        if request.queues.is_empty() {
            return Err(
                FieldError::new("/queues", format!("must name 1 to {LEASE_QUEUES_MAX} queues")).into()
            );
        }
        Ok(request)
    }

    /// Every rule.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        checks.range("/max", Some(self.max), 1..=LEASE_MAX);
        self.check_queues(&mut checks);
        checks.span("/wait_ms", Some(self.wait_ms), 0..=WAIT_MS_MAX);
        checks.span("/lease_ms", Some(self.lease_ms), LEASE_MS_MIN..=LEASE_MS_MAX);
        checks.name("/executor", &self.executor);
        let (version, kinds, labels) = (self.version.as_deref(), self.kinds.as_ref(), self.labels.as_ref());
        let host = self.host.as_deref();
        check_declared(&mut checks, Declared { version, host, kinds, queues: None, labels });
        checks.range("/concurrency", self.concurrency, 1..=LIMIT_MAX);
        if self.concurrency.is_some() && self.executor == DEFAULT_EXECUTOR {
            checks.refuse("/concurrency", "needs an `executor` with a name of its own");
        }
        if self.only_kinds && self.kinds.as_ref().is_none_or(BTreeSet::is_empty) {
            checks.refuse("/only_kinds", "needs `kinds`: without any it would get no task");
        }
        checks.done()
    }

    fn check_queues(&self, checks: &mut Checks) {
        if self.queues.len() > LEASE_QUEUES_MAX {
            checks.refuse("/queues", format!("must have at most {LEASE_QUEUES_MAX} items"));
        }
        let mut names = BTreeSet::new();
        for (nth, queue) in self.queues.iter().enumerate() {
            checks.name(&format!("/queues/{nth}/name"), &queue.name);
            checks.range(&format!("/queues/{nth}/max"), queue.max, 1..=LEASE_MAX);
            if !names.insert(&queue.name) {
                checks.refuse(format!("/queues/{nth}/name"), "is there already");
            }
        }
    }
}

/// The tasks that now belong to the executor; empty if none came in time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LeaseAnswer {
    pub tasks: Vec<LeasedTask>,
    /// The desired state. Absent: continue normally.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wish: Option<Wish>,
}

/// A leased task. The executor holds it until `lease_until_ms` or until its outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LeasedTask {
    pub r#ref: String,
    pub task_id: i64,
    pub task_version: i64,
    pub queue: String,
    pub kind: String,
    pub priority: u8,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    pub max_attempts: u32,
    /// Proves the lease; send it with heartbeats and with the outcome.
    pub token: String,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "Json::some")]
    pub payload: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<Base64>,
    pub execute_at_ms: i64,
    pub fired_at_ms: i64,
    pub lease_until_ms: i64,
    /// The time limit of the attempt in milliseconds, if it has one.
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
        assert_eq!(LeaseRequest::from_json(declared.as_bytes()).map(|json| json.capacity), Ok(Some(3)));
        let edges = r#"{"max":10000,"wait_ms":60000,"lease_ms":100,"executor":"w-1"}"#;
        assert!(LeaseRequest::from_json(edges.as_bytes()).is_ok());
    }

    #[test]
    fn several_queues_are_named_once_each_and_only_where_the_address_names_none() {
        let refused = |json: &str| {
            let mut invalid = LeaseRequest::of_several_from_json(json.as_bytes()).unwrap_err();
            invalid.errors.remove(0).pointer
        };
        assert_eq!(refused(""), "/queues");
        assert_eq!(refused(r#"{"queues":[]}"#), "/queues");
        assert_eq!(refused(r#"{"queues":["a"]}"#), "/queues/0");
        assert_eq!(refused(r#"{"queues":[{"name":"a b"}]}"#), "/queues/0/name");
        assert_eq!(refused(r#"{"queues":[{"name":"a"},{"name":"a"}]}"#), "/queues/1/name");
        assert_eq!(refused(r#"{"queues":[{"name":"a","max":0}]}"#), "/queues/0/max");
        let seventeen: Vec<_> = (0..17).map(|nth| LeaseQueue::new(nth.to_string())).collect();
        let many = LeaseRequest { queues: seventeen, ..LeaseRequest::default() };
        assert_eq!(refused(&serde_json::to_string(&many).unwrap()), "/queues");
        let good = r#"{"queues":[{"name":"a","max":4},{"name":"b"}]}"#;
        let read = LeaseRequest::of_several_from_json(good.as_bytes()).unwrap();
        assert_eq!(read.queues, [LeaseQueue { max: Some(4), ..LeaseQueue::new("a") }, LeaseQueue::new("b")]);
        let single = LeaseRequest::from_json(good.as_bytes()).unwrap_err();
        assert_eq!(single.errors[0].pointer, "/queues");
    }

    #[test]
    fn a_filter_by_kinds_has_kinds() {
        for (json, is_good) in [
            (r#"{"only_kinds":true}"#, false),
            (r#"{"only_kinds":true,"kinds":[]}"#, false),
            (r#"{"only_kinds":true,"kinds":["a"]}"#, true),
            (r#"{"kinds":[]}"#, true),
        ] {
            assert_eq!(LeaseRequest::from_json(json.as_bytes()).is_ok(), is_good, "{json}");
        }
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
