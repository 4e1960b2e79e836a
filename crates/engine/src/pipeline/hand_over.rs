//! Steps 5 and 6 for executors that pull: an executor asks, ready tasks are popped for it, the store makes
//! the leases durable, and only then they are handed over. Order of steps, and what a crash between two of
//! them leaves:
//!
//! 1. `admit` decides which tasks start now (its head lists its own steps), or fired tasks are given to
//!    waiters. Crash: the store still has them, and the partition's owner offers them again (`refill`). If
//!    nothing waits here, an engine that announced waiting tasks is asked (`remote_tasks`).
//! 2. `dispatch` commits attempt, fence and lease. Crash: the executor never learns of it; the lease expires
//!    and the task is retried. Answer lost, and the engine lives: it returns the lease (`unknown`). Then
//!    payloads outside the database are fetched (`long_payloads`); crash: the same.
//! 3. The answer is sent. If the caller is gone, the tasks are returned immediately (`release`).

mod caller;
mod dispatch;
pub(crate) mod grants;
mod late;
pub(crate) mod release;
pub(crate) mod several;

use crate::{
    arrivals::{
        QueuePoller,
        state::{Given, QueueWaiters},
    },
    control,
    core::Core,
    maintenance::expire,
    pipeline::{
        admit, ahead, line, remote_tasks,
        request::{LeaseRequest, Restrictions},
    },
};
use caller::LeaseCaller;
use dispatch::dispatch;
use late::LateLeases;
use punctual_contract::{Error, hot::HotEntry, store::Assignment};
use release::give_back;
use std::{mem, sync::Arc, time::Duration};
use tokio::{
    sync::{futures::Notified, oneshot},
    time::Instant,
};

/// The maximum number of consecutive checks of a line by one caller: the rest is left to the next caller.
const ROUNDS_MAX: usize = 50;
/// A database that refuses answers within this. A silent one must not delay a caller beyond its time, so it
/// is asked for no other task then.
const REFUSED_WITHIN: Duration = Duration::from_millis(200);

/// The reason for returning a lease whose caller hung up.
const EXECUTOR_GONE: &str = "executor_gone";

/// If one waiter polls for a queue, the others poll after this many of its pauses, and up to twice that, in
/// case it hangs.
const LOOK_RARELY: f64 = 40.0;
/// The others do not poll at the same instant: they are spread over this fraction of their pause.
const LOOK_SPREAD: f64 = 0.2;

/// Waits for ready tasks, and leases at most `max`. The result is empty if no task became ready, if the engine is
/// stopping, or if it paused for a while. After a pause, the caller may be disconnected; a live caller asks again. A
/// caller without an executor loses no task. `only` has the restrictions of the executor.
pub(crate) async fn lease(
    core: &Arc<Core>,
    request: LeaseRequest,
    only: Restrictions,
) -> Result<Vec<Assignment>, Error> {
    let discontinuities = core.discontinuities();
    let leased = wait_and_lease(core, &request, &only, discontinuities).await?;
    if leased.is_empty() || core.discontinuities() == discontinuities {
        return Ok(leased);
    }
    tracing::info!(
        tasks = leased.len(),
        "leases are given back: this engine stood still, and their caller may have gone"
    );
    ahead::was_not_handed_over(core, &leased);
    let its = Arc::clone(core);
    core.work.detach(async move { give_back(&its, leased, ahead::TOO_LATE).await });
    Ok(Vec::new())
}

