//! Insert, single and in batches. In a batch every item is read on its own, so that one that is not valid does not
//! spoil the others; therefore the batch holds raw items and no typed ones.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fields::{Checks, FieldError, Invalid};
use crate::limits::{
    BATCH_MAX, CONCURRENCY_KEY_MAX_CHARS, DURATION_MAX_MS, HANDLER_VERSIONS_MAX_CHARS, MAX_ATTEMPTS_MAX,
    PRIORITY_MAX, PRIORITY_MIN, TASK_NAME_MAX_CHARS,
};
use crate::schedule::{When, schedule};
use crate::task::Task;
use crate::{Base64, Body, Int64, Json, Problem, Retry, parse};

/// The treatment of an existing task with the same identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnConflict {
    /// The new task replaces an existing task that has not begun, or is dead or cancelled. An existing task that runs
    /// or has succeeded stays, and the answer contains it.
    #[default]
    Replace,
    /// The existing task stays, and the answer contains it.
    Keep,
    /// The existing task stays, and the insert is refused with `task.exists`.
    Fail,
}

/// A task to insert.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InsertTask {
    /// The queue of the task; `[A-Za-z0-9._:-]{1,128}`.
    #[schema(example = "mail")]
    pub queue: String,
    /// Selects the handler at the executor. Default: `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "welcome")]
    pub kind: Option<String>,
    /// The caller's id, 0 or more. Without one, the engine assigns an id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<Int64>,
    /// The identity as a string, instead of `task_id`: 1 to 128 bytes, compared exactly. Wherever a `ref` is
    /// accepted, `key:` and the key name its highest version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "order-7", min_length = 1, max_length = 128)]
    pub key: Option<String>,
    /// The treatment of an existing task with the same id or key and the same version. Default: `replace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_conflict: Option<OnConflict>,
    /// Human-readable name, 1 to 256 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "Welcome mail of Ada", min_length = 1, max_length = 256)]
    pub name: Option<String>,
    /// A higher version of an id supersedes a lower one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_version: Option<Int64>,
    /// 1 (first) to 5 (last). Default: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 5)]
    pub priority: Option<u8>,
    /// The execution time, RFC 3339. At most one of `execute_at`, `execute_at_ms` and `delay_ms` can be set. Without
    /// them, the task is due now.
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
    /// Any JSON value, passed to the executor byte for byte. Maximum: 1 MiB, or 16 MiB if long payloads are stored
    /// outside the database (settings `payloads.url`, `payloads.max_bytes`).
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "Json::some")]
    pub payload: Option<Json>,
    /// Bytes, instead of `payload`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<Base64>,
    /// The total number of attempts, 1 to 1,000. Default: the number of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub max_attempts: Option<u32>,
    /// The retry policy. Default: the policy of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// The time limit of one attempt in milliseconds. An attempt that runs longer counts as failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub timeout_ms: Option<i64>,
    /// The time in milliseconds after `execute_at` within which an attempt can begin. Then the task is dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub deadline_ms: Option<i64>,
    /// Up to 32 labels to search by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Tasks of a queue with the same key share the queue's limits per key. Up to 256 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "customer-7", min_length = 1, max_length = 256)]
    pub concurrency_key: Option<String>,
    /// The handler versions that may run the task. Executors with another version, or without one, do not get it. Refused
    /// for queues whose `mode` is `push`, because any subscriber may get their tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = ">=2.1, <3", min_length = 1, max_length = 128)]
    pub handler_versions: Option<String>,
    /// The W3C trace context of the task, instead of the header `traceparent`. So each task of a batch can have its
    /// own. A malformed one is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")]
    pub traceparent: Option<String>,
}

impl InsertTask {
    /// A task for this queue, due now; set the other fields as needed.
    pub fn new(queue: impl Into<String>) -> Self {
        Self { queue: queue.into(), ..Self::default() }
    }

    /// Reads and checks one.
    pub fn from_json(json: &[u8]) -> Result<Self, Invalid> {
        let task: Self = parse(json)?;
        task.check()?;
        Ok(task)
    }

