//! Durable scan: due tasks of a queue whose `source` is the store are read from the database at an interval,
//! in time order, and in no other way. Redis holds neither the tasks of such a queue nor its limits
//! (`Shared::stored_limiter`). The scan reads like `store_drain`, at another interval and for one queue at a
//! time, and marks tasks before they are lined up.
//!
//! Order of steps of one task, and what a crash, a hang or a cut between two of them leaves:
//!
//! 1. A page of a partition is read. Crash: nothing is changed; the next scan, here or at the partition's next owner, reads it again.
//! 2. It is moved to `ready`, in a transaction of its own that names its state and fence. Refused: it was
//!    cancelled, changed or replaced since the read. Answer lost: the next scan finds it as `scheduled` or
//!    `ready`. A failure is counted, and the scan continues with the next task.
//! 3. It is added to the line in the live table, for executors of this engine. Crash: it is `ready`; each engine
//!    whose executors request the queue searches for such tasks once a second, in all partitions.
//! 4. The limiter in the store grants a slot, of `scan_concurrency` over all engines. Crash: the reconciler
//!    frees it.
//! 5. It is leased, in a transaction of its own that reads its row and names state and fence (`hand_over`).
//!    Refused: another engine was first. Crash: the lease expires. A task whose lease fails is offered again
//!    shortly afterwards; later tasks continue.
//!
//! When a queue becomes scanned: entries in Redis are dropped when their owner drains them, and a second
//! lease of a task is refused by its fence. When a queue is no longer scanned: its line stays, and partitions
//! are scanned as if they had just been taken over. That is repeated a second later, for inserts of engines
//! that did not know the change yet.
//!
//! Scans begin at multiples of the interval, shifted by the queue's name. All engines scan their partitions
//! at the same instants, so a partition that changes its owner is not scanned later. Must not touch the hot
//! set.

mod ready;
pub(crate) mod state;

use crate::{
    control,
    core::Core,
    engine::Engine,
    parts,
    pipeline::{
        fire,
        store_fallback::{
            others::{self, ASKED_WITHIN_MS, SERVED_MAX, Wanted},
            scanned::{PAGES, Scanned, page_after},
        },
    },
};
use futures_util::future::join_all;
use punctual_contract::{Error, hot::HotEntry};
use punctual_domain::{name::QueueKey, place::Partition, settings::QueueSettings};
use state::{Key, Round, ScanCounts};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, timeout, timeout_at};

/// The interval between two checks whether a queue is due for a scan.
pub(crate) const PERIOD: Duration = Duration::from_millis(100);
/// The interval between two searches for ready tasks of scanned queues that executors request.
pub(crate) const READY_PERIOD: Duration = Duration::from_secs(1);
/// A read that takes longer counts as failed.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time after which the scan of one queue yields to others; it continues in the next run.
const SLICE: Duration = Duration::from_millis(500);
/// A manual scan answers after this long, even if more tasks are left.
const MANUAL_WITHIN: Duration = Duration::from_secs(20);
const SCAN: &str = "scan the queue";
/// The advice about a silent database.
const NO_ANSWER: &str = "no database has answered in time, so it is unknown whether tasks were made ready. `punctual doctor` says which one \
                         hangs; scan again when it answers. Until then the engine continues its periodic scans";
/// All engines know that a queue is scanned no more after this.
const SETTINGS_KNOWN_MS: i64 = 1_000;

/// Scans the queues that are due, in this engine's partitions. Returns how many tasks were made ready.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    let back = core.store_fallback.scans.no_more(&core.settings.known());
    if !back.is_empty() {
        give_back(core, &back);
    }
    if core.store_fallback.scans.fills_again(core.now()) {
        look_through(core);
    }
    if core.settings.known().scanned.is_empty() {
        return Ok(0);
    }
    parts::each(core, "scan", parts::PATIENCE, scan_part).await
}

/// Some queue is scanned, or partitions are still to be searched for one that no longer is.
pub(crate) fn is_needed(core: &Core) -> bool {
    !core.settings.known().scanned.is_empty() || core.store_fallback.scans.is_to_fill_again()
}

async fn scan_part(core: Arc<Core>, part: usize) -> Result<usize, Error> {
    let (known, mut made_ready) = (core.settings.known(), 0);
    for queue in &known.scanned {
        let (scans, settings) = (&core.store_fallback.scans, core.settings.queue(queue));
        let Some(mut round) = scans.begin(part, queue, &settings, core.now()) else { continue };
        let before = round.report.handed_over;
        let is_over = step(&core, queue, &settings, &parts::owned(&core, part), &mut round).await;
        made_ready += round.report.handed_over - before;
        if is_over && let Some(error) = &round.error {
            let ScanCounts { found, failed, .. } = round.report;
            tracing::warn!(
                queue = queue.queue.as_str(),
                found,
                failed,
                error,
                "a scan has failed; the next one tries again"
            );
        }
        scans.end(part, queue, round, is_over);
    }
    Ok(made_ready)
}

