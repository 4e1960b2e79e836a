//! `queue …`, `executor …`, `dead …` and `task why` against a server: each subcommand once, for programs and for people; what
//! is refused names the field, what it was, and the way out.

use crate::binary::{Server, blocking, documents, http, run, stderr, stdout, wait_for};
use serde_json::{Value, json};

fn done(output: &std::process::Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    documents(output).remove(0)
}

/// What it says to people.
fn said(server: &Server, args: &[&str]) -> String {
    let output = run(&[args, &["--url", &server.url]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

#[track_caller]
fn refused(server: &Server, args: &[&str], words: &[&str]) {
    let output = run(&[args, &["--url", &server.url]].concat());
    assert!(!output.status.success(), "{args:?}: {}", stdout(&output));
    let text = stderr(&output);
    for word in words {
        assert!(text.contains(word), "{args:?} does not say {word:?}: {text}");
    }
}

#[test]
fn a_queue_is_set_shown_paused_resumed_and_its_history_read() {
    let (server, _data) = Server::on_new_data();
    let set = done(&server.client(&["queue", "set", "mail", r#"{"concurrency": 3, "max_waiting": 9}"#]));
    assert_eq!((&set["concurrency"], &set["revision"]), (&json!(3), &json!(1)));
    assert_eq!(done(&server.client(&["queue", "get", "mail"])), set);
    assert_eq!(done(&server.client(&["queue", "list"]))["items"][0]["queue"], "mail");
    let pause = ["queue", "pause", "mail", "--reason", "the printer burns", "--by", "ada"];
    let paused = done(&server.client(&pause));
    assert_eq!((&paused["pause"]["by"], &paused["concurrency"]), (&json!("ada"), &json!(3)));
    let shown = said(&server, &["queue", "get", "mail"]);
    for word in ["mail (default)", "by ada", "the printer burns", "concurrency  3", "max_waiting  9"] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    assert!(said(&server, &["queue", "list"]).contains("paused"));

    let task = server.insert(json!({"queue": "mail"}));
    let reference = task["ref"].as_str().unwrap();
    let why = wait_for("the pause", || {
        let why = done(&server.client(&["task", "why", reference]));
        (why["blocking"] == "pause").then_some(why)
    });
    assert_eq!(why["owner"], "ada");
    let why = said(&server, &["task", "why", reference]);
    for word in
        ["the printer burns", "blocked by", "pause", "with", "ada", "next", "an operator resumes the queue"]
    {
        assert!(why.contains(word), "{word}: {why}");
    }

    assert_eq!(done(&server.client(&["queue", "resume", "mail"]))["pause"], Value::Null);
    let history = done(&server.client(&["queue", "history", "mail"]));
    assert_eq!(history["items"].as_array().unwrap().len(), 3, "{history}");
    assert!(said(&server, &["queue", "history", "mail", "--limit", "1"]).contains("concurrency"));
}

#[test]
fn a_setting_that_is_named_is_set_and_the_others_stay() {
    let (server, _data) = Server::on_new_data();
    done(&server.client(&["queue", "set", "mail", r#"{"concurrency": 3, "max_waiting": 9}"#]));
    let set = done(&server.client(&["queue", "set", "mail", "concurrency=10", "timeout_ms=5m", "mode=pull"]));
    assert_eq!((&set["concurrency"], &set["max_waiting"]), (&json!(10), &json!(9)));
    assert_eq!((&set["timeout_ms"], &set["mode"]), (&json!(300_000), &json!("pull")));
    let less = done(&server.client(&["queue", "set", "mail", "max_waiting=", "--if-revision", "2"]));
    assert_eq!((&less["max_waiting"], &less["concurrency"]), (&Value::Null, &json!(10)));
    refused(&server, &["queue", "set", "mail", "concurrency"], &["name=value", "concurrency=10"]);
    refused(&server, &["queue", "set", "mail", "concurency=1"], &["concurency"]);
    refused(&server, &["queue", "set", "mail", "weight=2", "--if-revision", "1"], &["ETag"]);
}

#[test]
fn a_task_is_made_found_and_refused_by_its_key() {
    let (server, _data) = Server::on_new_data();
    let insert = ["task", "insert", "-q", "q", "--delay", "1h", "--key", "order/7 é", "--name", "Ada's"];
    let made = done(&server.client(&insert));
    assert_eq!((&made["key"], &made["name"]), (&json!("order/7 é"), &json!("Ada's")));
    let found = done(&server.client(&["task", "get", "key:order/7 é"]));
    assert_eq!(found["ref"], made["ref"]);
    refused(&server, &[&insert[..], &["--on-conflict", "fail"]].concat(), &["task.exists"]);
    let kept = done(&server.client(&[&insert[..], &["--on-conflict", "keep"]].concat()));
    assert_eq!((&kept["outcome"], &kept["ref"]), (&json!("existing"), &made["ref"]));
    refused(&server, &["dead", "redrive"], &["all"]);
}

#[test]
fn what_is_wrong_with_a_queue_is_said_with_field_value_and_way_out() {
    let (server, _data) = Server::on_new_data();
    refused(
        &server,
        &["queue", "set", "mail", r#"{"concurrency": 0}"#],
        &["concurrency", "not 0", "leave it out"],
    );
    refused(&server, &["queue", "set", "mail", r#"{"concurency": 1}"#], &["concurency", "concurrency"]);
    refused(&server, &["queue", "set", "mail", "{"], &["line 1"]);
    refused(&server, &["queue", "set", "ma il", "{}"], &["queue", "ma il"]);
    refused(&server, &["queue", "set", "mail", "{}", "--if-revision", "7"], &["ETag", "\"0\" now"]);
    refused(&server, &["queue", "get", "nowhere"], &["nowhere"]);
    refused(&server, &["queue", "history", "mail", "--limit", "0"], &["--limit", "0"]);
}

#[test]
fn an_executor_is_listed_shown_made_quiet_drained_and_taken_back() {
    let (server, _data) = Server::on_new_data();
    let task = server.insert(json!({"queue": "q", "kind": "k"}));
    let leased = wait_for("the task", || server.lease("q", 1, 60_000).pop());
    let lease = json!({"ref": leased["ref"], "token": leased["token"]});
    let beat = json!({"executor": "test", "queues": ["q"], "kinds": ["k"], "version": "2.1", "capacity": 4, "leases": [lease]});
    assert_eq!(server.post("/v1/heartbeats", beat).0, 200);
    let shown = wait_for("the executor", || {
        let shown = server.client(&["executor", "get", "test"]);
        let shown = shown.status.success().then(|| done(&shown))?;
        (shown["running"] == 1).then_some(shown)
    });
    assert_eq!(shown["leases"][0]["ref"], task["ref"], "{shown}");
    assert_eq!(done(&server.client(&["executor", "list"]))["items"][0]["name"], "test");
    let table = said(&server, &["executor", "list", "--limit", "1"]);
    for word in ["NAME", "test", "alive", "2.1", "1 of 4"] {
        assert!(table.contains(word), "{word}: {table}");
    }
    let one = said(&server, &["executor", "get", "test"]);
    assert!(one.contains("test is alive") && one.contains(task["ref"].as_str().unwrap()), "{one}");
    for (verb, state) in [("quiet", "quiet"), ("drain", "draining"), ("resume", "alive")] {
        assert_eq!(done(&server.client(&["executor", verb, "test"]))["state"], state);
    }
    for verb in ["get", "quiet", "drain", "resume"] {
        refused(&server, &["executor", verb, "nobody"], &["nobody"]);
    }
    refused(&server, &["executor", "list", "--limit", "0"], &["--limit", "0"]);

    let why = said(&server, &["task", "why", task["ref"].as_str().unwrap()]);
    assert!(why.contains("is with \"test\"") && why.contains("expected"), "{why}");
}

#[test]
fn dead_letters_are_searched_shown_counted_and_redriven() {
    let (server, _data) = Server::on_new_data();
    let tasks: Vec<Value> = (0..3).map(|_| server.insert(json!({"queue": "q", "kind": "k"}))).collect();
    let mut leased = Vec::new();
    while leased.len() < 3 {
        leased.extend(server.lease("q", 3, 60_000));
    }
    for task in &leased {
        let outcome = json!({"ref": task["ref"], "token": task["token"], "outcome": "reject", "status_msg": "no such street"});
        assert_eq!(server.post("/v1/outcomes", json!({"outcomes": [outcome]})).0, 200);
    }
    let found = done(&server.client(&["dead", "list", "-q", "q", "--error", "street", "--since", "0"]));
    assert_eq!(found["items"].as_array().unwrap().len(), 3, "{found}");
    assert_eq!(done(&server.client(&["dead", "list", "--error", "bridge"]))["items"], json!([]));
    let table = said(&server, &["dead", "list", "--limit", "1"]);
    assert!(table.contains("no such street") && table.contains("REF"), "{table}");
    let reference = tasks[0]["ref"].as_str().unwrap();
    assert_eq!(done(&server.client(&["dead", "show", reference]))["state"], "dead");
    let why = said(&server, &["task", "why", reference]);
    for word in ["dead after 1 of 5 attempts", "no such street", "redrive"] {
        assert!(why.contains(word), "{word}: {why}");
    }

    let counted = said(&server, &["dead", "redrive", "-q", "q", "--dry-run"]);
    assert!(counted.contains("would redrive 3"), "{counted}");
    let done_two = done(&server.client(&["dead", "redrive", "-q", "q", "--limit", "2"]));
    assert_eq!(done_two["tasks"], 2, "{done_two}");
    assert!(said(&server, &["dead", "redrive", "--all", "--limit", "1"]).contains("redriven 1"));
    assert_eq!(done(&server.client(&["dead", "list"]))["items"], json!([]));

    refused(&server, &["dead", "redrive", "--all", "--rate", "0"], &["--rate", "0"]);
    refused(&server, &["dead", "redrive"], &["--queue", "--all"]);
    refused(&server, &["dead", "list", "--label", "x"], &["label", "must be key=value, not \"x\""]);
    refused(&server, &["dead", "list", "--since", "yesterday"], &["--since", "yesterday"]);
    refused(&server, &["dead", "show", "t1"], &["t1"]);
}

#[test]
fn a_place_of_long_payloads_is_refused_to_a_second_store() {
    let (first, second, place) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let set = format!("payloads.url=file://{}", place.path().display());
    let _server = Server::start_with(first.path(), &["--set", &set]);
    let args = ["serve", "--listen", "127.0.0.1:0", "--set", &set, "--data", second.path().to_str().unwrap()];
    let output = run(&args);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    for word in
        ["payloads.url", &place.path().display().to_string(), "it has those of store", "a place of its own"]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn what_is_logged_is_changed_while_it_runs_and_audited() {
    let (mut server, _data) = Server::on_new_data();
    assert_eq!(done(&server.client(&["log", "get"]))["filter"], "info");
    refused(&server, &["log", "set", "=what,"], &["/filter", "is no filter"]);
    let set = done(&server.client(&["log", "set", "info,punctual_server=trace", "--for", "1h"]));
    assert_eq!((&set["started_with"], set["until_ms"].is_i64()), (&json!("info"), true), "{set}");
    assert_eq!(done(&server.client(&["log", "get"])), set);
    let for_a_moment = json!({ "filter": "error", "for_ms": 1 });
    let url = format!("{}/v1/log-filter", server.url);
    let status = blocking(async move { http().put(url).json(&for_a_moment).send().await.unwrap().status() });
    assert_eq!(status.as_u16(), 200);
    wait_for("what it was started with", || {
        (done(&server.client(&["log", "get"]))["filter"] == "info").then_some(())
    });
    let off = done(&server.client(&["log", "set", "off"]));
    assert_eq!(off["until_ms"], Value::Null);
    let audit = done(&server.client(&["audit", "list", "--action", "put_log_filter"]));
    let changes: Vec<String> =
        audit["items"].as_array().unwrap().iter().map(|entry| entry["after"].to_string()).collect();
    assert_eq!(changes.len(), 4, "{audit}");
    assert!(changes[0].contains("off"), "{audit}");
    server.process.signal("-TERM");
    let (ended, said) = server.process.ended_saying();
    assert!(ended.success());
    assert!(said.contains("what is logged was changed"), "{said}");
    assert!(!said.contains("stopped"), "nothing is logged at its end: {said}");
}
