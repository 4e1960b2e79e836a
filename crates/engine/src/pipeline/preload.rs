//! Preload: copies tasks due within the horizon from the store into the hot set, the earliest first.
//! Never moves a row. Loading a task twice is harmless, so windows overlap; a task must not be missed. So the
//! frontier of a partition is raised *before* its scan: an insert that commits behind the cursor during the
//! scan loads itself. When the hot set is nearly full, the horizon shrinks (`room`).

use crate::{
    core::Core,
    options::STEP_LIMIT,
    parts,
    pipeline::{intake, refill, room, store_fallback},
    sharing::holdings::Raised,
};
use futures_util::stream::{self, StreamExt as _};
use punctual_contract::{Error, hot::HotEntry, store::Scan};
use punctual_domain::{place::Partition, time::Millis};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

/// Windows overlap by this much: commit order is not time order.
const OVERLAP_MS: i64 = 10_000;
/// Tasks due this soon are loaded for every partition before any partition is loaded further.
const NEAR_MS: i64 = intake::NEAR_MS;
/// Partitions that are loaded at one time: while one is read, another is put in.
const TOGETHER: usize = 3;
/// Tasks of each partition that are read together with those of the others.
const SHORT_PAGE: usize = 50;
/// Reads of a database that take longer continue by themselves, while the others' tasks are loaded further.
const PATIENCE: Duration = Duration::from_secs(3);

/// Entries loaded.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    store_fallback::with_hot_set(core, preload(core, now)).await
}

async fn preload(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    let room = core.options.hot_entries_max.saturating_sub(core.hot.count_due().await?);
    let room = Arc::new(Places { left: AtomicUsize::new(room), is_crowded: AtomicBool::new(false) });
    room::look(core).await?;
    let (mut loaded, mut result) = (0, Ok(()));
    match refill::gaps(core).await {
        Ok(count) => loaded += count,
        Err(error) => result = Err(error),
    }
    for (span, reach_ms) in reaches(core) {
        let until = now.plus(reach_ms);
        let extended = parts::each(core, "preload", PATIENCE, |core, part| {
            extend_part(core, part, until, Arc::clone(&room), span)
        });
        match extended.await {
            Ok(count) => loaded += count,
            Err(error) => result = Err(error),
        }
    }
    core.filling.is_crowded.store(room.is_crowded.load(Relaxed), Relaxed);
    core.filling.is_busy.store(loaded > SHORT_PAGE, Relaxed);
    result.map(|()| loaded)
}

async fn extend_part(
    core: Arc<Core>,
    part: usize,
    until: Millis,
    room: Arc<Places>,
    span: PreloadWindow,
) -> Result<usize, Error> {
    let (core, room) = (&core, &*room);
    let raised = raise(core, part, until, span).await;
    let (mut loaded, mut result) = (0, Ok(()));
    let extend = |raised| async move { extend(core, raised, until, room, span).await };
    let mut extended = stream::iter(raised).map(extend).buffer_unordered(TOGETHER);
    while let Some(answer) = extended.next().await {
        match answer {
            Ok(count) => loaded += count,
            // No room or no answer: the other partitions have their turn nevertheless.
            Err(error) => result = Err(error),
        }
    }
    core.meters.preloaded(loaded);
    result.map(|()| loaded)
}

/// The number of entries that still fit, whichever partition they are of.
struct Places {
    left: AtomicUsize,
    is_crowded: AtomicBool,
}

impl Places {
    /// False means no more fit. A page of each partition that is being loaded may be too many.
    fn took(&self, count: usize) -> bool {
        let before = self.left.update(Relaxed, Relaxed, |number| number.saturating_sub(count));
        let has_more = before > count;
        if !has_more {
            self.is_crowded.store(true, Relaxed);
        }
        has_more
    }
}

/// States if the window may be left in the store when capacity is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PreloadWindow {
    Near,
    Far,
}

/// The nearest first, for all partitions.
fn reaches(core: &Core) -> Vec<(PreloadWindow, i64)> {
    let horizon_ms = core.filling.room.horizon_ms(core.options.horizon_ms);
    let rest = if core.filling.room.is_short() { PreloadWindow::Near } else { PreloadWindow::Far };
    vec![(PreloadWindow::Near, NEAR_MS.min(horizon_ms)), (rest, horizon_ms)]
}

/// A partition whose frontier was raised. Dropped before its tasks are loaded, it is lowered again.
struct RaisedPartition {
    core: Arc<Core>,
    partition: Partition,
    /// None: it stays where it is.
    raised: Option<Raised>,
    /// Its first page, if all partitions were read together.
    first: Option<Vec<HotEntry>>,
}

impl Drop for RaisedPartition {
    fn drop(&mut self) {
        if let Some(raised) = self.raised.take() {
            self.core.holdings.lower_frontier(self.partition, raised, raised.from);
        }
    }
}

