//! In which order tasks are listed, what of a queue counts as ready, and what changes in a dead task: on both back ends, where the
//! keys of the two stores differ.

use super::site::{AccessSite, get, post};
use punctual_contract::Store as _;
use serde_json::{Value, json};

const NS: &str = "shop";

async fn both(case: impl AsyncFn(&AccessSite, bool)) {
    case(&AccessSite::sqlite().await, true).await;
    case(&AccessSite::mysql().await, false).await;
}

fn ids(page: &Value) -> Vec<i64> {
    page["items"].as_array().unwrap().iter().map(|entry| entry["task_id"].as_i64().unwrap()).collect()
}

/// All pages of two.
async fn listed(site: &AccessSite, query: &str) -> Vec<i64> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    for _ in 0..9 {
        let path = format!("/v1/tasks?limit=2&{query}{cursor}");
        let page = site.admin(get(path).within(NS)).await.expect(200);
        found.extend(ids(&page));
        let Some(next) = page["next_cursor"].as_str() else { return found };
        cursor = format!("&cursor={next}");
    }
    panic!("{query}: no end");
}

/// Seen to fail: without the refusal.
#[tokio::test(flavor = "multi_thread")]
async fn lists_are_in_the_order_that_is_asked_for_or_say_that_no_key_has_it() {
    both(async |site, is_embedded| {
        for (id, hours) in [(1, 3), (2, 1), (3, 5), (4, 2)] {
            site.insert(NS, json!({"queue": "q", "task_id": id, "delay_ms": hours * 3_600_000})).await;
        }
        let range = "due_after=2000-01-01T00:00:00Z&state=scheduled";
        assert_eq!(listed(site, "state=scheduled&sort=-created_at").await, [4, 3, 2, 1]);
        assert_eq!(listed(site, "state=scheduled&sort=-due_at").await, [3, 1, 4, 2]);
        assert_eq!(listed(site, "state=scheduled&sort=due_at").await, [2, 4, 1, 3], "what fires next");
        assert_eq!(listed(site, &format!("{range}&sort=due_at")).await, [2, 4, 1, 3]);
        assert_eq!(listed(site, range).await, [3, 1, 4, 2], "as ever, where nothing is said");
        let first = site.admin(get("/v1/tasks?state=scheduled&sort=due_at&limit=1").within(NS)).await;
        let cursor = first.expect(200)["next_cursor"].as_str().unwrap().to_owned();
        let turned = format!("/v1/tasks?state=scheduled&sort=-due_at&cursor={cursor}");
        site.admin(get(turned).within(NS)).await.expect_problem(400, "request.invalid");
        assert_eq!(listed(site, &format!("{range}&sort=-created_at")).await, [4, 3, 2, 1]);
        for query in ["sort=created_at", "phase=pending&sort=created_at", &format!("{range}&sort=created_at")]
        {
            assert_eq!(listed(site, query).await, [1, 2, 3, 4], "{query}");
        }
        let oldest = site.admin(get("/v1/tasks?sort=created_at&limit=1").within(NS)).await.expect(200);
        let cursor = oldest["next_cursor"].as_str().unwrap();
        for turned in ["-created_at", "due_at"] {
            let turned = format!("/v1/tasks?state=scheduled&sort={turned}&cursor={cursor}");
            site.admin(get(turned).within(NS)).await.expect_problem(400, "request.invalid");
        }
        let without = site.admin(get("/v1/tasks?sort=-due_at").within(NS)).await;
        if is_embedded {
            let detail = without.body["errors"][0]["detail"].as_str().unwrap_or_default().to_owned();
            assert!(
                detail.contains("-created_at") && detail.contains("scheduled, dispatching, ready"),
                "{detail}"
            );
            without.expect_problem(400, "request.invalid");
        } else {
            assert_eq!(ids(&without.expect(200)), [3, 1, 4, 2]);
        }
        for query in ["state=dead&sort=-due_at", "task_id=1&sort=-created_at", "sort=kind"] {
            let refused = site.admin(get(format!("/v1/tasks?{query}")).within(NS)).await;
            assert!(refused.text.contains("-created_at") || query.contains("task_id"), "{}", refused.text);
            assert!(refused.text.contains("sort"), "{}", refused.text);
            refused.expect_problem(400, "request.invalid");
        }
        assert_eq!(listed(site, "state=dead&sort=-created_at").await, [0_i64; 0]);
    })
    .await;
}

