//! What limits hold, for whoever looks. Decides nothing.

use crate::core::Core;
use punctual_contract::Error;
use punctual_domain::{
    limits::Scope,
    name::{Name, QueueKey},
};
use std::sync::Arc;

/// Queues whose slots are counted for whoever looks at metrics.
const SLOTS_SHOWN: usize = 200;

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
    /// None: of everything.
    pub namespace: Option<Name>,
    pub held: usize,
    pub most: u32,
}

/// Of everything and of every namespace, where a limit is set, in order.
pub(crate) async fn shared_slots(core: &Core) -> Result<Vec<SharedSlots>, Error> {
    let known = core.settings.known();
    let mut limited: Vec<(Option<Name>, u32)> =
        known.namespaces.iter().filter_map(|(it, set)| Some((Some(it.clone()), set.concurrency?))).collect();
    limited.extend(known.everything.concurrency.map(|most| (None, most)));
    limited.sort_unstable();
    limited.truncate(SLOTS_SHOWN);
    let scope = |it: &(Option<Name>, u32)| it.0.clone().map_or(Scope::Everything, Scope::Namespace);
    let held = core.limiter.held(&limited.iter().map(scope).collect::<Vec<_>>()).await?;
    let slots = limited.into_iter().zip(held);
    Ok(slots.map(|((namespace, most), held)| SharedSlots { namespace, held, most }).collect())
}

/// Of every queue with a limit of its own, in order.
pub(crate) async fn slots(core: &Core) -> Result<Vec<Slots>, Error> {
    let known = core.settings.known();
    let mut limited: Vec<_> =
        known.queues.iter().filter_map(|(it, set)| Some((it, set.concurrency?))).collect();
    limited.sort_unstable();
    let mut slots = Vec::with_capacity(limited.len());
    for (queue, most) in limited.into_iter().take(SLOTS_SHOWN) {
        let held = core.limiter.holders(&Scope::Queue(queue.clone()), 0).await?.count;
        slots.push(Slots { queue: Arc::new(queue.clone()), held, most });
    }
    Ok(slots)
}