/// One step of a scan. Returns whether the scan has ended.
async fn step(
    core: &Arc<Core>,
    queue: &QueueKey,
    settings: &QueueSettings,
    partitions: &[Partition],
    round: &mut Round,
) -> bool {
    let (mut found, bound) = look(core, queue, settings.scan_batch(), partitions, round).await;
    // Tasks that are due beyond the bound wait until all partitions are read that far.
    found.retain(|entry| bound.is_none_or(|bound| entry.key() <= bound));
    found.sort_unstable_by_key(HotEntry::key);
    let began = Instant::now();
    let served = core.live.lock().line_counts(queue).all();
    let (mut room, mut found) = (SERVED_MAX.saturating_sub(served), found.into_iter());
    for entry in found.by_ref() {
        round.after = Some(entry.key());
        make_ready(core, entry, &mut room, round).await;
        if began.elapsed() >= SLICE {
            break;
        }
    }
    if found.len() > 0 {
        return false;
    }
    round.after = bound.max(round.after);
    bound.is_none()
}

/// Reads the next tasks of each partition. Returns up to where all partitions are read, or `None` means to their end.
async fn look(
    core: &Arc<Core>,
    queue: &QueueKey,
    batch: usize,
    partitions: &[Partition],
    round: &mut Round,
) -> (Vec<HotEntry>, Option<Key>) {
    let (mut scanned, mut found, mut failed) = (Scanned::begun(core.now()), Vec::new(), Vec::new());
    let mut bound: Option<Key> = None;
    for partition in partitions.iter().filter(|partition| !round.failed.contains(*partition)) {
        if round.is_silent {
            // Its database hangs: each of the others would be waited for as long.
            failed.push(*partition);
            continue;
        }
        match look_at(core, queue, batch, (*partition, round.after), &mut scanned).await {
            Ok((some, read_to)) => {
                found.extend(some);
                bound = bound.into_iter().chain(read_to).min();
            }
            Err(error) => {
                round.is_silent = error.is_none();
                let error = error.unwrap_or_else(|| silent("read what is due"));
                round.error = Some(error.to_string());
                failed.push(*partition);
            }
        }
    }
    round.failed.extend(failed);
    scanned.forget_what_is_gone(core);
    (found, bound)
}

/// The next tasks of a queue in one partition, at least a batch if there are that many; and up to where it is read.
/// `None` means to its end. An error of None: there was no answer.
async fn look_at(
    core: &Arc<Core>,
    queue: &QueueKey,
    batch: usize,
    (partition, mut after): (Partition, Option<Key>),
    scanned: &mut Scanned,
) -> Result<(Vec<HotEntry>, Option<Key>), Option<Error>> {
    let mut found = Vec::new();
    for _ in 0..PAGES {
        let page = timeout(PATIENCE, page_after(core, partition, after, scanned)).await;
        let (page, next) = page.map_err(|_| None)?.map_err(Some)?;
        found.extend(page.into_iter().filter(|entry| *entry.queue == *queue));
        after = next;
        if next.is_none() || found.len() >= batch {
            break;
        }
    }
    Ok((found, after))
}

fn silent(doing: &'static str) -> Error {
    Error::may_have_happened(doing, "no answer in time")
}

/// Makes a task ready in a transaction of its own. `room` is the number of further tasks that this engine serves to
/// its executors.
async fn make_ready(core: &Arc<Core>, entry: HotEntry, room: &mut usize, round: &mut Round) {
    round.report.found += 1;
    let due_at = entry.due_at;
    let won = timeout(PATIENCE, ready::win(core, vec![entry])).await;
    match won.unwrap_or_else(|_| Err(silent("make a task ready"))) {
        Ok(won) => {
            round.report.handed_over += ready::hold(core, &won, *room);
            *room = room.saturating_sub(won.len());
        }
        Err(error) => {
            round.report.failed += 1;
            round.error = Some(error.to_string());
            round.oldest_failed = round.oldest_failed.into_iter().chain([due_at]).min();
        }
    }
}

/// Searches all partitions for ready tasks of scanned queues that executors request here. Another engine or a caller
/// made them ready, or they were returned. Returns the number of newly lined up tasks.
pub(crate) async fn serve_ready(core: &Arc<Core>) -> Result<usize, Error> {
    let wanted = wanted(core);
    if wanted.values().all(|left| *left == 0) {
        return Ok(0);
    }
    let wanted = Arc::new(wanted);
    let serve = move |core, part| serve_part(core, part, Arc::clone(&wanted));
    parts::each(core, "scan_ready", parts::PATIENCE, serve).await
}

fn wanted(core: &Core) -> Wanted {
    if core.settings.known().scanned.is_empty() {
        return Wanted::default();
    }
    let asked_for = core.arrivals.asked_for(core.now().plus(-ASKED_WITHIN_MS));
    let table = core.live.lock();
    let left = |queue: &QueueKey| SERVED_MAX.saturating_sub(table.line_counts(queue).all());
    let scanned = asked_for.iter().filter(|queue| core.settings.is_scanned(queue));
    scanned.map(|queue| (Arc::clone(queue), left(queue))).collect()
}

