//! Cancel, change, run now, redrive: in every state a definite answer that what happens next agrees with.

use crate::world::{Ask, HOUR_MS, START_MS, STATES, World, ask, get, post};
use serde_json::{Value, json};

fn action(task_ref: &str, action: &str) -> Ask {
    ask("POST", format!("/v1/tasks/{task_ref}/{action}"))
}

fn patch(task_ref: &str, body: &Value) -> Ask {
    ask("PATCH", format!("/v1/tasks/{task_ref}")).json(body)
}

#[tokio::test]
async fn cancel_is_definite_in_every_state() {
    for state in STATES {
        let world = World::new();
        let task_ref = world.bring_to(state, 7).await;
        let answer = world.send(action(&task_ref, "cancel")).await;
        if ["scheduled", "dispatching", "retrying", "cancelled"].contains(&state) {
            let answer = answer.expect(200);
            assert_eq!(
                (&answer["outcome"], &answer["task"]["state"]),
                (&json!("cancelled"), &json!("cancelled"))
            );
            world.advance(2 * HOUR_MS).await;
            assert_eq!(world.lease(state).await, [] as [Value; 0], "{state}");
            assert_eq!(world.task(&task_ref).await["state"], "cancelled");
        } else {
            let problem = answer.expect_problem(409, "task.already_fired");
            assert_eq!(
                (&problem["existing"]["ref"], &problem["existing"]["state"]),
                (&json!(task_ref), &json!(state))
            );
            let open = ["ready", "dispatched", "running", "dispatch_failed"].contains(&state);
            assert_eq!(problem["detail"].as_str().unwrap().contains("stop_if_fired"), open, "{problem}");
            assert_eq!(world.task(&task_ref).await["state"], state);
        }
    }
}

#[tokio::test]
async fn a_task_that_waits_goes_into_another_queue_and_one_that_has_fired_does_not() {
    for state in STATES {
        let world = World::new();
        let task_ref = world.bring_to(state, 7).await;
        let answer = world.send(patch(&task_ref, &json!({"queue": "elsewhere"}))).await;
        if ["scheduled", "dispatching", "retrying"].contains(&state) {
            let task = answer.expect(200);
            assert_eq!(
                (&task["queue"], &task["state"]),
                (&json!("elsewhere"), &json!("scheduled")),
                "{state}"
            );
            let last = task["history"].as_array().unwrap().last().unwrap();
            assert_eq!(last["reason"], format!("from queue {state} to elsewhere"));
            world.advance(2 * HOUR_MS).await;
            assert_eq!(world.lease(state).await, [] as [Value; 0], "{state}");
            assert_eq!(world.lease("elsewhere").await.len(), 1, "{state}");
        } else {
            let problem = answer.expect_problem(409, "task.already_fired");
            assert_eq!(problem["existing"]["state"], state);
            assert_eq!(world.task(&task_ref).await["queue"], state, "it stays where it is");
        }
    }
}

#[tokio::test]
async fn a_queue_takes_no_task_of_another_that_it_has_no_room_for_or_cannot_serve() {
    let world = World::new();
    let later = |queue: &str| json!({"queue": queue, "delay_ms": HOUR_MS});
    let one = world.insert(later("mail")).await;
    world.insert(later("sms")).await;
    world.send(ask("PUT", "/v1/queues/sms").json(&json!({"max_waiting": 1}))).await.expect(200);
    world.send(ask("PUT", "/v1/queues/pushed").json(&json!({"mode": "push"}))).await.expect(200);
    let into = |task: &Value, queue: &str| patch(task["ref"].as_str().unwrap(), &json!({ "queue": queue }));
    let full = world.send(into(&one, "sms")).await;
    assert_eq!(full.header("retry-after"), Some("1"));
    full.expect_problem(429, "queue.full");
    world.send(into(&one, "mail")).await.expect(200);
    let mut demanding = later("mail");
    demanding["handler_versions"] = json!(">=2");
    let demanding = world.insert(demanding).await;
    let refused = world.send(into(&demanding, "pushed")).await.expect_problem(400, "request.invalid");
    assert_eq!(refused["errors"][0]["pointer"], "/queue");
    let refused = world.send(into(&one, "no name")).await.expect_problem(400, "request.invalid");
    assert_eq!(refused["errors"][0]["pointer"], "/queue");
    world.send(into(&one, "pushed")).await.expect(200);
}

