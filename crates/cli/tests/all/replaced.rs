//! Engines that are replaced one after the other under load, as docs/upgrade.md says it: the schema first, then each engine.
//! With `PUNCTUAL_RELEASED_BINARY` the ones that are replaced are of that version (the drill of the page); without, all are of
//! this one, and the migrations that came after the first release are carried out once more while they work.
//! What a replacement costs in lateness is a figure of `scripts/bench`.

use crate::binary::{Running, Server, address, documents, http, punctual, run, servers, stderr, wait_for};
use parking_lot::Mutex;
use punctual_testkit::servers::{MariaDb, Redis};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{runtime::Runtime, task::JoinSet};

const ENGINES: usize = 3;
const INSERTERS: i64 = 2;
const EXECUTORS: usize = 4;
const QUEUE: &str = "rolling";
/// Each inserter's pace, and that of the caller again.
const PACE: Duration = Duration::from_millis(20);
/// Tasks that run between one replacement and the next.
const BETWEEN: usize = 100;
/// The first migration that 0.1.0 did not have.
const FIRST_AFTER_RELEASE: &str = "0018_cluster";

/// Who inserts and who executes, through whichever engine answers.
struct Load {
    client: reqwest::Client,
    urls: Mutex<Vec<String>>,
    inserted: AtomicUsize,
    is_over: AtomicBool,
    /// By task: how long after its time it fired, for each time that it ran.
    ran: Mutex<BTreeMap<i64, Vec<i64>>>,
}

impl Load {
    /// Through one engine after the other, until one answers as it should.
    async fn post(&self, at_first: usize, path: &str, body: &Value) -> Value {
        let mut pace = tokio::time::interval(PACE);
        for nth in at_first.. {
            let url = {
                let urls = self.urls.lock();
                format!("{}{path}", urls[nth % urls.len()])
            };
            if let Ok(answer) = self.client.post(url).json(body).send().await
                && answer.status().is_success()
                && let Ok(answer) = answer.json().await
            {
                return answer;
            }
            pace.tick().await;
        }
        unreachable!("it asks for ever")
    }

    async fn insert(&self, first: i64) {
        let mut pace = tokio::time::interval(PACE);
        for task_id in (first..).step_by(usize::try_from(INSERTERS).unwrap()) {
            pace.tick().await;
            if self.is_over.load(SeqCst) {
                return;
            }
            let delay_ms = 500 + task_id * 37 % 1_500;
            let task = json!({ "queue": QUEUE, "task_id": task_id, "delay_ms": delay_ms });
            self.post(usize::try_from(task_id).unwrap(), "/v1/tasks", &task).await;
            self.inserted.fetch_add(1, SeqCst);
        }
    }

    async fn execute(&self, nth: usize) {
        let ask = json!({ "max": 20, "wait_ms": 500, "lease_ms": 10_000, "executor": format!("e{nth}") });
        loop {
            let leased = self.post(nth, &format!("/v1/queues/{QUEUE}/lease"), &ask).await;
            let tasks = leased["tasks"].as_array().unwrap();
            for task in tasks {
                let late = task["fired_at_ms"].as_i64().unwrap() - task["execute_at_ms"].as_i64().unwrap();
                self.ran.lock().entry(task["task_id"].as_i64().unwrap()).or_default().push(late);
            }
            let outcome =
                |task: &Value| json!({ "ref": task["ref"], "token": task["token"], "outcome": "succeeded" });
            let outcomes: Vec<Value> = tasks.iter().map(outcome).collect();
            if !outcomes.is_empty() {
                self.post(nth, "/v1/outcomes", &json!({ "outcomes": outcomes })).await;
            }
        }
    }

    fn has_run(&self) -> usize {
        self.ran.lock().len()
    }

    /// It continues.
    fn goes_on(&self) {
        let before = self.has_run();
        wait_for("the load", || (self.has_run() >= before + BETWEEN).then_some(()));
    }
}

struct Cluster {
    runtime: Runtime,
    mysql: &'static MariaDb,
    redis: Redis,
    store_url: String,
    /// Of the version that is replaced.
    old: Option<OsString>,
}

