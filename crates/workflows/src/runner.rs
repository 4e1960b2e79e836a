//! The runner: checks workflows that are due, and advances those with ended tasks. `run_once` is bounded, repeatable
//! at any time, and may run at several engines at once.

use crate::{
    Plan, advance::StepRequest, evaluate, marked::is_set_aside, marks::Marks, options::Options,
    task_ends::TaskEnds,
};
use futures_util::{StreamExt as _, future::BoxFuture, stream};
use parking_lot::Mutex;
use punctual_contract::{
    Error as BackendError, WorkflowStore,
    schedules::SLOTS,
    workflows::{StoredWorkflow, WorkflowId},
};
use punctual_domain::{identity::IdentitySecret, name::Name, place::Partition, time::Millis};
use punctual_engine::{Engine, SET_ASIDE_LOOK_MS};
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

/// The pause before the next check of a workflow that cannot be read.
const AFTER_FAILURE_MS: i64 = 1_000;
/// Batches of one run: the next one continues.
const BATCHES_MAX: usize = 100;
/// Workflows that are worked on at one time.
pub(crate) const AT_ONCE: usize = 8;
/// Parsed documents that are cached, and their approximate size together.
const PLANS_MAX: usize = 1_000;
const PLANS_MAX_BYTES: usize = 64 << 20;
const FORGET_BATCH: usize = 100;
/// Two hours: creating a workflow renews the use of its document within one.
const FORGET_MIN_MS: i64 = 2 * 3_600_000;

/// Cheap to clone; all clones are the same runner.
#[derive(Clone, Debug)]
pub struct Runner {
    pub(crate) inner: Arc<WorkflowsState>,
}

#[derive(Debug)]
pub(crate) struct WorkflowsState {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<dyn WorkflowStore>,
    pub(crate) options: Options,
    pub(crate) task_ends: TaskEnds,
    pub(crate) marks: Marks,
    plans: Mutex<Plans>,
    forgot_at: Mutex<Option<Millis>>,
    /// Inconsistent workflows, as far as they were checked.
    pub(crate) adrift: Mutex<BTreeSet<WorkflowId>>,
}

/// Documents by their numbers.
#[derive(Debug, Default)]
struct Plans {
    by_definition: HashMap<i64, Arc<Plan>>,
    bytes: usize,
}

impl Plans {
    fn keep(&mut self, definition: i64, plan: &Arc<Plan>) {
        let bytes = plan.bytes();
        if self.by_definition.len() >= PLANS_MAX || self.bytes + bytes > PLANS_MAX_BYTES {
            *self = Self::default();
        }
        if self.by_definition.insert(definition, Arc::clone(plan)).is_none() {
            self.bytes += bytes;
        }
    }
}

