//! Opens what an engine is on: a file and memory, or MySQL and Redis, or MySQL alone; and the machine's clock. The only place where
//! back ends are named.

mod services;

use crate::{
    archive, audited,
    clock::Machine,
    config::{Archive, Payloads, Settings, SharedPlace, StoreLocation},
    durability, journal, logs, other_engines,
};
use anyhow::{Context, Result, bail};
use punctual_bulk::Runner;
use punctual_bus::{MemoryBus, RedisBus, RedisBusOptions};
use punctual_cluster::Watcher;
use punctual_contract::{
    Blobs, BulkStore, Bus, ClusterStore, Error, Hot, Limiter, ScheduleStore, Signals, Store, WorkflowStore,
};
use punctual_engine::{Backends, Engine, Running, SharedBackends, TrustedClock, Witness};
use punctual_hot::{
    ClusterName, MemoryLimiter, NoHot, NoSignals, RateClock, RedisHot, RedisOptions, StoredLimiter,
};
use punctual_inbox::Relay;
use punctual_schedules::Planner;
use punctual_store::{MysqlOptions, MysqlStore, ObjectBlobs, SqliteStore};
use punctual_traces::{TracedBus, Traces};
use punctual_webhook::Dispatcher;
use punctual_workflows::Runner as Workflows;
use services::{
    inboxes, supervise_bulk, supervise_inbox, supervise_ledger, supervise_payloads, supervise_traces,
    supervise_webhooks, supervise_workflows, webhooks,
};
use std::{os::unix::fs::DirBuilderExt as _, path::Path, sync::Arc, time::Duration};
use tokio::time::timeout;

/// The time limit of a stop. Together with the time for running requests it is less than the 30 s after which
/// Kubernetes kills.
const STOPS_WITHIN: Duration = Duration::from_secs(15);

/// The pause between two checks of the cluster's events.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// An engine at work on its back ends.
#[derive(Debug)]
pub(crate) struct RunningEngine {
    pub(crate) engine: Engine,
    pub(crate) planner: Planner,
    pub(crate) workflows: Workflows,
    pub(crate) bulk: Runner,
    pub(crate) cluster: Watcher,
    pub(crate) traces: Option<Traces>,
    pub(crate) inboxes: Vec<Relay>,
    pub(crate) webhooks: Dispatcher,
    running: Running,
    store: Closing,
}

/// The parts to close when the engine has stopped.
#[derive(Debug)]
enum Closing {
    Sqlite(Arc<SqliteStore>),
    Mysql(Arc<MysqlStore>),
}

impl Closing {
    fn migrated(&self) -> Vec<String> {
        match self {
            Self::Sqlite(store) => store.migrated().iter().map(|text| (*text).to_owned()).collect(),
            Self::Mysql(store) => store.migrated().to_vec(),
        }
    }

    async fn note_migrations(&self) -> Result<()> {
        let migrated = self.migrated();
        match self {
            Self::Sqlite(store) => audited::note_migrations(&**store, &migrated, "serve").await,
            Self::Mysql(store) => audited::note_migrations(&**store, &migrated, "serve").await,
        }
    }

    fn schedules(&self) -> Arc<dyn ScheduleStore> {
        match self {
            Self::Sqlite(store) => Arc::clone(store) as Arc<dyn ScheduleStore>,
            Self::Mysql(store) => Arc::clone(store) as Arc<dyn ScheduleStore>,
        }
    }

    fn bulks(&self) -> Arc<dyn BulkStore> {
        match self {
            Self::Sqlite(store) => Arc::clone(store) as Arc<dyn BulkStore>,
            Self::Mysql(store) => Arc::clone(store) as Arc<dyn BulkStore>,
        }
    }
}

impl Closing {
    fn cluster(&self) -> Arc<dyn ClusterStore> {
        match self {
            Self::Sqlite(store) => Arc::clone(store) as Arc<dyn ClusterStore>,
            Self::Mysql(store) => Arc::clone(store) as Arc<dyn ClusterStore>,
        }
    }

    fn workflows(&self) -> Arc<dyn WorkflowStore> {
        match self {
            Self::Sqlite(store) => Arc::clone(store) as Arc<dyn WorkflowStore>,
            Self::Mysql(store) => Arc::clone(store) as Arc<dyn WorkflowStore>,
        }
    }

    /// Supervises the store's own periodic work.
    fn supervise(&self, running: &Running, archive: &Archive) {
        match self {
            Self::Sqlite(store) if archive.url.is_some() => {
                archive::supervise_file(running, Arc::clone(store));
            }
            Self::Sqlite(_) => {}
            Self::Mysql(store) => {
                archive::supervise_buckets(running, store.buckets(archive::bucket_options(archive)));
                supervise_payloads(running, Arc::clone(store));
            }
        }
    }
}

