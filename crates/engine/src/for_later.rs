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

mod beats;
mod calls;
pub(crate) mod hand_over;
mod lease;
pub(crate) mod record;
pub(crate) mod state;
mod written;

pub(crate) use beats::extend_each;

use crate::{answer::Settled, core::Core, pipeline::outcome};
use futures_util::FutureExt as _;
use lease::JournalledLease;
use punctual_contract::{
    Error, Happened, Journal,
    journal::{AttemptKey, JournalError, Kept, KeptRecord},
    store::Beat,
};
use punctual_domain::{place::TaskRef, task::Task};
use record::Submitted;
use std::{future::Future, sync::Arc, time::Duration};
use tokio::time::{Instant, timeout};
use written::WaitingLease;

/// Between two looks whether a database is back.
pub(crate) const PERIOD: Duration = Duration::from_millis(200);
/// Whoever reports outcomes is answered by then, by the store or for later.
const STORE_ANSWERS_WITHIN: Duration = Duration::from_millis(2_500);
/// To tell a record that cannot be applied from a database that does not answer.
const LOOK_WITHIN: Duration = Duration::from_secs(1);
/// Where so many outcomes were tried one by one, and the database has taken none, the others are not tried.
const ALONE_MAX: usize = 20;
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
    for (report, answer) in reports.iter().zip(&mut answers) {
        if hand_over::is_refused(core, report.key()) {
            *answer = Some(Ok(Settled::Stale));
        }
    }
    let asks_store = |report: &Submitted| {
        let record::Submission { words, within, report: it, .. } = &report.submission;
        let part = core.store.part_of(it.place.partition);
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
            Some(Err(_)) => state.goes_away(part),
            Some(Ok(Settled::Accepted)) => state.takes(part),
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
    core.live.lock().forget_for_later(core.now());
    let mut run = Run {
        core,
        journal,
        silent: Vec::new(),
        looked: Vec::new(),
        refused: Vec::new(),
        settled: 0,
        failed: None,
    };
    let mut after = 0;
    loop {
        let read = journal.waiting(after, PAGE_BYTES).await;
        let page = read.map_err(|error| Error::did_not_happen("read the journal", error.to_string()))?;
        let Some(last) = page.last() else { break };
        after = last.number;
        run.page(page).await;
    }
    journal.done(run.refused.iter().map(|(number, _)| *number).collect()).await;
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
    /// Those that were away and have answered a look in this pass.
    looked: Vec<usize>,
    /// Leases that the store has refused, by the numbers of their records.
    refused: Vec<(u64, AttemptKey)>,
    settled: usize,
    failed: Option<Error>,
}

type Waiting = (u64, Submitted);

