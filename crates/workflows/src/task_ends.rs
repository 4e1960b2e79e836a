//! Reported ends: of tasks whose outcome any engine has recorded, and of workflows that are nodes of another. They
//! are lost with the engine; then a mark leads to a check, or the next check finds them. An end that cannot be
//! handled is stored and retried, each separately, so that it delays no other.

use crate::{
    Runner,
    advance::{NodeEnd, StepRequest},
    look,
    marked::is_set_aside,
    runner::{AT_ONCE, WorkflowsState},
};
use futures_util::{StreamExt as _, future::BoxFuture, stream};
use parking_lot::Mutex;
use punctual_contract::{Error as BackendError, workflows::WorkflowId};
use punctual_domain::{place::TaskRef, time::Millis, workflow::ParentNode};
use std::collections::BTreeMap;
use tokio::sync::Notify;

/// The maximum number of ends in memory. More are left to the next checks.
const MOST: usize = 100_000;
/// The number of ends of one pass: each may have a result of 64 KiB.
const BATCH: usize = 500;
/// The pause before a failed end is retried, and the number of tries; then it is left to the checks.
const AGAIN_AFTER_MS: i64 = 1_000;
const TRIES_MAX: u32 = 60;

/// One end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    what: What,
    tries: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Task {
        place: TaskRef,
        /// `None` if unknown so far.
        of: Option<WorkflowId>,
    },
    /// A workflow is over, which is that node.
    Workflow { id: WorkflowId, parent: ParentNode },
}

impl What {
    const fn of(&self) -> Option<WorkflowId> {
        match self {
            Self::Task { of, .. } => *of,
            Self::Workflow { parent, .. } => Some(WorkflowId(parent.workflow)),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct TaskEnds {
    queue: Mutex<Queue>,
    come: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    ready: Vec<Heard>,
    /// The ends to try again, and when.
    later: Vec<(Millis, Heard)>,
}

impl TaskEnds {
    /// Adds ends. Returns those that do not fit.
    fn push(&self, mut all: Vec<Heard>) -> Vec<Heard> {
        let mut queue = self.queue.lock();
        let room = MOST.saturating_sub(queue.ready.len() + queue.later.len());
        let beyond = all.split_off(room.min(all.len()));
        queue.ready.extend(all);
        drop(queue);
        self.come.notify_one();
        beyond
    }

    fn take(&self) -> Vec<Heard> {
        let mut queue = self.queue.lock();
        let some = queue.ready.len().min(BATCH);
        queue.ready.drain(..some).collect()
    }

    fn try_later(&self, at: Millis, left: impl Iterator<Item = Heard>) {
        self.queue.lock().later.extend(left.map(|heard| (at, heard)));
    }

    /// Moves due retries back into the queue. A clock that was set back delays none of them.
    fn requeue_due(&self, now: Millis) {
        let mut queue = self.queue.lock();
        let is_due = |pair: &mut (Millis, Heard)| pair.0 <= now || pair.0.since(now) > AGAIN_AFTER_MS;
        let due: Vec<_> = queue.later.extract_if(.., is_due).collect();
        queue.ready.extend(due.into_iter().map(|pair| pair.1));
    }

    fn is_empty(&self) -> bool {
        self.queue.lock().ready.is_empty()
    }
}

impl WorkflowsState {
    pub(crate) fn tasks_ended(&self, tasks: impl IntoIterator<Item = (Option<WorkflowId>, TaskRef)>) {
        self.enqueue(tasks.into_iter().map(|(of, place)| What::Task { place, of }));
    }

    /// A workflow has ended; that its parent must continue was already announced
    /// ([`crate::marks::Marks::awaits`]).
    pub(crate) fn child_ended(&self, id: WorkflowId, parent: ParentNode) {
        self.push(vec![Heard { what: What::Workflow { id, parent }, tries: 0 }]);
    }

    fn enqueue(&self, all: impl Iterator<Item = What>) {
        let now = self.engine.now();
        let all: Vec<Heard> = all.map(|what| Heard { what, tries: 0 }).collect();
        for of in all.iter().filter_map(|heard| heard.what.of()) {
            // Its mark exists, or could not be made.
            self.marks.awaits(of, now);
        }
        self.push(all);
    }

    fn push(&self, all: Vec<Heard>) {
        for heard in self.task_ends.push(all) {
            heard.what.of().into_iter().for_each(|of| self.marks.left(of));
        }
    }

    fn gone_on(&self, with: &Heard) {
        with.what.of().into_iter().for_each(|of| self.marks.ends_handled(of, 1));
    }
}

/// The results of one pass.
#[derive(Default)]
struct EndsPass {
    moved: usize,
    left: Vec<Heard>,
    failed: Option<BackendError>,
}

impl EndsPass {
    fn fails(&mut self, all: impl IntoIterator<Item = Heard>, error: BackendError) {
        self.left.extend(all);
        self.failed = self.failed.take().or(Some(error));
    }
}

impl Runner {
    /// Tasks of workflows may have ended.
    pub fn ended(&self, tasks: impl IntoIterator<Item = TaskRef>) {
        self.inner.tasks_ended(tasks.into_iter().map(|task| (None, task)));
    }

    /// Waits until something may have ended.
    pub fn until_reported(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            while self.inner.task_ends.is_empty() {
                self.inner.task_ends.come.notified().await;
            }
        })
    }

    /// Advances workflows with reported ends. Returns how many were advanced.
    ///
    /// # Errors
    /// The first failure; it is retried a second later, and the others were handled.
    pub fn go_on(&self) -> BoxFuture<'_, Result<usize, BackendError>> {
        Box::pin(async move {
            let now = self.inner.engine.now();
            self.inner.task_ends.requeue_due(now);
            let (mut moved, mut failed) = (0, None);
            loop {
                let some = self.inner.task_ends.take();
                if some.is_empty() {
                    return failed.map_or(Ok(moved), Err);
                }
                let pass = self.pass(some).await;
                moved += pass.moved;
                failed = failed.or(pass.failed);
                self.again(now, pass.left);
            }
        })
    }

