//! One run over a database's records in the journal: whether it answers, then leases that it does not know,
//! then outcomes. Each call has a time limit. A silent database ends its own run only. Must not apply an
//! outcome before its lease is made.

use super::{
    hand_over,
    lease::{JournalledLease, WaitingLease},
    patience::{DOING, LOOK_WITHIN, asked, in_time, silent},
    record::{Submitted, Waiting},
    state::ReadTo,
};
use crate::{answer::Reported, core::Core, parts, pipeline::outcome};
use punctual_contract::{
    Error, Journal,
    journal::{AttemptKey, KeptRecord},
    store::Beat,
};
use punctual_domain::{access::Grant, place::TaskRef, task::Task, time::Millis};
use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

/// The number of single outcomes after which the others are not tried if the database accepted none of them.
const ALONE_MAX: usize = 20;
/// The maximum size of the part of the journal that is applied in one step.
const PAGE_BYTES: usize = 256 << 10;

pub(super) struct JournalPass<'c> {
    pub(super) core: &'c Arc<Core>,
    pub(super) journal: &'c Arc<dyn Journal>,
    part: usize,
    /// The database is asked nothing more in this run.
    is_silent: bool,
    /// Leases that the store has refused, by the numbers of their records.
    pub(super) refused: Vec<(u64, AttemptKey)>,
    recorded: usize,
    pub(super) failed: Option<Error>,
}

/// Returns how many outcomes are decided.
pub(super) async fn run(core: Arc<Core>, part: usize) -> Result<usize, Error> {
    let state = &core.maintenance.for_later;
    let Some(journal) = state.journal() else { return Ok(0) };
    let (refused, recorded, failed) = Default::default();
    let mut pass = JournalPass { core: &core, journal, part, is_silent: false, refused, recorded, failed };
    if state.is_away(part) || state.leases_nothing(part) {
        pass.look().await;
    }
    let read = pass.pages().await;
    journal.done(pass.refused.iter().map(|(number, _)| *number).collect()).await;
    read?;
    if !pass.is_silent {
        state.mark_available(part);
    }
    pass.failed.map_or(Ok(pass.recorded), Err)
}

