//! Instants and payloads are computed on the threads of the pool: never on those that serve requests and tasks.

use crate::Error;
use punctual_contract::Error as BackendError;
use punctual_domain::{name::Name, schedule::Budget};
use punctual_expressions::{Pool, PoolLane, TimeSlice, Unavailable};
use std::panic::{AssertUnwindSafe, catch_unwind};

const DOING: &str = "compute the instants of schedules";

/// The planner's tenant name in the pool: `allowance` bounds the time of each namespace.
const PLANNER: &str = "(planner)";

/// Runs work for the planner. Work that is not computed now is computed at its next run.
pub(crate) async fn for_planner<T: Send + 'static>(
    pool: &Pool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, BackendError> {
    let computed = pool.run(PoolLane::Engine, PLANNER, move |_| work()).await;
    computed.map_err(|problem| BackendError::did_not_happen(DOING, problem))
}

/// One of several pieces of work, on a thread of the pool. `None` if it panicked (which is counted and logged like
/// every panic), and the others continue.
pub(crate) fn one_of_many<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// Runs work for a request of a namespace. The work's own budget ends with its turn: when the caller has
/// disconnected, or at the pool's deadline.
pub(crate) async fn for_request<T: Send + 'static>(
    pool: &Pool,
    namespace: &Name,
    work: impl FnOnce(&TimeSlice) -> T + Send + 'static,
) -> Result<T, Error> {
    pool.run(PoolLane::Request, namespace.as_str(), work).await.map_err(|problem| match problem {
        Unavailable::Full => Error::Busy,
        Unavailable::Panicked => BackendError::did_not_happen(DOING, problem).into(),
    })
}

/// Steps of the calendar for a request.
pub(crate) fn calendar(steps: u32, pass: &TimeSlice) -> Budget {
    let pass = pass.clone();
    Budget::of_steps(steps).until(move || pass.is_over())
}
