//! The deletion of a namespace over the API: what it deletes and keeps, which calls are refused meanwhile,
//! and that any engine continues after the death of another.

use super::site::{AccessCall, AccessSite, ask, get, post};
use punctual_testkit::faults::{Dials, StoreGroup};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::task::JoinSet;

const GONE: &str = "doomed";
const KEPT: &str = "doomed2";
const MARK: &str = "of the namespace";

async fn both(case: impl AsyncFn(AccessSite)) {
    case(AccessSite::sqlite().await).await;
    case(AccessSite::mysql().await).await;
}

fn delete(confirm: &str) -> AccessCall {
    ask("DELETE", format!("/v1/namespaces/{GONE}{confirm}"))
}

async fn state(site: &AccessSite, namespace: &str) -> Value {
    site.admin(get(format!("/v1/namespaces/{namespace}"))).await.expect(200)
}

async fn is_gone(site: &AccessSite) -> bool {
    state(site, GONE).await["state"] == "absent"
}

/// Turns of a second until it is gone.
async fn until_gone(site: &AccessSite) {
    for _ in 0..40 {
        if is_gone(site).await {
            return;
        }
        site.run_once(1_000).await;
    }
    panic!("it is not gone: {}", state(site, GONE).await);
}

async fn record_outcomes(site: &AccessSite, namespace: &str, leased: &Value, outcome: &str) -> Value {
    let outcome = json!({"ref": leased["ref"], "token": leased["token"], "outcome": outcome});
    let asked = post("/v1/outcomes", json!({"outcomes": [outcome]})).within(namespace);
    site.admin(asked).await.expect(200)["results"][0]["status"].clone()
}

async fn beat(site: &AccessSite, namespace: &str, leased: &Value) -> Value {
    let lease = json!({"ref": leased["ref"], "token": leased["token"]});
    let asked = post("/v1/heartbeats", json!({"executor": "x", "leases": [lease]})).within(namespace);
    site.admin(asked).await.expect(200)["leases"][0].clone()
}

/// 30 tasks: to come, ready, succeeded, dead, and two with an executor, which are answered. An answer under a key, settings,
/// limits, an executor.
async fn furnish(site: &AccessSite, namespace: &str) -> Vec<Value> {
    for path in ["/v1/queues/q", "/v1/queues/other"] {
        let settings = json!({"max_waiting": 1_000, "concurrency": 50});
        site.admin(ask("PUT", path).within(namespace).body(Some(settings))).await.expect(200);
    }
    let limits = json!({"max_waiting": 5_000, "description": MARK});
    site.admin(ask("PUT", format!("/v1/namespaces/{namespace}")).body(Some(limits))).await.expect(200);
    let schedule = json!({"cron": "@yearly", "task": {"queue": "q"}});
    site.admin(ask("PUT", "/v1/schedules/s").within(namespace).body(Some(schedule))).await.expect(201);
    for id in 0..4 {
        site.insert(namespace, json!({"queue": "q", "task_id": 100 + id, "payload": MARK})).await;
    }
    site.run_once(1_000).await;
    let leased = site.lease(namespace, "q").await;
    assert_eq!(leased.len(), 4);
    assert_eq!(record_outcomes(site, namespace, &leased[0], "succeeded").await, "accepted");
    assert_eq!(record_outcomes(site, namespace, &leased[1], "reject").await, "accepted");
    for id in 0..6 {
        site.insert(namespace, json!({"queue": "other", "task_id": 200 + id, "payload": MARK})).await;
    }
    let later: Vec<Value> =
        (0..19).map(|id| json!({"queue": "q", "task_id": id, "delay_ms": 3_600_000})).collect();
    site.admin(post("/v1/tasks/batch", json!({"tasks": later})).within(namespace)).await.expect(200);
    let keyed =
        post("/v1/tasks", json!({"queue": "q", "delay_ms": 3_600_000})).header("idempotency-key", "k");
    site.admin(keyed.within(namespace)).await.expect(201);
    site.admin(
        post("/v1/heartbeats", json!({"executor": "x", "queues": ["q"], "leases": []})).within(namespace),
    )
    .await
    .expect(200);
    site.run_once(6_000).await;
    let bytes = 6 * (MARK.len() + 2);
    let usage = json!({"tasks": 30, "waiting": 26, "in_flight": 2, "payload_bytes": bytes});
    assert_eq!(state(site, namespace).await["usage"], usage);
    leased.into_iter().skip(2).collect()
}

