//! What can be said of reports of executors without asking anybody: whose they are, what is not known of them, and what is answered
//! then. Knows no engine.

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

/// Its lease said so: that it is of one, and of which.
pub(crate) fn workflow_of(outcome: &Outcome) -> Option<Option<WorkflowId>> {
    let token = outcome.token.parse::<Token>().ok().filter(|token| token.is_of_workflow)?;
    Some(token.workflow.map(WorkflowId))
}

/// What it holds of what its executor holds at most, if its lease was made for one that says so.
pub(crate) fn held_by(outcome: &Outcome) -> Option<Member> {
    let token = outcome.token.parse::<Token>().ok().filter(|token| token.is_held)?;
    Some(Member { id: outcome.r#ref.parse::<TaskRef>().ok()?.id, fence: token.fence })
}

/// None of those that were asked for has an answer: the call is refused as a whole.
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
    /// Its database does not answer whether the token does.
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

/// Puts what became of a report into its receipt. Answers the error where that is not known. `is_heard`: the lines that came with
/// the report are kept already.
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

/// Where it is not known yet whether a token reaches its task, what is said waits with the report.
pub(crate) fn wait_with_reports(said: &mut Vec<(usize, Beat)>, reports: &mut [(usize, Submission)]) {
    let waits = |nth: usize| reports.iter().any(|(report, its)| *report == nth && its.within.is_some());
    let (waiting, others) = std::mem::take(said).into_iter().partition(|(nth, _)| waits(*nth));
    *said = others;
    go_with_reports(waiting, reports);
}

/// What the store did not hear goes with the reports.
pub(crate) fn go_with_reports(said: Vec<(usize, Beat)>, reports: &mut [(usize, Submission)]) {
    let mut said: HashMap<usize, Beat> = said.into_iter().collect();
    for (nth, submission) in reports {
        submission.words = said.remove(nth).or_else(|| submission.words.take());
    }
}
