//! Creates runs while their schedules are marked as being evaluated, so that no third engine dies of one; and the
//! calls for schedules that are set aside.

use crate::{
    Error, Planner,
    calls::TRIES,
    make::{self, Made, OwnedRun, Purpose},
    planner::PlannerState,
};
use punctual_contract::{
    Error as BackendError,
    evaluations::{EvaluationKind, SetAside, Subject},
    schedules::{Advance, ScheduleKey, StoredSchedule},
    store::Applied,
};
use punctual_engine::EvaluationVerdict;
use std::collections::BTreeMap;

pub(crate) fn subject(stored: &StoredSchedule) -> Subject {
    let (namespace, name) = (stored.key.namespace.clone(), stored.key.name.as_str().to_owned());
    Subject { id: stored.id, namespace, name }
}

/// The result for each, in order. For runs that are not evaluated now: [`Made::NotNow`].
pub(crate) async fn make_some(inner: &PlannerState, runs: &[OwnedRun]) -> Result<Vec<Made>, BackendError> {
    let subjects: BTreeMap<i64, Subject> =
        runs.iter().map(|(stored, _)| (stored.id, subject(stored))).collect();
    let subjects: Vec<Subject> = subjects.into_values().collect();
    let begun = inner.engine.begin_evaluations(&*inner.store, EvaluationKind::Schedule, &subjects);
    let (evaluating, verdicts) = begun.await?;
    let of: BTreeMap<i64, &EvaluationVerdict> =
        subjects.iter().map(|subject| subject.id).zip(&verdicts).collect();
    let mut answers: Vec<Made> = runs.iter().map(|_| Made::NotNow).collect();
    let go = |(stored, _): &OwnedRun| of.get(&stored.id) == Some(&&EvaluationVerdict::Go);
    let done = fill_in(inner, runs, &go, &mut answers).await;
    evaluating.cleared(&*inner.store).await;
    done?;
    for (subject, _) in subjects.iter().zip(&verdicts).filter(|pair| *pair.1 == EvaluationVerdict::Alone) {
        let begun = inner.engine.begin_alone(&*inner.store, EvaluationKind::Schedule, subject).await?;
        let Ok(evaluating) = begun else { continue };
        let done = fill_in(inner, runs, &|(stored, _)| stored.id == subject.id, &mut answers).await;
        evaluating.cleared(&*inner.store).await;
        done?;
    }
    Ok(answers)
}

async fn fill_in(
    inner: &PlannerState,
    runs: &[OwnedRun],
    is_one: &(dyn Fn(&OwnedRun) -> bool + Send + Sync),
    answers: &mut [Made],
) -> Result<(), BackendError> {
    let (places, some): (Vec<usize>, Vec<OwnedRun>) =
        runs.iter().cloned().enumerate().filter(|(_, run)| is_one(run)).unzip();
    for (stored, _) in &some {
        inner.engine.evaluates(EvaluationKind::Schedule, stored.key.name.as_str()).await;
    }
    let made = make::make_some(inner, &some, Purpose::Run).await?;
    for (nth, made) in places.into_iter().zip(made) {
        if let Some(place) = answers.get_mut(nth) {
            *place = made;
        }
    }
    Ok(())
}

impl Planner {
    /// Schedules that are set aside, because engines have died of them.
    ///
    /// # Errors
    /// A failing store.
    pub async fn set_aside(&self) -> Result<Vec<SetAside>, Error> {
        Ok(self.inner.engine.set_aside(&*self.inner.store, EvaluationKind::Schedule).await?)
    }

    /// Removes this engine's marks at its stop, including those of workflows and bulk operations. No
    /// evaluation may follow.
    ///
    /// # Errors
    /// A failing store.
    pub async fn leave(&self) -> Result<(), Error> {
        Ok(self.inner.engine.leave_evaluations(&*self.inner.store).await?)
    }

    /// Releases a schedule after a person has changed it: it is evaluated again, soon.
    pub(crate) async fn release(&self, stored: &StoredSchedule) -> Result<(), Error> {
        let inner = &self.inner;
        let released = inner.engine.release_evaluation(&*inner.store, EvaluationKind::Schedule, stored.id);
        if released.await.map_err(BackendError::after_a_change)? {
            self.wake(&stored.key).await?;
        }
        Ok(())
    }

    /// It may have been put off since.
    async fn wake(&self, key: &ScheduleKey) -> Result<(), Error> {
        for _ in 0..TRIES {
            let current = self.inner.store.schedule(key).await.map_err(BackendError::after_a_change)?;
            let Some(current) = current else { return Ok(()) };
            let now = self.inner.engine.now();
            let (id, step, progress) = (current.id, current.step, current.progress);
            let advance =
                Advance { id, step, progress, wake_at: Some(now), runs: Vec::new(), takes_back: None };
            let applied = self.inner.store.advance_schedules(vec![advance], now).await;
            if applied.map_err(BackendError::after_a_change)?.first() == Some(&Applied::Moved) {
                return Ok(());
            }
        }
        Err(Error::Contended)
    }
}
