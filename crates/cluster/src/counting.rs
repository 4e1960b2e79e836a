//! Counts the rows of every database against account and register, at one engine for each database, and keeps the last report
//! where every engine finds it. Rare for a large database, so that counting takes a hundredth of a core at most; at any
//! time on request. Changes no task.

use crate::{
    ledger::{LedgerPass, LedgerView, view},
    watcher::Watcher,
};
use futures_util::future::BoxFuture;
use punctual_contract::{Error, ledger::LedgerReport};
use punctual_domain::time::Millis;
use tokio::time::Instant;

impl Watcher {
    /// Counts what is due or requested, and is this engine's to count. Returns how many databases were counted.
    ///
    /// # Errors
    /// Of the last database that failed; the others are counted all the same.
    pub fn count_ledgers(&self, now: Millis) -> BoxFuture<'_, Result<usize, Error>> {
        Box::pin(async move {
            let (mut counted, mut result) = (0, Ok(()));
            for report in self.ledger_reports().await? {
                let view = view(&report);
                let is_due = view.is_requested || view.pass.is_none_or(|pass| pass.is_over(now));
                if !is_due || !self.inner.engine.leads_in(report.part) {
                    continue;
                }
                match self.count_ledger(&report).await {
                    Ok(was_counted) => counted += usize::from(was_counted),
                    Err(error) => result = Err(error),
                }
            }
            let views = self.ledger_reports().await?.iter().map(view).collect();
            *self.inner.ledger.last.lock() = views;
            result.map(|()| counted)
        })
    }

    /// One of each database.
    async fn ledger_reports(&self) -> Result<Vec<LedgerReport>, Error> {
        let store = self.inner.engine.store();
        let mut reports = store.ledger_reports().await?.into_iter().peekable();
        let report = |part| {
            let new = LedgerReport { part, ..LedgerReport::default() };
            reports.next_if(|report| report.part == part).unwrap_or(new)
        };
        Ok((0..store.parts()).map(report).collect())
    }

    async fn count_ledger(&self, report: &LedgerReport) -> Result<bool, Error> {
        let (store, began) = (self.inner.engine.store(), Instant::now());
        let Some(count) = store.count_ledger(report.part).await? else { return Ok(false) };
        let ended = self.inner.engine.now();
        let took_ms = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
        let pass = LedgerPass::of(&count, self.inner.engine.name(), (ended.plus(-took_ms), ended));
        if pass.unaccounted != 0 {
            tracing::error!(database = report.part, what = pass.described(), "the ledger does not balance");
        }
        let body =
            serde_json::to_string(&pass).map_err(|error| Error::did_not_happen("keep a report", error))?;
        store.save_ledger_report(report.part, &body, report.requests).await?;
        Ok(true)
    }

    /// The last report of one database. None: there is no such database.
    ///
    /// # Errors
    /// A failing store.
    pub async fn ledger(&self, database: usize) -> Result<Option<LedgerView>, Error> {
        let reports = self.ledger_reports().await?;
        Ok(reports.iter().find(|report| report.part == database).map(view))
    }

    /// Requests a count, whichever engine makes it.
    ///
    /// # Errors
    /// A failing store.
    pub async fn request_ledger(&self, database: usize) -> Result<(), Error> {
        self.inner.engine.store().request_ledger_count(database).await?;
        self.inner.ledger.asked.notify_one();
        Ok(())
    }

    /// Until a count is requested here.
    pub async fn ledger_is_requested(&self) {
        self.inner.ledger.asked.notified().await;
    }

    /// Of all databases, by their last counts.
    #[must_use]
    pub fn unaccounted(&self) -> i64 {
        self.inner.ledger.last.lock().iter().filter_map(|view| Some(view.pass.as_ref()?.unaccounted)).sum()
    }

    /// As last read by `count_ledgers`.
    #[must_use]
    pub fn ledgers(&self) -> Vec<LedgerView> {
        self.inner.ledger.last.lock().clone()
    }
}
