//! Tiny runs of each scenario against the fake server: what is right is found right, what is broken is found broken.

use super::*;
use crate::{
    command::{LoadCommand, Options},
    fake::{Fake, FakeFault},
    report::IdleReport,
    scenario::{JudgedReport, perform},
};
use clap::Parser as _;

fn parse(fake: &Fake, arguments: &str) -> LoadCommand {
    let words = ["loadtest"].into_iter().chain(arguments.split_whitespace()).chain(["--url", &fake.url]);
    Options::try_parse_from(words).unwrap().command
}

async fn run_with(fault: FakeFault, arguments: &str) -> RunReport {
    let fake = Fake::start(fault).await;
    match parse(&fake, &format!("run {arguments}")) {
        LoadCommand::Run(options) => run(&options).await.unwrap(),
        _ => unreachable!("the words say run"),
    }
}

const TINY: &str = "--scenario uniform --tasks 100 --duration 200ms --ahead 200ms --batch 9 --lease-max 7";

async fn tiny(fault: FakeFault) -> RunReport {
    run_with(fault, TINY).await
}

fn assert_kept(report: &RunReport, tasks: u64) {
    assert_eq!(report.broken, Vec::<String>::new());
    assert!(report.ok);
    assert_eq!((report.tasks, report.counts.inserted), (tasks, tasks));
    assert_eq!(report.counts.outcomes_accepted + report.counts.settled_by_asking, tasks);
    assert_eq!(report.lateness.count, tasks);
    serde_json::to_string(report).unwrap();
    assert!(report.table().contains("kept"));
}

fn assert_broken(report: &RunReport, what: &str) {
    assert!(
        !report.ok && report.broken.iter().any(|text| text.contains(what)),
        "{what} in {:?}",
        report.broken
    );
    assert!(report.table().contains(what));
}

#[tokio::test]
async fn a_uniform_run() {
    let report = tiny(FakeFault::None).await;
    assert_kept(&report, 100);
    assert_eq!((report.counts.executions, report.insert.count), (100, 12));
    assert!(report.rates.insert_per_s > 0.0 && report.rates.end_to_end_s >= 0.198, "{:?}", report.rates);
    assert!(report.loadtest.is_some() || cfg!(not(target_os = "linux")));
}

#[tokio::test]
async fn a_sustained_run() {
    let report = run_with(
        FakeFault::None,
        "--scenario sustained --rate 200 --duration 500ms --ahead 100ms --executors 2",
    )
    .await;
    assert_kept(&report, 100);
    assert_eq!(report.insert.count, 5);
}

#[tokio::test]
async fn a_burst_of_single_inserts() {
    let report =
        run_with(FakeFault::None, "--scenario burst --tasks 80 --ahead 400ms --singles --connections 8")
            .await;
    assert_kept(&report, 80);
    assert_eq!(report.insert.count, 80);
}

#[tokio::test]
async fn inserts_only() {
    let report = run_with(FakeFault::None, "--scenario burst --tasks 80 --insert-only").await;
    assert!(report.ok, "{:?}", report.broken);
    assert_eq!((report.counts.inserted, report.counts.executions, report.counts.lost), (80, 0, 0));
}

#[tokio::test]
async fn early_tasks_are_found() {
    assert_broken(&tiny(FakeFault::Early).await, "early");
}

#[tokio::test]
async fn lost_tasks_are_found() {
    let report = run_with(FakeFault::Loses, &format!("{TINY} --grace 300ms")).await;
    assert_broken(&report, "10 lost");
    assert_broken(&report, "not done in time");
}

#[tokio::test]
async fn tasks_that_are_completed_twice_are_found() {
    let report = tiny(FakeFault::CompletesTwice).await;
    assert_broken(&report, "completed twice");
    assert!(report.counts.executed_again > 0);
}

#[tokio::test]
async fn changed_payloads_are_found() {
    assert_broken(&tiny(FakeFault::ChangesPayload).await, "100 handed out with another payload");
}

#[tokio::test]
async fn tasks_that_run_again_are_counted_and_allowed() {
    let report = tiny(FakeFault::RunsAgain).await;
    assert_kept(&report, 100);
    assert_eq!((report.counts.executed_again, report.counts.executions), (10, 110));
}

#[tokio::test]
async fn an_overloaded_server_is_asked_again() {
    assert_kept(&tiny(FakeFault::Overloaded).await, 100);
}

#[tokio::test]
async fn lost_answers_are_repeated_and_doubts_are_settled_by_asking() {
    let report =
        run_with(FakeFault::HangsUp, "--scenario burst --tasks 60 --ahead 400ms --batch 5 --lease-max 5")
            .await;
    assert_kept(&report, 60);
    let counts = report.counts;
    assert!(counts.existing > 0 && counts.existing <= counts.inserts_repeated, "{counts:?}");
    assert!(counts.settled_by_asking > 0 && counts.outcomes_stale >= counts.settled_by_asking, "{counts:?}");
}

#[tokio::test]
async fn a_burst_that_was_due_before_it_was_inserted_is_no_burst() {
    let report = run_with(FakeFault::None, "--scenario burst --tasks 20 --ahead 0s").await;
    assert_broken(&report, "no burst");
}

#[tokio::test]
async fn a_queue_that_would_break_the_requests_is_refused() {
    let fake = Fake::start(FakeFault::None).await;
    let LoadCommand::Run(mut options) = parse(&fake, &format!("run {TINY}")) else {
        unreachable!("the words say run")
    };
    options.common.queue = Some("a b".into());
    let error = run(&options).await.unwrap_err().to_string();
    assert!(error.contains("letters, digits"), "{error}");
}

#[tokio::test]
async fn a_server_that_knows_no_such_call_ends_the_run_with_its_words() {
    let error = {
        let fake = Fake::start(FakeFault::Stranger).await;
        let LoadCommand::Run(options) = parse(&fake, &format!("run {TINY}")) else {
            unreachable!("the words say run")
        };
        format!("{:#}", run(&options).await.unwrap_err())
    };
    assert!(error.contains("404") && error.contains("/v1/"), "{error}");
}

async fn idle_with(fault: FakeFault, arguments: &str) -> anyhow::Result<JudgedReport<IdleReport>> {
    let fake = Fake::start(fault).await;
    let words = format!("idle --tasks 500 --settle 0s --measure 20ms --probes 3 {arguments}");
    let LoadCommand::Idle(options) = parse(&fake, &words) else { unreachable!("the words say idle") };
    perform(&options).await
}

#[tokio::test]
async fn an_idle_measurement() {
    let report = idle_with(FakeFault::None, &format!("--server-pid {}", std::process::id())).await.unwrap();
    assert!(report.ok, "{:?}", report.broken);
    assert_eq!((report.report.tasks, report.report.probe_lateness_ms.len()), (500, 3));
    assert!(report.report.probe_lateness_ms.iter().all(|number| *number >= 0.0));
    if cfg!(target_os = "linux") {
        assert!(report.report.idle_cpu_percent.is_some() && report.report.rss_mib > Some(1.0));
    }
    assert!(report.table().contains("kept"));
}

#[tokio::test]
async fn an_early_probe_is_found() {
    let report = idle_with(FakeFault::Early, "").await.unwrap();
    assert!(!report.ok && report.broken[0].contains("early"), "{:?}", report.broken);
    assert_eq!(report.report.idle_cpu_percent, None);
}
