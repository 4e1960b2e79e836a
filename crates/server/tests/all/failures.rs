//! Back ends that fail: the answer says whether the request may have taken effect, and when to come back.

use crate::world::{HOUR_MS, World, ask, get, post};
use punctual_server::ServerOptions;
use punctual_testkit::{
    faults::{Dials, StoreGroup},
    patience::HANG_LIMIT,
};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn what_did_not_happen_and_what_may_have_are_told_apart() {
    let world = World::new();
    let task_ref =
        world.insert(json!({"queue": "q", "delay_ms": HOUR_MS})).await["ref"].as_str().unwrap().to_owned();
    for (dials, code) in
        [(Dials::REFUSES, "store.unavailable"), (Dials::ANSWERS_LOST, "store.outcome_unknown")]
    {
        world.store.faults.set(StoreGroup::Insert, dials);
        let answer = world.send(post("/v1/tasks", &json!({"queue": "q"}))).await;
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert_eq!(answer.expect_problem(503, code)["retry_after_ms"], 1_000);
        world.store.faults.heal();
        world.store.faults.set(StoreGroup::Apply, dials);
        let cancel = ask("POST", format!("/v1/tasks/{task_ref}/cancel"));
        world.send(cancel).await.expect_problem(503, code);
        world.store.faults.heal();
    }
    world.store.faults.set(StoreGroup::Read, Dials::REFUSES);
    world.send(get(format!("/v1/tasks/{task_ref}"))).await.expect_problem(503, "store.unavailable");
    world.store.faults.heal();
    assert_eq!(
        world.task(&task_ref).await["state"],
        "cancelled",
        "the one whose answer was lost took effect"
    );
}

#[tokio::test]
async fn a_server_without_a_store_is_not_ready_and_says_which_part() {
    let world = World::new();
    // As before a server takes its first request: without it no caller is admitted.
    world.engine.access_is_known().await.unwrap();
    world.store.faults.set_all(Dials::REFUSES);
    let problem = world.send(get("/readyz")).await.expect(503);
    assert_eq!(problem["code"], "store.unavailable");
    let parts = problem["parts"].as_array().unwrap();
    assert!(parts.iter().any(|part| part["name"] == "store" && part["ok"] == false), "{problem}");
    let metrics = world.send(get("/metrics")).await;
    assert_eq!(metrics.status, 200, "metrics are served all the same");
    assert!(metrics.text.contains("punctual_http_requests_total{"));
}

#[tokio::test]
async fn a_server_whose_hot_set_is_away_is_degraded_and_still_takes_tasks() {
    let world = World::that_repairs_nothing();
    world.hot.faults.set_all(Dials::REFUSES);
    let ready = world.send(get("/readyz")).await.expect(200);
    assert_eq!(ready["status"], "degraded");
    let parts = ready["parts"].as_array().unwrap();
    assert!(parts.iter().any(|part| part["name"] == "hot" && part["ok"] == false), "{ready}");
    let task = world.insert(json!({"queue": "q", "delay_ms": 5_000})).await;
    assert_eq!(task["state"], "scheduled");
    world.hot.faults.heal();
    assert_eq!(world.send(get("/readyz")).await.expect(200)["status"], "ready");
}

#[tokio::test]
async fn too_many_requests_are_turned_away_but_health_is_answered() {
    let world = World::with(ServerOptions { in_flight_max: 0, ..ServerOptions::default() });
    let answer = world.send(get("/v1/tasks")).await;
    assert_eq!(answer.header("retry-after"), Some("1"));
    answer.expect_problem(429, "overload");
    world.send(get("/readyz")).await.expect(200);
    world.send(post("/v1/queues/q/lease", &json!({}))).await.expect(200);
}

/// Before they wait for seconds, and only those whose own namespace floods the store: others take turns with it.
#[tokio::test]
async fn an_insert_that_would_wait_for_long_is_told_when_to_come_again() {
    const BATCH: usize = 10_000;
    let world = World::new();
    let gate = world.store.faults.hold(StoreGroup::Insert);
    let batch = || {
        let tasks: Vec<_> = (0..BATCH).map(|_| json!({"queue": "q", "delay_ms": HOUR_MS})).collect();
        world.send(post("/v1/tasks/batch", &json!({"tasks": tasks})))
    };
    let single = || post("/v1/tasks", &json!({"queue": "q"}));
    let flood = async { tokio::join!(batch(), batch(), batch()) };
    let others = async {
        for _ in 0..3 {
            gate.reached().await;
        }
        // 30,000 rows wait, at 20,000 a second as long as nothing else is known; and half as long again.
        for refused in [single(), post("/v1/tasks/batch", &json!({"tasks": [{"queue": "q"}]}))] {
            let refusal = world.send(refused).await;
            assert_eq!(refusal.header("retry-after"), Some("3"));
            let problem = refusal.expect_problem(429, "overload");
            assert_eq!(problem["retry_after_ms"], 2_250);
        }
        let quiet = world.send(single().header("punctual-namespace", "quiet"));
        let opened = async {
            gate.reached().await;
            gate.open();
        };
        tokio::join!(quiet, opened).0.expect(201);
    };
    let ((one, two, three), ()) = tokio::join!(flood, others);
    for answer in [one, two, three] {
        assert_eq!(answer.expect(200)["results"].as_array().unwrap().len(), BATCH);
    }
    world.send(single()).await.expect(201);
    assert_eq!(world.engine.store().books().await.unwrap().accepted, 3 * 10_000 + 2, "nothing else was done");
}

/// However few wait for it: a store that takes nothing shows no pace. The clock of the timers moves only where the test moves it.
#[tokio::test(start_paused = true)]
async fn inserts_into_a_store_that_stalls_are_told_to_come_again() {
    const SINGLES: usize = 200;
    let world = World::new();
    let gate = world.store.faults.hold(StoreGroup::Insert);
    let single = || world.send(post("/v1/tasks", &json!({"queue": "q"})));
    let waiting = futures_util::future::join_all((0..SINGLES).map(|_| single()));
    let others = async {
        for _ in 0..SINGLES {
            gate.reached().await;
        }
        tokio::time::advance(Duration::from_secs(3)).await;
        let refusal = tokio::time::timeout(HANG_LIMIT, single());
        let refusal = refusal.await.expect("an answer, though the store gives none");
        assert_eq!(refusal.header("retry-after"), Some("3"), "as long as nothing has moved");
        refusal.expect_problem(429, "overload");
        tokio::time::resume();
        gate.open();
    };
    let (answers, ()) = tokio::join!(waiting, others);
    for answer in answers {
        answer.expect(201);
    }
    single().await.expect(201);
}
