//! kill -9: what was acknowledged fires after the next start, and an attempt without an outcome runs again.

use crate::binary::{Server, wait_for};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const TASKS: usize = 200;

fn reference(task: &Value) -> String {
    task["ref"].as_str().unwrap().to_owned()
}

#[test]
fn tasks_that_wait_when_the_server_is_killed_fire_after_the_next_start_each_once() {
    let (mut server, data) = Server::on_new_data();
    // Some are due while no engine runs, some after it is back.
    let tasks: Vec<Value> = (0..TASKS).map(|n| json!({ "queue": "q", "delay_ms": n * 10 })).collect();
    let (status, answer) = server.post("/v1/tasks/batch", json!({ "tasks": tasks }));
    assert_eq!(status, 200);
    let mut waiting: BTreeMap<String, i64> = answer["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (reference(&entry["task"]), entry["task"]["execute_at_ms"].as_i64().unwrap()))
        .collect();
    assert_eq!(waiting.len(), TASKS);
    server.process.signal("-KILL");
    server.process.ended();
    let server = Server::start(data.path());
    while !waiting.is_empty() {
        let leased = wait_for("the tasks that are left", || {
            let leased = server.lease("q", 50, 60_000);
            (!leased.is_empty()).then_some(leased)
        });
        for task in leased {
            let execute_at_ms = waiting.remove(&reference(&task)).expect("each task comes once");
            assert!(task["fired_at_ms"].as_i64().unwrap() >= execute_at_ms, "early: {task}");
            assert_eq!(server.succeed(&task), "accepted");
        }
    }
}

#[test]
fn an_attempt_without_an_outcome_runs_again_after_its_lease_and_its_own_outcome_is_stale() {
    let (mut server, data) = Server::on_new_data();
    let task = server.insert(json!({ "queue": "q", "retry": { "strategy": "immediate" } }));
    let first = wait_for("the first attempt", || server.lease("q", 1, 500).pop());
    server.process.signal("-KILL");
    server.process.ended();
    let server = Server::start(data.path());
    let second = wait_for("the second attempt", || server.lease("q", 1, 60_000).pop());
    assert_eq!((reference(&second), &second["attempt"]), (reference(&task), &json!(2)));
    assert_eq!(server.succeed(&first), "stale");
    assert_eq!(server.succeed(&second), "accepted");
    assert_eq!(server.state(&task), "succeeded");
}
