//! Several engines of one cluster, whose addresses a client has with commas between: what it does when one is killed.

use crate::binary::{
    Running, Server, address, blocking, documents, http, punctual, servers, stderr, wait_for,
};
use punctual_testkit::servers::Redis;
use serde_json::{Value, json};

fn engine(store: &str, redis: &Redis) -> Server {
    let mut command = punctual(&["serve", "--listen", "127.0.0.1:0", "--json"]);
    command.env("PUNCTUAL_STORE_URL", store).env("PUNCTUAL_HOT_URL", redis.url());
    let mut process = Running::start(&mut command);
    let url = address(&process.first_line());
    Server { process, url }
}

#[test]
fn a_worker_and_the_command_line_go_on_with_the_engine_that_is_left() {
    let (mariadb, redis) = blocking(servers());
    let store = blocking(mariadb.fresh_database());
    let (mut first, second) = (engine(&store, &redis), engine(&store, &redis));
    let urls = format!("{},{}", first.url, second.url);
    let _worker = Running::start(&mut punctual(&["work", "--url", &urls, "-q", "q", "--exec", "cat"]));
    let done = |task: &Value| {
        wait_for("the worker", || (second.state(task) == "succeeded").then_some(()));
    };
    let task = first.insert(json!({ "queue": "q", "payload": 1 }));
    done(&task);

    first.process.signal("-KILL");
    first.process.ended();
    // By variable, as a host would have it.
    let mut insert = punctual(&["task", "insert", "--queue", "q", "--payload", "2", "--json"]);
    let inserted = insert.env("PUNCTUAL_URL", &urls).output().unwrap();
    assert!(inserted.status.success(), "{}", stderr(&inserted));
    let task = documents(&inserted).remove(0);
    done(&task);
    let got = punctual(&["task", "get", task["ref"].as_str().unwrap(), "--url", &urls, "--json"]);
    let got = { got }.output().unwrap();
    assert_eq!(documents(&got)[0]["result"]["result"], json!(2), "{}", stderr(&got));
}

/// The value of a metric of this queue, whose labels are as they are written.
fn of_queue(server: &Server, metric: &str) -> Option<f64> {
    let url = format!("{}/metrics", server.url);
    let text = blocking(async move { http().get(url).send().await.unwrap().text().await.unwrap() });
    text.lines().find_map(|line| line.strip_prefix(metric)?.trim().parse().ok())
}

#[test]
fn an_outcome_is_counted_by_its_queue_at_the_engine_that_accepts_it() {
    let (mariadb, redis) = blocking(servers());
    let store = blocking(mariadb.fresh_database());
    let (leases, accepts) = (engine(&store, &redis), engine(&store, &redis));
    leases.insert(json!({ "queue": "far" }));
    let task = wait_for("a lease", || leases.lease("far", 1, 30_000).pop());
    assert_eq!(accepts.succeed(&task), "accepted");
    let labels = "namespace=\"default\",queue=\"far\"";
    let succeeded = format!("punctual_outcomes_total{{{labels},outcome=\"succeeded\"}}");
    assert_eq!(of_queue(&accepts, &succeeded), Some(1.0));
    assert_eq!(of_queue(&accepts, &format!("punctual_processing_seconds_count{{{labels}}}")), Some(1.0));
    assert_eq!(of_queue(&leases, &succeeded), None, "each outcome once");
}

/// One call, several queues, at either engine.
#[test]
fn one_lease_over_several_queues_gets_what_any_of_them_has_on_mysql_and_redis() {
    let (mariadb, redis) = blocking(servers());
    let store = blocking(mariadb.fresh_database());
    let (first, second) = (engine(&store, &redis), engine(&store, &redis));
    for queue in ["one", "two", "other"] {
        first.insert(json!({ "queue": queue }));
    }
    let ask = json!({ "queues": [{ "name": "one" }, { "name": "two" }], "max": 10, "wait_ms": 500,
        "lease_ms": 30_000, "executor": "both" });
    let mut got = Vec::new();
    wait_for("both tasks", || {
        for server in [&second, &first] {
            let (status, leased) = server.post("/v1/lease", ask.clone());
            assert_eq!(status, 200, "{leased}");
            got.extend(leased["tasks"].as_array().unwrap().clone());
        }
        (got.len() >= 2).then_some(())
    });
    let mut queues: Vec<&str> = got.iter().map(|task| task["queue"].as_str().unwrap()).collect();
    queues.sort_unstable();
    assert_eq!(queues, ["one", "two"], "once, and nothing of another queue");
    assert!(got.iter().all(|task| second.succeed(task) == "accepted"));
}

#[test]
fn an_address_among_several_that_cannot_work_is_named() {
    let refused = punctual(&["queue", "list", "--url", "http://127.0.0.1:7450,localhost"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("url localhost: must be http://"), "{}", stderr(&refused));
}
