//! One engine of two loses its way to the second database: its partitions there go to the other one, and fire again within
//! five seconds. Where both lose it nothing moves, neither when it goes nor when it comes back.

use super::site::{self, Site, Turn};
use punctual_domain::time::Millis;
use punctual_testkit::servers::Way;

/// What the issue promises, from the cut to the hand-over of what fell due meanwhile.
const WITHIN_MS: i64 = 5_000;
/// On its way at the instant of the cut: its lease is neither made nor not made, as far as its engine knows.
const ON_ITS_WAY_MS: i64 = 500;
/// Longer than an engine keeps partitions of a database that it does not reach, and than it takes to be trusted again.
const LOOKED_AT_MS: i64 = 9_000;

async fn goes_to_the_other(way: Way) {
    let site = Site::with_ways_apart(Turn::Own).await;
    let all_of = |owners: &[(String, i64)], engine: &str| owners.iter().all(|it| it.0 == engine);
    let owners = site.settled_owners_of_the_second().await;
    site.insert(700, 1_500..15_500).await;
    site.have_come(60).await;
    let cut_at = site.now();
    site.apart[0].set(way);
    site.until("the other has them", async || all_of(&site.owners_of_the_second().await, "e1")).await;
    let moved_ms = site.now().since(cut_at);
    let (from, to) = (cut_at.plus(ON_ITS_WAY_MS), cut_at.plus(WITHIN_MS));
    site.until("what fell due meanwhile was handed over", async || {
        site.now() > to && site.of_the_second(from, to).iter().all(|it| it.1.is_some())
    })
    .await;
    let came = site.of_the_second(from, to);
    let late = |(due_at, came_at): &(Millis, Option<Millis>)| {
        came_at.map_or(i64::MAX, |it| it.since(cut_at.max(*due_at)))
    };
    let worst = came.iter().map(late).max().unwrap();
    site::say(&format!(
        "{way:?}: the other engine had the partitions after {moved_ms} ms; of {} tasks the last came after {worst} ms",
        came.len()
    ));
    assert!(came.len() > 20, "{}", came.len());
    assert!(moved_ms < WITHIN_MS, "{moved_ms} ms");
    assert!(worst < WITHIN_MS, "{worst} ms");
    site.apart[0].set(Way::Open);
    site.until("it has its share again", async || {
        site.owners_of_the_second().await.iter().map(|it| &it.0).eq(owners.iter().map(|it| &it.0))
    })
    .await;
    site.finish(700).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_database_that_is_cut_from_one_engine_goes_to_one_that_reaches_it() {
    goes_to_the_other(Way::Cut).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_database_that_is_silent_to_one_engine_goes_to_one_that_reaches_it() {
    goes_to_the_other(Way::Silent).await;
}

async fn stays_where_it_is(way: Way) {
    let site = Site::with_ways_apart(Turn::Beside).await;
    let owners = site.settled_owners_of_the_second().await;
    let stays = async |what: &str| {
        let until = site.now().plus(LOOKED_AT_MS);
        site.until(what, async || {
            assert_eq!(site.owners_of_the_second().await, owners, "{way:?}: {what}");
            site.now() > until
        })
        .await;
    };
    site.apart[0].set(way);
    site.apart[1].set(way);
    stays("it is away from both").await;
    site.apart[1].set(Way::Open);
    site.apart[0].set(Way::Open);
    stays("it is back").await;
    site.finish(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn while_no_engine_reaches_a_database_its_partitions_stay_where_they_are() {
    tokio::join!(stays_where_it_is(Way::Cut), stays_where_it_is(Way::Silent));
}
