//! Drain: moves tasks that are due within the look-ahead from the hot set into the live table, and
//! schedules their due times on the wheel. From then on a task is in the table and in the store, and nowhere
//! else. Order of steps, and what a crash, or a lost answer, between two of them leaves:
//!
//! 1. Popped from the hot set. Crash: the next owner refills from the store. Answer lost: a gap, which
//!    `refill` closes immediately.
//! 2. The task is in the table, and on the wheel. Crash: the same.
//! 3. Tasks of push queues that are not preleased are marked `dispatching` in the store. Crash: the next
//!    owner finds the mark. Refused: the task was cancelled, changed or handed over, and is removed from the
//!    table. Not answered, or not preleased after all: it is marked when it fires.
//!
//! Must not decide what fires: the table does.

use crate::{
    core::Core,
    for_later::hand_over as without_store,
    live::Loaded,
    options::STEP_LIMIT,
    parts,
    pipeline::{ahead, fire, store_fallback},
};
use punctual_contract::{
    Error, Happened,
    hot::HotEntry,
    ownership::Tenure,
    store::{Applied, Change, Step},
};
use punctual_domain::{place::Partition, state::State};
use std::sync::Arc;

/// The number of unfired tasks in the table from which later ones stay in the hot set: the engine is behind anyway.
const WAITING_MAX: usize = 500_000;
/// Entries in one call, of all partitions together: more would keep the hot set busy for so long that it
/// seems silent.
const DRAINED_MAX: usize = 10_000;
/// The minimum number of entries that are drained of one partition.
const DRAINED_MIN: usize = 50;
/// Few tasks are drained this long after their due time.
const LATE_MS: i64 = 10_000;

/// Drains what is due within the look-ahead. Returns the number of entries.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    store_fallback::with_hot_set(core, drain(core, core.holdings.tenures())).await
}

/// The same for some partitions.
pub(crate) async fn drain_in(core: &Arc<Core>, partitions: &[Partition]) -> Result<usize, Error> {
    let tenure = |partition: &Partition| core.holdings.tenure(*partition);
    drain(core, partitions.iter().filter_map(tenure).collect()).await
}

async fn drain(core: &Arc<Core>, mut tenures: Vec<Tenure>) -> Result<usize, Error> {
    let (mut drained, mut result) = (0, Ok(()));
    while !tenures.is_empty() && core.live.lock().len() < WAITING_MAX {
        let until = core.now().plus(core.options.lookahead_ms);
        let limit = (DRAINED_MAX / tenures.len()).clamp(DRAINED_MIN, STEP_LIMIT);
        let answers = core.hot.drain(&tenures, until, limit).await;
        let (mut found, mut again) = (Vec::new(), Vec::new());
        for (tenure, answer) in tenures.into_iter().zip(answers) {
            match answer {
                Ok(entries) => {
                    again.extend((entries.len() == limit).then_some(tenure));
                    found.extend(entries);
                }
                Err(error) => {
                    if error.happened == Happened::Maybe {
                        // Older entries that were popped are found by the look at overdue tasks.
                        core.filling.gaps.note(tenure.partition, (core.now().plus(-LATE_MS), until));
                    }
                    result = Err(error);
                }
            }
        }
        drained += found.len();
        let elsewhere = load_into_table(core, found).await.elsewhere;
        if !elsewhere.is_empty() {
            // Given up meanwhile: its next owner drains these, or finds them in the store.
            result = result.and(core.hot.load(elsewhere).await.map(drop));
        }
        tenures = again;
    }
    result.map(|()| drained)
}

/// The result of loading entries into the table.
#[derive(Debug, Default)]
pub(crate) struct TakenIn {
    /// The number of entries that are new here.
    pub(crate) count: usize,
    /// Entries in partitions that this engine does not work on.
    pub(crate) elsewhere: Vec<HotEntry>,
}

/// Loads entries into the table, and their due times into the wheel. Overdue tasks fire immediately. Entries
/// of a queue that is scanned now are dropped: the store has them. So are tasks that the journal has handed
/// over, which the table may not know yet.
pub(crate) async fn load_into_table(core: &Arc<Core>, entries: Vec<HotEntry>) -> TakenIn {
    let (_, entries) = core.split_scanned(entries);
    let entries = without_store::keep_free(core, entries);
    if entries.is_empty() {
        return TakenIn::default();
    }
    let may_lease = |entry: &HotEntry| ahead::may_be_leased(core, entry);
    // A lease in the engine's name serves as the mark. A task that is not preleased after all is marked when
    // it fires.
    let is_claimed = |entry: &HotEntry| {
        needs_mark(core, entry) && !(may_lease(entry) && core.settings.is_plain(&entry.queue))
    };
    let loaded = core.live.lock().load(entries, is_claimed, may_lease);
    let Loaded { accepted, to_claim, elsewhere, has_first_candidate } = loaded;
    core.firing.timer.insert(accepted.iter().map(|entry| entry.due_at));
    if has_first_candidate {
        core.firing.ahead.something.notify_one();
    }
    claim(core, to_claim);
    TakenIn { count: accepted.len(), elsewhere }
}

