//! Runs the binary and talks to it. Waits on conditions, up to the hang limit of all tests; never for a time.

use punctual_testkit::{
    patience::HANG_LIMIT,
    servers::{MariaDb, Redis},
};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::mpsc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::sync::OnceCell;

/// What `serve` asks of a server; those of the tests are faster by default.
pub(crate) const DURABLE: [&str; 1] = ["--innodb-flush-log-at-trx-commit=1"];
/// How soon `wait_for` looks again: less and less often, since a look asks a server or starts a program, and they and what is
/// waited for share the processors.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
const LOOK_AGAIN_MOST: Duration = Duration::from_millis(64);

/// The binary, without the settings of the user that runs the tests.
pub(crate) fn punctual(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PUNCTUAL_")) {
        command.env_remove(name);
    }
    // Nor with their profiles.
    command.env("XDG_CONFIG_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/no-settings"));
    command.args(args).stdin(Stdio::null());
    command
}

pub(crate) fn run(args: &[&str]) -> Output {
    punctual(args).output().unwrap()
}

/// What a program says that has to end by itself.
///
/// # Panics
/// When it has not ended before the hang limit. It is left running then: the test has failed.
#[track_caller]
pub(crate) fn ended_by_itself(command: &mut Command) -> Output {
    ended_in(command, HANG_LIMIT)
}

/// The same of a program that does much.
///
/// # Panics
/// As `ended_by_itself`, after this limit.
#[track_caller]
pub(crate) fn ended_in(command: &mut Command, limit: Duration) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (sender, ended) = mpsc::sync_channel(1);
    thread::spawn(move || sender.send(child.wait_with_output()));
    ended.recv_timeout(limit).expect("the program ends before its limit").unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// One JSON document a line.
pub(crate) fn documents(output: &Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Until `look` sees something.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    #[expect(clippy::disallowed_methods, reason = "a deadline of a test on real processes")]
    let begun = Instant::now();
    let mut pause = LOOK_AGAIN;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begun.elapsed() < HANG_LIMIT, "waited in vain for {what}");
        thread::park_timeout(pause);
        pause = (2 * pause).min(LOOK_AGAIN_MOST);
    }
}

