//! Outcomes while their database does not answer: they are made durable in this engine's own journal and acknowledged as accepted
//! for later, so that what has been executed is not executed again for a database that was away for a minute. Must not decide
//! anything about a task: what is applied later passes the same fence as any other outcome.
//!
//! Order of steps, and what a crash between two of them leaves:
//!
//! 1. The store is asked. It fails, or says nothing in time; it may have written the outcome all the same.
//! 2. The outcome is kept in the journal and synced. Crash before: it is not acknowledged, and its executor reports again, to any
//!    engine. A journal that is full, or cannot be written, refuses: nothing is acknowledged.
//! 3. It is acknowledged. Crash: the next start of this engine, or of another in the same directory, finds it.
//! 4. The store is back: the outcome is applied, for its task and fence. If step 1 had written it, or another engine has ended the
//!    lease meanwhile, the fence refuses it. Crash before: as 3.
//! 5. The record is done. Crash before: it is applied once more, and the fence refuses that.
//!
//! The lease ends in the store while it is away. This engine ends no lease of an attempt whose outcome it holds (`holds`,
//! `maintenance::leases`). Another engine may, from 2 s on after it saw the database return; the outcome is stale then, and the task
//! runs again: at least once. What waits is applied within a fifth of a second.

mod calls;
pub(crate) mod record;
pub(crate) mod state;

use crate::{answer::Settled, core::Core, parts, pipeline::outcome};
use futures_util::FutureExt as _;
use punctual_contract::{
    Error, Happened, Journal,
    journal::{AttemptKey, JournalError, Kept, KeptRecord},
    store::{Beat, Extended},
};
use punctual_domain::{place::TaskRef, task::Task};
use record::Submitted;
use std::{future::Future, sync::Arc, time::Duration};
use tokio::time::{Instant, timeout};

/// Between two looks whether a database is back.
pub(crate) const PERIOD: Duration = Duration::from_millis(200);
/// Whoever reports outcomes is answered by then, by the store or for later.
const STORE_ANSWERS_WITHIN: Duration = Duration::from_millis(2_500);
/// To tell a record that cannot be applied from a database that does not answer.
const LOOK_WITHIN: Duration = Duration::from_secs(1);
/// Of the journal, applied in one step.
const PAGE_BYTES: usize = 256 << 10;
const DOING: &str = "report outcomes";

