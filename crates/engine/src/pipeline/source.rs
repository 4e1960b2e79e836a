//! Which source tasks come from. While the hot set does not answer, or where there is none, as in an embedded engine, what a
//! partition's owner fires comes from the store (`store_source`).
//!
//! A switch between the two sources needs no hand-over. What both have is refused by the table, by fence, or by the store when its
//! lease is asked for. Away: each partition is read from the oldest task on, and engines look in the store for what others have fired.
//! Back: what passed the hot set by is loaded, and engines pass each other what they have fired. A crash in between leaves the store,
//! which has all of it.

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

/// Sees to it that what is due comes into the table. Tasks fired without the hot set.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    match core.from_store.hot_set_keeps() {
        Keeps::Due => look_at_hot_set(core).await,
        Keeps::Nothing => fire_all(core).await,
    }
}

/// Whether the hot set answers and has what was put into it.
async fn look_at_hot_set(core: &Arc<Core>) -> Result<usize, Error> {
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
            is_back(core, tenures.iter().copied().zip(whole));
            if elsewhere::is_deaf(core) {
                serve_others(core).await?;
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
        // What began when it was away before may have read since then.
        core.from_store.watermarks.begin_anew();
        tracing::warn!(%error, "the hot set is away: firing goes on from the store");
    }
}

/// What it has lost, or what passed it by, is brought to it again. What other engines have fired is served here no more: they pass it.
fn is_back(core: &Core, partitions: impl Iterator<Item = (Tenure, Wholeness)>) {
    let was_away = core.from_store.is_away.swap(false, SeqCst);
    let has_gaps = was_away && core.from_store.has_passed_by.swap(false, SeqCst);
    if was_away {
        tracing::info!("the hot set answers: firing goes on by it");
        *core.from_store.since.lock() = Some(Since::Back(Instant::now()));
        core.filling.preload.notify_one();
        reconcile::is_back(core);
        core.from_store.positions.lock().clear();
        others::serve_no_more(core);
        core.from_store.watermarks.begin_anew();
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
        // The limiter stands beside the hot set.
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
