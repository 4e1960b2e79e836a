//! A log that cannot be written: a pipe that is closed, one that no reader reads. Tasks fire all the same, signals are
//! obeyed, and what was lost is counted.

use crate::binary::{DURABLE, Running, Server, address, http, punctual, servers, wait_for};
use jiff::Timestamp;
use punctual_testkit::{
    patience::{HANG_LIMIT, a_moment},
    servers::{MariaDb, Redis},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// So that every request is a line.
const TALKATIVE: [&str; 2] = ["--log-filter", "debug"];

fn a_task_fires(server: &Server) {
    let task = server.insert(json!({ "queue": "q", "delay_ms": 100 }));
    let leased = wait_for("the task", || server.lease("q", 1, 600_000).pop());
    assert_eq!(leased["ref"], task["ref"]);
    assert_eq!(server.succeed(&leased), "accepted");
}

#[test]
fn a_server_whose_stdout_and_stderr_are_closed_fires_and_obeys_signals() {
    for signal in ["-TERM", "-INT"] {
        let data = tempfile::tempdir().unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        // `serve 2>&1 | head -1`
        let mut process = Running::start_saying_to(&mut Server::command(data.path(), &TALKATIVE), writer);
        let url = address(&process.only_first_line());
        drop(reader);
        let mut server = Server { process, url };
        a_task_fires(&server);
        assert_eq!(server.get("/readyz").0, 200);
        wait_for("lines that are lost", || {
            (server.metric("punctual_log_lines_lost_total") > 0.0).then_some(())
        });
        assert_eq!(server.metric("punctual_panics_total"), 0.0);
        let (_, alerts) = server.get("/v1/alerts");
        assert!(alerts.to_string().contains("log_lines_lost"), "{alerts}");
        server.process.signal(signal);
        assert_eq!(server.process.ended().code(), Some(0), "{signal}");
    }
}

#[test]
fn a_log_that_nobody_reads_holds_up_nothing() {
    let data = tempfile::tempdir().unwrap();
    let (unread, writer) = std::io::pipe().unwrap();
    let mut server = Server::start_saying_to(data.path(), &TALKATIVE, writer);
    // Each is a line of two kilobytes; a pipe takes 64.
    let long = format!("/v1/{}", "x".repeat(2_000));
    for _ in 0..100 {
        assert_eq!(server.get(&long).0, 404);
    }
    a_task_fires(&server);
    assert_eq!(server.get("/readyz").0, 200);
    server.process.signal("-TERM");
    assert_eq!(server.process.ended().code(), Some(0));
    drop(unread);
}

/// What fails then is logged by the services that fire, hear and own; none of them may end of it.
#[test]
fn a_closed_log_and_a_redis_that_is_frozen_for_a_while_end_no_service() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (mysql, redis) = runtime.block_on(servers());
    let (store, hot) = (runtime.block_on(mysql.fresh_database()), redis.url());
    let args = ["serve", "--listen", "127.0.0.1:0", "--json", "--store-url", &store, "--hot-url", &hot];
    let (reader, writer) = std::io::pipe().unwrap();
    let mut process = Running::start_saying_to(&mut punctual(&args), writer);
    let url = address(&process.only_first_line());
    drop(reader);
    let mut server = Server { process, url };
    a_task_fires(&server);
    redis.pause();
    wait_for("the engine to see it", || (server.metric("punctual_hot_away") > 0.0).then_some(()));
    let meanwhile = server.insert(json!({ "queue": "q", "delay_ms": 100 }));
    redis.resume();
    wait_for("the engine to see it", || (server.metric("punctual_hot_away") == 0.0).then_some(()));
    let leased = wait_for("the task", || server.lease("q", 1, 600_000).pop());
    assert_eq!(leased["ref"], meanwhile["ref"]);
    assert_eq!(server.succeed(&leased), "accepted");
    for _ in 0..10 {
        a_task_fires(&server);
    }
    assert_eq!(server.metric("punctual_panics_total"), 0.0);
    wait_for("ready", || (server.get("/readyz").0 == 200).then_some(()));
    server.process.signal("-TERM");
    assert_eq!(server.process.ended().code(), Some(0));
}

/// An engine on servers of its own, whose log is read as documents.
struct Flooded {
    runtime: tokio::runtime::Runtime,
    mysql: MariaDb,
    redis: Redis,
    server: Server,
}

