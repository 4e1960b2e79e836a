//! Connections that fall silent without being closed, as behind a firewall that forgot them, and hosts that vanish: firing
//! goes on, every acknowledged task comes, none is completed twice. The bounds are generous for a slow machine and far
//! below what each of these cost before (30 s, 84 s and more); those of Redis are the bar itself, beyond what the machine is
//! late without the fault: a second.

use super::site::Site;
use punctual_testkit::servers::{Proxy, Way};
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

/// Half a second until the first connection is replaced, and what then is to be done again.
const REDIS_COSTS_MS: i64 = 1_000;

#[tokio::test(flavor = "multi_thread")]
async fn connections_to_redis_fall_silent_and_cost_a_second() {
    redis_costs_a_second("connections to Redis silent", |redis| redis.set_open(Way::Silent)).await;
}

/// What was asked has happened, and nobody was told: what was taken is in nobody's hands.
#[tokio::test(flavor = "multi_thread")]
async fn connections_to_redis_lose_their_answers_and_cost_a_second() {
    redis_costs_a_second("answers of Redis lost", |redis| redis.set_open(Way::AnswersLost)).await;
}

/// An engine's connections to Redis, in the order in which it makes them.
#[derive(Clone, Copy, Debug)]
enum Connection {
    Bulk,
    OtherBulk,
    Quick,
    Listener,
}

async fn one_connection_costs_a_second(connection: Connection) {
    let what = format!("{connection:?} loses its answers");
    redis_costs_a_second(&what, |redis| {
        // Those of the first engine come first.
        let open = redis.connections();
        assert!(redis.set_one(open[connection as usize], Way::AnswersLost));
    })
    .await;
}

async fn redis_costs_a_second(what: &str, fault: impl FnOnce(&Proxy)) {
    let site = Site::behind_proxies().await;
    let crew = site.busy_crew(2).await;
    crew.insert(2_000, 1_500..10_000).await;
    crew.have_come(SOME).await;
    let at_ms = crew.elapsed_ms();
    fault(&site.ways().redis);
    let worst = crew.finish(what, 2_000).await;
    worst.is_later_by_at_most(at_ms, REDIS_COSTS_MS);
}

macro_rules! one_connection {
    ($($name:ident: $connection:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            one_connection_costs_a_second(Connection::$connection).await;
        }
    )*};
}

one_connection! {
    a_connection_to_redis_for_bulk_loses_its_answers_and_costs_a_second: Bulk
    the_other_connection_to_redis_for_bulk_loses_its_answers_and_costs_a_second: OtherBulk
    the_connection_to_redis_for_what_is_quick_loses_its_answers_and_costs_a_second: Quick
    the_connection_to_redis_that_hears_other_engines_is_silent_and_costs_a_second: Listener
}