/// `discontinuities`: of time, at the beginning of the call.
async fn wait_and_lease(
    core: &Arc<Core>,
    request: &LeaseRequest,
    only: &Restrictions,
    discontinuities: u64,
) -> Result<Vec<Assignment>, Error> {
    let deadline = Instant::now() + Duration::from_millis(request.wait_ms);
    let waiters = core.arrivals.of(&request.queue);
    let _waiting = waiters.wait(core.now());
    let bound = only.bound.as_ref().map(|bound| core.limits.admissions.bounds.wait(bound));
    let may_be_given = if only.are_none() { request.max } else { 0 };
    let mut late = LateLeases::new(core);
    let (mut given, mut poller) = (Vec::new(), None);
    loop {
        if given.is_empty() && is_known_empty(core, request, only) {
            let leased = waiters.take_leased(may_be_given, core.current_time());
            let leased = ahead::handed_over(core, request, leased);
            if !leased.is_empty() {
                return Ok(leased);
            }
        }
        let notified = waiters.notified();
        let freed = or_never(bound.as_ref().map(|bound| bound.freed()));
        let is_late = Instant::now() >= deadline;
        if is_late || !given.is_empty() || !is_known_empty(core, request, only) {
            // Given tasks are handed over without a look at the line.
            let was_given = !given.is_empty();
            let caller = LeaseCaller { late_leases: late.late_leases(), is_late, only: only.clone() };
            let asked = Instant::now();
            let leased = grant_or_take_leased(core, request, mem::take(&mut given), &waiters, caller).await?;
            if leased.is_empty() && was_given && (!is_late || asked.elapsed() < REFUSED_WITHIN) {
                // It was cancelled, replaced or leased elsewhere meanwhile: another task may wait for this caller.
                continue;
            }
            if !leased.is_empty() || is_late {
                return Ok(leased);
            }
        }
        let after = looks_again_after(core, request, only, &waiters, &mut poller);
        let wake_at = deadline.min(Instant::now() + after);
        // Given tasks have no slots in the limiter, and are of any kind. A caller that needs slots, or
        // accepts only some kinds, is only notified.
        let mut waiter =
            if only.are_none() { waiters.register(core, request.max) } else { waiters.unregistered(core) };
        let its = tokio::select! {
            leased = late.next() => return Ok(leased),
            given = waiter.given() => given,
            () = notified => waiter.leave(),
            () = freed => waiter.leave(),
            () = tokio::time::sleep_until(wake_at) => waiter.leave(),
            () = core.work.stopping.cancelled() => return Ok(Vec::new()),
        };
        if core.discontinuities() != discontinuities {
            // The next waiter gets these tasks, and the notification.
            waiters.pass_on(core, its);
            core.arrived(&request.queue, 1);
            return Ok(Vec::new());
        }
        given = match its {
            Given::Fired(entries) => entries,
            Given::Leased(list) => {
                let leased = ahead::handed_over(core, request, list);
                if !leased.is_empty() {
                    return Ok(leased);
                }
                Vec::new()
            }
        };
    }
}

/// The time after which a caller that found nothing checks again, even if it is not woken.
fn looks_again_after<'a>(
    core: &Core,
    request: &LeaseRequest,
    only: &Restrictions,
    waiters: &'a QueueWaiters,
    poller: &mut Option<QueuePoller<'a>>,
) -> Duration {
    let pause = core.limits.admissions.rate_wait(&request.queue, core.now()).unwrap_or(Duration::MAX);
    let is_simple = is_simple(core, request, only);
    *poller = if is_simple { poller.take().or_else(|| waiters.look_for_all()) } else { None };
    let is_looked_for = is_simple && poller.is_none();
    let pauses = if is_looked_for { LOOK_RARELY } else { 1.0 };
    let spread = fastrand::f64() * if is_looked_for { 1.0 } else { LOOK_SPREAD };
    core.look_again().mul_f64(pauses * (1.0 + spread)).min(pause)
}

/// True if no task of the queue waits here, and no engine announces any.
fn is_known_empty(core: &Core, request: &LeaseRequest, only: &Restrictions) -> bool {
    is_simple(core, request, only)
        && line::is_empty(core, &request.queue)
        && !core.sharing.elsewhere.is_known(&request.queue)
}

/// Only an executor that has a bound waits for a place of its own.
async fn or_never(freed: Option<Notified<'_>>) {
    match freed {
        Some(notified) => notified.await,
        None => std::future::pending().await,
    }
}

/// Any other caller would find the same tasks.
fn is_simple(core: &Core, request: &LeaseRequest, only: &Restrictions) -> bool {
    only.are_none() && request.version.is_none() && core.settings.is_plain(&request.queue)
}

