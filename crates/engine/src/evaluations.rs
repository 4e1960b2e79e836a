//! Evaluations of user expressions: each is marked before and unmarked after, so that no subject kills a third
//! engine. Decides which subject is evaluated now, which alone, and which is set aside. Evaluates nothing itself, and
//! is on no task's path.
//!
//! A subject whose evaluation may have killed an engine is evaluated alone, one at a time in a process. That clears the
//! subjects that were only evaluated at the same time.

pub(crate) mod state;

use crate::{core::Core, engine::Engine};
use punctual_contract::{
    Error as BackendError, EvaluationStore,
    evaluations::{Crowd, DEATHS_MAX, EvaluationKind, EvaluationPass, SetAside, Subject, SubjectMarks},
};
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::{sync::OwnedMutexGuard, time::timeout};

/// The maximum number of subjects in an alert and in a list.
const SET_ASIDE_MAX: usize = 1_000;
/// The maximum number of ended subjects per run whose marks are removed; the next run continues.
const FORGET_MAX: usize = 1_000;
/// The time limit of the wait for another evaluation that runs alone.
const ALONE_WAIT: Duration = Duration::from_secs(5);
/// The maximum number of subjects that are known to have left marks of dead engines.
const SUSPECTS_MAX: usize = 10_000;
/// The interval of the check for released subjects among those that are set aside.
pub const SET_ASIDE_LOOK_MS: i64 = 60_000;

/// Why something is not evaluated now. An answer, and no fault of the engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotEvaluated {
    #[error(
        "engines have died, or panicked, while they evaluated it: it is set aside until it is changed, resumed or retried"
    )]
    SetAside,
    #[error("other engines evaluate it: it is looked at again")]
    AtWork,
}

impl NotEvaluated {
    /// Extracts it from a back end's error.
    #[must_use]
    pub fn of(error: &BackendError) -> Option<&Self> {
        error.source.downcast_ref()
    }

    fn by(marks_of_subject: SubjectMarks) -> Option<Self> {
        match (marks_of_subject.is_marked, marks_of_subject.died) {
            (_, DEATHS_MAX..) => Some(Self::SetAside),
            // If several began at once, the last ones give way.
            (true, died) if died + marks_of_subject.at_work < DEATHS_MAX => None,
            _ => Some(Self::AtWork),
        }
    }
}

/// The decision about one subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvaluationVerdict {
    /// It is marked, together with the others.
    Go,
    /// An engine has died of it, or evaluates it now: it must be begun alone.
    Alone,
    Not(NotEvaluated),
}

/// Marks of one pass. To be ended; dropped, they are removed with the next.
#[derive(Debug)]
pub struct Evaluating {
    core: Arc<Core>,
    pass: EvaluationPass,
    ids: Vec<i64>,
    /// Prevents the evaluation of any other subject that engines have died of.
    alone: Option<OwnedMutexGuard<()>>,
}

impl Evaluating {
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.alone.is_some()
    }

    /// All subjects were evaluated: engines that died meanwhile died of something else.
    pub async fn cleared(mut self, store: &dyn EvaluationStore) {
        if self.is_alone() {
            let cleared = store.release_evaluations(self.pass.kind, &self.ids, &self.pass.engine).await;
            match cleared {
                Ok(_) => self.forget(),
                Err(error) => {
                    tracing::warn!(%error, "what engines have not died of could not be cleared; it is evaluated alone once more");
                }
            }
        }
        self.remove(store).await;
    }

    /// An answer or an error was found before all subjects were evaluated.
    pub async fn ended(mut self, store: &dyn EvaluationStore) {
        self.remove(store).await;
    }

    /// Clears the suspects like [`Evaluating::cleared`], if nothing is left to evaluate.
    fn forget(&self) {
        let mut suspects = self.core.evaluations.suspects.lock();
        for id in &self.ids {
            suspects.remove(&(self.pass.kind, *id));
        }
    }

    async fn remove(&mut self, store: &dyn EvaluationStore) {
        if self.ids.is_empty() {
            return;
        }
        match store.end_evaluations(&self.pass, &self.ids).await {
            Ok(()) => self.ids.clear(),
            Err(error) => {
                tracing::warn!(%error, "marks of evaluations could not be removed; they are removed with the next");
            }
        }
    }
}

impl Drop for Evaluating {
    fn drop(&mut self) {
        if !self.ids.is_empty() {
            let ids = std::mem::take(&mut self.ids);
            self.core.evaluations.left.lock().push((self.pass.clone(), ids));
        }
    }
}

