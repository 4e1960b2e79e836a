//! Namespaces as objects: listed for who reaches them, with what they hold; changed on the revision that was read; and, where
//! servers are set so, made before they are used.

use super::site::{AccessSite, ask, get, post};
use serde_json::{Value, json};

async fn both(case: impl AsyncFn(AccessSite)) {
    case(AccessSite::sqlite().await).await;
    case(AccessSite::mysql().await).await;
}

fn put(namespace: &str, body: Value) -> super::site::AccessCall {
    ask("PUT", format!("/v1/namespaces/{namespace}")).body(Some(body))
}

fn names(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|entry| entry["namespace"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_are_listed_with_what_they_hold_for_who_reaches_them() {
    both(async |site| {
        for namespace in ["a", "b", "c", "d"] {
            for queue in ["mail", "orders"] {
                site.insert(namespace, json!({"queue": queue, "delay_ms": 60_000})).await;
            }
        }
        site.admin(put("b", json!({"description": "the second", "max_waiting": 9}))).await.expect(200);
        site.admin(put("set-only", json!({}))).await.expect(200);
        site.admin(ask("PUT", "/v1/queues/q").within("queue-only").body(Some(json!({"concurrency": 1}))))
            .await
            .expect(200);
        let nightly = json!({"every_ms": 86_400_000, "task": {"queue": "mail"}});
        let nightly = ask("PUT", "/v1/schedules/nightly").within("schedule-only").body(Some(nightly));
        site.admin(nightly).await.expect(201);
        let all = site.admin(get("/v1/namespaces")).await.expect(200);
        assert_eq!(names(&all), ["a", "b", "c", "d", "queue-only", "schedule-only", "set-only"]);
        let b = &all["items"][1];
        assert_eq!(
            (&b["description"], &b["max_waiting"], &b["state"]),
            (&json!("the second"), &json!(9), &json!("active"))
        );
        assert_eq!(b["usage"], json!({"tasks": 2, "waiting": 2, "payload_bytes": 0, "in_flight": 0}));
        assert_eq!(*b, site.admin(get("/v1/namespaces/b")).await.expect(200));

        for (asked, expected) in [
            ("prefix=s", &["schedule-only", "set-only"][..]),
            ("prefix=s&limit=1", &["schedule-only"]),
            ("prefix=x", &[]),
            ("state=deleting", &[]),
            ("state=active&prefix=queue", &["queue-only"]),
        ] {
            let page = site.admin(get(format!("/v1/namespaces?{asked}"))).await.expect(200);
            assert_eq!(names(&page), expected, "{asked}");
        }
        site.admin(get("/v1/namespaces?state=asleep")).await.expect_problem(400, "request.invalid");

        let (_, token) = site.token("viewer", &["b", "d", "x-*"], &["mail"]).await;
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let page =
                site.send(get(format!("/v1/namespaces?limit=1{cursor}")).with(&token)).await.expect(200);
            found.extend(page["items"].as_array().unwrap().clone());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        let seen: Vec<_> = found
            .iter()
            .map(|entry| (entry["namespace"].as_str().unwrap(), entry["usage"]["tasks"].clone()))
            .collect();
        assert_eq!(seen, [("b", json!(1)), ("d", json!(1))], "of the queues that it reaches");
        let of_schedules = site.admin(get("/v1/namespaces/schedule-only")).await.expect(200);
        assert_eq!(of_schedules["state"], "active");
        let gone = ask("DELETE", "/v1/namespaces/schedule-only?confirm=schedule-only");
        site.admin(gone).await.expect(202);
        let deleting = site.admin(get("/v1/namespaces?state=deleting&limit=1")).await.expect(200);
        assert_eq!(names(&deleting), ["schedule-only"], "past all that are active");
        let (_, stranger) = site.token("admin", &["elsewhere"], &["*"]).await;
        let none = site.send(get("/v1/namespaces").with(&stranger)).await.expect(200);
        assert_eq!(none, json!({"items": [], "next_cursor": null}));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bytes_of_what_waits_in_a_namespace_are_bounded_and_shown() {
    both(async |site| {
        site.admin(put("b", json!({"max_payload_bytes": 3_000}))).await.expect(200);
        let one = |id: i64, bytes: usize| {
            let payload = "x".repeat(bytes - 2);
            json!({"queue": "mail", "task_id": id, "delay_ms": 0, "payload": payload})
        };
        let usage = async || site.admin(get("/v1/namespaces/b")).await.expect(200)["usage"].clone();
        site.insert("b", one(1, 500)).await;
        site.insert("b", one(2, 2_500)).await;
        assert_eq!(usage().await, json!({"tasks": 2, "waiting": 2, "payload_bytes": 3_000, "in_flight": 0}));
        let refused = post("/v1/tasks", one(3, 9)).within("b");
        site.admin(refused).await.expect_problem(429, "quota.payload_bytes");
        let longer = post("/v1/tasks", one(1, 501)).within("b");
        site.admin(longer).await.expect_problem(429, "quota.payload_bytes");
        let shorter = post("/v1/tasks", one(1, 499)).within("b");
        assert_eq!(site.admin(shorter).await.expect(201)["outcome"], "replaced");
        site.insert("a", one(3, 9_000)).await;
        site.run_once(1_000).await;
        while !site.lease("b", "mail").await.is_empty() {}
        assert_eq!(usage().await, json!({"tasks": 2, "waiting": 0, "payload_bytes": 0, "in_flight": 2}));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_made_and_changed_on_the_revision_that_was_read() {
    both(async |site| {
        let absent = site.admin(get("/v1/namespaces/eu")).await.expect(200);
        assert_eq!((&absent["state"], &absent["revision"]), (&json!("absent"), &json!(0)));
        let only_if = |tag: &str, body: Value| put("eu", body).header("if-match", tag);
        site.admin(only_if("*", json!({}))).await.expect_problem(412, "precondition.failed");
        let made = site.admin(only_if("\"0\"", json!({}))).await.expect(200);
        assert_eq!((&made["state"], &made["updated_by"].is_string()), (&json!("active"), &true));
        let tag = format!("\"{}\"", made["revision"]);
        let mut changed = made.clone();
        changed["description"] = json!("Europe");
        let changed = site.admin(only_if(&tag, changed)).await.expect(200);
        assert_eq!(changed["description"], "Europe");
        site.admin(only_if(&tag, json!({}))).await.expect_problem(412, "precondition.failed");
        assert_eq!(site.admin(get("/v1/namespaces/eu")).await.expect(200), changed);
        for (body, pointer) in
            [(json!({"descripton": "x"}), "/descripton"), (json!({"max_waiting": 0}), "/max_waiting")]
        {
            let refused = site.admin(put("eu", body)).await;
            assert_eq!((refused.status, &refused.body["errors"][0]["pointer"]), (400, &json!(pointer)));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_namespaces_must_be_made_an_unknown_one_takes_nothing() {
    for site in [AccessSite::sqlite().await, AccessSite::mysql().await] {
        let site = site.explicit();
        let task = json!({"queue": "q", "delay_ms": 0});
        let insert = |namespace: &str| post("/v1/tasks", task.clone()).within(namespace);
        site.admin(insert("eu")).await.expect_problem(404, "namespace.not_found");
        let batch = post("/v1/tasks/batch", json!({"tasks": [task]})).within("eu");
        assert_eq!(site.admin(batch).await.expect(200)["results"][0]["error"]["code"], "namespace.not_found");
        for asked in [
            post("/v1/queues/q/lease", json!({})),
            ask("PUT", "/v1/queues/q").body(Some(json!({}))),
            post("/v1/queues/q/pause", json!({})),
        ] {
            site.admin(asked.within("eu")).await.expect_problem(404, "namespace.not_found");
        }
        site.admin(insert("default")).await.expect(201);
        site.admin(put("eu", json!({}))).await.expect(200);
        site.admin(insert("eu")).await.expect(201);
        site.run_once(1_000).await;
        assert_eq!(site.lease("eu", "q").await.len(), 1);
        // Another engine, from its first call on.
        let other = site.beside().explicit();
        other.admin(insert("eu")).await.expect(201);
        other.admin(insert("us")).await.expect_problem(404, "namespace.not_found");
        let gone = ask("DELETE", "/v1/namespaces/eu?confirm=eu");
        site.admin(gone).await.expect(202);
        for _ in 0..20 {
            site.run_once(1_000).await;
        }
        site.admin(insert("eu")).await.expect_problem(404, "namespace.not_found");
    }
}
