//! One engine of two cannot reach the second database: its partitions there move to the other one, and fire
//! while the path is still broken. If both lose it, nothing moves, neither at the loss nor at the return.

use super::site::{self, ShardedSite};
use punctual_testkit::servers::Way;

/// So many tasks come by the other engine before the way is back.
const MEANWHILE: usize = 40;
/// Longer than an engine keeps partitions of a database that it does not reach, and than it takes to be trusted again.
const LOOKED_AT_MS: i64 = 9_000;

async fn goes_to_the_other(way: Way) {
    let site = ShardedSite::with_ways_apart().await;
    let all_of = |owners: &[(String, i64)], engine: &str| owners.iter().all(|owner| owner.0 == engine);
    let owners = site.settled_owners_of_the_second().await;
    site.insert(500, 1_500..14_000).await;
    site.have_come(40).await;
    let cut_at = site.now();
    site.apart[0].set(way);
    site.until("the other has them", async || all_of(&site.owners_of_the_second().await, "e1")).await;
    let (moved_at, left) = (site.now(), site.left_of_the_second());
    site.until("some come by the other engine", async || {
        left.iter().filter(|task| site.has_come(**task)).count() >= MEANWHILE
    })
    .await;
    // What was on its way at the instant of the cut may come later: its lease is neither made nor not made, as far as its
    // engine knows.
    let to = site.now();
    site.until("what fell due meanwhile has come", async || site.missing_of_the_second(moved_at, to) == 0)
        .await;
    let late = site.late_of_the_second(cut_at, to);
    let (moved_ms, (_, _, worst)) = (moved_at.since(cut_at), late.figures());
    site::say(&format!(
        "{way:?}: the other engine had the partitions after {moved_ms} ms; of {} tasks the last was {worst} ms late",
        late.0.len()
    ));
    site.apart[0].set(Way::Open);
    site.until("it has its share again", async || {
        site.owners_of_the_second().await.iter().map(|owner| &owner.0).eq(owners.iter().map(|owner| &owner.0))
    })
    .await;
    site.finish(500).await;
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
    let site = ShardedSite::with_ways_apart().await;
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