/// Seen to fail: with the states of the store alone.
#[tokio::test(flavor = "multi_thread")]
async fn what_has_fired_and_waits_counts_as_ready_from_that_instant() {
    both(async |site, _| {
        for _ in 0..3 {
            site.insert(NS, json!({"queue": "q", "delay_ms": 1_000})).await;
        }
        site.insert(NS, json!({"queue": "q", "delay_ms": 3_600_000})).await;
        site.run_once(1_000).await;
        let queue = site.admin(get("/v1/queues/q").within(NS)).await.expect(200);
        assert_eq!(queue["tasks"], json!({"ready": 3, "scheduled": 1}), "{queue}");
        assert_eq!(queue["waiting"], 4);
        let leased = site.admin(post("/v1/queues/q/lease", json!({"max": 1})).within(NS)).await.expect(200);
        assert_eq!(leased["tasks"].as_array().unwrap().len(), 1);
        let queues = site.admin(get("/v1/queues").within(NS)).await.expect(200);
        assert_eq!(queues["items"][0]["tasks"], json!({"ready": 2, "dispatched": 1, "scheduled": 1}));
        site.run_once(5_000).await;
        let reported = site.admin(get("/v1/queues/q").within(NS)).await.expect(200);
        assert_eq!(reported["tasks"], queues["items"][0]["tasks"], "and when the store knows, as before");
    })
    .await;
}

/// A task of one attempt that has failed.
async fn dead(site: &AccessSite, id: i64) -> String {
    let task = json!({"queue": "q", "task_id": id, "max_attempts": 1, "payload": "old"});
    let place = site.insert(NS, task).await;
    site.run_once(10).await;
    let leased = site.lease(NS, "q").await.pop().unwrap();
    let failed =
        json!({"ref": leased["ref"], "token": leased["token"], "outcome": "failed", "status_msg": "no"});
    let report = post("/v1/outcomes", json!({"outcomes": [failed]})).within(NS);
    assert_eq!(site.admin(report).await.expect(200)["results"][0]["status"], "accepted");
    place
}

fn patch(place: &str, body: Value) -> super::site::AccessCall {
    super::site::ask("PATCH", format!("/v1/tasks/{place}")).body(Some(body)).within(NS)
}

async fn dead_letters(site: &AccessSite) -> Vec<i64> {
    ids(&site.admin(get("/v1/dead-letters").within(NS)).await.expect(200))
}