impl Run<'_> {
    async fn page(&mut self, page: Vec<KeptRecord>) {
        let (leases, outcomes): (Vec<_>, Vec<_>) =
            page.into_iter().partition(|record| record.key.is_of_hand_over());
        self.leases_of_page(leases).await;
        self.outcomes_of_page(outcomes).await;
    }

    /// Before the outcomes of their attempts, which stand behind them.
    async fn leases_of_page(&mut self, page: Vec<KeptRecord>) {
        let mut parts: Vec<(usize, Vec<WaitingLease>)> = Vec::new();
        for KeptRecord { number, key, body } in page {
            let Some(lease) = JournalledLease::read(&body) else {
                self.is_not_understood(key);
                continue;
            };
            let part = self.core.store.part_of(lease.place.partition);
            match parts.iter_mut().find(|(known, _)| *known == part) {
                Some((_, waiting)) => waiting.push((number, lease)),
                None => parts.push((part, vec![(number, lease)])),
            }
        }
        for (part, waiting) in parts {
            let Some(place) = waiting.first().map(|(_, lease)| lease.place) else { continue };
            self.know_again(&waiting);
            if !self.answers(part, place).await {
                continue;
            }
            if let Err(error) = self.leases(waiting).await {
                self.failed = Some(error);
            }
        }
    }

    /// A database that was away is asked for something small first.
    async fn answers(&mut self, part: usize, place: TaskRef) -> bool {
        if self.silent.contains(&part) {
            return false;
        }
        let state = &self.core.maintenance.for_later;
        if self.looked.contains(&part) || !(state.is_away(part) || state.leases_nothing(part)) {
            return true;
        }
        match timeout(LOOK_WITHIN, self.core.store.read(&[place])).await {
            Ok(Ok(_)) => {
                self.looked.push(part);
                true
            }
            Ok(Err(error)) => {
                self.is_silent(part, error);
                false
            }
            Err(_) => {
                let silent = Error::may_have_happened(DOING, "the database has not answered in time");
                self.is_silent(part, silent);
                false
            }
        }
    }

    fn is_silent(&mut self, part: usize, error: Error) {
        let state = &self.core.maintenance.for_later;
        state.goes_away(part);
        state.stops_leasing(part);
        self.silent.push(part);
        self.failed = Some(error);
    }

    fn is_not_understood(&self, key: AttemptKey) {
        if self.core.maintenance.for_later.failed_alone(key) {
            let AttemptKey { task, fence } = key;
            tracing::error!(task, fence, "a record in the journal is of a later release, and stays there");
        }
    }

    async fn outcomes_of_page(&mut self, page: Vec<KeptRecord>) {
        let (mut parts, mut stale): (Vec<(usize, Vec<Waiting>)>, _) = (Vec::new(), Vec::new());
        for KeptRecord { number, key, body } in page {
            if self.refused.iter().any(|(_, refused)| *refused == key)
                || hand_over::is_refused(self.core, key)
            {
                stale.push(number);
                continue;
            }
            // Its lease is made first.
            if hand_over::is_for_later(self.core, key) {
                continue;
            }
            let Some(report) = Submitted::read(&body) else {
                self.is_not_understood(key);
                continue;
            };
            let part = self.core.store.part_of(report.submission.report.place.partition);
            match parts.iter_mut().find(|(known, _)| *known == part) {
                Some((_, waiting)) => waiting.push((number, report)),
                None => parts.push((part, vec![(number, report)])),
            }
        }
        self.core.maintenance.for_later.count_applied(0, stale.len());
        self.journal.done(stale).await;
        for (part, waiting) in parts {
            let Some(place) = waiting.first().map(|(_, report)| report.submission.report.place) else {
                continue;
            };
            if self.answers(part, place).await {
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
        let (mut applied, mut failed) = (0, Vec::new());
        for one in waiting {
            match self.apply(vec![one]).await {
                Ok(()) => applied += 1,
                Err((error, one)) => {
                    failed.extend(one.iter().map(|(_, report)| report.key()));
                    self.failed = Some(error);
                }
            }
            if applied == 0 && failed.len() == ALONE_MAX {
                // It reads, and takes nothing: none of these is at fault.
                self.silent.push(part);
                return;
            }
        }
        // Where nothing is taken (read only, a full disk), no outcome is at fault, and each keeps its lease from ending.
        let state = &self.core.maintenance.for_later;
        if !state.has_taken(part) && applied == 0 {
            return;
        }
        for key in failed {
            if state.failed_alone(key) {
                let AttemptKey { task, fence } = key;
                tracing::warn!(task, fence, "an outcome in the journal cannot be applied; it is tried again");
            }
        }
    }

    /// All of them, or the error and those that wait still.
    async fn apply(&mut self, waiting: Vec<Waiting>) -> Result<(), (Error, Vec<Waiting>)> {
        let settled = match apply(self.core, waiting.iter().map(|(_, report)| report)).await {
            Ok(settled) => settled,
            Err(error) => return Err((error, waiting)),
        };
        let (waiting, settled) = self.without_early(waiting, settled).await;
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
