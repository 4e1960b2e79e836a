//! Redis is unavailable when engines begin: they fire from the store, and use Redis as soon as it answers, also one that dies at that
//! moment. A Redis that must not be used is refused then, as it would have been at their start.

use super::{
    MEANWHILE,
    site::{Crew, OutagesSite, PARTITIONS, until},
};
use punctual_engine::Engine;
use punctual_testkit::servers::Way;

async fn begin_without_redis(engines: usize) {
    let site = OutagesSite::new(&[]).await;
    site.redis.kill();
    let crew = site.crew(engines).await;
    assert!(crew.engines().all(Engine::hot_is_away), "from the first instant on");
    assert!(crew.alerts().await.contains(&"hot_set_away"));
    crew.insert(300, 30_000..33_000).await;
    crew.insert(600, 200..12_000).await;
    crew.fire_from_the_store(MEANWHILE).await;
    site.redis.start_again().await;
    let back = crew.have_redis_again().await;
    let looked_through = async || crew.looked_through() >= u64::from(PARTITIONS);
    until("all partitions are looked through", looked_through).await;
    crew.insert(200, 1_000..2_000).await;
    crew.fire_from_redis(back, MEANWHILE).await;
    crew.finish(&format!("Redis away at the start of {engines}"), 1_100).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_begins_without_redis_fires_and_takes_it_up() {
    begin_without_redis(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_engines_that_begin_without_redis_fire_and_take_it_up() {
    begin_without_redis(3).await;
}

/// As soon as an engine uses it, and before its partitions are looked through.
async fn redis_dies_while_it_is_taken_up(engines: usize) {
    let site = OutagesSite::new(&[]).await;
    site.redis.kill();
    let crew = site.crew(engines).await;
    crew.insert(300, 25_000..28_000).await;
    crew.insert(900, 200..20_000).await;
    crew.fire_from_the_store(MEANWHILE).await;
    site.redis.start_again().await;
    until("an engine uses it", async || !crew.engines().all(Engine::hot_is_away)).await;
    site.redis.kill();
    crew.fire_from_the_store(MEANWHILE).await;
    site.redis.start_again().await;
    let back = crew.have_redis_again().await;
    crew.insert(200, 1_000..2_000).await;
    crew.fire_from_redis(back, MEANWHILE).await;
    crew.finish(&format!("Redis died while it was taken up by {engines}"), 1_400).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_dies_while_one_engine_takes_it_up_loses_nothing() {
    redis_dies_while_it_is_taken_up(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_dies_while_three_engines_take_it_up_loses_nothing() {
    redis_dies_while_it_is_taken_up(3).await;
}

/// Engines that have never reached Redis, and tasks that come from the store.
async fn cut_off(site: &OutagesSite) -> Crew {
    site.ways().redis.set(Way::Cut);
    let crew = site.crew(2).await;
    crew.insert(900, 200..20_000).await;
    crew.fire_from_the_store(MEANWHILE).await;
    crew
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_another_clusters_when_it_first_answers_is_left_alone() {
    let site = OutagesSite::behind_proxies().await;
    let crew = cut_off(&site).await;
    site.redis.command(&["SET", "punctual:cluster", "00000000000000ff (b)"]).await;
    site.ways().redis.set(Way::Open);
    until("all engines have seen it", async || crew.engines().all(|engine| engine.hot_is_another_clusters()))
        .await;
    let came = crew.came();
    crew.have_come(came + MEANWHILE).await;
    let alerts = crew.alerts().await;
    assert!(alerts.contains(&"hot_set_of_another_cluster"), "{alerts:?}");
    assert_eq!(site.redis.command(&["KEYS", "*"]).await.trim(), "punctual:cluster", "nothing was written");
    // The other cluster has gone.
    site.redis.command(&["FLUSHALL"]).await;
    crew.have_redis_again().await;
    let own = site.redis.command(&["GET", "punctual:cluster"]).await;
    assert!(own.starts_with(&format!("h4:{:016x}", site.cluster().await.number)), "{own}");
    crew.finish("Redis was another cluster's when it came", 900).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_throws_tasks_away_is_not_used_until_it_keeps_them() {
    let site = OutagesSite::behind_proxies().await;
    let crew = cut_off(&site).await;
    site.redis.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
    site.ways().redis.set(Way::Open);
    until("all engines say why", async || {
        let mut said = true;
        for engine in crew.engines() {
            let alerts = engine.alerts().await.unwrap();
            said &= alerts.iter().any(|alert| alert.text.contains("maxmemory-policy"));
        }
        said
    })
    .await;
    let came = crew.came();
    crew.have_come(came + MEANWHILE).await;
    assert_eq!(site.redis.command(&["KEYS", "*"]).await.trim(), "", "nothing was written");
    site.redis.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await;
    let back = crew.have_redis_again().await;
    crew.insert(200, 1_000..2_000).await;
    crew.fire_from_redis(back, MEANWHILE).await;
    crew.finish("Redis was unfit when it came", 1_100).await;
}

/// No executor asks at two of three engines: their tasks are handed over by the third.
#[tokio::test(flavor = "multi_thread")]
async fn without_redis_executors_at_one_engine_have_the_tasks_of_all() {
    let site = OutagesSite::new(&[]).await;
    let crew = site.crew_asked_at_one(&vec![Some(site.redis.url()); 3]).await;
    let shares = crew.final_shares().await;
    assert!(shares.iter().all(|owned| *owned > 0), "{shares:?}");
    // While no engine reaches Redis each keeps what it has.
    site.redis.kill();
    until("each engine knows", async || crew.engines().all(Engine::hot_is_away)).await;
    crew.insert(300, 200..6_000).await;
    crew.finish("Redis away, and executors at one of three", 300).await;
}
