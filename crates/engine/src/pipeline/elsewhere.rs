//! Executors that ask here, and tasks that wait at another engine. Who owns a task's partition has it in its line, and passes it on
//! when it is asked. Order of steps, and what a crash, a hang or a lost message between two of them leaves:
//!
//! 1. *Said.* The owner says that tasks of a queue wait for which it has no executor (`Ready`): when they fire, and each second. Lost:
//!    the next second.
//! 2. *Asked.* An engine whose executors wait, and whose own line is empty, sends a demand to one engine that said so. Lost, or no
//!    answer within `ANSWERS_WITHIN`: that engine is not asked again until it says so again.
//! 3. *Admitted.* The owner chooses for it as for its own executors: the order, the lanes, the limiter. Crash: the next owner finds the
//!    tasks in the store; places that no lease follows are freed by the reconciler.
//! 4. *Passed.* The tasks go out in one message, and stand in the owner's table as passed for `PASSED_MS`, so that nothing there continues
//!    with them. Lost, or the other engine dies: after that the owner's refill finds them in the store, as they were.
//! 5. *Leased* by the engine that asked, in the store, which makes one lease of each task. An answer that comes too late for its caller
//!    is served to others here; its places are given back first.
//!
//! Each engine says each second that it hears demands. Where one lives that is not learned of (no Redis, Redis away, a connection that is
//! silent), its tasks are looked for in the store (`from_store::others`). Must not lease anything.

use crate::{
    control,
    core::Core,
    live::PASSED_MS,
    pipeline::{
        admit::{self, Admitted, Since},
        ahead,
        from_store::others::{self, ASKED_WITHIN_MS},
        line,
        request::{LeaseRequest, Restrictions},
    },
    sharing::announce::{self, ANSWERS_WITHIN},
};
use punctual_contract::{
    Error,
    hot::ParkReason,
    limiter::Limit,
    ownership::{Demand, Live, Passed, Signal},
};
use punctual_domain::{
    limits::Scope,
    name::{Name, QueueKey},
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, timeout};

/// Between two times that it is said what waits here.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);
/// Tasks in one answer: a message of a megabyte at most.
const PLACES_MAX: usize = 1_000;

/// What other engines pass of a queue, at most `wanted`: of the first that has some. Never fails: who gets nothing waits on.
pub(crate) async fn ask(
    core: &Arc<Core>,
    request: &LeaseRequest,
    only: &Restrictions,
    wanted: usize,
) -> Admitted {
    let mut engines = core.sharing.elsewhere.engines(&request.queue);
    fastrand::shuffle(&mut engines);
    for engine in engines {
        match ask_one(core, request, only, wanted, &engine).await {
            Ok(admitted) if !admitted.entries.is_empty() => {
                if admitted.more {
                    core.arrivals.wake_one(&request.queue);
                } else {
                    core.sharing.elsewhere.has_none(&engine, &request.queue);
                }
                return admitted;
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, engine, "an engine that has tasks was asked in vain"),
        }
        core.sharing.elsewhere.has_none(&engine, &request.queue);
    }
    Admitted::default()
}

async fn ask_one(
    core: &Arc<Core>,
    request: &LeaseRequest,
    only: &Restrictions,
    wanted: usize,
    engine: &str,
) -> Result<Admitted, Error> {
    let (mut asked, at, instant) = (core.sharing.elsewhere.ask(), core.now(), Instant::now());
    let demand = Demand {
        to: engine.to_owned(),
        from: core.options.name.clone(),
        number: asked.number,
        queue: (*request.queue).clone(),
        places: wanted.min(PLACES_MAX),
        lease_ms: request.lease_ms,
        executor: request.executor.clone(),
        version: request.version.clone(),
        kinds: only.kinds.as_ref().map(|kinds| (**kinds).clone()),
        bound: only.bound.as_ref().map(|bound| bound.most),
    };
    let answer = timeout(ANSWERS_WITHIN, async {
        announce::send(core, Signal::Demand(Box::new(demand))).await?;
        Ok::<_, Error>((&mut asked.answer).await.ok())
    });
    let answer = answer.await.ok().transpose()?.flatten();
    let passed = answer.or_else(|| {
        // It came at the last instant.
        asked.answer.close();
        asked.answer.try_recv().ok()
    });
    let silent = || Error::may_have_happened("ask an engine for tasks", "no answer");
    let Passed { entries, granted_at, has_more, .. } = passed.ok_or_else(silent)?;
    let since = granted_at.map(|granted_at| Since::elsewhere(granted_at, at, instant));
    Ok(Admitted { entries, more: has_more, since })
}

/// Another engine asks for tasks that wait here.
pub(crate) fn handle_demand(core: &Arc<Core>, demand: Demand) {
    if core.work.stopping.is_cancelled() {
        return;
    }
    let its_core = Arc::clone(core);
    core.work.detach(async move { pass(&its_core, demand).await });
}

