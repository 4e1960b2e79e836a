//! Callers' requests: a preview, its confirmation, a pause, and so on. Each is one compare-and-set; the
//! runner does the rest.

use crate::{
    error::Error,
    preview::{self, Previewed},
    runner::Runner,
    state::RunnerState,
};
use punctual_contract::{
    bulk::{AdvanceBulk, BulkFailure, FAILURES_MAX, StoredBulk, TaskFilter},
    evaluations::{EvaluationKind, SetAside},
    store::Applied,
};
use punctual_domain::{
    bulk::{Bulk, BulkState, Progress},
    name::Name,
    task::Task,
    time::Millis,
};

/// The step at which an operation is stored.
const PREVIEWED: i64 = 1;
/// The maximum number of tries of a change that others overtake. Then it fails with an error.
const TRIES: usize = 32;

/// A changed operation: before and right after the change.
#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    pub before: StoredBulk,
    pub after: StoredBulk,
}

/// Tasks that an operation is about.
#[derive(Debug, Default)]
pub struct FoundOf {
    pub tasks: Vec<Task>,
    /// The next page is below this id, or `None` means no more tasks match.
    pub next: Option<i64>,
    /// The page is full, or no more tasks match.
    pub is_complete: bool,
    /// The number of ids that were examined.
    pub examined: u64,
}

impl Runner {
    /// Counts matching tasks and stores the operation; nothing else happens before its confirmation.
    ///
    /// # Errors
    /// [`Error::Nothing`], or a failing store.
    pub async fn preview(&self, namespace: &Name, bulk: Bulk, by: &str) -> Result<Previewed, Error> {
        preview::preview(&self.inner, namespace, bulk, by).await
    }

    /// # Errors
    /// [`Error::NotFound`], or a failing store.
    pub async fn get(&self, namespace: &Name, id: i64) -> Result<StoredBulk, Error> {
        self.inner.store.bulk(namespace, id).await?.ok_or(Error::NotFound)
    }

    /// The newest first, below an id.
    ///
    /// # Errors
    /// A failing store.
    pub async fn list(&self, namespace: &Name, below: i64, limit: usize) -> Result<Vec<StoredBulk>, Error> {
        Ok(self.inner.store.bulks(namespace, below, limit).await?)
    }

    /// A page of the operation's tasks: those that match now and existed at the preview; the newest first,
    /// below an id. The search continues until the page is full, no more tasks match, or the number of reads
    /// reaches its bound.
    ///
    /// # Errors
    /// A failing store.
    pub async fn tasks(
        &self,
        of: &StoredBulk,
        before_id: Option<i64>,
        limit: usize,
    ) -> Result<FoundOf, Error> {
        let all = preview::look(&of.namespace, &of.bulk, of.progress.previewed_at);
        let fits = |task: &Task| task.ask.queue.namespace == of.namespace && of.bulk.fits(task);
        let mut found = FoundOf { next: before_id, ..FoundOf::default() };
        for _ in 0..self.inner.options.preview_looks.max(1) {
            let wanted = limit.max(1) - found.tasks.len();
            let look = TaskFilter { before_id: found.next, limit: wanted, ..all.clone() };
            let page = self.inner.store.matching(&look).await?;
            let tasks = self.inner.engine.store().read(&page.places).await?;
            found.tasks.extend(tasks.into_iter().flatten().filter(fits));
            found.examined = found.examined.saturating_add(page.examined);
            found.next = page.next_before_id;
            if found.next.is_none() || found.tasks.len() >= limit.max(1) {
                found.is_complete = true;
                break;
            }
        }
        Ok(found)
    }

    /// The failures, by the id of the task, above one.
    ///
    /// # Errors
    /// A failing store.
    pub async fn failures(&self, id: i64, above: i64, limit: usize) -> Result<Vec<BulkFailure>, Error> {
        Ok(self.inner.store.bulk_failures(id, above, limit).await?)
    }

    /// Starts a previewed operation, if `fits` accepts its step. A repeated confirmation changes nothing.
    ///
    /// # Errors
    /// [`Error::Otherwise`], [`Error::TooOld`], [`Error::IsIn`] (it was stopped), or a failing store.
    pub async fn confirm(
        &self,
        namespace: &Name,
        id: i64,
        fits: impl Fn(i64) -> bool + Send + Sync,
        by: &str,
    ) -> Result<Changed, Error> {
        let good_ms = self.inner.options.preview_good_ms;
        self.change(namespace, id, |bulk, now| {
            let has_begun = bulk.progress.confirmed_at.is_some();
            // After further counting it is still the same preview; a repeated call names one of its steps.
            let is_preview = has_begun || bulk.state == BulkState::Previewed;
            let last_counted = PREVIEWED + i64::from(bulk.progress.counting_steps);
            let names_preview = || is_preview && (PREVIEWED..=last_counted).any(&fits);
            if !(fits(bulk.step) || names_preview()) {
                return Err(Error::Otherwise(bulk.step));
            }
            match bulk.state {
                BulkState::Previewed if now.since(bulk.created_at) > good_ms => Err(Error::TooOld),
                BulkState::Previewed => {
                    let progress = Progress {
                        confirmed_at: Some(now),
                        confirmed_by: Some(by.to_owned()),
                        paced_until: now,
                        counting_below: None,
                        ..bulk.progress.clone()
                    };
                    Ok(Some((BulkState::Running, progress)))
                }
                BulkState::Stopped => Err(Error::IsIn(bulk.state)),
                BulkState::Running | BulkState::Paused | BulkState::Done => Ok(None),
            }
        })
        .await
    }

