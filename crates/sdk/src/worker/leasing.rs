//! Leasing, one loop per queue: long-polls, and only for slots that are free, so that no task waits in a worker that
//! cannot run it while another could.

use std::sync::Arc;

use punctual_protocol::limits::LEASE_MAX;
use punctual_protocol::{LeaseRequest, LeasedTask};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Duration, Instant, sleep};

use super::Shared;
use super::attempt;
use super::report::Report;
use crate::backoff::Backoff;

/// A server that answers a long poll at once with nothing is not asked again before this.
pub(super) const EMPTY_PAUSE: Duration = Duration::from_millis(50);

pub(super) async fn run(shared: Arc<Shared>, queue: String, reports: mpsc::UnboundedSender<Report>) {
    // Dropping a poll in flight is the price of a prompt shutdown: what the server leases in that very moment runs
    // again when its lease ends. An answer that is there already is still taken.
    tokio::select! {
        biased;
        () = poll(&shared, &queue, &reports) => {}
        () = shared.stop.cancelled() => {}
    }
}

async fn poll(shared: &Arc<Shared>, queue: &str, reports: &mpsc::UnboundedSender<Report>) {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));
    let mut busy = false;
    while !shared.stop.is_cancelled() {
        let mut slots = free_slots(shared, busy).await;
        let request = request(shared, &slots, busy);
        let asked = Instant::now();
        match shared.client.lease_or_wish(queue, &request).await {
            Ok(answer) => {
                backoff.reset();
                let tasks = answer.tasks;
                #[cfg(feature = "redis")]
                let tasks = super::guarding::granted(shared, tasks).await;
                shared.hear_wish(answer.wish);
                busy = !tasks.is_empty();
                let pause = if busy || request.wait_ms == 0 { Duration::ZERO } else { EMPTY_PAUSE };
                start(shared, tasks, &mut slots, reports);
                drop(slots);
                sleep(pause.saturating_sub(asked.elapsed())).await;
            }
            Err(error) => {
                drop(slots);
                let wait = backoff.next();
                tracing::warn!(queue, error = %error, wait_ms = wait.as_millis(), "cannot lease, trying again");
                sleep(wait).await;
            }
        }
    }
}

/// All free slots for the only queue, or for one that just had work; one for a queue that may be idle, so that its
/// long poll does not keep the others' tasks from running.
pub(super) async fn free_slots(shared: &Shared, busy: bool) -> OwnedSemaphorePermit {
    let mut slots = shared.slots.clone().acquire_owned().await.expect("the slots are never closed");
    if busy || shared.queues.len() == 1 {
        let free = u32::try_from(shared.slots.available_permits()).unwrap_or(LEASE_MAX).min(LEASE_MAX - 1);
        // Another queue's loop may be faster; then there is just the one.
        if let Ok(more) = shared.slots.clone().try_acquire_many_owned(free) {
            slots.merge(more);
        }
    }
    slots
}

pub(super) fn request(shared: &Shared, slots: &OwnedSemaphorePermit, busy: bool) -> LeaseRequest {
    let options = &shared.options;
    let wait_ms = match (shared.queues.len() > 1, busy) {
        (true, true) => 0,
        // Fewer slots than queues: the queues take turns, and must not wait long for theirs.
        (true, false) if shared.queues.len() > options.concurrency => options.wait_ms.min(500),
        _ => options.wait_ms,
    };
    let max = u32::try_from(slots.num_permits()).unwrap_or(LEASE_MAX);
    shared.lease_request(max, wait_ms)
}

pub(super) fn start(
    shared: &Arc<Shared>,
    tasks: Vec<LeasedTask>,
    slots: &mut OwnedSemaphorePermit,
    reports: &mpsc::UnboundedSender<Report>,
) {
    for task in tasks {
        let holding = shared.held.hold(task.r#ref.clone(), task.token.clone(), shared.options.lease_ms);
        // A server that sends more than was asked for gets the surplus back.
        let slot = slots.split(1);
        shared.running.spawn(attempt::run(shared.clone(), task, holding, slot, reports.clone()));
    }
}
