//! Tiny runs of each scenario against the real server, both as binaries, over HTTP. Fails when the server has not been
//! built: a check that skips itself is none.

#![expect(clippy::indexing_slicing, reason = "a JSON value answers null for what it has not")]

use serde_json::Value;
use std::{path::PathBuf, process::Command};

/// `PUNCTUAL_BIN`, or what cargo built beside this test.
fn server() -> PathBuf {
    let program = std::env::var_os("PUNCTUAL_BIN").map(PathBuf::from).unwrap_or_else(|| {
        let test = std::env::current_exe().expect("a test has a path");
        let profile = test.parent().and_then(|parent| parent.parent()).expect("target/PROFILE/deps/test");
        profile.join("punctual")
    });
    assert!(
        program.is_file(),
        "there is no server at {}: build it with `cargo build -p punctual-cli`, or name it in PUNCTUAL_BIN",
        program.display()
    );
    program
}

/// The JSON report; the promises must have been kept.
fn kept(arguments: &str) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_loadtest"))
        .args(arguments.split_whitespace())
        .args(["--spawn", "--json", "--server-bin"])
        .arg(server())
        .output()
        .expect("the load test was built with this test");
    let (reported, complaint) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{arguments}: {}\n{reported}\n{complaint}", output.status);
    let report: Value = serde_json::from_str(&reported).expect("--json prints one object");
    assert_eq!(report["ok"], true, "{reported}");
    report
}

/// Each task accepted, executed and completed exactly once.
fn assert_once(report: &Value, tasks: u64) {
    for count in ["inserted", "executions", "outcomes_accepted"] {
        assert_eq!(report["counts"][count], tasks, "{count}: {report}");
    }
    assert_eq!(report["lateness"]["count"], tasks, "{report}");
}

#[test]
fn uniform() {
    let report = kept("run --scenario uniform --tasks 600 --duration 1s --ahead 1s --batch 50");
    assert_once(&report, 600);
}

#[test]
fn sustained() {
    let report = kept("run --scenario sustained --rate 300 --duration 2s --ahead 500ms --executors 2");
    assert_once(&report, 600);
    if cfg!(target_os = "linux") {
        assert!(report["server"]["rss_peak_mib"].as_f64() > Some(0.0), "{report}");
    }
}

/// What the other noticed is for a machine with nothing else to do; that both were served is not.
#[test]
fn a_flood_with_slots_for_both() {
    let arguments =
        "run --scenario flood --rate 20 --times 5 --duration 2s --ahead 500ms --slots 4 --work 5ms";
    let report = kept(&format!("{arguments} --lease 1s --within-percent 4000000000"));
    assert_eq!(report["flooded"]["one"]["tasks"], 200, "{report}");
    for phase in ["peace", "flooded"] {
        let other = &report[phase]["other"];
        assert_eq!((&other["tasks"], &other["done"]), (&40.into(), &40.into()), "{phase}: {report}");
        assert_eq!(other["start_delay"]["count"], 40, "{phase}: {report}");
    }
}

#[test]
fn burst() {
    let report = kept("run --scenario burst --tasks 600 --ahead 2s --batch 100 --lease-max 100");
    assert_once(&report, 600);
}

#[test]
fn singles() {
    let report = kept("run --scenario burst --tasks 300 --ahead 3s --singles --connections 16");
    assert_once(&report, 300);
    assert_eq!(report["insert"]["count"], 300);
}

/// What a run asks is counted, wherever its tasks are inserted and executed.
#[test]
fn what_mariadb_and_redis_are_asked_is_counted() {
    // Engines are named by chance, and rendezvous hashing by name gives one of two all of 4 partitions in every eighth run.
    let servers = "--store mysql --hot redis --engines 2 --partitions 32 --insert-at 1 --execute-at 2";
    let report =
        kept(&format!("run --scenario sustained --rate 300 --duration 1s --ahead 2s --count {servers}"));
    assert_once(&report, 300);
    let counted = &report["counted"];
    let of = |name: &str| counted[name].as_f64().unwrap_or(f64::NAN);
    assert!(of("redis_calls") >= of("scripts") && of("scripts") > 0.0, "{counted}");
    assert!(of("statements") > of("transactions") && of("transactions") > 0.0, "{counted}");
    assert!(of("rows_locked") >= of("rows_locked_for_nothing"), "{counted}");
    // Each task was handed over, and one hand-over has at least one.
    assert!((1.0..=300.0).contains(&(of("hand_overs") - of("hand_overs_undone"))), "{counted}");
    assert!(
        report["counts"]["executions"] == 300 && kept("run --scenario burst --tasks 10")["counted"].is_null()
    );
}

