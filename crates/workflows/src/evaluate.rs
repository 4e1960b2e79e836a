//! Reads and evaluates user input on threads of the pool: never on those that serve requests and tasks.

use crate::Error;
use punctual_contract::Error as BackendError;
use punctual_domain::name::Name;
use punctual_expressions::{Pool, PoolLane, Problem, TimeSlice, Unavailable};

/// The evaluation exceeded the time of work in the pool on this machine: it is tried again, and is no error of the
/// document.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("expressions took too long on this machine")]
pub(crate) struct OutOfTime;

/// Runs work for a loop of the engine. Work that is not done now is done in the next run.
pub(crate) async fn for_engine<T: Send + 'static>(
    pool: &Pool,
    namespace: &Name,
    work: impl FnOnce(&TimeSlice) -> Result<T, OutOfTime> + Send + 'static,
) -> Result<T, BackendError> {
    let done = pool.run(PoolLane::Engine, namespace.as_str(), work).await;
    let done = done.map_err(|problem| BackendError::did_not_happen("evaluate expressions", problem))?;
    done.map_err(|problem| BackendError::did_not_happen("evaluate expressions", problem))
}

/// Runs work for a request.
pub(crate) async fn for_request<T: Send + 'static>(
    pool: &Pool,
    namespace: &Name,
    work: impl FnOnce(&TimeSlice) -> T + Send + 'static,
) -> Result<T, Error> {
    pool.run(PoolLane::Request, namespace.as_str(), work).await.map_err(|problem| match problem {
        Unavailable::Full => Error::Busy,
        Unavailable::Panicked => BackendError::did_not_happen("evaluate expressions", problem).into(),
    })
}

/// The content of a row whose expression has no value.
pub(crate) fn recorded(problem: Problem) -> Result<String, OutOfTime> {
    if problem.is_out_of_time() { Err(OutOfTime) } else { Ok(problem.into()) }
}
