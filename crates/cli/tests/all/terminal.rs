//! What a tenant writes never tells an operator's terminal what to do: every command that prints, on both outputs, for people
//! and for programs, over texts with escapes in all places that take a text of their callers.
//!
//! Seen to fail: with what is printed as it came.

use crate::binary::{Server, documents, punctual, stderr, stdout, wait_for};
use serde_json::{Value, json};

/// Clears the screen, sets the clipboard by OSC 52, hides what follows, goes back in the line, the same in C1, and turns the
/// line around.
const HOSTILE: &str =
    "x\u{1b}[2J\u{1b}]52;c;QUFB\u{7}\u{1b}[8my\rz\u{8}\u{9d}0;t\u{9c}\u{85}q\u{202e}r\u{2066}s\nforged line";

/// The same, and nothing has that key.
const HOSTILE_AND_UNKNOWN: &str =
    "y\u{1b}[2J\u{1b}]52;c;QUFB\u{7}\u{1b}[8mz\r\u{9d}0;t\u{9c}\u{202e}r\nforged line";

/// What a terminal acts upon; lines end in the program's own.
fn controls(text: &str) -> Vec<char> {
    let is_turn = |letter: char| matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().filter(|letter| *letter != '\n' && (letter.is_control() || is_turn(*letter))).collect()
}

fn sent(server: &Server, method: &str, path: &str, body: Value) -> Value {
    let (status, answer) = if method == "PUT" { server.put(path, body) } else { server.post(path, body) };
    assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
    answer
}

