//! Step 3, claim: reads the slice that is due within the look-ahead, marks it `dispatching` in the store where its lease
//! will not follow at once, and puts it on the wheel. Moves nothing in the hot set: if this engine dies, the next one
//! reads the same entries. What the store did not let it mark was cancelled, changed or handled already, and is dropped
//! from the hot set.

use crate::{
    core::Core,
    live::Loaded,
    options::STEP_LIMIT,
    parts,
    pipeline::{ahead, fire},
};
use hashbrown::HashSet;
use punctual_contract::{
    Error,
    hot::HotEntry,
    store::{Applied, Change, Step},
};
use punctual_domain::{
    place::{Partition, TaskRef},
    state::State,
    time::Millis,
};
use std::sync::Arc;

/// What is on the wheel and was not taken this long after its instant is not in the hot set any more. Should it be
/// there after all, it fires all the same: what was not claimed is claimed late.
const FORGET_AFTER_MS: i64 = 10_000;

/// Claims what has come within the look-ahead. Entries claimed.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    let until = now.plus(core.options.lookahead_ms);
    let owned: Vec<Partition> = core.owned().collect();
    let slices = {
        let mut table = core.live.lock();
        let slice = |partition| (partition, Some((table.reach(partition, until), i64::MAX)));
        owned.into_iter().map(slice).collect()
    };
    claim_slices(core, slices, until).await
}

/// Claims what is due at or after `from` and within the look-ahead, although it may have been passed by.
pub(crate) async fn claim_from(core: &Arc<Core>, partition: Partition, from: Millis) -> Result<usize, Error> {
    let until = core.now().plus(core.options.lookahead_ms);
    let reached = core.live.lock().reach(partition, until);
    claim_slices(core, vec![(partition, Some((from.min(reached), i64::MIN)))], until).await
}

/// Looks at the whole slice again, from its beginning: what a lost wake-up or a failed claim left behind. Forgets what
/// is not there any more.
pub(crate) async fn run_again(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    let until = now.plus(core.options.lookahead_ms);
    core.live.lock().forget_old_attempts(now);
    let fired = core.live.lock().forget_old(now.plus(-FORGET_AFTER_MS));
    core.live.lock().hold_back(&fired);
    let slices = core.owned().map(|partition| (partition, None)).collect();
    claim_slices(core, slices, until).await
}

/// Of what is claimed in a partition, what has not fired.
pub(crate) async fn not_fired(
    core: &Core,
    partition: Partition,
    mut claimed: Vec<(TaskRef, i64)>,
) -> Result<Vec<(TaskRef, i64)>, Error> {
    let Some(until) = claimed.iter().map(|it| it.0.due_at).max() else { return Ok(claimed) };
    let (mut due, mut after) = (HashSet::new(), None);
    loop {
        let page = core.hot.peek(partition, after, until, STEP_LIMIT).await?;
        due.extend(page.iter().map(|it| (it.place.id, it.fence)));
        after = page.last().map(HotEntry::key);
        if page.len() < STEP_LIMIT {
            break;
        }
    }
    claimed.retain(|(place, fence)| due.contains(&(place.id, *fence)));
    Ok(claimed)
}

/// Where a slice begins: after this entry.
type After = Option<(Millis, i64)>;

/// What is found in several partitions is marked together: a transaction for each of them would cost more than the
/// marks. What was found before a partition could not be read is claimed all the same.
async fn claim_slices(
    core: &Arc<Core>,
    slices: Vec<(Partition, After)>,
    until: Millis,
) -> Result<usize, Error> {
    let (mut claimed, mut found, mut result) = (0, Vec::new(), Ok(()));
    for (partition, mut after) in slices {
        loop {
            let page = match core.hot.peek(partition, after, until, STEP_LIMIT).await {
                Ok(page) => page,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            };
            let is_last = page.len() < STEP_LIMIT;
            after = page.last().map(HotEntry::key);
            found.extend(page);
            if found.len() >= STEP_LIMIT {
                claimed += claim(core, std::mem::take(&mut found)).await;
            }
            if is_last {
                break;
            }
        }
    }
    claimed += claim(core, found).await;
    result.map(|()| claimed)
}

/// Marks entries in the store and puts them on the wheel. A failure leaves them where they were, and they are
/// looked at again. What executors wait for is not marked: its lease follows, decides the same, and is one write
/// instead of two.
pub(crate) async fn claim(core: &Arc<Core>, entries: Vec<HotEntry>) -> usize {
    let Loaded { accepted, put_back, stale } = core.live.lock().load(entries);
    stale.into_iter().for_each(|key| core.timer.cancel(key));
    let (mut unmarked, entries) = ahead::split(core, accepted);
    // Their leases are on the way: the store would refuse the mark.
    unmarked.extend(put_back);
    let mut claimed = put_on_wheel(core, unmarked).await;
    if core.store.parts() == 1 {
        return claimed + mark_and_put(core, entries).await;
    }
    // Nobody waits for a part that is silent: what fires before its claim is answered waits for that.
    for (_, some) in parts::split(core, entries, |it| it.place.partition) {
        claimed += some.len();
        let its = Arc::clone(core);
        core.work.detach_claim(async move {
            mark_and_put(&its, some).await;
        });
    }
    claimed
}