impl Engine {
    /// Marks subjects that are evaluated together. Returns a verdict for each, in order.
    ///
    /// # Errors
    /// A failing store: then nothing may be evaluated.
    pub async fn begin_evaluations(
        &self,
        store: &dyn EvaluationStore,
        kind: EvaluationKind,
        subjects: &[Subject],
    ) -> Result<(Evaluating, Vec<EvaluationVerdict>), BackendError> {
        self.remove_left(store).await?;
        let mut evaluating = self.next_turn(kind, subjects);
        let marks_of_subject = self.mark(store, &evaluating, subjects, Crowd::Together).await?;
        let verdict = |marks_of_subject: &SubjectMarks| match NotEvaluated::by(*marks_of_subject) {
            None => EvaluationVerdict::Go,
            Some(NotEvaluated::AtWork) if !marks_of_subject.is_marked => EvaluationVerdict::Alone,
            Some(not) => EvaluationVerdict::Not(not),
        };
        let verdicts: Vec<EvaluationVerdict> = marks_of_subject.iter().map(verdict).collect();
        self.suspect(kind, subjects, &verdicts);
        let marked = marks_of_subject
            .iter()
            .zip(subjects)
            .zip(&verdicts)
            .filter(|((marks_of_subject, _), _)| marks_of_subject.is_marked);
        let (go, given_way): (Vec<_>, Vec<_>) =
            marked.partition(|(_, verdict)| **verdict == EvaluationVerdict::Go);
        let ids = |all: Vec<((&SubjectMarks, &Subject), &EvaluationVerdict)>| {
            all.iter().map(|pair| pair.0.1.id).collect()
        };
        let (go, given_way): (Vec<i64>, Vec<i64>) = (ids(go), ids(given_way));
        if !given_way.is_empty() {
            store.end_evaluations(&evaluating.pass, &given_way).await?;
        }
        evaluating.ids = go;
        Ok((evaluating, verdicts))
    }

    /// Marks a subject that is evaluated alone, once no other of that kind is evaluated alone here.
    ///
    /// # Errors
    /// Fails like [`Engine::begin_evaluations`].
    pub async fn begin_alone(
        &self,
        store: &dyn EvaluationStore,
        kind: EvaluationKind,
        subject: &Subject,
    ) -> Result<Result<Evaluating, NotEvaluated>, BackendError> {
        let alone = Arc::clone(&self.core.evaluations.alone).lock_owned();
        // An evaluation that runs alone may wait for another that must run alone too.
        let Ok(guard) = timeout(ALONE_WAIT, alone).await else { return Ok(Err(NotEvaluated::AtWork)) };
        let subjects = std::slice::from_ref(subject);
        let mut evaluating = self.next_turn(kind, subjects);
        evaluating.alone = Some(guard);
        let marks_of_subject = self.mark(store, &evaluating, subjects, Crowd::Alone).await?;
        match marks_of_subject.first().copied().and_then(NotEvaluated::by) {
            None => Ok(Ok(evaluating)),
            Some(not) => {
                if marks_of_subject.iter().any(|marks_of_subject| marks_of_subject.is_marked) {
                    evaluating.ended(store).await;
                } else {
                    evaluating.ids.clear();
                }
                Ok(Err(not))
            }
        }
    }

    fn suspect(&self, kind: EvaluationKind, subjects: &[Subject], verdicts: &[EvaluationVerdict]) {
        let mut suspects = self.core.evaluations.suspects.lock();
        for (subject, _) in
            subjects.iter().zip(verdicts).filter(|(_, verdict)| **verdict == EvaluationVerdict::Alone)
        {
            if suspects.len() < SUSPECTS_MAX {
                suspects.insert((kind, subject.id));
            }
        }
    }

    /// The subject has nothing to evaluate: if an engine died of it as far as is known here, it died of
    /// something else.
    ///
    /// # Errors
    /// A failing store.
    pub async fn nothing_to_evaluate(
        &self,
        store: &dyn EvaluationStore,
        kind: EvaluationKind,
        id: i64,
    ) -> Result<(), BackendError> {
        let is_suspect = self.core.evaluations.suspects.lock().remove(&(kind, id));
        if is_suspect { self.release_evaluation(store, kind, id).await.map(drop) } else { Ok(()) }
    }

    /// Must be called right before an evaluation. Only tests listen.
    pub async fn evaluates(&self, kind: EvaluationKind, name: &str) {
        if let Some(probe) = &self.core.options.probe {
            (probe.before)(kind, name).await;
        }
    }

    /// The same on the thread that evaluates, for each subject by itself.
    pub fn evaluates_on_thread(&self, kind: EvaluationKind, name: &str) {
        if let Some(probe) = &self.core.options.probe {
            (probe.on_thread)(kind, name);
        }
    }

    /// An evaluation has panicked: that counts as a death, and the mark stays as that of a dead engine does. To be asked when the
    /// mark of the evaluation itself has been removed.
    ///
    /// # Errors
    /// A failing store.
    pub async fn evaluation_panicked(
        &self,
        store: &dyn EvaluationStore,
        kind: EvaluationKind,
        subject: &Subject,
    ) -> Result<(), BackendError> {
        // No engine has this name, so none with it is alive.
        let pass = EvaluationPass { kind, engine: format!("panic-{:016x}", fastrand::u64(..)), number: 1 };
        let subjects = std::slice::from_ref(subject);
        store.begin_evaluations(&pass, subjects, Crowd::Alone, self.now()).await.map(drop)
    }

