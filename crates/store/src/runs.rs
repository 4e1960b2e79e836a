//! The common code of both back ends for schedules, runs and bulk operations: their text and codes, and the ends of
//! pages.

use punctual_contract::schedules::{NewRun, Run, RunTask};
use punctual_domain::{
    schedule::{Outcome, RunKind},
    state::State,
    time::Millis,
};
use serde::Serialize;

/// The maximum number of rows under one instant beyond a page: kinds, outcomes and revisions.
const UNDER_ONE_INSTANT: usize = 64;

pub(crate) fn text(body: &impl Serialize) -> String {
    serde_json::to_string(body).expect("maps have text keys, and numbers are finite")
}

/// Bit n for the state with code n.
pub(crate) fn bits(states: &[State]) -> i64 {
    states.iter().fold(0, |all, state| all | (1 << state.code()))
}

/// Returns `None` if there is no such kind, or no such outcome.
pub(crate) fn of_codes((kind, outcome): (u8, u8)) -> Option<(RunKind, Outcome)> {
    RunKind::from_code(kind).zip(Outcome::from_code(outcome))
}

/// Created, and its task is not made yet.
pub(crate) fn unsettled_at(run: &NewRun, now: Millis) -> Option<i64> {
    (run.outcome == Outcome::Created).then_some(now.0)
}

/// The task of a row that was found, with the reference of its task.
pub(crate) fn task(found: Option<Option<String>>) -> RunTask {
    match found {
        Some(Some(task_ref)) => RunTask::Made(task_ref),
        Some(None) => RunTask::Owed,
        None => RunTask::Unknown,
    }
}

/// Rows to read for a page.
pub(crate) const fn fetched(limit: usize) -> usize {
    limit.saturating_add(UNDER_ONE_INSTANT)
}

/// The page: up to where an instant ends.
pub(crate) fn page(mut runs: Vec<Run>, limit: usize) -> Vec<Run> {
    let last = limit.checked_sub(1).and_then(|difference| runs.get(difference)).map(|run| run.key.at);
    let beyond = runs.iter().skip(limit).take_while(|run| Some(run.key.at) == last).count();
    runs.truncate(limit.saturating_add(beyond));
    runs
}
