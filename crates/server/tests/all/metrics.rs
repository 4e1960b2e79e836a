//! What `/metrics` serves is the format, the list and the truth.

use crate::world::{World, ask, get, post};
use punctual_server::metrics::{Kind, METRICS, Metric};
use punctual_testkit::faults::{Dials, StoreGroup};
use serde_json::json;
use std::{collections::BTreeMap, sync::atomic::Ordering::SeqCst};

type Labels = BTreeMap<String, String>;

/// `(name, labels, value)` of each sample line; panics on a line that is not of the format.
fn parse(text: &str) -> Vec<(String, Labels, f64)> {
    let mut samples = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        let (name, labels) = series.split_once('{').map_or((series, ""), |(name, rest)| {
            (name, rest.strip_suffix('}').unwrap_or_else(|| panic!("{line}")))
        });
        let labels = labels.split("\",").filter(|part| !part.is_empty()).map(|pair| {
            let (label, value) = pair.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
            (label.to_owned(), value.trim_end_matches('"').to_owned())
        });
        samples.push((name.to_owned(), labels.collect(), value.parse().unwrap_or_else(|_| panic!("{line}"))));
    }
    samples
}

/// The metric that a sample belongs to.
fn metric_of(sample: &str) -> &'static Metric {
    let of_histogram = |metric: &&Metric| {
        metric.kind == Kind::Histogram
            && ["_bucket", "_sum", "_count"].iter().any(|end| sample.strip_suffix(end) == Some(metric.name))
    };
    let found =
        METRICS.iter().find(|metric| metric.name == sample).or_else(|| METRICS.iter().find(of_histogram));
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
        let mut given: Vec<&str> = labels.keys().map(String::as_str).filter(|text| *text != "le").collect();
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
        let fits = |map: &Labels| labels.iter().all(|(k, v)| map.get(*k).map(String::as_str) == Some(*v));
        samples.iter().filter(|(n, l, _)| n == name && fits(l)).map(|sample| sample.2).sum::<f64>()
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
        parse(&text).into_iter().filter(|row| row.0 == "punctual_http_refusals_total").collect();
    let labels =
        [("code", "store.unavailable"), ("status", "503")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!(counted, [("punctual_http_refusals_total".to_owned(), Labels::from(labels), 2.0)]);
}

#[test]
fn names_are_unique_and_follow_the_rule() {
    for (nth, metric) in METRICS.iter().enumerate() {
        assert!(metric.name.starts_with("punctual_"), "{}", metric.name);
        assert_eq!(metric.name.ends_with("_total"), metric.kind == Kind::Counter, "{}", metric.name);
        assert!(METRICS.iter().skip(nth + 1).all(|other| other.name != metric.name), "{}", metric.name);
    }
}

#[test]
fn every_metric_that_a_rule_or_the_dashboard_names_exists() {
    for (file, least) in [
        (include_str!("../../../../deploy/prometheus-rules.yml"), 8),
        (include_str!("../../../../deploy/grafana/punctual.json"), 40),
    ] {
        let words = file.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
        let named: std::collections::BTreeSet<&str> =
            words.filter(|word| word.starts_with("punctual_")).collect();
        assert!(named.len() >= least, "{named:?}");
        for name in named {
            let name = name.strip_suffix("_bucket").unwrap_or(name);
            let exists = METRICS.iter().any(|metric| metric.name == name);
            assert!(exists, "{name} is in deploy/ and no metric");
        }
    }
}

#[tokio::test]
async fn outcomes_and_how_long_their_attempts_took_are_counted_by_queue() {
    let world = after_some_work().await;
    let samples = parse(&world.send(get("/metrics")).await.text);
    let of = |name: &str, labels: &[(&str, &str)]| {
        let is_it = |row: &&(String, Labels, f64)| {
            row.0 == name
                && labels.iter().all(|(label, value)| row.1.get(*label).is_some_and(|text| text == value))
        };
        samples.iter().find(is_it).map(|sample| sample.2)
    };
    for (queue, outcome) in [("succeeded", "succeeded"), ("dead", "rejected"), ("retrying", "failed")] {
        let count = |outcome: &str| of("punctual_outcomes_total", &[("queue", queue), ("outcome", outcome)]);
        assert_eq!((count(outcome), count("snoozed")), (Some(1.0), Some(0.0)), "{queue}");
        assert_eq!(of("punctual_processing_seconds_count", &[("queue", queue)]), Some(1.0), "{queue}");
    }
    assert_eq!(of("punctual_outcomes_total", &[("queue", "(other)")]), None);
}