impl RunningEngine {
    pub(crate) async fn start(settings: &Settings) -> Result<Self> {
        let (archive, mut options) = (&settings.archive, settings.engine.clone());
        options.process = Arc::clone(logs::meters());
        let bound = Duration::from_millis(options.clock_bound_ms);
        // Why Redis was not reached.
        let mut away = None;
        let (mut backends, store) = match &settings.place {
            StoreLocation::Embedded { sqlite_path } => {
                embedded(sqlite_path, archive, settings.memory_max_bytes, bound).await?
            }
            StoreLocation::Shared(place) => {
                options.name = engine_name();
                let (backends, store, why) = shared(place, archive, &options.name, bound).await?;
                away = why;
                (backends, store)
            }
        };
        store.note_migrations().await?;
        backends.blobs = blobs(&settings.payloads, &store).await?;
        if let Some(traces) = &settings.traces {
            backends.bus = Arc::new(TracedBus::new(Arc::clone(&backends.bus), traces.sample_percent));
        }
        let engine = Engine::new(backends, options);
        if let Some(error) = away {
            engine.begins_without_hot_set(&error);
        }
        if let Some(place) = &settings.journal {
            journal::keep_outcomes(&engine, &*store.schedules(), place).await?;
        }
        // Before anybody is let in, and while the store was just reached: from then on it is known in memory.
        engine.access_is_known().await.context("the tokens cannot be read")?;
        let workflows = Workflows::new(engine.clone(), store.workflows(), settings.workflows.clone());
        let hearing = workflows.clone();
        engine.on_applied(move |task| hearing.task_has_ended(task));
        let planner = Planner::new(engine.clone(), store.schedules(), settings.schedules.clone());
        let bulk = Runner::new(engine.clone(), store.bulks(), settings.bulk.clone(), Some(workflows.clone()));
        let cluster = Watcher::new(engine.clone(), store.cluster(), settings.cluster.clone());
        let traces = settings.traces.clone().map(|options| Traces::new(engine.clone(), options));
        let traces = traces.transpose().context("no client for traces.otlp_url can be made")?;
        if let Some(traces) = traces.clone() {
            engine.on_attempt_end(move |task| traces.ended(task));
        }
        let inboxes = inboxes(settings, &engine)?;
        let webhooks = webhooks(settings, &engine, &workflows, traces.clone());
        let running = engine.start().context("the engine cannot start")?;
        let planning = planner.clone();
        running.supervise("schedules", settings.trigger_interval, move |now| {
            let planning = planning.clone();
            async move { planning.run_once(now).await }
        });
        supervise_workflows(&running, &workflows);
        supervise_bulk(&running, &bulk);
        if let Some(traces) = &traces {
            supervise_traces(&running, traces.clone());
        }
        inboxes.iter().for_each(|relay| supervise_inbox(&running, relay.clone()));
        supervise_webhooks(&running, &webhooks);
        let watching = cluster.clone();
        running.supervise("cluster", WATCH_EVERY, move |now| {
            let watching = watching.clone();
            async move { watching.run_once(now).await }
        });
        supervise_ledger(&running, &cluster);
        store.supervise(&running, archive);
        if let StoreLocation::Shared(place) = &settings.place {
            durability::supervise(&running, &engine, place);
        }
        Ok(Self { engine, planner, bulk, workflows, cluster, traces, inboxes, webhooks, running, store })
    }

    /// Finishes running work, returns claims, and releases the store.
    ///
    /// # Errors
    /// When that takes too long, because something that it waits for does not move: then it is as after a crash.
    pub(crate) async fn stop(self) -> Result<()> {
        let stopping = async {
            // While the engine still records outcomes.
            self.webhooks.stop().await;
            self.cluster.farewell(self.engine.now()).await;
            if let Some(traces) = &self.traces {
                // What has ended by now; a collector that hangs is not waited for.
                let _ = timeout(Duration::from_secs(1), traces.run_once()).await;
            }
            self.running.stop().await;
            for relay in &self.inboxes {
                relay.let_go().await;
            }
            if let Err(error) = self.planner.leave().await {
                tracing::warn!(%error, "marks of evaluations could not be removed");
            }
            match self.store {
                Closing::Sqlite(store) => {
                    let closing = tokio::task::spawn_blocking(move || store.close());
                    closing.await.context("the store could not be closed")
                }
                Closing::Mysql(store) => {
                    store.close().await;
                    Ok(())
                }
            }
        };
        timeout(STOPS_WITHIN, stopping).await.unwrap_or_else(|_| {
            bail!(
                "not everything could be handed back within {} s, because a server does not answer; other engines take \
                 it over, as after a crash",
                STOPS_WITHIN.as_secs()
            )
        })
    }
}

