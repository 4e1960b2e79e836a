//! Executors that declare the maximum number of tasks that they hold, over all their queues and all engines. Each of
//! their attempts is a member of the executor's scope in the limiter, like an attempt of a limited queue. One atomic
//! step grants it, an outcome or the reconciler releases it, and a limiter that lost its members is rebuilt from the
//! leases. Executors without a bound never get here, and cost nothing.

pub(crate) mod state;

use super::freed;
use crate::{Error, core::Core, engine::Engine};
use hashbrown::{HashMap, HashSet};
use punctual_contract::{Error as BackendError, limiter::Member};
use punctual_domain::{limits::Scope, name::Name, task::Task};
use std::sync::Arc;

/// Executors of one page of the registry.
const PAGE: usize = 1_000;

/// Executors with a bound, as last declared; read from the registry, a namespace at a time.
#[derive(Debug, Default)]
pub(crate) struct Bounded {
    known: HashMap<Name, HashSet<String>>,
}

impl Bounded {
    /// Reads the registry for the executors of these tasks.
    pub(crate) async fn read_for(&mut self, core: &Core, tasks: &[Task]) -> Result<(), BackendError> {
        let leased = tasks.iter().filter(|task| task.lease.is_some());
        self.read_namespaces(core, leased.map(|task| &task.ask.queue.namespace)).await
    }

    /// Reads the bounds of the executors of these namespaces.
    pub(crate) async fn read_namespaces(
        &mut self,
        core: &Core,
        namespaces: impl Iterator<Item = &Name>,
    ) -> Result<(), BackendError> {
        for namespace in namespaces {
            if !self.known.contains_key(namespace) {
                self.known.insert(namespace.clone(), read(core, namespace).await?);
            }
        }
        Ok(())
    }

    /// The executor scope for which the lease of a task counts.
    pub(crate) fn scope(&self, task: &Task) -> Option<Scope> {
        self.scope_of(&task.ask.queue.namespace, &task.lease.as_ref()?.executor)
    }

    pub(crate) fn scope_of(&self, namespace: &Name, executor: &str) -> Option<Scope> {
        let is_bounded = self.known.get(namespace).is_some_and(|known| known.contains(executor));
        is_bounded.then(|| Some(Scope::Executor(namespace.clone(), Name::new(executor).ok()?))).flatten()
    }
}

async fn read(core: &Core, namespace: &Name) -> Result<HashSet<String>, BackendError> {
    let (mut bounded, mut from) = (HashSet::new(), String::new());
    loop {
        let page = core.store.executors(namespace, &from, PAGE).await?;
        let next = page.last().filter(|_| page.len() == PAGE).map(|executor| format!("{}-", executor.name));
        let with_a_bound = page.into_iter().filter(|executor| executor.profile.concurrency.is_some());
        bounded.extend(with_a_bound.map(|executor| executor.name.as_str().to_owned()));
        match next {
            Some(next) => from = next,
            None => return Ok(bounded),
        }
    }
}

impl Engine {
    /// Attempts of bounded executors have ended: their slots are released.
    ///
    /// # Errors
    /// Fails only if the engine itself fails.
    pub async fn give_up_places(&self, ended: Vec<Member>) -> Result<(), Error> {
        if ended.is_empty() {
            return Ok(());
        }
        let core = Arc::clone(&self.core);
        self.run(async move {
            core.limits.admissions.bounds.used();
            freed::free(&core, ended.into_iter().map(|member| (member, None)).collect()).await;
            Ok(())
        })
        .await
    }
}
