//! Answers for people: tables that fit 80 columns and keep a reference in one piece, times in a zone and relative, durations in
//! words, colours on a terminal alone. Answers for programs have none of it.
//!
//! Seen to fail: without the columns that stay in one piece; with every time in UTC.

use crate::binary::{
    Running, Server, address, blocking, documents, punctual, run, servers, stderr, stdout, wait_for,
};
use serde_json::{Value, json};
use std::process::{Command, Output};

const QUEUE: &str = "a-queue-with-quite-a-long-name-of-forty-eight-chars";
const REASON: &str =
    "the provider of the mails has told us in a long letter that it is down until Tuesday next week";

fn done(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    documents(output).remove(0)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// As a terminal of this width would have it.
fn on_screen(server: &Server, width: &str, args: &[&str]) -> String {
    let mut command = punctual(args);
    command.env("PUNCTUAL_URL", &server.url).env("COLUMNS", width).env("TZ", "Asia/Kathmandu");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    stdout(&output)
}

/// Something of everything that is listed, with long names. What is in it must be whole in the lists.
fn furnish(server: &Server) -> [String; 3] {
    let waiting =
        server.insert(json!({ "queue": QUEUE, "kind": "a-kind-with-a-long-name", "delay_ms": 3_600_000 }));
    let dies =
        server.insert(json!({ "queue": "dies", "kind": "a-kind-with-a-long-name", "max_attempts": 1 }));
    let leased = wait_for("the task", || server.lease("dies", 1, 60_000).pop());
    let outcome =
        json!({ "ref": leased["ref"], "token": leased["token"], "outcome": "failed", "status_msg": REASON });
    let (status, answer) = server.post("/v1/outcomes", json!({ "outcomes": [outcome] }));
    assert_eq!(status, 200, "{answer}");
    let executor = json!({ "executor": "an-executor-4711-a1b2", "capacity": 4, "leases": [] });
    assert_eq!(server.post("/v1/heartbeats", executor).0, 200);
    let known = || (server.get("/v1/executors/an-executor-4711-a1b2").0 == 200).then_some(());
    wait_for("the executor", known);
    done(&server.client(&["queue", "pause", QUEUE, "--reason", REASON]));
    done(&server.client(&[
        "namespace",
        "set",
        "a-namespace-of-some-length",
        "max_waiting=1000000",
        "description=long",
    ]));
    let schedule =
        ["schedule", "create", "a-schedule-with-a-name-of-some-length", "--cron", "0 9 * * MON-FRI"];
    done(&server.client(
        &[&schedule[..], &["--time-zone", "America/Argentina/Buenos_Aires", "--queue", QUEUE]].concat(),
    ));
    done(&server.client(&["schedule", "run", "a-schedule-with-a-name-of-some-length"]));
    let workflow = json!({ "name": "a-workflow-with-a-long-name", "nodes": {
        "a-node-with-a-name": { "task": { "queue": "w" } }, "b": { "task": { "queue": "w" }, "after": ["a-node-with-a-name"] }
    }});
    let (status, begun) = server.post("/v1/workflows", workflow);
    assert_eq!(status, 201, "{begun}");
    done(&server.client(&["bulk", "cancel", "--queue", QUEUE, "--reason", REASON]));
    [text(&waiting["ref"]), text(&dies["ref"]), text(&begun["ref"])]
}

fn tables([waiting, dead, workflow]: &[String; 3]) -> Vec<(Vec<&str>, Option<&str>)> {
    vec![
        (vec!["task", "list"], Some(waiting)),
        (vec!["dead", "list"], Some(dead)),
        (vec!["workflow", "list"], Some(workflow)),
        (vec!["workflow", "get", workflow], None),
        (vec!["bulk", "list"], None),
        (vec!["executor", "list"], Some("an-executor-4711-a1b2")),
        (vec!["executor", "get", "an-executor-4711-a1b2"], None),
        (vec!["queue", "list"], None),
        (vec!["queue", "history", QUEUE], None),
        (vec!["namespace", "list"], None),
        (vec!["schedule", "list"], None),
        (vec!["schedule", "runs", "a-schedule-with-a-name-of-some-length"], None),
        (vec!["engine", "list"], None),
        (vec!["partition", "list"], None),
        (vec!["events"], None),
        (vec!["alert", "list"], None),
        (vec!["top", "--times", "1"], None),
        (vec!["token", "list"], None),
        (vec!["audit", "list"], None),
        (vec!["stats", "--steps"], None),
        (vec!["config"], None),
        (vec!["shard", "plan", "--per-day", "200000000"], None),
    ]
}

#[test]
fn every_table_fits_80_columns_and_keeps_references_in_one_piece() {
    let (server, _data) = Server::on_new_data();
    let made = furnish(&server);
    for (args, reference) in tables(&made) {
        let shown = on_screen(&server, "80", &args);
        for line in shown.lines() {
            assert!(line.chars().count() <= 80, "{args:?}: {line:?} of\n{shown}");
        }
        assert!(
            reference.is_none_or(|reference| shown.contains(reference)),
            "{args:?} breaks {reference:?}:\n{shown}"
        );
        // What goes to a program of lines is not cut, however long it is.
        let piped =
            stdout(&run(
                &[&args[..], &["--url", &server.url][..if needs_no_server(&args) { 0 } else { 2 }]].concat()
            ));
        assert!(piped.lines().count() <= shown.lines().count(), "{args:?}: {piped}");
    }
    for made in &made[..2] {
        let why = on_screen(&server, "80", &["task", "why", made]);
        // The first line is a sentence.
        assert!(
            why.lines().skip(1).all(|line| line.chars().count() <= 80) && why.lines().count() > 2,
            "{why}"
        );
    }
    let history = on_screen(&server, "80", &["task", "get", &made[1]]);
    let (_, table) = history.split_once("AT  ").unwrap();
    assert!(table.lines().all(|line| line.chars().count() <= 80) && table.contains("+05:45"), "{history}");
}

fn needs_no_server(args: &[&str]) -> bool {
    matches!(args[0], "config" | "shard")
}

#[test]
fn tables_of_databases_fit_80_columns() {
    let (mariadb, redis) = blocking(servers());
    let urls = blocking(async { [mariadb.fresh_database().await, mariadb.fresh_database().await] }).join(",");
    let mut serve =
        punctual(&["serve", "--listen", "127.0.0.1:0", "--json", "--store-url", &urls, "--hot-url"]);
    let mut process = Running::start(serve.arg(redis.url()));
    let url = address(&process.first_line());
    let server = Server { process, url };
    let refs = furnish(&server);
    for args in [&["shard", "list"][..], &["shard", "check"], &["shard", "repair", "--dry-run"], &["doctor"]]
    {
        let mut command = punctual(args);
        command.env("PUNCTUAL_STORE_URL", &urls).env("PUNCTUAL_HOT_URL", redis.url()).env("COLUMNS", "80");
        let output = command.output().unwrap();
        let (shown, is_doctor) = (stdout(&output), args == ["doctor"]);
        assert!(output.status.success() || is_doctor, "{args:?}: {}", stderr(&output));
        // The ways out are sentences.
        let table = if is_doctor { shown.split("\n\n").next().unwrap() } else { &shown };
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{args:?}:\n{shown}");
    }
    let engines = on_screen(&server, "80", &["engine", "list"]);
    assert!(engines.lines().all(|line| line.chars().count() <= 80), "{engines}");
    assert!(on_screen(&server, "80", &["task", "list"]).contains(&refs[0]));
}

/// What was said, with what moves on left out: `(in 3 h 2 min)` as `(…)`.
fn still(shown: &str) -> String {
    let mut parts = shown.split('(');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (inside, rest) = part.split_once(')').unwrap_or(("", part));
        let moves_on = inside.starts_with("in ") || inside.ends_with(" ago");
        out += &if moves_on { format!("(…){rest}") } else { format!("({inside}){rest}") };
    }
    out
}

