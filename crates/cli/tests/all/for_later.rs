//! The program while its database is unavailable: what executors have done is acknowledged, and outlives the engine. On a MariaDB that is
//! killed, and on the embedded store whose disk is full.

use crate::{
    binary::{DURABLE, Running, Server, address, blocking, http, punctual, wait_for},
    full_disk::Disk,
};
use parking_lot::Mutex;
use punctual_testkit::{patience::HANG_LIMIT, servers::MariaDb};
use serde_json::{Value, json};
use std::{
    collections::HashSet,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::JoinHandle,
};

fn started(store: &str, data: &Path) -> Server {
    let data = data.to_str().unwrap();
    let args = ["serve", "--listen", "127.0.0.1:0", "--json", "--store-url", store, "--data", data];
    let mut process = Running::start(&mut punctual(&args));
    Server { url: address(&process.first_line()), process }
}

fn leased(server: &Server, count: usize, lease_ms: u32) -> Vec<Value> {
    for _ in 0..count {
        server.insert(json!({ "queue": "q", "max_attempts": 3 }));
    }
    let mut leased = Vec::new();
    wait_for("all tasks", || {
        leased.extend(server.lease("q", 10, lease_ms));
        (leased.len() == count).then_some(())
    });
    leased
}

/// Due at one instant, a few seconds ahead.
fn preloaded(server: &Server, count: usize) -> Vec<String> {
    let insert = |_| server.insert(json!({ "queue": "q", "max_attempts": 3, "delay_ms": 2_000 }));
    (0..count).map(insert).map(|task| task["ref"].as_str().unwrap().to_owned()).collect()
}

fn hands_over(server: &Server) {
    let (status, answer) = server.put("/v1/queues/q", json!({ "while_store_is_away": "hand_over" }));
    assert_eq!(status, 200, "{answer}");
}

/// Each once.
fn are_handed_over(server: &Server, refs: &[String]) -> Vec<Value> {
    let mut leased = Vec::new();
    wait_for("all tasks", || {
        leased.extend(server.lease("q", 10, 600_000));
        (leased.len() == refs.len()).then_some(())
    });
    let mut given: Vec<&str> = leased.iter().map(|task| task["ref"].as_str().unwrap()).collect();
    let mut wanted: Vec<&str> = refs.iter().map(String::as_str).collect();
    given.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(given, wanted);
    leased
}

fn has_ended_well(server: &Server, task: &Value) {
    let of = task["ref"].as_str().unwrap();
    let ended = wait_for("the end", || {
        let (status, task) = server.get(&format!("/v1/tasks/{of}"));
        (status == 200 && task["state"] == "succeeded").then_some(task)
    });
    assert_eq!(ended["attempt"], 1, "it did not run again: {ended}");
}

#[test]
fn what_was_reported_while_mysql_was_away_and_the_engine_was_killed_does_not_run_again() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mysql = runtime.block_on(MariaDb::with(&DURABLE));
    let store = runtime.block_on(mysql.fresh_database());
    let data = tempfile::tempdir().unwrap();
    let mut server = started(&store, data.path());
    let tasks = leased(&server, 4, 5_000);
    mysql.kill();
    for task in &tasks[..3] {
        assert_eq!(server.succeed(task), "accepted_for_later");
    }
    assert_eq!(server.succeed(&tasks[0]), "accepted_for_later", "again");
    assert_eq!(server.metric("punctual_outcomes_journal_waiting"), 3.0);
    server.process.signal("-KILL");
    server.process.ended();
    runtime.block_on(mysql.start_again());
    let server = started(&store, data.path());
    for task in &tasks[..3] {
        has_ended_well(&server, task);
    }
    // Unreported tasks run again, and nothing else does.
    let again = wait_for("the lease to end", || server.lease("q", 10, 600_000).pop());
    assert_eq!((&again["ref"], &again["attempt"]), (&tasks[3]["ref"], &json!(2)));
    assert_eq!(server.metric("punctual_outcomes_journal_waiting"), 0.0);
    assert_eq!(server.succeed(&tasks[0]), "stale");
}