impl Flooded {
    fn new() -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (mysql, redis) = runtime.block_on(async { (MariaDb::with(&DURABLE).await, Redis::own().await) });
        let (store, hot) = (runtime.block_on(mysql.fresh_database()), redis.url());
        let args = ["serve", "--listen", "127.0.0.1:0", "--json", "--store-url", &store, "--hot-url", &hot];
        let mut process = Running::start(punctual(&args).env("PUNCTUAL_LOG_FORMAT", "json"));
        let server = Server { url: address(&process.first_line()), process };
        a_task_fires(&server);
        Self { runtime, mysql, redis, server }
    }

    /// What became of so many inserts at once. Where a store takes nothing for a second, calls are refused for now,
    /// and does: a busy machine is that slow.
    fn insert(&self, count: usize, delay_ms: u64) -> Vec<Value> {
        let (client, url) = (http(), format!("{}/v1/tasks", self.server.url));
        let insert = || async {
            loop {
                let request = client.post(&url).json(&json!({ "queue": "q", "delay_ms": delay_ms }));
                let answer = request.send().await.unwrap().json::<Value>().await.unwrap();
                if answer["code"] != "overload" {
                    return answer;
                }
                a_moment().await;
            }
        };
        self.runtime.block_on(async {
            let answers = futures_util::future::join_all((0..count).map(|_| insert()));
            tokio::time::timeout(HANG_LIMIT, answers).await.expect("an answer to each insert")
        })
    }

    /// Warnings and errors, once the engine was well again and has ended.
    fn worries(mut self) -> Vec<Value> {
        wait_for("it to be ready again", || (self.server.get("/readyz").0 == 200).then_some(()));
        self.server.process.signal("-TERM");
        let (_, said) = self.server.process.ended_saying();
        let lines = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["level"] == "WARN" || line["level"] == "ERROR").collect()
    }
}

/// How many answers were of each code.
fn codes(answers: impl Iterator<Item = Value>) -> BTreeMap<String, usize> {
    let mut codes = BTreeMap::<String, usize>::new();
    for answer in answers {
        *codes.entry(answer["code"].as_str().unwrap_or("accepted").to_owned()).or_default() += 1;
    }
    codes
}

fn times<'v>(lines: impl IntoIterator<Item = &'v Value>) -> u64 {
    lines.into_iter().map(|line| line["times"].as_u64().unwrap_or(1)).sum()
}

/// By the times that the lines have themselves, so that it is the same on a slow machine: so many lines are so many seconds apart.
/// The limit itself is held by a clock of the test's own in `logs/thinned.rs`.
fn are_at_most_one_a_second_of_a_kind(lines: &[Value]) {
    let mut kinds = BTreeMap::<String, Vec<Timestamp>>::new();
    for line in lines {
        let (fields, said_at) = (&line["fields"], line["timestamp"].as_str().unwrap().parse().unwrap());
        let kind = [&fields["message"], &fields["service"], &fields["error"]].map(Value::to_string).concat();
        let kind: String = kind.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        kinds.entry(kind).or_default().push(said_at);
    }
    for (kind, said_at) in kinds {
        let from_first_to_last = said_at.last().unwrap().duration_since(said_at[0]).as_secs_f64();
        // The first at once; and the newest of each second, when that is over.
        assert!(said_at.len() as f64 <= from_first_to_last + 2.5, "{kind}: {said_at:?}");
    }
}

/// Each request fails, and each service many times a second.
#[test]
fn a_database_that_is_away_is_a_few_lines_whose_times_add_up() {
    const AT_ONCE: usize = 50;
    const ROUNDS: usize = 20;
    let flooded = Flooded::new();
    flooded.mysql.kill();
    let codes = codes((0..ROUNDS).flat_map(|_| flooded.insert(AT_ONCE, 100_000)));
    let refused: usize =
        codes.iter().filter(|(code, _)| code.starts_with("store.")).map(|entry| entry.1).sum();
    assert_eq!(refused, AT_ONCE * ROUNDS, "{codes:?}");
    flooded.runtime.block_on(flooded.mysql.start_again());
    let worries = flooded.worries();
    let of_requests =
        worries.iter().filter(|worry| worry["fields"]["message"] == "a request failed in a back end");
    assert_eq!(times(of_requests), refused as u64, "{worries:#?}");
    assert!(times(&worries) > refused as u64, "{worries:#?}");
    are_at_most_one_a_second_of_a_kind(&worries);
}

/// Tasks are accepted and fire all the same; what needs Redis waits, and does not fail again and again.
#[test]
fn a_redis_that_is_away_under_load_is_a_few_lines_and_each_kind_of_worry_is_among_them() {
    const ROUNDS: usize = 50;
    let flooded = Flooded::new();
    flooded.redis.kill();
    let codes = codes((0..ROUNDS).flat_map(|_| flooded.insert(20, 50)));
    assert_eq!(codes, BTreeMap::from([("accepted".to_owned(), 20 * ROUNDS)]));
    flooded.runtime.block_on(flooded.redis.start_again());
    let worries = flooded.worries();
    are_at_most_one_a_second_of_a_kind(&worries);
    let kind = "the hot set is unavailable: firing continues from the store";
    assert!(worries.iter().any(|line| line["fields"]["message"] == kind), "{kind}: {worries:#?}");
}
