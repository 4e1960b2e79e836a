//! A cluster gets another database: who must know it first, and who is refused.

use super::*;
use punctual_contract::{Ownership, ownership::Says};
use std::time::Duration;

async fn refused(urls: &[String]) -> String {
    MysqlStore::open(urls, OPTIONS).await.unwrap_err().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_database_is_named_then_added_then_gets_partitions_while_engines_run() {
    let urls = [fresh(1).await.remove(0), servers::mariadb().await.fresh_database().await];
    let old = open(&urls[..1]).await;
    let tasks = insert(&old, (1..200).map(ask).collect(), NOW).await;
    old.close().await;
    // Every engine is started with the longer list, and leaves the new database alone.
    let engine = open(&urls).await;
    assert_eq!(sql(&urls[1], "SHOW TABLES").await, "");
    assert_eq!(engine.check().await.unwrap().len(), 1);
    let mut go_on = |_: &MoveProgress| ControlFlow::Continue(());
    let early = engine.move_partition(Partition(0), 1, &mut go_on).await.unwrap_err();
    assert!(early.to_string().contains("shard add"), "{early}");

    assert_eq!(MysqlStore::add_databases(&urls).await.unwrap(), (1, 2));
    assert_eq!(MysqlStore::add_databases(&urls).await.unwrap(), (2, 2), "again changes nothing");
    let short = refused(&urls[..1]).await;
    assert!(short.contains("1 databases are named, and the cluster has 2"), "{short}");

    move_to(&engine, 0, 1).await.unwrap();
    move_to(&engine, 3, 1).await.unwrap();
    let all = tasks.iter().map(|task| (task.ask.task_id.unwrap(), task.place)).collect();
    each_is_found_once(&engine, &all).await;
    all_is_sound(&engine).await;
    let sizes = engine.stats().await.unwrap();
    let partitions: Vec<usize> = sizes.iter().map(|size| size.partitions.len()).collect();
    assert_eq!(partitions, [2, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_database_of_another_cluster_or_of_another_place_is_not_added() {
    let (urls, other) = (fresh(1).await, fresh(2).await);
    for list in [&urls, &other] {
        open(list).await.close().await;
    }
    let add = async |urls: [&String; 2]| {
        let urls: Vec<String> = urls.into_iter().cloned().collect();
        MysqlStore::add_databases(&urls).await.unwrap_err().to_string()
    };
    assert!(add([&urls[0], &other[1]]).await.contains("another cluster"));
    assert!(add([&urls[0], &other[0]]).await.contains("order the list"));
    open(&urls).await.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_partition_goes_where_a_live_engine_could_not_follow() {
    let urls = fresh(2).await;
    let short = open(&urls[..1]).await;
    let ownership = short.ownership();
    ownership.beat("short-sighted", Duration::from_secs(60), &Says::default()).await.unwrap();
    MysqlStore::add_databases(&urls).await.unwrap();
    let operator = open(&urls).await;
    let mut go_on = |_: &MoveProgress| ControlFlow::Continue(());
    let refused = operator.move_partition(Partition(0), 1, &mut go_on).await.unwrap_err().to_string();
    assert!(refused.contains("short-sighted names 1"), "{refused}");
    // An engine of before does not say how many it names.
    ownership.leave("short-sighted").await.unwrap();
    sql(&urls[0], "INSERT INTO engine (name, alive_until) VALUES ('of-before', 9000000000000)").await;
    let refused = operator.move_partition(Partition(0), 1, &mut go_on).await.unwrap_err().to_string();
    assert!(refused.contains("of-before names 0"), "{refused}");
    sql(&urls[0], "DELETE FROM engine").await;
    operator.ownership().beat("knows-all", Duration::from_secs(60), &Says::default()).await.unwrap();
    move_to(&operator, 0, 1).await.unwrap();
}

/// How wide buckets are follows what callers insert: partitions that move are no burst, neither where they arrive nor when
/// they come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn partitions_that_arrive_are_not_measured_as_inserts() {
    const WINDOW: i64 = 600_000;
    let urls = fresh(2).await;
    let store = open(&urls).await;
    insert(&store, (1..200).map(ask).collect(), NOW).await;
    move_to(&store, 0, 1).await;
    let buckets = store.buckets(punctual_store::BucketOptions::default());
    let peaks = async || {
        let mut peaks = Vec::new();
        for url in &urls {
            peaks.push(sql(url, "SELECT value FROM meta WHERE name = 'rate_peak'").await);
        }
        peaks
    };
    buckets.run_once(NOW).await.unwrap();
    for to in [1, 0] {
        for partition in 0..PARTITIONS {
            move_to(&store, partition, to).await;
        }
    }
    buckets.run_once(NOW.plus(WINDOW)).await.unwrap();
    assert_eq!(peaks().await, ["0", "0"]);
    for partition in 0..PARTITIONS {
        move_to(&store, partition, 1).await;
    }
    insert(&store, (1_000..1_100).map(ask).collect(), NOW).await;
    buckets.run_once(NOW.plus(2 * WINDOW)).await.unwrap();
    assert_eq!(peaks().await, ["0", "600"], "what is inserted is: a hundred in ten minutes");
    all_is_sound(&store).await;
}