async fn serve_part(core: Arc<Core>, part: usize, wanted: Arc<Wanted>) -> Result<usize, Error> {
    let (mut served, mut scanned, mut result) = (0, Scanned::begun(core.now()), Ok(()));
    let positions = &core.store_fallback.scans.ready_positions;
    for partition in core.partitions().filter(|partition| parts::is_in(&core, part, *partition)) {
        match others::serve_partition(&core, positions, partition, &wanted, &mut scanned).await {
            Ok(count) => served += count,
            Err(error) => result = Err(error),
        }
    }
    scanned.forget_what_is_gone(&core);
    result.map(|()| served)
}

/// These queues are no longer scanned: their tasks use the hot set again.
fn give_back(core: &Arc<Core>, back: &[Arc<QueueKey>]) {
    let served = core.live.lock().serve_no_more(|queue| back.iter().any(|other| **other == *queue), |_| true);
    look_through(core);
    core.store_fallback.scans.fill_again_at(core.now().plus(SETTINGS_KNOWN_MS));
    fire::offer_again(core, served);
}

/// Reads all partitions of this engine as if they had just been acquired.
fn look_through(core: &Core) {
    core.store_fallback.watermarks.begin_anew();
    for tenure in core.holdings.tenures() {
        if core.holdings.begin_anew(tenure) {
            core.live.lock().open(tenure.partition);
        }
    }
    core.filling.look_through.notify_one();
}

/// The result of a manual scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ManualScanResult {
    /// Due tasks that no executor has.
    pub found: usize,
    /// Of these, the number of tasks that the scan has made ready.
    pub handed_over: usize,
    /// Of these, the number of tasks that could not be written.
    pub failed: usize,
    pub took: Duration,
    /// Everything was read.
    pub is_complete: bool,
}

impl Engine {
    /// True if the due tasks of a queue are scanned for, as far as this engine knows; a second behind the store at
    /// most.
    #[must_use]
    pub fn is_scanned(&self, queue: &QueueKey) -> bool {
        self.core.settings.is_scanned(queue)
    }

    /// Scans a queue now, in all partitions, whichever engine owns them. `None` if the queue is not scanned.
    ///
    /// # Errors
    /// When the queue's settings cannot be read, or no database has answered in time. Other failures are part
    /// of the answer.
    pub async fn scan_queue(&self, queue: QueueKey) -> Result<Option<ManualScanResult>, crate::Error> {
        let until = Instant::now() + MANUAL_WITHIN;
        // One at a time, because each reads all partitions. If a caller hangs up while it waits, its scan is
        // not started.
        let turn = Arc::clone(&self.core.store_fallback.scans.manual).acquire_owned();
        let Ok(turn) = timeout_at(until, turn).await else {
            return Err(Error::did_not_happen(
                SCAN,
                "another manual scan is running; try again when it has ended",
            )
            .into());
        };
        let core = Arc::clone(&self.core);
        self.run(async move {
            let _turn = turn;
            let known = timeout_at(until, control::run_once(&core)).await;
            known.unwrap_or_else(|_| Err(Error::did_not_happen(SCAN, NO_ANSWER)))?;
            if !core.settings.is_scanned(&queue) {
                return Ok(None);
            }
            scan_all_manually(&core, &queue, until).await.map(Some).map_err(Into::into)
        })
        .await
    }
}

async fn scan_all_manually(
    core: &Arc<Core>,
    queue: &QueueKey,
    until: Instant,
) -> Result<ManualScanResult, Error> {
    let began = Instant::now();
    let rounds = (0..core.store.parts()).map(|part| scan_manually(core, queue, part, until));
    let rounds = join_all(rounds).await;
    if rounds.iter().all(|round| round.report == ScanCounts::default() && round.is_silent) {
        return Err(Error::may_have_happened(SCAN, NO_ANSWER));
    }
    let mut all = ManualScanResult { is_complete: true, ..ManualScanResult::default() };
    for ManualScan { report, is_complete, .. } in rounds {
        all.found += report.found;
        all.handed_over += report.handed_over;
        all.failed += report.failed;
        all.is_complete &= is_complete;
    }
    Ok(ManualScanResult { took: began.elapsed(), ..all })
}

/// The result of a manual scan in one database.
struct ManualScan {
    report: ScanCounts,
    /// Everything was read.
    is_complete: bool,
    /// It has not answered in time.
    is_silent: bool,
}

async fn scan_manually(core: &Arc<Core>, queue: &QueueKey, part: usize, until: Instant) -> ManualScan {
    let settings = core.settings.queue(queue);
    let partitions: Vec<Partition> =
        core.partitions().filter(|partition| parts::is_in(core, part, *partition)).collect();
    let mut round = Round::new(core.now());
    loop {
        // The next scan finds a step that was interrupted at the end of the time, as after a crash.
        let Ok(is_over) = timeout_at(until, step(core, queue, &settings, &partitions, &mut round)).await
        else {
            return ManualScan { report: round.report, is_complete: false, is_silent: true };
        };
        if is_over || Instant::now() >= until {
            let is_complete = is_over && round.error.is_none();
            return ManualScan { report: round.report, is_complete, is_silent: round.is_silent };
        }
    }
}
