//! Archives under an engine: cold storage is opened as the settings say, held against what the store remembers, and the
//! housekeeping runs until it is dropped. Must never start an engine that would delete what others archive.

use crate::{clock::SystemClock, config::Archive};
use anyhow::{Context, Result};
use punctual_contract::Clock as _;
use punctual_store::{
    ArchiveOptions, ArchiveReport, BucketOptions, Buckets, ColdOptions, ColdStorage, MysqlStore, SqliteStore,
};
use std::{sync::Arc, time::Duration};

/// Between two runs. Every engine runs: more than one at once does no harm.
const INTERVAL: Duration = Duration::from_secs(60);

async fn cold(url: &str) -> Result<Arc<ColdStorage>> {
    let opened = ColdStorage::open(url, ColdOptions::default()).await;
    Ok(Arc::new(opened.with_context(|| format!("archive.url = {url:?} cannot be used"))?))
}

pub(crate) async fn of_mysql(store: MysqlStore, archive: &Archive) -> Result<MysqlStore> {
    match &archive.url {
        Some(url) => {
            let opened = store.with_archive(cold(url).await?).await;
            opened.with_context(|| format!("archive.url = {url:?} is refused"))
        }
        None => {
            store.has_no_archive().await?;
            Ok(store)
        }
    }
}

pub(crate) async fn of_sqlite(store: SqliteStore, archive: &Archive) -> Result<SqliteStore> {
    match &archive.url {
        Some(url) => {
            let opened = store.with_archive(cold(url).await?).await;
            opened.with_context(|| format!("archive.url = {url:?} is refused"))
        }
        None => {
            store.has_no_archive().await?;
            Ok(store)
        }
    }
}

pub(crate) fn bucket_options(archive: &Archive) -> BucketOptions {
    BucketOptions { keep_hours: archive.after_days.saturating_mul(24), ..BucketOptions::default() }
}

/// Makes buckets ahead of time, archives and drops those that are over.
pub(crate) async fn keep_buckets(buckets: Buckets) {
    let mut ticks = tokio::time::interval(INTERVAL);
    loop {
        ticks.tick().await;
        match buckets.run_once(SystemClock.now()).await {
            Ok(report) if report.is_idle() => {}
            Ok(report) => tracing::info!(?report, "buckets"),
            Err(error) => tracing::warn!(%error, "the buckets could not be kept; again in a minute"),
        }
    }
}

/// Archives what is over in the file.
pub(crate) async fn keep_file(store: Arc<SqliteStore>) {
    let mut ticks = tokio::time::interval(INTERVAL);
    loop {
        ticks.tick().await;
        match store.archive_once(SystemClock.now(), ArchiveOptions::default()).await {
            Ok(report) if report == ArchiveReport::default() => {}
            Ok(report) => tracing::info!(?report, "archived"),
            Err(error) => {
                tracing::error!(%error, "tasks could not be archived, and are kept; again in a minute");
            }
        }
    }
}