/// Seen to fail: with a bound of a minute.
#[tokio::test]
async fn the_oldest_that_waits_is_shown_from_a_second_on_and_is_no_alert_before_a_minute() {
    let world = World::new();
    world.insert(json!({"queue": "mail"})).await;
    world.insert(json!({"queue": "mail", "delay_ms": 4_000})).await;
    world.advance(0).await;
    let shown = async || {
        let alerts = world.send(get("/v1/alerts")).await.expect(200);
        assert_eq!(alerts["items"], json!([]));
        let samples = parse(&world.send(get("/metrics")).await.text);
        samples
            .into_iter()
            .find(|sample| sample.0 == "punctual_oldest_waiting_seconds")
            .map(|sample| sample.2)
    };
    assert_eq!(shown().await, None, "it may be on its way to an executor");
    world.advance(5_000).await;
    assert_eq!(shown().await, Some(5.0));
    world.advance(37_500).await;
    assert_eq!(shown().await, Some(42.5));
    assert_eq!(world.lease("mail").await.len(), 2);
    assert_eq!(shown().await, None);
}

#[tokio::test]
async fn limits_of_which_there_are_many_alike_are_shown_by_queue_and_namespace() {
    let world = World::new();
    let set = json!({"key_concurrency": 2, "retries": {"concurrency": 1}});
    world.send(ask("PUT", "/v1/queues/mail").json(&set)).await.expect(200);
    for key in ["a", "a", "a", "b", "c", "c"] {
        world.insert(json!({"queue": "mail", "concurrency_key": key, "retry": {"strategy": "fixed", "delay_ms": 1}})).await;
    }
    for _ in 0..3 {
        world.insert(json!({"queue": "other"})).await;
    }
    world.advance(0).await;
    let leased = world.lease("mail").await;
    assert_eq!(leased.len(), 5, "the third of a waits");
    let body = json!({"max": 10, "executor": "w1", "concurrency": 2});
    let held = world.send(post("/v1/queues/other/lease", &body)).await.expect(200);
    assert_eq!(held["tasks"].as_array().unwrap().len(), 2);
    // Of key b: nothing else waits for its slots.
    world.report(&leased[2], json!({"outcome": "failed"})).await;
    world.advance(1_000).await;
    let retried = world.lease("mail").await;
    assert!(retried.iter().any(|entry| entry["attempt"] == 2), "{retried:?}");
    let samples = parse(&world.send(get("/metrics")).await.text);
    let of = |name: &str| {
        let found = samples.iter().filter(|sample| sample.0 == name);
        found.map(|row| (row.1.values().cloned().collect::<Vec<_>>().join("/"), row.2)).collect::<Vec<_>>()
    };
    let only = |labels: &str, value: f64| vec![(labels.to_owned(), value)];
    assert_eq!(of("punctual_key_slots_held_max"), only("default/mail", 2.0));
    assert_eq!(of("punctual_key_slots_limit"), only("default/mail", 2.0));
    assert_eq!(of("punctual_keys_saturated"), only("default/mail", 2.0), "a and c, not b");
    assert_eq!(of("punctual_retry_slots_held"), only("default/mail", 1.0));
    assert_eq!(of("punctual_retry_slots_limit"), only("default/mail", 1.0));
    assert_eq!(of("punctual_executor_slots_held"), only("default", 2.0));
    assert_eq!(of("punctual_executor_slots_limit"), only("default", 2.0));
    assert_eq!(of("punctual_executors_saturated"), only("default", 1.0));
}

/// By its value, not only by its name: what the hot set has lost and nothing mends.
#[tokio::test]
async fn how_long_the_oldest_unfired_task_is_overdue_is_told_by_partition_and_by_queue() {
    let world = World::that_repairs_nothing();
    // Its preloader has been here.
    world.advance(1).await;
    world.hot.loses_what_is_loaded.store(true, SeqCst);
    // What is due sooner is in the engine's table, and not in the hot set.
    let tasks = [
        world.insert(json!({"queue": "q", "delay_ms": 11_000})).await,
        world.insert(json!({"queue": "later", "delay_ms": 22_000})).await,
    ];
    let of = async |name: &str| {
        let samples = parse(&world.send(get("/metrics")).await.text);
        let found = samples.into_iter().filter(|sample| sample.0 == name);
        let mut all: Vec<_> =
            found.map(|row| (row.1.get("queue").cloned().unwrap_or_default(), row.2)).collect();
        all.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        all
    };
    let by_partition =
        async || of("punctual_overdue_not_fired_seconds").await.iter().map(|pair| pair.1).collect::<Vec<_>>();
    let by_queue = async || of("punctual_oldest_overdue_seconds").await;
    assert_eq!(by_queue().await, []);
    for _ in 0..4 {
        world.advance(10_500).await;
    }
    let longest = *by_partition().await.last().unwrap();
    assert_eq!(longest, 31.0);
    world.advance(10_500).await;
    let two = [("later".to_owned(), 30.5), ("q".to_owned(), 41.5)];
    assert_eq!(by_queue().await, two);
    for task in tasks {
        let cancel = ask("POST", format!("/v1/tasks/{}/cancel", task["ref"].as_str().unwrap()));
        world.send(cancel).await.expect(200);
    }
    world.advance(10_500).await;
    assert_eq!(by_partition().await, [0.0; 4]);
    assert_eq!(by_queue().await, []);
}