    /// Every rule that needs no clock and no store.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        checks.name("/queue", &self.queue);
        if let Some(kind) = &self.kind {
            checks.name("/kind", kind);
        }
        checks.key("/key", self.key.as_deref());
        checks.at_most_one(("task_id", self.task_id.is_some()), ("key", self.key.is_some()));
        if let Some(Int64(id)) = self.task_id.filter(|task_id| task_id.0 < 0) {
            checks.refuse(
                "/task_id",
                format!("must be 0 or more, not {id}: ids below zero are those of runs of schedules and nodes of workflows. Take a number from 0 on, or a `key`"),
            );
        }
        checks.text("/name", self.name.as_deref(), TASK_NAME_MAX_CHARS);
        checks.range("/priority", self.priority, PRIORITY_MIN..=PRIORITY_MAX);
        checks.take(self.schedule());
        checks.readable("/payload", self.payload.as_ref());
        checks.at_most_one(
            ("payload", self.payload.is_some()),
            ("payload_base64", self.payload_base64.is_some()),
        );
        checks.range("/max_attempts", self.max_attempts, 1..=MAX_ATTEMPTS_MAX);
        if let Some(retry) = &self.retry {
            retry.check(&mut checks);
        }
        checks.span("/timeout_ms", self.timeout_ms, 1..=DURATION_MAX_MS);
        checks.span("/deadline_ms", self.deadline_ms, 1..=DURATION_MAX_MS);
        checks.labels(&self.labels);
        checks.text("/concurrency_key", self.concurrency_key.as_deref(), CONCURRENCY_KEY_MAX_CHARS);
        checks.text("/handler_versions", self.handler_versions.as_deref(), HANDLER_VERSIONS_MAX_CHARS);
        checks.versions("/handler_versions", self.handler_versions.as_deref());
        checks.done()
    }

    /// The requested execution time, or `None` for now.
    pub fn schedule(&self) -> Result<Option<When>, FieldError> {
        schedule(self.execute_at.as_deref(), self.execute_at_ms, self.delay_ms)
    }

    /// Takes the payload out of the field that has it.
    pub fn take_payload(&mut self) -> Option<Body> {
        Body::from_fields(self.payload.take(), self.payload_base64.take())
    }
}

/// Up to 10,000 tasks to insert. Each is accepted or refused by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InsertBatch {
    #[schema(value_type = Vec<InsertTask>, max_items = 10000)]
    pub tasks: Vec<Json>,
}

impl InsertBatch {
    /// Reads the frame; the items are read by `items`.
    pub fn from_json(json: &[u8]) -> Result<Self, Invalid> {
        let batch: Self = parse(json)?;
        if batch.tasks.len() > BATCH_MAX {
            return Err(FieldError::new("/tasks", format!("must have at most {BATCH_MAX} items")).into());
        }
        Ok(batch)
    }

    /// Each item in order, read and checked; pointers of faults begin at the batch (`/tasks/3/queue`).
    pub fn items(&self) -> impl Iterator<Item = Result<InsertTask, Invalid>> {
        self.tasks.iter().enumerate().map(|(i, item)| {
            InsertTask::from_json(item.get().as_bytes())
                .map_err(|invalid| invalid.under(&format!("/tasks/{i}")))
        })
    }
}

/// The results of a batch, in its order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchAnswer {
    pub results: Vec<BatchItem>,
}

/// The result of one item: the status of a single insert, with its task or its error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchItem {
    #[schema(example = 201)]
    pub status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}

impl BatchItem {
    /// An item that is in the store; `status` 201 or 200.
    pub fn accepted(status: u16, task: Task) -> Self {
        Self { status, task: Some(task), error: None }
    }

