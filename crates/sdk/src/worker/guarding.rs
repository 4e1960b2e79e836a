//! The guard for tasks from the server: an attempt that was delivered twice is executed once. Redis guards it for a
//! window; without Redis, the server does, as long as the lease lasts. If neither answers, the task runs nevertheless:
//! the fence protects its outcome. Must never decide about an outcome, nor hold back a task that no executor runs.

use super::WorkerContext;
use punctual_protocol::{LeaseBeat, LeaseNews, LeasedTask, limits::BATCH_MAX};
use std::{iter, time::Duration};
use tokio::time::timeout;

/// The check that prevents a second run of an attempt.
#[derive(Debug, Default)]
pub(super) enum ExecutionGuard {
    /// The fence alone: it refuses the second outcome.
    #[default]
    Fence,
    /// The first heartbeat of an attempt begins it; only its sender executes the task.
    Server,
    #[cfg(feature = "redis")]
    Redis(crate::bus::Guard),
}

/// Keeps the tasks to run here. A task that another executor runs is left to its lease.
pub(super) async fn granted(shared: &WorkerContext, tasks: Vec<LeasedTask>) -> Vec<LeasedTask> {
    match &shared.guard {
        ExecutionGuard::Fence => tasks,
        ExecutionGuard::Server => by_server(shared, tasks).await,
        #[cfg(feature = "redis")]
        ExecutionGuard::Redis(guard) => redis::granted(guard, tasks).await,
    }
}

/// Gets the attempts that the server has begun for this worker. Tasks run without an answer after a third of the
/// lease: the lease must last for the work.
async fn by_server(shared: &WorkerContext, tasks: Vec<LeasedTask>) -> Vec<LeasedTask> {
    let patience = Duration::from_millis(shared.options.lease_ms) / 3;
    let mut granted = Vec::with_capacity(tasks.len());
    let mut rest = tasks;
    while !rest.is_empty() {
        let part: Vec<LeasedTask> = rest.drain(..rest.len().min(BATCH_MAX)).collect();
        let beat = |task: &LeasedTask| LeaseBeat {
            r#ref: task.r#ref.clone(),
            token: task.token.clone(),
            ..LeaseBeat::default()
        };
        let request = shared.beat_request(part.iter().map(beat).collect());
        match timeout(patience, shared.client.heartbeat(&request)).await {
            Ok(Ok(answer)) => {
                let news = answer.leases.into_iter().map(Some).chain(iter::repeat_with(|| None));
                let runs_here =
                    part.into_iter().zip(news).filter(|(task, news)| may_run(task, news.as_ref()));
                granted.extend(runs_here.map(|(task, _)| task));
            }
            Ok(Err(error)) => {
                tracing::warn!(tasks = part.len(), error = %error, "the server did not guard these tasks: the fence alone decides");
                granted.extend(part);
            }
            Err(_) => {
                tracing::warn!(
                    tasks = part.len(),
                    "the server did not answer in time to guard these tasks: the fence alone decides"
                );
                granted.extend(part);
            }
        }
    }
    granted
}

/// True unless another executor is known to run the attempt. An engine older than 0.3 does not report who has begun a
/// task.
fn may_run(task: &LeasedTask, news: Option<&LeaseNews>) -> bool {
    let Some(news) = news.filter(|news| news.r#ref == task.r#ref) else { return true };
    let why = match news {
        LeaseNews { lost: true, .. } => "its lease is over",
        LeaseNews { has_begun: Some(false), .. } => "another executor has begun it",
        _ => return true,
    };
    tracing::info!(task = task.r#ref, attempt = task.attempt, why, "not executed here");
    false
}

#[cfg(feature = "redis")]
mod redis {
    use futures_util::future::join_all;
    use punctual_bus::{Execution, Guard, Taken};
    use punctual_protocol::{LeasedTask, Token};

    pub(super) async fn granted(guard: &Guard, tasks: Vec<LeasedTask>) -> Vec<LeasedTask> {
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
}
