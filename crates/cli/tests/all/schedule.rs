//! `schedule …` against a server: each subcommand once, for programs and for people; a schedule runs by itself; what is refused
//! names the field, what it was, and the way out.

use crate::binary::{Server, documents, run, stderr, stdout, wait_for};
use jiff::{Timestamp, civil::Weekday};
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
fn a_schedule_is_made_in_one_command_and_runs_by_itself() {
    let (server, _data) = Server::on_new_data();
    let made = done(&server.client(&["schedule", "create", "beat", "--every", "200ms", "--queue", "beat"]));
    assert_eq!(
        (&made["name"], &made["every_ms"], &made["time_zone"]),
        (&json!("beat"), &json!(200), &json!("UTC"))
    );
    let mut leased = Vec::new();
    wait_for("two runs", || {
        leased.extend(server.lease("beat", 10, 60_000));
        (leased.len() >= 2).then_some(())
    });
    assert_eq!(leased[0]["payload"], Value::Null);
    let runs = done(&server.client(&["schedule", "runs", "beat", "--limit", "1000"]));
    let first = runs["items"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&first["outcome"], &first["kind"], &first["run"]),
        (&json!("created"), &json!("planned"), &json!(1))
    );
    assert!(first["task_ref"].as_str().unwrap().starts_with('t'));
    let gone = done(&server.client(&["schedule", "delete", "beat"]));
    assert!(gone["taken_back"]["cancelled"].as_u64().unwrap() > 10, "a minute was made ahead: {gone}");
    assert_eq!(done(&server.client(&["schedule", "list"]))["items"], json!([]));
}

#[test]
fn a_schedule_is_shown_paused_resumed_run_and_filled_in() {
    let (server, _data) = Server::on_new_data();
    let create = [
        "schedule",
        "create",
        "digest",
        "--cron",
        "0 9 * * MON-FRI",
        "--time-zone",
        "Europe/Berlin",
        "--exclude",
        "2030-12-24/2030-12-26",
        "--overlap",
        "skip",
        "--queue",
        "mail",
        "--kind",
        "digest",
        "--payload",
        r#"{"to": "all"}"#,
        "--owner",
        "ada",
    ];
    let dry = done(&server.client(&[create.as_slice(), &["--dry-run"]].concat()));
    assert_eq!(dry["items"].as_array().unwrap().len(), 10);
    assert_eq!(done(&server.client(&["schedule", "list"]))["items"], json!([]), "nothing was made");
    let made = done(&server.client(&create));
    assert_eq!(
        (&made["overlap"], &made["missed"], &made["owner"]),
        (&json!("skip"), &json!("latest"), &json!("ada"))
    );
    assert_eq!(done(&server.client(&["schedule", "get", "digest"]))["next_run_at"], dry["items"][0]["at"]);
    let next = done(&server.client(&["schedule", "next", "digest", "-n", "3"]));
    assert_eq!(next["items"], json!(&dry["items"].as_array().unwrap()[..3]));
    let paused = done(&server.client(&[
        "schedule",
        "pause",
        "digest",
        "--reason",
        "the printer burns",
        "--by",
        "bob",
    ]));
    assert_eq!((&paused["pause"]["by"], &paused["next_run_at"]), (&json!("bob"), &Value::Null));
    let shown = said(&server, &["schedule", "get", "digest"]);
    for word in ["digest (default)", "0 9 * * MON-FRI (Europe/Berlin)", "by bob", "the printer burns"] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    assert!(said(&server, &["schedule", "list"]).contains("paused"));
    let ran = done(&server.client(&["schedule", "run", "digest"]));
    assert_eq!((&ran["kind"], &ran["outcome"]), (&json!("manual"), &json!("created")));
    let leased = wait_for("the run", || server.lease("mail", 1, 60_000).pop());
    assert_eq!((&leased["ref"], &leased["payload"]), (&ran["task_ref"], &json!({"to": "all"})));
    assert_eq!(done(&server.client(&["schedule", "resume", "digest"]))["pause"], Value::Null);
    let week = ["--from", "2026-01-05T00:00:00Z", "--to", "2026-01-12T00:00:00Z", "--rate", "1000"];
    let filled = done(&server.client(&[&["schedule", "backfill", "digest"], week.as_slice()].concat()));
    assert_eq!(filled["runs"], 5);
    let mut week = 0;
    wait_for("the week", || {
        week += server.lease("mail", 10, 60_000).len();
        (week == 5).then_some(())
    });
    assert!(said(&server, &["schedule", "runs", "digest", "--limit", "2"]).contains("asked for"));
}

