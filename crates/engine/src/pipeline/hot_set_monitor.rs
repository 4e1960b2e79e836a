//! Chooses the source of tasks. While the hot set does not answer, or if there is none, as in an embedded
//! engine, a partition's owner reads due tasks from the store (`store_drain`).
//!
//! A switch between the two sources needs no hand-over. A task that arrives from both is accepted once: the
//! table refuses the second copy by its fence, or the store refuses the second lease. When the hot set
//! becomes unavailable, each partition is read from its oldest task on, and engines read from the store what
//! others have fired. When it is available again, the tasks that it missed are loaded, and engines pass fired
//! tasks to each other. A crash in between loses nothing, because the store has everything.
//!
//! *When the hot set is considered unavailable.* It is checked twice a second, and immediately when a call
//! failed or had no answer within 100 ms (`store_fallback::availability`). It is unavailable when a check
//! fails on two connections, or has no answer after 0.5 s in which this engine ran. That check continues, and
//! a good answer ends the outage. A hot set that answers each check within 0.5 s is never unavailable. A
//! false alarm costs one read of the store, ten seconds ahead, and a reload of meanwhile inserted tasks. It
//! loses nothing and fires nothing twice: the store decides each lease.
//!
//! *Other engines.* An engine without the hot set reports that in its heartbeats, and cannot announce anything. Until
//! it has the hot set again, the others read from the store what it has fired and not handed over, and what it has
//! inserted into their partitions. They also do so when signals are lost unnoticed (`remote_tasks::is_deaf`).

use crate::{
    core::Core,
    maintenance::{mark_ready, reconcile},
    parts,
    pipeline::{
        fire, remote_tasks, store_drain,
        store_fallback::{others, scanned::Scanned, state::Since},
    },
    sharing::terms,
};
use hashbrown::HashSet;
use punctual_contract::{
    Error,
    hot::{Keeps, Wholeness},
    ownership::Tenure,
};
use punctual_domain::place::Partition;
use std::{pin::pin, sync::Arc, time::Duration};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};

/// The interval between two checks of the hot set while it answers.
pub(crate) const PERIOD: Duration = Duration::from_millis(500);
/// The pause between two reads of the store while the hot set does not answer, or if there is none.
const STORE_PERIOD: Duration = Duration::from_millis(100);
/// A hot set that has not answered a check within this many store periods is unavailable, whatever it is
/// doing: 0.5 s. The time counts in steps in which this engine ran, so a pause of the engine proves nothing.
/// A silent connection is replaced earlier (by `punctual-hot`, after 0.25 s).
const PATIENCE_STEPS: u32 = 5;
/// A check has ended by then, or the next one begins.
const LOOK_LIMIT: Duration = Duration::from_millis(1_500);

/// Ends when the hot set or the store must be checked before the period is over.
pub(crate) async fn is_asked(core: Arc<Core>) {
    if is_store_due(&core) || core.holdings.some_lack_hot(&core.options.name) {
        sleep(STORE_PERIOD).await;
    } else {
        core.store_fallback.availability.wait_for_doubt().await;
    }
}

/// The store is read each `STORE_PERIOD`.
fn is_store_due(core: &Core) -> bool {
    core.store_fallback.is_away()
}

/// Loads due tasks into the table. Returns how many fired without the hot set.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    match core.store_fallback.hot_set_keeps() {
        Keeps::Due => look_at_hot_set(core).await,
        Keeps::Nothing => fire_all(core).await,
    }
}

