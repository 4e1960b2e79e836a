//! Leasing from several queues with one call: whichever has work is served, and all free slots are for any of them.

use std::sync::Arc;

use futures_util::future::join_all;
use punctual_protocol::limits::LEASE_QUEUES_MAX;
use punctual_protocol::{Code, LeaseQueue, LeaseRequest};
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, sleep};

use super::WorkerContext;
use super::leasing::{self, EMPTY_PAUSE};
use super::report::PendingOutcome;
use super::slots::{Slots, WorkerQueue};
use crate::backoff::Backoff;

/// The longest wait of a call that omits a queue, because that queue has reached its limit, or because one
/// call cannot name all queues: a longer wait would delay the queue's turn.
const SHORT_WAIT_MS: u64 = 500;

pub(super) async fn run(shared: Arc<WorkerContext>, reports: mpsc::UnboundedSender<PendingOutcome>) {
    tokio::select! {
        biased;
        () = poll(&shared, &reports) => {}
        () = shared.stop.cancelled() => {}
    }
}

async fn poll(shared: &Arc<WorkerContext>, reports: &mpsc::UnboundedSender<PendingOutcome>) {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));
    let mut lines = shared.queues.clone();
    while !shared.stop.is_cancelled() {
        let asked_of = lines.get(..LEASE_QUEUES_MAX).unwrap_or(&lines);
        let mut slots = Slots::of_several(asked_of, &shared.slots).await;
        let request = request(shared, &slots);
        let asked = Instant::now();
        match shared.client.lease_from_several(&request).await {
            Ok(answer) => {
                backoff.reset();
                let is_empty = answer.tasks.is_empty();
                leasing::take_over(shared, answer, &mut slots, reports).await;
                drop(slots);
                let pause = if is_empty { EMPTY_PAUSE } else { Duration::ZERO };
                sleep(pause.saturating_sub(asked.elapsed())).await;
                rotate(&mut lines);
            }
            Err(error) if error.is(Code::RequestUnknownRoute) => {
                drop(slots);
                tracing::info!(
                    "an older engine, which takes one queue a call: each queue is asked for by itself"
                );
                let each = |line: &WorkerQueue| leasing::run(shared.clone(), line.clone(), reports.clone());
                join_all(shared.queues.iter().map(each)).await;
                return;
            }
            Err(error) => {
                drop(slots);
                let wait = backoff.next();
                tracing::warn!(error = %error, wait_ms = wait.as_millis(), "cannot lease, trying again");
                sleep(wait).await;
            }
        }
    }
}

/// The queues that were omitted are next.
fn rotate(lines: &mut [WorkerQueue]) {
    if lines.len() > LEASE_QUEUES_MAX {
        lines.rotate_left(LEASE_QUEUES_MAX);
    }
}

fn request(shared: &WorkerContext, slots: &Slots) -> LeaseRequest {
    let queue = |(name, free): (&str, usize)| LeaseQueue {
        max: (free < slots.count()).then(|| u32::try_from(free).unwrap_or(u32::MAX)),
        ..LeaseQueue::new(name)
    };
    let queues: Vec<_> = slots.by_queue().map(queue).collect();
    let wait_ms = shared.options.wait_ms;
    let wait_ms = if queues.len() < shared.queues.len() { wait_ms.min(SHORT_WAIT_MS) } else { wait_ms };
    LeaseRequest { queues, ..shared.lease_request(slots.count(), wait_ms) }
}
