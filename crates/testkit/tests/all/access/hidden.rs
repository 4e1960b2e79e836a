//! What a token for some queues of a namespace does not see of the others, and what one token cannot learn from another's
//! requests. Seen to fail: with a `Who::sees` that always
//! says yes; with keys of replies that have no owner.

use super::site::{AccessSite, get, post};
use serde_json::{Value, json};

const NS: &str = "shop";

async fn both(case: impl AsyncFn(AccessSite)) {
    case(AccessSite::sqlite().await).await;
    case(AccessSite::mysql().await).await;
}

fn later(queue: &str, task_id: i64) -> Value {
    json!({"queue": queue, "task_id": task_id, "delay_ms": 3_600_000, "payload": "of others"})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_beyond_the_token_is_as_if_it_were_not_there() {
    both(async |site| {
        let (_, token) = site.token("admin", &[NS], &["mail-*"]).await;
        let own = site.insert(NS, later("mail-eu", 1)).await;
        let foreign = site.insert(NS, later("orders", 2)).await;
        let send = async |asked: super::site::AccessCall| site.send(asked.within(NS).with(&token)).await;
        send(get(format!("/v1/tasks/{own}"))).await.expect(200);
        send(get(format!("/v1/tasks/{foreign}"))).await.expect_problem(404, "task.not_found");
        for action in ["cancel", "run-now", "redrive"] {
            let asked = post(format!("/v1/tasks/{foreign}/{action}"), json!({}));
            send(asked).await.expect_problem(404, "task.not_found");
        }
        for path in ["/v1/tasks", "/v1/tasks?task_id=2", "/v1/queues"] {
            let answer = send(get(path)).await;
            assert!(!answer.text.contains("orders"), "{path}: {}", answer.text);
        }
        send(get("/v1/queues/orders")).await.expect_problem(404, "queue.not_found");
        send(post("/v1/queues/orders/pause", json!({}))).await.expect_problem(403, "auth.denied");
        let single = send(post("/v1/queues/orders/lease", json!({}))).await;
        let ready = site.insert(NS, json!({"queue": "mail-eu"})).await;
        site.run_once(10).await;
        for queues in
            [["mail-eu", "orders"], ["orders", "mail-eu"]].map(|list| list.map(|text| json!({"name": text})))
        {
            let several = send(post("/v1/lease", json!({"queues": queues, "wait_ms": 2_000}))).await;
            assert_eq!(
                (several.status, &several.body["detail"]),
                (403, &single.body["detail"]),
                "{}",
                several.text
            );
        }
        single.expect_problem(403, "auth.denied");
        let own_ones = json!({"queues": [{"name": "mail-us"}, {"name": "mail-eu"}], "wait_ms": 10_000});
        let leased = send(post("/v1/lease", own_ones)).await.expect(200);
        assert_eq!(leased["tasks"][0]["ref"], json!(ready), "nothing of it was leased before");
        send(post("/v1/dead-letters/redrive", json!({}))).await.expect_problem(403, "auth.denied");
        let none = send(post("/v1/dead-letters/redrive", json!({"queue": "orders"}))).await.expect(200);
        assert_eq!(none["tasks"], 0);
        let task = site.admin(get(format!("/v1/tasks/{foreign}")).within(NS)).await.expect(200);
        assert_eq!(task["state"], "scheduled");
    })
    .await;
}

/// An id is unique in the whole namespace: a call with it must neither show nor replace a task in a queue
/// that the token does not cover.
#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_stands_beyond_the_token_is_neither_shown_nor_replaced() {
    both(async |site| {
        let (_, token) = site.token("submitter", &[NS], &["mail-*"]).await;
        let foreign = site.insert(NS, later("orders", 7)).await;
        let mut asked = later("mail-eu", 7);
        for version in [0, 1] {
            asked["task_version"] = json!(version);
            let one = site.send(post("/v1/tasks", asked.clone()).within(NS).with(&token)).await;
            assert!(!one.text.contains("of others"), "{}", one.text);
            one.expect_problem(403, "auth.denied");
            let batch = json!({"tasks": [asked, later("mail-eu", 8 + version), later("orders", 9)]});
            let batch = site.send(post("/v1/tasks/batch", batch).within(NS).with(&token)).await.expect(200);
            let results: Vec<u64> = batch["results"]
                .as_array()
                .unwrap()
                .iter()
                .map(|entry| entry["status"].as_u64().unwrap())
                .collect();
            assert_eq!(results, [403, 201, 403], "{batch}");
        }
        let task = site.admin(get(format!("/v1/tasks/{foreign}")).within(NS)).await.expect(200);
        assert_eq!((&task["queue"], &task["task_version"]), (&json!("orders"), &json!(0)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_beyond_the_token_are_nobodys() {
    both(async |site| {
        let (_, token) = site.token("executor", &["other", NS], &["mail-*"]).await;
        for queue in ["orders", "mail-eu"] {
            site.insert(NS, json!({"queue": queue})).await;
        }
        site.run_once(1_000).await;
        for (queue, status, is_held) in [("orders", "stale", false), ("mail-eu", "accepted", true)] {
            let leased = site.lease(NS, queue).await.remove(0);
            let (place, fence) = (&leased["ref"], &leased["token"]);
            let beat = json!({"executor": "x", "leases": [{"ref": place, "token": fence}]});
            let news = site.send(post("/v1/heartbeats", beat).within(NS).with(&token)).await.expect(200);
            assert_eq!(news["leases"][0]["lost"] != true, is_held, "{news}");
            let log = json!([{"level": "info", "text": "a word"}]);
            let outcome = json!({"ref": place, "token": fence, "outcome": "succeeded", "log": log});
            // Said twice, it is not believed the second time either.
            let asked = post("/v1/outcomes", json!({"outcomes": [outcome, outcome]})).within(NS).with(&token);
            let results = site.send(asked).await.expect(200)["results"].clone();
            assert_eq!((&results[0]["status"], &results[1]["status"]), (&json!(status), &json!("stale")));
            let path = format!("/v1/tasks/{}", place.as_str().unwrap());
            let task = site.admin(get(path).within(NS)).await.expect(200);
            assert_eq!(task["state"] == "succeeded", is_held, "{task}");
            assert_eq!(task["log"].as_array().is_some_and(|log| !log.is_empty()), is_held, "{task}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_kept_for_one_token_is_not_given_to_another() {
    both(async |site| {
        let (_, first) = site.token("submitter", &[NS], &["*"]).await;
        let (_, second) = site.token("submitter", &[NS], &["*"]).await;
        let asked = |token: &str| {
            post("/v1/tasks", json!({"queue": "mail", "payload": "one wish"}))
                .within(NS)
                .header("idempotency-key", "k1")
                .with(token)
        };
        let one = site.send(asked(&first)).await.expect(201);
        let again = site.send(asked(&first)).await;
        assert!(again.headers.contains_key("idempotency-replayed"));
        assert_eq!(again.expect(201)["ref"], one["ref"]);
        let other = site.send(asked(&second)).await;
        assert!(!other.headers.contains_key("idempotency-replayed"));
        assert_ne!(other.expect(201)["ref"], one["ref"]);
    })
    .await;
}

/// An executor reports the tasks that it holds: it must not see another executor's task by naming it.
#[tokio::test]
async fn an_executor_that_claims_anothers_task_is_not_shown_it() {
    let site = AccessSite::sqlite().await;
    site.insert(NS, json!({"queue": "orders"})).await;
    site.run_once(1_000).await;
    let leased = site.lease(NS, "orders").await.remove(0);
    let claim =
        json!({"executor": "x", "queues": ["q"], "leases": [{"ref": leased["ref"], "token": "9-30000"}]});
    let (_, token) = site.token("admin", &["own"], &["*"]).await;
    site.send(post("/v1/heartbeats", claim).within("own").with(&token)).await.expect(200);
    site.run_once(5_000).await;
    let shown = site.send(get("/v1/executors/x").within("own").with(&token)).await.expect(200);
    assert_eq!(shown["leases"], json!([]), "{shown}");
}