#[test]
fn what_is_wrong_with_a_schedule_is_said_with_field_value_and_way_out() {
    let (server, _data) = Server::on_new_data();
    let with = |more: &[&'static str]| [&["schedule", "create", "s", "--queue", "q"], more].concat();
    refused(&server, &with(&["--cron", "0 0 30 2 *"]), &["--cron:", "0 0 30 2 *", "no instant"]);
    refused(&server, &with(&["--cron", "0 0 * *"]), &["--cron:", "4 fields", "5 or 6"]);
    refused(
        &server,
        &with(&["--cron", "@daily", "--time-zone", "Europe/Atlantis"]),
        &["--time-zone:", "Atlantis"],
    );
    refused(&server, &with(&[]), &["--cron", "--every or --at"]);
    refused(&server, &with(&["--every", "1ms"]), &["--every:", "100", "1"]);
    refused(&server, &with(&["--at", "soon"]), &["--at:", "RFC 3339"]);
    refused(&server, &with(&["--cron", "@daily", "--overlap", "sometimes"]), &["overlap", "sometimes"]);
    refused(&server, &with(&["--cron", "@daily", "--if-revision", "7"]), &["no schedule"]);
    refused(&server, &["schedule", "get", "nothing"], &["schedule"]);
}

#[test]
fn a_crontab_becomes_schedules() {
    let (server, data) = Server::on_new_data();
    let file = data.path().join("crontab");
    let text =
        "# mine\nMAILTO=ada\nCRON_TZ=Europe/Berlin\n*/5 * * * * /bin/poll --all\n@daily /bin/report %in\n";
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let import = ["schedule", "import", "crontab", file, "--queue", "cron"];
    assert!(
        said(&server, &[import.as_slice(), &["--dry-run"]].concat()).contains("2 schedules would be made")
    );
    assert_eq!(done(&server.client(&import))["made"], 2);
    let made = done(&server.client(&["schedule", "get", "crontab-004"]));
    assert_eq!((&made["cron"], &made["time_zone"]), (&json!(["*/5 * * * *"]), &json!("Europe/Berlin")));
    assert_eq!(made["task"]["payload"], json!({"command": "/bin/poll --all", "env": {"MAILTO": "ada"}}));
    assert_eq!(done(&server.client(&["schedule", "get", "crontab-005"]))["description"], "/bin/report");
    let bad = data.path().join("bad");
    std::fs::write(&bad, "1 2 3\n0 9 * * * run\n0 61 * * * run\n").unwrap();
    let import = ["schedule", "import", "crontab", bad.to_str().unwrap(), "-q", "cron", "--prefix", "bad-"];
    refused(&server, &import, &["line 1", "1 2 3", "line 3", "0 61 * * *", "nothing was imported"]);
    refused(&server, &["schedule", "get", "bad-002"], &["schedule"]);
}

/// Days that begin with a star, input, zones and lines that have no instant, as Debian's cron has them.
#[test]
fn a_crontab_means_what_cron_makes_of_it() {
    let (server, data) = Server::on_new_data();
    let file = data.path().join("crontab");
    let text =
        "\u{feff}TZ=\"Asia/Tokyo\"\n@reboot start\n0 0 */2 * MON cat%one%two \\% 3\n0 0 1 * 5 either\n";
    std::fs::write(&file, text).unwrap();
    let import = ["schedule", "import", "crontab", file.to_str().unwrap(), "--queue", "cron"];
    let made = done(&server.client(&import));
    assert_eq!(made["made"], 2);
    let lines: Vec<_> = made["warnings"].as_array().unwrap().iter().map(|line| &line["line"]).collect();
    assert_eq!(lines, [1, 2]);
    let odd_mondays = done(&server.client(&["schedule", "get", "crontab-003"]));
    let payload = json!({"command": "cat", "env": {"TZ": "Asia/Tokyo"}, "input": "one\ntwo % 3\n"});
    assert_eq!(
        (&odd_mondays["time_zone"], &odd_mondays["task"]["payload"]),
        (&json!("Asia/Tokyo"), &payload)
    );
    let next = done(&server.client(&["schedule", "next", "crontab-003", "-n", "12"]));
    for run in next["items"].as_array().unwrap() {
        let at = run["at_ms"].as_i64().unwrap();
        let local = Timestamp::from_millisecond(at).unwrap().in_tz("Asia/Tokyo").unwrap();
        assert_eq!((local.weekday(), local.day() % 2), (Weekday::Monday, 1), "{local}");
    }
}
