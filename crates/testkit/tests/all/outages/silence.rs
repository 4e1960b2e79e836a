//! Connections that become silent without being closed, as behind a firewall that lost its state, and hosts
//! that vanish: firing continues during the fault, every acknowledged task is delivered, none is completed
//! twice.

use super::site::OutagesSite;
use punctual_testkit::servers::{Proxy, Way};

const SOME: usize = 150;

/// All that are open, at whatever they are: the writers, the readers, the heartbeats.
#[tokio::test(flavor = "multi_thread")]
async fn connections_to_mysql_fall_silent_and_firing_goes_on_on_new_ones() {
    let site = OutagesSite::behind_proxies().await;
    let crew = site.crew(2).await;
    crew.insert(1_200, 1_500..16_000).await;
    crew.have_come(SOME).await;
    // They stay silent: what comes from now on comes by new ones.
    site.ways().mysql.set_open(Way::Silent);
    crew.finish("connections to MySQL silent", 1_200).await;
}

/// MySQL has done the work, but its answers are lost.
#[tokio::test(flavor = "multi_thread")]
async fn connections_to_mysql_lose_their_answers_and_firing_goes_on_on_new_ones() {
    let site = OutagesSite::behind_proxies().await;
    let crew = site.crew(2).await;
    crew.insert(800, 1_500..12_000).await;
    crew.have_come(SOME).await;
    site.ways().mysql.set_open(Way::AnswersLost);
    // The task of a lease that was committed and not answered is leased again when the lease has ended.
    crew.finish("answers of MySQL lost", 800).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_of_mysql_vanishes_and_all_goes_on_when_its_address_is_back() {
    let site = OutagesSite::behind_proxies().await;
    let crew = site.crew(2).await;
    crew.insert(1_600, 1_500..26_000).await;
    crew.have_come(SOME).await;
    site.ways().mysql.vanish();
    crew.are_refused().await;
    crew.are_overdue(SOME).await;
    site.ways().mysql.reopen();
    crew.finish("the host of MySQL gone", 1_600).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_to_redis_fall_silent_and_firing_goes_on_on_new_ones() {
    firing_goes_on("connections to Redis silent", |redis| redis.set_open(Way::Silent)).await;
}

/// Redis has done the work, but its answers are lost: no engine has the entries that were taken out.
#[tokio::test(flavor = "multi_thread")]
async fn connections_to_redis_lose_their_answers_and_firing_goes_on_on_new_ones() {
    firing_goes_on("answers of Redis lost", |redis| redis.set_open(Way::AnswersLost)).await;
}

/// An engine's connections to Redis, in the order in which it makes them.
#[derive(Clone, Copy, Debug)]
enum Connection {
    Bulk,
    OtherBulk,
    Quick,
    Listener,
}

async fn one_connection_is_replaced(connection: Connection) {
    let what = format!("{connection:?} loses its answers");
    firing_goes_on(&what, |redis| {
        // Those of the first engine come first.
        let open = redis.connections();
        assert!(redis.set_one(open[connection as usize], Way::AnswersLost));
    })
    .await;
}

/// The open connections stay as the fault left them until the end: the fault is over once they are replaced.
async fn firing_goes_on(what: &str, fault: impl FnOnce(&Proxy)) {
    let site = OutagesSite::behind_proxies().await;
    let crew = site.busy_crew(2).await;
    crew.insert(1_000, 1_500..10_000).await;
    crew.have_come(SOME).await;
    fault(&site.ways().redis);
    crew.finish(what, 1_000).await;
}

macro_rules! one_connection {
    ($($name:ident: $connection:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            one_connection_is_replaced(Connection::$connection).await;
        }
    )*};
}

one_connection! {
    a_connection_to_redis_for_bulk_loses_its_answers_and_firing_goes_on: Bulk
    the_other_connection_to_redis_for_bulk_loses_its_answers_and_firing_goes_on: OtherBulk
    the_connection_to_redis_for_what_is_quick_loses_its_answers_and_firing_goes_on: Quick
    the_connection_to_redis_that_hears_other_engines_is_silent_and_firing_goes_on: Listener
}