    /// An item that is not.
    pub fn refused(error: Problem) -> Self {
        Self { status: error.status, task: None, error: Some(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    fn pointers(json: &str) -> Vec<String> {
        InsertTask::from_json(json.as_bytes()).unwrap_err().errors.into_iter().map(|e| e.pointer).collect()
    }

    #[test]
    fn a_full_task_is_read_and_written_back() {
        let json = concat!(
            r#"{"queue":"mail","kind":"welcome","task_id":9007199254740993,"task_version":2,"priority":1,"#,
            r#""delay_ms":1500,"payload":{"to": "x"},"max_attempts":5,"retry":{"strategy":"fixed","delay_ms":300},"#,
            r#""timeout_ms":1000,"deadline_ms":60000,"labels":{"team":"a"},"concurrency_key":"k","handler_versions":">=2"}"#
        );
        let task = InsertTask::from_json(json.as_bytes()).unwrap();
        assert_eq!(task.schedule(), Ok(Some(When::AfterMs(1_500))));
        assert_eq!(serde_json::to_string(&task).unwrap(), json);
    }

    #[test]
    fn only_the_queue_is_required() {
        let task = InsertTask::from_json(br#"{"queue":"q"}"#).unwrap();
        assert_eq!(task, InsertTask::new("q"));
        assert_eq!(task.schedule(), Ok(None));
        assert_eq!(pointers("{}"), ["/queue"]);
    }

    #[test]
    fn ids_may_be_decimal_strings() {
        let task =
            InsertTask::from_json(br#"{"queue":"q","task_id":"9223372036854775807","task_version":"2"}"#)
                .unwrap();
        assert_eq!((task.task_id, task.task_version), (Some(Int64(i64::MAX)), Some(Int64(2))));
        assert_eq!(pointers(r#"{"queue":"q","task_id":1.5}"#), ["/task_id"]);
        assert_eq!(pointers(r#"{"queue":"q","task_id":-1}"#), ["/task_id"]);
        assert_eq!(pointers(r#"{"queue":"q","task_id":"-12345"}"#), ["/task_id"]);
        assert!(InsertTask::from_json(br#"{"queue":"q","task_id":0}"#).is_ok());
    }

    #[test]
    fn every_fault_is_named_at_once() {
        let json = concat!(
            r#"{"queue":"a b","kind":"","priority":6,"delay_ms":-1,"payload":1,"payload_base64":"","max_attempts":0,"#,
            r#""retry":{"strategy":"list","delays_ms":[]},"timeout_ms":0,"deadline_ms":-1,"labels":{"":""},"concurrency_key":"","handler_versions":""}"#
        );
        let all = [
            "/queue",
            "/kind",
            "/priority",
            "/delay_ms",
            "/payload_base64",
            "/max_attempts",
            "/retry/delays_ms",
            "/timeout_ms",
            "/deadline_ms",
            "/labels/",
            "/concurrency_key",
            "/handler_versions",
        ];
        assert_eq!(pointers(json), all);
    }

    #[test]
    fn bounds_are_inclusive() {
        for json in [
            r#"{"queue":"q","priority":1,"max_attempts":1}"#,
            r#"{"queue":"q","priority":5,"max_attempts":1000}"#,
        ] {
            assert!(InsertTask::from_json(json.as_bytes()).is_ok(), "{json}");
        }
        assert_eq!(
            pointers(r#"{"queue":"q","priority":0,"max_attempts":1001}"#),
            ["/priority", "/max_attempts"]
        );
    }

    #[test]
    fn a_payload_may_be_null_or_bytes() {
        let mut null = InsertTask::from_json(br#"{"queue":"q","payload":null}"#).unwrap();
        assert_eq!(null.take_payload().unwrap().into_bytes(), b"null");
        let mut bytes = InsertTask::from_json(br#"{"queue":"q","payload_base64":"AP8="}"#).unwrap();
        assert_eq!(bytes.take_payload(), Some(Body::Bytes(vec![0, 255])));
        assert_eq!(InsertTask::new("q").take_payload(), None);
    }

    /// The values refused below would overflow the stack of a recursive parser.
    #[test]
    fn a_payload_that_its_reader_cannot_parse_is_refused_by_name() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let with = |field: &str, json: &str| format!(r#"{{"queue":"q","{field}":{json}}}"#);
        assert!(InsertTask::from_json(with("payload", &deep(128)).as_bytes()).is_ok());
        let pointer = &pointers(&with("payload", &deep(100_000)))[0];
        assert_eq!(*pointer, format!("/payload{}", "/0".repeat(128)));
        assert_eq!(pointers(&with("payload", r#"{"to":["\ud800"]}"#)), ["/payload/to/0"]);
        assert_eq!(pointers(&with("payload", r#"{"to":1e999}"#)), ["/payload/to"]);
        for field in ["retry", "labels", "task_id", "nonsense"] {
            assert!(InsertTask::from_json(with(field, &deep(1_000_000)).as_bytes()).is_err(), "{field}");
        }
        let bad = with("payload", &deep(100_000));
        let batch =
            InsertBatch::from_json(format!(r#"{{"tasks":[{{"queue":"q"}},{bad}]}}"#).as_bytes()).unwrap();
        let items: Vec<_> = batch.items().collect();
        assert!(items[0].is_ok());
        assert!(items[1].clone().unwrap_err().errors[0].pointer.starts_with("/tasks/1/payload/0/0"));
    }

    #[test]
    fn one_bad_item_does_not_spoil_the_batch() {
        let batch =
            InsertBatch::from_json(br#"{"tasks":[{"queue":"q"},{"queue":"q","prio":1},7,{"queue":"r"}]}"#)
                .unwrap();
        let items: Vec<_> = batch.items().collect();
        assert!(items[0].is_ok() && items[3].is_ok());
        let unknown = items[1].clone().unwrap_err();
        assert_eq!(
            (unknown.code, unknown.errors[0].pointer.as_str()),
            (Code::RequestUnknownField, "/tasks/1/prio")
        );
        assert_eq!(items[2].clone().unwrap_err().errors[0].pointer, "/tasks/2");
    }

    #[test]
    fn a_batch_has_at_most_10_000_items() {
        let of = |n: usize| format!("{{\"tasks\":[{}]}}", vec!["{}"; n].join(","));
        assert!(InsertBatch::from_json(of(BATCH_MAX).as_bytes()).is_ok());
        let over = InsertBatch::from_json(of(BATCH_MAX + 1).as_bytes()).unwrap_err();
        assert_eq!(over.errors[0].pointer, "/tasks");
    }

    #[test]
    fn results_of_a_batch_read_like_this() {
        let refused = BatchItem::refused(Problem::new(Code::Overload, ""));
        assert_eq!(
            serde_json::to_string(&BatchAnswer { results: vec![refused] }).unwrap(),
            r#"{"results":[{"status":429,"error":{"type":"/docs/errors/overload","title":"The server is busy","status":429,"code":"overload"}}]}"#
        );
    }
}