fn done(server: &Server, args: &[&str]) -> Value {
    let output = server.client(args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    documents(&output).remove(0)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// A dead task, a workflow and a bulk operation, and one of everything else that keeps a text.
fn furnish(server: &Server) -> [String; 3] {
    let labels = json!({ "label": HOSTILE });
    let task = json!({
        "queue": "q", "name": HOSTILE, "key": HOSTILE, "payload": { "a": HOSTILE }, "labels": labels, "max_attempts": 1
    });
    let dead = text(&sent(server, "POST", "/v1/tasks", task)["ref"]);
    let leased = wait_for("the task", || server.lease("q", 1, 60_000).pop());
    let outcome = json!({
        "ref": leased["ref"], "token": leased["token"], "outcome": "failed", "status_msg": HOSTILE,
        "result": { "b": HOSTILE }, "log": [{ "text": HOSTILE }]
    });
    sent(server, "POST", "/v1/outcomes", json!({ "outcomes": [outcome] }));
    let executor = json!({ "executor": "e", "capacity": 4, "leases": [], "labels": labels, "version": "1.0.0", "host": HOSTILE });
    sent(server, "POST", "/v1/heartbeats", executor);
    let known = || (server.get("/v1/executors/e").0 == 200).then_some(());
    wait_for("the executor", known);
    done(server, &["queue", "pause", "q", "--reason", HOSTILE]);
    done(server, &["namespace", "set", "shop", &json!({ "description": HOSTILE }).to_string()]);
    let schedule = json!({
        "cron": "0 9 * * *", "description": HOSTILE, "owner": HOSTILE,
        "task": { "queue": "s", "payload": HOSTILE, "labels": labels }
    });
    sent(server, "PUT", "/v1/schedules/report", schedule);
    done(server, &["schedule", "pause", "report", "--reason", HOSTILE]);
    let workflow = json!({ "name": "w", "input": HOSTILE, "nodes": { "a": { "task": { "queue": "w", "payload": HOSTILE } } } });
    let workflow = text(&sent(server, "POST", "/v1/workflows", workflow)["ref"]);
    let bulk = done(server, &["bulk", "cancel", "--queue", "w", "--reason", HOSTILE]);
    [dead, workflow, bulk["id"].to_string()]
}

/// Each command that prints, and whether it succeeds.
fn commands([dead, workflow, bulk]: &[String; 3]) -> Vec<(Vec<&str>, bool)> {
    let good = [
        vec!["task", "list"],
        vec!["task", "get", dead],
        // By its key.
        vec!["task", "get", HOSTILE],
        vec!["task", "why", dead],
        vec!["task", "list", "--label", "a=b"],
        vec!["dead", "list"],
        vec!["workflow", "list"],
        vec!["workflow", "get", workflow],
        vec!["workflow", "graph", workflow],
        vec!["bulk", "list"],
        vec!["bulk", "get", bulk],
        vec!["executor", "list"],
        vec!["executor", "get", "e"],
        vec!["queue", "list"],
        vec!["queue", "get", "q"],
        vec!["queue", "history", "q"],
        vec!["namespace", "list"],
        vec!["namespace", "get", "shop"],
        vec!["schedule", "list"],
        vec!["schedule", "get", "report"],
        vec!["schedule", "runs", "report"],
        vec!["limit", "get"],
        vec!["engine", "list"],
        vec!["partition", "list"],
        vec!["events"],
        vec!["alert", "list"],
        vec!["top", "--times", "1"],
        vec!["tail", "--lines", "100", "--for", "100ms"],
        vec!["stats"],
        vec!["token", "list"],
        vec!["audit", "list"],
        vec!["log", "get"],
    ];
    let bad = [
        vec!["task", "get", HOSTILE_AND_UNKNOWN],
        vec!["task", "insert", "--queue", HOSTILE],
        vec!["task", "insert", "--queue", "q", "--payload", HOSTILE],
        vec!["queue", "get", HOSTILE],
        vec!["queue", "set", "q", HOSTILE],
        vec!["schedule", "get", HOSTILE],
        vec!["schedule", "create", "bad", "--queue", "q", "--cron", HOSTILE],
        vec!["bulk", "get", HOSTILE],
        vec!["workflow", "get", HOSTILE],
    ];
    good.map(|args| (args, true)).into_iter().chain(bad.map(|args| (args, false))).collect()
}

#[test]
fn no_command_hands_a_terminal_what_a_tenant_has_written() {
    let (server, _data) = Server::on_new_data();
    let made = furnish(&server);
    let mut seen = 0;
    for (args, succeeds) in commands(&made) {
        for form in [&[][..], &["--json"]] {
            let output =
                punctual(&[&args[..], form].concat()).env("PUNCTUAL_URL", &server.url).output().unwrap();
            let (out, err) = (stdout(&output), stderr(&output));
            assert_eq!(output.status.success(), succeeds, "{args:?}: {out}{err}");
            assert_eq!(controls(&format!("{out}{err}")), ['\0'; 0], "{args:?} {form:?}: {out:?} {err:?}");
            let is_forged = |line: &str| line.starts_with("forged line");
            assert!(
                !out.lines().chain(err.lines()).any(is_forged),
                "{args:?}: a line of its own: {out}{err}"
            );
            seen += usize::from(out.contains("forged line") || err.contains("forged line"));
        }
        // Its own colours stay, and no other.
        let coloured = punctual(&[&args[..], &["--color", "always"]].concat());
        let output = { coloured }.env("PUNCTUAL_URL", &server.url).output().unwrap();
        let all = format!("{}{}", stdout(&output), stderr(&output));
        assert!(
            !all.contains("\u{1b}[8m") && !all.contains("\u{1b}[2J") && !all.contains("\u{1b}]"),
            "{args:?}: {all:?}"
        );
    }
    assert!(seen >= 12, "the texts are shown, {seen} times");
}

#[test]
fn json_says_letter_for_letter_what_was_written() {
    let (server, _data) = Server::on_new_data();
    let [dead, ..] = furnish(&server);
    let task = done(&server, &["task", "get", &dead]);
    assert_eq!(
        (&task["payload"]["a"], &task["labels"]["label"], &task["name"]),
        (&json!(HOSTILE), &json!(HOSTILE), &json!(HOSTILE))
    );
}
