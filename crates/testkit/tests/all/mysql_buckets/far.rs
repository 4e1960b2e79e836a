//! Tasks due in the far future: housekeeping continues, the number of buckets stays small, and no change of
//! the table copies more than a bounded number of rows.

use super::{BOOKS, DAY, NOW, OPTIONS, Shard, TODAY};
use punctual_contract::{
    Store,
    store::{Applied, Change, Step},
};
use punctual_domain::{
    history::Note,
    name::{Name, QueueKey},
    task::NewTask,
    time::Millis,
};
use punctual_store::BucketOptions;

const YEAR: i64 = 365 * DAY;
/// What a cut may copy.
const COPIED_MAX: u64 = 10_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_that_are_due_in_years_and_centuries_do_not_keep_old_buckets_from_being_dropped() {
    let shard = Shard::with_buckets_since(6).await;
    shard.put(1_001, 500, TODAY - 6 * DAY, 11, "1").await;
    let queue = QueueKey { namespace: Name::default_namespace(), queue: Name::new("mail").unwrap() };
    let ask = |at| NewTask::new(queue.clone(), Name::new("send").unwrap(), Millis(at));
    // The last is beyond all buckets.
    let times = [25, 200, 8_000].map(|years| NOW.0 + years * YEAR);
    let inserted = shard.store.insert(times.map(ask).into(), "caller", NOW).await.unwrap();
    for day in 0..4 {
        let report = shard.run(OPTIONS, Millis(NOW.0 + day * DAY)).await;
        assert_eq!((report.uncut, report.wide, report.far_rows), (0, 0, 0), "day {day}: {report:?}");
        assert_eq!(report.dropped, if day == 0 { 3 } else { 1 }, "day {day}: {report:?}");
        let buckets = shard.buckets().await;
        assert!(buckets.len() < 120, "{} buckets", buckets.len());
    }
    shard.is_accounted_for().await;
    // And each of them can be found and brought nearer.
    let change = Change::Reschedule {
        execute_at: Some(Millis(NOW.0 + 5 * DAY)),
        priority: None,
        payload: None,
        queue: None,
    };
    for inserted in &inserted {
        let step = Step {
            place: inserted.task.place,
            fence: None,
            change: change.clone(),
            note: Note::default(),
            fired_at: None,
            known: None,
        };
        assert_eq!(shard.store.apply(vec![step], NOW).await.unwrap(), [Applied::Moved]);
    }
    assert_eq!(shard.sql("SELECT COUNT(*) FROM task PARTITION (pmax)").await, "0");
}

/// Rows that the server copies for a cut: the server reports for each statement how many it wrote.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_bucket_with_many_tasks_is_not_cut_as_it_comes_near_and_one_with_few_is() {
    let shard = Shard::fresh().await;
    shard.run(OPTIONS, NOW).await;
    // Due in forty days, where a bucket is eight days wide; and in sixty.
    let (many, few) = (TODAY + 41 * DAY, TODAY + 60 * DAY);
    shard.put(1, i64::try_from(COPIED_MAX).unwrap() + 1, many, 1, "NULL").await;
    shard.put(50_001, 100, few, 1, "NULL").await;
    let before = shard.bucket_of(many).await;
    let report = shard.run(OPTIONS, Millis(NOW.0 + 30 * DAY)).await;
    assert_eq!((report.wide, report.uncut), (1, 0), "{report:?}");
    assert_eq!(shard.bucket_of(many).await, before, "it stays as it is");
    assert!(before.1 - before.0 > DAY, "{before:?}");
    let report = shard.run(OPTIONS, Millis(NOW.0 + 52 * DAY)).await;
    let (begins_at, ends_at) = shard.bucket_of(few).await;
    assert_eq!(ends_at - begins_at, DAY, "{report:?}");
    shard.is_accounted_for().await;
    // It goes as a whole, when its last day is old enough.
    shard.sql("UPDATE task SET state = 11, keep_until = 1 WHERE id <= 10001").await;
    shard.sql(BOOKS).await;
    let report = shard.run(OPTIONS, Millis(before.1 + 3 * DAY)).await;
    assert_eq!(report.forgotten, COPIED_MAX + 1, "{report:?}");
    shard.is_accounted_for().await;
}

/// As a version before may have left it, or a day of inserts without housekeeping.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_last_bucket_with_many_tasks_is_left_alone_and_said_and_old_buckets_are_dropped_all_the_same() {
    let shard = Shard::with_buckets_since(6).await;
    shard.put(1_001, 500, TODAY - 6 * DAY, 11, "1").await;
    // Without the buckets that reach over centuries.
    for bucket in
        shard.buckets().await.iter().filter(|bucket| bucket.as_str() > "p2026112300" && *bucket != "pmax")
    {
        shard.sql(&format!("ALTER TABLE task DROP PARTITION {bucket}")).await;
    }
    shard.put(10_001, i64::try_from(COPIED_MAX).unwrap() + 1, TODAY + 300 * YEAR, 1, "NULL").await;
    let report = shard.run(OPTIONS, NOW).await;
    assert_eq!((report.uncut, report.far_rows, report.made), (1, COPIED_MAX + 1, 0), "{report:?}");
    assert_eq!((report.forgotten, report.dropped), (500, 3), "{report:?}");
    // As an operator does at a quiet hour.
    let report = shard.run(BucketOptions { cut_rows: 20_000, ..OPTIONS }, NOW).await;
    assert!(report.uncut == 0 && report.made > 30, "{report:?}");
}

impl Shard {
    /// Begin and end of the bucket that an instant belongs to.
    async fn bucket_of(&self, at: i64) -> (i64, i64) {
        let ends = "SELECT CAST(PARTITION_DESCRIPTION AS SIGNED) FROM information_schema.PARTITIONS
            WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'task' AND PARTITION_DESCRIPTION <> 'MAXVALUE'
            ORDER BY PARTITION_ORDINAL_POSITION";
        let ends: Vec<i64> = self.sql(ends).await.lines().map(|line| line.parse().unwrap()).collect();
        let nth = ends.partition_point(|number| *number <= at);
        (ends[nth - 1], ends[nth])
    }
}
