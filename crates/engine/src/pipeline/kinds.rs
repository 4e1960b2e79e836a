//! Executors that take only tasks of some kinds. The kind of a task stands in the store, not in the ready set, so that those who
//! take any pay nothing for it: only what was popped for one who does not is looked up. What is of another kind is
//! parked in the lane of that kind, out of the order, where whoever takes it finds it: an executor of that kind, one that takes
//! any, or after seconds the reconciler, which brings some of it back in case it was parked at another engine. Decides
//! nothing about a task; losing what is known here costs an interval.

use super::{
    admit::{self, Terms},
    from_store,
};
use crate::{
    Error as EngineError,
    core::Core,
    engine::Engine,
    pipeline::hand_over::{self, LeaseRequest},
};
use futures_util::future::BoxFuture;
use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::{
    Error,
    hot::{HotEntry, Lane},
    limiter::Limit,
    store::Assignment,
};
use punctual_domain::{
    limits::Scope,
    name::{Name, QueueKey},
    time::Millis,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Kinds that another engine has parked tasks of are noticed within this.
const LANES_KNOWN_MS: i64 = 1_000;
/// Lanes of a queue that are looked at for that.
const LANES_MAX: usize = 500;
/// How much of one kind the reconciler brings back at once: if nobody takes it, it is parked again.
pub(super) const BROUGHT_BACK: usize = 100;
/// While nothing can be parked, so far is looked past what is of other kinds.
const LOOKED_THROUGH: usize = 200;

/// What keeps an executor from taking any task of a queue: nothing, mostly.
#[derive(Clone, Debug, Default)]
pub(crate) struct Restrictions {
    /// How much it holds at the most.
    pub(crate) bound: Option<Limit>,
    pub(crate) kinds: Option<Arc<BTreeSet<Name>>>,
}

impl Restrictions {
    pub(crate) fn are_none(&self) -> bool {
        self.bound.is_none() && self.kinds.is_none()
    }
}

/// What an executor says that it takes.
#[derive(Clone, Debug, Default)]
pub struct Only {
    /// At most so many are in its hands at one time: of all queues of the namespace, leased at whichever engines.
    pub concurrency: Option<u32>,
    /// None: tasks of any kind.
    pub kinds: Option<BTreeSet<Name>>,
}

impl Only {
    fn restrictions(self, request: &LeaseRequest) -> Option<Restrictions> {
        let bound = match self.concurrency {
            None => None,
            Some(most) => {
                let executor = Name::new(&request.executor).ok()?;
                Some(Limit { scope: Scope::Executor(request.queue.namespace.clone(), executor), most })
            }
        };
        Some(Restrictions { bound, kinds: self.kinds.map(Arc::new) })
    }
}

impl Engine {
    /// As `lease`, for an executor that does not take everything. What counts for its concurrency are the leases for which it
    /// said so.
    ///
    /// # Errors
    /// A failing back end.
    pub fn lease_only(
        &self,
        request: LeaseRequest,
        only: Only,
    ) -> BoxFuture<'_, Result<Vec<Assignment>, EngineError>> {
        Box::pin(async move {
            let Some(restrictions) = only.restrictions(&request) else { return Ok(Vec::new()) };
            Ok(hand_over::lease(&self.core, request, restrictions).await?)
        })
    }

    /// Waits for the tasks of whichever of several queues of one namespace has some, and leases at most `max`, of each queue at
    /// most what its own request says. They wait as long as the first of them says.
    ///
    /// # Errors
    /// A failing back end, if nothing was leased before it failed.
    pub fn lease_from_several(
        &self,
        requests: Vec<LeaseRequest>,
        max: usize,
        only: Only,
    ) -> BoxFuture<'_, Result<Vec<Assignment>, EngineError>> {
        Box::pin(async move {
            let Some(first) = requests.first() else { return Ok(Vec::new()) };
            let Some(restrictions) = only.restrictions(first) else { return Ok(Vec::new()) };
            Ok(hand_over::several::lease(&self.core, requests, max, restrictions).await?)
        })
    }
}

/// Kinds of which something is parked, by queue, as far as this engine knows.
#[derive(Debug, Default)]
pub(super) struct ParkedKinds(Mutex<HashMap<Arc<QueueKey>, Lanes>>);

#[derive(Debug, Default)]
struct Lanes {
    parked: BTreeSet<Name>,
    /// When all lanes were last looked at.
    looked_at: Option<Millis>,
}

impl ParkedKinds {
    fn of(&self, queue: &QueueKey) -> BTreeSet<Name> {
        self.0.lock().get(queue).map(|it| it.parked.clone()).unwrap_or_default()
    }

    fn add(&self, queue: &Arc<QueueKey>, kind: &Name) {
        self.0.lock().entry(Arc::clone(queue)).or_default().parked.insert(kind.clone());
    }

