//! Isolation, derived from the document that the server serves: for every operation in it and every role,
//! another tenant's object is answered exactly like a missing one. An operation, a parameter or a body that
//! this test cannot fill in fails it: add how it could name another tenant's object. Seen to fail: by unknown
//! operations.

use super::{
    site::{AccessCall, AccessSite, Answer, ask, get, post},
    table::ROLES,
};
use punctual_domain::place::TaskRef;
use serde_json::{Value, json};

const OWN: &str = "own";
/// In each name and each text of the other namespace.
const MARK: &str = "hidden";
const METHODS: [&str; 5] = ["get", "post", "patch", "put", "delete"];
/// Of headers nothing can be named but the namespace.
const HEADERS: [&str; 5] =
    ["punctual-namespace", "idempotency-key", "if-match", "if-none-match", "traceparent"];

/// What a request names.
#[derive(Clone, Debug)]
struct Target {
    namespace: String,
    queue: String,
    executor: String,
    schedule: String,
    workflow: String,
    bulk: String,
    place: String,
    /// An executor's: `ref` and its token.
    leased: String,
    lease: String,
    task_id: String,
    key: String,
    token: String,
    kind: String,
    label: String,
}

/// Names of the same length and kind, of things that do not exist.
fn nothing(like: &Target) -> Target {
    let beside = |place: &str| {
        let place: TaskRef = place.parse().unwrap();
        TaskRef { id: place.id + 1_000_000, ..place }.to_string()
    };
    Target {
        namespace: "nobody-b".to_owned(),
        queue: "nobody-q".to_owned(),
        executor: "nobody-x".to_owned(),
        schedule: "nobody-s".to_owned(),
        workflow: "w999999".to_owned(),
        bulk: "7000003".to_owned(),
        place: beside(&like.place),
        leased: beside(&like.leased),
        lease: like.lease.clone(),
        task_id: "7000002".to_owned(),
        key: "nobody-key".to_owned(),
        token: "zzzzzzzzzzzz".to_owned(),
        kind: "nobody-k".to_owned(),
        label: "nobody-l".to_owned(),
    }
}

/// An operation as the document has it.
struct Operation {
    id: String,
    method: String,
    path: String,
    query: Vec<String>,
    has_body: bool,
}

