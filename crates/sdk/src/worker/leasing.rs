//! Leasing from one queue: long-polls, and only for slots that are free, so that no task waits in a worker that
//! cannot run it while another could.

use std::sync::Arc;

use punctual_protocol::{LeaseAnswer, LeaseRequest, LeasedTask};
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, sleep};

use super::WorkerContext;
use super::attempt;
use super::report::PendingOutcome;
use super::slots::{Slots, WorkerQueue};
use crate::backoff::Backoff;

/// The pause after an immediate empty answer to a long poll.
pub(super) const EMPTY_PAUSE: Duration = Duration::from_millis(50);

pub(super) async fn run(
    shared: Arc<WorkerContext>,
    queue: WorkerQueue,
    reports: mpsc::UnboundedSender<PendingOutcome>,
) {
    // Dropping a running poll is the price of a prompt shutdown: tasks that the server leases just then run
    // again when their lease ends. An available answer is still taken.
    tokio::select! {
        biased;
        () = poll(&shared, &queue, &reports) => {}
        () = shared.stop.cancelled() => {}
    }
}

async fn poll(
    shared: &Arc<WorkerContext>,
    queue: &WorkerQueue,
    reports: &mpsc::UnboundedSender<PendingOutcome>,
) {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));
    let mut busy = false;
    while !shared.stop.is_cancelled() {
        let mut slots = free_slots(shared, queue, busy).await;
        let request = request(shared, &slots, busy);
        let asked = Instant::now();
        match shared.client.lease_or_wish(&queue.name, &request).await {
            Ok(answer) => {
                backoff.reset();
                busy = take_over(shared, answer, &mut slots, reports).await;
                let pause = if busy || request.wait_ms == 0 { Duration::ZERO } else { EMPTY_PAUSE };
                drop(slots);
                sleep(pause.saturating_sub(asked.elapsed())).await;
            }
            Err(error) => {
                drop(slots);
                let wait = backoff.next();
                tracing::warn!(queue = queue.name, error = %error, wait_ms = wait.as_millis(), "cannot lease, trying again");
                sleep(wait).await;
            }
        }
    }
}

/// Starts the tasks from the server. Returns whether there were any.
pub(super) async fn take_over(
    shared: &Arc<WorkerContext>,
    answer: LeaseAnswer,
    slots: &mut Slots,
    reports: &mpsc::UnboundedSender<PendingOutcome>,
) -> bool {
    let tasks = answer.tasks;
    let tasks = super::guarding::granted(shared, tasks).await;
    shared.set_desired_state(answer.wish);
    let is_some = !tasks.is_empty();
    start(shared, tasks, slots, reports);
    is_some
}

/// All free slots for the only queue, or for one that just had work.
pub(super) async fn free_slots(shared: &WorkerContext, queue: &WorkerQueue, busy: bool) -> Slots {
    Slots::of(queue, &shared.slots, busy || shared.queues.len() == 1).await
}

pub(super) fn request(shared: &WorkerContext, slots: &Slots, busy: bool) -> LeaseRequest {
    let options = &shared.options;
    let wait_ms = match (shared.queues.len() > 1, busy) {
        (true, true) => 0,
        // Fewer slots than queues: the queues take turns, and must not wait long for theirs.
        (true, false) if shared.queues.len() > options.concurrency => options.wait_ms.min(500),
        _ => options.wait_ms,
    };
    shared.lease_request(slots.count(), wait_ms)
}

pub(super) fn start(
    shared: &Arc<WorkerContext>,
    tasks: Vec<LeasedTask>,
    slots: &mut Slots,
    reports: &mpsc::UnboundedSender<PendingOutcome>,
) {
    for task in tasks {
        let holding = shared.held.hold(task.r#ref.clone(), task.token.clone(), shared.options.lease_ms);
        // A server that sends more than requested gets the surplus back.
        let slot = slots.split(&task.queue);
        shared.running.spawn(attempt::run(shared.clone(), task, holding, slot, reports.clone()));
    }
}