/// Answers in the order of the reports.
pub(crate) async fn settle(core: &Arc<Core>, reports: Vec<Submitted>) -> Vec<Result<Settled, Error>> {
    let state = &core.maintenance.for_later;
    let Some(journal) = state.journal() else {
        return outcome::settle(core, reports.iter().map(Submitted::filed).collect()).await;
    };
    let mut answers: Vec<Option<Result<Settled, Error>>> = reports.iter().map(|_| None).collect();
    let asks_store = |report: &Submitted| {
        let record::Submission { words, within, report: it, .. } = &report.submission;
        let part = core.store.part_of(it.place.partition);
        words.is_none()
            && within.is_none()
            && !state.is_away(part)
            && journal.digest_of(report.key()).is_none()
    };
    let asked: Vec<usize> =
        reports.iter().enumerate().filter(|(_, report)| asks_store(report)).map(|(nth, _)| nth).collect();
    let filed = asked.iter().filter_map(|nth| reports.get(*nth)).map(Submitted::filed).collect();
    for (nth, answer) in asked.iter().zip(ask_store(core, filed).await) {
        if let Some(place) = answers.get_mut(*nth) {
            *place = Some(answer);
        }
    }
    let (mut kept, mut numbers) = (Vec::new(), Vec::new());
    for ((nth, report), answer) in reports.into_iter().enumerate().zip(&answers) {
        if matches!(answer, Some(Err(_))) {
            state.goes_away(core.store.part_of(report.submission.report.place.partition));
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

/// Signs of life that come with outcomes: those of databases that are known to be away are not asked about, and the others answer
/// in time, or are errors and go on.
async fn hear_each(core: &Arc<Core>, beats: Vec<Beat>) -> Vec<Result<Extended, Error>> {
    let state = &core.maintenance.for_later;
    let silent = || Err(Error::may_have_happened("extend leases", "the database has not answered in time"));
    if beats.iter().all(|beat| state.is_away(core.store.part_of(beat.place.partition))) {
        return beats.iter().map(|_| silent()).collect();
    }
    let count = beats.len();
    let asking = Arc::clone(core);
    let extend = |core: Arc<Core>, beats| async move { core.store.extend(beats, core.now()).await };
    core.live.lock().forget_attempts(beats.iter().map(|beat| (beat.place.id, beat.fence)));
    let asked = async move {
        parts::ask_each(&asking, "extend leases", beats, |beat| beat.place.partition, extend).await
    };
    in_time(core, asked).await.unwrap_or_else(|| (0..count).map(|_| silent()).collect())
}

/// None: it goes on by itself.
async fn in_time<T: Send + 'static>(
    core: &Core,
    asked: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let mut asked = asked.boxed();
    if let Ok(answer) = timeout(STORE_ANSWERS_WITHIN, &mut asked).await {
        return Some(answer);
    }
    core.work.detach(async move { drop(asked.await) });
    None
}

/// What has not been answered in time goes on, and each of its reports is an error.
async fn ask_store(core: &Arc<Core>, filed: Vec<outcome::Filed>) -> Vec<Result<Settled, Error>> {
    if filed.is_empty() {
        return Vec::new();
    }
    let count = filed.len();
    let asking = Arc::clone(core);
    let silent = || Err(Error::may_have_happened(DOING, "the database has not answered in time"));
    let answers = in_time(core, async move { outcome::settle(&asking, filed).await }).await;
    answers.unwrap_or_else(|| (0..count).map(|_| silent()).collect())
}

/// `why`: what the store has said of each, if it was asked.
async fn keep(
    core: &Core,
    journal: &Arc<dyn Journal>,
    reports: &[Submitted],
    why: Vec<Option<Error>>,
) -> Vec<Result<Settled, Error>> {
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
            state.count_kept(kept.iter().filter(|kept| **kept == Kept::New).count());
            kept.into_iter()
                .map(|kept| Ok(if kept == Kept::Otherwise { Settled::Stale } else { Settled::ForLater }))
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

/// Applies what waits, of databases that answer. How many outcomes are settled.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    let state = &core.maintenance.for_later;
    let Some(journal) = state.journal() else { return Ok(0) };
    let Some(_turn) = state.begin() else { return Ok(0) };
    if state.looks_around(Instant::now()) {
        match journal.take_over().await {
            Ok(0) => {}
            Ok(outcomes) => {
                tracing::info!(outcomes, "outcomes of engines that are gone are applied by this one")
            }
            Err(error) => tracing::warn!(%error, "journals of other engines could not be looked at"),
        }
    }
    let mut run = Run { core, journal, silent: Vec::new(), settled: 0, failed: None };
    let mut after = 0;
    loop {
        let read = journal.waiting(after, PAGE_BYTES).await;
        let page = read.map_err(|error| Error::did_not_happen("read the journal", error.to_string()))?;
        let Some(last) = page.last() else { break };
        after = last.number;
        run.page(page).await;
    }
    for part in (0..core.store.parts()).filter(|part| !run.silent.contains(part)) {
        state.is_back(part);
    }
    run.failed.map_or(Ok(run.settled), Err)
}

/// One pass over what waits.
struct Run<'c> {
    core: &'c Arc<Core>,
    journal: &'c Arc<dyn Journal>,
    /// Databases that do not answer: asked once a pass.
    silent: Vec<usize>,
    settled: usize,
    failed: Option<Error>,
}

type Waiting = (u64, Submitted);

impl Run<'_> {
    async fn page(&mut self, page: Vec<KeptRecord>) {
        let mut parts: Vec<(usize, Vec<Waiting>)> = Vec::new();
        for KeptRecord { number, key, body } in page {
            let Some(report) = Submitted::read(&body) else {
                if self.core.maintenance.for_later.failed_alone(key) {
                    let AttemptKey { task, fence } = key;
                    tracing::error!(
                        task,
                        fence,
                        "an outcome in the journal is of a later release, and stays there"
                    );
                }
                continue;
            };
            let part = self.core.store.part_of(report.submission.report.place.partition);
            match parts.iter_mut().find(|(known, _)| *known == part) {
                Some((_, waiting)) => waiting.push((number, report)),
                None => parts.push((part, vec![(number, report)])),
            }
        }
        for (part, waiting) in parts {
            if !self.silent.contains(&part) {
                self.part(part, waiting).await;
            }
        }
    }

    async fn part(&mut self, part: usize, waiting: Vec<Waiting>) {
        let Err((error, waiting)) = self.apply(waiting).await else {
            // Not only when nothing waits: while more comes than is applied, that would never be.
            self.core.maintenance.for_later.is_back(part);
            return;
        };
        let Some((_, first)) = waiting.first() else { return };
        let place = [first.submission.report.place];
        if !matches!(timeout(LOOK_WITHIN, self.core.store.read(&place)).await, Ok(Ok(_))) {
            self.silent.push(part);
            self.failed = Some(error);
            return;
        }
        // It answers: which of them is it that cannot be applied?
        for one in waiting {
            if let Err((error, failed)) = self.apply(vec![one]).await {
                for (_, report) in failed {
                    let key = report.key();
                    if self.core.maintenance.for_later.failed_alone(key) {
                        let AttemptKey { task, fence } = key;
                        tracing::warn!(%error, task, fence, "an outcome in the journal cannot be applied; it is tried again");
                    }
                }
                self.failed = Some(error);
            }
        }
    }

    /// All of them, or the error and those that wait still.
    async fn apply(&mut self, waiting: Vec<Waiting>) -> Result<(), (Error, Vec<Waiting>)> {
        let settled = match apply(self.core, waiting.iter().map(|(_, report)| report)).await {
            Ok(settled) => settled,
            Err(error) => return Err((error, waiting)),
        };
        let state = &self.core.maintenance.for_later;
        let applied = settled.iter().filter(|settled| **settled == Settled::Accepted).count();
        state.count_applied(applied, settled.len() - applied);
        let accepted = waiting.iter().zip(&settled).filter(|(_, settled)| **settled == Settled::Accepted);
        for ((_, report), _) in accepted.filter(|((_, report), _)| report.submission.of_workflow) {
            state.ended(report.submission.report.place);
        }
        self.settled += settled.len();
        state.is_over(waiting.iter().map(|(_, report)| report.key()));
        self.journal.done(waiting.iter().map(|(number, _)| *number).collect()).await;
        Ok(())
    }
}

