//! `serve` and `migrate`: the way of a task over HTTP, what is said at the start, and an orderly end.

use crate::binary::{
    Running, Server, address, blocking, documents, ended_by_itself, mariadb, punctual, run, stderr, wait_for,
};
use punctual_testkit::servers::Redis;
use serde_json::json;

#[test]
fn a_task_goes_from_insert_over_lease_to_its_outcome() {
    let (server, _data) = Server::on_new_data();
    let task = server.insert(json!({ "queue": "q", "kind": "k", "delay_ms": 50, "payload": { "a": 1 } }));
    let leased = wait_for("the task", || server.lease("q", 1, 600_000).pop());
    assert_eq!(
        (&leased["ref"], &leased["payload"], &leased["attempt"]),
        (&task["ref"], &json!({ "a": 1 }), &json!(1))
    );
    assert!(leased["fired_at_ms"].as_i64() >= task["execute_at_ms"].as_i64());
    assert_eq!(server.succeed(&leased), "accepted");
    assert_eq!(server.state(&task), "succeeded");
}

/// Whatever the umask of who starts it.
#[test]
fn what_is_made_of_the_store_is_for_nobody_else() {
    use std::os::unix::fs::PermissionsExt as _;
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("data");
    let server = Server::start(&data);
    server.insert(json!({ "queue": "q", "payload": "x".repeat(100_000) }));
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    for entry in std::fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
    assert!(data.join("punctual.db.payloads").is_dir());
}

#[test]
fn the_places_that_are_announced_are_there() {
    let (server, _data) = Server::on_new_data();
    for path in ["/docs", "/metrics", "/livez", "/openapi.json"] {
        assert_eq!(server.get(path).0, 200, "{path}");
    }
}

