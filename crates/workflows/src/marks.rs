//! Marks: stored before something of a workflow ends. Reported ends are only in an engine's memory; if it dies, the
//! surviving engines find its marks within seconds, and check the workflow. A live engine deletes a mark after it has
//! handled all reported ends, or renews it: one mark a second for a workflow, however many of its tasks end.

use crate::{
    Runner,
    advance::{Advanced, StepRequest},
    marked::is_set_aside,
    runner::AT_ONCE,
};
use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use punctual_contract::{
    Error as BackendError,
    workflows::{MARK_STALE_AFTER_MS, WorkflowId, WorkflowMark},
};
use punctual_domain::{place::TaskRef, time::Millis};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};
use tokio::time::timeout;

/// The time for which a mark also covers further ends.
const FRESH_FOR_MS: i64 = 1_000;
/// The pause between two searches for marks of others.
const LOOK_INTERVAL_MS: i64 = 1_000;
/// The number of marks of one search.
const BATCH: usize = 200;
/// The maximum wait of an outcome for its mark: without a mark its end is found by a later check.
const MARK_WITHIN: Duration = Duration::from_secs(1);
/// The time for which no caller waits for a mark after one that was not stored in time; then one outcome tries again.
const SILENT_FOR_MS: i64 = 5_000;
/// The maximum number of marks to delete in memory. The searches find those that could not be deleted.
const GONE_MAX: usize = 100_000;

#[derive(Debug, Default)]
pub(crate) struct Marks {
    known: Mutex<HashMap<WorkflowId, KnownMark>>,
    /// The marks to delete.
    gone: Mutex<Vec<i64>>,
    looked_at: Mutex<Option<Millis>>,
    silence: Mutex<Silence>,
}

/// The catalog did not accept marks in time: outcomes do not wait for it one after the other.
#[derive(Debug, Default)]
struct Silence {
    until: Option<Millis>,
    /// Workflows whose marks are made when it answers again, as far as they are still continued here.
    unmarked: BTreeSet<WorkflowId>,
}

#[derive(Debug, Default)]
struct KnownMark {
    /// Running outcomes, and reported ends that are not handled yet.
    awaited: usize,
    /// The mark in the store, and since when.
    mark: Option<(i64, Millis)>,
}

impl KnownMark {
    fn is_fresh(&self, now: Millis) -> bool {
        self.mark.is_some_and(|(_, at)| (0..FRESH_FOR_MS).contains(&now.since(at)))
    }
}

fn new(workflow: WorkflowId) -> WorkflowMark {
    WorkflowMark { id: fastrand::i64(1..), workflow }
}

impl Marks {
    /// An end of the workflow is expected. Returns the mark to make first, if any: see [`Marks::made`].
    pub(crate) fn awaits(&self, workflow: WorkflowId, now: Millis) -> Option<WorkflowMark> {
        let mut known = self.known.lock();
        let of_it = known.entry(workflow).or_default();
        of_it.awaited += 1;
        (!of_it.is_fresh(now)).then(|| new(workflow))
    }

    /// A mark is in the store, and represents the one before.
    pub(crate) fn made(&self, mark: WorkflowMark, at: Millis) {
        let before = self.known.lock().entry(mark.workflow).or_default().mark.replace((mark.id, at));
        self.gone.lock().extend(before.map(|pair| pair.0));
    }

    /// This many expected ends were handled, or did not occur.
    pub(crate) fn ends_handled(&self, workflow: WorkflowId, count: usize) {
        if let Some(known) = self.known.lock().get_mut(&workflow) {
            known.awaited = known.awaited.saturating_sub(count);
        }
    }

    /// The reported ends are not handled here: the mark stays, and is found.
    pub(crate) fn left(&self, workflow: WorkflowId) {
        self.known.lock().remove(&workflow);
    }

    /// Marks without expected ends.
    fn idle(&self, now: Millis) -> Vec<i64> {
        let mut gone = std::mem::take(&mut *self.gone.lock());
        self.known.lock().retain(|_, known| {
            let stays = known.awaited > 0 || known.is_fresh(now);
            if !stays {
                gone.extend(known.mark.map(|mark| mark.0));
            }
            stays
        });
        gone
    }

    /// The catalog is not to be waited for. After a while one caller tries it again, and the others do not.
    fn is_silent(&self, now: Millis) -> bool {
        let mut silence = self.silence.lock();
        let Some(until) = silence.until else { return false };
        // Set back, it is not silent for longer.
        let is_silent = (1..=SILENT_FOR_MS).contains(&until.since(now));
        if !is_silent {
            silence.until = Some(now.plus(SILENT_FOR_MS));
        }
        is_silent
    }

    fn set_aside(&self, marks: &[WorkflowMark], silent_from: Option<Millis>) {
        let mut silence = self.silence.lock();
        silence.until = silent_from.map(|at| at.plus(SILENT_FOR_MS)).or(silence.until);
        silence.unmarked.extend(marks.iter().map(|mark| mark.workflow));
    }

    /// The marks of workflows that are still awaited, and have none.
    fn unmarked(&self) -> Vec<WorkflowMark> {
        let unmarked = std::mem::take(&mut self.silence.lock().unmarked);
        let known = self.known.lock();
        let is_awaited =
            |id: &WorkflowId| known.get(id).is_some_and(|known| known.awaited > 0 && known.mark.is_none());
        unmarked.into_iter().filter(is_awaited).map(new).collect()
    }

    fn own(&self) -> BTreeSet<i64> {
        self.known.lock().values().filter_map(|known| Some(known.mark?.0)).collect()
    }

