//! A tiny server in this process that speaks the calls of a load test, to develop and test against; it can break each
//! promise on purpose. Keeps nothing, scales to thousands of tasks, and must never be taken for the engine.

use crate::clock::now_ms;
use parking_lot::Mutex;
use serde_json::{Value, json, value::RawValue};
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// The fault of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FakeFault {
    None,
    /// Hands out 40 ms before time.
    Early,
    /// Loses the tasks whose id is divisible by 10.
    Loses,
    /// Hands out again, and accepts again, what was completed.
    CompletesTwice,
    /// Every tenth task is handed over a second time before its first outcome: allowed.
    RunsAgain,
    /// Every fifth insert or report is done, and its connection closed without an answer: allowed.
    HangsUp,
    ChangesPayload,
    /// Knows none of the calls.
    Stranger,
    /// Answers 503 to every third insert or report: allowed.
    Overloaded,
}

#[derive(Debug)]
struct FakeTask {
    due_ms: i64,
    payload: Box<RawValue>,
    attempt: u32,
    is_done: bool,
}

#[derive(Debug)]
struct ServerState {
    fault: FakeFault,
    calls: u64,
    waiting: BTreeSet<(i64, i64)>,
    tasks: HashMap<i64, FakeTask>,
}

#[derive(Debug)]
pub(crate) struct Fake {
    pub(crate) url: String,
    /// Ends with it.
    _accepting: JoinSet<()>,
}

impl Fake {
    pub(crate) async fn start(fault: FakeFault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = ServerState { fault, calls: 0, waiting: BTreeSet::new(), tasks: HashMap::new() };
        let state = Arc::new(Mutex::new(state));
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                connections.spawn(serve(stream, Arc::clone(&state)));
            }
        });
        Self { url, _accepting: accepting }
    }
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<ServerState>>) {
    let mut buffer = Vec::new();
    while let Some((call, body)) = read_request(&mut stream, &mut buffer).await {
        let fate = state.lock().fate(&call);
        let (status, answer) = match fate {
            FakeFault::Overloaded => (503, String::new()),
            _ => handle(&state, &call, &body).await,
        };
        if fate == FakeFault::HangsUp {
            return;
        }
        let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", answer.len());
        if stream.write_all((head + &answer).as_bytes()).await.is_err() {
            return;
        }
    }
}

