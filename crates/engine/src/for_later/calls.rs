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
    /// Sets the journal, before `start`: outcomes whose database does not answer are written to it and acknowledged.
    /// Earlier records in it are applied. Returns false if a journal is already set.
    pub fn keep_outcomes_in(&self, journal: Arc<dyn Journal>) -> bool {
        self.core.maintenance.for_later.set_journal(journal)
    }

    /// Registers a listener for each workflow task whose outcome was taken for later and is now accepted. It must not
    /// block. False if another listener is registered.
    pub fn on_applied(&self, listener: impl Fn(TaskRef) + Send + Sync + 'static) -> bool {
        self.core.maintenance.for_later.set_listener(Box::new(listener))
    }

    /// Records like `record_each`, for reports with more data. If the store should first have been queried about a
    /// report, and did not answer, the report is only accepted for later.
    ///
    /// # Errors
    /// Fails only if the engine itself fails.
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

    /// Extends like `extend_each`, for heartbeats with outcomes, which are accepted for later if the store does not
    /// answer: answers in time.
    ///
    /// # Errors
    /// Fails only if the engine itself fails.
    pub fn heartbeat_each(
        &self,
        beats: Vec<Beat>,
    ) -> BoxFuture<'_, Result<Vec<Result<Extended, BackendError>>, Error>> {
        Box::pin(async move {
            let core = Arc::clone(&self.core);
            self.run(async move { Ok(super::beats::heartbeat_each(&core, beats).await) }).await
        })
    }

    /// The task's database did not answer an outcome, and outcomes that wait for it are not applied yet.
    #[must_use]
    pub fn is_taken_for_later(&self, task: TaskRef) -> bool {
        self.core.maintenance.for_later.is_away(self.core.store.part_of(task.partition))
    }

    /// A journal takes outcomes for later.
    #[must_use]
    pub fn has_journal(&self) -> bool {
        self.core.maintenance.for_later.journal().is_some()
    }

    /// `None` if there is no journal.
    #[must_use]
    pub fn journal_numbers(&self) -> Option<JournalNumbers> {
        let leases_waiting = u64::try_from(self.core.live.lock().count_for_later()).unwrap_or(u64::MAX);
        let numbers = self.core.maintenance.for_later.numbers()?;
        Some(JournalNumbers { leases_waiting, ..numbers })
    }
}
