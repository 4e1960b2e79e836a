//! The one repair: reads a range of a partition from the store into the live table, or, where another engine owns the partition
//! or the instant is far, into the hot set. Whatever was lost on the way of a task is found here: the store has every task.
//!
//! Three things ask for it:
//! - a *gap*: a drain or a load whose answer was lost, or that could not be made. It is closed at once, and until then with every
//!   run of the preloader (`preload`, `gaps`);
//! - a partition that was just taken over, or whose hot set was lost (`sharing::adopt`);
//! - once a second, what is *overdue*: what is not here fires, or is served again. So is what was passed to another engine, which
//!   did not hand it over.
//!
//! Changes no row. Bounded: a look at what is overdue reads so many rows of a partition, and the next one continues there. Where
//! there are more than that, a backlog waits for its turn: then each look reads what became overdue since the last one, and a few
//! of the others, so that a backlog costs little however long it is. When one of those is missing, all are looked at from the
//! oldest on, until none is.

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

/// Rows looked at in one partition in one look, of those that were not looked at before.
const LOOK_LIMIT: usize = 500;
/// And of those that were.
const AGAIN_LIMIT: usize = 50;
/// Looks of one run.
const LOOKS_MAX: usize = 20;
/// What was offered so short a time ago may be in the hands of an engine that is about to lease it.
const IN_HANDS_MS: i64 = 3_000;

/// Closes the gaps. Entries loaded; each part of the store by itself. What fails is tried again with the next run.
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

/// Looks until hardly anything is missing, so that a long backlog comes as fast as it is read. Tasks that were missing.
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

/// Looks at what is overdue. Tasks that were missing.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    // None of them is left out because another failed.
    expire::look_at_served(core).await;
    fire::fire_again(core);
    let closed = gaps(core).await;
    let found = parts::each(core, "refill_overdue", parts::PATIENCE, overdue_in).await;
    closed?;
    found
}

/// Closes gaps and offers what was held back, as soon as there is such, until the engine stops.
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

/// The first look at a partition, and what it found, if the store has read it together with the others.
struct FirstLook {
    scan: Scan,
    term: i64,
    at: Position,
    before: Millis,
    rows: Option<Vec<HotEntry>>,
}

/// Of the partitions of one part of the store that this engine owns.
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

/// Adds to `found` what was missing, also when a later look fails.
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
    // Also when the second look fails.
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

/// What one look at a range has read.
struct RangeRead {
    rows: Vec<HotEntry>,
    /// Where the next look continues, if there is more.
    next: Option<Key>,
    /// By id and fence, those that the table did not know before they were read.
    unknown: HashSet<(i64, i64)>,
}

/// The table forgets a task that was marked as ready since its row was read, and the old row says that the task has yet to fire. So
/// only rows that were read after the table was asked show that a task is missing: what it did not know then is not marked here.
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
    /// How many were missing.
    async fn bring_back(self, core: &Arc<Core>, before: Millis) -> Result<usize, Error> {
        let is_unknown = |row: &HotEntry| self.unknown.contains(&(row.place.id, row.fence));
        bring_back(core, self.rows, before, is_unknown).await
    }
}

/// Of what is overdue: what this engine does not know fires, and what was given or passed before an instant is served
/// again. How many were missing. `may_be_missing`: its row is no older than what the table says.
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
                // One that was leased ahead of its instant, and given back, is ready and not due.
                Overdue::Unknown if entry.state == State::Ready && entry.due_at <= now => offered.push(entry),
                Overdue::Unknown if may_be_missing(&entry) => unknown.push(entry),
                Overdue::Offered(fired) if fired.fired_at <= before => offered.push(fired),
                Overdue::Unknown | Overdue::Offered(_) | Overdue::InHand => {}
            }
        }
    }
    let (going, offered): (Vec<_>, Vec<_>) =
        offered.into_iter().partition(|entry| core.settings.is_deleting(&entry.queue.namespace));
    let loaded = drain::take_in(core, unknown).await.count;
    line::discard(core, &going);
    let offered = expire::keep_those_in_time(core, offered).await;
    Ok(loaded + fire::offer_again(core, offered))
}
