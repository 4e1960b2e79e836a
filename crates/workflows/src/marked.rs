//! Marks a workflow while its expressions are evaluated, so that no third engine dies of one; and the calls
//! for workflows that are set aside. A step without evaluations marks nothing.

use crate::{Error, Runner, runner::WorkflowsState};
use punctual_contract::{
    Error as BackendError,
    evaluations::{EvaluationKind, SetAside, Subject},
    workflows::{StoredWorkflow, WorkflowId},
};
use punctual_engine::{Evaluating, EvaluationVerdict, NotEvaluated};
use tokio::sync::OnceCell;

/// The mark of one step. Nothing is marked before the first expression is evaluated.
#[derive(Debug, Default)]
pub(crate) struct Marked(OnceCell<Evaluating>);

impl Marked {
    /// Marks the workflow. The caller must do that before anything is evaluated.
    ///
    /// # Errors
    /// [`NotEvaluated`], or a failing store.
    pub(crate) async fn begin(
        &self,
        inner: &WorkflowsState,
        stored: &StoredWorkflow,
    ) -> Result<(), BackendError> {
        self.0.get_or_try_init(|| begin(inner, stored)).await?;
        inner.engine.evaluates(EvaluationKind::Workflow, &stored.id.to_string()).await;
        Ok(())
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.0.get().is_some_and(Evaluating::is_alone)
    }

    /// `is_all`: everything that this workflow had to evaluate was evaluated.
    pub(crate) async fn end(self, inner: &WorkflowsState, id: WorkflowId, is_all: bool) {
        let (engine, store) = (&inner.engine, &*inner.store);
        match self.0.into_inner() {
            Some(evaluating) if is_all => evaluating.cleared(store).await,
            Some(evaluating) => evaluating.ended(store).await,
            None if is_all => {
                let cleared = engine.nothing_to_evaluate(store, EvaluationKind::Workflow, id.0).await;
                if let Err(error) = cleared {
                    tracing::warn!(workflow = %id, %error, "what engines have not died of could not be cleared");
                }
            }
            None => {}
        }
    }
}

async fn begin(inner: &WorkflowsState, stored: &StoredWorkflow) -> Result<Evaluating, BackendError> {
    let name = stored.name.as_ref().map(|name| format!("{name} ")).unwrap_or_default();
    let name = format!("{name}{}", stored.id);
    let subject = Subject { id: stored.id.0, namespace: stored.namespace.clone(), name };
    let (engine, store) = (&inner.engine, &*inner.store);
    let not = |not: NotEvaluated| BackendError::did_not_happen("move a workflow on", not);
    let subjects = std::slice::from_ref(&subject);
    let (evaluating, verdicts) = engine.begin_evaluations(store, EvaluationKind::Workflow, subjects).await?;
    match verdicts.into_iter().next() {
        Some(EvaluationVerdict::Alone) => {
            engine.begin_alone(store, EvaluationKind::Workflow, &subject).await?.map_err(not)
        }
        Some(EvaluationVerdict::Not(not_evaluated)) => Err(not(not_evaluated)),
        Some(EvaluationVerdict::Go) | None => Ok(evaluating),
    }
}

/// True if the workflow is set aside: it is checked again, but nothing can be done before an operator acts.
pub(crate) fn is_set_aside(error: &BackendError) -> bool {
    NotEvaluated::of(error) == Some(&NotEvaluated::SetAside)
}

impl WorkflowsState {
    /// Releases a workflow. Returns true if it was set aside, or an engine had died of it.
    pub(crate) async fn release(&self, id: WorkflowId) -> Result<bool, BackendError> {
        self.engine.release_evaluation(&*self.store, EvaluationKind::Workflow, id.0).await
    }
}

impl Runner {
    /// Workflows that are set aside, because engines have died of them.
    ///
    /// # Errors
    /// A failing store.
    pub async fn set_aside(&self) -> Result<Vec<SetAside>, Error> {
        Ok(self.inner.engine.set_aside(&*self.inner.store, EvaluationKind::Workflow).await?)
    }
}