#[test]
fn what_was_reported_while_the_disk_of_the_store_was_full_is_applied_with_room_again() {
    let (disk, elsewhere) = (Disk::new("16m"), tempfile::tempdir().unwrap());
    let directory = format!("journal.directory={}", elsewhere.path().display());
    let server = Server::start_with(disk.path(), &["--set", &directory]);
    let tasks = leased(&server, 2, 600_000);
    let filler = disk.fill();
    let long = json!({ "sent": "x".repeat(20_000) });
    let report = |task: &Value| {
        let (of, token) = (&task["ref"], &task["token"]);
        let outcome = json!({ "ref": of, "token": token, "outcome": "succeeded", "result": long });
        server.post("/v1/outcomes", json!({ "outcomes": [outcome] }))
    };
    // Until the last page is full the store takes some.
    wait_for("a disk that is full", || {
        let (status, _) = server.post("/v1/tasks", json!({ "queue": "q2", "payload": "x".repeat(20_000) }));
        (status != 201).then_some(())
    });
    for task in &tasks {
        let (status, answer) = report(task);
        assert_eq!(
            (status, &answer["results"][0]["status"]),
            (200, &json!("accepted_for_later")),
            "{answer}"
        );
    }
    std::fs::remove_file(filler).unwrap();
    for task in &tasks {
        has_ended_well(&server, task);
    }
}

/// It is frozen, and connections stay open.
#[test]
fn what_is_preloaded_is_handed_over_while_mysql_stands_still() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mysql = runtime.block_on(MariaDb::with(&DURABLE));
    let store = runtime.block_on(mysql.fresh_database());
    let data = tempfile::tempdir().unwrap();
    let server = started(&store, data.path());
    hands_over(&server);
    let refs = preloaded(&server, 10);
    mysql.pause();
    let tasks = are_handed_over(&server, &refs);
    for task in &tasks[..9] {
        assert_eq!(server.succeed(task), "accepted_for_later");
    }
    assert_eq!(server.metric("punctual_handed_over_while_away_total"), 10.0);
    assert_eq!(server.metric("punctual_handed_over_while_away_waiting"), 10.0);
    mysql.resume();
    for task in &tasks[..9] {
        has_ended_well(&server, task);
    }
    wait_for("its lease to be written", || (server.state(&tasks[9]) == "dispatched").then_some(()));
    assert_eq!(server.succeed(&tasks[9]), "accepted");
    has_ended_well(&server, &tasks[9]);
    assert_eq!(server.metric("punctual_handed_over_while_away_written_total"), 10.0);
    assert_eq!(server.metric("punctual_handed_over_while_away_refused_total"), 0.0);
    assert!(server.lease("q", 10, 600_000).is_empty());
}

#[test]
fn what_was_handed_over_while_mysql_was_away_and_the_engine_was_killed_does_not_run_again() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mysql = runtime.block_on(MariaDb::with(&DURABLE));
    let store = runtime.block_on(mysql.fresh_database());
    let data = tempfile::tempdir().unwrap();
    let mut server = started(&store, data.path());
    hands_over(&server);
    let refs = preloaded(&server, 6);
    mysql.kill();
    let tasks = are_handed_over(&server, &refs);
    for task in &tasks[..5] {
        assert_eq!(server.succeed(task), "accepted_for_later");
    }
    server.process.signal("-KILL");
    server.process.ended();
    runtime.block_on(mysql.start_again());
    let server = started(&store, data.path());
    for task in &tasks[..5] {
        has_ended_well(&server, task);
    }
    // Its executor has it still, by the lease that the journal knew.
    wait_for("its lease to be written", || (server.state(&tasks[5]) == "dispatched").then_some(()));
    assert_eq!(server.succeed(&tasks[5]), "accepted");
    has_ended_well(&server, &tasks[5]);
    assert_eq!(server.metric("punctual_outcomes_journal_waiting"), 0.0);
}

/// What one executor has seen: each task that it was given, with its attempt, and each outcome that was acknowledged.
#[derive(Default)]
struct ExecutorRecord {
    executed: Vec<(String, u64)>,
    /// Acknowledged, and how many tasks were executed before.
    acknowledged: Vec<(String, usize)>,
    for_later: usize,
}

/// A task whose executor and engine both end runs again after so long.
const LEASE_MS: u32 = 30_000;

