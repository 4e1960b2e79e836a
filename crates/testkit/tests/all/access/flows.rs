//! Workflows in the API outside of their own pages: a node's task, a full namespace, and lease tokens.

use super::site::{AccessSite, ask, get, post};
use serde_json::json;

async fn both(case: impl AsyncFn(AccessSite)) {
    case(AccessSite::sqlite().await).await;
    case(AccessSite::mysql().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_a_node_names_its_workflow_and_so_does_its_lease() {
    both(async |site| {
        let begun = post("/v1/workflows", json!({"nodes": {"a": {"task": {"queue": "q"}}}})).within("eu");
        let reference = site.admin(begun).await.expect(201)["ref"].as_str().unwrap().to_owned();
        let listed = site.admin(get("/v1/tasks?queue=q").within("eu")).await.expect(200);
        let task = listed["items"][0]["ref"].as_str().unwrap().to_owned();
        let why = site.admin(get(format!("/v1/tasks/{task}/why")).within("eu")).await.expect(200);
        assert_eq!((&why["workflow"], &why["workflow_node"]), (&json!(reference), &json!("a")));
        site.run_once(1_000).await;
        let leased = site.lease("eu", "q").await;
        let token = leased[0]["token"].as_str().unwrap();
        assert!(token.ends_with(&format!("-{reference}")), "{token} of {reference}");
        let outcome = json!({"ref": task, "token": token, "outcome": "succeeded"});
        // In one request with what is of no workflow.
        let other = json!({"ref": task, "token": "1-30000", "outcome": "succeeded"});
        let asked = post("/v1/outcomes", json!({"outcomes": [other, outcome, other]})).within("eu");
        let results = site.admin(asked).await.expect(200)["results"].clone();
        let statuses: Vec<&str> =
            results.as_array().unwrap().iter().map(|result| result["status"].as_str().unwrap()).collect();
        assert_eq!(statuses, ["stale", "accepted", "stale"]);
        // A label of a caller's own names none.
        site.insert("eu", json!({"queue": "other", "labels": {"workflow": "mine"}})).await;
        let listed = site.admin(get("/v1/tasks?queue=other").within("eu")).await.expect(200);
        let own = listed["items"][0]["ref"].as_str().unwrap().to_owned();
        let why = site.admin(get(format!("/v1/tasks/{own}/why")).within("eu")).await.expect(200);
        assert!(why.get("workflow").is_none(), "{why}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_begins_where_a_task_could_be_inserted_and_then_goes_on() {
    both(async |site| {
        let put = |path: &str, body| ask("PUT", path).within("eu").body(Some(body));
        site.admin(put("/v1/queues/first", json!({"max_waiting": 1}))).await.expect(200);
        site.admin(put("/v1/queues/second", json!({"max_waiting": 1}))).await.expect(200);
        let task = |queue: &str| json!({"task": {"queue": queue}, "delay_ms": 60_000});
        let document = json!({"nodes": {
            "a": task("first"), "b": task("first"),
            "c": {"task": {"queue": "second"}, "after": ["a"]},
        }});
        // Two of its first nodes go to a queue that has room for one: what has begun comes to its end.
        site.admin(post("/v1/workflows", document.clone()).within("eu")).await.expect(201);
        let waiting = site.admin(get("/v1/tasks?queue=first").within("eu")).await.expect(200);
        assert_eq!(waiting["items"].as_array().unwrap().len(), 2);
        site.run_once(2_000).await;
        let refused = site.admin(post("/v1/workflows", document).within("eu")).await;
        refused.expect_problem(429, "queue.full");
        // A queue that only later nodes go to does not matter.
        site.insert("eu", json!({"queue": "second", "delay_ms": 60_000})).await;
        let later =
            json!({"nodes": {"a": task("third"), "c": {"task": {"queue": "second"}, "after": ["a"]}}});
        site.admin(post("/v1/workflows", later).within("eu")).await.expect(201);
    })
    .await;
}
