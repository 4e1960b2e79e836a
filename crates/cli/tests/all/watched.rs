//! What operators watch by: the rules and the dashboard of `deploy/`, looked at by Prometheus's own parser, and the dashboard's
//! queries answered by a Prometheus that scrapes a run, which asks for OpenMetrics and keeps the exemplars.
//!
//! Seen to fail: with a panel whose metric is not served, with a bracket of a query left out.

use crate::binary::{Running, Server, address, blocking, http, punctual, servers, stderr, stdout, wait_for};
use serde_json::{Value, json};
use std::{fs, net::TcpListener, path::Path, process::Command};

const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/prometheus-rules.yml");
const SCRAPING: &str = include_str!("../../../../deploy/prometheus.yml");
const DASHBOARD: &str = include_str!("../../../../deploy/grafana/punctual.json");
/// What a run without a fault has nothing of.
const OF_A_FAULT: [&str; 2] = ["punctual_service_failures_in_a_row", "punctual_oldest_overdue_seconds"];
/// What a run on one file has nothing of.
const OF_MYSQL: [&str; 2] = ["punctual_database_buckets", "punctual_database_rows"];
const ADMIN: &str = "the-admins-word-0123456789";
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

/// One that scrapes twice a second, as `deploy/prometheus.yml` has it: with a token of role `viewer`.
struct Prometheus {
    url: String,
    _process: Running,
    _data: tempfile::TempDir,
}

