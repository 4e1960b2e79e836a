//! Checks every partition of the store, whichever engine owns it, for long overdue tasks that have not fired. Their
//! owner does not find them, because its hot set, a watermark or its own clock hides them; or no engine owns the
//! partition. Only reports them: it fires nothing, and changes nothing.
//!
//! There are two walks over the rows, each bounded. One follows the present, and reads each row once, some seconds
//! after its time. It shows within two checks what has just stopped firing. The other passes through all rows from
//! the oldest on, some rows per check, and then starts again. It shows what the first walk missed (a row that
//! appeared late, a clock that was set back). Every check repeats what the walks have found, until it has fired.
//! Neither walk continues beyond what it can remember.

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

/// Tasks that wait for busy executors fire long before the store learns of it. Tasks that are less late may
/// be such tasks.
pub(crate) const OVERDUE_MS: i64 = 10_000;
/// The distance from the present at which the walk that follows the present begins.
const FOLLOW_FROM_MS: i64 = 600_000;
/// The number of rows of a partition that the walk over all rows reads in one check. Ten million rows take about half
/// a day in one partition, and less than an hour in 64.
const LAP_ROWS: usize = 500;
const PAGE: usize = 200;
/// The maximum number of pages of one walk in one check, if many rows have fired that the store does not know to be
/// fired.
const PAGES_MAX: usize = 20;
/// Tasks of one partition that are remembered.
const SUSPECTS_MAX: usize = 8;
/// The time limit of each of these reads: a database that does not answer is left out of this check.
const PATIENCE: Duration = Duration::from_secs(3);

/// Checks all partitions once. Returns how many have an overdue task. An error is returned after all were checked.
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

/// The same for an engine whose clock is moved manually: at the same interval as in a running engine.
pub(crate) async fn run_manually(core: &Core, now: Millis) -> Result<(), Error> {
    let interval_ms = i64::try_from(core.options.overdue_look_interval_ms).unwrap_or(i64::MAX);
    let is_early = |last: Millis| (0..interval_ms).contains(&now.since(last));
    if core.maintenance.overdue.looked_at.lock().is_some_and(is_early) {
        return Ok(());
    }
    *core.maintenance.overdue.looked_at.lock() = Some(now);
    run_once(core, now).await.map(drop)
}

/// One check of one partition.
struct OverdueCheck<'c> {
    core: &'c Core,
    partition: Partition,
    now: Millis,
}

impl OverdueCheck<'_> {
    async fn look(&self, watched: &mut Watched) -> Result<(), Error> {
        let until = self.now.plus(-OVERDUE_MS);
        self.confirm(watched).await?;
        // If the clock steps back, so does the walk.
        let end = (until, i64::MAX);
        let beginning = (until.plus(-FOLLOW_FROM_MS), i64::MAX);
        let from = watched.followed.unwrap_or(beginning).min(end);
        watched.followed = Some(self.walk(watched, Some(from), None).await?.unwrap_or(end));
        watched.lap = self.walk(watched, watched.lap, Some(LAP_ROWS)).await?;
        Ok(())
    }

    /// Removes tasks that have fired, or that are due at another time now.
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

    /// Reads the queue of an overdue task. An unreadable queue hides no task: the partition identifies it, and the
    /// next check reads the queue again.
    async fn queue_of(&self, overdue: &Overdue) -> Option<QueueKey> {
        let read = self.core.store.read(&[overdue.place]).await;
        let read =
            read.inspect_err(|error| tracing::warn!(%error, "the queue of an overdue task cannot be read"));
        read.ok()?.pop()?.map(|task| task.ask.queue)
    }

    /// Returns where the walk stopped, or `None` means at the end.
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

    /// Ids of tasks that have fired although the store does not know: this engine knows it, or another one reports
    /// it.
    async fn have_fired(&self, found: &[Overdue]) -> HashSet<i64> {
        let (fired, unknown): (Vec<&Overdue>, Vec<&Overdue>) = {
            let table = self.core.live.lock();
            found.iter().partition(|overdue| table.unpersisted_at(overdue.place.id, overdue.fence).is_some())
        };
        let mut fired: HashSet<i64> = fired.into_iter().map(|overdue| overdue.place.id).collect();
        self.add_waiting(&unknown, &mut fired).await.unwrap_or_default();
        fired
    }

    /// Adds tasks that wait in another engine's line, and tasks that a scan of their queue still has time to
    /// find.
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
