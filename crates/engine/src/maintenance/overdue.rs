//! Looks, in every partition of the store, whichever engine owns it, for tasks whose time is long over and that have not fired:
//! what no owner sees, because its hot set, a watermark or its own clock hides it, or because there is no owner. Only
//! says so; whoever looks fires nothing, and changes nothing.
//!
//! Two walks over the rows, each bounded. One follows the present, and meets each row once, some seconds after its time;
//! it shows within two looks what has just stopped firing. One passes through everything from the oldest row on, so many
//! rows a look, and begins again at the end: it shows what the first has passed (a row that appeared late, a clock that
//! went back). What they find is looked at again at every look, until it has fired; neither walk continues beyond what it
//! cannot remember.

pub(crate) mod state;

use crate::{core::Core, pipeline::entry::entry_of};
use hashbrown::HashSet;
use punctual_contract::{
    Error,
    hot::HotEntry,
    store::{Overdue, OverdueLook, OverduePage},
};
use punctual_domain::{name::QueueKey, place::Partition, time::Millis};
use state::{Key, Suspect, Watched};
use std::{collections::BTreeSet, time::Duration};

/// What waits for busy executors has fired long before the store is told: what is not as late as this may be such.
pub(crate) const OVERDUE_MS: i64 = 10_000;
/// Where the walk that follows the present begins.
const FOLLOW_FROM_MS: i64 = 600_000;
/// Rows of a partition that the walk from the oldest on looks at in one look: ten million take about half a day in
/// one partition, and less than an hour in 64.
const LAP_ROWS: usize = 500;
const PAGE: usize = 200;
/// Pages of one walk in one look: where more has fired than the store was informed of.
const PAGES_MAX: usize = 20;
/// Tasks of one partition that are remembered.
const SUSPECTS_MAX: usize = 8;
/// Longer than any of these reads takes: a database that does not answer is left out of this look.
const PATIENCE: Duration = Duration::from_secs(3);

/// One look at all partitions. How many have a task that should have fired. What fails is said when all had their turn.
pub(crate) async fn run_once(core: &Core, now: Millis) -> Result<usize, Error> {
    let (mut result, mut silent) = (Ok(()), BTreeSet::new());
    for partition in core.partitions() {
        let mut watched = core.maintenance.overdue.take(partition);
        if silent.contains(&watched.database) {
            continue;
        }
        let look = OverdueCheck { core, partition, now };
        let looked = match tokio::time::timeout(PATIENCE, look.look(&mut watched)).await {
            Ok(looked) => looked,
            Err(_) => Err(Error::did_not_happen("look for what is overdue", "no answer in time")),
        };
        match looked {
            Ok(()) => drop(core.maintenance.overdue.partitions.lock().insert(partition, watched)),
            Err(error) => {
                silent.insert(watched.database);
                result = Err(error);
            }
        }
    }
    let overdue = core.maintenance.overdue.list(now).iter().filter(|row| row.2.is_some()).count();
    result.map(|()| overdue)
}

/// The same for an engine whose clock is moved manually: as often as a running engine looks.
pub(crate) async fn run_manually(core: &Core, now: Millis) -> Result<(), Error> {
    let interval_ms = i64::try_from(core.options.overdue_look_interval_ms).unwrap_or(i64::MAX);
    let is_early = |last: Millis| (0..interval_ms).contains(&now.since(last));
    if core.maintenance.overdue.looked_at.lock().is_some_and(is_early) {
        return Ok(());
    }
    *core.maintenance.overdue.looked_at.lock() = Some(now);
    run_once(core, now).await.map(drop)
}

/// A look at one partition.
struct OverdueCheck<'c> {
    core: &'c Core,
    partition: Partition,
    now: Millis,
}

