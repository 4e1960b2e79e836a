//! Firing without the hot set: while it does not answer, has no room for what is overdue, or where there is none, the
//! partition's owner fires from the store, and executors are served from the live table of the engine that they ask: with what
//! that engine has fired, and with what other engines have fired and not handed over (`others`). Late by the period at most.
//!
//! The store decides here what the hot set decides otherwise: `ready` is written before anyone can have the task, so
//! that a cancel which comes after is told that it has fired, and one which came before has won. What is served holds
//! nothing that matters: it is dropped when the hot set is back, and the store says what is still to be handed over.
//! What the hot set holds of the same tasks is refused by fence and state.
//!
//! Queues that are scanned go this way whether or not the hot set answers, at a cadence of their own (`scan`): here they are only
//! served.

pub(crate) mod others;
pub(crate) mod scanned;
mod serve;
pub(crate) mod state;

use crate::{
    core::Core,
    parts,
    pipeline::{
        fire, ready_set,
        request::{LeaseRequest, may_run},
    },
    sharing::terms,
};
use hashbrown::{HashMap, HashSet};
use punctual_contract::{
    Error,
    hot::{Admission, HotEntry, Lane, Wholeness},
    ownership::Tenure,
    store::{Applied, Change, Step},
};
use punctual_domain::{name::QueueKey, place::Partition, settings::Retries, state::State, time::Millis};
use scanned::{PAGES, Scanned, became_due_lately, next_page};
pub(crate) use serve::{serve, serve_ready};
use state::Since;
use std::{
    future::pending,
    pin::pin,
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};
use tokio::time::{Instant, sleep, timeout};

/// Between two looks at the hot set while it answers.
pub(crate) const PERIOD: Duration = Duration::from_millis(500);
/// Between two looks at the store while it does not, or where there is none.
const STORE_PERIOD: Duration = Duration::from_millis(100);
/// A hot set that has not answered by then is away, whatever it is doing.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// Ends when the store is to be looked at again; never while the hot set answers.
pub(crate) async fn store_is_due(core: Arc<Core>) {
    if core.from_store.is_away() {
        sleep(STORE_PERIOD).await;
    } else {
        pending().await
    }
}

/// Looks whether the hot set answers and has what was put into it. Tasks fired without it.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    let tenures = core.holdings.tenures();
    // One connection that broke, or fell silent, is not the hot set: it is asked once more, on another one.
    let twice = async {
        match core.hot.is_whole(&tenures).await {
            Err(_) => core.hot.is_whole(&tenures).await,
            whole => whole,
        }
    };
    let mut asked = pin!(timeout(PATIENCE, twice));
    let mut fired = 0;
    let answer = loop {
        tokio::select! {
            biased;
            answer = &mut asked => break answer,
            // A hot set that is away and hangs keeps nothing from firing. A failure here is met again below.
            () = store_is_due(Arc::clone(core)) => fired += fire_all(core).await.unwrap_or(0),
        }
    };
    let silent = || Error::may_have_happened("look at the hot set", "no answer");
    match answer.unwrap_or_else(|_| Err(silent())) {
        Ok(whole) => {
            let served = is_back(core, tenures.iter().copied().zip(whole));
            if let Err(error) = fire::offer_again(core, served.clone()).await {
                core.live.lock().hold_back(&served);
                return Err(error);
            }
            Ok(fired)
        }
        Err(error) => {
            is_away(core, &error);
            Ok(fired + fire_all(core).await?)
        }
    }
}

/// From the first failure on.
pub(crate) fn is_away(core: &Core, error: &Error) {
    if !core.from_store.is_away.swap(true, SeqCst) {
        *core.from_store.since.lock() = Some(Since::Away(Instant::now()));
        tracing::warn!(%error, "the hot set is away: firing goes on from the store");
    }
}