/// A process that is killed when the test ends, however it ends.
pub(crate) struct Running {
    child: Child,
    /// What it says on stderr, read all along so that it never waits for a full pipe.
    said: Option<JoinHandle<String>>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let said = thread::spawn(move || {
            let mut said = Vec::new();
            stderr.read_to_end(&mut said).unwrap();
            String::from_utf8_lossy(&said).into_owned()
        });
        Self { child, said: Some(said) }
    }

    /// What it says on stdout goes there, and what it says on stderr nowhere.
    pub(crate) fn start_printing_to(command: &mut Command, stdout: impl Into<Stdio>) -> Self {
        let child = command.stdout(stdout).stderr(Stdio::null()).spawn().unwrap();
        Self { child, said: None }
    }

    /// What it says on stderr goes there.
    pub(crate) fn start_saying_to(command: &mut Command, stderr: impl Into<Stdio>) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        Self { child, said: None }
    }

    /// The first line of stdout; what follows is read and dropped.
    pub(crate) fn first_line(&mut self) -> String {
        self.try_first_line().unwrap_or_else(|said| panic!("nothing on stdout; stderr: {said}"))
    }

    /// The same of a process that may end without one: then what it said on stderr.
    pub(crate) fn try_first_line(&mut self) -> Result<String, String> {
        let mut lines = BufReader::new(self.child.stdout.take().unwrap());
        let mut first = String::new();
        lines.read_line(&mut first).unwrap();
        thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        if first.is_empty() {
            return Err(self.said.take().map(|handle| handle.join().unwrap()).unwrap_or_default());
        }
        Ok(first)
    }

    /// As `head -1` reads it: then no reader reads stdout any more.
    pub(crate) fn only_first_line(&mut self) -> String {
        let mut first = String::new();
        BufReader::new(self.child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        first
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    pub(crate) fn ended(&mut self) -> ExitStatus {
        wait_for("the end of the process", || self.child.try_wait().unwrap())
    }

    /// And what it has said on stderr.
    pub(crate) fn ended_saying(&mut self) -> (ExitStatus, String) {
        (self.ended(), self.said.take().map(|handle| handle.join().unwrap()).unwrap_or_default())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server on a free port.
pub(crate) struct Server {
    pub(crate) process: Running,
    pub(crate) url: String,
}

impl Server {
    pub(crate) fn start(data: &Path) -> Self {
        Self::start_with(data, &[])
    }

    pub(crate) fn start_with(data: &Path, args: &[&str]) -> Self {
        let mut process = Running::start(&mut Self::command(data, args));
        let url = address(&process.first_line());
        Self { process, url }
    }

    /// Its log goes there.
    pub(crate) fn start_saying_to(data: &Path, args: &[&str], stderr: impl Into<Stdio>) -> Self {
        let mut process = Running::start_saying_to(&mut Self::command(data, args), stderr);
        let url = address(&process.first_line());
        Self { process, url }
    }

    pub(crate) fn command(data: &Path, args: &[&str]) -> Command {
        let base = ["serve", "--listen", "127.0.0.1:0", "--json", "--data", data.to_str().unwrap()];
        punctual(&[&base[..], args].concat())
    }

    /// The value of a metric without labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.page("/metrics");
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    pub(crate) fn on_new_data() -> (Self, TempDir) {
        let data = tempfile::tempdir().unwrap();
        (Self::start(data.path()), data)
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        self.call("GET", path, None)
    }

    pub(crate) fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.call("POST", path, Some(body))
    }

    pub(crate) fn put(&self, path: &str, body: Value) -> (u16, Value) {
        self.call("PUT", path, Some(body))
    }

    fn call(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let url = format!("{}{path}", self.url);
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        blocking(async move {
            let mut request = http().request(method, url).timeout(HANG_LIMIT);
            if let Some(body) = body {
                request = request.json(&body);
            }
            let response = request.send().await.unwrap();
            let status = response.status().as_u16();
            let bytes = response.bytes().await.unwrap();
            (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
        })
    }

    /// As a caller without token and browser sees it.
    pub(crate) fn page(&self, path: &str) -> String {
        let url = format!("{}{path}", self.url);
        blocking(
            async move { http().get(url).timeout(HANG_LIMIT).send().await.unwrap().text().await.unwrap() },
        )
    }

    /// The command with this server's address, its answer as JSON.
    pub(crate) fn client(&self, args: &[&str]) -> Output {
        run(&[args, &["--url", &self.url, "--json"]].concat())
    }

    /// Inserts one task and answers it.
    pub(crate) fn insert(&self, task: Value) -> Value {
        let (status, task) = self.post("/v1/tasks", task);
        assert_eq!(status, 201, "{task}");
        task
    }

    pub(crate) fn lease(&self, queue: &str, max: u32, lease_ms: u32) -> Vec<Value> {
        let body =
            serde_json::json!({ "max": max, "wait_ms": 2_000, "lease_ms": lease_ms, "executor": "test" });
        let (status, answer) = self.post(&format!("/v1/queues/{queue}/lease"), body);
        assert_eq!(status, 200, "{answer}");
        answer["tasks"].as_array().unwrap().clone()
    }

    pub(crate) fn succeed(&self, task: &Value) -> String {
        let outcome =
            serde_json::json!({ "ref": task["ref"], "token": task["token"], "outcome": "succeeded" });
        let (status, answer) = self.post("/v1/outcomes", serde_json::json!({ "outcomes": [outcome] }));
        assert_eq!(status, 200, "{answer}");
        answer["results"][0]["status"].as_str().unwrap().to_owned()
    }

    pub(crate) fn state(&self, task: &Value) -> String {
        let (_, task) = self.get(&format!("/v1/tasks/{}", task["ref"].as_str().unwrap()));
        task["state"].as_str().unwrap_or_default().to_owned()
    }
}

/// Of the API, from the first line.
pub(crate) fn address(first_line: &str) -> String {
    let first: Value = serde_json::from_str(first_line).unwrap();
    first["api"].as_str().unwrap().trim_end_matches("/v1").to_owned()
}

/// A client of plain HTTP, which needs no authorities of the machine.
pub(crate) fn http() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().tls_certs_only([]).build().unwrap()
}

/// A MariaDB that `serve` takes. Shared: take a fresh database, and never stop it.
pub(crate) async fn mariadb() -> &'static MariaDb {
    static ONE: OnceCell<MariaDb> = OnceCell::const_new();
    ONE.get_or_init(|| MariaDb::with(&DURABLE)).await
}

/// That one, and a Redis of the caller's own.
pub(crate) async fn servers() -> (&'static MariaDb, Redis) {
    (mariadb().await, Redis::own().await)
}

pub(crate) fn blocking<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
