//! A short form of `loadtest chaos` on each back end: fixed seeds and a number of faults, so the same faults in the same order on
//! every machine. Only promises are asserted (`--promises-only`), never how soon. Fails when the server has not been built.

#![expect(clippy::indexing_slicing, reason = "a JSON value answers null for what it has not")]

use serde_json::Value;
use std::{os::unix::fs::MetadataExt as _, path::PathBuf, process::Command, sync::Mutex};

/// `PUNCTUAL_BIN`, or what cargo built beside this test.
fn server() -> PathBuf {
    let program = std::env::var_os("PUNCTUAL_BIN").map(PathBuf::from).unwrap_or_else(|| {
        let test = std::env::current_exe().expect("a test has a path");
        let profile = test.parent().and_then(|parent| parent.parent()).expect("target/PROFILE/deps/test");
        profile.join("punctual")
    });
    assert!(program.is_file(), "no server at {}: cargo build -p punctual-cli", program.display());
    program
}

/// The report of a run in which every promise held.
fn kept(arguments: &str) -> Value {
    /// One at a time: each is a stack of its own under load, and recovers beside the others' by the minute.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock();
    let output = Command::new(env!("CARGO_BIN_EXE_loadtest"))
        .args(["chaos", "--minutes", "0.1", "--promises-only", "--rate", "60", "--json"])
        .args(arguments.split_whitespace())
        .arg("--server-bin")
        .arg(server())
        .output()
        .expect("the load test was built with this test");
    let (reported, complaint) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{arguments}: {}\n{reported}\n{complaint}", output.status);
    let report: Value = serde_json::from_str(&reported).expect("--json prints one object");
    assert_eq!(report["ok"], true, "{reported}");
    assert!(report["counts"]["executions"].as_u64() > Some(100), "{reported}");
    if report["store"] == "mysql" {
        let inbox = &report["inbox"];
        assert!(inbox["committed"].as_u64() > Some(20), "{reported}");
        assert_eq!(
            (&inbox["lost"], &inbox["doubled"], &inbox["tasks"]),
            (&0.into(), &0.into(), &inbox["committed"])
        );
    }
    report
}

fn happened(report: &Value) -> Vec<&str> {
    let faults = report["faults"].as_array().into_iter().flatten();
    faults.filter(|fault| fault["impossible"].is_null()).filter_map(|fault| fault["what"].as_str()).collect()
}

#[test]
fn an_embedded_engine_that_is_killed_out_of_disk_and_without_a_log_keeps_every_promise() {
    let report =
        kept("--steps-min 4 --seed 5 --longest 5s --faults disk-full,log-closed,log-stuck,engine-kill");
    assert!(happened(&report).len() >= 2, "{report}");
    // Without the right to mount a small disk, its line says so; root may.
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0);
    let no_disk =
        report["faults"].as_array().into_iter().flatten().any(|fault| !fault["impossible"].is_null());
    assert!(!(is_root && no_disk), "root could not mount a tmpfs (CAP_SYS_ADMIN): {report}");
}

#[test]
fn engines_that_are_killed_and_paused_whose_clocks_step_and_whose_servers_vanish_keep_every_promise() {
    let faults =
        "engine-kill,engine-pause,engine-stop,mysql-vanish,mysql-one-silent,redis-cut,redis-flush,clock";
    let report = kept(&format!("--steps-min 4 --seed 3 --longest 5s --store mysql --faults {faults}"));
    assert!(happened(&report).len() >= 2, "{report}");
}

/// The ways to the servers, each broken in its own manner, for a second.
#[test]
fn engines_whose_ways_are_cut_silent_slow_or_swallow_answers_keep_every_promise() {
    let faults = [
        "redis-one-silent",
        "redis-silent",
        "redis-answers-lost",
        "redis-slow",
        "mysql-cut",
        "mysql-silent",
        "mysql-answers-lost",
        "mysql-slow",
    ];
    let report = kept(&format!(
        "--steps-min 6 --seed 11 --store mysql --engines 2 --longest 1s --faults {}",
        faults.join(",")
    ));
    assert!(happened(&report).len() >= 4, "{report}");
    // Each line has what a fault cost, and how soon it was over.
    assert!(!report["ways"].as_array().expect("a list").is_empty(), "{report}");
}