async fn blobs(payloads: &Payloads, store: &Closing) -> Result<Option<Arc<dyn Blobs>>> {
    let Some(url) = &payloads.url else { return Ok(None) };
    let opened = ObjectBlobs::open(url).with_context(|| format!("payloads.url = {url:?} cannot be used"))?;
    let owned = match store {
        Closing::Sqlite(store) => store.own_payloads(opened, payloads.is_named).await,
        Closing::Mysql(store) => store.own_payloads(opened).await,
    };
    Ok(Some(Arc::new(owned.with_context(|| format!("payloads.url = {url:?} is refused"))?)))
}

async fn embedded(
    sqlite_path: &Path,
    archive: &Archive,
    hot_memory_max_bytes: Option<u64>,
    clock_bound: Duration,
) -> Result<(Backends, Closing)> {
    if hot_memory_max_bytes.is_some() {
        tracing::warn!("hot.memory_max_mib bounds Redis, and there is none");
    }
    let store = Arc::new(archive::of_sqlite(open(sqlite_path).await?, archive).await?);
    let backends = Backends {
        store: Arc::clone(&store) as Arc<dyn Store>,
        hot: Arc::new(NoHot),
        limiter: Arc::new(MemoryLimiter::default()),
        bus: Arc::new(MemoryBus::new()),
        clock: Arc::new(TrustedClock::new(Machine, clock_bound, Witness::Nobody)),
        blobs: None,
        shared: None,
    };
    Ok((backends, Closing::Sqlite(store)))
}

async fn open(path: &Path) -> Result<SqliteStore> {
    make_directory(path)?;
    let path = path.to_owned();
    let opened = tokio::task::spawn_blocking(move || {
        SqliteStore::open(path, &punctual_store::Options::default()).map_err(anyhow::Error::new)
    });
    opened.await?
}

/// A store without an engine, for commands that work on it alone.
#[derive(Debug)]
pub(crate) struct OpenStore(Closing);

impl OpenStore {
    pub(crate) fn store(&self) -> &dyn Store {
        match &self.0 {
            Closing::Sqlite(store) => store.as_ref(),
            Closing::Mysql(store) => store.as_ref(),
        }
    }

    /// The migrations that opening the store applied.
    pub(crate) fn migrated(&self) -> Vec<String> {
        self.0.migrated()
    }

    pub(crate) async fn close(self) -> Result<()> {
        match self.0 {
            Closing::Sqlite(store) => tokio::task::spawn_blocking(move || store.close())
                .await
                .context("the store could not be closed"),
            Closing::Mysql(store) => {
                store.close().await;
                Ok(())
            }
        }
    }
}

/// Brings the schema up to date, as an engine does.
pub(crate) async fn open_store(place: &StoreLocation) -> Result<OpenStore> {
    Ok(OpenStore(match place {
        StoreLocation::Embedded { sqlite_path } => Closing::Sqlite(Arc::new(open(sqlite_path).await?)),
        StoreLocation::Shared(place) => {
            let store = MysqlStore::open(&place.mysql_urls, mysql_options(place)).await?;
            Closing::Mysql(Arc::new(store))
        }
    }))
}

/// The names of the migrations that were applied.
pub(crate) async fn migrate(place: &StoreLocation) -> Result<Vec<String>> {
    match place {
        StoreLocation::Embedded { sqlite_path } => migrate_file(sqlite_path).await,
        StoreLocation::Shared(place) => migrate_databases(place).await,
    }
}

async fn migrate_file(path: &Path) -> Result<Vec<String>> {
    make_directory(path)?;
    let path = path.to_owned();
    let migrated = tokio::task::spawn_blocking(move || {
        SqliteStore::migrate(path, &punctual_store::Options::default()).map_err(anyhow::Error::new)
    });
    Ok(migrated.await??.into_iter().map(str::to_owned).collect())
}

fn make_directory(path: &Path) -> Result<()> {
    let directory = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    // What is made is this user's alone; what is there keeps the mode that it has.
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder
        .create(directory)
        .with_context(|| format!("the data directory {} cannot be made", directory.display()))
}