#[tokio::test]
async fn cancel_can_also_withdraw_what_waits_and_stop_what_runs() {
    for state in STATES {
        let world = World::new();
        let task_ref = world.bring_to(state, 7).await;
        let answer = world.send(action(&task_ref, "cancel").json(&json!({"stop_if_fired": true}))).await;
        match state {
            "dispatched" | "running" => assert_eq!(answer.expect(200)["outcome"], "stop_requested"),
            "succeeded" | "dead" | "stopped" => drop(answer.expect_problem(409, "task.already_fired")),
            _ => {
                assert_eq!(answer.expect(200)["outcome"], "cancelled", "{state}");
                assert_eq!(world.lease(state).await, [] as [Value; 0]);
            }
        }
    }
}

#[tokio::test]
async fn a_running_executor_learns_of_the_wish_to_stop() {
    let world = World::new();
    let task_ref = world.insert(json!({"queue": "q"})).await["ref"].as_str().unwrap().to_owned();
    world.advance(1).await;
    let leased = world.lease("q").await.remove(0);
    assert_eq!(world.beat(&leased).await["cancel_requested"], false);
    world.send(action(&task_ref, "cancel").json(&json!({"stop_if_fired": true}))).await.expect(200);
    assert_eq!(world.beat(&leased).await["cancel_requested"], true);
    assert_eq!(world.report(&leased, json!({"outcome": "failed"})).await["status"], "accepted");
    assert_eq!(world.task(&task_ref).await["state"], "cancelled");
}

#[tokio::test]
async fn a_change_is_made_before_firing_and_refused_after() {
    for state in STATES {
        let world = World::new();
        let task_ref = world.bring_to(state, 7).await;
        let answer =
            world.send(patch(&task_ref, &json!({"delay_ms": 5000, "priority": 1, "payload": [1]}))).await;
        if ["scheduled", "dispatching", "retrying"].contains(&state) {
            let task = answer.expect(200);
            assert_eq!(task["execute_at_ms"], world.engine.now().0 + 5_000);
            assert_eq!((&task["priority"], &task["payload"]), (&json!(1), &json!([1])));
            assert_eq!(task["ref"], json!(task_ref));
            world.advance(4_999).await;
            assert_eq!(world.lease(state).await, [] as [Value; 0]);
            world.advance(1).await;
            let leased = world.lease(state).await.remove(0);
            assert_eq!((&leased["payload"], &leased["ref"]), (&json!([1]), &json!(task_ref)));
        } else {
            let problem = answer.expect_problem(409, "task.already_fired");
            assert_eq!(problem["existing"]["state"], state);
        }
    }
}

#[tokio::test]
async fn run_now_brings_a_waiting_task_forward() {
    for state in STATES {
        let world = World::new();
        let task_ref = world.bring_to(state, 7).await;
        let answer = world.send(action(&task_ref, "run-now")).await;
        if ["scheduled", "dispatching", "retrying"].contains(&state) {
            assert_eq!(answer.expect(200)["outcome"], "scheduled");
            world.advance(0).await;
            assert_eq!(world.lease(state).await[0]["ref"], json!(task_ref));
        } else {
            answer.expect_problem(409, "task.already_fired");
        }
    }
}

#[tokio::test]
async fn only_a_dead_task_is_redriven_and_then_it_runs_again() {
    for state in STATES {
        let world = World::new();
        let task_ref = world.bring_to(state, 7).await;
        let answer = world.send(action(&task_ref, "redrive").json(&json!({}))).await;
        if state == "dead" {
            let answer = answer.expect(200);
            assert_eq!((&answer["outcome"], &answer["task"]["attempt"]), (&json!("redriven"), &json!(0)));
            world.advance(0).await;
            assert_eq!(world.lease(state).await[0]["attempt"], 1);
        } else {
            let problem = answer.expect_problem(409, "task.not_dead");
            assert_eq!(problem["existing"]["state"], state);
        }
    }
}