impl Prometheus {
    fn scraping(urls: &[&str], token: &str) -> Self {
        let data = tempfile::tempdir().unwrap();
        let (file, credentials) = (data.path().join("prometheus.yml"), data.path().join("token"));
        fs::write(&credentials, token).unwrap();
        let targets: Vec<&str> = urls.iter().map(|url| url.trim_start_matches("http://")).collect();
        let config = with(
            SCRAPING,
            &[
                ("scrape_interval: 15s", "scrape_interval: 500ms\n  scrape_timeout: 500ms"),
                ("scheme: https", "scheme: http"),
                ("/etc/prometheus/punctual.token", credentials.to_str().unwrap()),
                ("/usr/share/doc/punctual/prometheus-rules.yml", RULES),
                (r#"["punctual-1.example:7450", "punctual-2.example:7450"]"#, &json!(targets).to_string()),
            ],
        );
        fs::write(&file, config).unwrap();
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

/// What the file has of its own machine, replaced by the test's.
fn with(text: &str, own: &[(&str, &str)]) -> String {
    own.iter().fold(text.to_owned(), |text, (current, own)| {
        assert!(text.contains(current), "{current} in {text}");
        text.replace(current, own)
    })
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Engines of one cluster that want tokens.
struct Engines(Vec<Server>);

impl Engines {
    /// As many as there are commands; each is given its address.
    fn start(commands: impl IntoIterator<Item = Command>) -> Self {
        let start = |mut command: Command| {
            let mut process = Running::start(command.env("PUNCTUAL_AUTH_ADMIN_TOKEN", ADMIN));
            let url = address(&process.first_line());
            Server { process, url }
        };
        Self(commands.into_iter().map(start).collect())
    }

    fn ask(&self, nth: usize, method: reqwest::Method, path: &str, body: &Value) -> Value {
        let url = format!("{}{path}", self.0[nth % self.0.len()].url);
        let request = http().request(method, url).bearer_auth(ADMIN).json(body);
        // A caller who samples its trace; only an insert keeps it.
        let request = request.header("traceparent", format!("00-{TRACE_ID}-b7ad6b7169203331-01"));
        blocking(async move {
            let answer = request.send().await.unwrap();
            let (status, text) = (answer.status(), answer.text().await.unwrap());
            assert!(status.is_success(), "{status} {text}");
            serde_json::from_str(&text).unwrap_or_default()
        })
    }

    fn post(&self, nth: usize, path: &str, body: &Value) -> Value {
        self.ask(nth, reqwest::Method::POST, path, body)
    }

    /// What a dashboard shows of: limits of every scope, and a queue that no executor asks for.
    fn prepare(&self) {
        for (path, body) in [
            ("/v1/queues/limited", json!({ "concurrency": 3 })),
            ("/v1/limits", json!({ "concurrency": 100 })),
            ("/v1/namespaces/default", json!({ "concurrency": 50 })),
        ] {
            self.ask(0, reqwest::Method::PUT, path, &body);
        }
        self.post(0, "/v1/tasks", &json!({ "queue": "idle" }));
    }

    /// One success and one failure, taken and reported at one engine after the other.
    fn work(&self, nth: usize) {
        self.post(nth, "/v1/tasks", &json!({ "queue": "mail" }));
        self.post(nth, "/v1/tasks", &json!({ "queue": "limited", "max_attempts": 1 }));
        for (queue, outcome) in [("mail", "succeeded"), ("limited", "failed")] {
            let ask = json!({ "max": 5, "wait_ms": 2_000, "lease_ms": 30_000, "executor": "test" });
            let leased = self.post(nth, &format!("/v1/queues/{queue}/lease"), &ask);
            for task in leased["tasks"].as_array().unwrap() {
                let outcome = json!({ "ref": task["ref"], "token": task["token"], "outcome": outcome });
                self.post(nth, "/v1/outcomes", &json!({ "outcomes": [outcome] }));
            }
        }
    }

    /// Every query of the dashboard but what the run has nothing of.
    #[expect(clippy::print_stderr, reason = "who waits in vain sees for what")]
    fn answer_the_dashboard(&self, absent: &[&str]) -> Prometheus {
        let viewer =
            self.post(0, "/v1/tokens", &json!({ "name": "prometheus", "roles": ["viewer"] }))["token"]
                .as_str()
                .unwrap()
                .to_owned();
        let urls: Vec<&str> = self.0.iter().map(|server| server.url.as_str()).collect();
        let prometheus = Prometheus::scraping(&urls, &viewer);
        let mut left = queries();
        left.retain(|(_, query)| !absent.iter().any(|absent| query.contains(absent)));
        let mut nth = 0;
        wait_for("the dashboard", || {
            self.work(nth);
            nth += 1;
            left.retain(|(_, query)| !prometheus.answers(query));
            if left.len() < 3 {
                // Who waits in vain sees for what.
                eprintln!("{left:?}");
            }
            left.is_empty().then_some(())
        });
        prometheus
    }
}

#[test]
fn a_prometheus_that_scraped_a_run_answers_the_dashboard() {
    let data = tempfile::tempdir().unwrap();
    let engines = Engines::start([Server::command(data.path(), &[])]);
    engines.prepare();
    let absent = [OF_MYSQL, OF_A_FAULT].concat();
    let prometheus = engines.answer_the_dashboard(&absent);
    for query in absent {
        assert!(prometheus.ask("query", &[("query", query)]).is_some());
    }
    let exemplars = [("query", "punctual_processing_seconds_bucket"), ("start", "0"), ("end", "9999999999")];
    wait_for("the trace of an attempt", || {
        let found = prometheus.ask("query_exemplars", &exemplars)?;
        found.to_string().contains(TRACE_ID).then_some(())
    });
}

#[test]
fn a_prometheus_that_scraped_two_engines_on_mysql_and_redis_answers_the_dashboard() {
    let (mysql, redis) = blocking(servers());
    let store_url = blocking(mysql.fresh_database());
    let engine = || {
        let mut command = punctual(&["serve", "--listen", "127.0.0.1:0", "--json"]);
        command.args(["--store-url", &store_url, "--hot-url", &redis.url()]);
        command
    };
    let engines = Engines::start([engine(), engine()]);
    engines.prepare();
    let prometheus = engines.answer_the_dashboard(&OF_A_FAULT);
    // One series for each engine that was scraped.
    let up = prometheus.ask("query", &[("query", "sum(up{job=\"punctual\"})")]).unwrap();
    assert_eq!(up["result"][0]["value"][1], "2");
}

#[test]
fn there_is_a_rule_for_each_metric_that_says_alert_on_it() {
    let rules = fs::read_to_string(RULES).unwrap();
    let page = include_str!("../../../../docs/metrics.md");
    let reported: Vec<&str> = page
        .lines()
        .filter(|line| line.to_lowercase().contains("alert on it"))
        .map(|line| line.split('`').nth(1).unwrap())
        .collect();
    assert!(reported.len() > 5, "{reported:?}");
    for metric in reported {
        assert!(rules.contains(metric), "{metric}");
    }
}