/// Asks the store to mark tasks of push queues. No caller waits for it: a task that fires before the answer
/// continues with it.
fn claim(core: &Arc<Core>, entries: Vec<HotEntry>) {
    for (_, some) in parts::split(core, entries, |entry| entry.place.partition) {
        let its = Arc::clone(core);
        core.work.detach_claim(async move { claim_in(&its, some).await });
    }
}

async fn claim_in(core: &Arc<Core>, entries: Vec<HotEntry>) {
    let fired = match mark(core, &entries).await {
        Ok((won, lost)) => {
            let mut table = core.live.lock();
            table.refuse_claims(&lost);
            let claimed = table.claimed(&won, |entry| ahead::may_be_leased(core, entry));
            drop(table);
            if claimed.has_first_candidate {
                core.firing.ahead.something.notify_one();
            }
            claimed.fired
        }
        Err(error) => {
            tracing::warn!(%error, tasks = entries.len(), "tasks could not be marked; they are marked when they fire");
            core.live.lock().not_claimed(&entries)
        }
    };
    fire::go_on(core, fired);
}

/// It is of a push queue, and the store does not know that it is on its way.
pub(crate) fn needs_mark(core: &Core, entry: &HotEntry) -> bool {
    matches!(entry.state, State::Scheduled | State::Retrying) && core.pushes(&entry.queue)
}

/// Asks the store for marks. Returns the marked tasks, and those that must not fire. A mark with the same
/// fence was made by a call whose answer was lost, or by a dead owner: it is taken over. Marked entries have
/// the new state.
pub(crate) async fn mark(core: &Core, entries: &[HotEntry]) -> Result<(Vec<HotEntry>, Vec<HotEntry>), Error> {
    let (mut won, refused) = ask(core, entries.to_vec(), &Change::Claim).await?;
    won.iter_mut().for_each(|entry| entry.state = State::Dispatching);
    if refused.is_empty() {
        return Ok((won, refused));
    }
    let (taken_over, lost) = ask(core, refused, &Change::Reclaim).await?;
    won.extend(taken_over);
    Ok((won, lost))
}

/// Changes rows in bounded steps: after an outage of the store, all tasks that came due meanwhile may be marked at
/// once. If one step fails, the marks of earlier steps remain, and are reused when it is repeated.
async fn ask(
    core: &Core,
    entries: Vec<HotEntry>,
    change: &Change,
) -> Result<(Vec<HotEntry>, Vec<HotEntry>), Error> {
    let step = |entry: &HotEntry| Step {
        place: entry.row(),
        fence: Some(entry.fence),
        change: change.clone(),
        note: core.note(),
        fired_at: None,
        known: None,
    };
    let mut applied = Vec::with_capacity(entries.len());
    for chunk in entries.chunks(STEP_LIMIT) {
        applied.extend(core.store.apply(chunk.iter().map(step).collect(), core.now()).await?);
    }
    let mut applied = applied.into_iter();
    Ok(entries.into_iter().partition(|_| applied.next().is_some_and(|stepped| stepped == Applied::Moved)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use punctual_domain::{
        name::{Name, QueueKey},
        place::TaskRef,
        task::Priority,
        time::Millis,
    };

    const P: Partition = Partition(0);

    pub(crate) fn entry(id: i64, due_at: i64) -> HotEntry {
        let queue = QueueKey { namespace: Name::default_namespace(), queue: Name::new("q").unwrap() };
        HotEntry {
            place: TaskRef { partition: P, due_at: Millis(due_at), id },
            due_at: Millis(due_at),
            fence: 1,
            queue: Arc::new(queue),
            priority: Priority::default(),
            task_id: id,
            task_version: 0,
            deadline_at: Millis::MAX,
            state: State::Scheduled,
            fired_at: Millis::ZERO,
            attempt: 0,
            details: Arc::default(),
        }
    }
}
