//! Two clusters on one Redis and one prefix: staging and production by mistake, or a newly created store. The
//! later one is refused; an engine whose keys get another owner leaves them alone, reports it, and fires from
//! the store.

use super::site::{OutagesSite, until};
use punctual_hot::{ClusterName, RedisHot, RedisOptions};
use punctual_store::{MysqlOptions, MysqlStore};

#[tokio::test(flavor = "multi_thread")]
async fn a_second_cluster_on_the_same_prefix_is_refused_and_told_what_to_do() {
    let site = OutagesSite::new(&[]).await;
    let first = site.hot().await;
    let url = site.mysql.fresh_database().await;
    let store = MysqlStore::open(&[url], MysqlOptions::default()).await.unwrap();
    let (number, at) = store.cluster();
    assert_ne!(number, site.cluster().await.number);
    let options = RedisOptions { cluster: Some(ClusterName { number, at }), ..RedisOptions::default() };
    let refused = RedisHot::connect(&site.redis.url(), options.clone()).await.unwrap_err().to_string();
    let other = site.cluster().await;
    for part in [
        &format!("{number:016x}"),
        &format!("{:016x}", other.number),
        &other.at,
        "prefix \"punctual\"",
        "`hot.prefix`",
    ] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    let elsewhere = RedisOptions { prefix: "staging".to_owned(), ..options };
    RedisHot::connect(&site.redis.url(), elsewhere).await.unwrap();
    drop(first);
    // Its own cluster is let in again.
    site.hot().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_becomes_another_clusters_is_left_alone_and_firing_goes_on() {
    let site = OutagesSite::new(&[]).await;
    let crew = site.crew(2).await;
    crew.insert(1_200, 3_000..15_000).await;
    crew.have_come(100).await;
    let given_away =
        "redis.call('FLUSHALL') return redis.call('SET', 'punctual:cluster', '00000000000000ff (b)')";
    site.redis.command(&["EVAL", given_away, "0"]).await;
    until("all engines have seen it", async || crew.engines().all(|engine| engine.hot_is_another_clusters()))
        .await;
    // What was written before they saw it.
    site.redis.command(&["EVAL", given_away, "0"]).await;
    crew.have_come(900).await;
    let alerts = crew.alerts().await;
    assert!(alerts.contains(&"hot_set_of_another_cluster"), "{alerts:?}");
    assert_eq!(site.redis.command(&["KEYS", "*"]).await.trim(), "punctual:cluster", "nothing was written");
    assert!(crew.fired_from_store() > 0);
    // The other cluster has gone.
    site.redis.command(&["FLUSHALL"]).await;
    until("Redis is theirs again", async || crew.engines().all(|engine| !engine.hot_is_away())).await;
    let own = site.redis.command(&["GET", "punctual:cluster"]).await;
    assert!(own.starts_with(&format!("h4:{:016x}", site.cluster().await.number)), "{own}");
    crew.finish("Redis became another cluster's", 1_200).await;
}