impl JournalPass<'_> {
    /// Applies the pages from the first record of this database on.
    async fn pages(&mut self) -> Result<(), Error> {
        let state = &self.core.maintenance.for_later;
        let read = state.read_by(self.part, placement(self.core));
        // A silent database: only unseen records are read, so that the table knows of each lease.
        let mut after = if self.is_silent { read.seen } else { read.passed };
        let (begun_silent, mut first) = (self.is_silent, None);
        loop {
            let page = self.journal.waiting(after, PAGE_BYTES).await;
            let page = page.map_err(|error| Error::did_not_happen("read the journal", error.to_string()))?;
            let Some(last) = page.last() else { break };
            after = last.number;
            let own = self.own(page);
            first = first.or_else(|| own.first());
            self.page(own).await;
        }
        let passed = if begun_silent { read.passed } else { first.map_or(after, |first| first - 1) };
        state.has_read(self.part, ReadTo { passed, seen: after, ..read });
        Ok(())
    }

    /// The run of the first database owns the unreadable records: they do not name their database.
    fn own(&self, page: Vec<KeptRecord>) -> PendingPage {
        let mut own = PendingPage::default();
        let part_of = |place: TaskRef| self.core.store.part_of(place.partition);
        for KeptRecord { number, key, body } in page {
            if key.is_of_hand_over() {
                match JournalledLease::read(&body) {
                    Some(lease) if part_of(lease.place) == self.part => own.leases.push((number, lease)),
                    None if self.part == 0 => own.odd.push((number, key)),
                    _ => {}
                }
                continue;
            }
            match Submitted::read(&body) {
                Some(report) if part_of(report.submission.report.place) == self.part => {
                    own.outcomes.push((number, report));
                }
                None if self.part == 0 => own.odd.push((number, key)),
                _ => {}
            }
        }
        own
    }

    /// Leases precede the outcomes of their attempts, which were written after them.
    async fn page(&mut self, page: PendingPage) {
        page.odd.iter().for_each(|(_, key)| self.is_not_understood(*key));
        self.know_again(&page.leases);
        if !self.is_silent
            && !page.leases.is_empty()
            && let Err(error) = self.leases(page.leases).await
        {
            self.fails(error).await;
        }
        let waiting = self.without_refused(page.outcomes).await;
        if !self.is_silent && !waiting.is_empty() {
            self.outcomes(waiting).await;
        }
    }

    fn is_not_understood(&self, key: AttemptKey) {
        if self.core.maintenance.for_later.failed_alone(key) {
            let AttemptKey { task, fence } = key;
            tracing::error!(task, fence, "a record in the journal is of a later release, and stays there");
        }
    }

    /// Sends a small query. False if the database is silent, or refuses.
    async fn look(&mut self) -> bool {
        let mut partitions = self.core.partitions();
        let Some(partition) = partitions.find(|partition| parts::is_in(self.core, self.part, *partition))
        else {
            return true;
        };
        let nowhere = [TaskRef { partition, due_at: Millis::ZERO, id: 0 }];
        match asked(LOOK_WITHIN, self.core.store.read(&nowhere)).await {
            Ok(_) => true,
            Err(error) => {
                self.is_silent(error);
                false
            }
        }
    }

    fn is_silent(&mut self, error: Error) {
        let state = &self.core.maintenance.for_later;
        state.mark_unavailable(self.part);
        state.stops_leasing(self.part);
        self.is_silent = true;
        self.failed = Some(error);
    }

    /// A call has failed. Whether the database answers others.
    async fn fails(&mut self, error: Error) -> bool {
        let answers = !self.is_silent && self.look().await;
        self.failed = Some(error);
        answers
    }

    /// Removes outcomes of leases that the store has refused, which are stale, and those whose lease must still be
    /// made.
    async fn without_refused(&self, outcomes: Vec<Waiting>) -> Vec<Waiting> {
        let (mut waiting, mut stale) = (Vec::with_capacity(outcomes.len()), Vec::new());
        for (number, report) in outcomes {
            let key = report.key();
            if self.refused.iter().any(|(_, refused)| *refused == key)
                || hand_over::is_refused(self.core, key)
            {
                stale.push(number);
            } else if !hand_over::is_for_later(self.core, key) {
                waiting.push((number, report));
            }
        }
        self.core.maintenance.for_later.count_applied(0, stale.len());
        self.journal.done(stale).await;
        waiting
    }

    async fn outcomes(&mut self, waiting: Vec<Waiting>) {
        let state = &self.core.maintenance.for_later;
        let Err((error, waiting)) = self.apply(waiting).await else {
            // Not only when nothing waits: under constant load that might never occur.
            state.mark_available(self.part);
            return;
        };
        if !self.fails(error).await {
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
                // The database reads but accepts no write: none of these outcomes is at fault.
                self.is_silent = true;
            }
            if self.is_silent {
                return;
            }
        }
        // If nothing is accepted (read only, a full disk), no outcome is at fault, and each keeps its lease
        // from expiring.
        if !state.has_taken(self.part) && applied == 0 {
            return;
        }
        for key in failed {
            if state.failed_alone(key) {
                let AttemptKey { task, fence } = key;
                tracing::warn!(task, fence, "an outcome in the journal cannot be applied; it is tried again");
            }
        }
    }

    /// Applies all of them, or returns the error and those that still wait. A call that does not answer
    /// continues by itself. What it applies late is stale when it is tried again.
    async fn apply(&mut self, waiting: Vec<Waiting>) -> Result<(), (Error, Vec<Waiting>)> {
        let waiting = Arc::new(waiting);
        let (core, reports) = (Arc::clone(self.core), Arc::clone(&waiting));
        let answer = in_time(self.core, async move { apply(&core, &reports).await }).await;
        let waiting = Arc::try_unwrap(waiting).unwrap_or_else(|shared| (*shared).clone());
        let recorded = match answer {
            Some(Ok(recorded)) => recorded,
            Some(Err(error)) => return Err((error, waiting)),
            None => {
                self.is_silent(silent());
                return Err((silent(), waiting));
            }
        };
        let (waiting, recorded) = self.without_early(waiting, recorded).await;
        let state = &self.core.maintenance.for_later;
        let applied = recorded.iter().filter(|recorded| **recorded == Reported::Accepted).count();
        state.count_applied(applied, recorded.len() - applied);
        self.recorded += recorded.len();
        state.is_over(waiting.iter().map(|(_, report)| report.key()));
        self.journal.done(waiting.iter().map(|(number, _)| *number).collect()).await;
        Ok(())
    }
}