#[test]
fn a_port_in_use_is_named_with_a_way_out() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let data = tempfile::tempdir().unwrap();
    let output = run(&["serve", "--listen", &address.to_string(), "--data", data.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(
        said.contains(&format!("port {} is in use", address.port())) && said.contains("--listen"),
        "{said}"
    );
}

#[test]
fn a_second_engine_on_the_same_data_is_refused_and_the_first_goes_on() {
    let (server, data) = Server::on_new_data();
    let output = run(&["serve", "--listen", "127.0.0.1:0", "--data", data.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("another engine"), "{}", stderr(&output));
    assert_eq!(server.get("/livez").0, 200);
}

#[test]
fn sigterm_and_sigint_end_it_in_an_orderly_way_also_under_a_long_poll() {
    for signal in ["-TERM", "-INT"] {
        let (mut server, data) = Server::on_new_data();
        server.insert(json!({ "queue": "q", "delay_ms": 60_000 }));
        let mut polling =
            Running::start(&mut punctual(&["work", "-q", "q", "--exec", "true", "--url", &server.url]));
        // It has the first task, so it is there and polls for the next one.
        let task = server.insert(json!({ "queue": "q" }));
        wait_for("the worker", || (server.state(&task) == "succeeded").then_some(()));
        server.process.signal(signal);
        assert_eq!(server.process.ended().code(), Some(0), "{signal}");
        polling.signal("-TERM");
        assert_eq!(polling.ended().code(), Some(0));
        // The file was given free, and nothing is left in its log.
        let log = data.path().join("punctual.db-wal");
        assert_eq!(std::fs::metadata(log).map_or(0, |metadata| metadata.len()), 0);
    }
}

#[test]
fn logs_are_json_documents_when_asked_for() {
    let data = tempfile::tempdir().unwrap();
    let args =
        ["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--data", data.path().to_str().unwrap()];
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut child = punctual(&args);
    let mut process =
        child.stdout(std::process::Stdio::piped()).stderr(log.reopen().unwrap()).spawn().unwrap();
    let lines = || std::fs::read_to_string(log.path()).unwrap();
    wait_for("a log line", || lines().contains("serving").then_some(()));
    process.kill().unwrap();
    process.wait().unwrap();
    for line in lines().lines() {
        let document: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(document["level"].is_string() && document["fields"]["message"].is_string(), "{line}");
    }
}

#[test]
fn migrate_says_what_it_applied_and_applies_it_once() {
    let data = tempfile::tempdir().unwrap();
    let migrate =
        || documents(&run(&["migrate", "--json", "--data", data.path().to_str().unwrap()])).remove(0);
    assert_eq!(migrate()["applied"][0], "0001_tasks");
    assert_eq!(migrate()["applied"], json!([]));
}

/// No executor could read what it would publish: attempts would be spent, and tasks die.
#[test]
fn an_embedded_server_pushes_no_queue_and_says_the_way_out() {
    let (server, _data) = Server::on_new_data();
    let (status, problem) = server.put("/v1/queues/q", json!({ "mode": "push" }));
    assert_eq!((status, &problem["code"]), (400, &json!("request.invalid")), "{problem}");
    let fault = &problem["errors"][0];
    assert_eq!(fault["pointer"], "/mode");
    for way_out in ["pull", "punctual work", "store.url"] {
        assert!(fault["detail"].as_str().unwrap().contains(way_out), "{fault}");
    }
    assert_eq!(server.put("/v1/queues/q", json!({ "mode": "pull" })).0, 200);
    server.insert(json!({ "queue": "q" }));
    assert_eq!(wait_for("the task", || server.lease("q", 1, 600_000).pop())["attempt"], 1);
    let output = run(&["serve", "--set", "queues.push=q"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("queues.push") && stderr(&output).contains("store.url"),
        "{}",
        stderr(&output)
    );
}

/// An engine on a database of its own.
fn on_a_database(more: &[&str]) -> Server {
    let url = blocking(async { mariadb().await.fresh_database().await });
    let args = [&["serve", "--listen", "127.0.0.1:0", "--json", "--store-url", &url], more].concat();
    let mut process = Running::start(&mut punctual(&args));
    Server { url: address(&process.first_line()), process }
}

/// Answers the status of a cancel of another task.
fn a_task_runs(server: &Server) -> u16 {
    let task = server.insert(json!({ "queue": "q", "delay_ms": 50 }));
    let leased = wait_for("the task", || server.lease("q", 1, 600_000).pop());
    assert_eq!(leased["ref"], task["ref"]);
    assert_eq!(server.succeed(&leased), "accepted");
    let later = server.insert(json!({ "queue": "q", "delay_ms": 600_000 }));
    let path = format!("/v1/tasks/{}/cancel", later["ref"].as_str().unwrap());
    server.post(&path, json!({})).0
}

fn hot_part(server: &Server) -> (String, serde_json::Value) {
    let (status, ready) = server.get("/readyz");
    assert_eq!(status, 200, "{ready}");
    let parts = ready["parts"].as_array().unwrap();
    let hot = parts.iter().find(|part| part["name"] == "hot").unwrap();
    (ready["status"].as_str().unwrap().to_owned(), hot.clone())
}

/// All that it logs until it stops.
fn logged(mut server: Server) -> String {
    server.process.signal("-TERM");
    let (code, said) = server.process.ended_saying();
    assert_eq!(code.code(), Some(0), "{said}");
    said
}

#[test]
fn an_engine_begins_without_its_redis_and_says_so() {
    let server = on_a_database(&["--hot-url", "redis://ada:swordfish@127.0.0.1:1"]);
    assert_eq!(a_task_runs(&server), 200, "the engine's table, or the store, knows whether it has fired");
    let (status, hot) = hot_part(&server);
    assert_eq!((status.as_str(), &hot["ok"]), ("degraded", &json!(false)), "{hot}");
    assert_eq!(server.metric("punctual_hot_away"), 1.0);
    let said = logged(server);
    assert_eq!(
        said.matches("the hot set is unavailable: firing continues from the store").count(),
        1,
        "{said}"
    );
    assert!(said.contains("127.0.0.1:1") && !said.contains("swordfish"), "{said}");
}

#[test]
fn a_database_alone_is_enough() {
    for more in [&[][..], &["--hot-url", ""], &["--set", "hot.url=none"]] {
        let server = on_a_database(more);
        assert_eq!(a_task_runs(&server), 200, "the store knows whether it has fired");
        let (status, hot) = hot_part(&server);
        assert_eq!((status.as_str(), &hot["ok"]), ("ready", &json!(true)), "{more:?}: {hot}");
        assert!(hot["detail"].as_str().unwrap().contains("none is set"), "{hot}");
        assert_eq!(server.metric("punctual_hot_away"), 0.0);
        assert_eq!(
            server.put("/v1/queues/q", json!({ "mode": "push" })).0,
            400,
            "no executor could subscribe"
        );
        let said = logged(server);
        assert!(said.contains("no Redis is set (hot.url is empty)"), "{said}");
        // A busy machine may be warned about for other reasons.
        let is_complaint = |line: &&str| line.contains("WARN") || line.contains("ERROR");
        let is_about_redis =
            |line: &&str| ["Redis", "hot set", "slots", "service"].iter().any(|word| line.contains(word));
        let complaints: Vec<&str> = said.lines().filter(is_complaint).filter(is_about_redis).collect();
        assert!(complaints.is_empty(), "{complaints:?}");
    }
}

#[test]
fn a_redis_that_refuses_its_engine_ends_it_with_the_way_out() {
    let url = blocking(async { mariadb().await.fresh_database().await });
    let user = ["--user", "engine", "on", ">right", "~*", "&*", "+@all"];
    let redis = blocking(async move { Redis::with(&user).await });
    let hot = format!("redis://engine:swordfish@127.0.0.1:{}", redis.port());
    let args = ["serve", "--listen", "127.0.0.1:0", "--store-url", &url, "--hot-url", &hot];
    let ended = ended_by_itself(&mut punctual(&args));
    let said = stderr(&ended);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    for part in ["hot.url = redis://", "mend", "punctual doctor", "user or password", "because:"] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    assert!(!said.contains("swordfish"), "{said}");
}
