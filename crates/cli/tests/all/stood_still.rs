//! An engine that is frozen for longer than its callers' patience: tasks that may run once only are not given to
//! executors that have hung up meanwhile.

use crate::binary::{Running, Server, address, punctual, servers, wait_for};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{SystemTime, UNIX_EPOCH},
};

const TASKS: usize = 200;
const CALLERS: usize = 20;
/// From the insert to the first task: all have called by then.
const FIRST_MS: usize = 2_500;
const APART_MS: usize = 10;

#[expect(clippy::disallowed_methods, reason = "tasks fall due while the engine cannot be asked for the time")]
fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// Executors that ask for tasks and wait for them.
fn callers(server: &Server, wait_ms: u32) -> Vec<TcpStream> {
    let call = |_| {
        let host = server.url.trim_start_matches("http://");
        let body =
            json!({ "max": 10, "wait_ms": wait_ms, "lease_ms": 60_000, "executor": "gone" }).to_string();
        let head =
            format!("POST /v1/queues/q/lease HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json");
        let mut stream = TcpStream::connect(host).unwrap();
        write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        stream
    };
    (0..CALLERS).map(call).collect()
}

/// What had come on a connection when the engine was stopped.
fn heard(mut stream: TcpStream) -> String {
    stream.set_nonblocking(true).unwrap();
    let mut heard = Vec::new();
    // There is no end of it: what has come is kept, and the error says that it is all.
    drop(stream.read_to_end(&mut heard));
    String::from_utf8_lossy(&heard).into_owned()
}

fn once_only(nth: usize) -> Value {
    json!({ "queue": "q", "max_attempts": 1, "delay_ms": FIRST_MS + nth * APART_MS })
}

fn whoever_hung_up_meanwhile_took_no_task_along(server: &Server) {
    wait_for("ready", || (server.get("/readyz").0 == 200).then_some(()));
    let tasks: Vec<Value> = (0..TASKS).map(once_only).collect();
    let (status, answer) = server.post("/v1/tasks/batch", json!({ "tasks": tasks }));
    assert_eq!(status, 200);
    let inserted = answer["results"].as_array().unwrap();
    let last_ms =
        inserted.iter().map(|entry| entry["task"]["execute_at_ms"].as_i64().unwrap()).max().unwrap();
    let first_ms = last_ms - i64::try_from((TASKS - 1) * APART_MS).unwrap();
    let mut left: BTreeSet<String> =
        inserted.iter().map(|entry| entry["task"]["ref"].as_str().unwrap().to_owned()).collect();
    let mut waited = callers(server, 20_000);
    wait_for("the first to be near", || (now_ms() >= first_ms - 100).then_some(()));
    // The time for which these wait is over when it continues: they take what there is by then.
    waited.extend(callers(server, 1_000));
    server.process.signal("-STOP");
    let called_meanwhile = callers(server, 1_000);
    wait_for("all to be due", || (now_ms() > last_ms).then_some(()));
    drop(called_meanwhile);
    // On a slow machine some have had theirs before it stood still.
    let heard: String = waited.into_iter().map(heard).collect();
    left.retain(|text| !heard.contains(text.as_str()));
    server.process.signal("-CONT");
    while !left.is_empty() {
        let leased = wait_for("the tasks that are left", || {
            let leased = server.lease("q", 50, 60_000);
            (!leased.is_empty()).then_some(leased)
        });
        for task in leased {
            assert!(left.remove(task["ref"].as_str().unwrap()), "it came twice: {task}");
            assert_eq!(task["attempt"], 1, "{task}");
            assert_eq!(server.succeed(&task), "accepted");
        }
    }
}

#[test]
fn whoever_hung_up_while_the_embedded_engine_stood_still_took_no_task_along() {
    let (server, _data) = Server::on_new_data();
    whoever_hung_up_meanwhile_took_no_task_along(&server);
}

#[test]
fn whoever_hung_up_while_an_engine_on_mysql_and_redis_stood_still_took_no_task_along() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (mysql, redis) = runtime.block_on(servers());
    let (store, hot) = (runtime.block_on(mysql.fresh_database()), redis.url());
    let args = ["serve", "--listen", "127.0.0.1:0", "--json", "--store-url", &store, "--hot-url", &hot];
    let mut process = Running::start(&mut punctual(&args));
    let url = address(&process.first_line());
    whoever_hung_up_meanwhile_took_no_task_along(&Server { process, url });
}
