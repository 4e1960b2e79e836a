//! A collector that speaks OTLP over HTTP, JSON or protobuf, gets one trace of a task, from the caller's insert to the outcome, with the second
//! attempt linked to the first; on both back ends. One that is unavailable costs spans and no task.

use crate::{
    binary::{Running, Server, address, blocking, documents, http, punctual, servers, stderr, wait_for},
    otlp,
};
use punctual_protocol::InsertTask;
use punctual_sdk::{Client, NewTask, retry};
use serde_json::{Value, json};
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};
use tokio::runtime::Runtime;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";
/// What the collector of these tests wants to be sent.
const SECRET: &str = "Bearer Geheim-77";
const SERVICE: &str = "shop-tasks";

/// As much HTTP as an exporter needs.
struct Collector {
    url: String,
    spans: Arc<Mutex<Vec<Value>>>,
}

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/x-protobuf";

impl Collector {
    fn start(content_type: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let spans: Arc<Mutex<Vec<Value>>> = Arc::default();
        let kept = Arc::clone(&spans);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let kept = Arc::clone(&kept);
                thread::spawn(move || {
                    while let Some(spans) = request(stream.as_ref().unwrap(), content_type) {
                        kept.lock().unwrap().extend(spans);
                    }
                });
            }
        });
        Self { url, spans }
    }

    fn named(&self, name: &str) -> Vec<Value> {
        self.spans.lock().unwrap().iter().filter(|span| span["name"] == name).cloned().collect()
    }
}

/// The span of an executor that runs a message of the bus is below the run of its attempt, too.
fn a_message_leads_to_its_run(server: &Server, collector: &Collector, redis_url: &str) {
    assert_eq!(server.put("/v1/queues/pushed", json!({"mode": "push"})).0, 200);
    let exec = "echo \"$TRACEPARENT\"; test $PUNCTUAL_ATTEMPT = 2";
    let args = ["work", "--url", &server.url, "-q", "pushed", "--subscribe", "--exec", exec];
    let _worker = Running::start(punctual(&args).env("PUNCTUAL_BUS_URL", redis_url));
    let trace = "1af7651916cd43dd8448eb211c80319c";
    let task = insert(server, "pushed", Some(&format!("00-{trace}-{CALLER}-01")));
    let path = format!("/v1/tasks/{}", task["ref"].as_str().unwrap());
    let done = wait_for("the second attempt", || {
        Some(server.get(&path).1).filter(|entry| entry["state"] == "succeeded")
    });
    let of_it = |entry: &Value| entry["traceId"] == trace;
    let runs = wait_for("its runs", || {
        Some(collector.named("run").into_iter().filter(of_it).collect::<Vec<_>>())
            .filter(|list| list.len() == 2)
    });
    let handed = format!("00-{trace}-{}-01", runs[1]["spanId"].as_str().unwrap());
    assert_eq!(done["result"]["result"], handed.as_str());
}

/// The spans of one; None: no more come.
fn request(stream: &TcpStream, content_type: &str) -> Option<Vec<Value>> {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length, mut is_let_in) = (String::new(), 0, false);
    reader.read_line(&mut first).ok().filter(|line| *line > 0)?;
    assert_eq!(first.trim(), "POST /v1/traces HTTP/1.1");
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim().to_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(("content-type", value)) => assert_eq!(value, content_type),
            Some(("authorization", value)) => is_let_in = value == SECRET.to_lowercase(),
            Some(_) => {}
            None => break,
        }
    }
    assert!(is_let_in, "the collector's token is missing");
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let mut stream = stream;
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").ok()?;
    let is_json = content_type == JSON;
    let asked = if is_json { serde_json::from_slice(&body).unwrap() } else { otlp::request(&body) };
    let of = &asked["resourceSpans"][0];
    let attributes = of["resource"]["attributes"].as_array().unwrap();
    assert!(
        attributes.contains(&json!({"key": "service.name", "value": {"stringValue": SERVICE}})),
        "{attributes:?}"
    );
    Some(of["scopeSpans"][0]["spans"].as_array().unwrap().clone())
}

/// As a user's program does it.
fn insert(server: &Server, queue: &str, traceparent: Option<&str>) -> Value {
    let mut task = NewTask::to(queue).delay(Duration::from_millis(20)).retry(retry::immediate());
    if let Some(traceparent) = traceparent {
        task = task.traceparent(traceparent);
    }
    let client = Client::builder().url(&server.url).build().unwrap();
    serde_json::to_value(blocking(client.insert(&task)).unwrap()).unwrap()
}

fn traceparent_of(server: &Server, reference: &str) -> Value {
    server.get(&format!("/v1/tasks/{reference}")).1["traceparent"].clone()
}

