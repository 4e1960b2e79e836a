//! A database that was made read-only under a running store: each writer says so, and writes again when it is over.

use punctual_contract::{Happened, Store as _};
use punctual_store::{MysqlOptions, MysqlStore};
use punctual_testkit::servers::MariaDb;

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_read_only_is_said_by_its_writers_until_it_is_not() {
    let server = MariaDb::own().await;
    let url = server.fresh_database().await;
    // An administrator of the server may write all the same.
    let database = url.rsplit('/').next().unwrap();
    server.sql(database, &format!("CREATE USER plain@'%'; GRANT ALL ON {database}.* TO plain@'%'")).await;
    let url = format!("mysql://plain@127.0.0.1:{}/{database}", server.port());
    let store = MysqlStore::open(&[url], MysqlOptions::default()).await.unwrap();
    store.check_writers_in(0).await.unwrap();
    server.sql(database, "SET GLOBAL read_only = 1").await;
    let error = store.check_writers_in(0).await.unwrap_err();
    assert_eq!(error.happened, Happened::No, "{error}");
    assert!(
        error.to_string().contains("read-only") || format!("{error:?}").contains("read-only"),
        "{error:?}"
    );
    server.sql(database, "SET GLOBAL read_only = 0").await;
    store.check_writers_in(0).await.unwrap();
    store.close().await;
}