    fn remove(&self, queue: &QueueKey, kind: &Name) {
        if let Some(it) = self.0.lock().get_mut(queue) {
            it.parked.remove(kind);
        }
    }

    /// True: it is to be looked at.
    fn begin_look(&self, queue: &Arc<QueueKey>, now: Millis) -> bool {
        let mut all = self.0.lock();
        let lanes = all.entry(Arc::clone(queue)).or_default();
        let is_known = lanes.looked_at.is_some_and(|at| (0..LANES_KNOWN_MS).contains(&now.since(at)));
        lanes.looked_at = Some(now);
        !is_known
    }

    fn learn(&self, queue: &Arc<QueueKey>, parked: BTreeSet<Name>) {
        self.0.lock().entry(Arc::clone(queue)).or_default().parked = parked;
    }

    pub(super) fn forget(&self, now: Millis) {
        let is_in_use = |it: &Lanes| {
            !it.parked.is_empty() || it.looked_at.is_some_and(|at| now.since(at) <= LANES_KNOWN_MS)
        };
        let mut all = self.0.lock();
        all.retain(|_, it| is_in_use(it));
        all.shrink_to_fit();
    }

    pub(super) fn queues_held(&self) -> usize {
        self.0.lock().len()
    }
}

/// How many are to be popped for `wanted`.
pub(super) fn looks_through(core: &Core, only: &Restrictions, wanted: usize) -> usize {
    if only.kinds.is_some() && core.from_store.is_away() { wanted.max(LOOKED_THROUGH) } else { wanted }
}

/// What was parked for somebody like the caller comes back into the order.
pub(super) async fn bring_back(
    core: &Core,
    request: &LeaseRequest,
    only: &Restrictions,
) -> Result<(), Error> {
    if core.from_store.is_away() {
        return Ok(());
    }
    let (queue, all) = (&request.queue, &core.admissions.kinds);
    if only.kinds.is_some() && all.begin_look(queue, core.now()) {
        let lanes = core.hot.lanes(queue, Some(&Lane::Retries), LANES_MAX).await?;
        let kind = |it: (Lane, usize)| match it.0 {
            Lane::Kind(kind) => Name::new(&kind).ok(),
            Lane::Key(_) | Lane::Retries | Lane::Version(_) => None,
        };
        all.learn(queue, lanes.into_iter().filter_map(kind).collect());
    }
    let mut parked = all.of(queue);
    if let Some(kinds) = &only.kinds {
        parked.retain(|it| kinds.contains(it));
    }
    let mut result = Ok(());
    for kind in parked {
        match admit::unpark(core, queue, &Lane::Kind(kind.as_str().to_owned()), request.max).await {
            Ok(back) if back < request.max => all.remove(queue, &kind),
            Ok(_) => {}
            Err(error) => result = Err(error),
        }
    }
    result
}

/// Of what was popped, what the caller takes, at most `wanted`. The rest is parked, or offered again.
pub(super) async fn keep(
    core: &Core,
    terms: &Terms,
    only: &Restrictions,
    entries: Vec<HotEntry>,
    wanted: usize,
) -> Result<Vec<HotEntry>, Error> {
    let Some(kinds) = only.kinds.as_ref().filter(|_| !entries.is_empty()) else { return Ok(entries) };
    let places: Vec<_> = entries.iter().map(HotEntry::row).collect();
    let tasks = match core.store.read(&places).await {
        Ok(tasks) => tasks,
        Err(error) => {
            from_store::offer(core, entries).await?;
            return Err(error);
        }
    };
    let (mut kept, mut back) = (Vec::new(), Vec::new());
    let mut others = BTreeMap::<Name, Vec<HotEntry>>::new();
    for (entry, task) in entries.into_iter().zip(tasks) {
        match task {
            Some(task) if !kinds.contains(&task.ask.kind) => {
                others.entry(task.ask.kind).or_default().push(entry)
            }
            // Of what is gone its lease decides.
            _ if kept.len() < wanted => kept.push(entry),
            _ => back.push(entry),
        }
    }
    if core.from_store.is_away() {
        back.extend(others.into_values().flatten());
    } else if !others.is_empty() {
        park(core, terms, others).await;
    }
    if let Err(error) = from_store::offer(core, back).await {
        tracing::warn!(%error, "tasks of other kinds could not be offered again; that is repeated");
    }
    Ok(kept)
}

async fn park(core: &Core, terms: &Terms, others: BTreeMap<Name, Vec<HotEntry>>) {
    for (kind, entries) in others {
        let lane = Lane::Kind(kind.as_str().to_owned());
        if let Err(error) = core.hot.park(&lane, entries, terms.settings.retries).await {
            tracing::warn!(%error, "tasks of other kinds could not be parked; they are offered again later");
        }
        core.admissions.kinds.add(&terms.queue, &kind);
    }
    // Somebody who takes them may wait here, or elsewhere.
    core.wake_queue(&terms.queue);
}
