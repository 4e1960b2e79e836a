//! Views over all engines that any of them answers: engines, partitions, databases, and the statistics of the
//! cluster.

use crate::{
    hour::{Hour, HourView, Rates},
    watcher::{Watcher, WatcherCore},
};
use punctual_contract::{Error, cluster::Database};
use punctual_domain::{place::Partition, time::Millis};
use punctual_engine::Account;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::time::timeout;

/// A database that reports its size later than this is shown without it.
const SIZES_WITHIN: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineView {
    pub name: String,
    /// The one that answers.
    pub is_this: bool,
    /// The time since its last heartbeat, ms; 0 if it is alive.
    pub silent_ms: i64,
    pub has_hot: bool,
    /// Numbers of databases that it does not reach.
    pub databases_away: Vec<usize>,
    pub partitions: usize,
    /// It does what one engine does for all.
    pub leads: bool,
    /// `None` if the engine has sent no sample for a while.
    pub version: Option<String>,
    pub started_at: Option<Millis>,
    pub rates: Option<Rates>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionView {
    pub partition: Partition,
    pub database: usize,
    /// It is on its way to this one.
    pub moves_to: Option<usize>,
    /// `None` if no engine owns the partition now.
    pub engine: Option<String>,
    pub term: i64,
    /// `None` if the lease does not expire.
    pub lease_left_ms: Option<i64>,
    /// The due time of the oldest overdue task, or `None` if there is none.
    pub overdue_since: Option<Millis>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseView {
    pub number: usize,
    /// `None` if the database does not answer.
    pub database: Option<Database>,
    pub partitions: usize,
    /// Engines that do not reach it.
    pub away_from: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Stats {
    /// Engines that live.
    pub engines: usize,
    pub hour: HourView,
    /// `None` if the account could not be read.
    pub account: Option<Arc<Account>>,
    /// `None` if the hot set does not answer.
    pub hot: Option<HotStatus>,
}

/// The content of the hot set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HotStatus {
    pub due: usize,
    pub firing: usize,
    pub ready: usize,
    pub parked: usize,
    /// The fill level in thousandths.
    pub fullness: u32,
}

/// Counting takes Redis longer the more queues there are.
const HOT_CACHED_MS: i64 = 5_000;
/// The time for which an unavailable hot set is remembered, so that no caller waits for it behind others.
const HOT_LOST_CACHED_MS: i64 = 1_000;
const HOT_WITHIN: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct HotCache(tokio::sync::Mutex<Option<(Millis, Option<HotStatus>)>>);

#[derive(Debug, Default)]
pub(crate) struct DatabaseCache(tokio::sync::Mutex<Option<(Millis, Vec<Option<Database>>)>>);

impl Watcher {
    /// Every engine that lives or fell silent a short while ago, by name.
    ///
    /// # Errors
    /// A failing store.
    pub async fn engines(&self) -> Result<Vec<EngineView>, Error> {
        let inner = &self.inner;
        let now = inner.engine.now();
        let hour = Hour::read(inner, now).await?;
        let owners = owners(inner).await?;
        let mut engines = known(inner);
        for engine in engines.values_mut() {
            engine.partitions = owners.values().filter(|owner| owner.engine == engine.name).count();
            engine.leads = owners.get(&Partition(0)).is_some_and(|owner| owner.engine == engine.name);
            engine.rates = hour.rates(&engine.name, now);
            if let Some(lately) = hour.lately.get(&engine.name) {
                engine.version = Some(lately.version.clone()).filter(|version| !version.is_empty());
                engine.started_at = Some(lately.started_at);
            }
        }
        Ok(engines.into_values().collect())
    }

    /// Partitions in order.
    ///
    /// # Errors
    /// A failing store.
    pub async fn partitions(&self) -> Result<Vec<PartitionView>, Error> {
        let inner = &self.inner;
        let owners = owners(inner).await?;
        let overdue = inner.engine.overdue();
        let overdue: BTreeMap<Partition, Millis> =
            overdue.into_iter().filter_map(|entry| Some((entry.0, entry.2?.due_at))).collect();
        let store = inner.engine.store();
        let moves = inner.store.moves().await?;
        let moves: BTreeMap<Partition, usize> =
            moves.into_iter().map(|value| (value.partition, value.to)).collect();
        let view = |partition: Partition| {
            let owner = owners.get(&partition);
            let has_end = owner.is_some_and(|owner| owner.left != Duration::MAX);
            PartitionView {
                partition,
                database: store.part_of(partition),
                moves_to: moves.get(&partition).copied(),
                engine: owner.map(|owner| owner.engine.clone()),
                term: owner.map_or(0, |owner| owner.tenure.term),
                lease_left_ms: owner
                    .filter(|_| has_end)
                    .map(|owner| i64::try_from(owner.left.as_millis()).unwrap_or(i64::MAX)),
                overdue_since: overdue.get(&partition).copied(),
            }
        };
        Ok((0..store.partitions()).map(Partition).map(view).collect())
    }

    /// Databases in order, with sizes of a short while ago.
    pub async fn databases(&self) -> Vec<DatabaseView> {
        let inner = &self.inner;
        let sizes = sizes(inner).await;
        let store = inner.engine.store();
        let mut partitions: BTreeMap<usize, usize> = BTreeMap::new();
        for partition in (0..store.partitions()).map(Partition) {
            *partitions.entry(store.part_of(partition)).or_default() += 1;
        }
        let engines = known(inner);
        let view = |(number, database)| {
            let lacks = |view: &&EngineView| view.silent_ms == 0 && view.databases_away.contains(&number);
            DatabaseView {
                number,
                database,
                partitions: partitions.get(&number).copied().unwrap_or(0),
                away_from: engines.values().filter(lacks).map(|engine| engine.name.clone()).collect(),
            }
        };
        sizes.into_iter().enumerate().map(view).collect()
    }

    /// Data of the store is no older than this call, or than `max_age`.
    ///
    /// # Errors
    /// When the samples cannot be read.
    pub async fn stats(&self, max_age: Duration) -> Result<Stats, Error> {
        let inner = &self.inner;
        let now = inner.engine.now();
        let hour = Hour::read(inner, now).await?.view(now);
        Ok(Stats {
            engines: known(inner).values().filter(|view| view.silent_ms == 0).count(),
            hour,
            account: inner.engine.account(max_age).await.ok(),
            hot: hot(inner).await,
        })
    }
}

async fn hot(inner: &WatcherCore) -> Option<HotStatus> {
    if inner.engine.hot_is_away() {
        // An overview does not wait for an unavailable hot set.
        return None;
    }
    let mut cached = inner.hot.0.lock().await;
    let now = inner.engine.now();
    if let Some((at, standing)) = *cached
        && now.since(at).abs() < standing.map_or(HOT_LOST_CACHED_MS, |_| HOT_CACHED_MS)
    {
        return standing;
    }
    let depth = timeout(HOT_WITHIN, inner.engine.depth()).await.ok().and_then(Result::ok);
    let standing = depth.map(|depth| {
        let sum = |all: &[(_, usize)]| all.iter().map(|pair| pair.1).sum();
        let (ready, parked) = (sum(&depth.ready), sum(&depth.parked));
        let fullness = inner.engine.hot_fullness();
        HotStatus { due: depth.due, firing: depth.fired, ready, parked, fullness }
    });
    *cached = Some((inner.engine.now(), standing));
    standing
}

async fn owners(
    inner: &WatcherCore,
) -> Result<BTreeMap<Partition, punctual_contract::ownership::Owner>, Error> {
    let owners = inner.engine.owners().await.map_err(|error| Error::did_not_happen("read owners", error))?;
    let held = owners.into_iter().filter(|owner| !owner.left.is_zero());
    Ok(held.map(|owner| (owner.tenure.partition, owner)).collect())
}

/// The known engines, by name.
pub(crate) fn known(inner: &WatcherCore) -> BTreeMap<String, EngineView> {
    let mut engines = BTreeMap::new();
    for live in inner.engine.live() {
        let view = EngineView {
            name: live.engine.clone(),
            has_hot: live.has_hot,
            databases_away: live.without.unwrap_or_default(),
            ..EngineView::default()
        };
        engines.insert(live.engine, view);
    }
    for sign in inner
        .signs()
        .into_iter()
        .filter(|sign| sign.silent_ms > 0 && sign.silent_ms < inner.options.alert_lost_ms)
    {
        let entry = engines.entry(sign.engine.clone()).or_insert_with(|| EngineView {
            name: sign.engine.clone(),
            has_hot: sign.has_hot,
            ..EngineView::default()
        });
        entry.silent_ms = sign.silent_ms;
    }
    let me = inner.engine.name();
    let mine = engines.entry(me.to_owned()).or_insert_with(|| EngineView {
        name: me.to_owned(),
        has_hot: !inner.engine.hot_is_away(),
        ..EngineView::default()
    });
    mine.is_this = true;
    let mut away: BTreeSet<usize> = mine.databases_away.iter().copied().collect();
    away.extend(inner.engine.databases_away());
    mine.databases_away = away.into_iter().collect();
    engines
}

async fn sizes(inner: &WatcherCore) -> Vec<Option<Database>> {
    let mut cached = inner.databases.0.lock().await;
    let now = inner.engine.now();
    if let Some((at, sizes)) = &*cached
        && now.since(*at).abs() < inner.options.cached_ms
    {
        return sizes.clone();
    }
    let this = known(inner).into_values().find(|view| view.is_this);
    let away = this.map(|view| view.databases_away).unwrap_or_default();
    let mut sizes = Vec::new();
    for part in 0..inner.engine.store().parts() {
        if away.contains(&part) {
            // It is known not to answer: a metrics scrape does not wait for it.
            sizes.push(None);
            continue;
        }
        let asked = timeout(SIZES_WITHIN, inner.store.database(part)).await;
        sizes.push(asked.ok().and_then(Result::ok));
    }
    *cached = Some((now, sizes.clone()));
    sizes
}
