//! An engine that freezes within a transaction: its session says nothing any more and nothing is closed. The server frees its
//! rows after the session's `wait_timeout`, also where there is no `idle_transaction_timeout` (MySQL 8). Three engines freeze
//! on one server, each in a database of its own; nothing of the fault ends before the rows are free.

use super::{NOW, ask, name};
use punctual_contract::{
    Store,
    store::{Applied, Change, Step},
};
use punctual_domain::{history::Note, place::TaskRef, task::Task};
use punctual_store::{MysqlOptions, MysqlStore};
use punctual_testkit::{
    patience::until,
    servers::{MariaDb, Proxy, Way, is_mysql},
};
use std::sync::Arc;
use tokio::task::JoinSet;

/// As MySQL takes the setting: for a comment of a server that it is not.
const AS_MYSQL: (&str, &str) =
    ("/*M!100300 , idle_transaction_timeout = 3", "/*M!999999 , idle_transaction_timeout = 3");
/// The sessions of writers would be closed long after the test.
const NO_TIME: (&str, &str) = ("SET SESSION wait_timeout = 3", "SET SESSION wait_timeout=999");

fn claim(place: TaskRef, fence: i64) -> Vec<Step> {
    let note = Note { by: "test".to_owned(), ..Note::default() };
    vec![Step { place, fence: Some(fence), change: Change::Claim, note, fired_at: None, known: None }]
}

/// A task whose row is locked by an engine that neither reads nor sends, and a living engine that wants the
/// task.
struct Frozen<'s> {
    server: &'s MariaDb,
    url: String,
    living: Arc<MysqlStore>,
    task: Task,
    /// The frozen engine's way to the server, and its call: both stay as they are.
    way: Proxy,
    _call: JoinSet<()>,
}

impl<'s> Frozen<'s> {
    async fn within_a_transaction(server: &'s MariaDb, rewrites: &[(&str, &str)]) -> Self {
        let url = server.fresh_database().await;
        let proxy = Proxy::rewriting(server.port(), rewrites);
        let open = async |url: String| {
            let options = MysqlOptions { writers_per_database: 1, ..MysqlOptions::default() };
            Arc::new(MysqlStore::open(&[url], options).await.unwrap())
        };
        let living = open(url.clone()).await;
        let engine = open(url.replace(&format!(":{}/", server.port()), &format!(":{}/", proxy.port()))).await;
        let task = living.insert(vec![ask(1)], "test", NOW).await.unwrap().remove(0).task;
        // Its writers are connected.
        engine.check_writers_in(0).await.unwrap();
        // Its next request is received and not answered, and no other connection can ask whether it lives.
        proxy.set_new(Way::Silent);
        proxy.set_open(Way::AnswersLost);
        let mut call = JoinSet::new();
        let steps = claim(task.place, task.fence);
        call.spawn(async move { drop(engine.apply(steps, NOW).await) });
        let frozen = Self { server, url, living, task, way: proxy, _call: call };
        until("the frozen engine has its row", || frozen.is_locked()).await;
        // From here on not even an end comes through.
        frozen.way.vanish();
        frozen
    }

    async fn is_locked(&self) -> bool {
        let lock = format!("SELECT id FROM task WHERE id = {} FOR UPDATE NOWAIT", self.task.place.id);
        self.server.try_sql(name(&self.url), &lock).await.is_err()
    }

    /// Until the living engine has the row. A call that has waited for it in vain is made again.
    async fn until_freed(&self) {
        let steps = || claim(self.task.place, self.task.fence);
        until("the row of the frozen engine is free", || async {
            let Ok(applied) = self.living.apply(steps(), NOW).await else { return false };
            assert_eq!(applied, [Applied::Moved], "nothing of what the frozen one had begun was committed");
            true
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rows_of_a_frozen_engine_are_freed_by_the_time_of_its_session_and_by_that_of_its_transaction() {
    let server = MariaDb::with(&["--loose-idle-transaction-timeout=0"]).await;
    let (by_nothing, by_its_session, by_its_transaction) = tokio::join!(
        Frozen::within_a_transaction(&server, &[AS_MYSQL, NO_TIME]),
        Frozen::within_a_transaction(&server, &[AS_MYSQL]),
        Frozen::within_a_transaction(&server, &[NO_TIME]),
    );
    by_its_session.until_freed().await;
    if is_mysql() {
        assert!(by_its_transaction.is_locked().await, "MySQL has no time of a transaction");
    } else {
        by_its_transaction.until_freed().await;
    }
    // The control: were it not for these two times, they would be locked still.
    assert!(by_nothing.is_locked().await, "something else has freed them");
}
