//! `task …` and `queue list` against a server.

use crate::binary::{Server, documents, punctual, run, stderr, stdout, wait_for};
use punctual_testkit::patience::HANG_LIMIT;
use serde_json::{Value, json};
use std::{
    io::{BufRead as _, BufReader},
    net::TcpListener,
    process::Stdio,
    sync::mpsc,
    thread,
};

fn done(output: &std::process::Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    documents(output).remove(0)
}

#[test]
fn a_task_is_inserted_read_moved_run_and_explained_from_the_command_line() {
    let (server, _data) = Server::on_new_data();
    let args = ["task", "insert", "--queue", "q", "--kind", "k", "--delay", "1h", "--payload", "{\"a\":1}"];
    let task = done(&server.client(&[&args[..], &["--task-id", "7", "--label", "team=a"]].concat()));
    assert_eq!((&task["outcome"], &task["payload"]), (&json!("created"), &json!({ "a": 1 })));
    let reference = task["ref"].as_str().unwrap();
    let again = done(&server.client(&[&args[..], &["--task-id", "7"]].concat()));
    assert_eq!(again["task_id"], 7);

    let got = done(&server.client(&["task", "get", reference]));
    assert_eq!((&got["state"], got["history"].as_array().unwrap().is_empty()), (&json!("scheduled"), false));
    assert_eq!(done(&server.client(&["task", "get", "--task-id", "7"]))["task_id"], 7);
    assert!(done(&server.client(&["task", "why", reference]))["reason"].is_string());
    let listed = done(&server.client(&["task", "list", "-q", "q", "--state", "scheduled"]));
    assert_eq!(listed["items"][0]["task_id"], 7);

    let at = "2099-01-01T00:00:00.000Z";
    assert_eq!(done(&server.client(&["task", "reschedule", reference, "--at", at]))["execute_at"], at);
    assert_eq!(done(&server.client(&["task", "run-now", reference]))["outcome"], "scheduled");
    let leased = wait_for("the task", || server.lease("q", 1, 60_000).pop());
    assert_eq!(server.succeed(&leased), "accepted");
    let queues = done(&server.client(&["queue", "list"]));
    assert_eq!(
        (&queues["items"][0]["queue"], &queues["items"][0]["tasks"]["succeeded"]),
        (&json!("q"), &json!(1))
    );
}

#[test]
fn cancel_is_definite_and_a_refusal_is_exit_code_1_without_holding_back_the_others() {
    let (server, _data) = Server::on_new_data();
    let tasks: Vec<Value> =
        (0..2).map(|_| server.insert(json!({ "queue": "q", "delay_ms": 3_600_000 }))).collect();
    let refs: Vec<&str> = tasks.iter().map(|task| task["ref"].as_str().unwrap()).collect();
    assert_eq!(done(&server.client(&["task", "cancel", refs[0]]))["outcome"], "cancelled");
    let mixed = server.client(&["task", "cancel", "t00000000000000000000000000", refs[1]]);
    assert_eq!(mixed.status.code(), Some(1));
    let documents = documents(&mixed);
    assert_eq!(documents[0]["error"]["status"], 404);
    assert_eq!(documents[1]["outcome"], "cancelled");
    assert_eq!((server.state(&tasks[0]), server.state(&tasks[1])), ("cancelled".into(), "cancelled".into()));
}

#[test]
fn people_get_tables_and_programs_get_json() {
    let (server, _data) = Server::on_new_data();
    server.insert(json!({ "queue": "orders", "kind": "ship", "delay_ms": 3_600_000 }));
    let table = stdout(&run(&["task", "list", "--url", &server.url]));
    for word in ["REF", "QUEUE", "orders", "ship", "scheduled", "in 59 min", "0/5"] {
        assert!(table.contains(word), "{table}");
    }
}