async fn shared(
    place: &SharedPlace,
    archive: &Archive,
    engine: &str,
    clock_bound: Duration,
) -> Result<(Backends, Closing, Option<Error>)> {
    durability::check(place).await?;
    let store = MysqlStore::open(&place.mysql_urls, mysql_options(place)).await?;
    let store = Arc::new(archive::of_mysql(store, archive).await?);
    let hot_backends = match &place.redis_url {
        Some(url) => in_redis(place, url, &store, engine).await?,
        None => without_redis(&store),
    };
    let ownership = match &place.redis_url {
        Some(_) => store.ownership(),
        None => store.ownership().without_redis(),
    };
    let databases = place.mysql_urls.len();
    other_engines::agree(&ownership, engine, place.redis_url.is_some(), databases).await?;
    let clock = TrustedClock::new(Machine, clock_bound, Witness::Keeper);
    // Before the first task is accepted, or fires.
    clock.ask(&ownership).await.context("the clock of the database cannot be read")?;
    let backends = Backends {
        store: Arc::clone(&store) as Arc<dyn Store>,
        limiter: hot_backends.limiter,
        hot: hot_backends.hot,
        bus: hot_backends.bus,
        clock: Arc::new(clock),
        blobs: None,
        shared: Some(SharedBackends {
            ownership: Arc::new(ownership),
            signals: hot_backends.signals,
            stored_limiter: hot_backends.stored_limiter,
        }),
    };
    // Before the first insert: what comes into the last bucket is copied when that is cut.
    let buckets = store.buckets(archive::bucket_options(archive));
    if let Err(error) = buckets.make_ahead(backends.clock.now()).await {
        tracing::warn!(%error, "no buckets could be made ahead of the first insert; again in a minute");
    }
    Ok((backends, Closing::Mysql(store), hot_backends.away))
}

/// The back ends that are in Redis where there is one.
struct HotBackends {
    hot: Arc<dyn Hot>,
    limiter: Arc<dyn Limiter>,
    bus: Arc<dyn Bus>,
    signals: Arc<dyn Signals>,
    /// The limiter of scanned queues. `None` if `limiter` is the one for them.
    stored_limiter: Option<Arc<dyn Limiter>>,
    /// Why Redis was not reached. `None` if it was reached, or none is set.
    away: Option<Error>,
}

/// An engine begins without a Redis that does not answer; one that answers and must not be used ends the start.
async fn in_redis(place: &SharedPlace, url: &str, store: &MysqlStore, engine: &str) -> Result<HotBackends> {
    let unfit = || {
        let url = crate::config::shown_hot_url(url);
        format!(
            "an engine must not use this Redis (hot.url = {url}): mend what is said below, or name another, or none; \
             `punctual doctor` with the same settings looks at each server. Engines that run already go on without it"
        )
    };
    let partitions = store.partitions();
    let (number, at) = store.cluster();
    let options = RedisOptions {
        partitions,
        prefix: place.prefix.clone(),
        cluster: Some(ClusterName { number, at }),
        memory_budget_bytes: place.memory_max_bytes,
        ..RedisOptions::default()
    };
    let (hot, away) = RedisHot::begin(url, options).await.with_context(unfit)?;
    let signals = hot.signals().await.with_context(unfit)?;
    let options = RedisBusOptions {
        prefix: place.prefix.clone(),
        consumer: engine.to_owned(),
        streams_per_queue: place.streams,
        ..RedisBusOptions::default()
    };
    let bus = RedisBus::new(url, options).with_context(unfit)?;
    Ok(HotBackends {
        limiter: Arc::new(hot.limiter(RateClock::Server)),
        hot: Arc::new(hot),
        bus: Arc::new(bus),
        signals: Arc::new(signals),
        stored_limiter: Some(stored_limiter(store)),
        away,
    })
}

/// Engines share tasks and limits by the databases alone.
fn without_redis(store: &MysqlStore) -> HotBackends {
    tracing::info!("no Redis is set (hot.url is empty): tasks come from the databases");
    HotBackends {
        hot: Arc::new(NoHot),
        limiter: stored_limiter(store),
        bus: Arc::new(MemoryBus::new()),
        signals: Arc::new(NoSignals),
        stored_limiter: None,
        away: None,
    }
}

fn stored_limiter(store: &MysqlStore) -> Arc<dyn Limiter> {
    Arc::new(StoredLimiter::new(Arc::new(store.ownership()), RateClock::Server))
}

async fn migrate_databases(place: &SharedPlace) -> Result<Vec<String>> {
    Ok(MysqlStore::migrate(&place.mysql_urls, mysql_options(place)).await?)
}

fn mysql_options(place: &SharedPlace) -> MysqlOptions {
    MysqlOptions { partitions: place.partitions, ..MysqlOptions::default() }
}

/// Unlike that of any other process, now or before: an engine with another's number would work on its partitions.
fn engine_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "engine" } else { host.trim() };
    format!("{host}-{}-{:04x}", std::process::id(), fastrand::u16(..))
}