#[tokio::test]
async fn an_etag_guards_a_change_and_saves_a_reading() {
    let world = World::new();
    let task_ref =
        world.insert(json!({"queue": "q", "delay_ms": HOUR_MS})).await["ref"].as_str().unwrap().to_owned();
    let path = format!("/v1/tasks/{task_ref}");
    let first = world.send(get(&path)).await.header("etag").unwrap().to_owned();
    let known = world.send(get(&path).header("if-none-match", format!("\"x\", W/{first}"))).await;
    assert_eq!((known.status, known.header("etag"), known.text.as_str()), (304, Some(first.as_str()), ""));

    let change = || patch(&task_ref, &json!({"priority": 2}));
    let refused =
        world.send(change().header("if-match", "\"x\"")).await.expect_problem(412, "precondition.failed");
    assert_eq!(refused["existing"]["priority"], 3);
    world
        .send(change().header("if-match", format!("W/{first}")))
        .await
        .expect_problem(412, "precondition.failed");
    let changed = world.send(change().header("if-match", &first)).await;
    let second = changed.header("etag").unwrap().to_owned();
    changed.expect(200);
    assert_ne!(first, second);
    world.send(change().header("if-match", &first)).await.expect_problem(412, "precondition.failed");
    world.send(change().header("if-match", "*")).await.expect(200);
    assert_eq!(world.send(get(&path).header("if-none-match", &first)).await.status, 200);
}

#[tokio::test]
async fn a_task_of_another_namespace_is_not_there() {
    let world = World::new();
    let inserted =
        post("/v1/tasks", &json!({"queue": "q", "delay_ms": HOUR_MS})).header("punctual-namespace", "eu");
    let task_ref = world.send(inserted).await.expect(201)["ref"].as_str().unwrap().to_owned();
    for request in [
        get(format!("/v1/tasks/{task_ref}")),
        get(format!("/v1/tasks/{task_ref}/why")),
        patch(&task_ref, &json!({"priority": 1})),
        action(&task_ref, "cancel"),
        action(&task_ref, "run-now"),
        action(&task_ref, "redrive"),
    ] {
        world.send(request).await.expect_problem(404, "task.not_found");
    }
    let task =
        world.send(get(format!("/v1/tasks/{task_ref}")).header("punctual-namespace", "eu")).await.expect(200);
    assert_eq!((&task["state"], &task["priority"]), (&json!("scheduled"), &json!(3)));
}

#[tokio::test]
async fn why_names_what_a_task_waits_for() {
    let world = World::new();
    let task_ref =
        world.insert(json!({"queue": "q", "delay_ms": 10_000})).await["ref"].as_str().unwrap().to_owned();
    let why = || get(format!("/v1/tasks/{task_ref}/why"));
    let waits = world.send(why()).await.expect(200);
    assert_eq!((&waits["state"], &waits["blocking"]), (&json!("scheduled"), &json!("time")));
    assert_eq!((&waits["next_step"], &waits["expected_at_ms"]), (&json!("fire"), &json!(START_MS + 10_000)));
    world.advance(10_000).await;
    assert_eq!(world.send(why()).await.expect(200)["blocking"], "executor");
    world.lease("q").await;
    assert_eq!(world.send(why()).await.expect(200)["owner"], "x1");
}

/// State, what blocks, and words of the reason.
const WHY: [(&str, Option<&str>, &str); 11] = [
    ("scheduled", Some("time"), "Its time has not come"),
    ("dispatching", Some("time"), "on the wheel"),
    ("ready", Some("executor"), "no executor that has a name asks for queue"),
    ("dispatched", None, "Attempt 1 is with \"x1\""),
    ("running", None, "Attempt 1 is with \"x1\""),
    ("dispatch_failed", Some("bus"), "could not be sent"),
    ("retrying", Some("time"), "Attempt 1 of 5 failed (too hot); the next one is due in 1 h"),
    ("succeeded", None, "It has run"),
    ("dead", Some("dead"), "It is dead after 1 of 5 attempts (never)"),
    ("cancelled", Some("cancelled"), "It was cancelled"),
    ("stopped", None, "It has run"),
];

