//! A store of either kind on servers of its own, with production durability, and with archives if requested.

use punctual_contract::{Store, store::Retired};
use punctual_domain::{
    name::{Name, QueueKey},
    task::{Content, NewTask},
    time::Millis,
};
use punctual_store::{
    ArchiveOptions, ArchiveStorage, ArchiveStorageOptions, BucketOptions, MysqlOptions, MysqlStore, Options,
    SqliteStore,
};
use punctual_testkit::servers::MariaDb;
use std::{str::FromStr, sync::Arc, time::Duration};
use tempfile::TempDir;

pub(crate) const HOUR: i64 = 3_600_000;
pub(crate) const DAY: i64 = 24 * HOUR;
/// 2026-11-21T00:00:00Z
pub(crate) const START: Millis = Millis(1_795_219_200_000);
/// A bucket is dropped this many days after its last task.
pub(crate) const KEPT_DAYS: i64 = 3;
const BUCKETS: BucketOptions = BucketOptions {
    width_hours: 24,
    first_hours: 24,
    rows: 10_000_000,
    ahead_hours: 8 * 24,
    keep_hours: 24 * 3,
    carry_rows: 100_000,
    batch_rows: 1_000,
    batches_per_run: 2_000,
    cut_rows: 10_000,
};
const SERVER: [&str; 2] = ["--innodb-flush-log-at-trx-commit=1", "--innodb-log-file-size=512M"];
const BATCH: usize = 1_000;
const BYTES: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BenchKind {
    Sqlite,
    Mysql,
}

impl FromStr for BenchKind {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "sqlite" => Ok(Self::Sqlite),
            "mysql" => Ok(Self::Mysql),
            _ => Err(()),
        }
    }
}

pub(crate) struct LapseRig {
    store: OpenedBench,
    /// Gone with the rig.
    _files: TempDir,
    server: Option<MariaDb>,
}

enum OpenedBench {
    Sqlite(SqliteStore),
    Mysql(MysqlStore),
}

/// The results of one housekeeping pass.
#[derive(Debug, Default)]
pub(crate) struct Housekeeping {
    pub(crate) archived: u64,
    pub(crate) forgotten: u64,
    pub(crate) longest_change: Duration,
    /// Of the last look: buckets that are wider than they should be.
    pub(crate) wide: usize,
}

impl LapseRig {
    /// `buffer_pool`: what MariaDB keeps of its tables in memory.
    pub(crate) async fn new(
        kind: BenchKind,
        (databases, buffer_pool): (usize, &str),
        with_archive: bool,
    ) -> Self {
        let files = tempfile::tempdir().expect("a directory");
        let place = format!("file://{}/archive", files.path().display());
        let archive_storage = ArchiveStorage::open(&place, ArchiveStorageOptions::default()).await;
        let archive_storage = Arc::new(archive_storage.expect("a directory can be used"));
        let (store, server) = match kind {
            BenchKind::Sqlite => {
                let store = SqliteStore::open(files.path().join("punctual.db"), &Options::default());
                let store = store.expect("a new file");
                let store = if with_archive {
                    store.with_archive(archive_storage).await.expect("a new place")
                } else {
                    store
                };
                (OpenedBench::Sqlite(store), None)
            }
            BenchKind::Mysql => {
                let [durable, log] = SERVER;
                let buffer_pool = format!("--innodb-buffer-pool-size={buffer_pool}");
                let server = MariaDb::with(&[durable, log, &buffer_pool, "--userstat=1"]).await;
                let mut urls = Vec::new();
                for _ in 0..databases {
                    urls.push(server.fresh_database().await);
                }
                let store = MysqlStore::open(&urls, MysqlOptions::default()).await.expect("new databases");
                let store = if with_archive {
                    store.with_archive(archive_storage).await.expect("a new place")
                } else {
                    store
                };
                (OpenedBench::Mysql(store), Some(server))
            }
        };
        let rig = Self { store, _files: files, server };
        rig.keep_house(START).await;
        rig
    }

    pub(crate) fn store(&self) -> &dyn Store {
        match &self.store {
            OpenedBench::Sqlite(store) => store,
            OpenedBench::Mysql(store) => store,
        }
    }

    /// Archives and drops old tasks, until nothing is left to do.
    pub(crate) async fn keep_house(&self, now: Millis) -> Housekeeping {
        let mut all = Housekeeping::default();
        loop {
            let is_over = match &self.store {
                OpenedBench::Sqlite(store) => {
                    let options = ArchiveOptions { rows_min: 1, wait_ms: 0, rows_max: 1_000_000 };
                    let report = store.archive_once(now, options).await.expect("archives");
                    all.archived += report.archived;
                    all.forgotten += report.forgotten;
                    report.archived == 0
                }
                OpenedBench::Mysql(store) => {
                    let report = store.buckets(BUCKETS).run_once(now).await.expect("buckets");
                    all.archived += report.archived;
                    all.forgotten += report.forgotten;
                    all.longest_change = all.longest_change.max(report.longest_change);
                    all.wide = report.wide;
                    assert_eq!((report.not_archived, report.uncut), (0, 0), "{report:?}");
                    !report.is_unfinished
                }
            };
            if is_over {
                return all;
            }
        }
    }

    /// In all databases. None: there are none.
    pub(crate) async fn buckets(&self) -> Option<i64> {
        match &self.store {
            OpenedBench::Sqlite(_) => None,
            OpenedBench::Mysql(store) => {
                Some(store.stats().await.expect("sizes").iter().map(|stats| stats.buckets).sum())
            }
        }
    }

    /// Rows of tasks that the server has read so far, for whatever statement. None: there is no server.
    pub(crate) async fn rows_read(&self) -> Option<i64> {
        let read = "SELECT COALESCE(SUM(ROWS_READ), 0) FROM information_schema.TABLE_STATISTICS WHERE TABLE_NAME = 'task'";
        let text = self.server.as_ref()?.sql("mysql", read).await;
        Some(text.trim().parse().expect("a number"))
    }

    /// Ends retention until nothing is left to do: returns how much it has stopped and deleted.
    pub(crate) async fn retire(&self, now: Millis) -> Retired {
        let mut all = Retired::default();
        loop {
            let more = self.store().retire(now, now.plus(HOUR), BATCH).await.expect("retention");
            (all.stopped, all.deleted) = (all.stopped + more.stopped, all.deleted + more.deleted);
            if (more.stopped, more.deleted, more.has_more) == (0, 0, false) {
                return all;
            }
        }
    }

    /// The tasks from one number to another, each due as `due` says, in calls of a thousand.
    pub(crate) async fn insert(&self, numbers: std::ops::Range<i64>, due: impl Fn(i64) -> Millis) {
        let mut numbers = numbers.peekable();
        while numbers.peek().is_some() {
            let asks: Vec<NewTask> = numbers.by_ref().take(BATCH).map(|nth| ask(nth, due(nth))).collect();
            self.store().insert(asks, "lapse", START).await.expect("an insert");
        }
    }
}

fn ask(nth: i64, due_at: Millis) -> NewTask {
    let queue = QueueKey { namespace: Name::default_namespace(), queue: Name::new("lapse").expect("a name") };
    let payload = format!("{nth:0>BYTES$}").into_bytes();
    NewTask {
        task_id: Some(1_000 + nth),
        payload: Content::binary(payload),
        ..NewTask::new(queue, Name::new("k").expect("a name"), due_at)
    }
}

/// Of this process.
pub(crate) fn rss_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap_or(0) / 1_024
}

/// So many in a second.
pub(crate) fn rate(count: u64, took: Duration) -> u64 {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
    count.saturating_mul(1_000_000) / micros
}
