//! The engine's calls about its journal. Holds no rule of its own.

use super::{
    record::{Submission, Submitted},
    state::JournalNumbers,
};
use crate::{
    answer::{Error, Reported},
    engine::Engine,
};
use futures_util::future::BoxFuture;
use punctual_contract::{
    Error as BackendError, Journal,
    store::{Beat, Extended},
};
use punctual_domain::place::TaskRef;
use std::sync::Arc;

impl Engine {
    /// Before `start`: outcomes whose database does not answer are kept there, and acknowledged. What it has from before is
    /// applied. False: there is one already.
    pub fn keep_outcomes_in(&self, journal: Arc<dyn Journal>) -> bool {
        self.core.maintenance.for_later.set_journal(journal)
    }

    /// Hears of each task of a workflow whose outcome was taken for later and is accepted now. It must not wait. False: another
    /// hears already.
    pub fn hear_applied(&self, listener: impl Fn(TaskRef) + Send + Sync + 'static) -> bool {
        self.core.maintenance.for_later.set_listener(Box::new(listener))
    }

    /// As `settle_each`, of reports that say more. Those of which the store should have been asked something first, and did not
    /// answer, are taken for later only.
    ///
    /// # Errors
    /// Only of the engine as a whole.
    pub fn record_submitted<'a>(
        &'a self,
        reports: Vec<Submission>,
        by: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Result<Reported, BackendError>>, Error>> {
        Box::pin(async move {
            let (core, by): (_, Arc<str>) = (Arc::clone(&self.core), by.into());
            let at = core.now();
            let reports = reports
                .into_iter()
                .map(|submission| Submitted { submission, by: Arc::clone(&by), at })
                .collect();
            self.run(async move { Ok(super::record_outcomes(&core, reports).await) }).await
        })
    }

    /// As `extend_each`, of what comes with outcomes that are taken for later where the store does not hear it: answers in time.
    ///
    /// # Errors
    /// Only of the engine as a whole.
    pub fn hear_each(
        &self,
        beats: Vec<Beat>,
    ) -> BoxFuture<'_, Result<Vec<Result<Extended, BackendError>>, Error>> {
        Box::pin(async move {
            let core = Arc::clone(&self.core);
            self.run(async move { Ok(super::beats::hear_each(&core, beats).await) }).await
        })
    }

    /// Its database did not answer an outcome, and what waits for it is not applied yet.
    #[must_use]
    pub fn is_taken_for_later(&self, task: TaskRef) -> bool {
        self.core.maintenance.for_later.is_away(self.core.store.part_of(task.partition))
    }

    /// Outcomes that may be taken for later are.
    #[must_use]
    pub fn has_journal(&self) -> bool {
        self.core.maintenance.for_later.journal().is_some()
    }

    /// None: there is no journal.
    #[must_use]
    pub fn journal_numbers(&self) -> Option<JournalNumbers> {
        let leases_waiting = u64::try_from(self.core.live.lock().count_for_later()).unwrap_or(u64::MAX);
        let numbers = self.core.maintenance.for_later.numbers()?;
        Some(JournalNumbers { leases_waiting, ..numbers })
    }
}
