//! The number of held slots of each limit, for metrics and displays. Decides nothing.

use super::admission_rules::AdmissionRules;
use crate::{answer::Error as EngineError, core::Core, engine::Engine};
use punctual_contract::{Error, limiter::Held};
use punctual_domain::{
    limits::Scope,
    name::{Name, QueueKey},
    settings::QueueSettings,
    time::Millis,
};
use std::{collections::BTreeMap, sync::Arc};

/// The maximum number of queues whose slots are counted for metrics.
const SLOTS_SHOWN: usize = 200;

/// The maximum number of attempts that are read to count slots of keys, retries and executors, and of those that are
/// read at a time.
const MEMBERS_SHOWN: usize = 10_000;
const MEMBERS_AT_ONCE: usize = 1_000;
/// Namespaces whose executors are informed of.
const NAMESPACES_SHOWN: usize = 20;
/// Executors of one of them.
const EXECUTORS_SHOWN: usize = 1_000;

/// The slots of one limited queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots {
    pub queue: Arc<QueueKey>,
    pub held: usize,
    pub most: u32,
}

/// The slots of a limit that queues share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedSlots {
    /// `None` is the installation.
    pub namespace: Option<Name>,
    pub held: usize,
    pub most: u32,
}

/// Limits of which there are many alike: of each key, of retries, of each executor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManySlots {
    pub keys: Vec<KeySlots>,
    /// The slots of the retries of a queue.
    pub retries: Vec<Slots>,
    pub executors: Vec<ExecutorSlots>,
}

/// The slots of the keys of one queue, which all have the same limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySlots {
    pub queue: Arc<QueueKey>,
    pub most: u32,
    /// The number of slots of the key that holds the most.
    pub held_max: usize,
    /// Keys that hold all of theirs.
    pub saturated: usize,
}

/// The executors of one namespace that declared a bound and hold tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorSlots {
    pub namespace: Name,
    pub held: usize,
    pub most: u64,
    /// Executors that hold as many as they can.
    pub saturated: usize,
}

impl Engine {
    /// The use of the limits of keys, retries and executors.
    ///
    /// # Errors
    /// A failing limiter or store.
    pub async fn many_slots(&self) -> Result<ManySlots, EngineError> {
        Ok(many_slots(&self.core).await?)
    }
}

/// Counts the first ten thousand attempts that hold slots. Asks nothing if no such limit is set.
async fn many_slots(core: &Core) -> Result<ManySlots, Error> {
    let known = core.settings.known();
    let mut limited: Vec<(&QueueKey, &QueueSettings)> = known
        .queues
        .iter()
        .filter(|queue| queue.1.key_concurrency.is_some() || queue.1.retries.concurrency.is_some())
        .map(|(queue, set)| (queue, &**set))
        .collect();
    if limited.is_empty() && !core.limits.admissions.bounds.are_in_use() {
        return Ok(ManySlots::default());
    }
    limited.sort_unstable_by_key(|pair| pair.0);
    limited.truncate(SLOTS_SHOWN);
    let mut held = Vec::new();
    for limiter in core.limiters() {
        let mut skip = 0;
        while held.len() < MEMBERS_SHOWN {
            let page = limiter.members(Millis(i64::MAX), skip, MEMBERS_AT_ONCE).await?;
            let is_last = page.len() < MEMBERS_AT_ONCE;
            skip += page.len();
            held.extend(page);
            if is_last {
                break;
            }
        }
    }
    let of_scopes = by_scope(&held);
    let retries = limited.iter().filter_map(|(queue, set)| {
        let held = of_scopes.get(&Scope::Retries((*queue).clone())).copied().unwrap_or_default();
        Some(Slots { queue: Arc::new((*queue).clone()), held, most: set.retries.concurrency? })
    });
    let keys =
        limited.iter().filter_map(|(queue, set)| Some(of_keys(&of_scopes, queue, set.key_concurrency?)));
    Ok(ManySlots {
        keys: keys.collect(),
        retries: retries.collect(),
        executors: executors(core, &of_scopes).await?,
    })
}

