//! What `/metrics` serves is the format, the list and the truth.

use crate::world::{World, get, post};
use punctual_server::metrics::{Kind, METRICS, Metric};
use punctual_testkit::faults::{Dials, StoreGroup};
use serde_json::json;
use std::collections::BTreeMap;

type Labels = BTreeMap<String, String>;

/// `(name, labels, value)` of each sample line; panics on a line that is not of the format.
fn parse(text: &str) -> Vec<(String, Labels, f64)> {
    let mut samples = Vec::new();
    for line in text.lines().filter(|it| !it.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        let (name, labels) = series.split_once('{').map_or((series, ""), |(name, rest)| {
            (name, rest.strip_suffix('}').unwrap_or_else(|| panic!("{line}")))
        });
        let labels = labels.split("\",").filter(|it| !it.is_empty()).map(|pair| {
            let (label, value) = pair.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
            (label.to_owned(), value.trim_end_matches('"').to_owned())
        });
        samples.push((name.to_owned(), labels.collect(), value.parse().unwrap_or_else(|_| panic!("{line}"))));
    }
    samples
}

/// The metric that a sample belongs to.
fn metric_of(sample: &str) -> &'static Metric {
    let of_histogram = |it: &&Metric| {
        it.kind == Kind::Histogram
            && ["_bucket", "_sum", "_count"].iter().any(|end| sample.strip_suffix(end) == Some(it.name))
    };
    let found = METRICS.iter().find(|it| it.name == sample).or_else(|| METRICS.iter().find(of_histogram));
    found.unwrap_or_else(|| panic!("{sample} is not in the list"))
}

async fn after_some_work() -> World {
    let world = World::new();
    world.bring_to("succeeded", 1).await;
    world.bring_to("dead", 2).await;
    world.bring_to("retrying", 3).await;
    world.bring_to("scheduled", 5).await;
    world.bring_to("cancelled", 4).await;
    world.bring_to("ready", 6).await;
    world.send(get("/nope")).await;
    world
}

#[tokio::test]
async fn every_sample_is_of_a_metric_in_the_list_with_its_labels_and_every_metric_is_served() {
    let world = after_some_work().await;
    let answer = world.send(get("/metrics")).await;
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    for (name, labels, _) in parse(&answer.text) {
        let metric = metric_of(&name);
        let mut given: Vec<&str> = labels.keys().map(String::as_str).filter(|it| *it != "le").collect();
        let mut want = metric.labels.to_vec();
        given.sort_unstable();
        want.sort_unstable();
        assert_eq!(given, want, "{name}");
    }
    for metric in METRICS {
        let head = format!("# HELP {0} {1}\n# TYPE {0} {2}\n", metric.name, metric.help, metric.kind.word());
        assert_eq!(answer.text.matches(&head).count(), 1, "{}", metric.name);
    }
}

#[tokio::test]
async fn the_numbers_are_those_of_what_happened() {
    let world = after_some_work().await;
    let text = world.send(get("/metrics")).await.text;
    let samples = parse(&text);
    let value = |name: &str, labels: &[(&str, &str)]| {
        let fits = |it: &Labels| labels.iter().all(|(k, v)| it.get(*k).map(String::as_str) == Some(*v));
        samples.iter().filter(|(n, l, _)| n == name && fits(l)).map(|it| it.2).sum::<f64>()
    };
    for (name, labels, want) in [
        ("punctual_tasks_accepted_total", &[][..], 6.0),
        ("punctual_tasks_unaccounted", &[], 0.0),
        ("punctual_tasks", &[("state", "succeeded")], 1.0),
        ("punctual_tasks", &[("queue", "scheduled"), ("state", "scheduled")], 1.0),
        ("punctual_tasks_inserted_total", &[], 6.0),
        ("punctual_tasks_fired_total", &[], 4.0),
        ("punctual_tasks_early_total", &[], 0.0),
        ("punctual_tasks_dispatched_total", &[], 3.0),
        ("punctual_tasks_retried_total", &[("queue", "retrying")], 1.0),
        ("punctual_tasks_dead_total", &[("queue", "dead")], 1.0),
        ("punctual_tasks_cancelled_total", &[("queue", "cancelled")], 1.0),
        ("punctual_tasks_succeeded_total", &[], 1.0),
        ("punctual_tasks_ready", &[("queue", "ready")], 1.0),
        ("punctual_lateness_seconds_count", &[], 4.0),
        ("punctual_lateness_seconds_bucket", &[("le", "+Inf")], 4.0),
        ("punctual_lateness_seconds_bucket", &[("le", "0")], 4.0),
        ("punctual_http_requests_total", &[("route", "unmatched"), ("status", "404")], 1.0),
        (
            "punctual_http_requests_total",
            &[("route", "/v1/tasks"), ("method", "POST"), ("status", "201")],
            6.0,
        ),
        ("punctual_http_request_seconds_count", &[("route", "/v1/tasks/{ref}/cancel")], 1.0),
    ] {
        assert!(
            (value(name, labels) - want).abs() < 1e-9,
            "{name} {labels:?}: {}\n{text}",
            value(name, labels)
        );
    }
    assert!(value("punctual_process_resident_memory_bytes", &[]) > 1e6);
    assert!((value("punctual_process_start_time_seconds", &[]) - 1_767_225_600.0).abs() < 1e-3);
}

