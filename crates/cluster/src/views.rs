//! What any engine answers for all of them: engines, partitions, databases, and what was counted in the last hour.

use crate::{
    counts::{Counts, STEP_MS, Told, step_of},
    watcher::{Inner, Watcher},
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

/// Steps of the list: the last hour.
const STEPS: i64 = 60;
/// An engine that has not told anything for so long has no rates.
const SILENT_MS: i64 = 60_000;
/// A database that takes longer to say how large it is is shown without.
const SIZES_WITHIN: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineView {
    pub name: String,
    /// The one that answers.
    pub is_this: bool,
    /// For how long it has given no sign of life, ms; 0: it is alive.
    pub silent_ms: i64,
    pub has_hot: bool,
    /// Numbers of databases that it does not reach.
    pub databases_away: Vec<usize>,
    pub partitions: usize,
    /// It does what one engine is to do for all.
    pub leads: bool,
    /// None: it has not told anything for a while.
    pub version: Option<String>,
    pub started_at: Option<Millis>,
    pub rates: Option<Rates>,
}

/// Per second, over the last minute or two.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    pub inserted: f64,
    pub fired: f64,
    pub dispatched: f64,
    pub succeeded: f64,
    pub retried: f64,
    pub dead: f64,
    pub cancelled: f64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionView {
    pub partition: Partition,
    pub database: usize,
    /// None: nobody has it now.
    pub engine: Option<String>,
    pub term: i64,
    /// None: the lease does not end.
    pub lease_left_ms: Option<i64>,
    /// When the oldest task was due that should have fired long ago; None: there is none.
    pub overdue_since: Option<Millis>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseView {
    pub number: usize,
    /// None: it does not answer.
    pub database: Option<Database>,
    pub partitions: usize,
    /// Engines that do not reach it.
    pub away_from: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Stats {
    pub at: Millis,
    /// Engines that live.
    pub engines: usize,
    pub rates: Rates,
    /// Of the last hour.
    pub total: Counts,
    /// Of the last step that is over and the one that is not.
    pub lately: Counts,
    /// None: the account could not be read.
    pub account: Option<Arc<Account>>,
    pub step_ms: i64,
    /// The oldest first, without gaps; the last is not over.
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub at: Millis,
    pub counts: Counts,
}

#[derive(Debug, Default)]
pub(crate) struct DatabaseCache(tokio::sync::Mutex<Option<(Millis, Vec<Option<Database>>)>>);

impl Rates {
    fn of(counts: &Counts, over_ms: i64) -> Self {
        let seconds = Duration::from_millis(u64::try_from(over_ms.max(1_000)).unwrap_or(1_000)).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a rate is rounded anyway")]
        let per_second = |count: u64| count as f64 / seconds;
        Self {
            inserted: per_second(counts.inserted),
            fired: per_second(counts.fired),
            dispatched: per_second(counts.dispatched),
            succeeded: per_second(counts.succeeded),
            retried: per_second(counts.retried),
            dead: per_second(counts.dead),
            cancelled: per_second(counts.cancelled),
        }
    }

    fn add(&mut self, more: &Self) {
        self.inserted += more.inserted;
        self.fired += more.fired;
        self.dispatched += more.dispatched;
        self.succeeded += more.succeeded;
        self.retried += more.retried;
        self.dead += more.dead;
        self.cancelled += more.cancelled;
    }
}

/// What one engine has told of its last two steps.
#[derive(Clone, Debug, Default)]
struct Lately {
    version: String,
    started_at: Millis,
    until: Millis,
    counts: Counts,
}

/// What engines have told of the last hour.
#[derive(Debug, Default)]
struct Hour {
    steps: BTreeMap<Millis, Counts>,
    lately: BTreeMap<String, Lately>,
}

impl Hour {
    async fn read(inner: &Inner, now: Millis) -> Result<Self, Error> {
        let first = step_of(now).plus(-STEP_MS * (STEPS - 1));
        let mut hour = Self::default();
        for sample in inner.store.samples(first).await? {
            if let Some(told) = Told::read(&sample) {
                hour.add(now, sample.step_at, sample.engine, &told);
            }
        }
        Ok(hour)
    }

    fn add(&mut self, now: Millis, step_at: Millis, engine: String, told: &Told) {
        self.steps.entry(step_at).or_default().add(&told.counts);
        let lately = self.lately.entry(engine).or_default();
        lately.version.clone_from(&told.version);
        lately.started_at = Millis(told.started_ms);
        lately.until = lately.until.max(Millis(told.until_ms));
        if step_at >= since(now) {
            lately.counts.add(&told.counts);
        }
    }

    fn rates(&self, engine: &str, now: Millis) -> Option<Rates> {
        let lately = self.lately.get(engine).filter(|it| now.since(it.until) < SILENT_MS)?;
        let over_ms = lately.until.since(since(now).max(lately.started_at));
        Some(Rates::of(&lately.counts, over_ms))
    }
}

/// Where the step before the present one begins.
fn since(now: Millis) -> Millis {
    step_of(now).plus(-STEP_MS)
}

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
        for it in engines.values_mut() {
            it.partitions = owners.values().filter(|owner| owner.engine == it.name).count();
            it.leads = owners.get(&Partition(0)).is_some_and(|owner| owner.engine == it.name);
            it.rates = hour.rates(&it.name, now);
            if let Some(lately) = hour.lately.get(&it.name) {
                it.version = Some(lately.version.clone()).filter(|it| !it.is_empty());
                it.started_at = Some(lately.started_at);
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
            overdue.into_iter().filter_map(|it| Some((it.0, it.2?.due_at))).collect();
        let store = inner.engine.store();
        let view = |partition: Partition| {
            let owner = owners.get(&partition);
            let has_end = owner.is_some_and(|it| it.left != Duration::MAX);
            PartitionView {
                partition,
                database: store.part_of(partition),
                engine: owner.map(|it| it.engine.clone()),
                term: owner.map_or(0, |it| it.tenure.term),
                lease_left_ms: owner
                    .filter(|_| has_end)
                    .map(|it| i64::try_from(it.left.as_millis()).unwrap_or(i64::MAX)),
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
        for it in (0..store.partitions()).map(Partition) {
            *partitions.entry(store.part_of(it)).or_default() += 1;
        }
        let engines = known(inner);
        let view = |(number, database)| {
            let lacks = |it: &&EngineView| it.silent_ms == 0 && it.databases_away.contains(&number);
            DatabaseView {
                number,
                database,
                partitions: partitions.get(&number).copied().unwrap_or(0),
                away_from: engines.values().filter(lacks).map(|it| it.name.clone()).collect(),
            }
        };
        sizes.into_iter().enumerate().map(view).collect()
    }

    /// What stands in the store is not older than this call, or than `max_age`.
    ///
    /// # Errors
    /// When what engines have told cannot be read.
    pub async fn stats(&self, max_age: Duration) -> Result<Stats, Error> {
        let inner = &self.inner;
        let now = inner.engine.now();
        let hour = Hour::read(inner, now).await?;
        let (mut rates, mut total, mut lately) = (Rates::default(), Counts::default(), Counts::default());
        hour.lately.keys().filter_map(|it| hour.rates(it, now)).for_each(|it| rates.add(&it));
        hour.steps.values().for_each(|it| total.add(it));
        hour.steps.range(since(now)..).for_each(|it| lately.add(it.1));
        let step = |nth: i64| {
            let at = step_of(now).plus(-STEP_MS * nth);
            Step { at, counts: hour.steps.get(&at).cloned().unwrap_or_default() }
        };
        Ok(Stats {
            at: now,
            engines: known(inner).values().filter(|it| it.silent_ms == 0).count(),
            rates,
            total,
            lately,
            account: inner.engine.account(max_age).await.ok(),
            step_ms: STEP_MS,
            steps: (0..STEPS).rev().map(step).collect(),
        })
    }
}

async fn owners(inner: &Inner) -> Result<BTreeMap<Partition, punctual_contract::ownership::Owner>, Error> {
    let owners = inner.engine.owners().await.map_err(|it| Error::did_not_happen("read owners", it))?;
    let held = owners.into_iter().filter(|it| !it.left.is_zero());
    Ok(held.map(|it| (it.tenure.partition, it)).collect())
}

/// Those of whom something was heard, by name.
pub(crate) fn known(inner: &Inner) -> BTreeMap<String, EngineView> {
    let mut engines = BTreeMap::new();
    for it in inner.engine.live() {
        let view = EngineView {
            name: it.engine.clone(),
            has_hot: it.has_hot,
            databases_away: it.without.unwrap_or_default(),
            ..EngineView::default()
        };
        engines.insert(it.engine, view);
    }
    for it in
        inner.signs().into_iter().filter(|it| it.silent_ms > 0 && it.silent_ms < inner.options.alert_lost_ms)
    {
        let entry = engines.entry(it.engine.clone()).or_insert_with(|| EngineView {
            name: it.engine.clone(),
            has_hot: it.has_hot,
            ..EngineView::default()
        });
        entry.silent_ms = it.silent_ms;
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

async fn sizes(inner: &Inner) -> Vec<Option<Database>> {
    let mut cached = inner.databases.0.lock().await;
    let now = inner.engine.now();
    if let Some((at, sizes)) = &*cached
        && now.since(*at).abs() < inner.options.cached_ms
    {
        return sizes.clone();
    }
    let this = known(inner).into_values().find(|it| it.is_this);
    let away = this.map(|it| it.databases_away).unwrap_or_default();
    let mut sizes = Vec::new();
    for part in 0..inner.engine.store().parts() {
        if away.contains(&part) {
            // It is known not to answer: who scrapes metrics does not wait for it.
            sizes.push(None);
            continue;
        }
        let asked = timeout(SIZES_WITHIN, inner.store.database(part)).await;
        sizes.push(asked.ok().and_then(Result::ok));
    }
    *cached = Some((now, sizes.clone()));
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(until_ms: i64, fired: u64) -> Told {
        Told { until_ms, counts: Counts { fired, ..Counts::default() }, ..Told::default() }
    }

    #[test]
    fn rates_are_of_the_last_two_steps_as_far_as_they_were_told() {
        let (now, mut hour) = (Millis(190_000), Hour::default());
        hour.add(now, Millis(60_000), "a".to_owned(), &told(120_000, 9_000));
        hour.add(now, Millis(120_000), "a".to_owned(), &told(180_000, 600));
        hour.add(now, Millis(180_000), "a".to_owned(), &told(185_000, 50));
        assert_eq!(hour.rates("a", now).unwrap().fired, 10.0, "650 in 65 s");
        assert_eq!(hour.rates("a", Millis(245_000)), None, "it has fallen silent");
        assert_eq!(hour.rates("b", now), None);
        assert_eq!(hour.steps[&Millis(60_000)].fired, 9_000);
    }
}
