//! A job that cannot be done, among others: it is found in few transactions, and no caller waits for its tries.

use super::{NOW, ask, name};
use punctual_contract::Store;
use punctual_store::{MysqlOptions, MysqlStore};
use punctual_testkit::servers::MariaDb;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};
use tokio::task::JoinSet;

/// The registry knows it, and it is nowhere: its insert loses its race each time it is tried.
const LOST: i64 = 7;

struct RefusalSetup {
    server: MariaDb,
    store: Arc<MysqlStore>,
}

impl RefusalSetup {
    /// With one writer, so that all inserts meet.
    async fn new() -> Self {
        let server = MariaDb::own().await;
        let url = server.fresh_database().await;
        let options = MysqlOptions { writers_per_database: 1, ..MysqlOptions::default() };
        let store = Arc::new(MysqlStore::open(std::slice::from_ref(&url), options).await.unwrap());
        store.insert(vec![ask(LOST)], "caller", NOW).await.unwrap();
        server.sql(name(&url), &format!("DELETE FROM task WHERE task_id = {LOST}")).await;
        Self { server, store }
    }

    async fn commits(&self) -> usize {
        let status = self.server.sql("mysql", "SHOW GLOBAL STATUS LIKE 'Com_commit'").await;
        status.split_whitespace().last().and_then(|word| word.parse().ok()).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_job_that_cannot_be_done_is_found_among_many_in_few_transactions() {
    let stand = RefusalSetup::new().await;
    let before = stand.commits().await;
    let mut inserts = JoinSet::new();
    for id in 100..300 {
        let store = Arc::clone(&stand.store);
        let id = if id == 200 { LOST } else { id };
        inserts.spawn(async move { (id, store.insert(vec![ask(id)], "caller", NOW).await.is_ok()) });
    }
    for (id, is_done) in inserts.join_all().await {
        assert_eq!(is_done, id != LOST, "{id}");
    }
    let commits = stand.commits().await - before;
    assert!(commits < 100, "{commits} transactions for 200 inserts that came at once");
    stand.store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_inserts_of_others_do_not_wait_for_the_tries_of_one_that_cannot_be_done() {
    let stand = RefusalSetup::new().await;
    let (is_over, refused) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut hopeless = JoinSet::new();
    for _ in 0..6 {
        let (store, is_over, refused) =
            (Arc::clone(&stand.store), Arc::clone(&is_over), Arc::clone(&refused));
        hopeless.spawn(async move {
            while !is_over.load(SeqCst) {
                assert!(store.insert(vec![ask(LOST)], "caller", NOW).await.is_err());
                refused.fetch_add(1, SeqCst);
            }
        });
    }
    for id in 1_000..1_050 {
        stand.store.insert(vec![ask(id)], "other", NOW).await.unwrap();
    }
    let refused = refused.load(SeqCst);
    is_over.store(true, SeqCst);
    hopeless.join_all().await;
    // Each of them is tried eight times, over a quarter of a second; who waits behind them is served between two tries.
    assert!(refused < 100, "{refused} refusals before 50 inserts of another were done");
    stand.store.close().await;
}
