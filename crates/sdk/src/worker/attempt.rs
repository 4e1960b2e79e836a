//! One attempt: runs the handler until it ends, its time is over, its lease is lost, or the worker must go. Exactly
//! one report follows, or none if the lease was lost.

use std::sync::Arc;

use punctual_protocol::{LeasedTask, Outcome, OutcomeKind, in_words};
use tokio::sync::mpsc;
use tokio::time::{Duration, sleep};

use super::WorkerContext;
use super::held::Holding;
use super::report::PendingOutcome;
use super::slots::Slot;
use crate::handlers::say;
use crate::task::Task;

pub(super) async fn run(
    shared: Arc<WorkerContext>,
    leased: LeasedTask,
    holding: Holding,
    slot: Option<Slot>,
    reports: mpsc::UnboundedSender<PendingOutcome>,
) {
    let lost = holding.lease.lost.clone();
    let (outcome, handed_back) = tokio::select! {
        biased;
        () = lost.cancelled() => return lose(&shared, &holding),
        () = shared.abandon.cancelled() => (hand_back(&holding), true),
        // Without a slot it cannot run here.
        () = std::future::ready(()), if slot.is_none() => (hand_back(&holding), true),
        outcome = attempt(&shared, leased, &holding) => (outcome, false),
    };
    let outcome = Outcome { log: holding.lease.control.take_log(), ..outcome };
    // The slot is free for the next task while the report is on its way.
    drop(slot);
    // The reporter outlives the attempts, except when the worker itself was dropped; then the lease ends by itself.
    let _ = reports.send(PendingOutcome { outcome, holding, handed_back });
}

fn lose(shared: &WorkerContext, holding: &Holding) {
    shared.held.release(holding);
    shared.tally.lost();
    tracing::warn!(
        task = holding.lease.reference,
        "the lease was lost while the task ran; its handler was dropped"
    );
}

async fn attempt(shared: &WorkerContext, leased: LeasedTask, holding: &Holding) -> Outcome {
    let limit_ms = leased.timeout_ms.and_then(|ms| u64::try_from(ms).ok());
    let lease = &holding.lease;
    let task = Task::new(leased, lease.control.clone());
    let handled = shared.handlers.run(task, &lease.token);
    let Some(limit_ms) = limit_ms else { return handled.await };
    tokio::select! {
        outcome = handled => outcome,
        () = sleep(Duration::from_millis(limit_ms)) => {
            let mut outcome = Outcome::new(&lease.reference, &lease.token, OutcomeKind::Failed);
            say(&mut outcome, OutcomeKind::Failed, &format!("ran longer than its timeout of {}", in_words(i64::try_from(limit_ms).unwrap_or(i64::MAX))));
            outcome
        }
    }
}

/// Due again immediately, and the attempt does not count.
fn hand_back(holding: &Holding) -> Outcome {
    let mut outcome = Outcome::new(&holding.lease.reference, &holding.lease.token, OutcomeKind::Snooze);
    outcome.retry_after_ms = Some(0);
    outcome
}