/// Of one database. Answers in order.
async fn apply<'r>(
    core: &Arc<Core>,
    reports: impl Iterator<Item = &'r Submitted> + Clone,
) -> Result<Vec<Settled>, Error> {
    let barred = barred(core, reports.clone()).await?;
    let reached = reports.clone().filter(|report| !barred.contains(&report.submission.report.place));
    hear(core, reached.clone()).await?;
    let mut answers = outcome::settle(core, reached.map(Submitted::filed).collect()).await.into_iter();
    let is_barred = |report: &Submitted| barred.contains(&report.submission.report.place);
    let lost = || Err(Error::may_have_happened(DOING, "the answer was lost"));
    reports
        .map(
            |report| {
                if is_barred(report) { Ok(Settled::Stale) } else { answers.next().unwrap_or_else(lost) }
            },
        )
        .collect()
}

/// The tasks that the token of whoever reported on them does not reach.
async fn barred(core: &Core, reports: impl Iterator<Item = &Submitted>) -> Result<Vec<TaskRef>, Error> {
    let (places, grants): (Vec<TaskRef>, Vec<_>) = reports
        .filter_map(|report| Some((report.submission.report.place, report.submission.within.as_ref()?)))
        .unzip();
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let tasks: Vec<Option<Task>> = core.store.read(&places).await?;
    let looked_at = places.into_iter().zip(grants).zip(tasks);
    let is_beyond = |task: &Option<Task>, grant: &punctual_domain::access::Grant| {
        task.as_ref().is_some_and(|task| !grant.reaches(&task.ask.queue))
    };
    Ok(looked_at.filter(|((_, grant), task)| is_beyond(task, grant)).map(|((place, _), _)| place).collect())
}

/// What handlers said at last, as of when they said it: their leases may have ended since.
async fn hear(core: &Core, reports: impl Iterator<Item = &Submitted> + Clone) -> Result<(), Error> {
    let beats: Vec<Beat> = reports.clone().filter_map(|report| report.submission.words.clone()).collect();
    let said = reports.filter(|report| report.submission.words.is_some()).map(|report| report.at);
    let Some(first_at) = said.min() else { return Ok(()) };
    core.live.lock().forget_attempts(beats.iter().map(|beat| (beat.place.id, beat.fence)));
    core.store.extend(beats, first_at).await.map(drop)
}
