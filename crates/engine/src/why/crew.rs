//! The executors that could run a waiting task, as far as they have declared themselves. Decides nothing: an unnamed
//! executor may run it nevertheless, and a named one may be busy.

use crate::core::Core;
use punctual_contract::Error;
use punctual_domain::{
    executor::{Executor, ExecutorStatus},
    task::Task,
    time::Millis,
};

/// Executors of a namespace that are read.
const LOOKED_AT: usize = 500;
const NAMED: usize = 3;

/// The obstacle, as one word, and a sentence.
pub(super) async fn of(core: &Core, task: &Task, now: Millis) -> Result<(&'static str, String), Error> {
    let (queue, kind) = (&task.ask.queue, task.ask.kind.as_str());
    let known = core.store.executors(&queue.namespace, "", LOOKED_AT).await?;
    let asks = |executor: &Executor| {
        executor.profile.queues.as_ref().is_some_and(|queues| queues.contains(queue.queue.as_str()))
    };
    let here: Vec<Executor> = known.into_iter().filter(asks).collect();
    let status = |status: ExecutorStatus| here.iter().filter(move |executor| executor.status(now) == status);
    let alive: Vec<&Executor> = status(ExecutorStatus::Alive).collect();
    let name = queue.queue.as_str();
    if alive.is_empty() {
        let others: Vec<&Executor> = [ExecutorStatus::Quiet, ExecutorStatus::Draining, ExecutorStatus::Dead]
            .into_iter()
            .flat_map(status)
            .collect();
        let others = if others.is_empty() { String::new() } else { format!("; {}", named(&others, now)) };
        return Ok((
            "executor",
            format!("It has fired; no executor that has a name asks for queue {name:?}{others}."),
        ));
    }
    let knows = |executor: &&Executor| {
        executor.profile.kinds.as_ref().is_none_or(|kinds| kinds.is_empty() || kinds.contains(kind))
    };
    if !alive.iter().any(knows) {
        let sentence = format!(
            "It has fired; no executor of queue {name:?} has a handler for kind {kind:?}: {}.",
            named(&alive, now)
        );
        return Ok(("kind", sentence));
    }
    let sentence =
        format!("It has fired; no executor has taken it from queue {name:?} yet: {}.", named(&alive, now));
    Ok(("executor", sentence))
}

fn named(executors: &[&Executor], now: Millis) -> String {
    let one = |executor: &&Executor| {
        let (running, capacity) = (executor.profile.running.unwrap_or(0), executor.profile.capacity);
        let of = capacity.map_or_else(String::new, |capacity| format!(" of {capacity}"));
        format!("{:?} is {} and runs {running}{of}", executor.name.as_str(), executor.status(now).word())
    };
    let shown: Vec<String> = executors.iter().take(NAMED).map(one).collect();
    let more = executors.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}