    fn is_time(&self, now: Millis) -> bool {
        let mut looked_at = self.looked_at.lock();
        if looked_at.is_some_and(|looked_at| (0..LOOK_INTERVAL_MS).contains(&now.since(looked_at))) {
            return false;
        }
        *looked_at = Some(now);
        true
    }
}

/// Outcomes of workflow tasks that are about to be recorded: their marks stay until this is dropped.
#[derive(Debug)]
pub struct Expected {
    runner: Runner,
    workflows: BTreeSet<WorkflowId>,
}

impl Expected {
    /// These were recorded. `None` if the workflow of the task is unknown.
    pub fn ended(self, tasks: impl IntoIterator<Item = (Option<WorkflowId>, TaskRef)>) {
        self.runner.inner.tasks_ended(tasks);
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        for workflow in &self.workflows {
            self.runner.inner.marks.ends_handled(*workflow, 1);
        }
    }
}

impl Runner {
    /// A task of a workflow has ended, of whichever.
    pub fn task_has_ended(&self, task: TaskRef) {
        self.inner.tasks_ended([(None, task)]);
    }

    /// Announces that tasks of these workflows may end now. The caller must do that before their outcomes are
    /// written, so that the surviving engines check them if this engine dies. If the announcement fails, the outcomes
    /// are recorded nevertheless.
    pub async fn expect(&self, workflows: impl IntoIterator<Item = WorkflowId>) -> Expected {
        let now = self.inner.engine.now();
        let workflows: BTreeSet<WorkflowId> = workflows.into_iter().collect();
        let marks: Vec<WorkflowMark> =
            workflows.iter().filter_map(|workflow| self.inner.marks.awaits(*workflow, now)).collect();
        let expected = Expected { runner: self.clone(), workflows };
        if !marks.is_empty() {
            self.mark(marks, now).await;
        }
        expected
    }

    async fn mark(&self, marks: Vec<WorkflowMark>, now: Millis) {
        if self.inner.marks.is_silent(now) {
            return self.inner.marks.set_aside(&marks, None);
        }
        let silent = || BackendError::may_have_happened("mark workflows", "no answer in time");
        let marking = timeout(MARK_WITHIN, self.inner.store.mark_workflows(marks.clone(), now));
        match marking.await.unwrap_or_else(|_| Err(silent())) {
            Ok(()) => {
                self.inner.marks.silence.lock().until = None;
                marks.into_iter().for_each(|mark| self.inner.marks.made(mark, now));
            }
            Err(error) => {
                self.inner.marks.set_aside(&marks, Some(self.inner.engine.now()));
                tracing::warn!(%error, "workflows could not be marked; if this engine dies now their ends are found late");
            }
        }
    }

    /// Deletes marks that have done their service, and makes those that could not be made when it was time.
    ///
    /// # Errors
    /// A failing store; they are deleted or made later.
    pub async fn tidy_marks(&self, now: Millis) -> Result<(), BackendError> {
        let unmarked = self.inner.marks.unmarked();
        if !unmarked.is_empty() {
            let made = self.inner.store.mark_workflows(unmarked.clone(), now).await;
            if made.is_err() {
                self.inner.marks.set_aside(&unmarked, None);
                return made;
            }
            self.inner.marks.silence.lock().until = None;
            unmarked.into_iter().for_each(|mark| self.inner.marks.made(mark, now));
        }
        let idle = self.inner.marks.idle(now);
        if idle.is_empty() {
            return Ok(());
        }
        let deleted = self.inner.store.unmark_workflows(idle.clone()).await;
        if deleted.is_err() {
            let mut gone = self.inner.marks.gone.lock();
            let room = GONE_MAX.saturating_sub(gone.len());
            gone.extend(idle.into_iter().take(room));
        }
        deleted
    }

    /// Checks workflows with old marks of other engines. Returns how many were advanced.
    pub(crate) async fn look_at_marked(&self, slots: u32, now: Millis) -> Result<usize, BackendError> {
        if slots == 0 || !self.inner.marks.is_time(now) {
            return Ok(0);
        }
        let own = self.inner.marks.own();
        let before = now.plus(-MARK_STALE_AFTER_MS);
        let mut by_workflow: BTreeMap<WorkflowId, Vec<i64>> = BTreeMap::new();
        for marked_workflow in self.inner.store.marked_workflows(slots, before, BATCH).await? {
            if !own.contains(&marked_workflow.id) {
                by_workflow.entry(marked_workflow.workflow).or_default().push(marked_workflow.id);
            }
        }
        let looks: Vec<_> =
            by_workflow.into_iter().map(|(id, marks)| self.look_at_one(id, marks, now)).collect();
        let done: Vec<_> = stream::iter(looks).buffer_unordered(AT_ONCE).collect().await;
        done.into_iter().try_fold(0, |moved, more| Ok(moved + more?))
    }

    async fn look_at_one(&self, id: WorkflowId, marks: Vec<i64>, now: Millis) -> Result<usize, BackendError> {
        let inner = &self.inner;
        let looked = match inner.advance(id, StepRequest::look()).await {
            // It is looked at when it is released.
            Err(error) if is_set_aside(&error) => Ok(Advanced::default()),
            looked => looked,
        };
        if looked.is_err() {
            // Behind the others: a workflow that cannot be read now does not delay them.
            inner.store.mark_workflows(vec![new(id)], now).await?;
        }
        inner.store.unmark_workflows(marks).await?;
        Ok(usize::from(looked?.moved))
    }
}