async fn mark_and_put(core: &Arc<Core>, mut entries: Vec<HotEntry>) -> usize {
    if entries.is_empty() {
        return 0;
    }
    entries.sort_by_key(|it| it.place.partition);
    let mut parts = entries.chunk_by(|a, b| a.place.partition == b.place.partition);
    match mark(core, &entries).await {
        Ok(marked) => settle_marks(core, marked).await,
        // One partition that is between two databases must not keep the others' tasks from being claimed.
        Err(_) if parts.clone().nth(1).is_some() => {
            let mut claimed = 0;
            for part in parts.by_ref() {
                claimed += claim_reserved(core, part).await;
            }
            claimed
        }
        Err(error) => not_claimed(core, &entries, &error),
    }
}

async fn claim_reserved(core: &Arc<Core>, entries: &[HotEntry]) -> usize {
    match mark(core, entries).await {
        Ok(marked) => settle_marks(core, marked).await,
        Err(error) => not_claimed(core, entries, &error),
    }
}

async fn settle_marks(core: &Arc<Core>, (won, lost): (Vec<HotEntry>, Vec<HotEntry>)) -> usize {
    drop_lost(core, lost.into_iter()).await;
    put_on_wheel(core, won).await
}

fn not_claimed(core: &Core, entries: &[HotEntry], error: &Error) -> usize {
    tracing::warn!(%error, tasks = entries.len(), "claim failed; it will be repeated");
    let fired = core.live.lock().not_claimed(entries);
    core.live.lock().hold_back(&fired);
    0
}

/// Asks the store for the mark: who has it, and who is not to fire. What is found marked already, with the same
/// fence, was marked by a claim whose answer was lost, or by a dead owner: it is taken over. Who has it says so of its state.
pub(crate) async fn mark(core: &Core, entries: &[HotEntry]) -> Result<(Vec<HotEntry>, Vec<HotEntry>), Error> {
    let (mut won, refused) = ask(core, entries.to_vec(), claim_of).await?;
    // What was ready before, or could not be sent, has fired before, and is told apart by it.
    let is_new = |entry: &&mut HotEntry| matches!(entry.state, State::Scheduled | State::Retrying);
    won.iter_mut().filter(is_new).for_each(|entry| entry.state = State::Dispatching);
    if refused.is_empty() {
        return Ok((won, refused));
    }
    let (taken_over, lost) = ask(core, refused, |_| Change::Reclaim).await?;
    won.extend(taken_over);
    Ok((won, lost))
}

/// In bounded steps: what was held back while the store was away may be all that came due meanwhile. A failure in one
/// of them leaves marks of those before it, which are taken over when it is repeated.
async fn ask(
    core: &Core,
    entries: Vec<HotEntry>,
    change: impl Fn(&HotEntry) -> Change,
) -> Result<(Vec<HotEntry>, Vec<HotEntry>), Error> {
    let step = |it: &HotEntry| Step {
        place: it.row(),
        fence: Some(it.fence),
        change: change(it),
        note: core.note(),
        fired_at: None,
        known: None,
    };
    let mut applied = Vec::with_capacity(entries.len());
    for chunk in entries.chunks(STEP_LIMIT) {
        applied.extend(core.store.apply(chunk.iter().map(step).collect(), core.now()).await?);
    }
    let mut applied = applied.into_iter();
    Ok(entries.into_iter().partition(|_| applied.next().is_some_and(|it| it == Applied::Moved)))
}

fn claim_of(entry: &HotEntry) -> Change {
    match entry.state {
        State::Dispatching | State::Ready | State::DispatchFailed => Change::Reclaim,
        _ => Change::Claim,
    }
}

/// The store says that these are not to fire.
pub(crate) async fn drop_lost(core: &Core, entries: impl Iterator<Item = HotEntry>) {
    let lost: Vec<_> = entries.map(|it| (it.place.partition, it.place.id, it.fence)).collect();
    {
        let mut table = core.live.lock();
        for (_, id, fence) in &lost {
            table.forget(*id, *fence);
        }
    }
    if let Err(error) = core.hot.settle(&lost).await {
        tracing::warn!(%error, "stale entries stay in the hot set; the store will refuse them again");
    }
}

/// Answers how many are on the wheel. Those whose instant came before the store's answer are offered at once.
async fn put_on_wheel(core: &Arc<Core>, entries: Vec<HotEntry>) -> usize {
    let keys = core.timer.insert(entries.iter().map(|entry| (entry.due_at, entry.place.partition)));
    let confirmed = {
        let mut table = core.live.lock();
        table.confirm(entries.into_iter().zip(keys), |entry| ahead::may_be_leased(core, entry))
    };
    confirmed.stale.into_iter().for_each(|key| core.timer.cancel(key));
    if confirmed.has_first_candidate {
        core.ahead.something.notify_one();
    }
    if let Err(error) = fire::offer(core, confirmed.fired).await {
        tracing::warn!(%error, "fired tasks could not be offered; it will be repeated");
    }
    confirmed.count
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use punctual_domain::{
        name::{Name, QueueKey},
        task::Priority,
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
