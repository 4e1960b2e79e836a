//! `task insert --file`.

use crate::binary::{Running, Server, documents, punctual, run, stderr, stdout, wait_for};
use serde_json::{Value, json};
use std::{
    fmt::Write as _,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

fn file(directory: &Path, text: &str) -> PathBuf {
    let path = directory.join("tasks.ndjson");
    std::fs::write(&path, text).unwrap();
    path
}

fn summary(output: &Output) -> Value {
    documents(output).pop().unwrap()["summary"].clone()
}

#[test]
fn bad_lines_are_reported_by_number_and_the_good_ones_are_not_lost() {
    let (server, data) = Server::on_new_data();
    let text = concat!(
        "{\"queue\":\"q\",\"task_id\":1,\"delay_ms\":3600000}\n",
        "\n",
        "this is not JSON\n",
        "{\"queue\":\"q\",\"task_id\":2,\"delay_ms\":3600000,\"colour\":\"red\"}\n",
        "{\"queue\":\"q\",\"task_id\":3,\"task_version\":5,\"delay_ms\":3600000}\n",
        "{\"queue\":\"q\",\"task_id\":3,\"task_version\":4,\"delay_ms\":3600000}\n",
        "{\"queue\":\"q\",\"task_id\":4,\"delay_ms\":3600000}",
    );
    let path = file(data.path(), text);
    let rejects = data.path().join("rejected.ndjson");
    let output = run(&[
        "task",
        "insert",
        "--url",
        &server.url,
        "--file",
        path.to_str().unwrap(),
        "--rejects",
        rejects.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    for (line, word) in [(3, "JSON"), (4, "colour"), (6, "superseded")] {
        let of_line = said.lines().find(|candidate| candidate.starts_with(&format!("line {line}:")));
        assert!(of_line.is_some_and(|text| text.contains(word)), "line {line}: {said}");
    }
    assert_eq!(said.lines().filter(|line| line.starts_with("line ")).count(), 3, "{said}");
    assert!(stdout(&output).contains("3 inserted, 3 refused"), "{}", stdout(&output));
    let kept: Vec<_> = std::fs::read_to_string(rejects).unwrap().lines().map(str::to_owned).collect();
    let bad: Vec<_> =
        text.lines().enumerate().filter(|(i, _)| [2, 3, 5].contains(i)).map(|(_, line)| line).collect();
    assert_eq!(kept.len(), 3);
    assert!(bad.iter().all(|text| kept.iter().any(|kept| kept == text)), "{kept:?}");
    assert_eq!(server.get("/v1/tasks?queue=q").1["items"].as_array().unwrap().len(), 3);
}

#[test]
fn a_large_file_is_loaded_whole_and_loading_it_again_changes_nothing() {
    const TASKS: usize = 20_000;
    let (server, data) = Server::on_new_data();
    let mut text = String::new();
    for id in 1..=TASKS {
        writeln!(
            text,
            "{{\"queue\":\"q\",\"task_id\":{id},\"delay_ms\":86400000,\"payload\":{{\"n\":{id}}}}}"
        )
        .unwrap();
    }
    let path = file(data.path(), &text);
    let load = || server.client(&["task", "insert", "--batch", "700", "--file", path.to_str().unwrap()]);
    let first = load();
    assert!(first.status.success(), "{}", stderr(&first));
    assert_eq!(summary(&first)["inserted"], TASKS);
    let running = || server.get("/v1/queues").1["items"][0]["tasks"]["scheduled"].clone();
    assert_eq!(running(), TASKS);
    let again = summary(&load());
    assert_eq!(again["lines"], TASKS);
    assert_eq!(again["refused"], 0);
    assert_eq!(running(), TASKS);
}

#[test]
fn a_slow_pipe_does_not_hold_its_lines_back() {
    let (server, _data) = Server::on_new_data();
    let mut command = punctual(&["task", "insert", "--file", "-", "--url", &server.url, "--json"]);
    let mut loading =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = loading.stdin.take().unwrap();
    pipe.write_all(b"{\"queue\":\"q\",\"delay_ms\":3600000}\n").unwrap();
    // The pipe stays open: the line must not wait for more of them.
    wait_for("the task", || server.get("/v1/tasks?queue=q").1["items"].as_array().unwrap().first().cloned());
    drop(pipe);
    let output = loading.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(summary(&output)["inserted"], 1);
}

#[test]
fn a_load_that_is_interrupted_says_from_where_to_go_on() {
    let (server, _data) = Server::on_new_data();
    let mut command = punctual(&["task", "insert", "--file", "-", "--url", &server.url, "--json"]);
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut loading =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log.reopen().unwrap()).spawn().unwrap();
    let mut pipe = loading.stdin.take().unwrap();
    pipe.write_all(b"{\"queue\":\"q\",\"delay_ms\":3600000}\n").unwrap();
    wait_for("the task", || server.get("/v1/tasks?queue=q").1["items"].as_array().unwrap().first().cloned());
    let pid = loading.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let output = loading.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(summary(&output)["stopped"], json!({ "reason": "interrupted", "answered_lines": 1 }));
    assert!(std::fs::read_to_string(log.path()).unwrap().contains("--skip 1"));
    drop(pipe);
}

#[test]
fn a_load_outlasts_a_server_that_is_killed_and_started_again() {
    const TASKS: usize = 5_000;
    let (mut server, data) = Server::on_new_data();
    let address = server.url.trim_start_matches("http://").to_owned();
    let mut command =
        punctual(&["task", "insert", "--file", "-", "--batch", "100", "--url", &server.url, "--json"]);
    let mut loading =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = loading.stdin.take().unwrap();
    let mut feed = |ids: std::ops::RangeInclusive<usize>| {
        for id in ids {
            writeln!(pipe, "{{\"queue\":\"q\",\"task_id\":{id},\"delay_ms\":86400000}}").unwrap();
        }
    };
    feed(1..=TASKS / 2);
    wait_for("the first tasks", || {
        server.get("/v1/tasks?queue=q").1["items"].as_array().unwrap().first().cloned()
    });
    server.process.signal("-KILL");
    server.process.ended();
    let args = ["serve", "--json", "--listen", &address, "--data", data.path().to_str().unwrap()];
    server.process = Running::start(&mut punctual(&args));
    server.process.first_line();
    feed(TASKS / 2 + 1..=TASKS);
    drop(pipe);
    let output = loading.wait_with_output().unwrap();
    assert!(output.status.success(), "{} {}", stdout(&output), stderr(&output));
    assert_eq!(server.get("/v1/queues").1["items"][0]["tasks"]["scheduled"], TASKS);
}
