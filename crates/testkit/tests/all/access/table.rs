//! The one table of what each call answers: to whom it is allowed, in the caller's own namespace and in another's.

use serde_json::{Value, json};

pub(super) const ROLES: [&str; 5] = ["viewer", "submitter", "executor", "operator", "admin"];

/// How much a caller sees of another namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Foreign {
    /// 403, whether or not it is there.
    Denied,
    /// 404 with this code.
    Hidden(&'static str),
    /// 200, and the pointer leads to nothing: an empty list, 0, or the word for an absent thing.
    Empty(&'static str, &'static str),
    /// 200 with nothing of anybody's.
    Same,
}

/// Where a call's author is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recorded {
    /// Nothing is changed, or it is in the histories of tasks and workflows alone: no entry in the audit.
    Elsewhere,
    /// In the audit, beside the change: it is made although the audit cannot be written.
    Beside(AuditedState),
    /// In the audit, before the change: without an entry it is not made.
    Before(AuditedState),
}

/// Which states of the changed object the entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AuditedState {
    /// The state before the change, of an object that is gone.
    Before,
    /// The state after the change.
    After,
    Both,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PermissionRow {
    pub(super) method: &'static str,
    /// As it is documented. `{ref}` is a fresh task of the namespace, `{id}` a fresh token of it.
    pub(super) path: &'static str,
    pub(super) query: &'static str,
    pub(super) body: Option<fn(&str) -> Value>,
    /// Empty: anybody, without a token too.
    pub(super) roles: &'static [&'static str],
    /// None: the call is about all namespaces, and denied to callers that reach only some.
    pub(super) own: Option<u16>,
    pub(super) foreign: Foreign,
    pub(super) recorded: Recorded,
}

impl PermissionRow {
    const fn beside(self, reported: AuditedState) -> Self {
        Self { recorded: Recorded::Beside(reported), ..self }
    }

    const fn before(self, reported: AuditedState) -> Self {
        Self { recorded: Recorded::Before(reported), ..self }
    }
}

const READERS: &[&str] = &["viewer", "submitter", "operator", "admin"];
const WRITERS: &[&str] = &["submitter", "admin"];
const CHANGERS: &[&str] = &["submitter", "operator", "admin"];
const WORKERS: &[&str] = &["executor", "admin"];
const OPERATORS: &[&str] = &["operator", "admin"];
const ADMINS: &[&str] = &["admin"];
const METERS: &[&str] = &["viewer", "operator", "admin"];
const NO_TASK: Foreign = Foreign::Hidden("task.not_found");
const NO_QUEUE: Foreign = Foreign::Hidden("queue.not_found");
const NO_EXECUTOR: Foreign = Foreign::Hidden("executor.not_found");
const NO_SCHEDULE: Foreign = Foreign::Hidden("schedule.not_found");
const NO_WORKFLOW: Foreign = Foreign::Hidden("workflow.not_found");
const NO_BULK: Foreign = Foreign::Hidden("bulk.not_found");
const NO_TOKEN: Foreign = Foreign::Hidden("token.not_found");
const NO_ITEMS: Foreign = Foreign::Empty("/items", "[]");

type Body = Option<fn(&str) -> Value>;

const fn row(
    method: &'static str,
    path: &'static str,
    roles: &'static [&'static str],
    own: Option<u16>,
    foreign: Foreign,
    body: Body,
) -> PermissionRow {
    PermissionRow { method, path, query: "", body, roles, own, foreign, recorded: Recorded::Elsewhere }
}

const TASK: Body = Some(|_| json!({"queue": "q", "delay_ms": 3_600_000}));
const BATCH: Body = Some(|_| json!({"tasks": [{"queue": "q", "delay_ms": 3_600_000}]}));
const ALL: Body = Some(|_| json!({"all": true}));
const LATER: Body = Some(|_| json!({"delay_ms": 7_200_000}));
const LEASE: Body = Some(|_| json!({"executor": "y"}));
const LEASE_ANY: Body = Some(|_| json!({"executor": "y", "queues": [{"name": "q"}, {"name": "other"}]}));
const OUTCOMES: Body =
    Some(|place| json!({"outcomes": [{"ref": place, "token": "1-30000", "outcome": "succeeded"}]}));