/// Seen to fail with a token that the engines do not know.
#[test]
fn a_run_with_a_token_of_the_store() {
    let report = kept("run --scenario burst --tasks 300 --ahead 3s --singles --connections 16 --with-token");
    assert_once(&report, 300);
}

#[test]
fn inserts_only() {
    let report = kept("run --scenario uniform --tasks 500 --insert-only --batch 100");
    assert_eq!((&report["counts"]["inserted"], &report["counts"]["executions"]), (&500.into(), &0.into()));
}

#[test]
fn a_server_that_is_killed_in_mid_run_loses_nothing_and_completes_nothing_twice() {
    let report = kept(
        "run --scenario sustained --rate 300 --duration 3s --ahead 500ms --lease 1s --executors 2 --kill-after 2s",
    );
    assert_eq!(report["counts"]["inserted"], 900, "{report}");
    assert!(report["kill"]["ready_after_ms"].as_f64() > Some(0.0), "{report}");
    assert!(report["kill"]["first_task_after_ms"].as_f64() > Some(0.0), "{report}");
}

#[test]
fn idle() {
    let report = kept("idle --tasks 2000 --in 7d --settle 200ms --measure 500ms --probes 3");
    assert_eq!(report["tasks"], 2_000);
    assert_eq!(report["probe_lateness_ms"].as_array().map(Vec::len), Some(3), "{report}");
}

#[test]
fn calls_that_wait_and_callers_that_send_slowly_keep_no_insert_out() {
    let report = kept("attack --idle 60 --slow 20 --rate 100 --measure 1s");
    assert_eq!(
        (&report["peace"]["count"], &report["attacked"]["count"]),
        (&100.into(), &100.into()),
        "{report}"
    );
    assert!(report["waiting"].as_u64() >= Some(60), "{report}");
}

/// How long those that are taken wait is for a machine with nothing else to do.
#[test]
fn more_than_the_store_takes_is_told_to_come_again() {
    let report = kept("overload --flood 24 --batch 2000 --singles 32 --duration 5s --within-ms 4000000000");
    assert!(report["taken"]["count"].as_u64() > Some(0), "{report}");
    assert!(report["batches_refused"].as_u64() > Some(0), "{report}");
}

/// Three engines on two databases and one hot set, all of it private to the test.
const SHARED: &str = "--store mysql --databases 2 --hot redis --engines 3 --executors 3 --connections 3";

#[test]
fn several_engines_share_a_load() {
    let report = kept(&format!("run --scenario sustained --rate 300 --duration 2s --ahead 1s {SHARED}"));
    assert_once(&report, 600);
    assert_eq!(report["faults"], Value::Array(vec![]));
    if cfg!(target_os = "linux") {
        for part in ["server", "mariadb", "redis"] {
            assert!(report[part]["cpu_us_per_task"].as_f64() > Some(0.0), "{part}: {report}");
        }
    }
}

#[test]
fn engines_that_are_killed_and_paused_in_mid_run_lose_nothing_and_complete_nothing_twice() {
    let report = kept(&format!(
        "run --scenario sustained --rate 200 --duration 8s --ahead 1s --lease 3s --wait 1s {SHARED} \
         --kill-one-after 3s --pause-one-after 4s --pause-for 5s"
    ));
    assert_eq!(report["counts"]["inserted"], 1_600, "{report}");
    let reported: Vec<_> =
        report["faults"].as_array().expect("two").iter().map(|fault| &fault["what"]).collect();
    assert_eq!(reported, ["kill", "pause"]);
    for fault in report["faults"].as_array().expect("two") {
        // None when no task came. Zero is a task of another engine that came within the same microsecond.
        assert!(fault["first_task_after_ms"].as_f64() >= Some(0.0), "{report}");
    }
}

