//! An engine that freezes within a transaction, on a server that has no `idle_transaction_timeout` (MySQL 8): its session says
//! nothing any more, nothing is closed, and the server frees its rows after the session's `wait_timeout`.

use super::{NOW, ask};
use punctual_contract::{
    Store,
    store::{Applied, Change, Step},
};
use punctual_domain::{history::Note, place::TaskRef};
use punctual_store::{MysqlOptions, MysqlStore};
use punctual_testkit::{
    patience::until,
    servers::{MariaDb, Proxy, Way, is_mysql},
};
use std::{sync::Arc, time::Duration};
use tokio::{task::JoinSet, time::Instant};

/// As MySQL takes the setting: for a comment of a server that it is not.
const AS_MYSQL: (&str, &str) =
    ("/*M!100300 , idle_transaction_timeout", "/*M!999999 , idle_transaction_timeout");
/// The sessions of writers would be closed later.
const LATER: (&str, &str) = ("SET SESSION wait_timeout = 3", "SET SESSION wait_timeout = 8");
/// Three seconds after the last that was heard, and what a busy machine adds; well before the wait for a row ends (10 s).
const FREE_WITHIN: Duration = Duration::from_secs(5);

fn claim(place: TaskRef, fence: i64) -> Vec<Step> {
    let note = Note { by: "test".to_owned(), ..Note::default() };
    vec![Step { place, fence: Some(fence), change: Change::Claim, note, fired_at: None }]
}

/// How long a living engine waits for a row that a frozen one has locked.
async fn waited(rewrites: &[(&str, &str)]) -> Duration {
    let server = MariaDb::with(&["--loose-idle-transaction-timeout=0"]).await;
    let url = server.fresh_database().await;
    let proxy = Proxy::rewriting(server.port(), rewrites);
    let open = async |url: String| {
        let options = MysqlOptions { writers_per_database: 1, ..MysqlOptions::default() };
        Arc::new(MysqlStore::open(&[url], options).await.unwrap())
    };
    let living = open(url.clone()).await;
    let frozen = open(url.replace(&format!(":{}/", server.port()), &format!(":{}/", proxy.port()))).await;
    let task = living.insert(vec![ask(1)], "test", NOW).await.unwrap().remove(0).task;
    // Its writers are connected.
    frozen.check_writers_in(0).await.unwrap();
    // What it asks next is heard and not answered, and nobody can be asked whether it lives.
    proxy.set_new(Way::Silent);
    proxy.set_open(Way::AnswersLost);
    let mut asking = JoinSet::new();
    let (its, steps) = (Arc::clone(&frozen), claim(task.place, task.fence));
    asking.spawn(async move { its.apply(steps, NOW).await });
    let locked = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_rows_locked > 0";
    until("the frozen engine has its row", || async { server.sql("mysql", locked).await != "0" }).await;
    // From here on not even an end comes through.
    proxy.vanish();
    let began = Instant::now();
    let applied = living.apply(claim(task.place, task.fence), NOW).await.unwrap();
    let waited = began.elapsed();
    assert_eq!(applied, [Applied::Moved], "nothing of what the frozen one had begun was committed");
    waited
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rows_of_a_frozen_engine_are_free_after_three_seconds_where_only_wait_timeout_frees_them() {
    // The control: were it not for the time of the session, they would be locked for longer.
    let (waited, control) = tokio::join!(waited(&[AS_MYSQL]), waited(&[AS_MYSQL, LATER]));
    assert!(waited < FREE_WITHIN, "{waited:?}");
    assert!(control > FREE_WITHIN, "something else has freed them: {control:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rows_of_a_frozen_engine_are_free_after_three_seconds_where_transactions_have_a_time() {
    let waited = waited(&[LATER]).await;
    // MySQL has no such time.
    assert_eq!(waited < FREE_WITHIN, !is_mysql(), "{waited:?}");
}