/// Takes tasks and reports on them until its engine is gone, or the test is over. Answers the task of which it was not heard.
fn work(
    url: String,
    seen: Arc<Mutex<ExecutorRecord>>,
    is_over: Arc<AtomicBool>,
) -> JoinHandle<Option<Value>> {
    std::thread::spawn(move || {
        let post = |path: &str, body: Value| {
            let url = format!("{url}{path}");
            blocking(async move {
                let sent = http().post(url).json(&body).timeout(HANG_LIMIT).send().await.ok()?;
                let is_good = sent.status().is_success();
                Some((is_good, sent.json::<Value>().await.ok()?))
            })
        };
        while !is_over.load(SeqCst) {
            let wanted = json!({ "max": 1, "wait_ms": 200, "lease_ms": LEASE_MS, "executor": "load" });
            let (is_good, leased) = post("/v1/queues/q/lease", wanted)?;
            if !is_good {
                continue;
            }
            for task in leased["tasks"].as_array().unwrap() {
                let of = task["ref"].as_str().unwrap().to_owned();
                seen.lock().executed.push((of.clone(), task["attempt"].as_u64().unwrap()));
                let outcome = json!({ "ref": of, "token": task["token"], "outcome": "succeeded" });
                // It reports until it is heard.
                loop {
                    let Some((_, answer)) = post("/v1/outcomes", json!({ "outcomes": [outcome] })) else {
                        return Some(task.clone());
                    };
                    let Some(status) = answer["results"][0]["status"].as_str() else { continue };
                    let mut seen = seen.lock();
                    if ["accepted", "accepted_for_later"].contains(&status) {
                        let before = seen.executed.len();
                        seen.acknowledged.push((of.clone(), before));
                    }
                    seen.for_later += usize::from(status == "accepted_for_later");
                    break;
                }
            }
        }
        None
    })
}

/// MySQL is stopped under load; executors continue with what is preloaded, and the engine is killed while it journals their outcomes.
/// Nothing is executed again that had been acknowledged.
#[test]
fn under_load_nothing_that_had_reported_runs_again_when_mysql_stood_still_and_the_engine_was_killed() {
    const TASKS: usize = 200;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mysql = runtime.block_on(MariaDb::with(&DURABLE));
    let store = runtime.block_on(mysql.fresh_database());
    let data = tempfile::tempdir().unwrap();
    let mut server = started(&store, data.path());
    hands_over(&server);
    // Due over six seconds.
    let task = |nth: usize| json!({ "queue": "q", "max_attempts": 9, "delay_ms": 500 + nth * 6_000 / TASKS });
    let refs: Vec<String> =
        (0..TASKS).map(|nth| server.insert(task(nth))["ref"].as_str().unwrap().to_owned()).collect();
    let seen: Arc<Mutex<ExecutorRecord>> = Arc::default();
    let is_over: Arc<AtomicBool> = Arc::default();
    let crew = |url: &str| -> Vec<JoinHandle<Option<Value>>> {
        (0..4).map(|_| work(url.to_owned(), Arc::clone(&seen), Arc::clone(&is_over))).collect()
    };
    let first = crew(&server.url);
    wait_for("some are executed", || (seen.lock().executed.len() >= 10).then_some(()));
    mysql.pause();
    wait_for("outcomes are journalled", || (seen.lock().for_later >= 40).then_some(()));
    server.process.signal("-KILL");
    server.process.ended();
    let unheard: Vec<Value> = first.into_iter().filter_map(|executor| executor.join().unwrap()).collect();
    mysql.resume();
    let server = started(&store, data.path());
    for task in &unheard {
        assert!(["accepted", "accepted_for_later", "stale"].contains(&server.succeed(task).as_str()));
    }
    let second = crew(&server.url);
    for of in &refs {
        wait_for("the end", || {
            let (status, task) = server.get(&format!("/v1/tasks/{of}"));
            (status == 200 && task["state"] == "succeeded").then_some(())
        });
    }
    is_over.store(true, SeqCst);
    second.into_iter().for_each(|executor| assert_eq!(executor.join().unwrap(), None));
    let seen = seen.lock();
    for (of, executed_before) in &seen.acknowledged {
        let again = seen.executed.iter().skip(*executed_before).find(|(other, _)| other == of);
        assert_eq!(again, None, "it had reported");
    }
    let attempts: HashSet<&(String, u64)> = seen.executed.iter().collect();
    assert_eq!(attempts.len(), seen.executed.len(), "each attempt once");
    assert_eq!(server.metric("punctual_outcomes_journal_waiting"), 0.0);
}
