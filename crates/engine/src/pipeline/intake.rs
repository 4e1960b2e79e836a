//! Insert: tasks are stored first, and tasks that are due soon are loaded into the table or the hot
//! set after the commit. Never acknowledges before the commit. The load is not essential: after a crash
//! between the two, the refill finds the tasks.

use crate::{
    control,
    core::Core,
    for_later::{changed, inserts},
    long_payloads,
    pipeline::{drain, entry::entry_of, line, room},
};
use punctual_contract::{Error, Happened, hot::HotEntry, store::Inserted};
use punctual_domain::{insert::Decision, place::Partition, task::NewTask, time::Millis};
use std::sync::{Arc, atomic::Ordering::Relaxed};

/// Tasks due this soon are loaded wherever the preloader is, because it may not have begun.
const SOON_MS: i64 = 10_000;
/// Entries due this soon carry their dispatch data, even if the hot set is nearly full.
const ASK_MS: i64 = 10_000;
/// Tasks that are due this soon in a partition of this engine are loaded into its table, not into the hot
/// set. An engine that takes the partition over reads this far ahead (`preload::load_near`).
pub(crate) const NEAR_MS: i64 = 10_000;
/// The maximum difference of two engines' clocks at which no task is loaded late.
const CLOCKS_APART_MS: i64 = 10_000;

pub(crate) async fn insert(
    core: &Arc<Core>,
    mut tasks: Vec<NewTask>,
    by: &str,
) -> Result<Vec<Result<Inserted, Error>>, Error> {
    let waits = inserts::begin(core, &tasks).await;
    let refused = waits.take_refused(&mut tasks);
    let inserted = insert_named(core, tasks, by).await?;
    Ok(refused.among(inserted))
}

/// Inserts tasks of which no executor has an attempt that the store does not know.
async fn insert_named(
    core: &Arc<Core>,
    mut tasks: Vec<NewTask>,
    by: &str,
) -> Result<Vec<Result<Inserted, Error>>, Error> {
    if tasks.is_empty() {
        return Ok(Vec::new());
    }
    let put = long_payloads::put_payloads(core, &mut tasks).await?;
    let inserting = core.limits.backlog.begin(&tasks);
    let inserted = core.store.insert_each(tasks, by, core.now()).await;
    if inserted.is_ok() {
        inserting.stored();
    }
    long_payloads::inserted(core, put, &inserted);
    let inserted = inserted?;
    let (mut entries, mut replaced) = (Vec::new(), Vec::new());
    for stored in inserted.iter().flatten() {
        if matches!(stored.decision, Decision::Create | Decision::Replace) {
            entries.push(entry_of(&stored.task));
            core.meters.queue(&stored.task.ask.queue).inserted(1);
        }
        if stored.decision == Decision::Replace {
            replaced.extend(entries.last().cloned());
        }
    }
    forget_replaced(core, &replaced);
    admit(core, entries).await;
    changed::withdraw_replaced(core, &replaced).await;
    Ok(inserted)
}

/// Removes the old versions of tasks that were replaced while they waited. The store refuses leases of the old
/// versions. Where tasks are handed over without the store, this engine must not keep an old version, nor accept one
/// from a read that began before.
fn forget_replaced(core: &Core, replaced: &[HotEntry]) {
    if replaced.is_empty() {
        return;
    }
    {
        let mut table = core.live.lock();
        for entry in replaced {
            let before = entry.fence - 1;
            table.withdraw(entry.place.id, before);
            table.forget_fired(entry.place.id, before);
        }
    }
    line::discard(core, replaced);
    changed::replaced(core, replaced);
}