const BEATS: Body = Some(|place| json!({"executor": "z", "leases": [{"ref": place, "token": "1-30000"}]}));
const QUEUE: Body = Some(|_| json!({"max_waiting": 1_000_000}));
const LIMITS: Body = Some(|_| json!({"max_waiting": 1_000_000_000}));
const LOG_FILTER: Body = Some(|_| json!({"filter": "info"}));
const SCHEDULE: Body = Some(|_| json!({"cron": "@yearly", "owner": "ada", "task": {"queue": "q"}}));
const WORKFLOW: Body = Some(|_| json!({"nodes": {"a": {"task": {"queue": "q"}}}}));
const BULK: Body = Some(|_| json!({"action": "cancel", "filter": {"queue": "none"}}));
const OTHER_OWNER: Body = Some(|_| json!({"owner": "bob"}));
const RANGE: Body = Some(|_| json!({"from": 1_700_000_000_000_i64, "to": 1_740_000_000_000_i64}));
/// For tokens, the argument is the namespace.
const TOKEN: Body = Some(|namespace| json!({"name": "t", "roles": ["viewer"], "namespaces": [namespace]}));

use AuditedState::{After, Before, Both};

pub(super) const TABLE: [PermissionRow; 90] = [
    row("POST", "/v1/tasks", WRITERS, Some(201), Foreign::Denied, TASK),
    row("GET", "/v1/tasks", READERS, Some(200), NO_ITEMS, None),
    row(
        "POST",
        "/v1/tasks/batch",
        WRITERS,
        Some(200),
        Foreign::Empty("/results/0/error/code", "\"auth.denied\""),
        BATCH,
    ),
    row("GET", "/v1/tasks/{ref}", READERS, Some(200), NO_TASK, None),
    row("PATCH", "/v1/tasks/{ref}", CHANGERS, Some(200), NO_TASK, LATER).beside(Both),
    row("GET", "/v1/tasks/{ref}/why", READERS, Some(200), NO_TASK, None),
    row("POST", "/v1/tasks/{ref}/cancel", CHANGERS, Some(200), NO_TASK, None).beside(Both),
    row("POST", "/v1/tasks/{ref}/run-now", CHANGERS, Some(200), NO_TASK, None).beside(Both),
    row("POST", "/v1/tasks/{ref}/redrive", OPERATORS, Some(409), NO_TASK, None).beside(Both),
    row("POST", "/v1/tasks/{ref}/bury", CHANGERS, Some(200), NO_TASK, None).beside(Both),
    // It waits: only what is finished is deleted.
    row("DELETE", "/v1/tasks/{ref}", OPERATORS, Some(409), NO_TASK, None).before(Before),
    row("POST", "/v1/queues/{queue}/lease", WORKERS, Some(200), Foreign::Denied, LEASE),
    row("POST", "/v1/lease", WORKERS, Some(200), Foreign::Denied, LEASE_ANY),
    row(
        "POST",
        "/v1/outcomes",
        WORKERS,
        Some(200),
        Foreign::Empty("/results/0/status", "\"stale\""),
        OUTCOMES,
    ),
    row("POST", "/v1/heartbeats", WORKERS, Some(200), Foreign::Empty("/leases/0/lost", "true"), BEATS),
    row("GET", "/v1/executors", READERS, Some(200), NO_ITEMS, None),
    row("GET", "/v1/executors/{executor}", READERS, Some(200), NO_EXECUTOR, None),
    row("POST", "/v1/executors/{executor}/drain", OPERATORS, Some(200), NO_EXECUTOR, None).before(Both),
    row("POST", "/v1/executors/{executor}/quiet", OPERATORS, Some(200), NO_EXECUTOR, None).before(Both),
    row("POST", "/v1/executors/{executor}/resume", OPERATORS, Some(200), NO_EXECUTOR, None).before(Both),
    row("GET", "/v1/dead-letters", READERS, Some(200), NO_ITEMS, None),
    row("POST", "/v1/dead-letters/redrive", OPERATORS, Some(200), Foreign::Empty("/tasks", "0"), ALL)
        .before(After),
    row("GET", "/v1/queues", READERS, Some(200), NO_ITEMS, None),
    row("GET", "/v1/queues/{queue}", READERS, Some(200), NO_QUEUE, None),
    row("GET", "/v1/queues/{queue}/stats", READERS, Some(200), NO_QUEUE, None),
    row("PUT", "/v1/queues/{queue}", OPERATORS, Some(200), Foreign::Denied, QUEUE).before(Both),
    row("PATCH", "/v1/queues/{queue}", OPERATORS, Some(200), Foreign::Denied, QUEUE).before(Both),
    row("DELETE", "/v1/queues/{queue}", OPERATORS, Some(200), Foreign::Denied, None).before(Before),
    row("GET", "/v1/queues/{queue}/changes", READERS, Some(200), NO_ITEMS, None),
    row("POST", "/v1/queues/{queue}/pause", OPERATORS, Some(200), Foreign::Denied, None).before(Both),
    row("POST", "/v1/queues/{queue}/resume", OPERATORS, Some(200), Foreign::Denied, None).before(Both),
    // It is not scanned.
    row("POST", "/v1/queues/{queue}/scan", OPERATORS, Some(409), Foreign::Denied, None),
    row("GET", "/v1/alerts", READERS, Some(200), Foreign::Same, None),
    row("GET", "/v1/namespaces", READERS, Some(200), Foreign::Same, None),
    row("GET", "/v1/namespaces/{namespace}", READERS, Some(200), Foreign::Empty("/revision", "0"), None),
    row("PUT", "/v1/namespaces/{namespace}", ADMINS, Some(200), Foreign::Denied, LIMITS).before(Both),
    // Without its name said once more nothing is deleted: the rest of the walk needs what is there.
    row("DELETE", "/v1/namespaces/{namespace}", ADMINS, Some(400), Foreign::Denied, None).before(Both),
    row("GET", "/v1/limits", READERS, None, Foreign::Denied, None),
    row("PUT", "/v1/limits", ADMINS, None, Foreign::Denied, LIMITS).before(Both),
    row("GET", "/v1/log-filter", READERS, None, Foreign::Denied, None),
    row("PUT", "/v1/log-filter", OPERATORS, None, Foreign::Denied, LOG_FILTER).before(Both),
    row("GET", "/v1/me", READERS, Some(200), Foreign::Same, None),
    row("POST", "/v1/tokens", ADMINS, Some(201), Foreign::Denied, TOKEN).before(After),
    row("GET", "/v1/tokens", ADMINS, Some(200), Foreign::Same, None),
    row("DELETE", "/v1/tokens/{id}", ADMINS, Some(200), NO_TOKEN, None).before(Both),
    row("POST", "/v1/tokens/{id}/rotate", ADMINS, Some(200), NO_TOKEN, None).before(Both),
    PermissionRow {
        query: "?namespace={namespace}",
        ..row("GET", "/v1/audit", ADMINS, Some(200), NO_ITEMS, None)
    },
    row("GET", "/v1/schedules", READERS, Some(200), NO_ITEMS, None),
    row("GET", "/v1/schedules/{schedule}", READERS, Some(200), NO_SCHEDULE, None),
    row("PUT", "/v1/schedules/{schedule}", CHANGERS, Some(200), Foreign::Denied, SCHEDULE).before(Both),
    row("PATCH", "/v1/schedules/{schedule}", CHANGERS, Some(200), Foreign::Denied, OTHER_OWNER).before(Both),
    row("DELETE", "/v1/schedules/{schedule}", CHANGERS, Some(200), Foreign::Denied, None).before(Both),
    row("POST", "/v1/schedules/preview", READERS, Some(200), Foreign::Same, SCHEDULE),
    row("GET", "/v1/schedules/{schedule}/next", READERS, Some(200), NO_SCHEDULE, None),
    row("GET", "/v1/schedules/{schedule}/runs", READERS, Some(200), NO_SCHEDULE, None),
    row("POST", "/v1/schedules/{schedule}/pause", CHANGERS, Some(200), NO_SCHEDULE, None).before(Both),
    row("POST", "/v1/schedules/{schedule}/resume", CHANGERS, Some(200), NO_SCHEDULE, None).before(Both),
    row("POST", "/v1/schedules/{schedule}/run", CHANGERS, Some(200), NO_SCHEDULE, None).before(After),
    row("POST", "/v1/schedules/{schedule}/backfill", CHANGERS, Some(200), NO_SCHEDULE, RANGE).before(After),
    row("POST", "/v1/workflows", WRITERS, Some(201), Foreign::Denied, WORKFLOW),
    row("GET", "/v1/workflows", READERS, Some(200), NO_ITEMS, None),
    row("GET", "/v1/workflows/{workflow}", READERS, Some(200), NO_WORKFLOW, None),
    row("GET", "/v1/workflows/{workflow}/graph", READERS, Some(200), NO_WORKFLOW, None),
    row("POST", "/v1/workflows/{workflow}/cancel", CHANGERS, Some(409), NO_WORKFLOW, None).before(Both),
    row("POST", "/v1/workflows/{workflow}/retry", CHANGERS, Some(409), NO_WORKFLOW, None).before(Both),
    row("POST", "/v1/workflows/{workflow}/nodes/{node}/skip", CHANGERS, Some(409), NO_WORKFLOW, None)
        .before(Both),
    row("POST", "/v1/workflows/{workflow}/rerun", WRITERS, Some(201), NO_WORKFLOW, None).before(After),
    row("POST", "/v1/bulk", CHANGERS, Some(201), Foreign::Denied, BULK).before(After),
    row("GET", "/v1/bulk", READERS, Some(200), NO_ITEMS, None),
    row("GET", "/v1/bulk/{bulk}", READERS, Some(200), NO_BULK, None),
    row("GET", "/v1/bulk/{bulk}/tasks", READERS, Some(200), NO_BULK, None),
    row("GET", "/v1/bulk/{bulk}/failures", READERS, Some(200), NO_BULK, None),
    row("POST", "/v1/bulk/{bulk}/confirm", CHANGERS, Some(200), NO_BULK, None).before(Both),
    // It has not begun.
    row("POST", "/v1/bulk/{bulk}/pause", CHANGERS, Some(409), NO_BULK, None).before(Both),
    row("POST", "/v1/bulk/{bulk}/resume", CHANGERS, Some(409), NO_BULK, None).before(Both),
    row("POST", "/v1/bulk/{bulk}/stop", CHANGERS, Some(200), NO_BULK, None).before(Both),
    row("POST", "/v1/bulk/{bulk}/repeat", CHANGERS, Some(409), NO_BULK, None).before(Both),
    row("GET", "/v1/events", READERS, None, Foreign::Denied, None),
    row("GET", "/v1/engines", READERS, None, Foreign::Denied, None),
    row("GET", "/v1/inboxes", READERS, None, Foreign::Denied, None),
    row("GET", "/v1/partitions", READERS, None, Foreign::Denied, None),
    row("GET", "/v1/shards", READERS, None, Foreign::Denied, None),
    row("GET", "/v1/shards/{shard}/ledger", READERS, None, Foreign::Denied, None),
    row("POST", "/v1/shards/{shard}/ledger/check", OPERATORS, None, Foreign::Denied, None),
    row("GET", "/v1/stats", READERS, None, Foreign::Denied, None),
    row("GET", "/v1/stats/due", READERS, None, Foreign::Denied, None),
    row("GET", "/metrics", METERS, None, Foreign::Denied, None),
    row("GET", "/livez", &[], Some(200), Foreign::Same, None),
    row("GET", "/readyz", &[], Some(200), Foreign::Same, None),
    row("GET", "/openapi.json", &[], Some(200), Foreign::Same, None),
];
