//! Connections that fall silent without being closed, as behind a firewall that forgot them, and hosts that vanish: firing
//! goes on, every acknowledged task comes, none is completed twice. The bounds are generous for a slow machine and far
//! below what each of these cost before (30 s, 84 s and more, 5 s).

use super::site::Site;
use punctual_testkit::servers::Way;
const SOME: usize = 300;

/// All that are open, at whatever they are: the writers, the readers, the signs of life.
#[tokio::test(flavor = "multi_thread")]
async fn connections_to_mysql_fall_silent_and_firing_goes_on_on_new_ones() {
    let site = Site::behind_proxies().await;
    let crew = site.crew(2).await;
    crew.insert(3_000, 1_500..16_000).await;
    crew.have_come(SOME).await;
    site.ways().mysql.set_open(Way::Silent);
    let worst = crew.finish("connections to MySQL silent", 3_000).await;
    worst.is_at_most(12_000);
}

/// What was asked has happened, and nobody was told.
#[tokio::test(flavor = "multi_thread")]
async fn connections_to_mysql_lose_their_answers_and_firing_goes_on_on_new_ones() {
    let site = Site::untimed(&[]).await.with_proxies();
    let crew = site.crew(2).await;
    crew.insert(2_000, 1_500..12_000).await;
    crew.have_come(SOME).await;
    site.ways().mysql.set_open(Way::AnswersLost);
    // A lease that was committed and not answered comes again when it has ended.
    crew.finish("answers of MySQL lost", 2_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_of_mysql_vanishes_and_all_goes_on_soon_after_its_address_is_back() {
    let site = Site::behind_proxies().await;
    let crew = site.crew(2).await;
    crew.insert(4_000, 1_500..26_000).await;
    crew.have_come(SOME).await;
    let from_ms = crew.elapsed_ms();
    site.ways().mysql.vanish();
    crew.passes(10_000).await;
    site.ways().mysql.come_back();
    let away_ms = crew.elapsed_ms() - from_ms;
    let back_ms = crew.elapsed_ms();
    let worst = crew.finish("the host of MySQL gone", 4_000).await;
    worst.is_at_most(away_ms + 12_000);
    worst.is_at_most_of_those_due_after(back_ms + 10_000, 5_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_to_redis_fall_silent_and_cost_a_second_or_two() {
    let site = Site::behind_proxies().await;
    let crew = site.crew(2).await;
    crew.insert(3_000, 1_500..12_000).await;
    crew.have_come(SOME).await;
    site.ways().redis.set_open(Way::Silent);
    let worst = crew.finish("connections to Redis silent", 3_000).await;
    worst.is_at_most(4_500);
}