/// What it has lost, or what passed it by, is brought to it again. Returns what was served from the table, and is to be offered.
fn is_back(core: &Core, partitions: impl Iterator<Item = (Tenure, Wholeness)>) -> Vec<HotEntry> {
    let was_away = core.from_store.is_away.swap(false, SeqCst);
    let has_gaps = was_away && core.from_store.has_passed_by.swap(false, SeqCst);
    let mut served = Vec::new();
    if was_away {
        tracing::info!("the hot set answers: firing goes on by it");
        *core.from_store.since.lock() = Some(Since::Back(Instant::now()));
        core.filling.preload.notify_one();
        served = core.live.lock().end_serving();
        core.from_store.positions.lock().clear();
    }
    let mut lost = 0;
    for (tenure, wholeness) in partitions {
        if let Wholeness::Overtaken(newest) = wholeness {
            terms::overtaken(core, tenure, newest);
        }
        if (has_gaps || wholeness == Wholeness::Lost) && core.holdings.begin_anew(tenure) {
            core.live.lock().open(tenure.partition);
            lost += 1;
        }
    }
    if lost > 0 {
        tracing::warn!(partitions = lost, "the hot set has gaps and is filled again from the store");
        core.meters.rebuilt(lost);
        core.filling.look_through.notify_one();
    }
    served
}

async fn fire_all(core: &Arc<Core>) -> Result<usize, Error> {
    // Fired, and not offered: the store has them, and shows them.
    drop(core.live.lock().take_held_back());
    let fired = parts::each(core, "from_store", parts::PATIENCE, fire_part).await;
    serve_others(core).await.and(fired)
}

async fn fire_part(core: Arc<Core>, part: usize) -> Result<usize, Error> {
    let (mut fired, mut scanned, mut result) = (0, Scanned::default(), Ok(()));
    for partition in parts::owned(&core, part) {
        match fire_partition(&core, partition, &mut scanned).await {
            Ok(count) => fired += count,
            Err(error) => result = Err(error),
        }
    }
    scanned.forget_what_is_gone(&core);
    result.map(|()| fired)
}

/// How many of other engines' tasks are served now that were not.
async fn serve_others(core: &Arc<Core>) -> Result<usize, Error> {
    let Some((wanted, others)) = others::wanted(core) else { return Ok(0) };
    let (wanted, others) = (Arc::new(wanted), Arc::new(others));
    parts::each(core, "from_others", parts::PATIENCE, move |core, part| {
        serve_part(core, part, Arc::clone(&others), Arc::clone(&wanted))
    })
    .await
}

async fn serve_part(
    core: Arc<Core>,
    part: usize,
    others: Arc<HashSet<Partition>>,
    wanted: Arc<others::Wanted>,
) -> Result<usize, Error> {
    let (mut served, mut scanned, mut result) = (0, Scanned::default(), Ok(()));
    for partition in others.iter().filter(|partition| parts::is_in(&core, part, **partition)) {
        match others::serve_partition(&core, &core.from_store.positions, *partition, &wanted, &mut scanned)
            .await
        {
            Ok(count) => served += count,
            Err(error) => result = Err(error),
        }
    }
    scanned.forget_what_is_gone(&core);
    result.map(|()| served)
}

async fn fire_partition(
    core: &Arc<Core>,
    partition: Partition,
    scanned: &mut Scanned,
) -> Result<usize, Error> {
    let mut fired = 0;
    for _ in 0..PAGES {
        let (page, is_last) = next_page(core, &core.from_store.positions, partition, scanned).await?;
        fired += fire(core, page).await?;
        if is_last {
            return Ok(fired);
        }
    }
    // The pass goes on in the next run.
    Ok(fired + fire(core, became_due_lately(core, partition).await?).await?)
}

/// Fires what is due of what a pass has found. Tasks fired. Those of queues that are scanned fire by `scan`.
async fn fire(core: &Arc<Core>, found: Vec<HotEntry>) -> Result<usize, Error> {
    let (_, found) = core.split_scanned(found);
    let won = win(core, found).await?;
    if !won.is_empty() {
        core.from_store.passes_by();
    }
    Ok(hold(core, &won, usize::MAX))
}

/// Has the store move what is due to `ready`, in one transaction: those that it has there now, each with whether this call has
/// moved it.
pub(crate) async fn win(core: &Arc<Core>, found: Vec<HotEntry>) -> Result<Vec<(HotEntry, bool)>, Error> {
    let now = core.now();
    let mut due = core.maintenance.unsent.sort_out(found, now);
    {
        let table = core.live.lock();
        due.retain(|entry| entry.due_at <= now && table.is_left_to_store(entry));
    }
    if due.is_empty() {
        return Ok(Vec::new());
    }
    let plans: Vec<Vec<Step>> = due.iter().map(|it| steps(core, it, now)).collect();
    let steps: Vec<Step> = plans.iter().flatten().cloned().collect();
    let mut applied =
        if steps.is_empty() { Vec::new() } else { core.store.apply(steps, now).await? }.into_iter();
    let mut won = Vec::new();
    for (entry, plan) in due.into_iter().zip(plans) {
        // It is fired by the last of its steps.
        let last = applied.by_ref().take(plan.len()).last();
        if plan.is_empty() || last.is_some_and(|last| last == Applied::Moved) {
            let fired_at = if plan.is_empty() { entry.fired_at } else { now };
            won.push((HotEntry { fired_at, state: State::Ready, ..entry }, !plan.is_empty()));
        }
    }
    Ok(won)
}

