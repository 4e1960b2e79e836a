//! Each change of a task's state as a log line, on request, and what the history says of the same changes. On both back
//! ends.

use crate::binary::{Server, servers, wait_for};
use serde_json::{Value, json};
use std::path::Path;
use tempfile::NamedTempFile;

fn lines_of(log: &NamedTempFile, task: &Value) -> Vec<Value> {
    let text = std::fs::read_to_string(log.path()).unwrap();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let changes = lines.filter(|line| line["target"] == "punctual_task");
    changes.map(|line| line["fields"].clone()).filter(|fields| fields["task"] == task["ref"]).collect()
}

fn words(lines: &[Value], field: &str) -> Vec<String> {
    lines.iter().map(|line| line[field].as_str().unwrap_or_default().to_owned()).collect()
}

/// Due in a moment: an executor that waits gets it by a lease ahead.
fn worked_off(server: &Server) -> Value {
    let task = server.insert(json!({ "queue": "q", "delay_ms": 700 }));
    let leased = wait_for("the task", || server.lease("q", 1, 60_000).pop());
    assert_eq!(leased["ref"], task["ref"]);
    let held = json!({ "ref": leased["ref"], "token": leased["token"] });
    let (status, answer) = server.post("/v1/heartbeats", json!({ "executor": "test", "leases": [held] }));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(server.succeed(&leased), "accepted");
    wait_for("the outcome", || (server.state(&task) == "succeeded").then_some(()));
    task
}

fn changes_are_logged(args: &[&str], data: &Path) {
    let log = NamedTempFile::new().unwrap();
    let server =
        Server::start_saying_to(data, &[args, &["--log-format", "json"]].concat(), log.reopen().unwrap());
    let before = worked_off(&server);
    let (status, answer) = server.put("/v1/log-filter", json!({ "filter": "warn,punctual_task=debug" }));
    assert_eq!(status, 200, "{answer}");
    let task = worked_off(&server);
    let lines = wait_for("the line of the outcome", || {
        let lines = lines_of(&log, &task);
        words(&lines, "event").contains(&"succeed".to_owned()).then_some(lines)
    });
    let events = words(&lines, "event");
    assert_eq!(
        (events[0].as_str(), lines[0]["due_at_ms"].clone()),
        ("insert", task["execute_at_ms"].clone())
    );
    assert!(events.contains(&"dispatch".to_owned()), "{events:?}");
    let start = lines.iter().find(|line| line["event"] == "start").unwrap();
    assert_eq!((&start["to"], &start["by"]), (&json!("running"), &json!("test")));
    assert_eq!(lines.last().unwrap()["to"], "succeeded");
    assert_eq!(
        lines_of(&log, &before),
        Vec::<Value>::new(),
        "the log is silent unless the filter asks for it"
    );

    let cancelled = server.insert(json!({ "queue": "q", "delay_ms": 600_000 }));
    let place = cancelled["ref"].as_str().unwrap();
    let (status, answer) = server.post(&format!("/v1/tasks/{place}/cancel"), json!({}));
    assert_eq!(status, 200, "{answer}");
    let lines = wait_for("the line of the cancel", || {
        Some(lines_of(&log, &cancelled)).filter(|lines| lines.len() > 1)
    });
    assert_eq!(words(&lines, "event"), ["insert", "cancel"]);

    let (_, whole) = server.get(&format!("/v1/tasks/{}", task["ref"].as_str().unwrap()));
    let history = whole["history"].as_array().unwrap();
    let dispatches: Vec<&Value> = history.iter().filter(|entry| entry["event"] == "dispatch").collect();
    assert!(!dispatches.is_empty() && dispatches.iter().all(|entry| entry["by"] == "test"), "{history:?}");
    let (_, withdrawn) = server.get(&format!("/v1/tasks/{place}"));
    assert_eq!((&whole["ended_as"], &withdrawn["ended_as"]), (&json!("succeeded"), &json!("cancelled")));
}

#[test]
fn changes_are_logged_and_histories_name_executors_on_the_embedded_store() {
    let data = tempfile::tempdir().unwrap();
    changes_are_logged(&[], data.path());
}

#[test]
fn changes_are_logged_and_histories_name_executors_with_mysql_and_redis() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (store, redis) = runtime.block_on(async {
        let (mysql, redis) = servers().await;
        (mysql.fresh_database().await, redis)
    });
    let data = tempfile::tempdir().unwrap();
    changes_are_logged(&["--store-url", &store, "--hot-url", &redis.url()], data.path());
}
