//! The service: reports this engine's demands, reads those of the others, counts the slots that are held, and
//! divides. Reads the hot set and the limiter; failures are retried in the next run, and outdated shares do not
//! count.

use super::{
    memory::Memory,
    pool::{Pool, ShareDemand},
    state::{Divided, QUEUES_MAX},
};
use crate::{core::Core, settings::LoadedSettings};
use hashbrown::{HashMap, HashSet};
use punctual_contract::{Error, limiter::Demand};
use punctual_domain::{
    limits::Scope,
    name::{Name, QueueKey},
    settings::Rate,
    time::Millis,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tokio::time::Instant;

/// The interval of the search of members for queues that no engine reports, as after a restart; and the number of
/// members.
const SEARCH_EVERY_MS: i64 = 10_000;
const SEARCHED_MAX: usize = 1_000;

/// The demand of one queue before it is divided.
#[derive(Debug, Default)]
struct QueueDemand {
    is_reported_on: bool,
    held: u64,
    ready: u64,
    short_of_slots: bool,
    short_of_starts: bool,
    starts_per_ks: u64,
}

/// Reads the demands, and computes the shares. Returns how many namespaces and queues share a limit.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    let known = core.settings.known();
    let is_needed =
        core.settings.is_loaded() && known.has_shared_limits() && !core.store_fallback.hides_limits();
    *core.limits.shares.looked_at.lock() = Some(Instant::now());
    if !is_needed {
        *core.limits.shares.divided.write() = Arc::default();
        return Ok(0);
    }
    let mut memory = core.limits.shares.memory.lock().await;
    let since_ms = memory.begin(now);
    let queues = gather(core, &known, &mut memory, now).await?;
    let divided = divide(core, &known, &mut memory, queues, (since_ms, now));
    let count = divided.namespaces.len();
    let before = std::mem::replace(&mut *core.limits.shares.divided.write(), Arc::new(divided));
    if !before.is_as_good_as(&core.limits.shares.divided.read()) {
        // Some queue may get more than before.
        core.arrivals.wake_each();
    }
    Ok(count)
}

/// All queues that count for a shared limit and hold or recently held slots, or want some.
async fn gather(
    core: &Core,
    known: &LoadedSettings,
    memory: &mut Memory,
    now: Millis,
) -> Result<BTreeMap<QueueKey, QueueDemand>, Error> {
    let seen = core.limits.shares.take_seen(now);
    let demands = core.limits.limiter.demands(&core.options.name, &seen, now).await?;
    let ready = core.live.lock().count_served();
    let mut queues: BTreeMap<QueueKey, QueueDemand> = BTreeMap::new();
    for demand in demands {
        let Demand { queue, short_of_slots, short_of_starts, starts_per_ks } = demand;
        let all = queues.entry(queue).or_default();
        all.is_reported_on = true;
        all.short_of_slots |= short_of_slots;
        all.short_of_starts |= short_of_starts;
        all.starts_per_ks = all.starts_per_ks.saturating_add(starts_per_ks);
    }
    for (queue, line_counts) in ready.into_iter().filter(|(_, line_counts)| line_counts.ready > 0) {
        queues.entry((*queue).clone()).or_default().ready =
            u64::try_from(line_counts.ready).unwrap_or(u64::MAX);
    }
    for queue in memory.queues() {
        queues.entry(queue.clone()).or_default();
    }
    for queue in search(core, memory, now).await? {
        queues.entry(queue).or_default();
    }
    queues.retain(|queue, _| known.shares_limits(&queue.namespace));
    while queues.len() > QUEUES_MAX {
        queues.pop_last();
    }
    let scopes: Vec<Scope> = queues.keys().map(|key| Scope::Queue(key.clone())).collect();
    let held = core.limits.limiter.held(&scopes).await?;
    for (queue, held) in queues.values_mut().zip(held) {
        queue.held = u64::try_from(held).unwrap_or(u64::MAX);
    }
    Ok(queues)
}

async fn search(core: &Core, memory: &mut Memory, now: Millis) -> Result<Vec<QueueKey>, Error> {
    if memory.searched_at.is_some_and(|at| (0..SEARCH_EVERY_MS).contains(&now.since(at))) {
        return Ok(Vec::new());
    }
    let members = core.limits.limiter.members(Millis::MAX, 0, SEARCHED_MAX).await?;
    memory.searched_at = Some(now);
    let queue = |scope: Scope| if let Scope::Queue(queue) = scope { Some(queue) } else { None };
    Ok(members.into_iter().flat_map(|member| member.scopes).filter_map(queue).collect())
}

/// The demand of one queue.
fn wanted(known: &LoadedSettings, queue: &QueueKey, found: &QueueDemand) -> ShareDemand {
    let set = known.queues.get(queue);
    let is_going = known.namespaces.get(&queue.namespace).is_some_and(|set| set.deletion.is_some());
    let may_start = !is_going && set.is_none_or(|set| set.pause.is_none());
    // Tasks without executors create no demand; neither do executors without tasks.
    let waiting = if may_start { found.ready } else { 0 };
    let is_short_of_starts = found.short_of_starts && waiting > 0;
    ShareDemand {
        weight: known.weight_of_queue(queue),
        held: found.held,
        slots: found.held.saturating_add(if found.short_of_slots { waiting } else { 0 }),
        starts_per_ks: (!is_short_of_starts).then_some(found.starts_per_ks),
        slots_most: set.and_then(|set| set.concurrency),
        starts_most: set.and_then(|set| set.rate),
        ..ShareDemand::default()
    }
}

