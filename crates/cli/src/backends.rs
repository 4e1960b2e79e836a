//! Opens what an engine stands on: the SQLite store, the hot set and the bus in memory, the machine's clock.

use crate::clock::SystemClock;
use anyhow::{Context, Result};
use punctual_bus::MemoryBus;
use punctual_contract::Store;
use punctual_engine::{Backends, Engine, Options, Running};
use punctual_hot::MemoryHot;
use punctual_store::SqliteStore;
use std::{path::Path, sync::Arc};

/// An engine at work on its back ends.
#[derive(Debug)]
pub(crate) struct Embedded {
    pub(crate) engine: Engine,
    running: Running,
    store: Arc<SqliteStore>,
}

impl Embedded {
    pub(crate) async fn start(sqlite_path: &Path, options: Options) -> Result<Self> {
        let store = Arc::new(open(sqlite_path).await?);
        let partitions = store.partitions();
        let backends = Backends {
            store: Arc::clone(&store) as Arc<dyn Store>,
            hot: Arc::new(MemoryHot::new(punctual_hot::Options { partitions })),
            bus: Arc::new(MemoryBus::new()),
            clock: Arc::new(SystemClock),
            shared: None,
        };
        let engine = Engine::new(backends, options);
        let running = engine.start().context("the engine cannot start")?;
        Ok(Self { engine, running, store })
    }

    /// What is under way is finished, what was claimed is handed back, and the file is given free.
    pub(crate) async fn stop(self) -> Result<()> {
        self.running.stop().await;
        let store = self.store;
        tokio::task::spawn_blocking(move || store.close()).await.context("the store could not be closed")
    }
}

async fn open(path: &Path) -> Result<SqliteStore> {
    make_directory(path)?;
    let path = path.to_owned();
    let opened = tokio::task::spawn_blocking(move || {
        SqliteStore::open(path, &punctual_store::Options::default()).map_err(anyhow::Error::new)
    });
    opened.await?
}

/// The names of the migrations that were applied.
pub(crate) async fn migrate(path: &Path) -> Result<Vec<&'static str>> {
    make_directory(path)?;
    let path = path.to_owned();
    let migrated = tokio::task::spawn_blocking(move || {
        SqliteStore::migrate(path, &punctual_store::Options::default()).map_err(anyhow::Error::new)
    });
    migrated.await?
}

fn make_directory(path: &Path) -> Result<()> {
    let directory = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    std::fs::create_dir_all(directory)
        .with_context(|| format!("the data directory {} cannot be made", directory.display()))
}