async fn operations(site: &AccessSite) -> Vec<Operation> {
    let document = site.send(get("/openapi.json")).await.expect(200);
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in METHODS {
            let Some(operation) = item.get(method) else { continue };
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let of = |place: &str| {
                let its = parameters.iter().filter(|parameter| parameter["in"] == place);
                its.map(|entry| entry["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
            };
            for header in of("header") {
                assert!(HEADERS.contains(&header.to_lowercase().as_str()), "{path}: what can {header} name?");
            }
            all.push(Operation {
                id: operation["operationId"].as_str().unwrap().to_owned(),
                method: method.to_uppercase(),
                path: path.clone(),
                query: of("query"),
                has_body: operation["requestBody"].is_object(),
            });
        }
    }
    assert!(all.len() > 40, "{}", all.len());
    all
}

impl Operation {
    /// Whether something in it is named for all namespaces together.
    fn names_globally(&self) -> bool {
        let all = ["{ref}", "{id}", "{namespace}", "{bulk}", "{workflow}"];
        let path = all.iter().any(|text| self.path.contains(text));
        path || ["report_outcomes", "send_heartbeats", "create_token", "list_audit"]
            .contains(&self.id.as_str())
    }

    /// The request without parameters, and one with each that could name something.
    fn asked(&self, target: &Target) -> Vec<AccessCall> {
        let path = self
            .path
            .replace("{ref}", &target.place)
            .replace("{queue}", &target.queue)
            .replace("{shard}", "0");
        let path = path.replace("{executor}", &target.executor).replace("{namespace}", &target.namespace);
        let path = path.replace("{id}", &target.token).replace("{schedule}", &target.schedule);
        let path = path.replace("{workflow}", &target.workflow).replace("{node}", "a");
        let path = path.replace("{bulk}", &target.bulk);
        assert!(!path.contains('{'), "{}: this test cannot fill in its path", self.path);
        let plain = ask(&self.method, &path).body(self.body(target));
        let with = |(name, value): (&String, String)| {
            ask(&self.method, format!("{path}?{name}={value}")).body(self.body(target))
        };
        let named = self.query.iter().filter_map(|name| Some((name, self.value(name, target)?)));
        [plain].into_iter().chain(named.map(with)).collect()
    }

    /// None: it names nothing.
    fn value(&self, parameter: &str, target: &Target) -> Option<String> {
        Some(match parameter {
            "queue" | "prefix" => target.queue.clone(),
            "task_id" => target.task_id.clone(),
            "key" => target.key.clone(),
            "kind" | "name" => target.kind.clone(),
            "label" => format!("{}:{MARK}", target.label),
            "namespace" | "confirm" => target.namespace.clone(),
            "token" => target.token.clone(),
            "error" => target.label.clone(),
            "task_version" | "state" | "event" | "engine" | "due_after" | "due_before" | "since"
            | "until" | "action" | "limit" | "cursor" | "n" | "format" | "phase" | "sort" | "paused"
            | "severity" | "wait_ms" => {
                return None;
            }
            other => panic!("{}: this test does not know what {other:?} can name", self.id),
        })
    }

    fn body(&self, target: &Target) -> Option<Value> {
        let lease = json!({"ref": target.leased, "token": target.lease});
        let body = match self.id.as_str() {
            "insert_task" => json!({"queue": target.queue, "delay_ms": 3_600_000}),
            "insert_batch" => json!({"tasks": [{"queue": target.queue, "delay_ms": 3_600_000}]}),
            "patch_task" => json!({"delay_ms": 7_200_000}),
            "cancel_task" | "bury_task" | "run_task_now" | "redrive_task" | "pause_queue"
            | "resume_queue" | "rotate_token" => {
                json!({})
            }
            "lease_tasks" => json!({"wait_ms": 0}),
            "lease_tasks_from_several" => json!({"queues": [{"name": target.queue}]}),
            "report_outcomes" => {
                let outcome = json!({"ref": target.leased, "token": target.lease, "outcome": "succeeded"});
                json!({"outcomes": [outcome]})
            }
            "put_schedule" | "preview_schedule" => {
                json!({"cron": "@yearly", "owner": "ada", "task": {"queue": target.queue}})
            }
            "create_workflow" => json!({"nodes": {"a": {"task": {"queue": target.queue}}}}),
            "cancel_workflow" | "rerun_workflow" => json!({}),
            "patch_schedule" => json!({"owner": "bob"}),
            "backfill_schedule" => json!({"from": 1_700_000_000_000_i64, "to": 1_740_000_000_000_i64}),
            "pause_schedule" | "resume_schedule" | "run_schedule" => json!({}),
            "create_bulk" => json!({"action": "cancel", "filter": {"queue": target.queue}}),
            "confirm_bulk" | "pause_bulk" | "resume_bulk" | "stop_bulk" | "repeat_bulk" => json!({}),
            "send_heartbeats" => json!({"executor": "own-x", "leases": [lease]}),
            "redrive_dead_letters" => json!({"queue": target.queue}),
            "put_queue" | "patch_queue" | "put_namespace" | "put_limits" => json!({"max_waiting": 9}),
            "put_log_filter" => json!({"filter": "info"}),
            "create_token" => json!({"name": "t", "roles": ["viewer"], "namespaces": [target.namespace]}),
            other if self.has_body => panic!("{other}: this test does not know how to fill in its body"),
            _ => return None,
        };
        assert!(self.has_body || body == json!({}), "{}: the document has no body for it", self.id);
        self.has_body.then_some(body)
    }
}

/// What a stranger learns: everything but the names that he has said himself, here or before.
fn learnt(answer: &Answer, said: [&Target; 2]) -> (u16, Option<String>, String) {
    let mut text = answer.text.clone();
    for target in said {
        for (name, placeholder) in [
            (&target.place, "<ref>"),
            (&target.leased, "<ref>"),
            (&target.token, "<token>"),
            (&target.namespace, "<namespace>"),
            (&target.queue, "<queue>"),
            (&target.executor, "<executor>"),
            (&target.schedule, "<schedule>"),
            (&target.workflow, "<workflow>"),
            (&target.kind, "<kind>"),
            (&target.label, "<label>"),
            (&target.task_id, "<task_id>"),
            (&target.key, "<key>"),
        ] {
            text = text.replace(name.as_str(), placeholder);
        }
    }
    let tag = answer.headers.get("etag").map(|etag| etag.to_str().unwrap().to_owned());
    (answer.status, tag, text)
}

/// Tasks in several states, an executor with a lease, settings, a token, an answer under a key: all of it with the mark.
async fn furnish(site: &AccessSite) -> Target {
    let (namespace, queue) = (format!("{MARK}-b"), format!("{MARK}-q"));
    let task = |task_id: i64| {
        json!({
            "queue": queue, "task_id": task_id, "kind": format!("{MARK}-k"), "payload": MARK,
            "labels": {format!("{MARK}-l"): MARK}, "delay_ms": 3_600_000
        })
    };
    let due = |task_id: i64| json!({"queue": queue, "task_id": task_id, "payload": MARK});
    for id in [1, 2] {
        site.insert(&namespace, due(id)).await;
    }
    site.run_once(1_000).await;
    let leased = site.lease(&namespace, &queue).await;
    let dead = json!({"ref": leased[0]["ref"], "token": leased[0]["token"], "outcome": "reject", "status_msg": MARK});
    site.admin(post("/v1/outcomes", json!({"outcomes": [dead]})).within(&namespace)).await.expect(200);
    let place = site.insert(&namespace, task(7_000_001)).await;
    let keyed = json!({"queue": queue, "key": format!("{MARK}-key"), "payload": MARK, "delay_ms": 3_600_000});
    site.insert(&namespace, keyed).await;
    let executor = format!("{MARK}-x");
    let lease = json!({"ref": leased[1]["ref"], "token": leased[1]["token"]});
    let beat = json!({"executor": executor, "queues": [queue], "leases": [lease]});
    site.admin(post("/v1/heartbeats", beat).within(&namespace)).await.expect(200);
    let settings = json!({"concurrency": 7, "pause": {"reason": MARK}});
    site.admin(ask("PUT", format!("/v1/queues/{queue}")).within(&namespace).body(Some(settings)))
        .await
        .expect(200);
    let schedule = json!({"cron": "@yearly", "owner": MARK, "task": {"queue": queue}});
    let named = ask("PUT", format!("/v1/schedules/{MARK}-s")).within(&namespace).body(Some(schedule));
    site.admin(named).await.expect(201);
    let nodes = json!({"a": {"task": {"queue": queue, "payload": MARK}}});
    let begun = json!({"name": format!("{MARK}-k"), "input": MARK, "nodes": nodes});
    let begun = site.admin(post("/v1/workflows", begun).within(&namespace)).await.expect(201);
    let asked = json!({"action": "cancel", "filter": {"queue": queue}, "reason": MARK});
    let bulk = site.admin(post("/v1/bulk", asked).within(&namespace)).await.expect(201)["id"].to_string();
    let limits =
        ask("PUT", format!("/v1/namespaces/{namespace}")).body(Some(json!({"max_waiting": 777_777})));
    site.admin(limits).await.expect(200);
    let token = json!({"name": MARK, "roles": ["viewer"], "namespaces": [namespace]});
    let token = site.admin(post("/v1/tokens", token)).await.expect(201)["id"].as_str().unwrap().to_owned();
    site.run_once(6_000).await;
    let text = |token: &Value| token.as_str().unwrap().to_owned();
    Target {
        namespace,
        queue,
        executor,
        schedule: format!("{MARK}-s"),
        workflow: text(&begun["ref"]),
        bulk,
        place,
        leased: text(&leased[1]["ref"]),
        lease: text(&leased[1]["token"]),
        task_id: "7000001".to_owned(),
        key: format!("{MARK}-key"),
        token,
        kind: format!("{MARK}-k"),
        label: format!("{MARK}-l"),
    }
}

/// Asks for both with one token, and finds no difference and nothing that was not said.
async fn compare(
    site: &AccessSite,
    what: &str,
    token: &str,
    operation: &Operation,
    pair: [&Target; 2],
    within: [&str; 2],
) {
    let [real, none] = pair;
    for (real_ask, none_ask) in operation.asked(real).into_iter().zip(operation.asked(none)) {
        let path = format!("{what}: {real_ask:?}");
        let real_answer = site.send(real_ask.within(within[0]).with(token)).await;
        let none_answer = site.send(none_ask.within(within[1]).with(token)).await;
        let (real_learnt, none_learnt) = (learnt(&real_answer, pair), learnt(&none_answer, pair));
        assert_eq!(real_learnt, none_learnt, "{path}");
        assert!(!real_learnt.2.contains(MARK), "{path} shows what is another's: {}", real_learnt.2);
    }
}

async fn strangers_learn_nothing(site: AccessSite) {
    let theirs = furnish(&site).await;
    let none = nothing(&theirs);
    let stock = stock(&site, &theirs).await;
    let operations = operations(&site).await;
    for role in ROLES {
        let (_, token) = site.token(role, &[OWN], &["*"]).await;
        for operation in &operations {
            let within = [theirs.namespace.as_str(), none.namespace.as_str()];
            compare(&site, &format!("{role} elsewhere"), &token, operation, [&theirs, &none], within).await;
            if operation.names_globally() {
                let own = |target: &Target| Target {
                    queue: "own-q".to_owned(),
                    executor: "own-x".to_owned(),
                    ..target.clone()
                };
                compare(
                    &site,
                    &format!("{role} at home"),
                    &token,
                    operation,
                    [&own(&theirs), &own(&none)],
                    [OWN, OWN],
                )
                .await;
            }
        }
        // In their namespace, and for other queues of it.
        let (_, token) = site.token(role, &[&theirs.namespace], &["own-*"]).await;
        let beside = Target { namespace: theirs.namespace.clone(), ..none.clone() };
        for operation in &operations {
            let within = [theirs.namespace.as_str(); 2];
            compare(&site, &format!("{role} beside"), &token, operation, [&theirs, &beside], within).await;
        }
    }
    assert_eq!(self::stock(&site, &theirs).await, stock, "nothing of theirs has changed");
}

async fn stock(site: &AccessSite, theirs: &Target) -> Vec<String> {
    let mut all = Vec::new();
    for path in [
        "/v1/tasks",
        "/v1/dead-letters",
        "/v1/queues",
        "/v1/schedules",
        "/v1/workflows",
        "/v1/bulk",
        &format!("/v1/namespaces/{}", theirs.namespace),
    ] {
        all.push(site.admin(get(path).within(&theirs.namespace)).await.expect(200).to_string());
    }
    let tokens = site.admin(get("/v1/tokens?limit=1000")).await.expect(200);
    let its = tokens["items"].as_array().unwrap().iter().find(|token| token["name"] == MARK).unwrap();
    all.push(format!("{} {}", its["state"], its["rotated_at"]));
    all
}

#[tokio::test]
async fn what_is_anothers_answers_as_what_there_is_not_on_sqlite() {
    strangers_learn_nothing(AccessSite::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_anothers_answers_as_what_there_is_not_on_mysql_and_redis() {
    strangers_learn_nothing(AccessSite::mysql().await).await;
}