/// Loads tasks that are due soon into this engine's table or into the hot set; the preloader loads the others
/// later. A failure here is not the caller's: the task is stored, and a gap is noted.
pub(crate) async fn admit(core: &Arc<Core>, entries: Vec<HotEntry>) {
    if let Err(error) = control::loaded(core).await {
        // Nothing is loaded into the hot set before it is known which queues are scanned.
        tracing::warn!(%error, "settings could not be read after a commit; its tasks are read from the store");
        core.filling.gaps.note_entries(entries.iter());
        entries
            .iter()
            .for_each(|entry| core.store_fallback.watermarks.lower(entry.place.partition, entry.due_at));
        return;
    }
    let (scanned, entries) = core.split_scanned(entries);
    line::serve_ready(core, scanned);
    let (near, mut entries) = split_near(core, entries);
    entries.extend(drain::load_into_table(core, near).await.elsewhere);
    if entries.is_empty() {
        return;
    }
    let is_away = core.store_fallback.is_away();
    if is_away {
        // They fire from the store, or are preloaded when the hot set is back.
        core.store_fallback.passes_by();
    }
    let now = core.now();
    entries.retain(|entry| entry.due_at <= covered(core, entry.place.partition, now));
    if is_away {
        core.filling.gaps.note_entries(entries.iter());
        return;
    }
    if let Err(error) = load_hot(core, entries.clone()).await {
        core.filling.gaps.note_entries(entries.iter());
        core.store_fallback.passes_by();
        if error.happened == Happened::Maybe {
            // A connection that broke: on the next one they are loaded from the store.
            core.filling.preload.notify_one();
        }
        tracing::warn!(%error, "tasks could not be loaded after their commit; they are read from the store");
    }
}

/// Splits off the tasks that are loaded into this engine's table.
fn split_near(core: &Core, entries: Vec<HotEntry>) -> (Vec<HotEntry>, Vec<HotEntry>) {
    if core.work.stopping.is_cancelled() {
        return (Vec::new(), entries);
    }
    let until = core.now().plus(NEAR_MS);
    let is_near =
        |entry: &HotEntry| entry.due_at <= until && core.holdings.tenure(entry.place.partition).is_some();
    entries.into_iter().partition(is_near)
}

/// Up to which due time the hot set has a partition's tasks. If another engine preloads, or may have begun
/// to, this is the furthest that it may have got. Tasks beyond its frontier must be loaded here.
fn covered(core: &Core, partition: Partition, now: Millis) -> Millis {
    let frontier = core.holdings.frontier(partition);
    let is_mine = core.holdings.tenure(partition).is_some();
    let is_short = core.filling.room.is_short();
    if is_mine && (is_short || core.filling.is_crowded.load(Relaxed)) {
        return frontier.max(now.plus(SOON_MS));
    }
    frontier.max(now.plus(core.filling.room.horizon_ms(core.options.horizon_ms) + CLOCKS_APART_MS))
}

/// Loads rows read from the store to where they fire. Returns how many were not there yet. Tasks of scanned
/// queues stay in the store.
pub(crate) async fn load(core: &Arc<Core>, entries: Vec<HotEntry>) -> Result<usize, Error> {
    control::loaded(core).await?;
    let (_, entries) = core.split_scanned(entries);
    let (near, mut far) = split_near(core, entries);
    let taken_in = drain::load_into_table(core, near).await;
    far.extend(taken_in.elsewhere);
    Ok(taken_in.count + load_hot(core, far).await?)
}

async fn load_hot(core: &Arc<Core>, mut entries: Vec<HotEntry>) -> Result<usize, Error> {
    if entries.is_empty() {
        return Ok(0);
    }
    leave_out_asks(core, &mut entries);
    let loaded = core.hot.load(entries.clone()).await?;
    changed::withdraw_changed(core, &entries).await;
    room::loaded(core, loaded).await;
    announce_soon(core, &entries);
    Ok(loaded)
}

/// An entry carries its dispatch data if the hot set has room for it; otherwise the row is read.
fn leave_out_asks(core: &Core, entries: &mut [HotEntry]) {
    if !core.filling.room.is_short() {
        return;
    }
    let until = core.now().plus(ASK_MS);
    entries.iter_mut().filter(|entry| entry.due_at > until).for_each(HotEntry::leave_out_ask);
}

/// Notifies the owners of tasks that are due before their next check of the hot set.
fn announce_soon(core: &Core, entries: &[HotEntry]) {
    let interval_ms = i64::try_from(core.options.claim_interval_ms).unwrap_or(i64::MAX);
    let soon = core.now().plus(core.options.lookahead_ms.saturating_add(interval_ms));
    let is_anothers = |entry: &&HotEntry| core.holdings.tenure(entry.place.partition).is_none();
    for entry in entries.iter().filter(|entry| entry.due_at <= soon).filter(is_anothers) {
        core.sharing.announcer.due(entry.place.partition, entry.due_at);
    }
}