/// Granted tasks; otherwise preleased ones, because no task in the line precedes them.
async fn grant_or_take_leased(
    core: &Arc<Core>,
    request: &LeaseRequest,
    given: Vec<HotEntry>,
    waiters: &QueueWaiters,
    caller: LeaseCaller,
) -> Result<Vec<Assignment>, Error> {
    let most = if caller.only.are_none() { request.max } else { 0 };
    let (is_late, doubts) = (caller.is_late, core.store_fallback.doubts());
    let granted = match admit_and_grant(core, request, given, caller).await {
        // The limiter, or the hot set beside it, has failed: the caller waits for its return.
        Err(_) if !is_late && core.store_fallback.doubts() != doubts => Vec::new(),
        granted => granted?,
    };
    if !granted.is_empty() {
        return Ok(granted);
    }
    Ok(ahead::handed_over(core, request, waiters.take_leased(most, core.current_time())))
}

/// Runs to its end even if the caller hangs up; then returns the leases that it got.
async fn admit_and_grant(
    core: &Arc<Core>,
    request: &LeaseRequest,
    given: Vec<HotEntry>,
    caller: LeaseCaller,
) -> Result<Vec<Assignment>, Error> {
    let (answer, granted) = oneshot::channel();
    let mut granted = Granted { core: Arc::clone(core), answer: granted };
    let (work_core, work_request) = (Arc::clone(core), request.clone());
    core.work.detach(async move {
        let discontinuities = work_core.discontinuities();
        let mut result = grant(&work_core, &work_request, given, &caller).await;
        if let Ok(leased) = &mut result
            && work_core.discontinuities() != discontinuities
        {
            // The machine was stopped, or its clock jumped: it is unknown how long ago these leases began.
            give_back(&work_core, std::mem::take(leased), ahead::TOO_LATE).await;
        }
        if let Err(Ok(unheard)) = answer.send(result) {
            give_back(&work_core, unheard, EXECUTOR_GONE).await;
        }
    });
    let panicked = |_| Err(Error::may_have_happened("lease tasks", "the work panicked"));
    (&mut granted.answer).await.unwrap_or_else(panicked)
}

/// The caller's end of the call. The caller may disconnect when the answer is there and unread.
struct Granted {
    core: Arc<Core>,
    answer: oneshot::Receiver<Result<Vec<Assignment>, Error>>,
}

impl Drop for Granted {
    fn drop(&mut self) {
        self.answer.close();
        if let Ok(Ok(unheard)) = self.answer.try_recv() {
            let core = Arc::clone(&self.core);
            self.core.work.detach(async move { give_back(&core, unheard, EXECUTOR_GONE).await });
        }
    }
}

/// `given`: tasks that fired while the caller waited. It found the line empty, so these are all there is.
async fn grant(
    core: &Arc<Core>,
    request: &LeaseRequest,
    given: Vec<HotEntry>,
    caller: &LeaseCaller,
) -> Result<Vec<Assignment>, Error> {
    if core.settings.is_deleting(&request.queue.namespace) {
        // The given tasks are deleted with the namespace.
        return Ok(Vec::new());
    }
    if !given.is_empty() {
        let entries = expire::keep_those_in_time(core, given).await;
        return dispatch(core, request, entries, None, caller).await;
    }
    let mut leased = Vec::new();
    control::loaded(core).await?;
    let only = &caller.only;
    for _ in 0..ROUNDS_MAX {
        if core.settings.is_paused(&request.queue) {
            return Ok(leased);
        }
        let wanted = request.max - leased.len();
        let mut admitted = match admit::admit(core, request, only, wanted).await {
            Ok(admitted) => admitted,
            Err(error) if leased.is_empty() => return Err(error),
            Err(_) => return Ok(leased),
        };
        if leased.is_empty() && admitted.entries.is_empty() && !admitted.more {
            admitted = remote_tasks::ask(core, request, only, wanted).await;
        }
        match dispatch(core, request, admitted.entries, admitted.since, caller).await {
            Ok(more) => leased.extend(more),
            // The caller must learn of tasks that are already leased.
            Err(error) if leased.is_empty() => return Err(error),
            Err(_) => return Ok(leased),
        }
        if !admitted.more {
            return Ok(leased);
        }
        if leased.len() >= request.max {
            break;
        }
    }
    // There may be more, which this one does not want.
    core.arrived(&request.queue, 1);
    Ok(leased)
}