#[test]
fn each_task_of_a_batch_has_its_own_trace_and_the_command_line_goes_on_with_that_of_its_caller() {
    let (server, _data) = Server::on_new_data();
    let of = |nth: u8| format!("00-{TRACE}-{nth:016x}-01");
    let tasks = [1, 2].map(|nth| InsertTask::from(NewTask::to("q").traceparent(of(nth))));
    let client = Client::builder().url(&server.url).build().unwrap();
    let results = blocking(client.insert_batch(&tasks)).unwrap();
    for (nth, result) in (1..).zip(&results) {
        let result = serde_json::to_value(result).unwrap()["task"].take();
        assert_eq!(traceparent_of(&server, result["ref"].as_str().unwrap()), of(nth));
    }
    let mut insert = punctual(&["task", "insert", "-q", "q", "--json", "--url", &server.url]);
    let inserted = documents(&insert.env("TRACEPARENT", of(3)).output().unwrap()).remove(0);
    assert_eq!(traceparent_of(&server, inserted["ref"].as_str().unwrap()), of(3));
    // What is in the task itself goes before the header of the request, and nonsense is dropped.
    for (own, kept) in [(of(4), json!(of(4))), ("nonsense".to_owned(), Value::Null)] {
        let request = http().post(format!("{}/v1/tasks", server.url)).header("traceparent", of(5));
        let request = request.json(&json!({ "queue": "q", "traceparent": own }));
        let task: Value = blocking(async move { request.send().await.unwrap().json().await.unwrap() });
        assert_eq!(traceparent_of(&server, task["ref"].as_str().unwrap()), kept);
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{\"queue\":\"of-a-file\"}\n").unwrap();
    let mut insert = punctual(&["task", "insert", "--url", &server.url, "--file"]);
    let loaded = insert.arg(file.path()).env("TRACEPARENT", of(6)).output().unwrap();
    assert!(loaded.status.success(), "{}", stderr(&loaded));
    let found = server.get("/v1/tasks?queue=of-a-file").1["items"][0]["ref"].clone();
    assert_eq!(traceparent_of(&server, found.as_str().unwrap()), of(6));
}

fn report(server: &Server, leased: &Value, outcome: &str) {
    let outcome =
        json!({"ref": leased["ref"], "token": leased["token"], "outcome": outcome, "status_msg": "full"});
    let (_, answer) = server.post("/v1/outcomes", json!({"executor": "mailer", "outcomes": [outcome]}));
    assert_eq!(answer["results"][0]["status"], "accepted");
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a str {
    let found = span["attributes"].as_array().unwrap().iter().find(|pair| pair["key"] == key);
    found.unwrap_or_else(|| panic!("no {key} in {span}"))["value"]["stringValue"].as_str().unwrap()
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
    for (name, kind, operation) in
        [("insert", 4, "send"), ("lease", 3, "receive"), ("run", 5, "process"), ("outcome", 3, "settle")]
    {
        let span = collector.named(name).remove(0);
        assert_eq!((&span["kind"], attribute(&span, "messaging.operation.type")), (&json!(kind), operation));
        assert_eq!(attribute(&span, "messaging.destination.name"), "mail");
        assert_eq!(attribute(&span, "messaging.message.id"), first["ref"].as_str().unwrap());
    }
    assert_eq!(attribute(&runs[0], "error.type"), attribute(&runs[0], "punctual.outcome"));
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

fn what_ends_without_a_report_is_told(server: &Server, collector: &Collector) {
    let [dead, cancelled] = ["2af7651916cd43dd8448eb211c80319c", "3af7651916cd43dd8448eb211c80319c"];
    let of = |trace: &str| format!("00-{trace}-{CALLER}-01");
    let root = |trace: &str| collector.named("task").into_iter().find(|span| span["traceId"] == trace);
    let ask = json!({ "queue": "silent", "max_attempts": 1, "traceparent": of(dead) });
    let task = server.insert(ask);
    assert_eq!(wait_for("a lease", || server.lease("silent", 1, 100).pop())["ref"], task["ref"]);
    let reported = wait_for("the end of the dead task's trace", || root(dead));
    assert_eq!((server.state(&task), &reported["status"]["code"]), ("dead".to_owned(), &json!(2)));
    let runs = collector.named("run").into_iter().filter(|span| span["traceId"] == dead).count();
    assert_eq!(runs, 1, "its attempt");

    let task =
        server.insert(json!({ "queue": "later", "delay_ms": 3_600_000, "traceparent": of(cancelled) }));
    let reference = task["ref"].as_str().unwrap();
    assert_eq!(server.post(&format!("/v1/tasks/{reference}/cancel"), json!({})).0, 200);
    let reported = wait_for("the end of the cancelled task's trace", || root(cancelled));
    assert_eq!(reported["status"], json!({}), "it is no failure");
}

#[test]
fn the_embedded_engine_tells_a_collector_the_whole_trace_of_a_task() {
    let (collector, data) = (Collector::start(JSON), tempfile::tempdir().unwrap());
    let secret = data.path().join("headers");
    std::fs::write(&secret, format!("authorization={SECRET}\n")).unwrap();
    let url = format!("traces.otlp_url={}", collector.url);
    let mut command = Server::command(data.path(), &["--set", &url]);
    command.args(["--set", &format!("traces.service_name={SERVICE}")]);
    let mut process = Running::start(command.env("PUNCTUAL_TRACES_HEADERS_FILE", &secret));
    let url = address(&process.first_line());
    let server = Server { process, url };
    a_trace_is_told(&server, &collector);
    what_ends_without_a_report_is_told(&server, &collector);
}

#[test]
fn an_engine_on_mysql_and_redis_tells_a_collector_of_the_environment_the_whole_trace_of_a_task() {
    let (collector, runtime) = (Collector::start(PROTOBUF), Runtime::new().unwrap());
    let (mysql, redis) = runtime.block_on(servers());
    let store_url = runtime.block_on(mysql.fresh_database());
    let mut command = punctual(&["serve", "--listen", "127.0.0.1:0", "--json", "--store-url", &store_url]);
    command.args(["--hot-url", &redis.url()]).env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url);
    command.env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf").env("OTEL_SERVICE_NAME", SERVICE);
    let secret = SECRET.replace(' ', "%20");
    command.env("OTEL_EXPORTER_OTLP_HEADERS", format!("authorization={secret}"));
    let mut process = Running::start(&mut command);
    let url = address(&process.first_line());
    let server = Server { process, url };
    a_trace_is_told(&server, &collector);
    what_ends_without_a_report_is_told(&server, &collector);
    a_message_leads_to_its_run(&server, &collector, &redis.url());
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
