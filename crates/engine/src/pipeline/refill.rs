//! The one repair: reads a range of a partition from the store into the live table. If another engine owns
//! the partition, or the tasks are not due soon, it loads the hot set instead. A task that was lost anywhere
//! on its path is found here: the store has every task.
//!
//! Three causes start it:
//! - a *gap*: a drain or a load whose answer was lost, or that failed. It is closed immediately, and
//!   otherwise retried with every run of the preloader (`preload`, `gaps`);
//! - a partition that was just taken over, or whose hot set was lost (`sharing::adopt`);
//! - once a second, *overdue* tasks: those that are not here fire, or are lined up again. So are tasks that
//!   were passed to another engine that did not hand them over.
//!
//! Changes no row. Bounded: a check of overdue tasks reads a limited number of rows of a partition, and the next
//! check continues there. If there are more, they are a backlog. Then each check reads the tasks that became overdue
//! since the last one, and a few of the others, so that a long backlog costs little. If one of those is missing, all
//! are read from the oldest on, until none is missing.

pub(crate) mod state;

use crate::{
    core::Core,
    live::Overdue,
    maintenance::expire,
    parts,
    pipeline::{
        drain, fire, line, preload,
        store_fallback::{self, scanned::Scanned},
    },
};
use hashbrown::HashSet;
use punctual_contract::{Error, hot::HotEntry, store::Scan};
use punctual_domain::{state::State, time::Millis};
use state::{Key, Position, recent};
use std::sync::Arc;

/// The maximum number of rows that one check reads in one partition, of those not read before.
const LOOK_LIMIT: usize = 500;
/// The maximum number of rows that one check reads again.
const AGAIN_LIMIT: usize = 50;
/// The maximum number of checks of one run.
const LOOKS_MAX: usize = 20;
/// A task that was offered this recently may be about to be leased by another engine.
const IN_HANDS_MS: i64 = 3_000;

/// Closes the gaps, each database separately. Returns the number of entries loaded. Failed gaps are retried
/// in the next run.
pub(crate) async fn gaps(core: &Arc<Core>) -> Result<usize, Error> {
    if core.filling.gaps.are_none() {
        return Ok(0);
    }
    let close = |core, part| async move { gaps_in(&core, part).await };
    store_fallback::with_hot_set(core, parts::each(core, "refill", parts::PATIENCE, close)).await
}

async fn gaps_in(core: &Arc<Core>, part: usize) -> Result<usize, Error> {
    let spans = core.filling.gaps.take(|partition| parts::is_in(core, part, partition));
    let (mut loaded, mut result) = (0, Ok(()));
    for (partition, span) in spans {
        match preload::load_span(core, partition, span).await {
            Ok(count) => loaded += count,
            Err(error) => {
                core.filling.gaps.keep(partition, span);
                result = Err(error);
            }
        }
    }
    if loaded > 0 {
        fire::fire_all(core).await;
    }
    result.map(|()| loaded)
}

/// Checks until hardly any task is missing, so that a long backlog is loaded as fast as it is read. Returns the
/// number of missing tasks.
pub(crate) async fn run(core: Arc<Core>) -> Result<usize, Error> {
    let mut all = 0;
    for _ in 0..LOOKS_MAX {
        let looked = run_once(&core).await;
        fire::fire_all(&core).await;
        let found = looked?;
        all += found;
        if found < LOOK_LIMIT || core.work.stopping.is_cancelled() {
            break;
        }
    }
    Ok(all)
}

/// Checks overdue tasks. Returns the number of missing ones.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    // Each step runs even if another failed.
    expire::look_at_served(core).await;
    fire::fire_again(core);
    let closed = gaps(core).await;
    let found = parts::each(core, "refill_overdue", parts::PATIENCE, overdue_in).await;
    closed?;
    found
}

/// Closes gaps and offers held-back tasks as soon as there are any, until the engine stops.
pub(crate) async fn when_asked(core: Arc<Core>) -> Result<usize, Error> {
    let mut found = 0;
    loop {
        tokio::select! {
            biased;
            () = core.work.stopping.cancelled() => return Ok(found),
            () = core.filling.gaps.asked() => {}
        }
        found += run_asked(&core).await?;
    }
}

/// Tasks that were missing.
async fn run_asked(core: &Arc<Core>) -> Result<usize, Error> {
    let again = fire::fire_again(core);
    Ok(again + gaps(core).await?)
}

/// One part of the store.
async fn overdue_in(core: Arc<Core>, part: usize) -> Result<usize, Error> {
    let (mut found, mut result) = (0, Ok(()));
    let mut scanned = Scanned::begun(core.now());
    for look in first_looks(&core, part).await {
        if let Err(error) = overdue_of(&core, look, &mut scanned, &mut found).await {
            result = Err(error);
        }
    }
    // Once for all partitions: it passes by all that executors are served with.
    scanned.forget_what_is_gone(&core);
    if found > 0 {
        tracing::warn!(tasks = found, "overdue tasks were missing, and have been loaded or offered again");
        core.meters.swept(found);
        fire::fire_all(&core).await;
    }
    result.map(|()| found)
}

/// The first check of a partition, and what it found, if the store has read it together with the others.
struct FirstLook {
    scan: Scan,
    term: i64,
    at: Position,
    before: Millis,
    rows: Option<Vec<HotEntry>>,
}

