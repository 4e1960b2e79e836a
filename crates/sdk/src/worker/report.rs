//! Reporting: gathers outcomes briefly and sends them together. No outcome is dropped while it can still
//! count: the server may be unavailable for longer than a lease and accept it nevertheless afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_protocol::{Outcome, OutcomeKind, OutcomeReceipt, OutcomeStatus};
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, sleep_until, timeout_at};

use super::held::Holding;
use super::{Worked, WorkerContext};
use crate::backoff::Backoff;
use crate::error::Error;
use crate::handlers::say;

/// Outcomes of one report.
const REPORT_MAX: usize = 500;

/// A lease that ended this many lease times ago without a word from the server is hopeless.
const HOPELESS_AFTER_LEASES: u32 = 10;

/// An outcome on its way.
#[derive(Debug)]
pub(super) struct PendingOutcome {
    pub(super) outcome: Outcome,
    pub(super) holding: Holding,
    pub(super) handed_back: bool,
}

/// Runs until every sender is gone and all is delivered. An outcome that the server, or one of its databases,
/// could not accept is sent again separately: the others do not wait for it.
pub(super) async fn run(shared: Arc<WorkerContext>, mut inbox: mpsc::UnboundedReceiver<PendingOutcome>) {
    let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
    let (mut left, mut again_at) = (Vec::new(), Instant::now());
    loop {
        let first = tokio::select! {
            first = inbox.recv() => first,
            () = sleep_until(again_at), if !left.is_empty() => None,
        };
        let mut batch: Vec<PendingOutcome> = first.into_iter().collect();
        if batch.is_empty() {
            if left.is_empty() {
                return;
            }
            // It is time for a retry, or no other outcome is pending.
            sleep_until(again_at).await;
            batch = left.drain(..left.len().min(REPORT_MAX)).collect();
        } else {
            gather(&mut inbox, &mut batch, shared.options.gather).await;
        }
        let unavailable = deliver(&shared, batch).await;
        if !unavailable.is_empty() {
            again_at = Instant::now() + backoff.next();
            left.extend(unavailable);
        } else if left.is_empty() {
            backoff.reset();
        }
    }
}

async fn gather(
    inbox: &mut mpsc::UnboundedReceiver<PendingOutcome>,
    batch: &mut Vec<PendingOutcome>,
    patience: Duration,
) {
    let until = Instant::now() + patience;
    while batch.len() < REPORT_MAX {
        match timeout_at(until, inbox.recv()).await {
            Ok(Some(report)) => batch.push(report),
            Ok(None) | Err(_) => return,
        }
    }
}

/// Sends until each outcome has its receipt, is hopeless, or cannot be accepted now. Returns the last ones:
/// the server, or their database, does not answer.
async fn deliver(shared: &WorkerContext, batch: Vec<PendingOutcome>) -> Vec<PendingOutcome> {
    let (mut parts, mut unavailable) = (vec![batch], Vec::new());
    while let Some(part) = parts.pop() {
        let part = still_ours(shared, part);
        if part.is_empty() {
            continue;
        }
        let outcomes: Vec<&Outcome> = part.iter().map(|report| &report.outcome).collect();
        match shared.client.report_each(Some(&shared.options.executor), &outcomes).await {
            Ok(receipts) => parts.extend(apply_receipts(shared, part, &receipts, &mut unavailable)),
            Err(error) if is_about_the_content(&error) => parts.extend(narrow(shared, part, &error)),
            Err(error) => {
                tracing::warn!(outcomes = part.len(), error = %error, "cannot report outcomes, trying again");
                unavailable.extend(part);
            }
        }
    }
    unavailable
}

/// Removes outcomes whose lease was lost or ended long ago.
fn still_ours(shared: &WorkerContext, part: Vec<PendingOutcome>) -> Vec<PendingOutcome> {
    let hopeless = Duration::from_millis(shared.options.lease_ms) * HOPELESS_AFTER_LEASES;
    let (ours, gone): (Vec<_>, Vec<_>) = part.into_iter().partition(|report| {
        let lease = &report.holding.lease;
        !lease.lost.is_cancelled() && lease.ended_for() < hopeless
    });
    gone.into_iter().for_each(|report| give_up(shared, &report, "its lease is over"));
    ours
}

