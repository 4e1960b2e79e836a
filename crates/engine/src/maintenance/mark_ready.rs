//! Writes to the store which tasks have fired and wait for an executor. A task that is taken immediately
//! never needs it, so the write follows later, in batches. Only displays depend on it, so a slow store is
//! asked for fewer.

pub(crate) mod state;

use crate::{core::Core, options::STEP_LIMIT, parts, pipeline::ahead};
use hashbrown::{HashMap, HashSet};
use punctual_contract::{
    Error,
    hot::HotEntry,
    store::{Change, Step},
};
use punctual_domain::{name::QueueKey, place::Partition, state::State, time::Millis};
use state::CHUNK;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// A task is marked after it has waited this long; if busy executors will return for it, after the longer
/// time. A mark that collides with a hand-over of the same task makes that hand-over start again.
pub(crate) const WORTH_MS: i64 = 250;
const WORTH_SOON_GONE_MS: i64 = 2_000;
/// The time after which a fired task that no executor here has leased is shown to other engines.
const FOR_OTHERS_MS: i64 = 100;
/// The store is busy with urgent work: a unit of work that takes this long is the last of its run.
const SLOW: Duration = Duration::from_millis(20);

/// Returns the number of tasks examined.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    parts::each(core, "mark_ready", parts::PATIENCE, move |core, part| run_in(core, part, now)).await
}

async fn run_in(core: Arc<Core>, part: usize, now: Millis) -> Result<usize, Error> {
    let core = &*core;
    let before = now.plus(-WORTH_MS);
    let now = core.now();
    let here: Vec<bool> =
        (0..core.store.partitions()).map(|number| parts::is_in(core, part, Partition(number))).collect();
    let is_here = |entry: &HotEntry| here.get(usize::from(entry.place.partition.0)) == Some(&true);
    let (waiting, soon_gone) = worth_it(core, before, now, core.maintenance.mark_pace.most(), is_here);
    let (mut done, mut result) = (0, Ok(()));
    for chunk in waiting.chunks(CHUNK).chain(soon_gone.chunks(CHUNK)) {
        let began = Instant::now();
        match mark(core, chunk, now).await {
            Ok(()) => {
                done += chunk.len();
                core.live.lock().persisted(chunk);
            }
            // One that is refused again and again keeps no other from its mark.
            Err(error) => result = Err(error),
        }
        let is_slow = began.elapsed() > SLOW;
        core.maintenance.mark_pace.learn(is_slow);
        if is_slow {
            break;
        }
    }
    result.map(|()| done)
}

/// While the hot set carries no signals, other engines learn only from the store what has fired. Marks the
/// tasks in this engine's lines that its own executors have not taken. Returns the number of tasks examined.
pub(crate) async fn for_others(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    if !core.holdings.has_others() {
        return Ok(0);
    }
    parts::each(core, "mark_for_others", parts::PATIENCE, move |core, part| mark_served(core, part, now))
        .await
}

async fn mark_served(core: Arc<Core>, part: usize, now: Millis) -> Result<usize, Error> {
    let before = now.plus(-FOR_OTHERS_MS);
    let served: Vec<HotEntry> = {
        let table = core.live.lock();
        let is_one =
            |entry: &&HotEntry| parts::is_in(&core, part, entry.place.partition) && table.serves(entry);
        table.unpersisted_until(before).filter(is_one).take(STEP_LIMIT * 10).cloned().collect()
    };
    for chunk in served.chunks(CHUNK) {
        mark(&core, chunk, now).await?;
        core.live.lock().persisted(chunk);
    }
    Ok(served.len())
}

/// Selects tasks that wait without any executor, and those that wait for busy ones. Of the latter at most one
/// unit of work, because they are handed over next.
fn worth_it(
    core: &Core,
    before: Millis,
    now: Millis,
    soon_gone_most: usize,
    is_here: impl Fn(&HotEntry) -> bool,
) -> (Vec<HotEntry>, Vec<HotEntry>) {
    let queues = {
        let table = core.live.lock();
        let (mut queues, mut last) = (HashSet::new(), None);
        for entry in table.unpersisted_until(before) {
            // Most of a crowd are of one queue.
            if !last.is_some_and(|last| Arc::ptr_eq(last, &entry.queue)) {
                queues.get_or_insert_with(&entry.queue, Arc::clone);
                last = Some(&entry.queue);
            }
        }
        queues
    };
    // Asked without holding the table's lock: the locks of the waiters are taken before the table's.
    let is_worked_on = |queue: Arc<QueueKey>| {
        let is_worked_on = ahead::is_worked_on(core, &queue, now);
        (queue, is_worked_on)
    };
    let worked_on: HashMap<Arc<QueueKey>, bool> = queues.into_iter().map(is_worked_on).collect();
    let (mut waiting, mut soon_gone) = (Vec::new(), Vec::new());
    let (waiting_most, worth_soon_gone) = (STEP_LIMIT * 10, now.plus(-WORTH_SOON_GONE_MS));
    let mut last: Option<(Arc<QueueKey>, bool)> = None;
    for entry in core.live.lock().unpersisted_until(before).filter(|entry| is_here(entry)) {
        if waiting.len() >= waiting_most && soon_gone.len() >= soon_gone_most {
            break;
        }
        let known = last.as_ref().filter(|last| Arc::ptr_eq(&last.0, &entry.queue)).map(|last| last.1);
        // Tasks that fired since then are examined in the next run.
        let Some(is_worked_on) = known.or_else(|| worked_on.get(&entry.queue).copied()) else { continue };
        if known.is_none() {
            last = Some((Arc::clone(&entry.queue), is_worked_on));
        }
        let (to, most) =
            if is_worked_on { (&mut soon_gone, soon_gone_most) } else { (&mut waiting, waiting_most) };
        let is_worth_it = !is_worked_on || entry.fired_at <= worth_soon_gone;
        if is_worth_it && to.len() < most {
            to.push(entry.clone());
        }
    }
    (waiting, soon_gone)
}

/// Marks tasks as ready. A task is either moved here, or was handed over meanwhile: the store knows of it either way.
/// A task that was to be preleased was not marked when it was claimed. A task that was ready before, or could not be
/// sent, is already known.
async fn mark(core: &Core, fired: &[HotEntry], now: Millis) -> Result<(), Error> {
    let steps = |mark: &HotEntry| {
        let step = |change| Step {
            place: mark.row(),
            fence: Some(mark.fence),
            change,
            note: core.note(),
            fired_at: None,
            known: None,
        };
        let fire = Change::Fire { fired_at: mark.fired_at };
        match mark.state {
            State::Dispatching => vec![step(fire)],
            State::Scheduled | State::Retrying => vec![step(Change::Claim), step(fire)],
            _ => Vec::new(),
        }
    };
    let steps: Vec<Step> = fired.iter().flat_map(steps).collect();
    if !steps.is_empty() {
        core.store.apply(steps, now).await?;
    }
    Ok(())
}
