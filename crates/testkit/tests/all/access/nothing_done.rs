//! Every call that changes something, with a store that answers no read from the nth change on, and nothing
//! at all from the nth call on, for each n: the answer must agree with the stored state. "Nothing was done"
//! is never answered after a change; and it is answered if nothing was done. Seen to fail where an error
//! after a change was treated as one before it, each place separately: outcomes with log lines, patches of
//! tasks, states of bulk operations, changes and deletions of schedules, manual runs, queues, executors,
//! workflows and each of their steps, on either store. Redrives of several pages (`server: dead`) and batches
//! over several databases (`contract: store::tests`) have their own tests.

use super::{
    site::{AccessCall, AccessSite, Answer, ask, get, post},
    table::{PermissionRow, TABLE},
};
use punctual_testkit::faults::Rise;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// More than any request makes here.
const CALLS_MAX: usize = 100;
/// They change nothing that lasts.
const UNCHANGING: [&str; 3] =
    ["POST /v1/schedules/preview", "PUT /v1/log-filter", "POST /v1/shards/{shard}/ledger/check"];

#[tokio::test]
async fn nothing_was_done_is_said_only_where_nothing_was_done_on_sqlite() {
    Box::pin(walk(AccessSite::sqlite)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_was_done_is_said_only_where_nothing_was_done_on_mysql_and_redis() {
    Box::pin(walk(AccessSite::mysql)).await;
}

async fn walk(site: impl AsyncFn() -> AccessSite) {
    let mut namespaces = 0;
    for row in TABLE.iter().filter(|row| row.method != "GET") {
        let what = format!("{} {}", row.method, row.path);
        if UNCHANGING.contains(&what.as_str()) {
            continue;
        }
        // What the scenes of another call have left would be turned along with each of these.
        let site = site().await;
        site.run_once(1_000).await;
        for rise in [Rise::BehindChanges, Rise::BehindCalls] {
            namespaces = Box::pin(walk_call(&site, row, rise, namespaces)).await;
        }
    }
}

/// One call, until nothing of it is refused any more. How many namespaces there have been.
async fn walk_call(
    site: &AccessSite,
    row: &PermissionRow,
    rise: fn(usize) -> Rise,
    mut namespaces: usize,
) -> usize {
    let what = format!("{} {}", row.method, row.path);
    for passing in 0.. {
        assert!(passing < CALLS_MAX, "{what} asks the store for something again and again");
        namespaces += 1;
        let scene = Scene { site, namespace: format!("n{namespaces}"), nth: namespaces };
        let asked = Box::pin(scene.prepared(row)).await;
        let before = scene.current().await;
        site.wall.raise(rise(passing));
        let answer = site.admin(asked.within(&scene.namespace)).await;
        let refused = site.wall.down();
        let after = scene.current().await;
        let done = difference(&before, &after);
        let case = format!("{what}, {:?}: {done:?}", rise(passing));
        agrees(&case, &answer, &done, passing);
        if refused == 0 {
            assert!(answer.status < 300 && !done.is_empty(), "{case}: {}", answer.text);
            break;
        }
    }
    namespaces
}

fn agrees(case: &str, answer: &Answer, done: &[String], passed: usize) {
    let is_unknown = answer.body["code"] == "store.outcome_unknown";
    let is_said_undone = answer.status >= 300 && !is_unknown || answer.text.contains("store.unavailable");
    assert!(done.is_empty() || !is_said_undone, "{case}: {}", answer.text);
    if passed == 0 && done.is_empty() && answer.status >= 300 {
        assert_eq!(answer.body["code"], "store.unavailable", "{case}: {}", answer.text);
    }
}

fn difference(before: &BTreeSet<String>, after: &BTreeSet<String>) -> Vec<String> {
    before.symmetric_difference(after).cloned().collect()
}

/// One call, in a namespace of its own.
struct Scene<'a> {
    site: &'a AccessSite,
    namespace: String,
    nth: usize,
}

impl Scene<'_> {
    async fn asked(&self, ask: AccessCall) -> Value {
        let answer = self.site.admin(ask.within(&self.namespace)).await;
        assert!(answer.status < 300, "{}", answer.text);
        answer.body
    }

    async fn inserted(&self, task: Value) -> String {
        self.site.insert(&self.namespace, task).await
    }

    async fn waiting(&self) -> String {
        self.inserted(json!({"queue": "q", "delay_ms": 3_600_000})).await
    }

    async fn leased(&self) -> Value {
        self.inserted(json!({"queue": "q"})).await;
        self.due().await
    }

    /// The one that is due, with the executor `x`.
    async fn due(&self) -> Value {
        self.site.run_once(1_000).await;
        self.site.lease(&self.namespace, "q").await.remove(0)
    }

    async fn rejected(&self, leased: &Value) {
        let outcome = json!({"ref": leased["ref"], "token": leased["token"], "outcome": "reject"});
        let answer = self.asked(post("/v1/outcomes", json!({"outcomes": [outcome]}))).await;
        assert_eq!(answer["results"][0]["status"], "accepted");
    }

    async fn dead(&self) -> String {
        let leased = self.leased().await;
        self.rejected(&leased).await;
        leased["ref"].as_str().unwrap().to_owned()
    }

    /// Its runs of the next minute are made.
    async fn schedule(&self) {
        let body = json!({"cron": "*/10 * * * * *", "owner": "ada", "task": {"queue": "other"}});
        self.asked(ask("PUT", "/v1/schedules/s").body(Some(body))).await;
        self.site.planner.run_once(self.site.engine.now()).await.unwrap();
    }

    /// Its one task is open.
    async fn workflow(&self) -> String {
        let begun = json!({"nodes": {"a": {"task": {"queue": "q", "max_attempts": 1}}}});
        let begun = self.asked(post("/v1/workflows", begun)).await;
        self.site.workflows.run_once(self.site.engine.now()).await.unwrap();
        // The task is due, and the engine claims it in a task of its own: that claim is over before anybody looks.
        self.site.run_once(0).await;
        begun["ref"].as_str().unwrap().to_owned()
    }

    async fn failed_workflow(&self) -> String {
        let workflow = self.workflow().await;
        let leased = self.due().await;
        self.rejected(&leased).await;
        self.site.workflows.go_on().await.unwrap();
        workflow
    }

    /// Previewed.
    async fn bulk(&self, action: Value) -> String {
        self.asked(post("/v1/bulk", action)).await["id"].to_string()
    }

    async fn bulk_reported(&self, id: &str, word: &str) {
        self.asked(post(format!("/v1/bulk/{id}/{word}"), json!({}))).await;
    }

    /// Of two tasks one finds room in the other queue.
    async fn bulk_with_failures(&self) -> String {
        for _ in 0..2 {
            self.waiting().await;
        }
        let capped = ask("PUT", "/v1/queues/full").body(Some(json!({"max_waiting": 1})));
        self.asked(capped).await;
        let action = json!({"action": "set_queue", "args": {"queue": "full"}, "filter": {"queue": "q"}});
        let id = self.bulk(action).await;
        self.bulk_reported(&id, "confirm").await;
        let path = format!("/v1/bulk/{id}");
        while self.asked(get(path.clone())).await["state"] != "done" {
            self.site.clock.advance_ms(1_000);
            self.site.bulk.run_once(self.site.engine.now()).await.unwrap();
        }
        id
    }

    /// Everything that the call of a row needs, and the call.
    async fn prepared(&self, row: &PermissionRow) -> AccessCall {
        let mut place = String::new();
        let mut path = row.path.replace("{queue}", "q").replace("{executor}", "x").replace("{shard}", "0");
        let mut body = row.body.map(|body| body(&self.namespace));
        match (row.method, row.path) {
            ("POST", "/v1/tasks/{ref}/redrive" | "/v1/dead-letters/redrive")
            | ("DELETE", "/v1/tasks/{ref}") => {
                place = self.dead().await;
            }
            (_, path) if path.contains("{ref}") => place = self.waiting().await,
            (_, "/v1/queues/{queue}/lease" | "/v1/lease") => {
                self.inserted(json!({"queue": "q"})).await;
                self.site.run_once(1_000).await;
            }
            (_, "/v1/outcomes" | "/v1/heartbeats") => {
                let leased = self.leased().await;
                let (place, token) = (&leased["ref"], &leased["token"]);
                let log = json!([{"text": "half of it is done"}]);
                body = Some(match row.path {
                    "/v1/outcomes" => json!({"executor": "x", "outcomes": [
                        {"ref": place, "token": token, "outcome": "succeeded", "log": log}]}),
                    _ => json!({"executor": "x", "leases": [{"ref": place, "token": token, "log": log}]}),
                });
            }
            (_, path) if path.contains("{executor}") => {
                let beat = json!({"executor": "x", "queues": ["q"], "leases": []});
                self.asked(post("/v1/heartbeats", beat)).await;
                self.site.run_once(5_000).await;
                if path.ends_with("resume") {
                    self.asked(post("/v1/executors/x/drain", json!({}))).await;
                }
            }
            ("DELETE", "/v1/queues/{queue}") => {
                let capped = ask("PUT", "/v1/queues/q").body(Some(json!({"max_waiting": 7})));
                self.asked(capped).await;
            }
            (_, "/v1/queues/{queue}/resume") => {
                self.asked(post("/v1/queues/q/pause", json!({}))).await;
            }
            ("DELETE", "/v1/namespaces/{namespace}") => {
                self.waiting().await;
                path = format!("{path}?confirm={}", self.namespace);
            }
            ("PUT", "/v1/limits") => body = Some(json!({"max_waiting": 1_000_000 + self.nth})),
            (_, path) if path.contains("{schedule}") => {
                self.schedule().await;
                if path.ends_with("resume") {
                    self.asked(post("/v1/schedules/s/pause", json!({}))).await;
                }
                if path.ends_with("backfill") {
                    let from = 1_740_000_000_000_i64;
                    body = Some(json!({"from": from, "to": from + 5_100_000}));
                }
            }
            _ => path = self.prepared_flow(row, path).await,
        }
        let id = if path.contains("{id}") {
            self.site.token("viewer", &[self.namespace.as_str()], &["*"]).await.0
        } else {
            String::new()
        };
        let path = path.replace("{ref}", &place).replace("{id}", &id);
        let path = path.replace("{schedule}", "s").replace("{namespace}", &self.namespace);
        ask(row.method, path).body(body)
    }

    async fn prepared_flow(&self, row: &PermissionRow, path: String) -> String {
        let cancel = json!({"action": "cancel", "filter": {"queue": "q"}});
        let word = row.path.rsplit('/').next().unwrap_or_default();
        let is_of_bulk = path.contains("{bulk}");
        if word == "scan" {
            let rarely = json!({"source": "store", "scan_interval_ms": 86_400_000});
            self.asked(ask("PUT", "/v1/queues/q").body(Some(rarely))).await;
            self.site.run_once(1_000).await;
            self.inserted(json!({"queue": "q"})).await;
        }
        let workflow = match word {
            "cancel" | "rerun" if path.contains("{workflow}") => self.workflow().await,
            "retry" | "skip" => self.failed_workflow().await,
            _ => String::new(),
        };
        let bulk = match word {
            "repeat" => self.bulk_with_failures().await,
            _ if is_of_bulk => self.bulk(cancel).await,
            _ => String::new(),
        };
        if is_of_bulk && ["pause", "resume", "stop"].contains(&word) {
            self.bulk_reported(&bulk, "confirm").await;
        }
        if is_of_bulk && word == "resume" {
            self.bulk_reported(&bulk, "pause").await;
        }
        path.replace("{workflow}", &workflow).replace("{node}", "a").replace("{bulk}", &bulk)
    }

    /// All that is durable of this namespace, and of everything.
    async fn current(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        let tasks = self.asked(get("/v1/tasks?limit=1000")).await;
        let tasks = tasks["items"].as_array().unwrap();
        // Due tasks are claimed beside the call that asks for them, and maybe only now.
        let unclaimed = |said: String| said.replace(r#""state":"dispatching""#, r#""state":"scheduled""#);
        all.extend(tasks.iter().map(|task| unclaimed(format!("/v1/tasks {task}"))));
        // With its history and its log.
        if let [task] = tasks.as_slice() {
            let path = format!("/v1/tasks/{}", task["ref"].as_str().unwrap());
            all.insert(unclaimed(format!("{path} {}", self.asked(get(path.clone())).await)));
        }
        let here = format!("/v1/namespaces/{}", self.namespace);
        // With its nodes.
        let workflows = self.asked(get("/v1/workflows")).await;
        for workflow in workflows["items"].as_array().unwrap() {
            let path = format!("/v1/workflows/{}", workflow["ref"].as_str().unwrap());
            all.insert(format!("{path} {}", self.asked(get(path.clone())).await));
        }
        let lists = [
            "/v1/queues/q/changes",
            "/v1/executors",
            "/v1/schedules",
            "/v1/bulk",
            "/v1/tokens",
            "/v1/limits",
            here.as_str(),
        ];
        for path in lists {
            let mut found = self.asked(get(path)).await;
            // Of what is above.
            found.as_object_mut().unwrap().remove("usage");
            match found["items"].as_array() {
                Some(items) => all.extend(items.iter().map(|item| format!("{path} {item}"))),
                None => {
                    all.insert(format!("{path} {found}"));
                }
            }
        }
        let runs = self.site.admin(get("/v1/schedules/s/runs?limit=1000").within(&self.namespace)).await;
        all.insert(format!("/v1/schedules/s/runs {}", runs.text));
        all
    }
}
