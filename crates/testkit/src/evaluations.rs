//! Marks of evaluations for stores that wrap others: passed on without faults, or left out.

/// Passed on as they are: faults are of what the store keeps for its users.
macro_rules! passes_evaluations_on {
    ($store:ty) => {
        #[async_trait::async_trait]
        impl punctual_contract::EvaluationStore for $store {
            async fn begin_evaluations(
                &self,
                pass: &punctual_contract::evaluations::EvaluationPass,
                subjects: &[punctual_contract::evaluations::Subject],
                crowd: punctual_contract::evaluations::Crowd,
                now: punctual_domain::time::Millis,
            ) -> Result<Vec<punctual_contract::evaluations::SubjectMarks>, punctual_contract::Error> {
                self.inner.begin_evaluations(pass, subjects, crowd, now).await
            }

            async fn end_evaluations(
                &self,
                pass: &punctual_contract::evaluations::EvaluationPass,
                ids: &[i64],
            ) -> Result<(), punctual_contract::Error> {
                self.inner.end_evaluations(pass, ids).await
            }

            async fn release_evaluations(
                &self,
                kind: punctual_contract::evaluations::EvaluationKind,
                ids: &[i64],
                engine: &str,
            ) -> Result<usize, punctual_contract::Error> {
                self.inner.release_evaluations(kind, ids, engine).await
            }

            async fn set_aside(
                &self,
                engine: &str,
                limit: usize,
            ) -> Result<Vec<punctual_contract::evaluations::SetAside>, punctual_contract::Error> {
                self.inner.set_aside(engine, limit).await
            }

            async fn ended_subjects(
                &self,
                engine: &str,
                limit: usize,
            ) -> Result<Vec<(punctual_contract::evaluations::EvaluationKind, i64)>, punctual_contract::Error>
            {
                self.inner.ended_subjects(engine, limit).await
            }

            async fn leave_evaluations(&self, engine: &str) -> Result<(), punctual_contract::Error> {
                self.inner.leave_evaluations(engine).await
            }
        }
    };
}

/// An engine of the simulation dies between any two calls, again and again, and of no evaluation: marks would set aside what is
/// innocent. What they promise has its own tests (`tests/all/evaluations.rs`).
macro_rules! leaves_evaluations_out {
    ($store:ty) => {
        #[async_trait::async_trait]
        impl punctual_contract::EvaluationStore for $store {
            async fn begin_evaluations(
                &self,
                _: &punctual_contract::evaluations::EvaluationPass,
                subjects: &[punctual_contract::evaluations::Subject],
                _: punctual_contract::evaluations::Crowd,
                _: punctual_domain::time::Millis,
            ) -> Result<Vec<punctual_contract::evaluations::SubjectMarks>, punctual_contract::Error> {
                let one =
                    |_| punctual_contract::evaluations::SubjectMarks { is_marked: true, died: 0, at_work: 0 };
                Ok(subjects.iter().map(one).collect())
            }

            async fn end_evaluations(
                &self,
                _: &punctual_contract::evaluations::EvaluationPass,
                _: &[i64],
            ) -> Result<(), punctual_contract::Error> {
                Ok(())
            }

            async fn release_evaluations(
                &self,
                _: punctual_contract::evaluations::EvaluationKind,
                _: &[i64],
                _: &str,
            ) -> Result<usize, punctual_contract::Error> {
                Ok(0)
            }

            async fn set_aside(
                &self,
                _: &str,
                _: usize,
            ) -> Result<Vec<punctual_contract::evaluations::SetAside>, punctual_contract::Error> {
                Ok(Vec::new())
            }

            async fn ended_subjects(
                &self,
                _: &str,
                _: usize,
            ) -> Result<Vec<(punctual_contract::evaluations::EvaluationKind, i64)>, punctual_contract::Error>
            {
                Ok(Vec::new())
            }

            async fn leave_evaluations(&self, _: &str) -> Result<(), punctual_contract::Error> {
                Ok(())
            }
        }
    };
}

pub(crate) use leaves_evaluations_out;
pub(crate) use passes_evaluations_on;