/// Checks that the hot set answers and is complete.
async fn look_at_hot_set(core: &Arc<Core>) -> Result<usize, Error> {
    core.store_fallback.availability.check_started();
    let (tenures, hot) = (core.holdings.tenures(), &core.store_fallback.hot);
    // One connection that broke, or fell silent, is not the hot set: it is asked once more, on another one.
    let twice = async {
        match hot.is_whole(&tenures).await {
            Err(_) => hot.is_whole(&tenures).await,
            whole => whole,
        }
    };
    let mut asked = pin!(timeout(LOOK_LIMIT, twice));
    let mut steps = interval_at(Instant::now() + STORE_PERIOD, STORE_PERIOD);
    steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut fired, mut steps_left) = (0, PATIENCE_STEPS);
    let silent = || Error::may_have_happened("look at the hot set", "no answer");
    let answer = loop {
        tokio::select! {
            biased;
            answer = &mut asked => break answer,
            _ = steps.tick() => {
                steps_left = steps_left.saturating_sub(1);
                if steps_left == 0 {
                    mark_unavailable(core, &silent());
                }
                if is_store_due(core) {
                    // A hot set that hangs does not delay firing. A failure here recurs below.
                    fired += fire_all(core).await.unwrap_or(0);
                }
            }
        }
    };
    match answer.unwrap_or_else(|_| Err(silent())) {
        Ok(whole) => {
            mark_available(core, tenures.iter().copied().zip(whole));
            Ok(fired + look_for_others(core).await?)
        }
        Err(error) => {
            mark_unavailable(core, &error);
            Ok(fired + fire_all(core).await?)
        }
    }
}

/// Searches for inserts of engines without the hot set while this one has it, and for tasks fired by engines whose
/// signals are missed.
async fn look_for_others(core: &Arc<Core>) -> Result<usize, Error> {
    let some_lack_hot = core.holdings.some_lack_hot(&core.options.name);
    let inserted = if some_lack_hot { store_drain::look_back_everywhere(core).await } else { Ok(0) };
    if some_lack_hot || remote_tasks::is_deaf(core) {
        serve_others(core).await?;
    }
    inserted
}

/// Marks the hot set as unavailable, from the first failure on.
pub(crate) fn mark_unavailable(core: &Core, error: &Error) {
    if !core.store_fallback.availability.set_unavailable(true) {
        *core.store_fallback.since.lock() = Some(Since::Away(Instant::now()));
        // A read that began during an earlier outage may still be running.
        core.store_fallback.watermarks.begin_anew();
        // The other engines must learn of it.
        core.sharing.look_at_ownership.notify_one();
        tracing::warn!(%error, "the hot set is unavailable: firing continues from the store");
    }
}

/// Reloads what the hot set has lost or missed. Tasks of other engines are dropped from the lines here: their
/// owners pass them.
fn mark_available(core: &Core, partitions: impl Iterator<Item = (Tenure, Wholeness)>) {
    let was_away = core.store_fallback.availability.set_unavailable(false);
    let has_gaps = was_away && core.store_fallback.has_gaps();
    if was_away {
        tracing::info!("the hot set answers: firing continues from it");
        *core.store_fallback.since.lock() = Some(Since::Back(Instant::now()));
        core.filling.preload.notify_one();
        reconcile::look_again(core);
        core.store_fallback.positions.lock().clear();
        others::serve_no_more(core);
        core.store_fallback.watermarks.begin_anew();
    }
    let mut lost = 0;
    for (tenure, wholeness) in partitions {
        if let Wholeness::NewerTerm(newest) = wholeness {
            terms::superseded(core, tenure, newest);
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
        // The limiter is beside the hot set.
        reconcile::report_loss(core);
    }
}

/// Reads ahead, fires and lines up tasks of this engine's partitions; tasks of other engines as far as
/// executors request them. Each step runs even if another failed.
async fn fire_all(core: &Arc<Core>) -> Result<usize, Error> {
    let drained = store_drain::run_once(core).await;
    let fired = fire::fire_all(core).await + fire::fire_again(core);
    let marked = mark_ready::for_others(core, core.now()).await;
    serve_others(core).await.and(marked).and(drained)?;
    Ok(fired)
}

/// Serves tasks of other engines. Returns the number of tasks that were not served before.
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
    let (mut served, mut scanned, mut result) = (0, Scanned::begun(core.now()), Ok(()));
    for partition in others.iter().filter(|partition| parts::is_in(&core, part, **partition)) {
        match others::serve_partition(
            &core,
            &core.store_fallback.positions,
            *partition,
            &wanted,
            &mut scanned,
        )
        .await
        {
            Ok(count) => served += count,
            Err(error) => result = Err(error),
        }
    }
    scanned.forget_what_is_gone(&core);
    result.map(|()| served)
}