/// The first checks of the partitions of one part of the store that this engine owns.
async fn first_looks(core: &Core, part: usize) -> Vec<FirstLook> {
    let (until, before) = (core.now().plus(-core.options.overdue_after_ms), core.now().plus(-IN_HANDS_MS));
    let first_look = |partition| {
        let term = core.holdings.tenure(partition)?.term;
        let at = core.filling.overdue.position(partition, term);
        let scan = Scan { partition, until, after: at.front, limit: LOOK_LIMIT };
        Some(FirstLook { scan, term, at, before, rows: None })
    };
    let mut looks: Vec<FirstLook> = parts::owned(core, part).into_iter().filter_map(first_look).collect();
    let read = core.read_waiting_together(looks.iter().map(|look| look.scan.clone()).collect()).await;
    looks.iter_mut().zip(read).for_each(|(look, rows)| look.rows = rows);
    looks
}

/// Adds the missing tasks to `found`, even if a later check fails.
async fn overdue_of(
    core: &Arc<Core>,
    first: FirstLook,
    scanned: &mut Scanned,
    found: &mut usize,
) -> Result<(), Error> {
    let FirstLook { scan, term, mut at, before, rows } = first;
    let (partition, until) = (scan.partition, scan.until);
    if core.holdings.tenure(partition).is_none_or(|tenure| tenure.term != term) {
        return Ok(());
    }
    let looked = look(core, scan, rows).await?;
    let next = looked.next;
    scanned.add(partition, at.front, &looked.rows, next.unwrap_or((until, i64::MAX)));
    let missing = looked.bring_back(core, before).await?;
    *found += missing;
    let looks_again = at.looked(next, missing > 0, until);
    // Remembered even if the second look fails.
    core.filling.overdue.remember(partition, at);
    if looks_again {
        let again = Scan { partition, until: recent(until).0, after: at.again, limit: AGAIN_LIMIT };
        let looked = look(core, again, None).await?;
        let next = looked.next;
        let missing = looked.bring_back(core, before).await?;
        *found += missing;
        at.looked_again(next, missing > 0);
        core.filling.overdue.remember(partition, at);
    }
    Ok(())
}

/// The result of one read of a range.
struct RangeRead {
    rows: Vec<HotEntry>,
    /// The position where the next read continues, if there are more rows.
    next: Option<Key>,
    /// The rows, by id and fence, that the table did not know before they were read.
    unknown: HashSet<(i64, i64)>,
}

/// Reads a range. The table removes a task once it is marked ready, while a row read earlier still shows it as
/// unfired. So only rows that were read after the table was checked prove that a task is missing: a task unknown at
/// that time is not marked here.
async fn look(core: &Core, scan: Scan, read: Option<Vec<HotEntry>>) -> Result<RangeRead, Error> {
    let mut rows = match read {
        Some(rows) => rows,
        None => core.read_waiting(scan.clone()).await?,
    };
    let next = (rows.len() == scan.limit).then(|| rows.last().map(HotEntry::key)).flatten();
    let name = |row: &HotEntry| (row.place.id, row.fence);
    let unknown: HashSet<(i64, i64)> = {
        let table = core.live.lock();
        let is_doubtful =
            |row: &&HotEntry| row.state != State::Ready && matches!(table.overdue(row), Overdue::Unknown);
        rows.iter().filter(is_doubtful).map(name).collect()
    };
    if !unknown.is_empty() {
        rows.retain(|row| !unknown.contains(&name(row)));
        rows.extend(core.read_waiting(scan).await?.into_iter().filter(|row| unknown.contains(&name(row))));
    }
    Ok(RangeRead { rows, next, unknown })
}

impl RangeRead {
    /// Brings missing tasks back. Returns their number.
    async fn bring_back(self, core: &Arc<Core>, before: Millis) -> Result<usize, Error> {
        let is_unknown = |row: &HotEntry| self.unknown.contains(&(row.place.id, row.fence));
        bring_back(core, self.rows, before, is_unknown).await
    }
}

/// Fires overdue tasks that this engine does not know, and lines up those that were given or passed before an
/// instant. Returns how many were missing. `may_be_missing`: the row is no older than the table's answer.
pub(super) async fn bring_back(
    core: &Arc<Core>,
    page: Vec<HotEntry>,
    before: Millis,
    may_be_missing: impl Fn(&HotEntry) -> bool,
) -> Result<usize, Error> {
    let (_, page) = core.split_scanned(page);
    let page = core.maintenance.unsent.sort_out(page, core.now());
    let (mut unknown, mut offered, now) = (Vec::new(), Vec::new(), core.now());
    {
        let table = core.live.lock();
        for entry in page {
            match table.overdue(&entry) {
                // It was preleased and returned, so it is ready although it is not yet due.
                Overdue::Unknown if entry.state == State::Ready && entry.due_at <= now => offered.push(entry),
                Overdue::Unknown if may_be_missing(&entry) => unknown.push(entry),
                Overdue::Offered(fired) if fired.fired_at <= before => offered.push(fired),
                Overdue::Unknown | Overdue::Offered(_) | Overdue::InHand => {}
            }
        }
    }
    let (going, offered): (Vec<_>, Vec<_>) =
        offered.into_iter().partition(|entry| core.settings.is_deleting(&entry.queue.namespace));
    let loaded = drain::load_into_table(core, unknown).await.count;
    line::discard(core, &going);
    let offered = expire::keep_those_in_time(core, offered).await;
    Ok(loaded + fire::offer_again(core, offered))
}
