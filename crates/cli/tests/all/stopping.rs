//! A signal ends an engine also while a server that it needs is frozen.

use crate::binary::{DURABLE, Running, Server, address, punctual, wait_for};
use punctual_testkit::servers::{MariaDb, Redis};
use serde_json::json;

#[test]
fn an_engine_whose_database_is_frozen_ends_when_it_is_told_to() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (mysql, redis) = runtime.block_on(async { (MariaDb::with(&DURABLE).await, Redis::own().await) });
    let (store, hot) = (runtime.block_on(mysql.fresh_database()), redis.url());
    let args = ["serve", "--listen", "127.0.0.1:0", "--json", "--store-url", &store, "--hot-url", &hot];
    let mut process = Running::start(&mut punctual(&args));
    let url = address(&process.first_line());
    let mut server = Server { process, url };
    wait_for("ready", || (server.get("/readyz").0 == 200).then_some(()));
    for _ in 0..20 {
        server.insert(json!({ "queue": "q", "delay_ms": 200 }));
    }
    mysql.pause();
    server.process.signal("-TERM");
    let (_, said) = server.process.ended_saying();
    mysql.resume();
    assert!(!said.contains("panicked"), "{said}");
}