    fn again(&self, now: Millis, left: Vec<Heard>) {
        let tried = left.into_iter().map(|heard| Heard { tries: heard.tries + 1, ..heard });
        let (again, given_up): (Vec<_>, Vec<_>) = tried.partition(|heard| heard.tries < TRIES_MAX);
        self.inner.task_ends.try_later(now.plus(AGAIN_AFTER_MS), again.into_iter());
        given_up.iter().filter_map(|heard| heard.what.of()).for_each(|id| self.inner.marks.left(id));
    }

    async fn pass(&self, some: Vec<Heard>) -> EndsPass {
        let mut pass = EndsPass::default();
        let mut ends: BTreeMap<WorkflowId, Vec<(Heard, NodeEnd)>> = BTreeMap::new();
        for (heard, found) in self.found(some).await {
            match found {
                Ok(Some((id, ended))) => ends.entry(id).or_default().push((heard, ended)),
                Ok(None) => self.inner.gone_on(&heard),
                Err(error) => pass.fails([heard], error),
            }
        }
        let steps: Vec<_> = ends
            .into_iter()
            .map(|(id, ends)| async move {
                let (heard, ends): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
                (heard, self.inner.advance(id, StepRequest::ends(ends)).await)
            })
            .collect();
        let done: Vec<_> = stream::iter(steps).buffer_unordered(AT_ONCE).collect().await;
        for (heard, advanced) in done {
            match advanced {
                Ok(advanced) => {
                    pass.moved += usize::from(advanced.moved);
                    heard.iter().for_each(|heard| self.inner.gone_on(heard));
                }
                // A look finds the ends when it is released.
                Err(error) if is_set_aside(&error) => {
                    heard.iter().for_each(|heard| self.inner.gone_on(heard))
                }
                Err(error) => pass.fails(heard, error),
            }
        }
        pass
    }

    /// The workflow and the end of each. `None` means nothing to handle.
    async fn found(
        &self,
        some: Vec<Heard>,
    ) -> Vec<(Heard, Result<Option<(WorkflowId, NodeEnd)>, BackendError>)> {
        let (mut places, mut of_tasks, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for heard in some {
            match heard.what {
                What::Task { place, .. } => {
                    places.push(place);
                    of_tasks.push(heard);
                }
                What::Workflow { id, parent } => {
                    let ended = look::workflow(&self.inner, id, parent).await;
                    let of_parent = |ended| (WorkflowId(parent.workflow), ended);
                    all.push((heard, ended.map(|ended| ended.map(of_parent))));
                }
            }
        }
        all.extend(of_tasks.into_iter().zip(look::tasks(&self.inner, &places).await));
        all
    }
}
