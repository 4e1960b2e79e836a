//! Queues whose tasks engines deliver to a receiver (N12), on the embedded store, and by two engines on MySQL and Redis: each
//! task once, the receiver's answers, pauses, secrets; and what a dispatcher leaves that dies.

mod crashing;
mod rig;

use punctual_testkit::patience::until;
use rig::{SECRET, Seen, WebhookSite, on_each_ground};
use serde_json::{Value, json};
use std::collections::BTreeSet;

on_each_ground!(
    tasks_are_delivered_once_and_their_results_are_stored,
    what_the_receiver_keeps_ends_by_the_outcome_of_the_receiver,
    a_gone_receiver_pauses_the_queue_until_it_has_a_new_address,
    no_answer_history_or_audit_entry_has_a_secret,
    a_cancelled_delivery_is_given_up,
);

async fn tasks_are_delivered_once_and_their_results_are_stored(site: WebhookSite) {
    site.receive(|seen: &Seen| (200, json!({ "n": seen.body["payload"]["n"] }))).await;
    site.set_webhook("q", "/hook", &json!({})).await;
    let mut refs = Vec::new();
    for nth in 0..40 {
        let task =
            json!({ "queue": "q", "kind": "mail", "payload": { "n": nth }, "delay_ms": (nth % 4) * 200 });
        refs.push(site.insert(nth, &task).await);
    }
    for (nth, r#ref) in refs.iter().enumerate() {
        let task = site.until_state(r#ref, "succeeded").await;
        assert_eq!(
            (&task["result"]["result"], &task["attempt"]),
            (&json!({ "n": nth }), &json!(1)),
            "{task}"
        );
        let last = task["history"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(last["by"], "webhook");
    }
    let seen = site.seen();
    let ids: BTreeSet<&str> = seen.iter().map(|seen| seen.id.as_str()).collect();
    assert_eq!((seen.len(), ids.len()), (40, 40), "each once");
    let first = &seen[0];
    assert_eq!(first.id, format!("{}.1", first.body["ref"].as_str().unwrap()));
    assert!(first.signature.starts_with("v1,"));
    for field in ["task_id", "task_version", "execute_at_ms", "fired_at_ms", "token"] {
        assert!(!first.body[field].is_null(), "{field}");
    }
    assert_eq!((&first.body["queue"], &first.body["kind"]), (&json!("q"), &json!("mail")));
    let metrics: Vec<Value> = site.from_each("/metrics").await;
    let delivered = |text: &Value| {
        let line = "punctual_webhook_deliveries_total{result=\"succeeded\"} ";
        let text = text.as_str().unwrap();
        text.lines().find_map(|text| text.strip_prefix(line)?.parse::<u64>().ok()).unwrap()
    };
    assert_eq!(metrics.iter().map(delivered).sum::<u64>(), 40);
}

async fn what_the_receiver_keeps_ends_by_the_outcome_of_the_receiver(site: WebhookSite) {
    site.receive(|_| (202, Value::Null)).await;
    site.set_webhook("q", "/hook", &json!({})).await;
    let r#ref = site.insert(0, &json!({ "queue": "q" })).await;
    let task = site.until_state(&r#ref, "running").await;
    let lease_ms = task["lease"]["until_ms"].as_i64().unwrap() - site.now_ms();
    assert!(lease_ms > 300_000, "the lease is long enough for the receiver: {task}");
    let token = site.seen()[0].body["token"].clone();
    let outcome =
        json!({ "outcomes": [{ "ref": r#ref, "token": token, "outcome": "succeeded", "result": 7 }] });
    let (_, receipt) = site.call(0, "POST", "/v1/outcomes", &outcome).await;
    assert_eq!(receipt["results"][0]["status"], "accepted", "{receipt}");
    assert_eq!(site.until_state(&r#ref, "succeeded").await["result"]["result"], 7);
    assert_eq!(site.seen().len(), 1);
}

async fn a_gone_receiver_pauses_the_queue_until_it_has_a_new_address(site: WebhookSite) {
    site.receive(|seen| if seen.path == "/old" { (410, json!("moved")) } else { (200, Value::Null) }).await;
    site.set_webhook("q", "/old", &json!({})).await;
    let r#ref = site.insert(0, &json!({ "queue": "q", "max_attempts": 1 })).await;
    until("the queue is paused", || async { !site.get("/v1/queues/q").await["pause"].is_null() }).await;
    let paused = site.get("/v1/queues/q").await["pause"].clone();
    assert_eq!(paused["by"], "webhook");
    assert!(paused["reason"].as_str().unwrap().contains("410"), "{paused}");
    until("the alert", || async {
        let alerts = site.get("/v1/alerts").await;
        alerts["items"].as_array().unwrap().iter().any(|alert| alert["name"] == "webhook_gone")
    })
    .await;
    // The attempt did not count: it was the only one that the task has.
    let task = site.get(&format!("/v1/tasks/{ref}")).await;
    assert_ne!(task["state"], "dead", "{task}");
    site.set_webhook("q", "/new", &json!({})).await;
    site.ok("POST", "/v1/queues/q/resume", &json!({})).await;
    site.until_state(&r#ref, "succeeded").await;
    let ids: Vec<String> = site.seen().into_iter().map(|seen| seen.id).collect();
    let id = format!("{ref}.1");
    assert!(ids.iter().all(|seen| *seen == id), "the same attempt has the same id: {ids:?}");
}

async fn no_answer_history_or_audit_entry_has_a_secret(site: WebhookSite) {
    site.receive(|_| (200, Value::Null)).await;
    let headers = json!({ "headers": { "authorization": "Bearer hidden" } });
    let set = site.set_webhook("q", "/hook", &headers).await;
    assert_eq!(set["webhook"]["secret"], "***", "{set}");
    // What was read is sent back with another setting.
    let change = json!({ "webhook": set["webhook"], "mode": "webhook", "max_attempts": 3 });
    site.ok("PUT", "/v1/queues/q", &change).await;
    site.ok("PATCH", "/v1/queues/q", &json!({ "max_attempts": 2 })).await;
    let r#ref = site.insert(0, &json!({ "queue": "q" })).await;
    site.until_state(&r#ref, "succeeded").await;
    let seen = site.seen().remove(0);
    assert!(seen.signature.starts_with("v1,"), "the mask has kept the secret");
    assert_eq!(seen.authorization, "Bearer hidden");
    for path in ["/v1/queues/q", "/v1/queues", "/v1/queues/q/changes", "/v1/audit"] {
        let text = site.get(path).await.to_string();
        assert!(text.contains("max_attempts") || path == "/v1/queues", "{path}: {text}");
        assert!(!text.contains(SECRET) && !text.contains("Bearer hidden"), "{path}: {text}");
    }
    for (webhook, pointer) in [
        (json!({ "url": "http://127.0.0.1/" }), "/webhook/url"),
        (json!({ "url": "https://example.org/", "secret": "whsec_x" }), "/webhook/secret"),
        (json!({ "url": "https://example.org/", "headers": { "host": "a" } }), "/webhook/headers/host"),
        (
            json!({ "url": "https://example.org/", "headers": { "authorization": "***" } }),
            "/webhook/headers/authorization",
        ),
    ] {
        let (status, answer) = site.call(0, "PATCH", "/v1/queues/q", &json!({ "webhook": webhook })).await;
        assert_eq!((status, &answer["errors"][0]["pointer"]), (400, &json!(pointer)), "{answer}");
    }
    let (status, answer) = site.call(0, "PUT", "/v1/queues/q", &json!({ "mode": "webhook" })).await;
    assert_eq!((status, &answer["errors"][0]["pointer"]), (400, &json!("/webhook")), "{answer}");
}

async fn a_cancelled_delivery_is_given_up(site: WebhookSite) {
    site.receive_in_silence().await;
    site.set_webhook("q", "/hook", &json!({ "timeout_ms": 600_000 })).await;
    let r#ref = site.insert(0, &json!({ "queue": "q" })).await;
    until("the request is sent", || async { site.seen().len() == 1 }).await;
    let stop = json!({ "stop_if_fired": true });
    site.call(0, "POST", &format!("/v1/tasks/{ref}/cancel"), &stop).await;
    // The next heartbeat learns of it.
    site.until_state(&r#ref, "cancelled").await;
    assert_eq!(site.seen().len(), 1);
}
