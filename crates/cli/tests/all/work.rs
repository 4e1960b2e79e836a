//! `work --exec`.

use crate::binary::{Running, Server, address, blocking, punctual, run, servers, stderr, wait_for};
use punctual_testkit::servers::Redis;
use serde_json::{Value, json};
use std::{fs, sync::Arc};

fn worker(server: &Server, args: &[&str]) -> Running {
    let base = ["work", "--url", &server.url, "-q", "q"];
    Running::start(&mut punctual(&[&base[..], args].concat()))
}

fn until(server: &Server, task: &Value, state: &str) -> Value {
    let path = format!("/v1/tasks/{}", task["ref"].as_str().unwrap());
    wait_for(state, || Some(server.get(&path).1).filter(|entry| entry["state"] == state))
}

#[test]
fn cat_answers_with_the_payload() {
    let (server, _data) = Server::on_new_data();
    let _worker = worker(&server, &["--exec", "cat"]);
    let task = server.insert(json!({ "queue": "q", "payload": { "to": "ada", "n": [1, 2] } }));
    assert_eq!(until(&server, &task, "succeeded")["result"]["result"], json!({ "to": "ada", "n": [1, 2] }));
}

#[test]
fn a_failure_is_kept_with_its_exit_code_and_what_was_said() {
    let (server, _data) = Server::on_new_data();
    let _worker = worker(&server, &["--exec", "echo no such customer >&2; exit 3"]);
    let task = server.insert(json!({ "queue": "q", "max_attempts": 1 }));
    let dead = until(&server, &task, "dead");
    let said = dead["last_error"].as_str().unwrap();
    assert!(said.contains("exit code 3") && said.contains("no such customer"), "{dead}");
}

#[test]
fn exit_code_75_is_tried_again_after_the_time_that_was_given() {
    let (server, data) = Server::on_new_data();
    let marker = data.path().join("tried");
    // The first attempt leaves the marker and asks to be tried later; the second finds it.
    let command =
        format!("test -e {0} && echo $PUNCTUAL_ATTEMPT || {{ touch {0}; exit 75; }}", marker.display());
    let _worker = worker(&server, &["--exec", &command, "--retry-after", "100ms"]);
    let slow = json!({ "strategy": "fixed", "delay_ms": 3_600_000 });
    let task = server.insert(json!({ "queue": "q", "retry": slow }));
    assert_eq!(until(&server, &task, "succeeded")["result"]["result"], 2);
}

#[test]
fn tasks_of_other_kinds_are_left_for_other_workers() {
    let (server, _data) = Server::on_new_data();
    let _ours = worker(&server, &["--exec", "echo ours", "--kind", "a"]);
    let other = server.insert(json!({ "queue": "q", "kind": "b", "max_attempts": 1 }));
    let mine = server.insert(json!({ "queue": "q", "kind": "a" }));
    assert_eq!(until(&server, &mine, "succeeded")["result"]["result"], "ours");
    let _theirs = worker(&server, &["--exec", "echo theirs", "--kind", "b"]);
    assert_eq!(until(&server, &other, "succeeded")["result"]["result"], "theirs");
}

#[test]
fn a_running_command_is_stopped_when_its_task_is_cancelled() {
    let (server, _data) = Server::on_new_data();
    let _worker = worker(&server, &["--exec", "sleep 600", "--lease", "600ms"]);
    let task = server.insert(json!({ "queue": "q" }));
    let reference = task["ref"].as_str().unwrap();
    wait_for("the command to run", || {
        matches!(server.state(&task).as_str(), "dispatched" | "running").then_some(())
    });
    let (status, answer) =
        server.post(&format!("/v1/tasks/{reference}/cancel"), json!({ "stop_if_fired": true }));
    assert_eq!((status, &answer["outcome"]), (200, &json!("stop_requested")));
    until(&server, &task, "cancelled");
}

#[test]
fn heartbeats_hold_a_lease_that_is_shorter_than_the_command() {
    let (server, data) = Server::on_new_data();
    let go = data.path().join("go");
    let command = format!("until test -e {}; do sleep 0.05; done; echo $PUNCTUAL_ATTEMPT", go.display());
    // Three heartbeats in a lease: a machine would have to stand still for ten seconds for it to be lost.
    let _worker = worker(&server, &["--exec", &command, "--lease", "15s"]);
    let task = server.insert(json!({ "queue": "q" }));
    let path = format!("/v1/tasks/{}", task["ref"].as_str().unwrap());
    let held_until = || server.get(&path).1["lease"]["until_ms"].as_i64();
    let first = wait_for("the lease", held_until);
    wait_for("a heartbeat", || held_until().filter(|until_ms| *until_ms > first));
    fs::write(go, "").unwrap();
    assert_eq!(until(&server, &task, "succeeded")["result"]["result"], 1);
}

