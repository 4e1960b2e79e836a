//! A log that cannot be written: a pipe that is closed, one that nobody reads. Tasks fire all the same, signals are
//! obeyed, and what was lost is counted.

use crate::binary::{DURABLE, Running, Server, address, punctual, wait_for};
use punctual_testkit::servers::{MariaDb, Redis};
use serde_json::json;

/// So that every request is a line.
const TALKATIVE: [&str; 2] = ["--log-filter", "debug"];

fn a_task_fires(server: &Server) {
    let task = server.insert(json!({ "queue": "q", "delay_ms": 100 }));
    let leased = wait_for("the task", || server.lease("q", 1, 10_000).pop());
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
    let (mysql, redis) = runtime.block_on(async { (MariaDb::with(&DURABLE).await, Redis::own().await) });
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
    let leased = wait_for("the task", || server.lease("q", 1, 10_000).pop());
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
