//! What operators watch by: the rules and the dashboard of `deploy/`, looked at by Prometheus's own parser, and the dashboard's
//! queries answered by a Prometheus that scrapes a run, which asks for OpenMetrics and keeps the exemplars.
//!
//! Seen to fail: with a panel whose metric is not served, with a bracket of a query left out.

use crate::binary::{Running, Server, blocking, http, stderr, stdout, wait_for};
use serde_json::{Value, json};
use std::{fs, net::TcpListener, path::Path, process::Command};

const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/prometheus-rules.yml");
const DASHBOARD: &str = include_str!("../../../../deploy/grafana/punctual.json");
/// What a run on one file, without a fault, has nothing of: buckets, an estimate of rows, services that fail, what waits for a
/// minute.
const ABSENT: [&str; 4] = [
    "punctual_database_buckets",
    "punctual_database_rows",
    "punctual_service_failures_in_a_row",
    "punctual_oldest_waiting_seconds",
];
const TRACE_ID: &str = "0af7651916cd43dd8448eb211c80319c";

/// Each query with the title of its panel, as Grafana would send it.
fn queries() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let asked = target["expr"].as_str().unwrap();
            let asked = asked.replace("$__rate_interval", "10s");
            let asked = asked.replace("$namespace", ".*").replace("$queue", ".*");
            assert!(!asked.contains('$'), "{asked}");
            queries.push((panel["title"].as_str().unwrap().to_owned(), asked));
        }
    }
    assert!(queries.len() > 40, "{}", queries.len());
    queries
}

/// Of Debian's package `prometheus` (scripts/install-servers).
fn promtool(file: &Path) -> String {
    let output = Command::new("promtool").args(["check", "rules"]).arg(file).output();
    let output = output.expect("these tests need the package prometheus");
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    stdout(&output)
}

#[test]
fn prometheus_takes_the_rules_and_every_query_of_the_dashboard() {
    let rules = fs::read_to_string(RULES).unwrap().matches("- alert:").count();
    assert!(promtool(Path::new(RULES)).contains(&format!("{rules} rules found")));
    let record = |(nth, (_, query)): (usize, (String, String))| json!({ "record": format!("panel:{nth}"), "expr": query });
    let records: Vec<Value> = queries().into_iter().enumerate().map(record).collect();
    let count = records.len();
    // JSON is YAML too.
    let file = tempfile::Builder::new().suffix(".yml").tempfile().unwrap();
    fs::write(&file, json!({ "groups": [{ "name": "dashboard", "rules": records }] }).to_string()).unwrap();
    assert!(promtool(file.path()).contains(&format!("{count} rules found")));
}

/// One that scrapes a server four times a second.
struct Prometheus {
    url: String,
    _process: Running,
    _data: tempfile::TempDir,
}

impl Prometheus {
    fn of(server: &Server) -> Self {
        let data = tempfile::tempdir().unwrap();
        let target = server.url.trim_start_matches("http://");
        let config = json!({ "global": { "scrape_interval": "250ms", "scrape_timeout": "250ms" },
            "rule_files": [RULES],
            "scrape_configs": [{ "job_name": "punctual", "static_configs": [{ "targets": [target] }] }] });
        let file = data.path().join("prometheus.yml");
        fs::write(&file, config.to_string()).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", data.path().join("data").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        command.args(["--enable-feature=exemplar-storage", "--log.level=warn"]);
        let process = Running::start(&mut command);
        Self { url: format!("http://127.0.0.1:{port}"), _process: process, _data: data }
    }

    /// None: it does not answer yet.
    fn ask(&self, path: &str, fields: &[(&str, &str)]) -> Option<Value> {
        let pairs: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let (url, body) = (format!("{}/api/v1/{path}", self.url), pairs.join("&"));
        let text = blocking(async move {
            let form = "application/x-www-form-urlencoded";
            let request = http().post(url).header("content-type", form).body(body);
            request.send().await.ok()?.text().await.ok()
        })?;
        let answer: Value = serde_json::from_str(&text).ok()?;
        assert_eq!(answer["status"], "success", "{fields:?}: {answer}");
        Some(answer["data"].clone())
    }

    /// Whether it has any sample.
    fn answers(&self, query: &str) -> bool {
        let data = self.ask("query", &[("query", query)]);
        data.is_some_and(|data| !data["result"].as_array().unwrap().is_empty())
    }
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// A task of a caller who samples its trace.
fn insert_traced(server: &Server) {
    let url = format!("{}/v1/tasks", server.url);
    let status = blocking(async move {
        let request = http().post(url).header("traceparent", format!("00-{TRACE_ID}-b7ad6b7169203331-01"));
        request.json(&json!({ "queue": "mail" })).send().await.unwrap().status()
    });
    assert_eq!(status.as_u16(), 201);
}

fn work(server: &Server) {
    insert_traced(server);
    server.insert(json!({ "queue": "limited", "max_attempts": 1 }));
    for queue in ["mail", "limited"] {
        for task in server.lease(queue, 5, 30_000) {
            let outcome = if queue == "mail" { "succeeded" } else { "failed" };
            let outcome = json!({ "ref": task["ref"], "token": task["token"], "outcome": outcome });
            assert_eq!(server.post("/v1/outcomes", json!({ "outcomes": [outcome] })).0, 200);
        }
    }
}

#[test]
fn a_prometheus_that_scraped_a_run_answers_the_dashboard() {
    let (server, _data) = Server::on_new_data();
    let put = |path: &str, body: Value| {
        let url = format!("{}{path}", server.url);
        let status = blocking(async move { http().put(url).json(&body).send().await.unwrap().status() });
        assert!(status.is_success(), "{path}: {status}");
    };
    put("/v1/queues/limited", json!({ "concurrency": 3 }));
    put("/v1/limits", json!({ "concurrency": 100 }));
    put("/v1/namespaces/default", json!({ "concurrency": 50 }));
    // Nobody asks for it.
    server.insert(json!({ "queue": "idle" }));
    let prometheus = Prometheus::of(&server);
    let mut left = queries();
    left.retain(|(_, query)| !ABSENT.iter().any(|absent| query.contains(absent)));
    wait_for("the dashboard", || {
        work(&server);
        left.retain(|(_, query)| !prometheus.answers(query));
        if left.len() < 3 {
            // Who waits in vain sees for what.
            println!("{left:?}");
        }
        left.is_empty().then_some(())
    });
    for query in ABSENT {
        assert!(prometheus.ask("query", &[("query", query)]).is_some());
    }
    let exemplars = [("query", "punctual_processing_seconds_bucket"), ("start", "0"), ("end", "9999999999")];
    wait_for("the trace of an attempt", || {
        let found = prometheus.ask("query_exemplars", &exemplars)?;
        found.to_string().contains(TRACE_ID).then_some(())
    });
}
