//! One caller that waits for several queues. It is not registered at any of them. No task is given to it or preleased
//! for it, because two queues might do so at one instant, and exceed what it accepts. It is notified which queue has
//! tasks, and checks that queue like a caller of that queue alone. So an idle queue costs only an occasional check.
//! It begins with all queues in a random order: a busy queue is as often behind the others as before them.
//!
//! A crash between the leases of two queues is like one after the lease of one: the executor never learns of them,
//! and they expire. If the caller disconnects, or this engine is stopped, all its leases are returned.

use super::{
    EXECUTOR_GONE, caller::LeaseCaller, grant_or_take_leased, is_known_empty, late::LateLeases,
    looks_again_after, or_never, release::give_back,
};
use crate::{
    arrivals::{
        QueuePoller,
        state::{QueueWaiters, WaitingGuard},
    },
    core::Core,
    pipeline::{
        ahead,
        request::{LeaseRequest, Restrictions},
    },
};
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use punctual_contract::{Error, store::Assignment};
use std::{mem, sync::Arc, time::Duration};
use tokio::time::Instant;

/// One of the queues.
struct QueueRequest<'a> {
    request: LeaseRequest,
    waiters: &'a Arc<QueueWaiters>,
    poller: Option<QueuePoller<'a>>,
    look_at: Option<Instant>,
    _waiting: WaitingGuard<'a>,
}

/// The leases so far. Returned if this is dropped, because the caller is gone.
struct Leased {
    core: Arc<Core>,
    assignments: Vec<Assignment>,
    /// The number of discontinuities of time when the call began.
    discontinuities: u64,
}

impl Leased {
    fn new(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core), assignments: Vec::new(), discontinuities: core.discontinuities() }
    }

    /// The caller has them from here on. After a break of time it is unknown how long ago they were leased.
    fn hand_over(mut self) -> Vec<Assignment> {
        if self.core.discontinuities() != self.discontinuities {
            self.give_back(ahead::TOO_LATE);
            return Vec::new();
        }
        mem::take(&mut self.assignments)
    }

    fn give_back(&mut self, reason: &'static str) {
        let leased = mem::take(&mut self.assignments);
        if leased.is_empty() {
            return;
        }
        ahead::was_not_handed_over(&self.core, &leased);
        let core = Arc::clone(&self.core);
        self.core.work.detach(async move { give_back(&core, leased, reason).await });
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        self.give_back(EXECUTOR_GONE);
    }
}

/// Leases at most `max`, and from each queue at most what its request has. Empty in the same cases as
/// `hand_over::lease`.
pub(crate) async fn lease(
    core: &Arc<Core>,
    requests: Vec<LeaseRequest>,
    max: usize,
    only: Restrictions,
) -> Result<Vec<Assignment>, Error> {
    let wait = requests.first().map_or(Duration::ZERO, |request| Duration::from_millis(request.wait_ms));
    let deadline = Instant::now() + wait;
    let arrivals: Vec<_> = requests.iter().map(|request| core.arrivals.of(&request.queue)).collect();
    let line = |(request, waiters)| QueueRequest::new(core, request, waiters);
    let mut lines: Vec<QueueRequest<'_>> = requests.into_iter().zip(&arrivals).map(line).collect();
    fastrand::shuffle(&mut lines);
    let bound = only.bound.as_ref().map(|bound| core.limits.admissions.bounds.wait(bound));
    let (mut late, mut leased) = (LateLeases::new(core), Leased::new(core));
    loop {
        // Registered before the look, so that later tasks wake the caller.
        let mut woken: FuturesUnordered<_> =
            lines.iter().enumerate().map(|entry| woken_by(entry.0, entry.1.waiters)).collect();
        let freed = or_never(bound.as_ref().map(|bound| bound.freed()));
        let is_late = Instant::now() >= deadline;
        for line in &mut lines {
            let wanted = line.request.max.min(max - leased.assignments.len());
            if wanted == 0 || !line.is_to_be_looked_at() {
                continue;
            }
            let caller = LeaseCaller { late_leases: late.late_leases(), is_late, only: only.clone() };
            match line.look(core, wanted, caller).await {
                Ok(more) => leased.assignments.extend(more),
                Err(error) if leased.assignments.is_empty() => return Err(error),
                // The caller must learn of tasks that are already leased.
                Err(_) => break,
            }
        }
        if !leased.assignments.is_empty() || is_late {
            return Ok(leased.hand_over());
        }
        let wake_at = lines
            .iter()
            .filter_map(|line| line.look_at)
            .min()
            .map_or(deadline, |instant| instant.min(deadline));
        tokio::select! {
            more = late.next() => {
                leased.assignments = more;
                return Ok(leased.hand_over());
            }
            Some(nth) = woken.next() => put_first(&mut lines, nth),
            () = freed => lines.iter_mut().for_each(|line| line.look_at = None),
            () = tokio::time::sleep_until(wake_at) => {}
            () = core.work.stopping.cancelled() => return Ok(Vec::new()),
        }
        if core.discontinuities() != leased.discontinuities {
            // The next waiter gets the notification.
            lines
                .iter()
                .filter(|line| line.look_at.is_none())
                .for_each(|line| core.arrived(&line.request.queue, 1));
            return Ok(Vec::new());
        }
    }
}

/// The position of the queue that got tasks since this was called.
fn woken_by(nth: usize, waiters: &QueueWaiters) -> impl Future<Output = usize> {
    let notified = waiters.notified();
    async move {
        notified.await;
        nth
    }
}

/// Moves the queue that woke this caller to the front. No other caller checks for these tasks.
fn put_first(lines: &mut [QueueRequest<'_>], nth: usize) {
    if let Some(line) = lines.get_mut(nth) {
        line.look_at = None;
        lines.swap(0, nth);
    }
}

impl<'a> QueueRequest<'a> {
    fn new(core: &Core, request: LeaseRequest, waiters: &'a Arc<QueueWaiters>) -> Self {
        let waiting = waiters.wait(core.now());
        Self { request, waiters, poller: None, look_at: None, _waiting: waiting }
    }

    fn is_to_be_looked_at(&self) -> bool {
        self.look_at.is_none_or(|at| at <= Instant::now())
    }

    /// Once polled, runs to its end even if the caller hangs up.
    async fn look(
        &mut self,
        core: &Arc<Core>,
        wanted: usize,
        caller: LeaseCaller,
    ) -> Result<Vec<Assignment>, Error> {
        let request = LeaseRequest { max: wanted, ..self.request.clone() };
        let only = caller.only.clone();
        let may_be_given = if only.are_none() { wanted } else { 0 };
        let known_empty = is_known_empty(core, &request, &only);
        if known_empty {
            let leased = self.waiters.take_leased(may_be_given, core.current_time());
            let leased = ahead::handed_over(core, &request, leased);
            if !leased.is_empty() {
                return Ok(leased);
            }
        }
        if caller.is_late || !known_empty {
            let leased = grant_or_take_leased(core, &request, Vec::new(), self.waiters, caller).await?;
            if !leased.is_empty() {
                return Ok(leased);
            }
        }
        let after = looks_again_after(core, &request, &only, self.waiters, &mut self.poller);
        self.look_at = Some(Instant::now() + after);
        Ok(Vec::new())
    }
}