#[test]
fn an_engine_that_is_stopped_in_mid_run_ends_well_and_the_others_go_on() {
    let report = kept(&format!(
        "run --scenario sustained --rate 200 --duration 6s --ahead 1s --lease 3s --wait 1s {SHARED} --stop-one-after 3s"
    ));
    assert_eq!(report["counts"]["inserted"], 1_200, "{report}");
    assert!(report["faults"][0]["lasted_ms"].as_f64() > Some(0.0), "{report}");
}

#[test]
fn search() {
    let report = kept("search --tasks 3000 --repeat 2 --within-ms 4000000000");
    let along = |name: &str| {
        let all = report["searches"].as_array().expect("there are searches");
        all.iter().find(|entry| entry["name"] == name).expect("it was searched")["along"].clone()
    };
    assert_eq!(along("label, in all queues"), "label");
    assert_eq!(along("queue, state, time range"), "due_time");
    assert_eq!(along("the dead, by error"), "dead");
    assert_eq!(along("kind, the oldest alone"), "all");
}

/// Beside other tests no figure can be judged but that there is one: each bar is out of reach, and held by `scripts/bench`.
fn console_over(store: &str) {
    let report = kept(&format!(
        "console --tasks 1000 --queues 100 --repeat 2 --open 8 --measure 3s --rate 50 --within-ms 4000000000 --core-percent 1000000 --lateness-percent 4000000000 {store}"
    ));
    let pages = report["pages"].as_array().expect("there are pages");
    assert!(pages.len() > 40 && pages.iter().all(|entry| entry["bytes"].as_u64() > Some(1_000)), "{report}");
    assert!(report["sent"]["looks"].as_u64() >= Some(8), "{report}");
    assert_eq!(report["peace"]["lateness"]["count"], 150, "{report}");
    let states: Vec<&str> = report["states"]
        .as_array()
        .expect("states")
        .iter()
        .filter_map(|state| state[1].as_i64().filter(|number| *number > 0).and(state[0].as_str()))
        .collect();
    for state in ["scheduled", "dispatched", "succeeded", "dead", "cancelled"] {
        assert!(states.contains(&state), "{state}: {states:?}");
    }
}

#[test]
fn console() {
    console_over("");
}

#[test]
fn console_over_mariadb_and_redis() {
    console_over("--store mysql --hot redis");
}

#[test]
fn bounds() {
    let report = kept("bounds --tasks 2000 --far 20 --probes 3 --least-percent 0 --rss-max-mib 4000");
    let steps = report["steps"].as_array().expect("there are steps");
    assert_eq!((steps.len(), &steps[10]["waiting"]), (11, &2_020.into()), "{report}");
    assert!(steps[1]["insert_per_s"].as_f64().is_some_and(|insert_per_s| insert_per_s > 0.0), "{report}");
    assert!(report["rss_peak_mib"].as_f64().is_some_and(|rss_peak_mib| rss_peak_mib > 1.0), "{report}");
}

#[test]
fn bulk() {
    let report = kept("bulk --tasks 600 --rate 1000 --beside 100 --peace 2s");
    assert_eq!((&report["done"], &report["failed"]), (&600.into(), &0.into()), "{report}");
}

#[test]
fn bulk_with_its_engine_killed_in_the_middle() {
    let report = kept("bulk --tasks 3000 --rate 600 --beside 100 --peace 1s --kill-after 2s");
    assert_eq!(
        (&report["done"], &report["skipped"], &report["failed"]),
        (&3_000.into(), &0.into(), &0.into()),
        "{report}"
    );
    assert!(
        report["killed_at_done"].as_u64().is_some_and(|killed_at_done| killed_at_done < 3_000),
        "{report}"
    );
}
