//! A store of either kind, with what only the one or the other has: archives, partitions that move.

use punctual_contract::Store;
use punctual_domain::{place::Partition, time::Millis};
use punctual_store::{
    ArchiveOptions, ArchiveStorage, ArchiveStorageOptions, BucketOptions, Error, MoveProgress, MysqlOptions,
    MysqlStore, ObjectBlobs, SqliteStore,
};
use punctual_testkit::servers;
use std::{ops::ControlFlow, path::Path, sync::Arc};

pub(crate) const PARTITIONS: u16 = 2;
const BUCKETS: BucketOptions = BucketOptions {
    width_hours: 24,
    first_hours: 24,
    rows: 10_000_000,
    ahead_hours: 48,
    keep_hours: 72,
    carry_rows: 100_000,
    batch_rows: 40,
    batches_per_run: 1_000,
    cut_rows: 10_000,
};

#[derive(Clone, Debug)]
pub(crate) enum Kept {
    Sqlite(Arc<SqliteStore>),
    Mysql(Arc<MysqlStore>),
}

impl Kept {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(Arc::new(a_file()))
    }

    pub(crate) async fn mysql() -> Self {
        Self::Mysql(Arc::new(databases().await))
    }

    pub(crate) async fn sqlite_with_archives(dir: &Path) -> Self {
        Self::Sqlite(Arc::new(a_file().with_archive(archive_storage(dir).await).await.unwrap()))
    }

    pub(crate) async fn mysql_with_archives(dir: &Path, now: Millis) -> Self {
        let store = databases().await.with_archive(archive_storage(dir).await).await.unwrap();
        store.buckets(BUCKETS).run_once(now).await.unwrap();
        Self::Mysql(Arc::new(store))
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Sqlite(store) => store.clone(),
            Self::Mysql(store) => store.clone(),
        }
    }

    /// As a place that an operator configured.
    pub(crate) async fn own(&self, place: ObjectBlobs) -> Result<ObjectBlobs, Error> {
        match self {
            Self::Sqlite(store) => store.own_payloads(place, true).await,
            Self::Mysql(store) => store.own_payloads(place).await,
        }
    }

    /// Tasks that were archived.
    pub(crate) async fn archive(&self, now: Millis) -> u64 {
        match self {
            Self::Sqlite(store) => {
                let at_once = ArchiveOptions { rows_min: 1, wait_ms: 0, rows_max: 100_000 };
                store.archive_once(now, at_once).await.unwrap().archived
            }
            Self::Mysql(store) => store.buckets(BUCKETS).run_once(now).await.unwrap().archived,
        }
    }

    /// All partitions to one database.
    pub(crate) async fn gather(&self, database: usize) {
        let Self::Mysql(store) = self else { panic!("a file has one database") };
        for partition in 0..PARTITIONS {
            let mut go_on = |_: &MoveProgress| ControlFlow::Continue(());
            store.move_partition(Partition(partition), database, &mut go_on).await.unwrap();
        }
    }
}

fn a_file() -> SqliteStore {
    SqliteStore::in_memory(&punctual_store::Options { partitions: PARTITIONS, ..Default::default() }).unwrap()
}

async fn databases() -> MysqlStore {
    let urls = [servers::migrated_database().await, servers::migrated_database().await];
    let options = MysqlOptions { partitions: PARTITIONS, ..MysqlOptions::default() };
    MysqlStore::open(&urls, options).await.unwrap()
}

async fn archive_storage(dir: &Path) -> Arc<ArchiveStorage> {
    let url = format!("file://{}", dir.display());
    Arc::new(ArchiveStorage::open(&url, ArchiveStorageOptions::default()).await.unwrap())
}
