//! Divides the partitions among the live engines: sends this engine's heartbeat, renews its tenures, gives up
//! partitions that another engine should have, and takes free ones that it should have. Heartbeat and renewal
//! are a service of their own that waits only for the ownership back end, so a slow release of one partition
//! ends no lease of another. Correctness never depends on it: while the ownership back end is unavailable,
//! all engines keep their partitions, and the hot set and the store refuse outdated engines.

use crate::{
    core::Core,
    options::STEP_LIMIT,
    pipeline::{hand_over::release::give_back, store_fallback::state::HasHot},
    sharing::{
        announce,
        database_reachability::state::Reached,
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

/// An engine without a heartbeat for this long is dead, and its partitions are free. With the period, and the
/// time of a takeover, its tasks fire again within three seconds.
pub(crate) const LEASE: Duration = Duration::from_secs(2);
/// Four tries to renew in one lease.
pub(crate) const PERIOD: Duration = Duration::from_millis(500);
/// The time that claims have to be returned: the next owner acquires the rest.
const HANDED_BACK_WITHIN: Duration = Duration::from_secs(1);
/// Partitions given up concurrently.
const AT_ONCE: usize = 8;
/// A partition that is not released by then, because something blocks it, is free when its lease ends.
const GIVEN_BACK_WITHIN: Duration = Duration::from_secs(2);

/// Both parts, one after the other. Returns the number of partitions gained.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    stay_alive(core).await?;
    rebalance(core).await
}

/// Sends a heartbeat, and renews the held leases. Returns the number of lost partitions: the other part stops
/// working on them.
pub(crate) async fn stay_alive(core: &Arc<Core>) -> Result<usize, Error> {
    if self_check::unhealthy(core).is_some() || step_aside::is_aside(core) {
        // The other part gives up all partitions.
        core.sharing.rebalance.notify_one();
        return Ok(0);
    }
    let has_hot = core.store_fallback.has_hot() == HasHot::Yes;
    let says = Says { has_hot, without: core.sharing.reachability.without() };
    let live = core.shared.ownership.beat(&core.options.name, LEASE, &says).await?;
    core.holdings.set_live(live);
    let lost = renew(core).await;
    core.sharing.rebalance.notify_one();
    lost
}

/// Moves partitions to the engines that should have them, as of the last heartbeats. Returns the number
/// gained.
pub(crate) async fn rebalance(core: &Arc<Core>) -> Result<usize, Error> {
    let me = core.options.name.as_str();
    if core.holdings.live().is_empty() {
        // Not even this engine is listed. It has sent no heartbeat yet; or no other engine can ever take over
        // its partitions.
        return Ok(0);
    }
    if let Some(why) = self_check::unhealthy(core) {
        return step_down(core, why).await;
    }
    if step_aside::is_due(core).await? {
        return step_down(core, Unhealthy::ClockDoubtful).await;
    }
    for partition in core.holdings.take_lost() {
        // The new owner takes over the claims: nothing is written.
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
    // The other engines decide by this engine's last heartbeat, so its content counts until the next one.
    let said = live.iter().find(|live| live.engine == me);
    let said_hot = said.is_none_or(|live| live.has_hot);
    let is_recorded = match core.store_fallback.has_hot() {
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

/// Gives up everything, and leaves the live engines until this engine is healthy again, so that others take
/// over. Nothing is renewed meanwhile: leases that cannot be released expire.
async fn step_down(core: &Arc<Core>, why: Unhealthy) -> Result<usize, Error> {
    let held = core.holdings.tenures();
    if held.is_empty() {
        return Ok(0);
    }
    tracing::error!(
        why = why.reason(),
        partitions = held.len(),
        "this engine is unhealthy: its partitions are released"
    );
    // First: an engine that learns of a free partition must not consider this engine its next owner.
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
    // Partitions that were given up meanwhile are not lost.
    let lost = lost.filter(|tenure| core.holdings.is_lost(**tenure)).count();
    if lost > 0 {
        tracing::warn!(partitions = lost, "partitions were lost to other engines, or their lease ended");
        core.meters.terms_lost(lost);
    }
    Ok(lost)
}

/// Gives up partitions that were never released: their new owner adopts the claims, and nothing is written.
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
        // First, so that rows read under the new term are not refused.
        core.live.lock().open(tenure.partition);
        core.holdings.gain(*tenure);
    }
    if !gained.is_empty() {
        core.meters.terms_gained(gained.len());
        core.filling.look_through.notify_one();
    }
    Ok(gained.len())
}

/// Stops working on a partition. Returns its unfired claims.
async fn drop_partition(core: &Arc<Core>, partition: Partition) -> Vec<(TaskRef, i64)> {
    core.holdings.lose(partition);
    let closed = core.live.lock().close(partition);
    core.live.lock().hold_back(&closed.fired);
    // The next owner finds the tasks that wait here in the store.
    let is_there = |entry: &HotEntry| entry.place.partition == partition;
    drop(core.live.lock().serve_no_more(|queue| !core.settings.is_scanned(queue), is_there));
    give_back(core, closed.leased, "handed_back").await;
    closed.claimed
}

/// Gives partitions up, each as soon as its claims are returned: until another engine has it, no task fires
/// there.
async fn give_up(core: &Arc<Core>, held: &[Tenure]) {
    stream::iter(held).for_each_concurrent(AT_ONCE, |tenure| give_up_one(core, *tenure)).await;
}

/// Returns unfired claims, then ends the lease, then announces it. If any of it fails, the lease expires, and
/// the next owner takes the claims over.
async fn give_up_one(core: &Arc<Core>, held: Tenure) {
    hand_back(core, held.partition).await;
    if let Err(error) = core.shared.ownership.release(&core.options.name, &[held]).await {
        tracing::warn!(%error, "a partition was not released; its lease ends by itself");
    }
    core.sharing.announcer.due(held.partition, announce::GIVEN_UP);
}

/// Stops working on a partition. Its unfired claims wait again, as if they had not been claimed.
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
        // Nothing can be written: the next owner takes the claims over as they are.
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

/// The engine stops: its partitions are free immediately, and the others know it.
pub(crate) async fn leave(core: &Arc<Core>) {
    // First: an engine that learns of a free partition must not consider this engine its next owner.
    if let Err(error) = core.shared.ownership.leave(&core.options.name).await {
        tracing::warn!(%error, "the others find out by themselves that this engine is gone");
    }
    give_up(core, &core.holdings.tenures()).await;
    if let Err(error) = announce::run_once(core).await {
        tracing::debug!(%error, "others find the last of it at their next look");
    }
}