/// `POST /path`, and the body.
async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 16];
        let mut request = httparse::Request::new(&mut headers);
        if let Ok(httparse::Status::Complete(from)) = request.parse(buffer) {
            let length = request.headers.iter().find(|header| header.name == "content-length").unwrap();
            let length: usize = std::str::from_utf8(length.value).unwrap().parse().unwrap();
            let call = format!("{} {}", request.method.unwrap(), request.path.unwrap());
            if buffer.len() >= from + length {
                let body = buffer[from..from + length].to_vec();
                buffer.drain(..from + length);
                return Some((call, body));
            }
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

async fn handle(state: &Mutex<ServerState>, call: &str, body: &[u8]) -> (u16, String) {
    if state.lock().fault == FakeFault::Stranger {
        return (404, json!({ "detail": call }).to_string());
    }
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    if let Some(task_id) = call.strip_prefix("GET /v1/tasks?task_id=") {
        return (200, state.lock().find(task_id.parse().unwrap()));
    }
    match call {
        "POST /v1/tasks" => {
            let (status, task) = state.lock().insert(&body);
            (status, task.to_string())
        }
        "POST /v1/tasks/batch" => (200, state.lock().insert_batch(&body)),
        "POST /v1/outcomes" => (200, state.lock().outcomes(&body)),
        lease if lease.ends_with("/lease") => (200, wait_for_tasks(state, &body).await),
        other => (404, json!({ "detail": other }).to_string()),
    }
}

async fn wait_for_tasks(state: &Mutex<ServerState>, request: &Value) -> String {
    let until_ms = now_ms() + request["wait_ms"].as_i64().unwrap();
    let max = usize::try_from(request["max"].as_u64().unwrap()).unwrap();
    loop {
        let tasks = state.lock().lease(max);
        if !tasks.is_empty() || now_ms() >= until_ms {
            return json!({ "tasks": tasks }).to_string();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

impl ServerState {
    /// The treatment of the answer of this call. Lost leases are omitted: they never expire here.
    fn fate(&mut self, call: &str) -> FakeFault {
        if call.ends_with("/lease") {
            return FakeFault::None;
        }
        self.calls += 1;
        match self.fault {
            FakeFault::HangsUp if self.calls.is_multiple_of(5) => FakeFault::HangsUp,
            FakeFault::Overloaded if self.calls.is_multiple_of(3) => FakeFault::Overloaded,
            _ => FakeFault::None,
        }
    }

    fn insert(&mut self, wish: &Value) -> (u16, Value) {
        let (task_id, due_ms) = (wish["task_id"].as_i64().unwrap(), wish["execute_at_ms"].as_i64().unwrap());
        let outcome = if self.tasks.contains_key(&task_id) { "existing" } else { "created" };
        if outcome == "created" {
            let payload = RawValue::from_string(payload_text(wish)).unwrap();
            self.tasks.insert(task_id, FakeTask { due_ms, payload, attempt: 0, is_done: false });
            if self.fault != FakeFault::Loses || task_id % 10 != 0 {
                self.waiting.insert((due_ms, task_id));
            }
        }
        (if outcome == "created" { 201 } else { 200 }, json!({ "task_id": task_id, "outcome": outcome }))
    }

    fn insert_batch(&mut self, batch: &Value) -> String {
        let tasks = batch["tasks"].as_array().unwrap();
        let results = tasks.iter().map(|wish| {
            let (status, task) = self.insert(wish);
            json!({ "status": status, "task": task })
        });
        json!({ "results": results.collect::<Vec<_>>() }).to_string()
    }

    fn lease(&mut self, max: usize) -> Vec<Value> {
        let ahead_ms = if self.fault == FakeFault::Early { 40 } else { 0 };
        let due: Vec<_> = self.waiting.range(..=(now_ms() + ahead_ms, i64::MAX)).take(max).copied().collect();
        due.into_iter().map(|entry| self.hand_out(entry)).collect()
    }

    fn hand_out(&mut self, entry: (i64, i64)) -> Value {
        let task = self.tasks.get_mut(&entry.1).unwrap();
        task.attempt += 1;
        let comes_again = self.fault == FakeFault::RunsAgain && entry.1 % 10 == 0 && task.attempt == 1;
        if !comes_again {
            self.waiting.remove(&entry);
        }
        let payload = if self.fault == FakeFault::ChangesPayload { json!(null) } else { json!(task.payload) };
        json!({
            "ref": entry.1.to_string(), "token": task.attempt.to_string(), "task_id": entry.1, "attempt": task.attempt,
            "payload": payload, "execute_at_ms": task.due_ms, "fired_at_ms": now_ms(),
        })
    }

    fn outcomes(&mut self, report: &Value) -> String {
        let outcomes = report["outcomes"].as_array().unwrap();
        let results: Vec<Value> =
            outcomes.iter().map(|outcome| json!({ "status": self.outcome(outcome) })).collect();
        json!({ "results": results }).to_string()
    }

    fn outcome(&mut self, outcome: &Value) -> &'static str {
        let task_id: i64 = outcome["ref"].as_str().unwrap().parse().unwrap();
        let task = self.tasks.get_mut(&task_id).unwrap();
        let is_current = outcome["token"].as_str() == Some(&*task.attempt.to_string());
        if !is_current || task.is_done && self.fault != FakeFault::CompletesTwice {
            return "stale";
        }
        if self.fault == FakeFault::CompletesTwice && !task.is_done {
            self.waiting.insert((task.due_ms, task_id));
        }
        task.is_done = true;
        "accepted"
    }

    fn find(&self, task_id: i64) -> String {
        let found = self.tasks.get(&task_id);
        let phase = |task: &FakeTask| if task.is_done { "success" } else { "pending" };
        let items: Vec<Value> =
            found.into_iter().map(|task| json!({ "task_id": task_id, "phase": phase(task) })).collect();
        json!({ "items": items, "next_cursor": null }).to_string()
    }
}

/// Letter for letter as it was sent: `n` before `pad`, which a parsed object sorts the same way.
fn payload_text(wish: &Value) -> String {
    wish["payload"].to_string()
}