/// Raises the frontiers of this engine's partitions in one part. Where hardly anything is loaded, the short pages of all are then read in
/// one call, and nothing more is read of a partition whose page is not full.
async fn raise(core: &Arc<Core>, part: usize, until: Millis, span: PreloadWindow) -> Vec<RaisedPartition> {
    if span == PreloadWindow::Far && core.filling.room.is_short() {
        return Vec::new();
    }
    let raise = |partition| {
        let raised = core.holdings.raise_frontier(partition, until)?;
        Some(RaisedPartition { core: Arc::clone(core), partition, raised: Some(raised), first: None })
    };
    let mut all: Vec<RaisedPartition> = parts::owned(core, part).into_iter().filter_map(raise).collect();
    if core.filling.is_busy.load(Relaxed) {
        return all;
    }
    let scan = |raised: &RaisedPartition| {
        let after = after(raised.raised.as_ref()?.from);
        Some(Scan { partition: raised.partition, until, after, limit: SHORT_PAGE })
    };
    let scans: Vec<Scan> = all.iter().filter_map(scan).collect();
    if scans.len() > 1 {
        let pages = core.read_waiting_together(scans).await;
        let is_whole = |page: &Vec<HotEntry>| page.len() < SHORT_PAGE;
        all.iter_mut().zip(pages).for_each(|(raised, page)| raised.first = page.filter(is_whole));
    }
    all
}

/// Extends one partition's frontier to `until`, or as far as there is room.
async fn extend(
    core: &Arc<Core>,
    mut extended: RaisedPartition,
    until: Millis,
    room: &Places,
    span: PreloadWindow,
) -> Result<usize, Error> {
    let Some(raised) = extended.raised else { return Ok(0) };
    if span == PreloadWindow::Far && core.filling.room.is_short() {
        return Ok(0);
    }
    let (partition, mut loaded) = (extended.partition, 0);
    let window = Window { from: raised.from, until, span, first: extended.first.take() };
    let stopped_at = load_window(core, partition, window, |_, count| {
        loaded += count;
        room.took(count)
    });
    let stopped_at = stopped_at.await?;
    if let Some(at) = stopped_at {
        core.holdings.lower_frontier(partition, raised, at);
    }
    extended.raised = None;
    Ok(loaded)
}

/// Loads tasks of a new partition that are overdue or due very soon. Returns the number of entries.
pub(crate) async fn load_near(core: &Arc<Core>, partition: Partition, now: Millis) -> Result<usize, Error> {
    let (until, mut loaded) = (now.plus(NEAR_MS), 0);
    let window = Window { from: Millis::ZERO, until, span: PreloadWindow::Near, first: None };
    load_window(core, partition, window, |_, count| {
        loaded += count;
        loaded < core.options.hot_entries_max
    })
    .await?;
    core.meters.preloaded(loaded);
    Ok(loaded)
}

/// Loads the tasks of a time span in any partition. Returns the number of entries.
pub(crate) async fn load_span(
    core: &Arc<Core>,
    partition: Partition,
    (from, until): (Millis, Millis),
) -> Result<usize, Error> {
    let mut loaded = 0;
    let window = Window { from: from.max(Millis::ZERO), until, span: PreloadWindow::Near, first: None };
    load_window(core, partition, window, |_, count| {
        loaded += count;
        true
    })
    .await?;
    Ok(loaded)
}

/// A time span of a partition that is loaded.
struct Window {
    from: Millis,
    until: Millis,
    span: PreloadWindow,
    /// All of it, if it was read before.
    first: Option<Vec<HotEntry>>,
}

/// The windows overlap.
fn after(from: Millis) -> Option<(Millis, i64)> {
    (from > Millis::ZERO).then(|| (from.plus(-OVERLAP_MS), i64::MIN))
}

/// Passes each page to `goes_on`, with the number of entries that were new in the hot set. If it returns
/// false, returns the time up to which all tasks were loaded.
async fn load_window(
    core: &Arc<Core>,
    partition: Partition,
    Window { from, until, span, mut first }: Window,
    mut goes_on: impl FnMut(&[HotEntry], usize) -> bool,
) -> Result<Option<Millis>, Error> {
    let mut after = after(from);
    loop {
        let page = match first.take() {
            Some(page) => page,
            None => core.read_waiting(Scan { partition, until, after, limit: STEP_LIMIT }).await?,
        };
        let Some(last) = page.last().map(HotEntry::key) else { return Ok(None) };
        let whole = page.len() < STEP_LIMIT;
        let page = core.maintenance.unsent.sort_out(page, core.now());
        let loaded = intake::load(core, page.clone()).await?;
        let is_short = span == PreloadWindow::Far && core.filling.room.is_short();
        let goes_on = goes_on(&page, loaded) && !is_short;
        if whole {
            return Ok(None);
        }
        if !goes_on {
            return Ok(Some(Millis(last.0.0 - 1)));
        }
        after = Some(last);
    }
}
