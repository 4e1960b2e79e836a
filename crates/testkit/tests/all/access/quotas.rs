//! Quotas of a namespace and of the installation, each over the API on both kinds of store: calls beyond the
//! quota get an error with a retry time; others continue. Seen to fail: with unbounded payload bytes; with
//! installation slots that are not held.

use super::site::{AccessCall, AccessSite, ask, get, post};
use punctual_testkit::patience::until;
use serde_json::{Value, json};

async fn both(case: impl AsyncFn(AccessSite)) {
    case(AccessSite::sqlite().await).await;
    case(AccessSite::mysql().await).await;
}

/// A namespace's, and that of everything.
const SCOPES: [&str; 2] = ["/v1/namespaces/shop", "/v1/limits"];

async fn set(site: &AccessSite, scope: &str, quota: Value) {
    site.admin(ask("PUT", scope).body(Some(quota))).await.expect(200);
}

fn insert(namespace: &str) -> AccessCall {
    post("/v1/tasks", json!({"queue": "q", "delay_ms": 60_000, "payload": "x".repeat(98)})).within(namespace)
}

/// Waits until an insert is accepted: waiting tasks are counted once a second.
async fn taken(site: &AccessSite) {
    until("there is room", async || site.admin(insert("shop")).await.status == 201).await;
}

async fn cancel_all(site: &AccessSite) {
    let waiting = site.admin(get("/v1/tasks?state=scheduled").within("shop")).await.expect(200);
    for task in waiting["items"].as_array().unwrap() {
        let cancel = format!("/v1/tasks/{}/cancel", task["ref"].as_str().unwrap());
        site.admin(post(cancel, json!({})).within("shop")).await.expect(200);
    }
}

/// The first is taken, and no second one; not of another namespace either where it is of everything.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_inserted_beyond_a_quota_is_told_when_to_come_again() {
    both(async |site| {
        let rate = json!({"limit": 1, "period_ms": 7_000, "burst": 1});
        for (quota, code, wait) in [
            (json!({"max_waiting": 1}), "queue.full", "1"),
            (json!({"max_payload_bytes": 199}), "quota.payload_bytes", "1"),
            (json!({"insert_rate": rate}), "quota.insert_rate", "7"),
        ] {
            for scope in SCOPES {
                set(&site, scope, quota.clone()).await;
                taken(&site).await;
                let stranger = site.admin(insert("other")).await;
                for refused in [site.admin(insert("shop")).await, stranger] {
                    if refused.status == 201 {
                        assert_eq!(scope, SCOPES[0], "{quota}: it is of everything");
                        let place = refused.body["ref"].as_str().unwrap();
                        let cancel = post(format!("/v1/tasks/{place}/cancel"), json!({})).within("other");
                        site.admin(cancel).await.expect(200);
                        continue;
                    }
                    assert_eq!(refused.headers["retry-after"], wait, "{quota}: {}", refused.text);
                    refused.expect_problem(429, code);
                }
                cancel_all(&site).await;
                site.run_once(7_000).await;
                taken(&site).await;
                cancel_all(&site).await;
                set(&site, scope, json!({})).await;
            }
        }
    })
    .await;
}

/// No call is refused because slots or starts are missing: tasks wait, and other namespaces' tasks start.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_started_is_bounded_by_slots_and_by_a_rate() {
    both(async |site| {
        let rate = json!({"limit": 2, "period_ms": 600_000, "burst": 2});
        for (nth, quota) in [json!({"concurrency": 2}), json!({"rate": rate})].into_iter().enumerate() {
            for scope in SCOPES {
                set(&site, scope, quota.clone()).await;
                let mut leased = Vec::new();
                for namespace in ["shop", "other"] {
                    let queue = format!("q-{nth}-{}", scope.len());
                    for _ in 0..4 {
                        site.insert(namespace, json!({"queue": queue})).await;
                    }
                    site.run_once(1_000).await;
                    site.run_once(1_000).await;
                    let tasks = site.lease(namespace, &queue).await;
                    leased.push(tasks.len());
                    let of =
                        |task: &Value| json!({"ref": task["ref"], "token": task["token"], "outcome": "succeeded"});
                    if scope == SCOPES[0] {
                        let outcomes: Vec<Value> = tasks.iter().map(of).collect();
                        let done = post("/v1/outcomes", json!({"outcomes": outcomes})).within(namespace);
                        site.admin(done).await.expect(200);
                    }
                }
                let others = if scope == SCOPES[0] { 4 } else { 0 };
                assert_eq!(leased, [2, others], "{quota} of {scope}");
                set(&site, scope, json!({})).await;
                // So that the next scope begins with free slots.
                site.run_once(120_000).await;
                let books = site.admin(get("/v1/namespaces/shop")).await.expect(200);
                assert!(books["usage"]["in_flight"].as_i64().unwrap() <= 2, "{books}");
            }
        }
    })
    .await;
}