/// Seen to fail: with a change that keeps the fence.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_task_is_changed_where_it_stands_and_redriven_as_it_is_then() {
    both(async |site, _| {
        let place = dead(site, 1).await;
        let before = site.admin(get(format!("/v1/tasks/{place}")).within(NS)).await;
        let tag = before.headers["etag"].to_str().unwrap().to_owned();
        let retry = json!({"strategy": "fixed", "delay_ms": 5});
        let change = json!({"payload": {"to": "ada"}, "max_attempts": 3, "priority": 1, "retry": retry,
            "timeout_ms": 9_000});
        let changed = site.admin(patch(&place, change.clone())).await.expect(200);
        for (field, want) in [
            ("state", json!("dead")),
            ("ref", json!(place)),
            ("payload", json!({"to": "ada"})),
            ("max_attempts", json!(3)),
            ("priority", json!(1)),
            ("attempt", json!(1)),
            ("last_error", json!("no")),
            ("finished_at_ms", before.body["finished_at_ms"].clone()),
        ] {
            assert_eq!(changed[field], want, "{field}");
        }
        let history = changed["history"].as_array().unwrap();
        let line = history.last().unwrap();
        assert_eq!(
            (&line["event"], &line["from"], &line["to"]),
            (&json!("amend"), &json!("dead"), &json!("dead"))
        );
        assert_eq!(dead_letters(site).await, [1], "once");
        let old = patch(&place, json!({"priority": 2})).header("if-match", &tag);
        site.admin(old).await.expect_problem(412, "precondition.failed");
        for later in [json!({"delay_ms": 5}), json!({"queue": "other", "priority": 2})] {
            site.admin(patch(&place, later)).await.expect_problem(409, "task.already_fired");
        }
        site.admin(post(format!("/v1/tasks/{place}/redrive"), json!({})).within(NS)).await.expect(200);
        let waits = site.admin(patch(&place, json!({"max_attempts": 9}))).await;
        assert_eq!(waits.body["errors"][0]["pointer"], "/max_attempts");
        waits.expect_problem(400, "request.invalid");
        site.run_once(10).await;
        let leased = site.lease(NS, "q").await.pop().unwrap();
        for (field, want) in [
            ("payload", json!({"to": "ada"})),
            ("max_attempts", json!(3)),
            ("attempt", json!(1)),
            ("timeout_ms", json!(9_000)),
        ] {
            assert_eq!(leased[field], want, "{field}");
        }
        site.admin(patch(&place, change)).await.expect_problem(400, "request.invalid");
        let other = dead(site, 2).await;
        let asked = json!({"max_attempts": 8, "payload": "new", "delay_ms": 60_000});
        let redrive = post(format!("/v1/tasks/{other}/redrive"), asked).within(NS);
        let redriven = site.admin(redrive).await.expect(200);
        let task = &redriven["task"];
        assert_eq!(
            (&task["state"], &task["max_attempts"], &task["payload"], &task["attempt"]),
            (&json!("scheduled"), &json!(8), &json!("new"), &json!(0))
        );
        assert!(site.store.books().await.unwrap() == site.store.audit().await.unwrap(), "the account agrees");
    })
    .await;
}

/// Seen to fail: with a deletion that does not look again.
#[tokio::test(flavor = "multi_thread")]
async fn of_a_change_of_a_dead_task_and_its_redrive_or_deletion_both_hold_or_one_is_refused() {
    both(async |site, _| {
        for id in 1..=24 {
            let place = dead(site, id).await;
            let change = site.admin(patch(&place, json!({"payload": "new"})));
            if id % 2 == 0 {
                let redrive = site.admin(post(format!("/v1/tasks/{place}/redrive"), json!({})).within(NS));
                let (changed, redriven) = tokio::join!(change, redrive);
                redriven.expect(200);
                let task = site.admin(get(format!("/v1/tasks/{place}")).within(NS)).await.expect(200);
                assert_eq!(task["attempt"], 0, "redriven, however often it was changed meanwhile");
                let wanted = if changed.status == 200 { "new" } else { "old" };
                assert_eq!(task["payload"], wanted, "{}", changed.text);
                assert!([200, 409].contains(&changed.status), "{}", changed.text);
                site.admin(
                    post(format!("/v1/tasks/{place}/cancel"), json!({"stop_if_fired": true})).within(NS),
                )
                .await
                .expect(200);
            } else {
                let delete = super::site::ask("DELETE", format!("/v1/tasks/{place}")).within(NS);
                let (changed, deleted) = tokio::join!(change, site.admin(delete));
                deleted.expect(200);
                assert!([200, 404, 409].contains(&changed.status), "{}", changed.text);
                site.admin(get(format!("/v1/tasks/{place}")).within(NS))
                    .await
                    .expect_problem(404, "task.not_found");
            }
        }
        assert!(site.store.books().await.unwrap() == site.store.audit().await.unwrap(), "the account agrees");
    })
    .await;
}
