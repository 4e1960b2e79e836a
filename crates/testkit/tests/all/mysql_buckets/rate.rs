//! Buckets are as wide as the rate lets them be, by the database's own counter; those that have begun, or in which many stand,
//! stay. Tried: a width that is always what was asked for.

use super::{DAY, NOW, OPTIONS, Shard, TODAY};
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
}
