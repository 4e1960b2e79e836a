//! Redis works, and one engine cannot reach it: its partitions move to engines that can. If no engine can
//! reach it, all keep their partitions.

use super::site::{OutagesSite, PARTITIONS, stays, until};
use punctual_testkit::servers::{Proxy, Way};

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_lost_only_redis_gives_its_partitions_to_one_that_has_it() {
    let site = OutagesSite::new(&[]).await;
    let way = Proxy::before(site.redis.port());
    let crew = site.crew_by(&[format!("redis://127.0.0.1:{}", way.port()), site.redis.url()]).await;
    let owned = || crew.engines().map(|engine| engine.owned()).collect::<Vec<_>>();
    until("both own some", async || !owned().contains(&0)).await;
    way.set(Way::Cut);
    until("the other one has all", async || owned() == [0, usize::from(PARTITIONS)]).await;
    // Every second batch is inserted where Redis is unavailable.
    crew.insert(1_000, 12_000..16_000).await;
    way.set(Way::Open);
    until("it has Redis again", async || !crew.engines().any(|engine| engine.hot_is_away())).await;
    let (overdue, swept) = (crew.overdue(), crew.swept());
    until("it takes part again", async || !owned().contains(&0)).await;
    let swept = crew.finish("Redis away from one of two engines", 1_000).await - swept;
    assert!(
        swept <= overdue,
        "{swept} were found by the sweep, and {overdue} fell due before it had Redis again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn while_redis_is_away_from_all_engines_each_keeps_what_it_has() {
    let site = OutagesSite::new(&[]).await;
    let ways = [Proxy::before(site.redis.port()), Proxy::before(site.redis.port())];
    let crew =
        site.crew_by(&ways.each_ref().map(|proxy| format!("redis://127.0.0.1:{}", proxy.port()))).await;
    let owned = || crew.engines().map(|engine| engine.owned()).collect::<Vec<_>>();
    until("both own some", async || !owned().contains(&0)).await;
    // Engines that have just begun are not done with it when the second one has its first.
    let before = crew.final_shares().await;
    assert_eq!(before.iter().sum::<usize>(), usize::from(PARTITIONS));
    crew.insert(400, 2_000..9_000).await;
    ways.iter().for_each(|way| way.set(Way::Cut));
    until("both have noticed", async || crew.engines().all(|engine| engine.hot_is_away())).await;
    // Longer than an engine alone in this would wait.
    stays("each keeps what it has", before, 6_000, owned).await;
    ways.iter().for_each(|way| way.set(Way::Open));
    crew.finish("Redis away from all engines", 400).await;
}
