//! The operator's bad day, on a private Redis and a private MariaDB: Redis flushed, restarted empty or on an old copy, stopped, not there yet,
//! frozen and full, and MySQL stopped, while thousands of tasks are pending and some fire. Each time: nothing lost, nothing early,
//! nothing completed twice. How late it was is printed, and bounded by the benches.

mod apart;
mod behind;
mod full;
mod scanned;
mod silence;
mod site;
mod start;
mod stranger;
mod without;

use site::OutagesSite;

/// Each case with one engine, which has no other to turn to, and with three.
macro_rules! by_engines {
    ($($case:ident)*) => {
        mod one_engine {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(1).await;
            })*
        }
        mod three_engines {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(3).await;
            })*
        }
    };
}

by_engines! {
    redis_is_flushed_while_thousands_wait_and_some_fire
    redis_dies_and_starts_again_empty
    redis_dies_and_starts_again_as_it_was_a_while_ago
    redis_is_away_for_long_and_firing_goes_on
    redis_freezes_and_firing_goes_on
    mysql_is_stopped_while_tasks_fall_due
}

/// Past the moment when some have come and most have not.
const SOME: usize = 150;
/// So many come, or fall due, before an outage is over.
const MEANWHILE: usize = 150;

async fn redis_is_flushed_while_thousands_wait_and_some_fire(engines: usize) {
    let site = OutagesSite::new(&[]).await;
    let crew = site.crew(engines).await;
    crew.insert(1_600, 14_000..24_000).await;
    // From now on all of it is in Redis, and no preloader will come upon it again.
    crew.preloads_again(2).await;
    crew.have_come(SOME).await;
    let before = crew.progress();
    site.redis.command(&["FLUSHALL"]).await;
    let lost = crew.are_filled_again(before).await;
    let swept = crew.finish(&format!("Redis flushed, {engines} engines"), 1_600).await;
    assert!(
        swept <= lost,
        "{swept} were found by the sweep, and {lost} fell due before Redis was filled again"
    );
}

async fn redis_dies_and_starts_again_empty(engines: usize) {
    let site = OutagesSite::new(&[]).await;
    let crew = site.crew(engines).await;
    crew.insert(1_600, 14_000..24_000).await;
    crew.preloads_again(2).await;
    crew.have_come(SOME).await;
    let before = crew.progress();
    site.redis.kill();
    site.redis.start_again().await;
    let lost = crew.are_filled_again(before).await;
    let swept = crew.finish(&format!("Redis restarted empty, {engines} engines"), 1_600).await;
    assert!(
        swept <= lost,
        "{swept} were found by the sweep, and {lost} fell due before Redis was filled again"
    );
}

/// The notes that partitions are whole are in the old copy, too.
async fn redis_dies_and_starts_again_as_it_was_a_while_ago(engines: usize) {
    let site = OutagesSite::new(&[]).await;
    let crew = site.crew(engines).await;
    crew.preloads_again(1).await;
    site.redis.command(&["SAVE"]).await;
    crew.insert(1_600, 14_000..24_000).await;
    crew.preloads_again(2).await;
    crew.have_come(SOME).await;
    let before = crew.progress();
    site.redis.kill();
    site.redis.start_again().await;
    let lost = crew.are_filled_again(before).await;
    let swept = crew.finish(&format!("Redis restarted on an old copy, {engines} engines"), 1_600).await;
    assert!(
        swept <= lost,
        "{swept} were found by the sweep, and {lost} fell due before Redis was filled again"
    );
}

async fn redis_is_away_for_long_and_firing_goes_on(engines: usize) {
    let site = OutagesSite::new(&[]).await;
    let crew = site.crew(engines).await;
    crew.insert(2_400, 14_000..34_000).await;
    crew.preloads_again(2).await;
    crew.have_come(SOME).await;
    site.redis.kill();
    crew.fire_from_the_store(MEANWHILE).await;
    site.redis.start_again().await;
    let back = crew.have_redis_again().await;
    crew.insert(200, 1_000..2_000).await;
    crew.fire_from_redis(back, MEANWHILE).await;
    crew.finish(&format!("Redis away, {engines} engines"), 2_600).await;
}

/// Connections stay open, but Redis does not answer: calls in flight end when engines consider Redis
/// unavailable.
async fn redis_freezes_and_firing_goes_on(engines: usize) {
    let site = OutagesSite::new(&[]).await;
    let crew = site.crew(engines).await;
    crew.insert(1_600, 1_500..15_000).await;
    crew.have_come(SOME).await;
    site.redis.pause();
    crew.fire_from_the_store(MEANWHILE).await;
    site.redis.resume();
    crew.finish(&format!("Redis frozen, {engines} engines"), 1_600).await;
}

/// Tasks cannot be handed over without a lease in the store: fired tasks wait, and so do outcomes.
async fn mysql_is_stopped_while_tasks_fall_due(engines: usize) {
    let site = OutagesSite::new(&[]).await;
    let crew = site.crew(engines).await;
    crew.insert(1_600, 1_500..9_500).await;
    crew.have_come(SOME).await;
    site.mysql.kill();
    crew.are_refused().await;
    crew.are_overdue(MEANWHILE).await;
    site.mysql.start_again().await;
    crew.finish(&format!("MySQL stopped, {engines} engines"), 1_600).await;
}
