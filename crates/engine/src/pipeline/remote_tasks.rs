//! Executors that ask here, for tasks that wait at another engine. The owner of a task's partition has the
//! task in its line, and passes it on when asked. Order of steps, and what a crash, a hang or a lost message
//! between two of them leaves:
//!
//! 1. *Announced.* The owner announces that tasks of a queue wait without an executor (`Ready`): when they
//!    fire, and each second. Lost: repeated in the next second.
//! 2. *Requested.* An engine with waiting executors and an empty line sends a demand to one engine that
//!    announced tasks. Lost, or no answer within `ANSWERS_WITHIN`: that engine is not asked again until its
//!    next announcement.
//! 3. *Admitted.* The owner chooses as for its own executors: order, lanes, limiter. Crash: the next owner
//!    finds the tasks in the store; the reconciler frees slots without a lease.
//! 4. *Passed.* The tasks are sent in one message, and are in the owner's table as passed for `PASSED_MS`, so
//!    that nothing there continues with them. Lost, or the other engine dies: after that the owner's refill
//!    finds them in the store, unchanged.
//! 5. *Leased* by the requesting engine, in the store, which makes one lease per task. If the answer is too
//!    late for its caller, the tasks are offered to others here, after their slots were released.
//!
//! Each engine announces each second that it receives demands. If a live engine is not heard (no Redis, an
//! unavailable Redis, a silent connection), its tasks are read from the store (`store_fallback::others`).
//! Must not lease anything.

use crate::{
    control,
    core::Core,
    live::PASSED_MS,
    pipeline::{
        admit::{self, Admitted, Since},
        ahead, line,
        request::{LeaseRequest, Restrictions},
        store_fallback::others::{self, ASKED_WITHIN_MS},
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

/// The interval between two announcements of waiting tasks.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);
/// The maximum number of tasks in one answer: a message of a megabyte at most.
const PLACES_MAX: usize = 1_000;

/// Requests at most `wanted` tasks of a queue from the first engine that has some. Never fails: a caller that gets
/// none waits on.
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
        // The answer arrived at the last instant.
        asked.answer.close();
        asked.answer.try_recv().ok()
    });
    let silent = || Error::may_have_happened("ask an engine for tasks", "no answer");
    let Passed { entries, granted_at, has_more, .. } = passed.ok_or_else(silent)?;
    let since = granted_at.map(|granted_at| Since::elsewhere(granted_at, at, instant));
    Ok(Admitted { entries, more: has_more, since })
}

/// Another engine requests tasks that wait here.
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

/// Serves tasks whose caller has continued. They are offered to others if any ask; otherwise their owner finds them.
async fn serve_late(core: &Arc<Core>, late: Passed) {
    let queue = Arc::new(late.queue);
    let since = late.granted_at.map(|granted_at| Since::elsewhere(granted_at, core.now(), Instant::now()));
    admit::never_began(core, &queue, late.entries.iter(), since).await;
    if core.arrivals.of(&queue).is_asked_since(core.now().plus(-ASKED_WITHIN_MS)) {
        line::serve(core, &late.entries);
        core.arrived(&queue, late.entries.len());
    }
}

/// Attempts have ended at another engine: `places` tasks of the queue, or of one lane of it, may start.
pub(crate) fn freed(core: &Core, queue: QueueKey, lane: Option<&ParkReason>, places: usize) {
    if let Some(lane) = lane {
        line::unpark(core, &queue, lane, places);
    }
    let ready = core.live.lock().line_counts(&queue).ready;
    if ready > 0 {
        core.arrived(&Arc::new(queue), places.min(ready));
    }
}

/// A live engine is not heard: its fired tasks are read from the store.
pub(crate) fn is_deaf(core: &Core) -> bool {
    let elsewhere = &core.sharing.elsewhere;
    let is_missed = |live: &Live| live.engine != core.options.name && elsewhere.is_deaf_to(&live.engine);
    core.holdings.live().iter().any(is_missed)
}

/// Announces waiting tasks, and removes old announcements and passed tasks. Returns the number of queues with waiting
/// tasks.
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
