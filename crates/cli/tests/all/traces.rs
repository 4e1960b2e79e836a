//! A collector that speaks OTLP over HTTP gets one trace of a task, from the caller's insert to the outcome, with the second
//! attempt linked to the first; on both back ends. One that is away costs spans and no task.

use crate::binary::{DURABLE, Running, Server, address, http, punctual, wait_for};
use punctual_testkit::servers::{MariaDb, Redis};
use serde_json::{Value, json};
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};
use tokio::runtime::Runtime;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// As much HTTP as an exporter needs.
struct Collector {
    url: String,
    spans: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let spans: Arc<Mutex<Vec<Value>>> = Arc::default();
        let kept = Arc::clone(&spans);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let kept = Arc::clone(&kept);
                thread::spawn(move || {
                    while let Some(spans) = request(stream.as_ref().unwrap()) {
                        kept.lock().unwrap().extend(spans);
                    }
                });
            }
        });
        Self { url, spans }
    }

    fn named(&self, name: &str) -> Vec<Value> {
        self.spans.lock().unwrap().iter().filter(|it| it["name"] == name).cloned().collect()
    }
}

/// The spans of one; None: no more come.
fn request(stream: &TcpStream) -> Option<Vec<Value>> {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).ok().filter(|it| *it > 0)?;
    assert_eq!(first.trim(), "POST /v1/traces HTTP/1.1");
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim().to_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(("content-type", value)) => assert_eq!(value, "application/json"),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let mut stream = stream;
    stream
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
        .ok()?;
    let asked: Value = serde_json::from_slice(&body).unwrap();
    let of = &asked["resourceSpans"][0];
    assert_eq!(
        of["resource"]["attributes"][0],
        json!({"key": "service.name", "value": {"stringValue": "punctual"}})
    );
    Some(of["scopeSpans"][0]["spans"].as_array().unwrap().clone())
}

fn insert(server: &Server, queue: &str, traceparent: Option<&str>) -> Value {
    let url = format!("{}/v1/tasks", server.url);
    let body = json!({"queue": queue, "delay_ms": 20, "retry": {"strategy": "immediate"}});
    let mut request = http().post(url).json(&body);
    if let Some(traceparent) = traceparent {
        request = request.header("traceparent", traceparent);
    }
    crate::binary::blocking(async move { request.send().await.unwrap().json().await.unwrap() })
}

fn report(server: &Server, leased: &Value, outcome: &str) {
    let outcome =
        json!({"ref": leased["ref"], "token": leased["token"], "outcome": outcome, "status_msg": "full"});
    let (_, answer) = server.post("/v1/outcomes", json!({"executor": "mailer", "outcomes": [outcome]}));
    assert_eq!(answer["results"][0]["status"], "accepted");
}

fn nanos(span: &Value, field: &str) -> u64 {
    span[field].as_str().unwrap().parse().unwrap()
}

fn a_trace_is_told(server: &Server, collector: &Collector) {
    let context = format!("00-{TRACE}-{CALLER}-01");
    insert(server, "plain", None);
    insert(server, "unsampled", Some(&format!("00-{TRACE}-{CALLER}-00")));
    for queue in ["plain", "unsampled"] {
        let leased = wait_for(queue, || server.lease(queue, 1, 30_000).pop());
        report(server, &leased, "succeeded");
    }
    insert(server, "mail", Some(&context));
    let first = wait_for("the first attempt", || server.lease("mail", 1, 30_000).pop());
    report(server, &first, "failed");
    let second = wait_for("the second attempt", || server.lease("mail", 1, 30_000).pop());
    assert_eq!(second["attempt"], 2);
    report(server, &second, "succeeded");

    let root = wait_for("the trace", || collector.named("task").pop());
    assert_eq!((&root["traceId"], &root["parentSpanId"]), (&json!(TRACE), &json!(CALLER)));
    let runs = collector.named("run");
    assert_eq!(runs.len(), 2);
    // What each executor was handed leads to its run.
    for (run, leased) in runs.iter().zip([&first, &second]) {
        let handed = format!("00-{TRACE}-{}-01", run["spanId"].as_str().unwrap());
        assert_eq!(leased["traceparent"], handed.as_str());
    }
    assert_eq!(runs[1]["links"][0]["spanId"], runs[0]["spanId"]);
    assert_eq!((&runs[0]["status"]["code"], &runs[1]["status"]), (&json!(2), &json!({})));
    for (name, count) in [("task", 1), ("insert", 1), ("wait", 2), ("lease", 2), ("outcome", 2)] {
        let spans = collector.named(name);
        assert_eq!(spans.len(), count, "{name}: nothing of tasks that nobody samples");
        for span in spans {
            assert!(nanos(&span, "startTimeUnixNano") <= nanos(&span, "endTimeUnixNano"), "{span}");
            assert!(nanos(&span, "startTimeUnixNano") >= nanos(&root, "startTimeUnixNano"), "{span}");
            assert!(nanos(&span, "endTimeUnixNano") <= nanos(&root, "endTimeUnixNano"), "{span}");
            assert!(name == "task" || span["parentSpanId"] == root["spanId"], "{span}");
        }
    }
    assert_eq!(server.metric("punctual_trace_spans_exported_total"), 10.0);
    assert_eq!(server.metric("punctual_traces_dropped_total"), 0.0);
}

#[test]
fn the_embedded_engine_tells_a_collector_the_whole_trace_of_a_task() {
    let (collector, data) = (Collector::start(), tempfile::tempdir().unwrap());
    let server = Server::start_with(data.path(), &["--set", &format!("traces.otlp_url={}", collector.url)]);
    a_trace_is_told(&server, &collector);
}

#[test]
fn an_engine_on_mysql_and_redis_tells_a_collector_the_whole_trace_of_a_task() {
    let (collector, runtime) = (Collector::start(), Runtime::new().unwrap());
    let (mysql, redis) = runtime.block_on(async { (MariaDb::with(&DURABLE).await, Redis::own().await) });
    let store_url = runtime.block_on(mysql.fresh_database());
    let mut command = punctual(&["serve", "--listen", "127.0.0.1:0", "--json", "--store-url", &store_url]);
    command.args(["--hot-url", &redis.url(), "--set", &format!("traces.otlp_url={}", collector.url)]);
    let mut process = Running::start(&mut command);
    let url = address(&process.first_line());
    a_trace_is_told(&Server { process, url }, &collector);
}

#[test]
fn a_collector_that_is_away_costs_its_spans_and_no_task() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_with(data.path(), &["--set", "traces.otlp_url=http://127.0.0.1:9"]);
    insert(&server, "mail", Some(&format!("00-{TRACE}-{CALLER}-01")));
    let leased = wait_for("the attempt", || server.lease("mail", 1, 30_000).pop());
    report(&server, &leased, "succeeded");
    wait_for("the drop", || (server.metric("punctual_traces_dropped_total") == 1.0).then_some(()));
    assert_eq!(server.metric("punctual_trace_spans_exported_total"), 0.0);
    let (_, alerts) = server.get("/v1/alerts");
    assert_eq!(alerts["items"], json!([]), "it is no failure of the engine");
}
