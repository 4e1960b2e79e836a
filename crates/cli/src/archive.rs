//! Archives under an engine: archive storage is opened as the settings say, held against what the store remembers, and the
//! housekeeping runs as services of the engine. Must never start an engine that would delete what others archive.

use crate::config::Archive;
use anyhow::Context;
use punctual_contract::Error;
use punctual_domain::time::Millis;
use punctual_engine::Running;
use punctual_store::{
    ArchiveOptions, ArchiveReport, ArchiveStorage, ArchiveStorageOptions, BucketOptions, Buckets, MysqlStore,
    SqliteStore,
};
use std::{sync::Arc, time::Duration};

/// The pause between two runs. Every engine runs: concurrent runs do no harm.
const INTERVAL: Duration = Duration::from_secs(60);

async fn archive_storage(url: &str) -> anyhow::Result<Arc<ArchiveStorage>> {
    let opened = ArchiveStorage::open(url, ArchiveStorageOptions::default()).await;
    Ok(Arc::new(opened.with_context(|| format!("archive.url = {url:?} cannot be used"))?))
}

pub(crate) async fn of_mysql(store: MysqlStore, archive: &Archive) -> anyhow::Result<MysqlStore> {
    match &archive.url {
        Some(url) => {
            let opened = store.with_archive(archive_storage(url).await?).await;
            opened.with_context(|| format!("archive.url = {url:?} is refused"))
        }
        None => {
            store.has_no_archive().await?;
            Ok(store)
        }
    }
}

pub(crate) async fn of_sqlite(store: SqliteStore, archive: &Archive) -> anyhow::Result<SqliteStore> {
    match &archive.url {
        Some(url) => {
            let opened = store.with_archive(archive_storage(url).await?).await;
            opened.with_context(|| format!("archive.url = {url:?} is refused"))
        }
        None => {
            store.has_no_archive().await?;
            Ok(store)
        }
    }
}

pub(crate) fn bucket_options(archive: &Archive) -> BucketOptions {
    BucketOptions {
        width_hours: archive.bucket_width_hours,
        ahead_hours: archive.buckets_ahead_hours,
        keep_hours: archive.after_days.saturating_mul(24),
        carry_rows: archive.bucket_carry_rows,
        ..BucketOptions::default()
    }
}

/// Makes buckets ahead of time, archives and drops those that are over.
pub(crate) fn supervise_buckets(running: &Running, buckets: Buckets) {
    let buckets = Arc::new(buckets);
    running.supervise("buckets", INTERVAL, move |now| {
        let buckets = Arc::clone(&buckets);
        async move { keep_buckets(&buckets, now).await }
    });
}

async fn keep_buckets(buckets: &Buckets, now: Millis) -> Result<usize, Error> {
    const DOING: &str = "keep buckets";
    let report = buckets.run_once(now).await?;
    if !report.is_idle() {
        tracing::info!(did = %report, "buckets");
    }
    if report.not_archived > 0 {
        let left = format!("{} database(s) cannot be archived; the log says why", report.not_archived);
        return Err(Error::did_not_happen(DOING, left));
    }
    if report.uncut > 0 {
        let left =
            format!("in {} database(s) too many tasks stand in the last bucket to cut it", report.uncut);
        return Err(Error::did_not_happen(DOING, left));
    }
    let forgotten = usize::try_from(report.forgotten + report.carried).unwrap_or(usize::MAX);
    Ok(report.made.saturating_add(report.dropped).saturating_add(forgotten))
}

/// Archives what is over in the file.
pub(crate) fn supervise_file(running: &Running, store: Arc<SqliteStore>) {
    running.supervise("archive", INTERVAL, move |now| {
        let store = Arc::clone(&store);
        async move {
            let report = store.archive_once(now, ArchiveOptions::default()).await?;
            if report != ArchiveReport::default() {
                let ArchiveReport { archived, archived_bytes, forgotten } = report;
                tracing::info!(
                    archived,
                    archived_bytes,
                    forgotten,
                    "tasks that were over went to the archive"
                );
            }
            Ok(usize::try_from(report.archived).unwrap_or(usize::MAX))
        }
    });
}
