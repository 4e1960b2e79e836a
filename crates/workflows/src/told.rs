//! What has ended, as far as somebody said so: whoever took a task's outcome, at whatever engine, and whoever saw the end of a
//! workflow that is a node of another. Lost with the engine; then the next look finds it.

use crate::{
    Runner,
    advance::{Ended, Wish},
    look,
    runner::AT_ONCE,
};
use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use punctual_contract::{Error as BackendError, workflows::WorkflowId};
use punctual_domain::{place::TaskRef, workflow::ParentNode};
use std::collections::BTreeMap;
use tokio::sync::Notify;

/// More are left to the next looks.
const MOST: usize = 100_000;
/// Of one pass.
const BATCH: usize = 5_000;

#[derive(Debug, Default)]
pub(crate) struct Told {
    tasks: Mutex<Vec<TaskRef>>,
    /// Workflows that are over, with the nodes that they are.
    workflows: Mutex<Vec<(WorkflowId, ParentNode)>>,
    come: Notify,
}

impl Told {
    pub(crate) fn workflow(&self, id: WorkflowId, parent: ParentNode) {
        let mut all = self.workflows.lock();
        if all.len() < MOST {
            all.push((id, parent));
        }
        drop(all);
        self.come.notify_one();
    }

    fn tasks(&self, ended: impl IntoIterator<Item = TaskRef>) {
        let mut all = self.tasks.lock();
        let room = MOST.saturating_sub(all.len());
        all.extend(ended.into_iter().take(room));
        drop(all);
        self.come.notify_one();
    }

    fn is_empty(&self) -> bool {
        self.tasks.lock().is_empty() && self.workflows.lock().is_empty()
    }
}

impl Runner {
    /// Tasks of workflows may have ended.
    pub fn ended(&self, tasks: impl IntoIterator<Item = TaskRef>) {
        self.inner.told.tasks(tasks);
    }

    /// Waits until something may have ended.
    pub async fn until_told(&self) {
        while self.inner.told.is_empty() {
            self.inner.told.come.notified().await;
        }
    }

    /// Goes on with workflows of which something has ended. How many were moved on.
    ///
    /// # Errors
    /// A failing store; then it is tried again.
    pub async fn go_on(&self) -> Result<usize, BackendError> {
        let mut moved = 0;
        loop {
            let some = {
                let mut all = self.inner.told.tasks.lock();
                let some = all.len().min(BATCH);
                all.drain(..some).collect::<Vec<_>>()
            };
            let over = std::mem::take(&mut *self.inner.told.workflows.lock());
            if some.is_empty() && over.is_empty() {
                return Ok(moved);
            }
            match self.pass(&some, &over).await {
                Ok(more) => moved += more,
                Err(error) => {
                    self.inner.told.tasks(some);
                    self.inner.told.workflows.lock().extend(over);
                    return Err(error);
                }
            }
        }
    }

    async fn pass(
        &self,
        tasks: &[TaskRef],
        over: &[(WorkflowId, ParentNode)],
    ) -> Result<usize, BackendError> {
        let mut ends: BTreeMap<WorkflowId, Vec<Ended>> = BTreeMap::new();
        for (id, ended) in look::tasks(&self.inner, tasks).await? {
            ends.entry(id).or_default().push(ended);
        }
        for (id, parent) in over {
            if let Some(ended) = look::workflow(&self.inner, *id, *parent).await? {
                ends.entry(WorkflowId(parent.workflow)).or_default().push(ended);
            }
        }
        let steps: Vec<_> = ends
            .into_iter()
            .map(|(id, ends)| async move { self.inner.advance(id, Wish::ends(ends)).await })
            .collect();
        let done: Vec<_> = stream::iter(steps).buffer_unordered(AT_ONCE).collect().await;
        let mut moved = 0;
        for it in done {
            moved += usize::from(it?.moved);
        }
        Ok(moved)
    }
}