async fn pass(core: &Arc<Core>, demand: Demand) {
    let Demand { to: own_name, from, number, queue, places, lease_ms, executor, version, kinds, bound } =
        demand;
    let bound = bound.and_then(|most| {
        let scope = Scope::Executor(queue.namespace.clone(), Name::new(&executor).ok()?);
        Some(Limit { scope, most })
    });
    let only = Restrictions { bound, kinds: kinds.map(Arc::new) };
    let queue = Arc::new(queue);
    let max = places.min(PLACES_MAX);
    let request = LeaseRequest { queue: Arc::clone(&queue), max, wait_ms: 0, lease_ms, executor, version };
    let admitted = admit_for(core, &request, &only).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "nothing could be passed to another engine that asked");
        Admitted::default()
    });
    let Admitted { entries, since, .. } = admitted;
    core.live.lock().pass(&entries, core.now());
    let has_more = !entries.is_empty() && core.live.lock().line_counts(&queue).ready > 0;
    let passed = Passed {
        to: from,
        from: own_name,
        number,
        queue: (*queue).clone(),
        entries: entries.clone(),
        granted_at: since.map(Since::granted_at),
        has_more,
    };
    if let Err(error) = announce::send(core, Signal::Passed(Box::new(passed))).await {
        tracing::warn!(%error, tasks = entries.len(), "tasks could not be passed to another engine; they are served here");
        admit::never_began(core, &queue, entries.iter(), since).await;
        line::serve(core, &entries);
        core.arrived(&queue, entries.len());
    }
}

async fn admit_for(core: &Arc<Core>, request: &LeaseRequest, only: &Restrictions) -> Result<Admitted, Error> {
    control::loaded(core).await?;
    let is_shut =
        core.settings.is_paused(&request.queue) || core.settings.is_deleting(&request.queue.namespace);
    if is_shut || request.max == 0 {
        return Ok(Admitted::default());
    }
    admit::admit(core, request, only, request.max).await
}

/// The answer to a demand of this engine.
pub(crate) fn handle_passed(core: &Arc<Core>, passed: Passed) {
    let Some(late) = core.sharing.elsewhere.answer(passed) else { return };
    if late.entries.is_empty() {
        return;
    }
    let its_core = Arc::clone(core);
    core.work.detach(async move { serve_late(&its_core, late).await });
}

/// Its caller has gone on. Others may have it, if any ask; or else it is found at its owner.
async fn serve_late(core: &Arc<Core>, late: Passed) {
    let queue = Arc::new(late.queue);
    let since = late.granted_at.map(|granted_at| Since::elsewhere(granted_at, core.now(), Instant::now()));
    admit::never_began(core, &queue, late.entries.iter(), since).await;
    if core.arrivals.of(&queue).is_asked_since(core.now().plus(-ASKED_WITHIN_MS)) {
        line::serve(core, &late.entries);
        core.arrived(&queue, late.entries.len());
    }
}

/// Attempts have ended at another engine: so many tasks of the queue, or of one lane of it, may go.
pub(crate) fn freed(core: &Core, queue: QueueKey, lane: Option<&ParkReason>, places: usize) {
    if let Some(lane) = lane {
        line::unpark(core, &queue, lane, places);
    }
    let ready = core.live.lock().line_counts(&queue).ready;
    if ready > 0 {
        core.arrived(&Arc::new(queue), places.min(ready));
    }
}

/// An engine lives that is not learned of: what it has fired is looked for in the store.
pub(crate) fn is_deaf(core: &Core) -> bool {
    let elsewhere = &core.sharing.elsewhere;
    let is_missed = |live: &Live| live.engine != core.options.name && elsewhere.is_deaf_to(&live.engine);
    core.holdings.live().iter().any(is_missed)
}

/// Says what waits here, and forgets what was passed or said long ago. Queues of which something waits.
pub(crate) fn run_once(core: &Core) -> usize {
    let elsewhere = &core.sharing.elsewhere;
    elsewhere.forget();
    let line_counts = {
        let mut table = core.live.lock();
        table.forget_passed(core.now().plus(-PASSED_MS));
        table.count_served()
    };
    if !core.holdings.has_others() {
        return 0;
    }
    core.sharing.announcer.hello();
    ahead::wanted::say_all_wanted(core);
    others::serve_asked_for(core);
    let waiting = line_counts.into_iter().filter(|(_, line_counts)| line_counts.ready > 0);
    let mut said = 0;
    for (queue, line_counts) in waiting {
        if line_counts.ready > core.arrivals.waiting(&queue) && !core.settings.is_paused(&queue) {
            core.announce_ready(&queue);
            said += 1;
        }
    }
    said
}
