//! The contents of the audit. Seen to fail: with an entry that is written after its change; with a result
//! that is not written; with refusals that are not counted together.

use super::site::{AccessCall, AccessSite, ask, get, post};
use punctual_contract::audit::AuditEntry;
use punctual_domain::{
    name::{Name, QueueKey},
    settings::QueueSettings,
};
use punctual_testkit::faults::{Dials, StoreGroup};
use serde_json::{Value, json};

async fn entries(site: &AccessSite, query: &str) -> Vec<Value> {
    site.admin(get(format!("/v1/audit?limit=1000{query}"))).await.expect(200)["items"]
        .as_array()
        .unwrap()
        .clone()
}

fn cancel(place: &str) -> AccessCall {
    post(format!("/v1/tasks/{place}/cancel"), json!({})).within("shop")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_has_an_entry_that_says_who_did_what_to_what_and_what_came_of_it() {
    for site in [AccessSite::sqlite().await, AccessSite::mysql().await] {
        let (id, token) = site.token("operator", &["shop"], &["*"]).await;
        let set = ask("PUT", "/v1/queues/mail").within("shop").with(&token).header("x-request-id", "r-1");
        site.send(set.clone().body(Some(json!({"concurrency": 3})))).await.expect(200);
        site.send(set.body(Some(json!({"concurrency": 4})))).await.expect(200);
        let pause = post("/v1/queues/mail/pause", json!({"reason": "a flood", "by": "ann"}));
        site.send(pause.within("shop").with(&token)).await.expect(200);
        let mine = entries(&site, &format!("&token={id}")).await;
        let actions: Vec<&str> = mine.iter().map(|entry| entry["action"].as_str().unwrap()).collect();
        assert_eq!(actions, ["pause_queue", "put_queue", "put_queue"]);
        let second = &mine[1];
        for (field, expected) in [
            ("caller", json!("operator")),
            ("address", json!("192.0.2.1")),
            ("request", json!("PUT /v1/queues/mail")),
            ("namespace", json!("shop")),
            ("request_id", json!("r-1")),
            ("times", json!(1)),
            ("status", json!(200)),
            ("at_ms", json!(site.engine.now().0)),
        ] {
            assert_eq!(second[field], expected, "{field}: {second}");
        }
        assert_eq!(
            (&second["before"]["concurrency"], &second["after"]["concurrency"]),
            (&json!(3), &json!(4))
        );
        assert_eq!((&mine[0]["reason"], &mine[2]["before"]), (&json!("a flood"), &Value::Null));
        assert!(
            mine[0]["after"]["pause"]["by"].as_str().unwrap().starts_with("ann by operator ("),
            "{}",
            mine[0]
        );
        let made = entries(&site, "&action=create_token").await;
        assert!(made[0]["after"]["id"] == id.as_str() && made[0]["caller"] == "admin", "{made:?}");
        assert_eq!(entries(&site, "&namespace=other").await.len(), 0);
    }
}

#[tokio::test]
async fn what_tasks_record_themselves_has_no_entry_and_histories_name_the_token() {
    let site = AccessSite::sqlite().await;
    let (id, token) = site.token("submitter", &["shop"], &["*"]).await;
    let insert = post("/v1/tasks", json!({"queue": "mail", "delay_ms": 1_000})).within("shop").with(&token);
    let task = site.send(insert).await.expect(201);
    let place = task["ref"].as_str().unwrap();
    site.send(cancel(place).with(&token)).await.expect(200);
    let task = site.admin(get(format!("/v1/tasks/{place}")).within("shop")).await.expect(200);
    let by: Vec<&str> =
        task["history"].as_array().unwrap().iter().map(|entry| entry["by"].as_str().unwrap()).collect();
    let token = format!("submitter ({id})");
    assert_eq!(by, [token.as_str(), token.as_str()]);
    let actions: Vec<Value> =
        entries(&site, "").await.into_iter().map(|entry| entry["action"].clone()).collect();
    assert_eq!(actions, [json!("cancel_task"), json!("create_token")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_in_an_entry_is_its_own_change_although_another_came_right_after() {
    for site in [AccessSite::sqlite().await, AccessSite::mysql().await] {
        let set = |concurrency: u32| {
            let body = json!({"concurrency": concurrency});
            ask("PUT", "/v1/queues/mail").within("shop").body(Some(body))
        };
        site.admin(set(1)).await.expect(200);
        // Between the change, and the reading of what it has changed.
        let gate = site.store.faults.hold(StoreGroup::Read);
        let queue = QueueKey { namespace: Name::new("shop").unwrap(), queue: Name::new("mail").unwrap() };
        let overtakes = async {
            gate.reached().await;
            let nine = QueueSettings { concurrency: Some(9), ..QueueSettings::default() };
            site.engine.put_queue(queue, nine, None, "another", |_| true).await.unwrap();
            gate.open();
        };
        let (answer, ()) = tokio::join!(site.admin(set(2)), overtakes);
        answer.expect(200);
        let entry = entries(&site, "&action=put_queue").await.remove(0);
        let stood = (&entry["before"]["concurrency"], &entry["after"]["concurrency"]);
        assert_eq!(stood, (&json!(1), &json!(2)), "{entry}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_is_by_the_token_whatever_name_the_executor_gives_itself() {
    for site in [AccessSite::sqlite().await, AccessSite::mysql().await] {
        let (id, token) = site.token("executor", &["shop"], &["*"]).await;
        for (said, by) in [(Some("boss"), "boss"), (None, "executor")] {
            let place = site.insert("shop", json!({"queue": "mail"})).await;
            site.run_once(1_000).await;
            let lease = post("/v1/queues/mail/lease", json!({"executor": "x"})).within("shop").with(&token);
            let leased = site.send(lease).await.expect(200)["tasks"][0].take();
            let done = json!({"ref": place, "token": leased["token"], "outcome": "succeeded"});
            let mut outcomes = json!({"outcomes": [done]});
            if let Some(said) = said {
                outcomes["executor"] = json!(said);
            }
            let asked = post("/v1/outcomes", outcomes).within("shop").with(&token);
            assert_eq!(site.send(asked).await.expect(200)["results"][0]["status"], "accepted");
            let task = site.admin(get(format!("/v1/tasks/{place}")).within("shop")).await.expect(200);
            let last = task["history"].as_array().unwrap().last().unwrap();
            assert_eq!(last["by"], format!("{by} by executor ({id})"), "{last}");
        }
    }
}

/// And the audit has the same, although it is written beside it.
#[tokio::test(flavor = "multi_thread")]
async fn the_history_of_a_task_says_what_was_changed_of_it_from_what_to_what() {
    for site in [AccessSite::sqlite().await, AccessSite::mysql().await] {
        let place = site.insert("shop", json!({"queue": "mail", "delay_ms": 60_000})).await;
        let now = site.engine.now().0;
        let patch = json!({"execute_at_ms": now + 90_000, "priority": 1, "payload": "not for the audit"});
        let patch = ask("PATCH", format!("/v1/tasks/{place}")).within("shop").body(Some(patch));
        let task = site.admin(patch).await.expect(200);
        let last = task["history"].as_array().unwrap().last().unwrap().clone();
        let (from, to) = (now + 60_000, now + 90_000);
        let said = format!("execute_at_ms from {from} to {to}, priority from 3 to 1, another payload");
        assert_eq!((&last["reason"], &last["by"]), (&json!(said), &json!("admin")), "{last}");
        let entry = entries(&site, "&action=patch_task").await.remove(0);
        let of = |field: &str| (entry["before"][field].clone(), entry["after"][field].clone());
        assert_eq!(of("execute_at_ms"), (json!(from), json!(to)), "{entry}");
        assert_eq!(of("priority"), (json!(3), json!(1)));
        assert_eq!(of("payload_replaced"), (Value::Null, json!(true)));
        assert!(!entry.to_string().contains("not for the audit"), "{entry}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_task_that_was_deleted_the_audit_has_what_it_was_and_its_history() {
    for site in [AccessSite::sqlite().await, AccessSite::mysql().await] {
        let task = json!({"queue": "mail", "delay_ms": 60_000, "payload": "not for the audit"});
        let place = site.insert("shop", task).await;
        site.admin(cancel(&place)).await.expect(200);
        site.admin(ask("DELETE", format!("/v1/tasks/{place}")).within("shop")).await.expect(200);
        let entry = entries(&site, "&action=delete_task").await.remove(0);
        let before = &entry["before"];
        assert_eq!((&before["ref"], &before["state"]), (&json!(place), &json!("cancelled")), "{entry}");
        let events = before["history"].as_array().unwrap().len();
        assert!(events >= 2 && entry["after"].is_null(), "{entry}");
        assert!(!entry.to_string().contains("not for the audit"), "{entry}");
    }
}

fn pause() -> AccessCall {
    post("/v1/queues/mail/pause", json!({})).within("shop")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_entry_cannot_be_written_is_not_made() {
    for site in [AccessSite::sqlite().await, AccessSite::mysql().await] {
        for dials in [Dials::REFUSES, Dials::SILENT, Dials::ANSWERS_LOST] {
            site.store.faults.set(StoreGroup::Audit, dials);
            site.admin(pause()).await.expect_problem(503, "store.unavailable");
        }
        site.store.faults.heal();
        // The one whose answer was lost was written: an entry without a result, and nothing was done.
        let left = entries(&site, "&action=pause_queue").await;
        assert_eq!(left.len(), 1);
        assert_eq!(left[0]["status"], Value::Null, "{left:?}");
        let queues = site.admin(get("/v1/queues").within("shop")).await.expect(200);
        assert!(!queues.to_string().contains("pause\":{"), "{queues}");
        site.admin(pause()).await.expect(200);
        assert_eq!(entries(&site, "&action=pause_queue").await[0]["status"], 200);
    }
}

/// A change of one task is recorded in the history of the task. The audit is in the catalog: while the
/// catalog is unavailable, the change succeeds, and its audit entry follows afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_cancelled_while_the_audit_cannot_be_written_and_its_entry_follows() {
    for site in [AccessSite::sqlite().await, AccessSite::mysql().await] {
        let place = site.insert("shop", json!({"queue": "mail", "delay_ms": 60_000})).await;
        site.store.faults.set(StoreGroup::Audit, Dials::REFUSES);
        site.admin(cancel(&place)).await.expect(200);
        let task = site.admin(get(format!("/v1/tasks/{place}")).within("shop")).await.expect(200);
        assert_eq!(task["state"], "cancelled");
        site.store.faults.heal();
        let entry = entries(&site, "&action=cancel_task").await.remove(0);
        assert_eq!((&entry["status"], &entry["caller"]), (&json!(200), &json!("admin")), "{entry}");
    }
}

/// An entry that was written, but whose answer was lost, is written again by the same key: it is once in the
/// audit, as in the history. Seen to fail without keys.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_entry_was_written_and_not_answered_is_in_the_audit_once() {
    for site in [AccessSite::sqlite().await, AccessSite::mysql().await] {
        let (_, token) = site.token("viewer", &["shop"], &["*"]).await;
        let place = site.insert("shop", json!({"queue": "mail", "delay_ms": 60_000})).await;
        // Each of these reads writes before it reads, and fails.
        let read_in_vain = async || {
            for _ in 0..3 {
                site.admin(get("/v1/audit")).await.expect_problem(503, "store.outcome_unknown");
            }
        };
        let denied = post("/v1/tasks", json!({"queue": "mail"})).within("shop").with(&token);
        site.store.faults.set(StoreGroup::Audit, Dials::ANSWERS_LOST);
        site.send(denied.clone()).await.expect_problem(403, "auth.denied");
        read_in_vain().await;
        site.send(denied).await.expect_problem(403, "auth.denied");
        site.admin(cancel(&place)).await.expect(200);
        read_in_vain().await;
        site.store.faults.heal();
        assert_eq!(entries(&site, "&action=cancel_task").await.len(), 1);
        let refused = entries(&site, "&action=insert_task").await;
        let times: i64 = refused.iter().map(|entry| entry["times"].as_i64().unwrap()).sum();
        assert_eq!(times, 2, "{refused:?}");
    }
}

/// However many tasks are changed meanwhile. Seen to fail with a writer for each.
#[tokio::test(flavor = "multi_thread")]
async fn while_the_catalog_hangs_only_a_few_wait_to_write_what_was_changed() {
    for site in [AccessSite::sqlite().await, AccessSite::mysql().await] {
        let mut places = Vec::new();
        for _ in 0..50 {
            places.push(site.insert("shop", json!({"queue": "mail", "delay_ms": 60_000})).await);
        }
        let gate = site.store.faults.hold(StoreGroup::Audit);
        for place in &places {
            site.admin(cancel(place)).await.expect(200);
        }
        for _ in 0..4 {
            gate.reached().await;
        }
        site.admin(get("/v1/tasks").within("shop")).await.expect(200);
        assert_eq!(gate.came(), 0, "no fifth");
        gate.open();
        assert_eq!(entries(&site, "&action=cancel_task").await.len(), 50);
    }
}

/// The entry is while its change is made: whatever ends the process there leaves it, without a result.
#[tokio::test]
async fn the_entry_is_written_before_the_change() {
    let site = AccessSite::sqlite().await;
    let gate = site.store.faults.hold(StoreGroup::Settings);
    let waits = async {
        gate.reached().await;
        let under_way = entries(&site, "&action=pause_queue").await;
        gate.open();
        under_way
    };
    let (answer, under_way) = tokio::join!(site.admin(pause()), waits);
    answer.expect(200);
    assert_eq!((under_way.len(), &under_way[0]["status"]), (1, &Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_refused_is_counted_together() {
    for site in [AccessSite::sqlite().await, AccessSite::mysql().await] {
        let (id, token) = site.token("viewer", &["shop"], &["*"]).await;
        for _ in 0..5 {
            let insert = post("/v1/tasks", json!({"queue": "mail"})).within("shop");
            site.send(insert.clone().with(&token)).await.expect_problem(403, "auth.denied");
            site.send(insert.from(7)).await.expect_problem(401, "auth.required");
        }
        let denied = entries(&site, &format!("&token={id}")).await;
        assert_eq!(denied.len(), 1);
        assert_eq!((&denied[0]["times"], &denied[0]["status"]), (&json!(5), &json!(403)), "{denied:?}");
        let refused = entries(&site, "&action=insert_task").await;
        let unknown = refused.iter().find(|unknown| unknown["caller"] == "unknown").unwrap();
        let seen = (&unknown["times"], &unknown["status"], &unknown["address"]);
        assert_eq!(seen, (&json!(5), &json!(401), &json!("10.0.0.7")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_and_the_export_have_everything_once_and_a_tenant_has_its_own() {
    for site in [AccessSite::sqlite().await, AccessSite::mysql().await] {
        for namespace in ["shop", "other"] {
            for _ in 0..5 {
                let pause = post("/v1/queues/mail/pause", json!({})).within(namespace);
                site.admin(pause).await.expect(200);
            }
        }
        let (mut ids, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = site.admin(get(format!("/v1/audit?limit=3{cursor}"))).await.expect(200);
            ids.extend(page["items"].as_array().unwrap().iter().map(|entry| entry["id"].as_i64().unwrap()));
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert!(ids.len() == 10 && ids.is_sorted_by(|a, b| a > b), "{ids:?}");
        let export = site.admin(get("/v1/audit").header("accept", "application/x-ndjson")).await;
        let lines: Vec<Value> = export.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.iter().map(|line| line["id"].as_i64().unwrap()).collect::<Vec<_>>(), ids);
        export_all(&site, &ids).await;
        let (_, tenant) = site.token("admin", &["shop"], &["*"]).await;
        for accept in ["application/json", "application/x-ndjson"] {
            let seen = site.send(get("/v1/audit").header("accept", accept).with(&tenant)).await;
            assert_eq!(seen.text.matches("\"namespace\":\"shop\"").count(), 5, "{}", seen.text);
            assert!(!seen.text.contains("other") && !seen.text.contains("create_token"), "{}", seen.text);
        }
    }
}

/// More of them than are read at one time.
async fn export_all(site: &AccessSite, before: &[i64]) {
    let mut ids = before.to_vec();
    for _ in 0..1_500 {
        let entry = AuditEntry {
            at: site.engine.now(),
            token_id: None,
            caller: "command".to_owned(),
            address: None,
            action: "migrate".to_owned(),
            request: "migrate".to_owned(),
            namespace: None,
            request_id: None,
            times: 1,
            result: None,
            key: None,
        };
        ids.insert(0, site.store().append_audit(entry).await.unwrap());
    }
    let export = site.admin(get("/v1/audit").header("accept", "application/x-ndjson")).await;
    let lines = export.text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    assert_eq!(lines.map(|line| line["id"].as_i64().unwrap()).collect::<Vec<_>>(), ids);
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_are_forgotten_when_their_time_is_over() {
    const DAY_MS: u64 = 86_400_000;
    for site in [AccessSite::sqlite().await, AccessSite::mysql().await] {
        site.admin(post("/v1/queues/mail/pause", json!({}))).await.expect(200);
        site.run_once(364 * DAY_MS).await;
        assert_eq!(entries(&site, "").await.len(), 1);
        site.run_once(2 * DAY_MS).await;
        assert_eq!(entries(&site, "").await.len(), 0);
    }
}
