//! How long a bucket's tasks are locked while it is dropped, and the times before and after: `cargo run -p
//! punctual-testkit --example bucket_drop -- [tasks]`, on a private MariaDB. The server makes the rows, a
//! thousandth of them unfinished.
#![expect(clippy::print_stdout, reason = "its purpose")]

use punctual_domain::time::Millis;
use punctual_store::{
    ArchiveStorage, ArchiveStorageOptions, BucketOptions, BucketReport, MysqlOptions, MysqlStore,
};
use punctual_testkit::servers::{self, MariaDb};
use std::{sync::Arc, time::Instant};

const DAY: i64 = 86_400_000;
/// 2026-11-21T02:30:00Z
const NOW: Millis = Millis(1_795_228_200_000);
const THEN: i64 = NOW.0 - 10 * DAY;

struct Ground {
    server: &'static MariaDb,
    database: String,
    store: MysqlStore,
}

impl Ground {
    async fn new(tasks: i64) -> Self {
        let server = servers::mariadb().await;
        let url = server.fresh_database().await;
        let database = url.rsplit('/').next().unwrap_or_default().to_owned();
        let store =
            MysqlStore::open(&[url], MysqlOptions::default()).await.expect("it was made a moment ago");
        store.buckets(BucketOptions::default()).run_once(Millis(THEN)).await.expect("buckets");
        let ground = Self { server, database, store };
        ground.fill(tasks).await;
        ground
    }

    async fn fill(&self, tasks: i64) {
        let day_from = THEN - THEN % DAY;
        let text = format!(
            "INSERT INTO task (partition_no, due_at, id, namespace, task_id, task_version, queue, kind, priority, state,
                fence, attempt, max_attempts, execute_at, created_at, updated_at, keep_until, place_due_at,
                cancel_requested, payload_is_json, payload, history)
             SELECT seq % 16, {day_from} + (seq * 7919) % {DAY}, seq, 'default', 1000 + seq, 0, CONCAT('q', seq % 3), 'k',
                3, IF(seq % 1000 = 0, 1, 11), 1, 1, 4, {day_from}, 0, 0, IF(seq % 1000 = 0, NULL, 1),
                {day_from} + (seq * 7919) % {DAY}, 0, 0, REPEAT(MD5(seq), 6), ''
             FROM seq_1_to_{tasks};
             INSERT INTO registry SELECT partition_no, namespace, task_id, task_version, id, due_at FROM task;
             INSERT INTO books SELECT 0, namespace, queue, state, COUNT(*), SUM(IF(state = 1, LENGTH(payload), 0)) FROM task
                GROUP BY 2, 3, 4;
             REPLACE INTO counters SELECT 0, 'accepted', COUNT(*) FROM task"
        );
        self.server.sql(&self.database, &text).await;
    }

    async fn run(&self) -> BucketReport {
        let buckets = self.store.buckets(BucketOptions::default());
        let mut report = buckets.run_once(NOW).await.expect("a run");
        assert!(!report.is_unfinished && report.dropped > 0, "{report:?}");
        // The axis was made ten days ago; buckets that are made ahead are not part of this measurement.
        report.made = 0;
        report
    }
}

#[tokio::main]
#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
async fn main() {
    let tasks: i64 = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(200_000);
    println!("tasks archive total_ms longest_change_ms carried archived archived_bytes forgotten");
    for (tasks, with_archive) in [(tasks / 10, false), (tasks, false), (tasks, true)] {
        let mut ground = Ground::new(tasks).await;
        let directory = tempfile::tempdir().expect("a directory");
        if with_archive {
            let url = format!("file://{}", directory.path().display());
            let archive_storage = ArchiveStorage::open(&url, ArchiveStorageOptions::default())
                .await
                .expect("a directory can be used");
            ground.store = ground.store.with_archive(Arc::new(archive_storage)).await.expect("a new place");
        }
        let ahead = BucketOptions { keep_hours: 24 * 365, ..BucketOptions::default() };
        ground.store.buckets(ahead).run_once(NOW).await.expect("buckets");
        let began = Instant::now();
        let report = ground.run().await;
        println!(
            "{tasks} {with_archive} {} {:.1} {} {} {} {}",
            began.elapsed().as_millis(),
            report.longest_change.as_secs_f64() * 1_000.0,
            report.carried,
            report.archived,
            report.archived_bytes,
            report.forgotten,
        );
    }
}