#[test]
fn times_are_told_in_the_zone_of_the_machine_and_relative_and_read_in_it() {
    let (server, _data) = Server::on_new_data();
    let on = |zone: &str, args: &[&str]| {
        let mut command = punctual(&[args, &["--url", &server.url]].concat());
        let output = command.env("TZ", zone).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        still(&stdout(&output))
    };
    let insert = ["task", "insert", "--queue", "q", "--task-id", "7", "--json", "--at"];
    let task = on("Europe/Berlin", &[&insert[..], &["2036-11-24 09:00"]].concat());
    let task: Value = serde_json::from_str(&task).unwrap();
    assert_eq!(task["execute_at"], "2036-11-24T08:00:00.000Z");
    let reference = text(&task["ref"]);
    let due = |zone: &str, more: &[&str]| {
        let shown = on(zone, &[&["task", "get", &reference], more].concat());
        shown.lines().find(|line| line.starts_with("  due")).unwrap().to_owned()
    };
    assert_eq!(due("Europe/Berlin", &[]), "  due       2036-11-24 09:00:00 +01:00 (…)");
    assert_eq!(due("America/New_York", &[]), "  due       2036-11-24 03:00:00 -05:00 (…)");
    assert_eq!(due("America/New_York", &["--utc"]), "  due       2036-11-24 08:00:00 +00:00 (…)");
    let whole = on("America/New_York", &["task", "get", &reference, "--json"]);
    assert!(whole.contains("\"execute_at\":\"2036-11-24T08:00:00.000Z\""), "{whole}");
    // A search by a time of the zone, and by how far ahead.
    let found =
        |zone: &str, bound: &str| on(zone, &["task", "list", "--due-after", bound]).contains(&reference);
    assert!(found("Europe/Berlin", "2036-11-24 09:00") && !found("America/New_York", "2036-11-24 09:00"));
    assert!(found("UTC", "1h30m") && !found("UTC", "9999d"));
    let events = |since: &str| on("UTC", &["events", "--since", since]).contains("engine_started");
    assert!(events("1h") && !events("in 1h"));
    for (at, part) in [("2036-03-30 02:30", "clocks change"), ("tomorrow", "RFC 3339")] {
        let mut command = punctual(&["task", "insert", "--queue", "q", "--url", &server.url, "--at", at]);
        let output = command.env("TZ", "Europe/Berlin").output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
}

#[test]
fn durations_are_read_as_people_write_them_and_told_in_words() {
    let (server, _data) = Server::on_new_data();
    let queue = done(&server.client(&[
        "queue",
        "set",
        "mail",
        "timeout_ms=1h30m",
        "rate={\"limit\":5,\"period_ms\":\"2s\",\"burst\":5}",
    ]));
    assert_eq!((&queue["timeout_ms"], &queue["rate"]["period_ms"]), (&json!(5_400_000), &json!(2_000)));
    let shown = on_screen(&server, "80", &["queue", "get", "mail"]);
    assert!(shown.contains("timeout_ms") && shown.contains("1 h 30 min") && shown.contains("2 s"), "{shown}");
    let whole = done(&server.client(&["queue", "set", "mail", "{\"timeout_ms\": \"5m\"}"]));
    assert_eq!((&whole["timeout_ms"], whole.get("rate")), (&json!(300_000), None));
    let retry = ["--retry", "{\"strategy\":\"list\",\"delays_ms\":[\"1m\",\"1h30m\"]}", "--delay", "2d12h"];
    let task = done(
        &server.client(&[&["task", "insert", "--queue", "mail", "--timeout", "1m30s"], &retry[..]].concat()),
    );
    assert_eq!(task["retry"]["delays_ms"], json!([60_000, 5_400_000]));
    assert_eq!(task["timeout_ms"], 90_000);

    // Limits of everything, and of a namespace: what is not named stays.
    let limits = done(&server.client(&["limit", "set", "concurrency=1000", "max_waiting=5000"]));
    assert_eq!((&limits["concurrency"], &limits["max_waiting"]), (&json!(1_000), &json!(5_000)));
    let limits = done(&server.client(&[
        "limit",
        "set",
        "concurrency=",
        "rate={\"limit\":9,\"period_ms\":\"1m\",\"burst\":9}",
    ]));
    assert_eq!((limits.get("concurrency"), &limits["max_waiting"]), (None, &json!(5_000)));
    assert!(on_screen(&server, "80", &["limit", "get"]).contains("1 min"));
    let stale = run(&["limit", "set", "{}", "--if-revision", "1", "--url", &server.url]);
    assert!(!stale.status.success() && stderr(&stale).contains("ETag"), "{}", stderr(&stale));
    done(&server.client(&["namespace", "set", "shop", "{\"max_waiting\": 9}"]));
    let shop = done(&server.client(&["namespace", "set", "shop", "concurrency=3"]));
    assert_eq!((&shop["max_waiting"], &shop["concurrency"]), (&json!(9), &json!(3)));
}

const ESCAPE: char = '\u{1b}';

/// On a terminal, as `script` makes one.
fn on_terminal(server: &Server, more: &[(&str, &str)]) -> String {
    let line = format!("{} dead list --url {}", env!("CARGO_BIN_EXE_punctual"), server.url);
    let mut script = Command::new("script");
    script
        .args(["-qec", &line, "/dev/null"])
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .env_remove("COLUMNS");
    script.env("XDG_CONFIG_HOME", "/dev/null/none");
    let output = script.envs(more.iter().copied()).stdin(std::process::Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    stdout(&output)
}

#[test]
fn colours_are_for_terminals_and_for_who_asks() {
    let (server, _data) = Server::on_new_data();
    furnish(&server);
    let said = |args: &[&str]| stdout(&run(&[&["task", "list", "--url", &server.url], args].concat()));
    assert!(!said(&[]).contains(ESCAPE), "no terminal");
    assert!(
        said(&["--color", "always"]).contains(&format!("{ESCAPE}[38;5;1mdead")),
        "{:?}",
        said(&["--color", "always"])
    );
    assert!(!said(&["--color", "always", "--json"]).contains(ESCAPE));
    assert!(!said(&["--color", "never"]).contains(ESCAPE));
    assert!(on_terminal(&server, &[]).contains(ESCAPE));
    for plain in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        assert!(!on_terminal(&server, &[plain]).contains(ESCAPE), "{plain:?}");
    }
}
