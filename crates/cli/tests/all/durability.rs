//! A MySQL that may lose what it has acknowledged: refused at the start, with the way out; said where the operator insists.

use crate::binary::{DURABLE, Running, Server, address, punctual, stderr, wait_for};
use punctual_testkit::servers::{MariaDb, Redis};

const INSISTS: &str = "PUNCTUAL_STORE_ALLOW_WEAK_DURABILITY";

async fn store(settings: &[&str]) -> (MariaDb, String) {
    let server = MariaDb::with(settings).await;
    let url = server.fresh_database().await;
    (server, url)
}

#[test]
fn a_database_that_may_lose_what_it_acknowledges_is_refused_unless_the_operator_insists() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let redis = runtime.block_on(Redis::own());
    let hot = redis.url();
    let serve = |store: &str| {
        punctual(&["serve", "--listen", "127.0.0.1:0", "--json", "--store-url", store, "--hot-url", &hot])
    };
    let (server, url) = runtime.block_on(store(&["--innodb-flush-log-at-trx-commit=2"]));
    let refused = serve(&url).output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    let said = stderr(&refused);
    for part in ["innodb_flush_log_at_trx_commit is 2", "SET GLOBAL", "store.allow_weak_durability"] {
        assert!(said.contains(part), "{part:?} in {said:?}");
    }
    let mut insisting = Running::start(serve(&url).env(INSISTS, "true"));
    assert!(insisting.first_line().contains("127.0.0.1"));
    insisting.signal("-TERM");
    let (ended, said) = insisting.ended_saying();
    assert!(ended.success() && said.contains("innodb_flush_log_at_trx_commit is 2"), "{said}");
    drop(server);

    let (_server, url) = runtime.block_on(store(&[DURABLE[0], "--log-bin=binlog", "--sync-binlog=0"]));
    let refused = serve(&url).output().unwrap();
    assert!(stderr(&refused).contains("sync_binlog is 0"), "{}", stderr(&refused));
}

#[test]
fn a_database_that_becomes_weak_while_an_engine_runs_is_said_and_so_is_its_end() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let redis = runtime.block_on(Redis::own());
    let (server, url) = runtime.block_on(store(&DURABLE));
    let mut command = punctual(&["serve", "--listen", "127.0.0.1:0", "--json", "--store-url", &url]);
    let mut process = Running::start(command.args(["--hot-url", &redis.url()]));
    let api = address(&process.first_line());
    let mut engine = Server { process, url: api };
    let is_said = |engine: &Server| {
        let alerts =
            wait_for("an answer", || Some(engine.get("/v1/alerts")).filter(|alerts| alerts.0 == 200)).1;
        let all = alerts["items"].as_array().unwrap().clone();
        let alert = all.into_iter().find(|alert| alert["name"] == "durability_weak");
        (alert, engine.metric("punctual_durability_weak"))
    };
    assert_eq!(is_said(&engine), (None, 0.0));
    let set = |value: u8| {
        let set = format!("SET GLOBAL innodb_flush_log_at_trx_commit = {value}");
        runtime.block_on(server.sql("mysql", &set));
    };
    set(2);
    let alert = wait_for("the alert", || is_said(&engine).0);
    let text = alert.to_string();
    assert!(text.contains("innodb_flush_log_at_trx_commit is 2") && text.contains("critical"), "{text}");
    assert_eq!(is_said(&engine).1, 1.0);
    set(1);
    wait_for("its end", || (is_said(&engine).1 == 0.0).then_some(()));
    engine.process.signal("-TERM");
    let (_, log) = engine.process.ended_saying();
    assert!(log.contains("tasks that are acknowledged may be lost") && log.contains("keep again"), "{log}");
}