/// The demand of a namespace: all of its queues together.
fn sum(known: &LoadedSettings, namespace: &Name, queues: &[(Name, ShareDemand)]) -> ShareDemand {
    let set = known.namespaces.get(namespace);
    let mut all = ShareDemand {
        weight: known.weight_of_namespace(namespace),
        starts_per_ks: Some(0),
        slots_most: set.and_then(|set| set.concurrency),
        starts_most: set.and_then(|set| set.rate),
        ..ShareDemand::default()
    };
    for (_, queue) in queues {
        let most = queue.slots_most.map_or(u64::MAX, u64::from);
        all.held = all.held.saturating_add(queue.held);
        all.slots = all.slots.saturating_add(queue.slots.min(most.max(queue.held)));
        all.starts_per_ks = all.starts_per_ks.zip(queue.starts_per_ks).map(|(a, b)| a.saturating_add(b));
    }
    all
}

fn divide(
    core: &Core,
    known: &LoadedSettings,
    memory: &mut Memory,
    mut found: BTreeMap<QueueKey, QueueDemand>,
    (since_ms, now): (u64, Millis),
) -> Divided {
    let before = Arc::clone(&core.limits.shares.divided.read());
    let mut queues: BTreeMap<Name, Vec<(Name, ShareDemand)>> = BTreeMap::new();
    let mut starts: HashMap<Name, u64> = HashMap::new();
    for (queue, found) in &mut found {
        // It holds its first slots, and the granting engine has not reported it yet: it may well want more.
        found.short_of_slots |= found.held > 0 && !found.is_reported_on && memory.is_new(queue);
        (found.short_of_slots, found.short_of_starts) =
            memory.short(queue, (found.short_of_slots, found.short_of_starts), now);
        let mut wanted = wanted(known, queue, found);
        memory.note_queue(queue, &mut wanted, found.starts_per_ks, now);
        queues.entry(queue.namespace.clone()).or_default().push((queue.queue.clone(), wanted));
        let all = starts.entry(queue.namespace.clone()).or_default();
        *all = all.saturating_add(found.starts_per_ks);
    }
    let mut namespaces = Vec::new();
    for (name, its) in &queues {
        let mut wanted = sum(known, name, its);
        memory.note_namespace(name, &mut wanted, starts.get(name).copied().unwrap_or(0), now);
        namespaces.push((name.clone(), wanted));
    }
    let namespaces = Memory::keep(namespaces);
    let queues: BTreeMap<Name, Vec<(Name, ShareDemand)>> =
        queues.into_iter().map(|(name, its)| (name, Memory::keep(its))).collect();
    forget(memory, &namespaces, &queues, found.keys());

    let served = memory.served(None, Some(&before.everything), &namespaces, since_ms);
    let of_all = &known.everything;
    let everything = Pool::divide(of_all.concurrency, of_all.rate, &namespaces, &served);
    let mut within = HashMap::new();
    for (name, its) in &queues {
        let set = known.namespaces.get(name);
        let share = everything.share(name);
        let slots = least(
            set.and_then(|settings| settings.concurrency),
            share.and_then(|share| share.slots),
            of_all.concurrency,
        );
        let starts = slowest([
            set.and_then(|settings| settings.rate),
            share.and_then(|share| share.starts),
            of_all.rate,
        ]);
        if its.is_empty() || slots.is_none() && starts.is_none() {
            continue;
        }
        let served = memory.served(Some(name), before.namespaces.get(name), its, since_ms);
        within.insert(name.clone(), Pool::divide(slots, starts, its, &served));
    }
    Divided { at: now, everything, namespaces: within }
}

fn forget<'a>(
    memory: &mut Memory,
    namespaces: &[(Name, ShareDemand)],
    queues: &BTreeMap<Name, Vec<(Name, ShareDemand)>>,
    found: impl Iterator<Item = &'a QueueKey>,
) {
    let names: BTreeSet<&Name> = namespaces.iter().map(|namespace| &namespace.0).collect();
    let is_there = |queue: &&QueueKey| {
        queues.get(&queue.namespace).is_some_and(|its| its.iter().any(|(name, _)| *name == queue.queue))
    };
    let left: HashSet<&QueueKey> = found.filter(is_there).collect();
    memory.forget_others(&names, &left);
}

fn least(set: Option<u32>, share: Option<u32>, all: Option<u32>) -> Option<u32> {
    [set, share, all].into_iter().flatten().min()
}

fn slowest(rates: [Option<Rate>; 3]) -> Option<Rate> {
    rates.into_iter().flatten().reduce(super::slower)
}

impl Divided {
    /// True if no share has changed.
    fn is_as_good_as(&self, other: &Self) -> bool {
        self.everything.gives_as(&other.everything)
            && self.namespaces.len() == other.namespaces.len()
            && self.namespaces.iter().all(|(name, pool)| {
                other.namespaces.get(name).is_some_and(|namespace| pool.gives_as(namespace))
            })
    }
}
