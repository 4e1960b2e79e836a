//! The guard for tasks from HTTP, if a worker has one: an attempt that two executors got is executed by one.
//! If the guard does not answer, the task runs nevertheless: the fence protects its outcome, and the bus may
//! be unavailable together with the guard.

use futures_util::future::join_all;
use punctual_bus::{Execution, Guard, Taken};
use punctual_protocol::{LeasedTask, Token};

use super::WorkerContext;

/// Keeps the tasks to run here. A task that another executor runs is left to its lease.
pub(super) async fn granted(shared: &WorkerContext, tasks: Vec<LeasedTask>) -> Vec<LeasedTask> {
    let Some(guard) = &shared.guard else { return tasks };
    let answers = join_all(tasks.iter().map(|task| may_run(guard, task))).await;
    tasks.into_iter().zip(answers).filter(|pair| pair.1).map(|pair| pair.0).collect()
}

async fn may_run(guard: &Guard, task: &LeasedTask) -> bool {
    let (Ok(place), Ok(token)) = (task.r#ref.parse(), task.token.parse::<Token>()) else { return true };
    match guard.take(Execution { place, fence: token.fence, attempt: task.attempt }).await {
        Ok(taken) => taken == Taken::Granted,
        Err(error) => {
            tracing::warn!(task = task.r#ref, attempt = task.attempt, error = %error, "the guard does not answer: the fence alone decides");
            true
        }
    }
}
