//! Several engines of one cluster, whose addresses a client has with commas between: what it does when one is killed.

use crate::binary::{DURABLE, Running, Server, address, blocking, documents, punctual, stderr, wait_for};
use punctual_testkit::servers::{MariaDb, Redis};
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
    let (mariadb, redis) = blocking(async { (MariaDb::with(&DURABLE).await, Redis::own().await) });
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

#[test]
fn an_address_among_several_that_cannot_work_is_named() {
    let refused = punctual(&["queue", "list", "--url", "http://127.0.0.1:7450,localhost"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("url localhost: must be http://"), "{}", stderr(&refused));
}
