//! A transaction that takes long because its connection is slow, or its machine is busy. The server waits
//! between two statements, and the connection is not silent for that reason. Seen to fail: when a connection
//! is ended because the server showed the same state twice, although statements were sent in between.

use super::{NOW, ask};
use punctual_contract::Store;
use punctual_store::{MysqlOptions, MysqlStore};
use punctual_testkit::servers::{MariaDb, Proxy, Way};
use std::time::Duration;

/// Each statement takes twice this; a transaction has several, and is asked after when a second has passed.
const LATER: Duration = Duration::from_millis(450);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_transaction_that_goes_on_slowly_is_not_taken_for_silent() {
    let server = MariaDb::own().await;
    let url = server.fresh_database().await;
    let proxy = Proxy::before(server.port());
    let way = url.replace(&format!(":{}/", server.port()), &format!(":{}/", proxy.port()));
    let options = MysqlOptions { writers_per_database: 1, ..MysqlOptions::default() };
    let store = MysqlStore::open(&[way], options).await.unwrap();
    store.insert(vec![ask(1)], "caller", NOW).await.unwrap();
    proxy.set(Way::Slow(LATER));
    let began = tokio::time::Instant::now();
    let inserted = store.insert(vec![ask(2)], "caller", NOW).await.unwrap();
    assert_eq!(inserted.len(), 1);
    assert!(began.elapsed() > Duration::from_millis(3_500), "it was not asked after: {:?}", began.elapsed());
    proxy.set(Way::Open);
}