#[tokio::test]
async fn refusals_are_counted_by_their_code_and_other_problems_are_not() {
    let world = World::new();
    world.store.faults.set(StoreGroup::Insert, Dials::REFUSES);
    for _ in 0..2 {
        let refused = world.send(post("/v1/tasks", &json!({"queue": "q"}))).await;
        refused.expect_problem(503, "store.unavailable");
    }
    world.store.faults.heal();
    world.send(get("/nope")).await.expect_problem(404, "request.unknown_route");
    let text = world.send(get("/metrics")).await.text;
    let counted: Vec<_> =
        parse(&text).into_iter().filter(|it| it.0 == "punctual_http_refusals_total").collect();
    let labels =
        [("code", "store.unavailable"), ("status", "503")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!(counted, [("punctual_http_refusals_total".to_owned(), Labels::from(labels), 2.0)]);
}

#[test]
fn names_are_unique_and_follow_the_rule() {
    for (nth, it) in METRICS.iter().enumerate() {
        assert!(it.name.starts_with("punctual_"), "{}", it.name);
        assert_eq!(it.name.ends_with("_total"), it.kind == Kind::Counter, "{}", it.name);
        assert!(METRICS.iter().skip(nth + 1).all(|other| other.name != it.name), "{}", it.name);
    }
}

#[test]
fn every_metric_that_a_rule_or_the_dashboard_names_exists() {
    for (file, least) in [
        (include_str!("../../../../deploy/prometheus-rules.yml"), 8),
        (include_str!("../../../../deploy/grafana/punctual.json"), 40),
    ] {
        let words = file.split(|it: char| !(it.is_ascii_alphanumeric() || it == '_'));
        let named: std::collections::BTreeSet<&str> =
            words.filter(|it| it.starts_with("punctual_")).collect();
        assert!(named.len() >= least, "{named:?}");
        for name in named {
            let name = name.strip_suffix("_bucket").unwrap_or(name);
            let exists = METRICS.iter().any(|it| it.name == name);
            assert!(exists, "{name} is in deploy/ and no metric");
        }
    }
}

#[tokio::test]
async fn outcomes_and_how_long_their_attempts_took_are_counted_by_queue() {
    let world = after_some_work().await;
    let samples = parse(&world.send(get("/metrics")).await.text);
    let of = |name: &str, labels: &[(&str, &str)]| {
        let is_it = |it: &&(String, Labels, f64)| {
            it.0 == name && labels.iter().all(|(label, value)| it.1.get(*label).is_some_and(|it| it == value))
        };
        samples.iter().find(is_it).map(|it| it.2)
    };
    for (queue, outcome) in [("succeeded", "succeeded"), ("dead", "rejected"), ("retrying", "failed")] {
        let count = |outcome: &str| of("punctual_outcomes_total", &[("queue", queue), ("outcome", outcome)]);
        assert_eq!((count(outcome), count("snoozed")), (Some(1.0), Some(0.0)), "{queue}");
        assert_eq!(of("punctual_processing_seconds_count", &[("queue", queue)]), Some(1.0), "{queue}");
    }
    assert_eq!(of("punctual_outcomes_total", &[("queue", "(other)")]), None);
}
