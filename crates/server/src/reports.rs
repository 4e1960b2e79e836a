//! Decisions about reports of executors without other data: their workflow, the unknown results, and the answer then.
//! Independent of the engine.

use crate::refusal::Refusal;
use punctual_contract::{
    Error as BackendError, Happened, limiter::Member, store::Beat, workflows::WorkflowId,
};
use punctual_domain::place::TaskRef;
use punctual_engine::{Reported, Submission};
use punctual_protocol::{Outcome, OutcomeReceipt, OutcomeStatus, Token};
use std::collections::HashMap;

pub(crate) fn say_unavailable(receipts: &mut [OutcomeReceipt], unknown: Vec<(usize, BackendError)>) {
    for (nth, error) in unknown {
        if let Some(receipt) = receipts.get_mut(nth) {
            (receipt.status, receipt.error) =
                (OutcomeStatus::Unavailable, Some(Refusal::quietly(&error).into_problem()));
        }
    }
}

/// The workflow by the report's lease. The outer `None` is a task of no workflow, the inner one an unknown workflow.
pub(crate) fn workflow_of(outcome: &Outcome) -> Option<Option<WorkflowId>> {
    let token = outcome.token.parse::<Token>().ok().filter(|token| token.is_of_workflow)?;
    Some(token.workflow.map(WorkflowId))
}

/// The member of the executor's concurrency, if the lease was made for an executor that declares one.
pub(crate) fn held_by(outcome: &Outcome) -> Option<Member> {
    let token = outcome.token.parse::<Token>().ok().filter(|token| token.is_held)?;
    Some(Member { id: outcome.r#ref.parse::<TaskRef>().ok()?.id, fence: token.fence })
}

/// Refuses the complete call if no report has an answer.
pub(crate) fn nothing_is_known(unknown: &[(usize, BackendError)], asked: usize) -> Option<Refusal> {
    let (_, first) = unknown.first()?;
    if unknown.len() < asked {
        tracing::warn!(error = %first, items = unknown.len(), asked, "a database does not answer; the others' items are answered");
        return None;
    }
    let may_have_happened = |(_, error): &&(usize, BackendError)| error.happened == Happened::Maybe;
    Some(unknown.iter().find(may_have_happened).map_or(first, |(_, error)| error).clone().into())
}

/// Why what an executor says of a task does not count.
pub(crate) enum Barred {
    /// The token does not reach it: the lease counts as unknown.
    Beyond,
    /// The task's database did not answer if the token reaches the task.
    Unknown(BackendError),
}

impl Barred {
    pub(crate) const fn unknown(&self) -> Option<&BackendError> {
        match self {
            Self::Beyond => None,
            Self::Unknown(error) => Some(error),
        }
    }
}

/// Sets the receipt of a report to its result. Returns the error if the result is unknown. `is_heard` states that the
/// lines that came with the report are stored already.
pub(crate) fn set_receipt(
    receipt: Option<&mut OutcomeReceipt>,
    recorded: Result<Reported, BackendError>,
    is_heard: bool,
) -> Option<BackendError> {
    match (recorded, receipt) {
        (Ok(Reported::Accepted), Some(receipt)) => receipt.status = OutcomeStatus::Accepted,
        (Ok(Reported::ForLater), Some(receipt)) => receipt.status = OutcomeStatus::AcceptedForLater,
        (Err(error), _) => return Some(if is_heard { error.after_a_change() } else { error }),
        _ => {}
    }
    None
}

/// Attaches log lines to the reports of tasks for which it is not known yet that the token reaches them.
pub(crate) fn wait_with_reports(said: &mut Vec<(usize, Beat)>, reports: &mut [(usize, Submission)]) {
    let waits = |nth: usize| reports.iter().any(|(report, its)| *report == nth && its.within.is_some());
    let (waiting, others) = std::mem::take(said).into_iter().partition(|(nth, _)| waits(*nth));
    *said = others;
    go_with_reports(waiting, reports);
}

/// Attaches log lines that the store did not accept to the reports.
pub(crate) fn go_with_reports(said: Vec<(usize, Beat)>, reports: &mut [(usize, Submission)]) {
    let mut said: HashMap<usize, Beat> = said.into_iter().collect();
    for (nth, submission) in reports {
        submission.words = said.remove(nth).or_else(|| submission.words.take());
    }
}