#[test]
fn exit_codes_tell_refused_from_usage() {
    let (server, _data) = Server::on_new_data();
    for (args, code) in [
        (&["task", "get", "t00000000000000000000000000"][..], 1),
        (&["task", "insert", "--queue", "no spaces"], 1),
        (&["task", "insert", "--queue", "q", "--priority", "9"], 1),
        (&["task", "insert", "--queue", "q", "--delay", "5"], 2),
        (&["task", "insert", "--queue", "q", "--delay", "5s", "--at", "2099-01-01T00:00:00Z"], 2),
        (&["task", "reschedule", "t00000000000000000000000000"], 2),
        (&["task", "list", "--state", "asleep"], 2),
    ] {
        let output = server.client(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
        assert!(!stderr(&output).is_empty(), "{args:?}");
    }
}

#[test]
fn a_server_that_is_away_is_said_and_is_exit_code_1() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{free}");
    for args in [&["task", "get", "t00000000000000000000000000"][..], &["queue", "list"]] {
        let output = run(&[args, &["--url", &url]].concat());
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("cannot be reached"), "{}", stderr(&output));
    }
}

/// Who typed a flag knows no field of the interface, and no type of the program.
#[test]
fn what_is_refused_is_told_in_the_words_of_who_typed_it() {
    let (server, _data) = Server::on_new_data();
    server.insert(json!({ "queue": "orders", "key": "order-77", "delay_ms": 3_600_000 }));
    let said = |args: &[&str]| {
        let output = run(&[args, &["--url", &server.url]].concat());
        (output.status.code(), format!("{}{}", stdout(&output), stderr(&output)))
    };
    for (args, code, parts) in [
        (&["task", "insert", "--queue", "q", "--delay", "-5s"][..], 2, &["--delay", "below zero"][..]),
        (
            &["task", "insert", "--queue", "q", "--priority", "9"],
            1,
            &["--priority:", "between 1 and 5, not 9"],
        ),
        (
            &["task", "insert", "--queue", "q", "--max-attempts", "x"],
            2,
            &["--max-attempts", "a whole number"],
        ),
        (&["task", "list", "--state", "ded"], 2, &["did you mean `dead`?"]),
        (&["task", "list", "--queue", "ordres"], 0, &["no queue \"ordres\"", "did you mean --queue orders?"]),
        (&["dead", "list", "--queue", "nosuch"], 0, &["no queue \"nosuch\""]),
        (&["task", "list", "--queue", "orders"], 0, &["scheduled"]),
        (&["task", "get", "order-77"], 0, &["scheduled", "orders"]),
        (&["task", "get", "order-78"], 1, &["\"order-78\" is no reference", "as a key"]),
        (&["task", "get", "77"], 1, &["--task-id 77"]),
        (&["task", "cancel", "order-77"], 1, &["key:order-77"]),
        (&["dead", "redrive"], 1, &["--all", "--queue"]),
        (&["bulk", "cancel"], 1, &["--all", "--queue"]),
    ] {
        let (ended, text) = said(args);
        assert_eq!(ended, Some(code), "{args:?}: {text}");
        for part in parts {
            assert!(text.contains(part), "{args:?} does not say {part:?}: {text}");
        }
        for words in
            ["invalid digit", "unknown variant", "expected struct", "\"all\": true", "/priority", "/delay_ms"]
        {
            assert!(!text.contains(words), "{args:?} says {words:?}: {text}");
        }
    }
}

/// A server whose database is stopped answers late: until then something is said.
#[test]
fn an_insert_that_is_not_answered_says_what_it_waits_for() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let mut insert = punctual(&["task", "insert", "--queue", "q", "--url", &url]);
    let mut child = insert.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let (line, said) = mpsc::channel();
    thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|one| line.send(one)));
    let said = said.recv_timeout(HANG_LIMIT);
    child.kill().unwrap();
    child.wait().unwrap();
    let said = said.expect("it says something while it waits");
    assert!(said.contains(&url) && said.contains("the insert of one task"), "{said}");
}
