//! Shares the partitions among the live engines: says that this one is alive, renews what it holds, gives up what
//! should be another's, takes what should be its own and is free. The first two are a service of their own, which waits
//! for nothing but the ownership back end: a partition that takes long to be given up ends no lease of another.
//! Correctness never rests on it: while the ownership back end is unavailable, everybody continues with what they have, and the
//! hot set and the store refuse who is out of date.

use crate::{
    core::Core,
    options::STEP_LIMIT,
    pipeline::{from_store::state::HasHot, hand_over::release::give_back},
    sharing::{
        announce,
        reachability::state::Reached,
        rendezvous::{candidates, preferred},
        self_check::{self, Unhealthy},
        step_aside, terms,
    },
};
use futures_util::{StreamExt as _, stream};
use punctual_contract::{
    Error,
    hot::HotEntry,
    ownership::{Says, Tenure},
    store::{Change, Step},
};
use punctual_domain::place::{Partition, TaskRef};
use std::{sync::Arc, time::Duration};

/// An engine that has not been learned of for this long is dead, and what it held is free: with the period, and the time
/// that taking over needs, this makes the three seconds within which its tasks fire again.
pub(crate) const LEASE: Duration = Duration::from_secs(2);
/// Four tries to renew in one lease.
pub(crate) const PERIOD: Duration = Duration::from_millis(500);
/// And so long for what was claimed there: the next owner takes over what is not handed back.
const HANDED_BACK_WITHIN: Duration = Duration::from_secs(1);
/// Partitions given up side by side.
const AT_ONCE: usize = 8;
/// What is not given back by then, because something that holds it stands still, is free when its lease ends.
const GIVEN_BACK_WITHIN: Duration = Duration::from_secs(2);

/// Both parts, one after the other. Partitions gained.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    stay_alive(core).await?;
    rebalance(core).await
}

/// A heartbeat, and the leases of what is held. Partitions lost: the other part stops working on them.
pub(crate) async fn stay_alive(core: &Arc<Core>) -> Result<usize, Error> {
    if self_check::unhealthy(core).is_some() || step_aside::is_aside(core) {
        // The other part gives up what is held.
        core.sharing.rebalance.notify_one();
        return Ok(0);
    }
    let has_hot = core.from_store.has_hot() == HasHot::Yes;
    let says = Says { has_hot, without: core.sharing.reachability.without() };
    let live = core.shared.ownership.beat(&core.options.name, LEASE, &says).await?;
    core.holdings.hears_of(live);
    let lost = renew(core).await;
    core.sharing.rebalance.notify_one();
    lost
}

/// Moves partitions to whose they should be, as of the last heartbeat. Partitions gained.
pub(crate) async fn rebalance(core: &Arc<Core>) -> Result<usize, Error> {
    let me = core.options.name.as_str();
    if core.holdings.live().is_empty() {
        // Not even of itself: it has given no heartbeat yet, or no other engine will ever take over what it has.
        return Ok(0);
    }
    if let Some(why) = self_check::unhealthy(core) {
        return stand_aside(core, why).await;
    }
    if step_aside::is_due(core).await? {
        return stand_aside(core, Unhealthy::ClockDoubtful).await;
    }
    for partition in core.holdings.take_lost() {
        // The engine that has it now takes over what was claimed: nothing is to be written.
        drop_partition(core, partition).await;
    }
    let lost = terms::raise(core).await?;
    lose(core, lost).await;
    let live = core.holdings.live();
    let candidates: Vec<Vec<String>> = (0..core.store.parts()).map(|part| candidates(&live, part)).collect();
    let part_of = |partition: Partition| core.store.part_of(partition);
    let mine = |partition: Partition| {
        let of_part = candidates.get(part_of(partition)).map_or(&[][..], Vec::as_slice);
        preferred(of_part, partition).is_none_or(|preferred| preferred == me)
    };
    // What counts is what the others have heard: until the next heartbeat that is what was said with the last.
    let said = live.iter().find(|live| live.engine == me);
    let said_hot = said.is_none_or(|live| live.has_hot);
    let is_recorded = match core.from_store.has_hot() {
        HasHot::Yes => said_hot,
        HasHot::Unsettled => false,
        HasHot::No => true,
    };
    let stays = |partition: Partition| {
        let without = said.and_then(|live| live.without.as_ref());
        let said_away = without.is_some_and(|without| without.contains(&part_of(partition)));
        !is_recorded
            || match core.sharing.reachability.of(part_of(partition)) {
                Reached::Yes => said_away,
                Reached::Unsettled => true,
                Reached::No => false,
            }
    };
    let mut others: Vec<Tenure> = core.holdings.tenures();
    others.retain(|tenure| !mine(tenure.partition) && !stays(tenure.partition));
    give_up(core, &others).await;
    let wanted: Vec<Partition> =
        core.holdings.others().into_iter().filter(|partition| mine(*partition)).collect();
    acquire(core, &wanted).await
}

/// Gives up everything, and is not among the live until it is fit again, so that others take it over. Nothing is
/// renewed meanwhile: what cannot be given back ends by itself.
async fn stand_aside(core: &Arc<Core>, why: Unhealthy) -> Result<usize, Error> {
    let held = core.holdings.tenures();
    if held.is_empty() {
        return Ok(0);
    }
    tracing::error!(
        why = why.reason(),
        partitions = held.len(),
        "this engine is unhealthy: its partitions are released"
    );
    // First: the engine that hears that a partition is free must not think that it should be this engine's.
    core.shared.ownership.leave(&core.options.name).await?;
    core.meters.terms_lost(held.len());
    if tokio::time::timeout(GIVEN_BACK_WITHIN, give_up(core, &held)).await.is_err() {
        tracing::warn!("partitions could not be given back in time; their leases end by themselves");
    }
    Ok(0)
}

