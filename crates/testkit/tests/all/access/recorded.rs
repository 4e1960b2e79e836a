//! The audit entry of each call, and its description of the change: every row of the table, once with a
//! working audit and once with one that cannot be written.

use super::{
    site::{AccessCall, AccessSite, ask, get, post},
    table::{AuditedState, PermissionRow, Recorded, TABLE},
};
use punctual_testkit::faults::{Dials, StoreGroup};
use serde_json::{Value, json};

const NS: &str = "a";

#[tokio::test(flavor = "multi_thread")]
async fn every_change_is_written_down_as_the_table_says_on_sqlite() {
    Box::pin(walk(AccessSite::sqlite().await)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_is_written_down_as_the_table_says_on_mysql_and_redis() {
    Box::pin(walk(AccessSite::mysql().await)).await;
}

async fn walk(site: AccessSite) {
    furnish(&site).await;
    for row in TABLE.iter().filter(|row| !row.roles.is_empty()) {
        let what = format!("{} {}", row.method, row.path);
        let asked = Box::pin(request(&site, row, 1)).await;
        let before = newest(&site, None).await;
        let status = site.admin(asked).await.status;
        assert!((200..300).contains(&status), "{what}: {status}");
        let entry = newest(&site, Some(&before)).await;
        let reported = match row.recorded {
            Recorded::Elsewhere => None,
            Recorded::Beside(reported) | Recorded::Before(reported) => Some(reported),
        };
        assert_eq!(entry["action"].as_str(), reported.map(|_| action(row)).as_deref(), "{what}: {entry}");
        if let Some(reported) = reported {
            let (has_before, has_after) = (entry["before"].is_object(), entry["after"].is_object());
            let expected = match reported {
                AuditedState::Before => (true, false),
                AuditedState::After => (false, true),
                AuditedState::Both => (true, true),
            };
            assert_eq!((has_before, has_after), expected, "{what}: {entry}");
            assert_eq!((&entry["status"], &entry["caller"]), (&json!(status), &json!("admin")), "{what}");
        }
        // And with an audit that cannot be written.
        let asked = Box::pin(request(&site, row, 2)).await;
        site.store.faults.set(StoreGroup::Audit, Dials::REFUSES);
        let answer = site.admin(asked).await;
        site.store.faults.heal();
        let reads_it = row.path == "/v1/audit";
        if matches!(row.recorded, Recorded::Before(_)) || reads_it {
            assert_eq!(answer.status, 503, "{what}: {}", answer.text);
        } else {
            assert!((200..300).contains(&answer.status), "{what}: {}", answer.text);
        }
    }
}

/// The newest entry, unless it is that one.
async fn newest(site: &AccessSite, but: Option<&Value>) -> Value {
    let mut page = site.admin(get("/v1/audit?limit=1")).await.expect(200);
    let entry = page["items"][0].take();
    if but.is_some_and(|value| value["id"] == entry["id"]) { Value::Null } else { entry }
}

fn action(row: &PermissionRow) -> String {
    let document = serde_json::to_value(punctual_server::document()).unwrap();
    let operation = &document["paths"][row.path][row.method.to_lowercase()]["operationId"];
    operation.as_str().unwrap().to_owned()
}

async fn furnish(site: &AccessSite) {
    let beat = json!({"executor": "x", "queues": ["q"], "leases": []});
    site.admin(post("/v1/heartbeats", beat).within(NS)).await.expect(200);
    let schedule = json!({"cron": "@yearly", "owner": "ada", "task": {"queue": "q"}});
    site.admin(ask("PUT", "/v1/schedules/s").within(NS).body(Some(schedule))).await.expect(201);
    site.run_once(5_000).await;
}

/// A call that changes something, on objects that were made for it.
async fn request(site: &AccessSite, row: &PermissionRow, nth: usize) -> AccessCall {
    let done = async |ask: AccessCall| {
        let answer = site.admin(ask.within(NS)).await;
        assert!((200..300).contains(&answer.status), "for {} {}: {}", row.method, row.path, answer.text);
        answer.body
    };
    let (mut path, mut reported) = (row.path.to_owned(), String::new());
    if path.contains("{ref}") || ["/v1/outcomes", "/v1/heartbeats"].contains(&row.path) {
        reported = site.insert(NS, json!({"queue": "q", "delay_ms": 3_600_000})).await;
        match (row.method, row.path) {
            (_, "/v1/tasks/{ref}/redrive") => {
                drop(done(post(format!("/v1/tasks/{reported}/bury"), json!({}))).await)
            }
            ("DELETE", _) => drop(done(post(format!("/v1/tasks/{reported}/cancel"), json!({}))).await),
            _ => {}
        }
        path = path.replace("{ref}", &reported);
    }
    if path.contains("{schedule}") {
        let schedule = json!({"cron": "@yearly", "owner": "ada", "task": {"queue": "q"}});
        done(ask("PUT", "/v1/schedules/s").body(Some(schedule))).await;
    }
    if path.contains("{id}") {
        path = path.replace("{id}", &site.token("viewer", &[NS], &["*"]).await.0);
    }
    if path.contains("{workflow}") {
        path = path.replace("{workflow}", &workflow(site, row.path.ends_with("/retry")).await);
    }
    if path.contains("{bulk}") {
        path = path.replace("{bulk}", &bulk(site, row.path).await);
    }
    match (row.method, row.path) {
        ("PUT", "/v1/queues/{queue}")
        | ("DELETE", "/v1/queues/{queue}")
        | ("PATCH", "/v1/queues/{queue}") => {
            drop(done(ask("PUT", "/v1/queues/q").body(Some(json!({"concurrency": 5})))).await);
        }
        (_, "/v1/queues/{queue}/resume") => drop(done(post("/v1/queues/q/pause", json!({}))).await),
        (_, "/v1/queues/{queue}/scan") => {
            drop(done(ask("PUT", "/v1/queues/q").body(Some(json!({"source": "store"})))).await);
        }
        (_, "/v1/queues/{queue}/pause") => {
            // So that something is before it.
            drop(done(post("/v1/queues/q/resume", json!({}))).await);
            drop(done(ask("PUT", "/v1/queues/q").body(Some(json!({"concurrency": 6})))).await);
        }
        ("PUT", "/v1/limits") => {
            drop(done(ask("PUT", "/v1/limits").body(Some(json!({"max_waiting": 77_777})))).await);
        }
        (_, "/v1/namespaces/{namespace}") => {
            let limits = json!({"max_waiting": 77_777});
            drop(
                done(ask("PUT", format!("/v1/namespaces/{}", namespace(row, nth))).body(Some(limits))).await,
            );
        }
        _ => {}
    }
    if row.method == "DELETE" && row.path.contains("{namespace}") {
        path = format!("{path}?confirm={}", namespace(row, nth));
    }
    let path = format!("{path}{}", row.query).replace("{namespace}", &namespace(row, nth));
    let path = path.replace("{queue}", "q").replace("{executor}", "x").replace("{schedule}", "s");
    let path = path.replace("{shard}", "0");
    let body_of = if row.path == "/v1/tokens" { NS } else { reported.as_str() };
    ask(row.method, path.replace("{node}", "a")).within(NS).body(row.body.map(|body| body(body_of)))
}

/// One that is deleted is another one.
fn namespace(row: &PermissionRow, nth: usize) -> String {
    if row.method == "DELETE" { format!("gone-{nth}") } else { NS.to_owned() }
}

async fn workflow(site: &AccessSite, has_failed: bool) -> String {
    let mut node = json!({"task": {"queue": "w"}});
    if has_failed {
        node["when"] = json!("input.missing");
    }
    let begun =
        site.admin(post("/v1/workflows", json!({"input": {}, "nodes": {"a": node}})).within(NS)).await;
    begun.expect(201)["ref"].as_str().unwrap().to_owned()
}

/// In a state in which the call is taken.
async fn bulk(site: &AccessSite, path: &str) -> String {
    let asked = json!({"action": "cancel", "filter": {"queue": "none"}});
    let id = site.admin(post("/v1/bulk", asked).within(NS)).await.expect(201)["id"].to_string();
    let call = async |what: &str| {
        site.admin(post(format!("/v1/bulk/{id}/{what}"), json!({})).within(NS)).await.expect(200);
    };
    if ["/pause", "/resume", "/repeat"].iter().any(|name| path.ends_with(name)) {
        call("confirm").await;
    }
    if path.ends_with("/resume") {
        call("pause").await;
    }
    if path.ends_with("/repeat") {
        for _ in 0..3 {
            site.bulk.run_once(site.engine.now()).await.unwrap();
        }
    }
    id
}
