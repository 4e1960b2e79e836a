//! What an engine dies of, with the program itself: kill -9 while it evaluates one schedule. Nothing in the program helps: the payload
//! costs what a payload may, and the mark is read in the file of the store.

use crate::binary::{Server, wait_for};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use std::{collections::BTreeSet, path::Path};

/// Expressions of the payload, each of some ten thousand steps. It is filled in for each run that the planner looks at, until the look
/// has cost all that it may: long enough to be seen from outside, wherever the tests run.
const EXPRESSIONS: usize = 100;

fn dear() -> Value {
    let ten = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]";
    let walks = format!("[0, 1].all(z, {ten}.all(a, {ten}.all(b, {ten}.all(c, a + b + c + z >= 0))))");
    (0..EXPRESSIONS).map(|_| json!({ "$expr": walks })).collect()
}

/// The engines that have marked a schedule and not removed the mark. None: the file is being recovered.
fn marked_by(data: &Path, schedule: &str) -> Option<BTreeSet<String>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let store = Connection::open_with_flags(data.join("punctual.db"), flags).ok()?;
    let mut marks = store.prepare("SELECT engine FROM evaluation WHERE name = ?1").ok()?;
    marks.query_map([schedule], |row| row.get(0)).ok()?.collect::<Result<_, _>>().ok()
}

fn put(server: &Server, name: &str, document: Value) {
    let (status, answer) = server.put(&format!("/v1/schedules/{name}"), document);
    assert_eq!(status, 201, "{answer}");
}

fn fired_until(server: &Server, name: &str) -> i64 {
    let (_, runs) = server.get(&format!("/v1/schedules/{name}/runs"));
    let made = runs["items"].as_array().unwrap().iter().filter(|run| run["task_ref"].is_string());
    made.filter_map(|run| run["at_ms"].as_i64()).max().unwrap_or_default()
}

#[test]
fn a_schedule_whose_evaluation_was_ended_by_kill_9_twice_is_set_aside_and_the_others_are_planned() {
    let (mut server, data) = Server::on_new_data();
    put(&server, "other", json!({ "every_ms": 1_000, "task": { "queue": "mail" } }));
    put(&server, "poison", json!({ "every_ms": 1_000, "task": { "queue": "mail", "payload": dear() } }));
    let mut dead = BTreeSet::new();
    while dead.len() < 2 {
        wait_for("a mark of this engine", || {
            marked_by(data.path(), "poison").filter(|engines| !engines.is_subset(&dead))
        });
        server.process.signal("-KILL");
        server.process.ended();
        // What was not removed was in flight. Where the look had ended before the kill, that has cleared the deaths before it.
        dead = wait_for("the marks in the file", || marked_by(data.path(), "poison"));
        server = Server::start(data.path());
    }
    let shown = wait_for("what the schedule says of it", || {
        let (_, schedule) = server.get("/v1/schedules/poison");
        schedule.get("set_aside").cloned()
    });
    assert!(shown["reason"].as_str().unwrap().starts_with("2 engines died"), "{shown}");
    let alert = wait_for("the alert", || {
        let (_, alerts) = server.get("/v1/alerts");
        let alerts = alerts["items"].as_array().unwrap();
        alerts.iter().find(|alert| alert["name"] == "evaluation_set_aside").cloned()
    });
    assert!(alert["text"].as_str().unwrap().ends_with("schedule default/poison"), "{alert}");
    let (before, poisoned_until) = (fired_until(&server, "other"), fired_until(&server, "poison"));
    wait_for("runs of the other schedule", || (fired_until(&server, "other") > before).then_some(()));
    assert_eq!(fired_until(&server, "poison"), poisoned_until);
    assert_eq!(marked_by(data.path(), "poison"), Some(dead.clone()), "no engine evaluates it any more");
    // One that stops does not take the marks of the dead with it.
    server.process.signal("-TERM");
    assert!(server.process.ended().success());
    assert_eq!(marked_by(data.path(), "poison"), Some(dead));
}
