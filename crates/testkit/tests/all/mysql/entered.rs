//! Cuts between the row that says where a queue has tasks, and the commit of those tasks: a connection that is killed there, a server
//! that is, and an engine that dies there. The row and the tasks are there, or neither is; and no later task is hidden by what a
//! writer remembers.

use super::{
    NOW, ask, fresh, name, open, sql,
    unseen::{Holder, running},
};
use punctual_contract::{Store as _, store::Query};
use punctual_domain::{
    name::{Name, QueueKey},
    task::NewTask,
};
use punctual_store::{MysqlOptions, MysqlStore};
use punctual_testkit::{patience::until, servers::MariaDb};
use std::sync::Arc;
use tokio::task::JoinSet;

/// Statements that are written after the row of the chunk wait for this lock.
const HOLD: &str = "LOCK TABLES counters WRITE";
const ENTERED: &str = "SELECT COUNT(*) FROM task_chunk WHERE queue = 'late'";
const INSERTED: &str = "SELECT COUNT(*) FROM task WHERE queue = 'late'";
/// Reads uncommitted rows, too.
const UNCOMMITTED: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED";

fn late(task_id: i64) -> NewTask {
    let queue = QueueKey { namespace: Name::default_namespace(), queue: Name::new("late").unwrap() };
    NewTask { queue, ..ask(task_id) }
}

/// Ids of callers.
async fn found(store: &MysqlStore) -> Vec<i64> {
    let (namespace, queue) = (Some(Name::default_namespace()), Some(Name::new("late").unwrap()));
    let query = Query { namespace, queue, limit: 10, ..Query::default() };
    let page = store.list(&query).await.unwrap();
    assert_eq!(page.next_before_id, None, "a few tasks are one look");
    page.tasks.iter().map(punctual_domain::task::Task::task_id).collect()
}

async fn is_between(url: &str) {
    let entered = format!("{UNCOMMITTED}; {ENTERED}");
    until("the row of the chunk is written", || async { sql(url, &entered).await == "1" }).await;
    assert_eq!((sql(url, ENTERED).await, sql(url, INSERTED).await), ("0".to_owned(), "0".to_owned()));
}

/// Of the writer that waits.
async fn connection(url: &str) -> String {
    let waiting = running(url, "%counters%").replace("COUNT(*)", "id");
    let waiting =
        format!("{waiting} AND id <> CONNECTION_ID() AND command = 'Query' AND info LIKE '%VALUES%'");
    until("it waits", || async { !sql(url, &waiting).await.is_empty() }).await;
    sql(url, &waiting).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_connection_that_is_killed_behind_the_row_of_a_chunk_leaves_neither_and_hides_nothing() {
    let urls = fresh(1).await;
    let store = Arc::new(open(&urls).await);
    store.insert(vec![ask(1)], "test", NOW).await.unwrap();
    let holder = Holder::of(&urls[0], HOLD).await;
    let (writer, mut inserting) = (Arc::clone(&store), JoinSet::new());
    inserting.spawn(async move { writer.insert(vec![late(2)], "test", NOW).await });
    is_between(&urls[0]).await;
    let id = connection(&urls[0]).await;
    sql(&urls[0], &format!("KILL {id}")).await;
    let is_left = format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE id = {id}");
    until("it is gone", || async { sql(&urls[0], &is_left).await == "0" }).await;
    assert_eq!(sql(&urls[0], ENTERED).await, "0", "the row went with its transaction");
    holder.let_go().await;
    // Tried once more by itself, or refused with an answer that does not know.
    if inserting.join_next().await.unwrap().unwrap().is_err() {
        store.insert(vec![late(2)], "test", NOW).await.unwrap();
    }
    assert_eq!(found(&store).await, [2]);
    assert_eq!((sql(&urls[0], ENTERED).await, sql(&urls[0], INSERTED).await), ("1".into(), "1".into()));
    store.close().await;
}

/// All that it has sent is carried out without it, or nothing is.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_engine_that_dies_between_the_row_of_a_chunk_and_its_commit_leaves_both_or_neither() {
    let urls = fresh(1).await;
    let own = urls.clone();
    let engine = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let opened = engine.spawn(async move {
        let store = open(&own).await;
        store.insert(vec![ask(1)], "test", NOW).await.unwrap();
        store
    });
    let store = opened.await.unwrap();
    let holder = Holder::of(&urls[0], HOLD).await;
    let inserting = engine.spawn(async move { store.insert(vec![late(2)], "test", NOW).await });
    is_between(&urls[0]).await;
    let id = connection(&urls[0]).await;
    engine.shutdown_background();
    assert!(inserting.await.is_err(), "it is dead, and has no answer");
    holder.let_go().await;
    let is_left = format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE id = {id}");
    until("its connection has ended", || async { sql(&urls[0], &is_left).await == "0" }).await;
    let both = (sql(&urls[0], ENTERED).await, sql(&urls[0], INSERTED).await);
    assert_eq!(both.0, both.1, "both, or neither");
    let next = open(&urls).await;
    // What came earlier is stored.
    next.insert(vec![late(2)], "test", NOW).await.unwrap();
    assert_eq!(found(&next).await, [2]);
    next.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_is_killed_behind_the_row_of_a_chunk_has_neither_and_hides_nothing() {
    let server = Arc::new(MariaDb::own().await);
    let url = server.fresh_database().await;
    let database = name(&url).to_owned();
    let store =
        Arc::new(MysqlStore::open(std::slice::from_ref(&url), MysqlOptions::default()).await.unwrap());
    store.insert(vec![ask(1)], "test", NOW).await.unwrap();
    let (mut holding, mut inserting) = (JoinSet::new(), JoinSet::new());
    let (held, of_it) = (Arc::clone(&server), database.clone());
    holding.spawn(async move { held.sql(&of_it, &format!("{HOLD}; DO SLEEP(600)")).await });
    let sleeping = running(&url, "DO SLEEP(600)");
    until("it is held", || async { server.sql(&database, &sleeping).await.trim() == "1" }).await;
    let writer = Arc::clone(&store);
    inserting.spawn(async move { writer.insert(vec![late(2)], "test", NOW).await });
    let entered = format!("{UNCOMMITTED}; {ENTERED}");
    until("the row of the chunk is written", || async {
        server.sql(&database, &entered).await.trim() == "1"
    })
    .await;
    server.kill();
    assert!(holding.join_next().await.unwrap().is_err(), "it was killed");
    server.start_again().await;
    inserting.join_next().await.unwrap().unwrap().unwrap_err();
    assert_eq!(server.sql(&database, ENTERED).await.trim(), "0");
    assert_eq!(server.sql(&database, INSERTED).await.trim(), "0");
    until("it is reached again", || async { store.insert(vec![late(2)], "test", NOW).await.is_ok() }).await;
    assert_eq!(found(&store).await, [2]);
    store.close().await;
}