impl OverdueCheck<'_> {
    async fn look(&self, watched: &mut Watched) -> Result<(), Error> {
        let until = self.now.plus(-OVERDUE_MS);
        self.confirm(watched).await?;
        // A clock that stepped back takes the walk along.
        let end = (until, i64::MAX);
        let beginning = (until.plus(-FOLLOW_FROM_MS), i64::MAX);
        let from = watched.followed.unwrap_or(beginning).min(end);
        watched.followed = Some(self.walk(watched, Some(from), None).await?.unwrap_or(end));
        watched.lap = self.walk(watched, watched.lap, Some(LAP_ROWS)).await?;
        Ok(())
    }

    /// Forgets what has fired, or is to fire at another time.
    async fn confirm(&self, watched: &mut Watched) -> Result<(), Error> {
        for (key, suspect) in watched.suspects.clone() {
            let just_it = OverdueLook {
                partition: self.partition,
                after: Some((key.0, key.1 - 1)),
                until: key.0,
                limit: 1,
                rows: Some(1),
            };
            let page = self.core.store.overdue(just_it).await?;
            let current = page.found.first() == Some(&suspect.overdue);
            if !current || self.have_fired(&page.found).await.contains(&key.1) {
                watched.suspects.remove(&key);
            } else if suspect.queue.is_none()
                && let Some(this_suspect) = watched.suspects.get_mut(&key)
            {
                this_suspect.queue = self.queue_of(&suspect.overdue).await;
            }
        }
        Ok(())
    }

    /// That it cannot be read hides no task: it is known by its partition, and its queue is asked for at the next look.
    async fn queue_of(&self, overdue: &Overdue) -> Option<QueueKey> {
        let read = self.core.store.read(&[overdue.place]).await;
        let read =
            read.inspect_err(|error| tracing::warn!(%error, "the queue of an overdue task cannot be read"));
        read.ok()?.pop()?.map(|task| task.ask.queue)
    }

    /// Where it stopped; None: at the end.
    async fn walk(
        &self,
        watched: &mut Watched,
        mut after: Option<Key>,
        rows: Option<usize>,
    ) -> Result<Option<Key>, Error> {
        let until = self.now.plus(-OVERDUE_MS);
        for _ in 0..PAGES_MAX {
            let look = OverdueLook { partition: self.partition, after, until, limit: PAGE, rows };
            let OverduePage { found, next, database } = self.core.store.overdue(look).await?;
            watched.database = database;
            let fired = self.have_fired(&found).await;
            for overdue in found.iter().filter(|overdue| !fired.contains(&overdue.place.id)) {
                let key = (overdue.due_at, overdue.place.id);
                if watched.suspects.len() >= SUSPECTS_MAX && !watched.suspects.contains_key(&key) {
                    return Ok(Some((key.0, key.1 - 1)));
                }
                let suspect = Suspect { overdue: *overdue, queue: None, seen_at: self.now };
                watched.suspects.entry(key).or_insert(suspect);
            }
            after = next;
            if after.is_none() || (rows.is_some() && found.len() < PAGE) {
                break;
            }
        }
        Ok(after)
    }

    /// Ids of those that have fired, though the store has not been told: this engine knows it, or another one says so.
    async fn have_fired(&self, found: &[Overdue]) -> HashSet<i64> {
        let (fired, unknown): (Vec<&Overdue>, Vec<&Overdue>) = {
            let table = self.core.live.lock();
            found.iter().partition(|overdue| table.unpersisted_at(overdue.place.id, overdue.fence).is_some())
        };
        let mut fired: HashSet<i64> = fired.into_iter().map(|overdue| overdue.place.id).collect();
        self.add_waiting(&unknown, &mut fired).await.unwrap_or_default();
        fired
    }

    /// Adds, of these, what waits in the line of another engine, and what a scan of its queue has still time to find.
    async fn add_waiting(&self, unknown: &[&Overdue], fired: &mut HashSet<i64>) -> Result<(), Error> {
        if unknown.is_empty() {
            return Ok(());
        }
        let places: Vec<_> = unknown.iter().map(|overdue| overdue.place).collect();
        let tasks = self.core.store.read(&places).await?;
        let has_time = |entry: &HotEntry| {
            let budget_ms = self.core.settings.queue(&entry.queue).lateness_budget_ms();
            budget_ms.is_some_and(|budget_ms| budget_ms == 0 || self.now.since(entry.due_at) <= budget_ms)
        };
        for entry in tasks.iter().flatten().map(entry_of) {
            let waits = if self.core.settings.is_scanned(&entry.queue) {
                has_time(&entry)
            } else {
                // Its owner says so each second.
                self.core.sharing.elsewhere.is_known(&entry.queue)
            };
            fired.extend(waits.then_some(entry.place.id));
        }
        Ok(())
    }
}