    /// Pauses an operation. No further batch begins; the running batch is finished.
    ///
    /// # Errors
    /// [`Error::IsIn`] if it has not begun or has ended, or a failing store.
    pub async fn pause(
        &self,
        namespace: &Name,
        id: i64,
        reason: Option<&str>,
        by: &str,
    ) -> Result<Changed, Error> {
        self.change(namespace, id, |bulk, _| match bulk.state {
            BulkState::Running => {
                let progress = Progress { note: Some(note("paused", by, reason)), ..bulk.progress.clone() };
                Ok(Some((BulkState::Paused, progress)))
            }
            BulkState::Paused => Ok(None),
            BulkState::Previewed | BulkState::Stopped | BulkState::Done => Err(Error::IsIn(bulk.state)),
        })
        .await
    }

    /// # Errors
    /// Fails like [`Runner::pause`].
    pub async fn resume(&self, namespace: &Name, id: i64) -> Result<Changed, Error> {
        let was_set_aside = self.release(namespace, id).await?;
        self.change(namespace, id, |bulk, now| match bulk.state {
            // It continues immediately.
            BulkState::Running if was_set_aside => Ok(Some((BulkState::Running, bulk.progress.clone()))),
            BulkState::Paused => {
                let progress = Progress { note: None, paced_until: now, ..bulk.progress.clone() };
                Ok(Some((BulkState::Running, progress)))
            }
            BulkState::Running => Ok(None),
            BulkState::Previewed | BulkState::Stopped | BulkState::Done => Err(Error::IsIn(bulk.state)),
        })
        .await
    }

    /// Ends it permanently; completed changes remain.
    ///
    /// # Errors
    /// [`Error::IsIn`] if it is done, or a failing store.
    pub async fn stop(
        &self,
        namespace: &Name,
        id: i64,
        reason: Option<&str>,
        by: &str,
    ) -> Result<Changed, Error> {
        let stopped = self
            .change(namespace, id, |bulk, now| match bulk.state {
                BulkState::Previewed | BulkState::Running | BulkState::Paused => {
                    let note = Some(note("stopped", by, reason));
                    let progress =
                        Progress { note, ended_at: Some(now), counting_below: None, ..bulk.progress.clone() };
                    Ok(Some((BulkState::Stopped, progress)))
                }
                BulkState::Stopped => Ok(None),
                BulkState::Done => Err(Error::IsIn(bulk.state)),
            })
            .await?;
        self.release(namespace, id).await.map_err(after_a_change)?;
        Ok(stopped)
    }

    /// Operations that are set aside, because engines have died of them.
    ///
    /// # Errors
    /// A failing store.
    pub async fn set_aside(&self) -> Result<Vec<SetAside>, Error> {
        Ok(self.inner.engine.set_aside(&*self.inner.store, EvaluationKind::Bulk).await?)
    }

    /// Releases an operation. Returns true if it was set aside, or an engine had died of it.
    async fn release(&self, namespace: &Name, id: i64) -> Result<bool, Error> {
        let stored = self.get(namespace, id).await?;
        let inner = &self.inner;
        Ok(inner.engine.release_evaluation(&*inner.store, EvaluationKind::Bulk, stored.id).await?)
    }

    /// Processes the failures of a completed operation again.
    ///
    /// # Errors
    /// [`Error::IsIn`] if it is not done, or a failing store.
    pub async fn repeat(&self, namespace: &Name, id: i64) -> Result<Changed, Error> {
        self.change(namespace, id, |bulk, now| match bulk.state {
            BulkState::Done if bulk.progress.tally.failed == 0 => Ok(None),
            BulkState::Done => {
                let mut progress = Progress {
                    repeats: true,
                    is_through: false,
                    before_id: None,
                    ended_at: None,
                    paced_until: now,
                    ..bulk.progress.clone()
                };
                // Those that are kept are counted anew.
                let kept = u64::try_from(FAILURES_MAX).unwrap_or(u64::MAX);
                progress.tally.failed = progress.tally.failed.saturating_sub(kept);
                Ok(Some((BulkState::Running, progress)))
            }
            _ => Err(Error::IsIn(bulk.state)),
        })
        .await
    }

    async fn change(
        &self,
        namespace: &Name,
        id: i64,
        decide: impl Fn(&StoredBulk, Millis) -> Result<Option<(BulkState, Progress)>, Error> + Send + Sync,
    ) -> Result<Changed, Error> {
        let inner: &RunnerState = &self.inner;
        for _ in 0..TRIES {
            let (before, now) = (self.get(namespace, id).await?, inner.engine.now());
            let Some((state, progress)) = decide(&before, now)? else {
                return Ok(Changed { after: before.clone(), before });
            };
            let wake_at = (state == BulkState::Running).then_some(now);
            let advance = AdvanceBulk {
                id,
                step: before.step,
                state,
                progress: progress.clone(),
                wake_at,
                failed: Vec::new(),
                mended: Vec::new(),
            };
            if inner.store.advance_bulk(advance, now).await? == Applied::Moved {
                inner.has_work.notify_one();
                let step = before.step + 1;
                let after = StoredBulk { step, state, progress, wake_at, updated_at: now, ..before.clone() };
                return Ok(Changed { before, after });
            }
        }
        Err(Error::Contended)
    }
}

fn after_a_change(error: Error) -> Error {
    match error {
        Error::Engine(punctual_engine::Error::Backend(error)) => error.after_a_change().into(),
        other => other,
    }
}

fn note(what: &str, by: &str, reason: Option<&str>) -> String {
    reason.map_or_else(|| format!("{what} by {by}"), |reason| format!("{what} by {by}: {reason}"))
}