type OfScopes<'a> = BTreeMap<&'a Scope, usize>;

fn by_scope(held: &[Held]) -> OfScopes<'_> {
    let mut of_scopes = BTreeMap::new();
    for scope in held.iter().flat_map(|held| &held.scopes) {
        *of_scopes.entry(scope).or_default() += 1;
    }
    of_scopes
}

fn of_keys(of_scopes: &OfScopes<'_>, queue: &QueueKey, most: u32) -> KeySlots {
    let of_queue = of_scopes.iter().filter(|entry| matches!(entry.0, Scope::Key(of, _) if of == queue));
    let held: Vec<usize> = of_queue.map(|pair| *pair.1).collect();
    let saturated =
        held.iter().filter(|number| u32::try_from(**number).is_ok_and(|count| count >= most)).count();
    let held_max = held.into_iter().max().unwrap_or_default();
    KeySlots { queue: Arc::new(queue.clone()), most, held_max, saturated }
}

async fn executors(core: &Core, of_scopes: &OfScopes<'_>) -> Result<Vec<ExecutorSlots>, Error> {
    let mut holding: BTreeMap<&Name, BTreeMap<&str, usize>> = BTreeMap::new();
    for (scope, held) in of_scopes {
        if let Scope::Executor(namespace, name) = scope {
            holding.entry(namespace).or_default().insert(name.as_str(), *held);
        }
    }
    let mut executors = Vec::new();
    for (namespace, holding) in holding.into_iter().take(NAMESPACES_SHOWN) {
        let mut slots = ExecutorSlots { namespace: namespace.clone(), held: 0, most: 0, saturated: 0 };
        for executor in core.store.executors(namespace, "", EXECUTORS_SHOWN).await? {
            let Some((held, most)) =
                holding.get(executor.name.as_str()).copied().zip(executor.profile.concurrency)
            else {
                continue;
            };
            slots.held += held;
            slots.most += u64::from(most);
            slots.saturated += usize::from(u32::try_from(held).is_ok_and(|held| held >= most));
        }
        executors.push(slots);
    }
    Ok(executors)
}

/// The slots of everything and of every namespace, where a limit is set, in order.
pub(crate) async fn shared_slots(core: &Core) -> Result<Vec<SharedSlots>, Error> {
    let known = core.settings.known();
    let mut limited: Vec<(Option<Name>, u32)> = known
        .namespaces
        .iter()
        .filter_map(|(name, set)| Some((Some(name.clone()), set.concurrency?)))
        .collect();
    limited.extend(known.everything.concurrency.map(|most| (None, most)));
    limited.sort_unstable();
    limited.truncate(SLOTS_SHOWN);
    let scope = |pair: &(Option<Name>, u32)| pair.0.clone().map_or(Scope::Everything, Scope::Namespace);
    let held = core.limits.limiter.held(&limited.iter().map(scope).collect::<Vec<_>>()).await?;
    let slots = limited.into_iter().zip(held);
    Ok(slots.map(|((namespace, most), held)| SharedSlots { namespace, held, most }).collect())
}

/// The slots of every queue with its own limit, in order.
pub(crate) async fn slots(core: &Core) -> Result<Vec<Slots>, Error> {
    let known = core.settings.known();
    let most = |queue: &QueueKey, set: &QueueSettings| {
        if set.is_scanned() {
            AdmissionRules::of(core, &Arc::new(queue.clone())).most()
        } else {
            set.concurrency
        }
    };
    let mut limited: Vec<_> =
        known.queues.iter().filter_map(|(queue, set)| Some((queue, most(queue, set)?))).collect();
    limited.sort_unstable();
    let mut slots = Vec::with_capacity(limited.len());
    for (queue, most) in limited.into_iter().take(SLOTS_SHOWN) {
        let held = core.limiter_of(queue).holders(&Scope::Queue(queue.clone()), 0).await?.count;
        slots.push(Slots { queue: Arc::new(queue.clone()), held, most });
    }
    Ok(slots)
}
