//! Step 3, drain: takes what is due within the look-ahead out of the hot set into the live table, and has the wheel wake at its
//! instants. From then on the task is in the table and in the store, and nowhere else. Order of steps, and what a crash, or a lost
//! answer, between two of them leaves:
//!
//! 1. Popped from the hot set. Crash: the next owner refills from the store. Answer lost: a gap, which `refill` closes at once.
//! 2. In the table, and on the wheel. Crash: the same.
//! 3. Tasks of push queues that may not be leased ahead of their instants are marked `dispatching` in the store. Crash: the next owner
//!    finds the mark. Refused: the task was cancelled, changed or handed over, and leaves the table. Not answered, or not leased ahead
//!    after all: it is marked when it fires.
//!
//! Must not decide what fires: the table does.

use crate::{
    core::Core,
    for_later::hand_over as without_store,
    live::Loaded,
    options::STEP_LIMIT,
    parts,
    pipeline::{ahead, fire, from_store},
};
use punctual_contract::{
    Error, Happened,
    hot::HotEntry,
    ownership::Tenure,
    store::{Applied, Change, Step},
};
use punctual_domain::{place::Partition, state::State};
use std::sync::Arc;

/// With so many in the table that have not fired, the rest stays where it is, the oldest first: the engine is behind anyway.
const WAITING_MAX: usize = 500_000;
/// Entries in one call, of all partitions together: more would keep the hot set busy for so long that it seems silent.
const DRAINED_MAX: usize = 10_000;
/// Of one partition, at least.
const DRAINED_MIN: usize = 50;
/// What is drained so long after its instant is rare.
const LATE_MS: i64 = 10_000;

/// Drains what has come within the look-ahead. Entries drained.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    from_store::with_hot_set(core, drain(core, core.holdings.tenures())).await
}

/// The same in some partitions.
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
                        // What is older, and was popped, the look at what is overdue finds.
                        core.filling.gaps.note(tenure.partition, (core.now().plus(-LATE_MS), until));
                    }
                    result = Err(error);
                }
            }
        }
        drained += found.len();
        let elsewhere = take_in(core, found).await.elsewhere;
        if !elsewhere.is_empty() {
            // Given up meanwhile: its next owner drains these, or finds them in the store.
            result = result.and(core.hot.load(elsewhere).await.map(drop));
        }
        tenures = again;
    }
    result.map(|()| drained)
}

/// What became of entries that were to come into the table.
#[derive(Debug, Default)]
pub(crate) struct TakenIn {
    /// How many are new here.
    pub(crate) count: usize,
    /// In partitions that this engine does not work on.
    pub(crate) elsewhere: Vec<HotEntry>,
}

/// Puts entries into the table, and their instants on the wheel. What is overdue fires at once. What is left in the hot set of a
/// queue that is scanned since goes: the store has it. So does what the journal has handed over, of which the table may not know yet.
pub(crate) async fn take_in(core: &Arc<Core>, entries: Vec<HotEntry>) -> TakenIn {
    let (_, entries) = core.split_scanned(entries);
    let entries = without_store::keep_free(core, entries);
    if entries.is_empty() {
        return TakenIn::default();
    }
    let may_lease = |entry: &HotEntry| ahead::may_be_leased(core, entry);
    // A lease in the engine's name says as much as the mark. What is not leased ahead after all is marked as it fires.
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

/// Has the store mark tasks of push queues. No caller waits for it: what fires before its answer continues with the answer.
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

/// Asks the store for the mark: who has it, and who is not to fire. What is found marked already, with the same
/// fence, was marked by a call whose answer was lost, or by a dead owner: it is taken over. Who has it says so of its state.
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

/// In bounded steps: what was held back while the store was unavailable may be all that came due meanwhile. A failure in one
/// of them leaves marks of those before it, which are taken over when it is repeated.
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
