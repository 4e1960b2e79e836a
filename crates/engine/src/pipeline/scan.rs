//! Durable scan: due tasks of a queue whose `source` is the store are read from the database at an interval, in time order, and no
//! other way. Nothing of such a queue is in Redis: not its tasks, not its limits (`Shared::stored_limiter`). It is
//! the source of `store_source` at another cadence, for one queue at a time, and marked before it is served.
//!
//! Order of steps of one task, and what a crash, a hang or a cut between two of them leaves:
//!
//! 1. A page of a partition is read. Crash: nothing is changed; the next scan, here or at the partition's next owner, reads it again.
//! 2. It is moved to `ready`, in a transaction of its own that names its state and fence. Refused: it was cancelled, changed or
//!    replaced since it was read. Answer lost: the next scan finds it as `scheduled` or `ready`. A failure is counted, and the scan
//!    continues with the next task.
//! 3. Executors of this engine are served with it from the live table. Crash: it is `ready`; each engine where executors ask for the
//!    queue looks for that once a second, in all partitions.
//! 4. The limiter in the store grants a place, of `scan_concurrency` over all engines. Crash: the reconciler frees it.
//! 5. It is leased, in a transaction of its own that looks at its row and names state and fence (`hand_over`). Refused: another
//!    engine was first. Crash: the lease ends. A task whose lease fails is served again a moment later; those behind it continue.
//!
//! A queue that is scanned from now on: what Redis still has of it is dropped when its owner drains it; a task that
//! an executor leases twice is refused by its fence. A queue that is scanned no more: what is
//! served stays so, and partitions are looked through as if they had just been taken over; once more a second later,
//! for what engines have inserted that did not know it yet.
//!
//! Instants of scans are multiples of the interval, shifted by the queue's name: each engine scans what it owns at the same
//! instants, so that a partition that changes its owner is scanned no later. Must not touch the hot set.

mod ready;
pub(crate) mod state;

use crate::{
    control,
    core::Core,
    engine::Engine,
    parts,
    pipeline::{
        fire,
        from_store::{
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

/// Between two looks whether a queue is to be scanned.
pub(crate) const PERIOD: Duration = Duration::from_millis(100);
/// Between two looks for what is ready, where executors ask for a queue that is scanned.
pub(crate) const READY_PERIOD: Duration = Duration::from_secs(1);
/// What takes longer has failed, as far as the scan knows.
const PATIENCE: Duration = Duration::from_secs(5);
/// After so long the scan of one queue gives way to those of others; it continues with the next look.
const SLICE: Duration = Duration::from_millis(500);
/// a manual scan answers after so long, also where there is more.
const MANUAL_WITHIN: Duration = Duration::from_secs(20);
const SCAN: &str = "scan the queue";
/// What to do about a database that is silent.
const NO_ANSWER: &str = "no database has answered in time, so it is unknown whether tasks were made ready. `punctual doctor` says which one \
                         hangs; scan again when it answers. Until then the engine continues its periodic scans";
/// All engines know that a queue is scanned no more after this.
const SETTINGS_KNOWN_MS: i64 = 1_000;

/// Scans the queues whose time has come, in the partitions of this engine. Tasks made ready.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    let back = core.from_store.scans.no_more(&core.settings.known());
    if !back.is_empty() {
        give_back(core, &back);
    }
    if core.from_store.scans.fills_again(core.now()) {
        look_through(core);
    }
    if core.settings.known().scanned.is_empty() {
        return Ok(0);
    }
    parts::each(core, "scan", parts::PATIENCE, scan_part).await
}

async fn scan_part(core: Arc<Core>, part: usize) -> Result<usize, Error> {
    let (known, mut made_ready) = (core.settings.known(), 0);
    for queue in &known.scanned {
        let (scans, settings) = (&core.from_store.scans, core.settings.queue(queue));
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

/// A part of a scan. Whether that was its end.
async fn step(
    core: &Arc<Core>,
    queue: &QueueKey,
    settings: &QueueSettings,
    partitions: &[Partition],
    round: &mut Round,
) -> bool {
    let (mut found, bound) = look(core, queue, settings.scan_batch(), partitions, round).await;
    // What is due beyond the bound has its turn when all partitions are read so far.
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

/// Reads what comes next in each partition, and answers up to where all of them are read; None: to their end.
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

/// The next tasks of a queue in one partition, a batch at least if there are so many; and up to where it is read. None: to its end.
/// An error that is none: there was no answer.
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

/// In a transaction of its own. `room`: for how many more this engine serves its executors with.
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

/// Looks in all partitions for what is ready in queues that are scanned and that executors ask for here: made ready by another
/// engine or manually, or given back. Tasks that are served now and were not.
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
    let positions = &core.from_store.scans.ready_positions;
    for partition in core.partitions().filter(|partition| parts::is_in(&core, part, *partition)) {
        match others::serve_partition(&core, positions, partition, &wanted, &mut scanned).await {
            Ok(count) => served += count,
            Err(error) => result = Err(error),
        }
    }
    scanned.forget_what_is_gone(&core);
    result.map(|()| served)
}

/// These queues are scanned no more: their tasks go by the hot set again.
fn give_back(core: &Arc<Core>, back: &[Arc<QueueKey>]) {
    let served = core.live.lock().serve_no_more(|queue| back.iter().any(|other| **other == *queue), |_| true);
    look_through(core);
    core.from_store.scans.fill_again_at(core.now().plus(SETTINGS_KNOWN_MS));
    fire::offer_again(core, served);
}

/// As if all partitions of this engine had just been taken over.
fn look_through(core: &Core) {
    core.from_store.watermarks.begin_anew();
    for tenure in core.holdings.tenures() {
        if core.holdings.begin_anew(tenure) {
            core.live.lock().open(tenure.partition);
        }
    }
    core.filling.look_through.notify_one();
}

/// What a scan that was started manually has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ManualScanResult {
    /// Due tasks that no executor has.
    pub found: usize,
    /// Of these, how many the scan has made ready.
    pub handed_over: usize,
    /// Of these, how many could not be written.
    pub failed: usize,
    pub took: Duration,
    /// All of it was looked at, and could be read.
    pub is_complete: bool,
}

impl Engine {
    /// Whether the due tasks of a queue are scanned for, as far as this engine knows; a second behind the store at most.
    #[must_use]
    pub fn is_scanned(&self, queue: &QueueKey) -> bool {
        self.core.settings.is_scanned(queue)
    }

    /// Scans a queue now, in all partitions, whichever engine owns them. None: the queue is not scanned.
    ///
    /// # Errors
    /// When it cannot be known what is set for the queue, and when no database has answered in time. What fails otherwise is part of
    /// the answer.
    pub async fn scan_queue(&self, queue: QueueKey) -> Result<Option<ManualScanResult>, crate::Error> {
        let until = Instant::now() + MANUAL_WITHIN;
        // One at a time: each reads all partitions. Who goes meanwhile starts none.
        let turn = Arc::clone(&self.core.from_store.scans.manual).acquire_owned();
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

/// What a manual scan has found in one part of the store.
struct ManualScan {
    report: ScanCounts,
    /// All of it was looked at, and could be read.
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
        // What is under way when the time is over is found by the next scan, as after a crash.
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