    fn next_turn(&self, kind: EvaluationKind, subjects: &[Subject]) -> Evaluating {
        let evaluations = &self.core.evaluations;
        let number = evaluations.turns.fetch_add(1, Relaxed);
        let pass = EvaluationPass { kind, engine: evaluations.engine.clone(), number };
        // Until it is known which of them are marked, all of them may be.
        let ids = subjects.iter().map(|subject| subject.id).collect();
        Evaluating { core: Arc::clone(&self.core), pass, ids, alone: None }
    }

    async fn mark(
        &self,
        store: &dyn EvaluationStore,
        evaluating: &Evaluating,
        subjects: &[Subject],
        crowd: Crowd,
    ) -> Result<Vec<SubjectMarks>, BackendError> {
        if subjects.is_empty() {
            return Ok(Vec::new());
        }
        store.begin_evaluations(&evaluating.pass, subjects, crowd, self.now()).await
    }

    async fn remove_left(&self, store: &dyn EvaluationStore) -> Result<(), BackendError> {
        let mut left = std::mem::take(&mut *self.core.evaluations.left.lock());
        while let Some((pass, ids)) = left.pop() {
            if let Err(error) = store.end_evaluations(&pass, &ids).await {
                left.push((pass, ids));
                self.core.evaluations.left.lock().extend(left);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Releases a subject that an operator has changed, or wants to continue. Returns true if it was set aside, or an
    /// engine had died of it.
    ///
    /// # Errors
    /// A failing store.
    pub async fn release_evaluation(
        &self,
        store: &dyn EvaluationStore,
        kind: EvaluationKind,
        id: i64,
    ) -> Result<bool, BackendError> {
        let engine = &self.core.evaluations.engine;
        let released = store.release_evaluations(kind, &[id], engine).await? > 0;
        if released {
            self.core
                .evaluations
                .set_aside
                .lock()
                .retain(|set_aside| (set_aside.kind, set_aside.id) != (kind, id));
        }
        Ok(released)
    }

    /// The subjects of one kind that are set aside.
    ///
    /// # Errors
    /// A failing store.
    pub async fn set_aside(
        &self,
        store: &dyn EvaluationStore,
        kind: EvaluationKind,
    ) -> Result<Vec<SetAside>, BackendError> {
        let mut all = store.set_aside(&self.core.evaluations.engine, SET_ASIDE_MAX).await?;
        all.retain(|set_aside| set_aside.kind == kind);
        Ok(all)
    }

    /// Reads the subjects that are set aside, for the alert. Returns their number.
    ///
    /// # Errors
    /// A failing store.
    pub async fn look_at_set_aside(&self, store: &dyn EvaluationStore) -> Result<usize, BackendError> {
        let all = store.set_aside(&self.core.evaluations.engine, SET_ASIDE_MAX).await?;
        let mut known = self.core.evaluations.set_aside.lock();
        for set_aside in all.iter().filter(|set_aside| {
            !known.iter().any(|known| (known.kind, known.id) == (set_aside.kind, set_aside.id))
        }) {
            let (kind, namespace, name, engines) =
                (set_aside.kind.word(), set_aside.namespace.as_str(), &set_aside.name, set_aside.died);
            tracing::error!(
                kind,
                namespace,
                name,
                engines,
                "engines have died, or panicked, while they evaluated it; it is set aside"
            );
        }
        *known = all;
        Ok(known.len())
    }

    /// Removes marks that dead engines left on deleted or ended subjects: no evaluation clears those. Returns
    /// the number of subjects.
    ///
    /// # Errors
    /// A failing store; marks that were already removed stay removed.
    pub async fn forget_ended_evaluations(&self, store: &dyn EvaluationStore) -> Result<usize, BackendError> {
        let evaluations = &self.core.evaluations;
        let ended = store.ended_subjects(&evaluations.engine, FORGET_MAX).await?;
        for kind in EvaluationKind::ALL {
            let of_kind = ended.iter().filter(|subject| subject.0 == kind);
            let ids: Vec<i64> = of_kind.map(|subject| subject.1).collect();
            if !ids.is_empty() {
                store.release_evaluations(kind, &ids, &evaluations.engine).await?;
            }
        }
        let mut suspects = evaluations.suspects.lock();
        for subject in &ended {
            suspects.remove(subject);
        }
        Ok(ended.len())
    }

    /// An engine that stops leaves no mark.
    ///
    /// # Errors
    /// A failing store.
    pub async fn leave_evaluations(&self, store: &dyn EvaluationStore) -> Result<(), BackendError> {
        self.core.evaluations.left.lock().clear();
        store.leave_evaluations(&self.core.evaluations.engine).await
    }
}