async fn renew(core: &Arc<Core>) -> Result<usize, Error> {
    let held = core.holdings.tenures();
    if held.is_empty() {
        return Ok(0);
    }
    let renewed = core.shared.ownership.renew(&core.options.name, &held, LEASE).await?;
    let lost = held.iter().zip(renewed).filter(|(_, flag)| !flag).map(|pair| pair.0);
    // What was given up meanwhile is not lost.
    let lost = lost.filter(|tenure| core.holdings.is_lost(**tenure)).count();
    if lost > 0 {
        tracing::warn!(partitions = lost, "partitions were lost to other engines, or their lease ended");
        core.meters.terms_lost(lost);
    }
    Ok(lost)
}

/// They were never given back: the engine that has them now takes over what was claimed, and nothing is to be written.
async fn lose(core: &Arc<Core>, lost: Vec<Tenure>) {
    core.meters.terms_lost(lost.len());
    for tenure in lost {
        tracing::warn!(partition = tenure.partition.0, "a partition was lost to another engine");
        drop_partition(core, tenure.partition).await;
    }
}

async fn acquire(core: &Core, wanted: &[Partition]) -> Result<usize, Error> {
    if wanted.is_empty() {
        return Ok(0);
    }
    let tenures = core.shared.ownership.acquire(&core.options.name, wanted, LEASE).await?;
    let gained: Vec<Tenure> = tenures.into_iter().flatten().collect();
    for tenure in &gained {
        // First: what is read by the new term is not refused.
        core.live.lock().open(tenure.partition);
        core.holdings.gain(*tenure);
    }
    if !gained.is_empty() {
        core.meters.terms_gained(gained.len());
        core.filling.look_through.notify_one();
    }
    Ok(gained.len())
}

/// Stops working on a partition. Answers what was claimed there and has not fired.
async fn drop_partition(core: &Arc<Core>, partition: Partition) -> Vec<(TaskRef, i64)> {
    core.holdings.lose(partition);
    let closed = core.live.lock().close(partition);
    core.live.lock().hold_back(&closed.fired);
    // What waits here for executors its next owner finds in the store.
    let is_there = |entry: &HotEntry| entry.place.partition == partition;
    drop(core.live.lock().serve_no_more(|queue| !core.settings.is_scanned(queue), is_there));
    give_back(core, closed.leased, "handed_back").await;
    closed.claimed
}

/// Gives partitions up, each as soon as it is handed back: until another has it, no engine fires there.
async fn give_up(core: &Arc<Core>, held: &[Tenure]) {
    stream::iter(held).for_each_concurrent(AT_ONCE, |tenure| give_up_one(core, *tenure)).await;
}

/// Hands back what was claimed and has not fired, then ends the lease, then says so. Whatever of it fails, the lease
/// ends by itself, and the next owner takes the claims over.
async fn give_up_one(core: &Arc<Core>, held: Tenure) {
    hand_back(core, held.partition).await;
    if let Err(error) = core.shared.ownership.release(&core.options.name, &[held]).await {
        tracing::warn!(%error, "a partition was not released; its lease ends by itself");
    }
    core.sharing.announcer.due(held.partition, announce::GIVEN_UP);
}

/// Stops working on a partition. What was claimed there and has not fired waits again, as if no engine had claimed it.
async fn hand_back(core: &Arc<Core>, partition: Partition) {
    let claimed = drop_partition(core, partition).await;
    let count = claimed.len();
    let written = tokio::time::timeout(HANDED_BACK_WITHIN, write_back(core, partition, claimed)).await;
    let late = |_| Err(Error::may_have_happened("hand claims back", "no answer"));
    if let Err(error) = written.unwrap_or_else(late) {
        tracing::warn!(%error, tasks = count, "claims could not be handed back; the next owner takes them over");
    }
}

async fn write_back(core: &Core, partition: Partition, claimed: Vec<(TaskRef, i64)>) -> Result<(), Error> {
    if core.sharing.reachability.of(core.store.part_of(partition)) != Reached::Yes {
        // Nothing can be written: the next owner takes them over as they are.
        return Ok(());
    }
    for chunk in claimed.chunks(STEP_LIMIT) {
        let step = |pair: &(TaskRef, i64)| Step {
            place: pair.0,
            fence: Some(pair.1),
            change: Change::HandBack,
            note: core.note(),
            fired_at: None,
            known: None,
        };
        core.store.apply(chunk.iter().map(step).collect(), core.now()).await?;
    }
    Ok(())
}

/// The engine stops: everything is free at once, and the others know it.
pub(crate) async fn leave(core: &Arc<Core>) {
    // First: the engine that hears that a partition is free must not think that it should be this engine's.
    if let Err(error) = core.shared.ownership.leave(&core.options.name).await {
        tracing::warn!(%error, "the others find out by themselves that this engine is gone");
    }
    give_up(core, &core.holdings.tenures()).await;
    if let Err(error) = announce::run_once(core).await {
        tracing::debug!(%error, "others find the last of it at their next look");
    }
}