impl Cluster {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let (mysql, redis) = runtime.block_on(servers());
        let store_url = runtime.block_on(mysql.fresh_database());
        Self { runtime, mysql, redis, store_url, old: std::env::var_os("PUNCTUAL_RELEASED_BINARY") }
    }

    fn old_is_first_release(&self) -> bool {
        self.old.as_ref().is_some_and(|program| {
            let version = Command::new(program).arg("--version").output().expect("it is a program");
            String::from_utf8_lossy(&version.stdout).contains(" 0.1.")
        })
    }

    fn engine(&self, mut command: Command) -> Server {
        command.args(["--store-url", &self.store_url, "--hot-url", &self.redis.url()]);
        let mut process = Running::start(&mut command);
        let url = address(&process.first_line());
        Server { process, url }
    }

    fn new_engine(&self) -> Server {
        self.engine(punctual(&["serve", "--listen", "127.0.0.1:0", "--json"]))
    }

    fn old_engine(&self) -> Server {
        let Some(old) = &self.old else { return self.new_engine() };
        let mut command = Command::new(old);
        command.args(["serve", "--listen", "127.0.0.1:0", "--json"]);
        self.engine(command)
    }

    /// As the first step of the page, while the old engines work. What was applied.
    fn migrate(&self) -> String {
        if self.old.is_none() {
            let forget = format!("DELETE FROM migration WHERE name >= '{FIRST_AFTER_RELEASE}'");
            let database = self.store_url.rsplit('/').next().unwrap();
            self.runtime.block_on(self.mysql.sql(database, &forget));
        }
        let hot = self.redis.url();
        let migrated = run(&["migrate", "--store-url", &self.store_url, "--hot-url", &hot, "--json"]);
        assert!(migrated.status.success(), "{}", stderr(&migrated));
        documents(&migrated).remove(0).to_string()
    }

    /// How many engines have partitions, by leases that are not over.
    fn owners(&self) -> usize {
        let database = self.store_url.rsplit('/').next().unwrap();
        let now = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000";
        let owners = format!("SELECT COUNT(DISTINCT engine) FROM owner WHERE held_until > {now}");
        self.runtime.block_on(self.mysql.sql(database, &owners)).trim().parse().unwrap()
    }

    fn start(&self, load: &Arc<Load>) -> JoinSet<()> {
        let mut all = JoinSet::new();
        let on = self.runtime.handle();
        for first in 1..=INSERTERS {
            let load = Arc::clone(load);
            all.spawn_on(async move { load.insert(first).await }, on);
        }
        for nth in 0..EXECUTORS {
            let load = Arc::clone(load);
            all.spawn_on(async move { load.execute(nth).await }, on);
        }
        all
    }
}

/// Of this kind, as an engine tells them.
fn events(server: &Server, kind: &str) -> Vec<Value> {
    let (status, page) = server.get(&format!("/v1/events?event={kind}"));
    assert_eq!(status, 200, "{page}");
    page["items"].as_array().unwrap().clone()
}

fn owns_some(server: &Server) -> Option<()> {
    (server.metric("punctual_partitions_owned") > 0.0).then_some(())
}

#[test]
fn engines_are_replaced_one_after_the_other_under_load() {
    let cluster = Cluster::new();
    let mut engines: Vec<Server> = (0..ENGINES).map(|_| cluster.old_engine()).collect();
    engines.iter().for_each(|engine| wait_for("its share", || owns_some(engine)));
    let load = Arc::new(Load {
        client: http(),
        urls: Mutex::new(engines.iter().map(|engine| engine.url.clone()).collect()),
        inserted: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
        ran: Mutex::default(),
    });
    let working = cluster.start(&load);
    load.goes_on();
    let applied = cluster.migrate();
    let has_been_applied = cluster.old.is_some() && !cluster.old_is_first_release();
    assert!(has_been_applied || applied.contains(FIRST_AFTER_RELEASE), "{applied}");
    load.goes_on();
    for (nth, engine) in engines.iter_mut().enumerate() {
        engine.process.signal("-TERM");
        assert!(engine.process.ended().success());
        // The engine that takes over has no lease of a dead engine to wait for.
        assert!(cluster.owners() < ENGINES, "what ends in order has given up its partitions");
        *engine = cluster.new_engine();
        load.urls.lock()[nth].clone_from(&engine.url);
        wait_for("its share", || owns_some(engine));
        load.goes_on();
    }
    load.is_over.store(true, SeqCst);
    let succeeded = format!("punctual_tasks{{namespace=\"default\",queue=\"{QUEUE}\",state=\"succeeded\"}}");
    wait_for("all that was inserted", || {
        let inserted = load.inserted.load(SeqCst);
        (load.has_run() >= inserted && engines[0].metric(&succeeded) >= inserted as f64).then_some(())
    });
    drop(working);
    assert_eq!(engines[0].metric("punctual_tasks_unaccounted"), 0.0);
    let ran = load.ran.lock();
    let again = ran.values().filter(|times| times.len() > 1).count();
    let lateness: Vec<i64> = ran.values().flatten().copied().collect();
    let (least, most) = (lateness.iter().min().unwrap(), lateness.iter().max().unwrap());
    println!("{} tasks ran, {again} of them again; the latest fired {most} ms late", ran.len());
    assert!(*least >= 0, "{least} ms early");
    assert_eq!(events(&engines[0], "engine_lost"), Vec::<Value>::new(), "no engine was taken for dead");
    // Those of the first release tell no events.
    let stopped = if cluster.old_is_first_release() { 0 } else { ENGINES };
    assert_eq!(events(&engines[0], "engine_stopped").len(), stopped, "each ended in order");
}
