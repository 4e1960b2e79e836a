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
            let open = ["ready", "dispatched", "running"].contains(&state);
            assert_eq!(problem["detail"].as_str().unwrap().contains("stop_if_fired"), open, "{problem}");
            assert_eq!(world.task(&task_ref).await["state"], state);
        }
    }
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
