//! The table itself: made once, removed when it is empty, and closed to nonsense.

use super::rig::in_sqlite;
use punctual_sdk::{
    NewTask,
    inbox::{InboxTable, insert_in, insert_into_table},
    protocol::OnConflict,
    retry,
};
use punctual_store::{InboxTableName, MysqlInbox};
use punctual_testkit::servers;
use serde_json::json;
use sqlx::{Connection as _, MySqlConnection};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_refuses_nonsense_and_a_view_says_what_it_takes() {
    let rig = in_sqlite().await;
    for (columns, values) in [
        ("queue", "''"),
        ("queue", "'a b'"),
        ("queue", "'a\\n'"),
        ("queue, namespace", "'q', ''"),
        ("queue, kind", "'q', 'a/b'"),
        ("queue, `key`", "'q', ''"),
        ("queue, `key`", "'q', REPEAT('é', 65)"),
        ("queue, execute_at_ms", "'q', 1795216260"),
        ("queue, delay_ms", "'q', -1"),
        ("queue, execute_at_ms, delay_ms", "'q', 1900000000000, 1"),
        ("queue, priority", "'q', 6"),
        ("queue, payload", "'q', '{'"),
        ("queue, payload, payload_bytes", "'q', '1', 'x'"),
        ("queue, labels", "'q', '[]'"),
        ("queue, max_attempts", "'q', 0"),
        ("queue, retry", "'q', '1'"),
        ("queue, timeout_ms", "'q', 0"),
        ("queue, deadline_ms", "'q', 0"),
        ("kind", "'no queue'"),
    ] {
        let refused = rig.try_sql(&format!("INSERT INTO punctual_inbox ({columns}) VALUES ({values})")).await;
        assert!(refused.is_err(), "{columns}: {values}");
    }
    rig.sql("INSERT INTO punctual_inbox (queue, `key`, payload) VALUES ('q', REPEAT('é', 64), 'null')").await;
    let limits = rig.sql("SELECT column_name, least, most FROM punctual_inbox_limits").await;
    assert!(limits.contains("priority\t1\t5") && limits.contains("delay_ms\t0\t"), "{limits}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_made_once_and_dropped_when_it_is_empty() {
    let server = servers::mariadb().await;
    let url = server.fresh_database().await;
    let database = url.rsplit('/').next().unwrap().split('?').next().unwrap();
    let inbox = MysqlInbox::new(&url, InboxTableName::default()).unwrap();
    let said = inbox.status(10).await.unwrap_err().to_string();
    assert!(
        said.contains("/punctual_inbox: there is no such table") && said.contains("punctual inbox install"),
        "{said}"
    );
    assert!(inbox.install().await.unwrap());
    server.sql(database, "INSERT INTO punctual_inbox (queue) VALUES ('q')").await;
    assert!(!inbox.install().await.unwrap(), "it was there");
    assert_eq!(inbox.status(10).await.unwrap().counts.waiting, 1, "with its rows");
    let said = inbox.uninstall(false).await.unwrap_err().to_string();
    assert!(said.contains("1 rows are in it") && said.contains("--force"), "{said}");
    assert!(inbox.uninstall(true).await.unwrap());
    assert!(!inbox.uninstall(false).await.unwrap());
    server.sql(database, "CREATE TABLE punctual_inbox (id INT)").await;
    let said = inbox.install().await.unwrap_err().to_string();
    assert!(said.contains("is not a table of this program"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_one_database_are_separate_inboxes_with_a_namespace_each() {
    let rig = in_sqlite().await;
    let jobs: InboxTableName = "jobs".parse().unwrap();
    assert!(MysqlInbox::new(&rig.url(), jobs.clone()).unwrap().install().await.unwrap());
    rig.sql(
        "INSERT INTO punctual_inbox (queue) VALUES ('q');
         INSERT INTO jobs (queue, namespace) VALUES ('q', 'default'), ('q', 'billing'), ('q', 'other');",
    )
    .await;
    // Both hold their tables at the same time.
    let of_jobs = rig.relay_of("jobs", "billing", "jobs");
    assert_eq!((rig.run(&rig.relay).await, rig.run(&of_jobs).await), (1, 2));
    assert_eq!(rig.tasks("q").await.len(), 1, "those of the other table are in another namespace");
    let refused = rig.sql("SELECT refused_why FROM jobs WHERE refused_at_ms IS NOT NULL").await;
    assert!(refused.contains("all tasks of this inbox go into namespace \"billing\""), "{refused}");
    assert!(of_jobs.report().at.ends_with("/jobs"), "{}", of_jobs.report().at);
    let mut connection = MySqlConnection::connect(&rig.url()).await.unwrap();
    let table = InboxTable::named("jobs").unwrap();
    insert_into_table(&mut connection, &table, None, &NewTask::to("q").key("k")).await.unwrap();
    assert_eq!(rig.run(&of_jobs).await, 1);
    assert!(MysqlInbox::new(&rig.url(), jobs).unwrap().uninstall(true).await.unwrap());
    rig.sql("SELECT id FROM punctual_inbox").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sdk_inserts_in_the_callers_transaction() {
    let rig = in_sqlite().await;
    let mut connection = MySqlConnection::connect(&rig.url()).await.unwrap();
    let task = |key: &str| {
        let retry = retry::fixed(Duration::from_millis(300));
        NewTask::to("q")
            .key(key)
            .delay(Duration::from_secs(60))
            .retry(retry)
            .payload(&json!({"to": "ada"}))
            .unwrap()
    };
    let mut rolled_back = connection.begin().await.unwrap();
    insert_in(&mut rolled_back, &task("a")).await.unwrap();
    rolled_back.rollback().await.unwrap();
    let mut committed = connection.begin().await.unwrap();
    assert!(insert_in(&mut committed, &task("b")).await.unwrap() > 0);
    committed.commit().await.unwrap();
    for wrong in [task("c").task_id(7), task("c").on_conflict(OnConflict::Replace)] {
        let said = insert_in(&mut connection, &wrong).await.unwrap_err().to_string();
        assert!(said.contains("inbox") || said.contains("key"), "{said}");
    }
    rig.all_moved().await;
    assert_eq!(rig.tasks("q").await.len(), 1);
    let inserted = rig.get("/v1/tasks/key:b").await;
    assert_eq!(inserted["payload"], json!({"to": "ada"}));
    assert_eq!(inserted["retry"]["delay_ms"], 300);
}