impl Runner {
    #[must_use]
    pub fn new(engine: Engine, store: Arc<dyn WorkflowStore>, options: Options) -> Self {
        let inner = WorkflowsState {
            engine,
            store,
            options,
            task_ends: TaskEnds::default(),
            marks: Marks::default(),
            plans: Mutex::default(),
            forgot_at: Mutex::default(),
            adrift: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Checks workflows that are due, and handles reported ends. Returns how many were advanced.
    ///
    /// # Errors
    /// A failing store; completed work remains. A workflow that failed by itself (its tasks are in an
    /// unavailable database) has not delayed others.
    pub fn run_once(&self, now: Millis) -> BoxFuture<'_, Result<usize, BackendError>> {
        Box::pin(async move {
            let mut all = vec![self.go_on().await];
            let slots = self.inner.slots();
            all.push(self.look_at_marked(slots, now).await);
            for _ in 0..BATCHES_MAX {
                let due = match slots {
                    0 => Vec::new(),
                    _ => self.inner.store.due_workflows(slots, now, self.inner.options.batch).await?,
                };
                if due.is_empty() {
                    break;
                }
                all.push(self.look(due, now).await);
                if all.iter().all(Result::is_ok) {
                    all.push(self.go_on().await);
                }
            }
            self.tidy_marks(now).await?;
            self.forget(now).await?;
            all.into_iter().try_fold(0, |moved, more| Ok(moved + more?))
        })
    }

    async fn look(&self, due: Vec<StoredWorkflow>, now: Millis) -> Result<usize, BackendError> {
        let looks = due.into_iter().map(|workflow| {
            let runner = self.clone();
            async move {
                let inner = &runner.inner;
                if inner.engine.closed(&workflow.namespace).is_some() {
                    return inner.later(workflow, now, inner.options.look_max_ms).await;
                }
                match inner.advance(workflow.id, StepRequest::look()).await {
                    Ok(done) => Ok(usize::from(done.moved)),
                    Err(error) if is_set_aside(&error) => inner.later(workflow, now, SET_ASIDE_LOOK_MS).await,
                    Err(error) => {
                        inner.later(workflow, now, AFTER_FAILURE_MS).await?;
                        Err(error)
                    }
                }
            }
        });
        let mut done: Vec<Result<usize, BackendError>> =
            stream::iter(looks.collect::<Vec<_>>()).buffer_unordered(AT_ONCE).collect().await;
        // One that fails does not prevent looks at the others.
        match done.iter().position(Result::is_err) {
            Some(failed) => done.swap_remove(failed),
            None => Ok(done.into_iter().flatten().sum()),
        }
    }

    /// Checks that every workflow under suspicion is consistent.
    ///
    /// # Errors
    /// The number of inconsistent ones.
    pub fn reconcile(&self) -> BoxFuture<'_, Result<usize, BackendError>> {
        Box::pin(async move {
            let adrift: Vec<WorkflowId> = self.inner.adrift.lock().iter().copied().collect();
            for id in &adrift {
                let still = self
                    .inner
                    .store
                    .workflow(*id)
                    .await?
                    .is_some_and(|workflow| !workflow.state.is_finished());
                if still {
                    match self.inner.advance(*id, StepRequest::look()).await {
                        Err(error) if !is_set_aside(&error) => return Err(error),
                        _ => {}
                    }
                } else {
                    self.inner.adrift.lock().remove(id);
                }
            }
            let left = self.inner.adrift.lock().len();
            match left {
                0 => Ok(0),
                _ => {
                    let problem = format!("{left} workflows wait for nothing that could come");
                    Err(BackendError::did_not_happen("reconcile workflows", problem))
                }
            }
        })
    }

    async fn forget(&self, now: Millis) -> Result<(), BackendError> {
        let inner = &self.inner;
        {
            let mut last = inner.forgot_at.lock();
            if last.is_some_and(|at| (0..inner.options.forget_interval_ms).contains(&now.since(at))) {
                return Ok(());
            }
            *last = Some(now);
        }
        let before = now.plus(-inner.options.keep_ms.max(FORGET_MIN_MS));
        let forgotten = inner.store.forget_workflows(before, FORGET_BATCH).await?;
        if forgotten >= FORGET_BATCH {
            // The next run continues, so that deletion keeps up with any number of ends.
            *inner.forgot_at.lock() = None;
        }
        Ok(())
    }

    /// The instant of the next work, for a caller that moves the clock manually.
    ///
    /// # Errors
    /// A failing store.
    pub async fn next_run_at(&self) -> Result<Option<Millis>, BackendError> {
        self.inner.store.next_workflow_wake().await
    }
}

impl WorkflowsState {
    /// The slots of the partitions that this engine works on: bit n for slot n.
    fn slots(&self) -> u32 {
        let partitions = self.engine.store().partitions().max(1);
        let is_own = |slot: &u8| self.engine.owns(Partition(u16::from(*slot) % partitions));
        (0..SLOTS).filter(is_own).fold(0, |all, slot| all | (1 << slot))
    }

    /// The secret from which the ids of a workflow's tasks are derived. `None` means an older program began it
    /// without one.
    pub(crate) async fn secret_of(
        &self,
        stored: &StoredWorkflow,
    ) -> Result<Option<IdentitySecret>, BackendError> {
        if !stored.progress.is_keyed {
            return Ok(None);
        }
        self.engine.identity_secret(&*self.store).await.map(Some)
    }

    /// The parsed document of a workflow. `None` if it was deleted together with its workflow.
    pub(crate) async fn plan(
        &self,
        namespace: &Name,
        definition: i64,
    ) -> Result<Option<Arc<Plan>>, BackendError> {
        if let Some(plan) = self.plans.lock().by_definition.get(&definition) {
            return Ok(Some(Arc::clone(plan)));
        }
        let Some(stored) = self.store.definition(definition).await? else { return Ok(None) };
        let document = Arc::new(stored.definition);
        let plan = evaluate::for_engine(self.options.pool, namespace, |_| Ok(Plan::stored(document))).await?;
        let plan =
            plan.map_err(|invalid| BackendError::did_not_happen("read the document of a workflow", invalid))?;
        let plan = Arc::new(plan);
        self.plans.lock().keep(definition, &plan);
        Ok(Some(plan))
    }
}