/// What the store has to be told so that the task is `ready` there.
fn steps(core: &Core, entry: &HotEntry, now: Millis) -> Vec<Step> {
    let step = |change: Change| Step {
        place: entry.row(),
        fence: Some(entry.fence),
        change,
        note: core.note(),
        fired_at: None,
        known: None,
    };
    let fire = Change::Fire { fired_at: now };
    match entry.state {
        State::Ready => Vec::new(),
        State::Dispatching => vec![step(fire)],
        _ => vec![step(Change::Claim), step(fire)],
    }
}

/// Puts what the store has as ready now where executors are served from, the first `most`; the store says again what the others
/// are. Answers how many have fired only now, which each of them says.
pub(crate) fn hold(core: &Core, won: &[(HotEntry, bool)], most: usize) -> usize {
    let mut queues: HashMap<Arc<QueueKey>, (usize, Vec<i64>)> = HashMap::new();
    for (it, is_new) in won {
        let has_fired = {
            let mut table = core.live.lock();
            // It has fired here, and was counted, before.
            let has_fired = table.unpersisted_at(it.place.id, it.fence).is_some();
            table.persisted_until(it.place.id, it.fence);
            has_fired
        };
        let (count, lateness_ms) = queues.entry(Arc::clone(&it.queue)).or_default();
        *count += 1;
        lateness_ms.extend((*is_new && !has_fired).then(|| it.fired_at.since(it.due_at)));
    }
    let fired = won.iter().filter(|(_, is_new)| *is_new).count();
    serve(core, &won.iter().take(most).map(|(entry, _)| entry.clone()).collect::<Vec<_>>());
    core.meters.fired_from_store(fired);
    for (queue, (count, lateness_ms)) in queues {
        core.meters.queue(&queue).fired(&lateness_ms);
        core.arrived(&queue, count);
    }
    fired
}

/// What is ready in a queue, wherever it is; and whether that is all that is in its ready set. `is_open`: of what is served from
/// the store, what is not to be passed over.
pub(crate) async fn admit(
    core: &Core,
    request: &LeaseRequest,
    admission: Admission,
    is_open: impl Fn(&HotEntry) -> bool,
) -> Result<(Vec<HotEntry>, bool), Error> {
    let may_go = |entry: &HotEntry| may_run(entry, request) && is_open(entry);
    let mut admitted = core.live.lock().take_served(&request.queue, admission, may_go);
    let limit = admission.limit - admitted.len();
    if limit == 0 || core.fires_from_store(&request.queue) {
        return Ok((admitted, false));
    }
    let asked = core.hot.admit(&request.queue, Admission { limit, ..admission }).await;
    match asked.inspect_err(|error| core.filling.gaps.admission(error, &request.queue, core.store.parts())) {
        Ok(more) => {
            let is_end = more.len() < limit;
            admitted.extend(more);
            Ok((admitted, is_end))
        }
        Err(error) if admitted.is_empty() => Err(error),
        Err(_) => Ok((admitted, false)),
    }
}

/// These were admitted, and could not be handed over.
pub(crate) async fn offer(core: &Core, entries: Vec<HotEntry>) -> Result<(), Error> {
    let (served, entries) = core.split_by_source(entries);
    serve(core, &served);
    if entries.is_empty() {
        return Ok(());
    }
    ready_set::offer(core, entries).await.map(drop)
}

/// Out of the order, into their lane: true. Without the hot set there are no lanes: they stay where they are served from. All are
/// of one queue.
pub(crate) async fn park(
    core: &Core,
    lane: &Lane,
    entries: Vec<HotEntry>,
    retries: Retries,
) -> Result<bool, Error> {
    if entries.first().is_some_and(|entry| core.fires_from_store(&entry.queue)) {
        serve(core, &entries);
        return Ok(false);
    }
    core.hot.park(lane, entries, retries).await.map(|()| true)
}
