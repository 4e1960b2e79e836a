//! Outcomes while their database does not answer. They are made durable in this engine's own journal and
//! acknowledged as accepted for later, so that a short outage does not cause finished tasks to run again.
//! Must not decide anything about a task: an outcome that is applied later passes the same fence as any
//! other.
//!
//! Order of steps, and what a crash between two of them leaves:
//!
//! 1. The store is asked. It fails or does not answer in time; it may have written the outcome nevertheless.
//! 2. The outcome is written to the journal and synced. Crash before: it is not acknowledged, and its
//!    executor reports again, to any engine. A full or unwritable journal refuses: nothing is acknowledged.
//! 3. It is acknowledged. Crash: the next start of this engine, or of another in the same directory, finds it.
//! 4. The store returns: the outcome is applied, for its task and fence. If step 1 had written it, or another
//!    engine has ended the lease meanwhile, the fence refuses it. Crash before: as 3.
//! 5. The record is done. Crash before: it is applied once more, and the fence refuses that.
//!
//! The lease expires in the store during the outage. This engine does not end leases of attempts whose
//! outcome it holds (`holds`, `maintenance::leases`). Another engine may, from 2 s after it saw the database
//! return; then the outcome is stale, and the task runs again: at least once. Waiting outcomes are applied
//! within a fifth of a second, for each database separately (`pass`): a silent database delays no other's
//! outcomes.

mod beats;
mod calls;
pub(crate) mod changed;
pub(crate) mod hand_over;
mod identity;
pub(crate) mod inserts;
mod lease;
mod pass;
mod patience;
pub(crate) mod record;
pub(crate) mod state;
mod written;

pub(crate) use beats::extend_each;

use crate::{answer::Reported, core::Core, parts, pipeline::outcome};
use patience::{DOING, in_time, silent};
use punctual_contract::{
    Error, Happened, Journal,
    journal::{AppendResult, JournalError},
};
use record::Submitted;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// The period in which the engine checks whether a database has returned.
pub(crate) const PERIOD: Duration = Duration::from_millis(200);

/// Answers in the order of the reports.
pub(crate) async fn record_outcomes(
    core: &Arc<Core>,
    reports: Vec<Submitted>,
) -> Vec<Result<Reported, Error>> {
    let state = &core.maintenance.for_later;
    let Some(journal) = state.journal() else {
        return outcome::record_outcomes(core, reports.iter().map(Submitted::filed).collect()).await;
    };
    let mut answers: Vec<Option<Result<Reported, Error>>> = reports.iter().map(|_| None).collect();
    for (report, answer) in reports.iter().zip(&mut answers) {
        if hand_over::is_refused(core, report.key()) {
            *answer = Some(Ok(Reported::Stale));
        }
    }
    let asks_store = |report: &Submitted| {
        let record::Submission { words, within, report: submission, .. } = &report.submission;
        let part = core.store.part_of(submission.place.partition);
        words.is_none()
            && within.is_none()
            && !state.is_away(part)
            && !hand_over::is_for_later(core, report.key())
            && journal.digest_of(report.key()).is_none()
    };
    let open = reports.iter().zip(&answers).enumerate().filter(|(_, (_, answer))| answer.is_none());
    let asked: Vec<usize> = open.filter(|(_, (report, _))| asks_store(report)).map(|(nth, _)| nth).collect();
    let filed = asked.iter().filter_map(|nth| reports.get(*nth)).map(Submitted::filed).collect();
    for (nth, answer) in asked.iter().zip(ask_store(core, filed).await) {
        if let Some(place) = answers.get_mut(*nth) {
            *place = Some(answer);
        }
    }
    let (mut kept, mut numbers) = (Vec::new(), Vec::new());
    for ((nth, report), answer) in reports.into_iter().enumerate().zip(&answers) {
        let part = core.store.part_of(report.submission.report.place.partition);
        match answer {
            Some(Err(_)) => state.mark_unavailable(part),
            Some(Ok(Reported::Accepted)) => state.takes(part),
            _ => {}
        }
        if !matches!(answer, Some(Ok(_))) {
            numbers.push(nth);
            kept.push(report);
        }
    }
    let why: Vec<Option<Error>> =
        numbers.iter().map(|nth| answers.get(*nth)?.as_ref()?.as_ref().err().cloned()).collect();
    for (nth, answer) in numbers.into_iter().zip(keep(core, journal, &kept, why).await) {
        if let Some(place) = answers.get_mut(nth) {
            *place = Some(answer);
        }
    }
    let lost = || Err(Error::may_have_happened(DOING, "the answer was lost"));
    answers.into_iter().map(|answer| answer.unwrap_or_else(lost)).collect()
}

/// A request that was not answered in time continues, and each of its reports is an error.
async fn ask_store(core: &Arc<Core>, filed: Vec<outcome::Filed>) -> Vec<Result<Reported, Error>> {
    if filed.is_empty() {
        return Vec::new();
    }
    let count = filed.len();
    let asking = Arc::clone(core);
    let answers = in_time(core, async move { outcome::record_outcomes(&asking, filed).await }).await;
    answers.unwrap_or_else(|| (0..count).map(|_| Err(silent())).collect())
}

/// `why`: the store's answer to each, if it was asked.
async fn keep(
    core: &Core,
    journal: &Arc<dyn Journal>,
    reports: &[Submitted],
    why: Vec<Option<Error>>,
) -> Vec<Result<Reported, Error>> {
    if reports.is_empty() {
        return Vec::new();
    }
    let state = &core.maintenance.for_later;
    let records: Option<Vec<_>> = reports.iter().map(Submitted::record).collect();
    let kept = match records {
        Some(records) => journal.keep(records).await,
        None => Err(JournalError::Unwritable("not what an executor reports".to_owned())),
    };
    match kept {
        Ok(kept) => {
            state.count_kept(kept.iter().filter(|kept| **kept == AppendResult::New).count());
            kept.into_iter()
                .map(|kept| {
                    Ok(if kept == AppendResult::Otherwise { Reported::Stale } else { Reported::ForLater })
                })
                .collect()
        }
        Err(refused) => {
            state.count_refused(reports.len());
            tracing::warn!(error = %refused, outcomes = reports.len(), "outcomes are not taken for later");
            why.into_iter().map(|why| Err(both(why, &refused))).collect()
        }
    }
}

fn both(why: Option<Error>, refused: &JournalError) -> Error {
    match why {
        Some(Error { happened: Happened::Maybe, source, .. }) => {
            Error::may_have_happened(DOING, format!("{source}; {refused}"))
        }
        Some(Error { source, .. }) => Error::did_not_happen(DOING, format!("{source}; {refused}")),
        None => Error::did_not_happen(DOING, refused.to_string()),
    }
}

/// Applies waiting outcomes, each database separately: a silent one delays no other. Returns how many are
/// decided.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    let state = &core.maintenance.for_later;
    let Some(journal) = state.journal() else { return Ok(0) };
    let Some(_turn) = state.begin() else { return Ok(0) };
    if state.looks_around(Instant::now()) {
        match journal.take_over().await {
            Ok(0) => {}
            Ok(outcomes) => {
                state.reads_anew();
                tracing::info!(outcomes, "outcomes of engines that are gone are applied by this one");
            }
            Err(error) => tracing::warn!(%error, "journals of other engines could not be looked at"),
        }
    }
    core.live.lock().forget_for_later(core.now());
    parts::each(core, "outcomes_for_later", parts::PATIENCE, pass::run).await
}
