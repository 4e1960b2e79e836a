//! Which source tasks come from. While the hot set does not answer, or where there is none, as in an embedded engine, what a
//! partition's owner fires comes from the store (`store_source`).
//!
//! A switch between the two sources needs no hand-over. What both have is refused by the table, by fence, or by the store when its
//! lease is asked for. Away: each partition is read from the oldest task on, and engines look in the store for what others have fired.
//! Back: what passed the hot set by is loaded, and engines pass each other what they have fired. A crash in between leaves the store,
//! which has all of it.
//!
//! *When the hot set is believed to be unavailable.* It is looked at twice a second, and at once when a call failed or had no answer within
//! 100 ms (`from_store::belief`). Where a look fails on two connections, or nothing at all has been answered for 0.5 s of this
//! engine's own time, it is unavailable; the same look continues, and its answer ends that. So a hot set that answers anything within
//! 0.5 s is never away, however slow it is. To believe wrongly costs a read of the store, ten seconds ahead, and that spans of what
//! was inserted meanwhile are loaded again; nothing is lost by it, nor fires twice: the store decides about each lease.
//!
//! *Other engines.* One whom the hot set does not answer says so with its heartbeats, and cannot announce anything. Until it has
//! it again, the others look in the store for what it has fired and not handed over, and for what it has inserted into their
//! partitions. So they do where signals are lost and nobody says so (`elsewhere::is_deaf`).

use crate::{
    core::Core,
    maintenance::{mark_ready, reconcile},
    parts,
    pipeline::{
        elsewhere, fire,
        from_store::{others, scanned::Scanned, state::Since},
        store_source,
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

/// Between two looks at the hot set while it answers.
pub(crate) const PERIOD: Duration = Duration::from_millis(500);
/// Between two looks at the store while it does not, or where there is none.
const STORE_PERIOD: Duration = Duration::from_millis(100);
/// A hot set that has not answered a look within so many store periods is unavailable, whatever it is doing: 0.5 s, counted in steps of time
/// in which this engine ran, so that one that stood still believes nothing. A silent connection is replaced before that (in
/// `punctual-hot`, after 0.25 s).
const PATIENCE_STEPS: u32 = 5;
/// A look has ended by then, or the next one begins.
const LOOK_LIMIT: Duration = Duration::from_millis(1_500);

/// Ends when the hot set or the store is to be looked at ahead of the period.
pub(crate) async fn is_asked(core: Arc<Core>) {
    if is_store_due(&core) || core.holdings.some_lack_hot(&core.options.name) {
        sleep(STORE_PERIOD).await;
    } else {
        core.from_store.belief.is_doubted().await;
    }
}

/// The store is read each `STORE_PERIOD`.
fn is_store_due(core: &Core) -> bool {
    core.from_store.is_away()
}

/// Sees to it that what is due comes into the table. Tasks fired without the hot set.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    match core.from_store.hot_set_keeps() {
        Keeps::Due => look_at_hot_set(core).await,
        Keeps::Nothing => fire_all(core).await,
    }
}

/// Whether the hot set answers and has what was put into it.
async fn look_at_hot_set(core: &Arc<Core>) -> Result<usize, Error> {
    core.from_store.belief.looks();
    let (tenures, hot) = (core.holdings.tenures(), &core.from_store.hot);
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
                    is_away(core, &silent());
                }
                if is_store_due(core) {
                    // A hot set that is unavailable and hangs keeps nothing from firing. A failure here is met again below.
                    fired += fire_all(core).await.unwrap_or(0);
                }
            }
        }
    };
    match answer.unwrap_or_else(|_| Err(silent())) {
        Ok(whole) => {
            is_back(core, tenures.iter().copied().zip(whole));
            Ok(fired + look_for_others(core).await?)
        }
        Err(error) => {
            is_away(core, &error);
            Ok(fired + fire_all(core).await?)
        }
    }
}

/// What engines do whom the hot set does not answer, while it answers this one; and what others have fired that are not learned of.
async fn look_for_others(core: &Arc<Core>) -> Result<usize, Error> {
    let some_lack_hot = core.holdings.some_lack_hot(&core.options.name);
    let inserted = if some_lack_hot { store_source::look_back_everywhere(core).await } else { Ok(0) };
    if some_lack_hot || elsewhere::is_deaf(core) {
        serve_others(core).await?;
    }
    inserted
}

/// From the first failure on.
pub(crate) fn is_away(core: &Core, error: &Error) {
    if !core.from_store.belief.believe(true) {
        *core.from_store.since.lock() = Some(Since::Away(Instant::now()));
        // What began when it was unavailable before may have read since then.
        core.from_store.watermarks.begin_anew();
        // The others are to learn of it.
        core.sharing.look_at_ownership.notify_one();
        tracing::warn!(%error, "the hot set is unavailable: firing continues from the store");
    }
}

/// What it has lost, or what passed it by, is brought to it again. What other engines have fired is served here no more: they pass it.
fn is_back(core: &Core, partitions: impl Iterator<Item = (Tenure, Wholeness)>) {
    let was_away = core.from_store.belief.believe(false);
    let has_gaps = was_away && core.from_store.has_gaps();
    if was_away {
        tracing::info!("the hot set answers: firing continues from it");
        *core.from_store.since.lock() = Some(Since::Back(Instant::now()));
        core.filling.preload.notify_one();
        reconcile::is_back(core);
        core.from_store.positions.lock().clear();
        others::serve_no_more(core);
        core.from_store.watermarks.begin_anew();
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
        reconcile::is_seen_lost(core);
    }
}

/// What this engine owns is read ahead, fires and is served here; what others own is served here as far as it is asked for. None of
/// it is left out because another failed.
async fn fire_all(core: &Arc<Core>) -> Result<usize, Error> {
    let drained = store_source::run_once(core).await;
    let fired = fire::fire_all(core).await + fire::fire_again(core);
    let marked = mark_ready::for_others(core, core.now()).await;
    serve_others(core).await.and(marked).and(drained)?;
    Ok(fired)
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
    let (mut served, mut scanned, mut result) = (0, Scanned::begun(core.now()), Ok(()));
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