/// Fills another namespace in the same way. Returns its contents once all work in it has ended.
async fn keep(site: &AccessSite) -> Vec<String> {
    for leased in furnish(site, KEPT).await {
        assert_eq!(record_outcomes(site, KEPT, &leased, "succeeded").await, "accepted");
    }
    site.run_once(6_000).await;
    stock(site).await
}

/// What a stranger to the deletion has.
async fn stock(site: &AccessSite) -> Vec<String> {
    let seen = async |path: &str| site.admin(get(path).within(KEPT)).await.expect(200);
    let mut all = Vec::new();
    for path in ["/v1/queues/q", "/v1/queues/other", "/v1/dead-letters"] {
        let mut value = seen(path).await;
        // Who looks after them anew says so.
        value.as_object_mut().unwrap().remove("slots");
        // What the engine that answers has counted.
        value.as_object_mut().unwrap().remove("counted");
        // Not every server here has a watcher.
        value.as_object_mut().unwrap().remove("rates");
        all.push(value.to_string());
    }
    let mut tasks: Vec<String> = seen("/v1/tasks?limit=1000").await["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| format!("{} {}", task["task_id"], task["state"]))
        .collect();
    tasks.sort();
    all.push(tasks.join(", "));
    all.push(state(site, KEPT).await.to_string());
    all
}

/// Of the namespace that is gone nothing is left, and its names can be used again.
async fn nothing_is_left(site: &AccessSite) {
    let empty = state(site, GONE).await;
    let nothing = json!({"tasks": 0, "waiting": 0, "in_flight": 0, "payload_bytes": 0});
    assert_eq!(
        (&empty["revision"], &empty["usage"], &empty["description"]),
        (&json!(0), &nothing, &Value::Null)
    );
    let listed = site.admin(get("/v1/namespaces")).await.expect(200);
    let names: Vec<&str> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["namespace"].as_str().unwrap())
        .collect();
    assert_eq!(names, [KEPT]);
    for path in ["/v1/tasks", "/v1/queues", "/v1/dead-letters", "/v1/executors", "/v1/queues/q/changes"] {
        let answer = site.admin(get(path).within(GONE)).await.expect(200);
        assert_eq!(answer["items"], json!([]), "{path}");
    }
    let depth = site.engine.depth().await.unwrap();
    let is_its = |pair: &(Arc<punctual_domain::name::QueueKey>, usize)| {
        pair.0.namespace.as_str() == GONE && pair.1 > 0
    };
    assert!(!depth.ready.iter().chain(&depth.parked).any(is_its), "{depth:?}");
    let books = site.store().books().await.unwrap();
    assert_eq!((books.unaccounted(), &books), (0, &site.store().audit().await.unwrap()));
    let again = json!({"queue": "q", "task_id": 100, "payload": "new"});
    assert_eq!(site.admin(post("/v1/tasks", again).within(GONE)).await.expect(201)["outcome"], "created");
    let keyed =
        post("/v1/tasks", json!({"queue": "q", "delay_ms": 3_600_000})).header("idempotency-key", "k");
    let keyed = site.admin(keyed.within(GONE)).await;
    assert!(!keyed.headers.contains_key("idempotency-replayed"));
    keyed.expect(201);
    site.run_once(1_000).await;
    let leased = site.lease(GONE, "q").await;
    assert_eq!(leased.iter().map(|entry| &entry["payload"]).collect::<Vec<_>>(), [&json!("new")]);
    assert!(site.lease(GONE, "other").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_deleted_with_all_that_it_holds_and_its_name_can_be_used_again() {
    both(async |site| {
        let leased = furnish(&site, GONE).await;
        let before = keep(&site).await;
        for confirm in ["", "?confirm=doome", "?confirm="] {
            site.admin(delete(confirm)).await.expect_problem(400, "request.invalid");
        }
        assert_eq!(state(&site, GONE).await["state"], "active");
        let going = site.admin(delete("?confirm=doomed")).await.expect(202);
        assert_eq!(
            (&going["state"], &going["deletion"]["deleted"], &going["deletion"]["left"]),
            (&json!("deleting"), &json!(0), &json!(30))
        );

        // Nothing new is taken.
        let task = json!({"queue": "q"});
        site.admin(post("/v1/tasks", task.clone()).within(GONE))
            .await
            .expect_problem(409, "namespace.deleting");
        let batch =
            site.admin(post("/v1/tasks/batch", json!({"tasks": [task]})).within(GONE)).await.expect(200);
        assert_eq!(batch["results"][0]["error"]["code"], "namespace.deleting", "{batch}");
        for asked in [
            post("/v1/queues/q/lease", json!({})),
            ask("PUT", "/v1/queues/q").body(Some(json!({}))),
            post("/v1/queues/q/pause", json!({})),
            ask("PUT", format!("/v1/namespaces/{GONE}")).body(Some(json!({}))),
        ] {
            site.admin(asked.within(GONE)).await.expect_problem(409, "namespace.deleting");
        }
        assert_eq!(
            site.admin(delete("?confirm=doomed")).await.expect(202)["deletion"]["since"],
            going["deletion"]["since"]
        );

        // Who is at a task is asked to stop, and has a while to report.
        site.run_once(1_000).await;
        let meanwhile = state(&site, GONE).await;
        assert_eq!(
            (&meanwhile["deletion"]["deleted"], &meanwhile["deletion"]["left"]),
            (&json!(28), &json!(2))
        );
        assert_eq!(beat(&site, GONE, &leased[0]).await["cancel_requested"], true);
        assert_eq!(record_outcomes(&site, GONE, &leased[0], "succeeded").await, "accepted");
        site.run_once(6_000).await;
        assert_eq!(beat(&site, GONE, &leased[1]).await["lost"], true);
        assert_eq!(record_outcomes(&site, GONE, &leased[1], "succeeded").await, "stale");
        let path = format!("/v1/tasks/{}", leased[1]["ref"].as_str().unwrap());
        site.admin(get(path).within(GONE)).await.expect_problem(404, "task.not_found");

        until_gone(&site).await;
        nothing_is_left(&site).await;
        let schedules = site.admin(get("/v1/schedules").within(GONE)).await.expect(200);
        assert_eq!(schedules["items"], json!([]));
        let kept = site.admin(get("/v1/schedules").within(KEPT)).await.expect(200);
        assert_eq!(kept["items"].as_array().unwrap().len(), 1);
        assert_eq!(stock(&site).await, before);
        let audit = site.admin(get("/v1/audit?action=delete_namespace&namespace=doomed")).await.expect(200);
        let statuses: Vec<&Value> =
            audit["items"].as_array().unwrap().iter().map(|entry| &entry["status"]).collect();
        assert_eq!(statuses, [&json!(202), &json!(202), &json!(400), &json!(400), &json!(400)]);
        site.admin(ask("DELETE", "/v1/namespaces/never?confirm=never"))
            .await
            .expect_problem(404, "namespace.not_found");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workflows_schedules_and_bulk_operations_go_with_their_namespace() {
    both(async |site| {
        let node = |kind: &str| json!({"task": {"queue": "q", "kind": kind}, "delay_ms": 3_600_000});
        let document = |kind: &str| json!({"name": "order", "nodes": {"a": node(kind)}});
        for namespace in [GONE, KEPT] {
            let schedule = json!({"cron": "@yearly", "task": {"queue": "q"}});
            site.admin(ask("PUT", "/v1/schedules/s").within(namespace).body(Some(schedule)))
                .await
                .expect(201);
            for (kind, version) in [("x", 1), ("y", 2)] {
                let begun =
                    site.admin(post("/v1/workflows", document(kind)).within(namespace)).await.expect(201);
                assert_eq!(begun["version"], version);
            }
            let bulk = json!({"action": "cancel", "filter": {"queue": "q"}});
            site.admin(post("/v1/bulk", bulk).within(namespace)).await.expect(201);
        }
        site.admin(delete("?confirm=doomed")).await.expect(202);
        let refused = site.admin(post("/v1/workflows", document("x")).within(GONE)).await;
        refused.expect_problem(409, "namespace.deleting");
        until_gone(&site).await;
        for (path, kept) in [("/v1/schedules", 1), ("/v1/workflows", 2), ("/v1/bulk", 1), ("/v1/tasks", 2)] {
            let left = site.admin(get(path).within(GONE)).await.expect(200);
            assert_eq!(left["items"], json!([]), "{path}");
            let stays = site.admin(get(path).within(KEPT)).await.expect(200);
            assert_eq!(stays["items"].as_array().unwrap().len(), kept, "{path}");
        }
        // The documents went along: a new one is the first of its name.
        let anew = site.admin(post("/v1/workflows", document("z")).within(GONE)).await.expect(201);
        assert_eq!(anew["version"], 1);
        let next = site.admin(post("/v1/workflows", document("z")).within(KEPT)).await.expect(201);
        assert_eq!(next["version"], 3);
    })
    .await;
}

/// Each slot that a task of the namespace held is free once the task is deleted, without a reconciliation.
#[tokio::test(flavor = "multi_thread")]
async fn slots_that_were_held_in_a_deleted_namespace_are_free() {
    both(async |site| {
        site.admin(ask("PUT", "/v1/limits").body(Some(json!({"concurrency": 1})))).await.expect(200);
        site.insert(GONE, json!({"queue": "q"})).await;
        site.insert(KEPT, json!({"queue": "q"})).await;
        site.run_once(1_000).await;
        assert_eq!(site.lease(GONE, "q").await.len(), 1);
        assert_eq!(site.lease(KEPT, "q").await.len(), 0, "there is one slot");
        site.admin(delete("?confirm=doomed")).await.expect(202);
        site.run_once(6_000).await;
        assert_eq!(site.lease(KEPT, "q").await.len(), 1);
    })
    .await;
}

/// The tasks are deleted in the store but, because of a crash, not in the hot set: they never fire, and leave
/// nothing behind.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_whose_deletion_was_not_answered_leave_nothing_in_the_hot_set() {
    both(async |site| {
        furnish(&site, GONE).await;
        let before = keep(&site).await;
        site.admin(delete("?confirm=doomed")).await.expect(202);
        site.store.faults.set(StoreGroup::Namespaces, Dials::ANSWERS_LOST);
        site.clock.advance_ms(6_000);
        drop(site.engine.run_once().await);
        site.store.faults.heal();
        assert_eq!(state(&site, GONE).await["deletion"]["left"], 0, "it has happened");
        until_gone(&site).await;
        nothing_is_left(&site).await;
        assert_eq!(stock(&site).await, before);
    })
    .await;
}

/// An engine that is dropped before its call of this number from the beginning of the deletion. False: it came to its end.
async fn dies_at(site: &AccessSite, group: StoreGroup, nth: usize) -> bool {
    let mut gate = site.store.faults.hold(group);
    let (engine, clock) = (site.engine.clone(), site.clock.clone());
    let mut turning = JoinSet::new();
    turning.spawn(async move {
        for _ in 0..25 {
            clock.advance_ms(1_000);
            engine.run_once().await.unwrap();
        }
    });
    for call in 0..=nth {
        tokio::select! {
            () = gate.reached() => {}
            ended = turning.join_next() => {
                ended.unwrap().unwrap();
                gate.open();
                return false;
            }
        }
        if call < nth {
            let next = site.store.faults.hold(group);
            gate.open();
            gate = next;
        }
    }
    turning.abort_all();
    assert!(turning.join_next().await.unwrap().unwrap_err().is_cancelled());
    // The next caller finds no gate.
    gate.open();
    true
}

/// Each step of the way is the last of some engine.
async fn goes_on_after(fresh: impl AsyncFn() -> AccessSite, group: StoreGroup, every: usize) -> usize {
    let mut nth = 0;
    loop {
        let site = fresh().await;
        furnish(&site, GONE).await;
        let before = keep(&site).await;
        site.admin(delete("?confirm=doomed")).await.expect(202);
        let died = dies_at(&site, group, nth).await;
        let survivor = site.beside();
        until_gone(&survivor).await;
        nothing_is_left(&survivor).await;
        assert_eq!(stock(&survivor).await, before);
        if !died {
            return nth;
        }
        nth += every;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_engine_goes_on_wherever_one_has_died_on_sqlite() {
    let batches = goes_on_after(AccessSite::sqlite, StoreGroup::Namespaces, 1).await;
    assert!(batches >= 8, "{batches} calls");
    let steps = goes_on_after(AccessSite::sqlite, StoreGroup::Settings, 1).await;
    assert!(steps >= 15, "{steps} calls");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_engine_goes_on_wherever_one_has_died_on_mysql_and_redis() {
    goes_on_after(AccessSite::mysql, StoreGroup::Namespaces, 3).await;
    goes_on_after(AccessSite::mysql, StoreGroup::Settings, 9).await;
}

/// One after the other, each a step further than the one before.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_engines_that_die_deletes_a_namespace_all_the_same() {
    both(async |site| {
        furnish(&site, GONE).await;
        let before = keep(&site).await;
        site.admin(delete("?confirm=doomed")).await.expect(202);
        for nth in 0..12 {
            let next = site.beside();
            dies_at(&next, StoreGroup::Namespaces, nth % 3).await;
        }
        let survivor = site.beside();
        until_gone(&survivor).await;
        nothing_is_left(&survivor).await;
        assert_eq!(stock(&survivor).await, before);
    })
    .await;
}
