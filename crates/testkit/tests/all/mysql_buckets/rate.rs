//! Buckets are as wide as the rate allows, by the database's own counter; those that have begun, or that have
//! many tasks, are kept. Tried: a width that is always the configured one.

use super::{DAY, NOW, OPTIONS, Shard, TODAY};
use punctual_contract::ClusterStore as _;
use punctual_domain::time::Millis;
use punctual_store::BucketOptions;

const WINDOW: i64 = 600_000;
/// With a thousand tasks in ten minutes, six hours of them.
const NARROW: BucketOptions = BucketOptions { rows: 36_000, ..OPTIONS };

async fn accept(shard: &Shard, tasks: i64) {
    shard.sql(&format!("REPLACE INTO counters (slot, name, value) VALUES (0, 'accepted', {tasks})")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn buckets_become_narrower_as_more_tasks_come_and_wide_again_when_they_are_few() {
    let shard = Shard::fresh().await;
    let report = shard.run(NARROW, NOW).await;
    assert_eq!(report.narrowest_hours, 24, "nothing is measured yet: {report:?}");
    let wide = ["p2026112100", "p2026112200", "p2026112300", "p2026112400"];
    assert_eq!(shard.buckets().await[..4], wide);
    accept(&shard, 1_000).await;
    let report = shard.run(NARROW, Millis(NOW.0 + WINDOW)).await;
    assert_eq!(report.narrowest_hours, 6, "{report:?}");
    let narrow = ["p2026112100", "p2026112200", "p2026112206", "p2026112212", "p2026112218", "p2026112300"];
    assert_eq!(shard.buckets().await[..6], narrow, "the one that has begun stays");
    // Another engine finds what was measured.
    let again = shard.run(NARROW, Millis(NOW.0 + WINDOW + 60_000)).await;
    assert_eq!((again.narrowest_hours, again.made), (6, 0), "{again:?}");
    let later = shard.run(NARROW, Millis(NOW.0 + 9 * DAY)).await;
    assert_eq!(later.narrowest_hours, 24, "after a quiet week: {later:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_bucket_with_many_tasks_stays_wide_whatever_the_rate() {
    let shard = Shard::fresh().await;
    shard.run(NARROW, NOW).await;
    shard.put(1, 500, TODAY + DAY, 1, "NULL").await;
    accept(&shard, 1_500).await;
    let report = shard.run(BucketOptions { cut_rows: 400, ..NARROW }, Millis(NOW.0 + WINDOW)).await;
    assert_eq!(report.wide, 1, "{report:?}");
    assert_eq!(shard.buckets().await[1..3], ["p2026112200", "p2026112300"]);
    assert_eq!(shard.store.database(0).await.unwrap().buckets_wide, Some(1), "and is told of");
}

/// Tasks of the first day are not left in buckets of a day, at any rate.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_first_buckets_are_narrow_until_it_is_known_how_many_tasks_come() {
    const FIRST: BucketOptions = BucketOptions { first_hours: 4, ..NARROW };
    let shard = Shard::fresh().await;
    let report = shard.run(FIRST, NOW).await;
    assert_eq!(report.narrowest_hours, 4, "{report:?}");
    let first = ["p2026112100", "p2026112104", "p2026112108", "p2026112112"];
    assert_eq!(shard.buckets().await[..4], first);
    assert!(shard.buckets().await.len() < 120);
    accept(&shard, 4_000).await;
    let report = shard.run(FIRST, Millis(NOW.0 + WINDOW)).await;
    assert_eq!((report.narrowest_hours, report.wide), (1, 0), "{report:?}");
    let cut = ["p2026112100", "p2026112104", "p2026112105", "p2026112106"];
    assert_eq!(shard.buckets().await[..4], cut, "by the rate, from the next one on");
    // Where buckets are there, nothing is cut before something is measured.
    let known = Shard::fresh().await;
    known.run(NARROW, NOW).await;
    let (before, report) = (known.buckets().await, known.run(FIRST, Millis(NOW.0 + 60_000)).await);
    assert_eq!((report.made, report.narrowest_hours, known.buckets().await), (0, 24, before), "{report:?}");
}