#[tokio::test]
async fn why_has_an_answer_for_every_state() {
    assert_eq!(WHY.map(|row| row.0), STATES);
    for (state, blocking, words) in WHY {
        let world = World::new();
        let task_ref = world.bring_to(state, 7).await;
        let why = world.send(get(format!("/v1/tasks/{task_ref}/why"))).await.expect(200);
        assert_eq!((&why["state"], why["blocking"].as_str()), (&json!(state), blocking), "{why}");
        assert!(why["reason"].as_str().unwrap().contains(words), "{state}: {why}");
        let has_time = ["scheduled", "dispatching", "dispatched", "running", "dispatch_failed", "retrying"];
        assert_eq!(why["expected_at_ms"].is_i64(), has_time.contains(&state), "{state}: {why}");
        assert!(!why["next_step"].as_str().unwrap().is_empty(), "{state}");
    }
}

async fn why_of(world: &World, task: &Value) -> Value {
    world.send(get(format!("/v1/tasks/{}/why", task["ref"].as_str().unwrap()))).await.expect(200)
}

#[tokio::test]
async fn why_names_the_limit_and_who_holds_it_who_has_paused_and_which_versions_ask() {
    let world = World::new();
    let set = |queue: &str, body: Value| ask("PUT", format!("/v1/queues/{queue}")).json(&body);
    world.send(set("narrow", json!({"concurrency": 1}))).await.expect(200);
    let (_first, second) =
        (world.insert(json!({"queue": "narrow"})).await, world.insert(json!({"queue": "narrow"})).await);
    let versioned = world.insert(json!({"queue": "v", "handler_versions": ">=2"})).await;
    let paused = world.insert(json!({"queue": "p"})).await;
    for _ in 0..3 {
        world.advance(1_000).await;
    }
    assert_eq!(world.lease("narrow").await.len(), 1);
    let why = why_of(&world, &second).await;
    let reason = why["reason"].as_str().unwrap();
    assert_eq!(why["blocking"], "limit", "{why}");
    assert!(reason.contains("limit of 1") && reason.contains("with \"x1\""), "{why}");

    let old = json!({"max": 1, "executor": "x1", "version": "1.9"});
    world.send(post("/v1/queues/v/lease", &old)).await.expect(200);
    let why = why_of(&world, &versioned).await;
    assert_eq!(why["blocking"], "version");
    let reason = why["reason"].as_str().unwrap();
    assert!(reason.contains(">=2") && reason.contains("1.9"), "{why}");

    let pause = json!({"by": "ada", "reason": "the printer burns"});
    world.send(post("/v1/queues/p/pause", &pause)).await.expect(200);
    let why = why_of(&world, &paused).await;
    assert_eq!((&why["blocking"], &why["owner"]), (&json!("pause"), &json!("ada")));
    assert!(why["reason"].as_str().unwrap().contains("the printer burns"), "{why}");
}

#[tokio::test]
async fn why_says_that_no_executor_has_a_handler_for_the_kind_and_who_is_quiet() {
    let world = World::new();
    let beat = |kinds: Value| {
        post(
            "/v1/heartbeats",
            &json!({"executor": "w1", "queues": ["q"], "kinds": kinds, "capacity": 4, "leases": []}),
        )
    };
    let task = world.insert(json!({"queue": "q", "kind": "mail"})).await;
    world.advance(0).await;
    world.send(beat(json!(["print"]))).await.expect(200);
    world.advance(1_000).await;
    let why = why_of(&world, &task).await;
    assert_eq!(why["blocking"], "kind", "{why}");
    let reason = why["reason"].as_str().unwrap();
    assert!(reason.contains("\"mail\"") && reason.contains("\"w1\" is alive and runs 0 of 4"), "{why}");
    world.send(beat(json!(["mail"]))).await.expect(200);
    world.advance(1_000).await;
    assert_eq!(why_of(&world, &task).await["blocking"], "executor");
    world.send(ask("POST", "/v1/executors/w1/quiet")).await.expect(200);
    let why = why_of(&world, &task).await;
    assert!(why["reason"].as_str().unwrap().contains("\"w1\" is quiet"), "{why}");
}