#[test]
fn sigterm_lets_running_commands_finish_and_report() {
    let (server, data) = Server::on_new_data();
    let (marker, go) = (data.path().join("begun"), data.path().join("go"));
    let command = format!("touch {}; until test -e {}; do sleep 0.05; done", marker.display(), go.display());
    let mut worker = worker(&server, &["--exec", &command]);
    let task = server.insert(json!({ "queue": "q" }));
    wait_for("the command to begin", || marker.exists().then_some(()));
    worker.signal("-TERM");
    fs::write(go, "").unwrap();
    assert_eq!(worker.ended().code(), Some(0));
    assert_eq!(server.state(&task), "succeeded");
}

#[test]
fn commands_run_for_tasks_of_the_bus_under_their_guard() {
    let (mariadb, redis) = blocking(servers());
    let hot = redis.url();
    let mut serve = punctual(&["serve", "--listen", "127.0.0.1:0", "--json", "--set", "queues.streams=2"]);
    serve.env("PUNCTUAL_STORE_URL", blocking(mariadb.fresh_database())).env("PUNCTUAL_HOT_URL", &hot);
    let mut process = Running::start(&mut serve);
    let url = address(&process.first_line());
    let server = Server { process, url };
    assert_eq!(server.put("/v1/queues/q", json!({ "mode": "push" })).0, 200);
    let redis = Arc::new(redis);
    // Before anybody reads, so that it is the engine that has made them.
    let waiting: Vec<Value> =
        (0..4).map(|_| server.insert(json!({ "queue": "q", "payload": "waits" }))).collect();
    let length = |stream: u8| {
        let (redis, key) = (Arc::clone(&redis), format!("punctual:{{q:default/q:{stream}}}:stream"));
        blocking(async move { redis.command(&["XLEN", &key]).await }).parse::<usize>().unwrap_or(0)
    };
    wait_for("messages in both streams", || {
        let lengths = [length(0), length(1)];
        (lengths.iter().sum::<usize>() == 4 && !lengths.contains(&0)).then_some(())
    });
    let args =
        ["work", "--url", &server.url, "-q", "q", "--exec", "cat", "--subscribe", "--bus-streams", "2"];
    let _worker = Running::start(punctual(&args).env("PUNCTUAL_BUS_URL", &hot));
    let task = server.insert(json!({ "queue": "q", "payload": { "to": "ada" } }));
    assert_eq!(until(&server, &task, "succeeded")["result"]["result"], json!({ "to": "ada" }));
    for task in waiting {
        until(&server, &task, "succeeded");
    }
    let guards = blocking(async move { redis.command(&["KEYS", "*:guard"]).await });
    assert!(guards.contains(":guard"), "{guards}");
}

/// Without Redis, the first heartbeat of an attempt guards it; the history shows that it began.
#[test]
fn a_worker_without_redis_is_guarded_by_the_server() {
    let (server, _data) = Server::on_new_data();
    for (args, begins) in [(&[][..], true), (&["--guard=off"], false), (&["--guard=server"], true)] {
        let base = ["work", "--url", &server.url, "-q", "q", "--exec", "true"];
        let _worker = Running::start(&mut punctual(&[&base[..], args].concat()));
        let task = server.insert(json!({ "queue": "q" }));
        let task = until(&server, &task, "succeeded");
        let has_begun = task["history"].as_array().unwrap().iter().any(|entry| entry["event"] == "start");
        assert_eq!(has_begun, begins, "{args:?}: {task}");
    }
    let refused = run(&["work", "--url", &server.url, "-q", "q", "--exec", "true", "--guard=redis"]);
    let said = stderr(&refused);
    assert!(!refused.status.success() && said.contains("PUNCTUAL_BUS_URL"), "{said}");
}

/// And says of each command that it begins, with its task and attempt, without being asked to say more.
#[test]
fn a_worker_that_pulls_asks_the_guard_where_it_is_told_to() {
    let (server, _data) = Server::on_new_data();
    let redis = blocking(Redis::own());
    let args = ["work", "--url", &server.url, "-q", "q", "--exec", "cat", "--guard"];
    let mut worker = Running::start(punctual(&args).env("PUNCTUAL_BUS_URL", redis.url()));
    let task = server.insert(json!({ "queue": "q", "payload": 1 }));
    until(&server, &task, "succeeded");
    let guards = blocking(async move { redis.command(&["KEYS", "*:guard"]).await });
    assert!(guards.contains(":guard"), "{guards}");
    worker.signal("-TERM");
    let (_, said) = worker.ended_saying();
    let reference = task["ref"].as_str().unwrap();
    let line =
        said.lines().find(|line| line.contains("an execution begins")).unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains(reference) && line.contains("attempt") && line.contains("INFO"), "{line}");
}

#[test]
fn subscribing_without_an_address_says_where_it_is_to_stand() {
    let output = run(&["work", "--url", "http://127.0.0.1:1", "-q", "q", "--exec", "true", "--subscribe"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("PUNCTUAL_BUS_URL_FILE"), "{}", stderr(&output));
}