/// Another number where partitions have moved to another database.
fn placement(core: &Core) -> u64 {
    let mut hasher = DefaultHasher::new();
    core.partitions().for_each(|partition| core.store.part_of(partition).hash(&mut hasher));
    hasher.finish()
}

/// The waiting records of one database, by their numbers.
#[derive(Default)]
struct PendingPage {
    leases: Vec<WaitingLease>,
    outcomes: Vec<Waiting>,
    /// Records of a later release.
    odd: Vec<(u64, AttemptKey)>,
}

impl PendingPage {
    fn first(&self) -> Option<u64> {
        let leases = self.leases.iter().map(|(number, _)| *number);
        let outcomes = self.outcomes.iter().map(|(number, _)| *number);
        leases.chain(outcomes).chain(self.odd.iter().map(|(number, _)| *number)).min()
    }
}

/// Answers in order.
async fn apply(core: &Arc<Core>, waiting: &[Waiting]) -> Result<Vec<Reported>, Error> {
    let reports = waiting.iter().map(|(_, report)| report);
    let barred = barred(core, reports.clone()).await?;
    let is_barred = |report: &Submitted| barred.contains(&report.submission.report.place);
    let reached = reports.clone().filter(|report| !is_barred(report));
    record_heartbeats(core, reached.clone()).await?;
    let mut answers =
        outcome::record_outcomes(core, reached.map(Submitted::filed).collect()).await.into_iter();
    let lost = || Err(Error::may_have_happened(DOING, "the answer was lost"));
    let mut recorded = Vec::with_capacity(waiting.len());
    for report in reports {
        let answer =
            if is_barred(report) { Ok(Reported::Stale) } else { answers.next().unwrap_or_else(lost) };
        if report.submission.of_workflow && matches!(answer, Ok(Reported::Accepted)) {
            core.maintenance.for_later.ended(report.submission.report.place);
        }
        recorded.push(answer);
    }
    recorded.into_iter().collect()
}

/// The tasks that the token of the executor that reported on them does not reach.
async fn barred(core: &Core, reports: impl Iterator<Item = &Submitted>) -> Result<Vec<TaskRef>, Error> {
    let (places, grants): (Vec<TaskRef>, Vec<_>) = reports
        .filter_map(|report| Some((report.submission.report.place, report.submission.within.as_ref()?)))
        .unzip();
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let tasks: Vec<Option<Task>> = core.store.read(&places).await?;
    let looked_at = places.into_iter().zip(grants).zip(tasks);
    let is_beyond = |task: &Option<Task>, grant: &Grant| {
        task.as_ref().is_some_and(|task| !grant.reaches(&task.ask.queue))
    };
    Ok(looked_at.filter(|((_, grant), task)| is_beyond(task, grant)).map(|((place, _), _)| place).collect())
}

/// The handlers' last heartbeats, dated when they were sent: their leases may have expired since.
async fn record_heartbeats(
    core: &Core,
    reports: impl Iterator<Item = &Submitted> + Clone,
) -> Result<(), Error> {
    let beats: Vec<Beat> = reports.clone().filter_map(|report| report.submission.words.clone()).collect();
    let said = reports.filter(|report| report.submission.words.is_some()).map(|report| report.at);
    let Some(first_at) = said.min() else { return Ok(()) };
    core.live.lock().forget_attempts(beats.iter().map(|beat| (beat.place.id, beat.fence)));
    core.store.extend(beats, first_at).await.map(drop)
}