fn give_up(shared: &WorkerContext, report: &PendingOutcome, why: &str) {
    shared.held.release(&report.holding);
    let lost = report.holding.lease.lost.is_cancelled();
    if lost {
        shared.tally.lost();
    } else {
        shared.tally.unreported(1);
    }
    tracing::error!(task = report.outcome.r#ref, lost, error = why, "an outcome was given up");
}

/// Applies the receipts; outcomes that the server could not understand are returned in an understandable
/// form.
fn apply_receipts(
    shared: &WorkerContext,
    part: Vec<PendingOutcome>,
    receipts: &[OutcomeReceipt],
    unavailable: &mut Vec<PendingOutcome>,
) -> Option<Vec<PendingOutcome>> {
    let mut again = Vec::new();
    for (report, receipt) in part.into_iter().zip(receipts) {
        match receipt.status {
            // It is durable, and counts when its database is back.
            OutcomeStatus::Accepted | OutcomeStatus::AcceptedForLater => shared.tally.accepted(&report),
            OutcomeStatus::Stale => shared.tally.stale(),
            OutcomeStatus::Invalid => {
                let why = receipt.error.as_ref().map_or_else(String::new, ToString::to_string);
                again.extend(reword(shared, report, &why));
                continue;
            }
            OutcomeStatus::Unavailable => {
                unavailable.push(report);
                continue;
            }
        }
        shared.held.release(&report.holding);
    }
    (!again.is_empty()).then_some(again)
}

/// Halves a report that the server refuses for its content, down to the faulty outcome.
fn narrow(shared: &WorkerContext, mut part: Vec<PendingOutcome>, error: &Error) -> Vec<Vec<PendingOutcome>> {
    if part.len() > 1 {
        let half = part.split_off(part.len() / 2);
        return vec![half, part];
    }
    part.pop()
        .and_then(|report| reword(shared, report, &error.to_string()))
        .map(|report| vec![report])
        .into_iter()
        .collect()
}

/// An outcome that the server refuses becomes a failed attempt that says so; if it refuses that too, it is given up.
fn reword(shared: &WorkerContext, mut report: PendingOutcome, why: &str) -> Option<PendingOutcome> {
    const MARK: &str = "the server refused the outcome: ";
    if report.outcome.status_msg.as_ref().is_some_and(|message| message.starts_with(MARK)) {
        give_up(shared, &report, why);
        return None;
    }
    report.outcome.retry_after_ms = None;
    say(&mut report.outcome, OutcomeKind::Failed, &format!("{MARK}{why}"));
    Some(report)
}

/// Such a refusal stays the same however often it is sent.
fn is_about_the_content(error: &Error) -> bool {
    matches!(error, Error::Refused(problem) if matches!(problem.status, 400 | 413 | 422))
}

/// Counts the results of tasks.
#[derive(Debug, Default)]
pub(super) struct OutcomeTally {
    succeeded: AtomicU64,
    failed: AtomicU64,
    snoozed: AtomicU64,
    rejected: AtomicU64,
    handed_back: AtomicU64,
    lost: AtomicU64,
    stale: AtomicU64,
    unreported: AtomicU64,
}

impl OutcomeTally {
    fn accepted(&self, report: &PendingOutcome) {
        let counter = match report.outcome.outcome {
            _ if report.handed_back => &self.handed_back,
            OutcomeKind::Succeeded => &self.succeeded,
            OutcomeKind::Failed => &self.failed,
            OutcomeKind::Snooze => &self.snoozed,
            OutcomeKind::Reject => &self.rejected,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn stale(&self) {
        self.stale.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn unreported(&self, count: usize) {
        self.unreported.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn total(&self) -> Worked {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Worked {
            succeeded: read(&self.succeeded),
            failed: read(&self.failed),
            snoozed: read(&self.snoozed),
            rejected: read(&self.rejected),
            handed_back: read(&self.handed_back),
            lost: read(&self.lost),
            stale: read(&self.stale),
            unreported: read(&self.unreported),
        }
    }
}
