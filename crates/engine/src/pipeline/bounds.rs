//! Executors that say how many tasks they hold at most, over all their queues and all engines. Each attempt that they are
//! given is a member of the executor's scope in the limiter, as it is of a queue's that has a limit: one atomic step
//! grants it, an outcome or the reconciler gives it up, and a limiter that lost its members is rebuilt from the leases.
//! Executors that say nothing never come here, and pay nothing.

use super::{freed, hand_over, kinds::Only};
use crate::{Error, core::Core, engine::Engine};
use futures_util::future::BoxFuture;
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use punctual_contract::{
    Error as BackendError,
    limiter::{Limit, Member},
    store::Assignment,
};
use punctual_domain::{limits::Scope, name::Name, task::Task};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};
use tokio::sync::{Notify, futures::Notified};

/// Executors of one page of the registry.
const PAGE: usize = 1_000;

/// What this engine knows of such executors. Losing any of it costs an interval.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    /// One has asked here, or ended an attempt here, since this process began: attempts may hold places although
    /// nothing is set.
    are_in_use: AtomicBool,
    waiting: Mutex<HashMap<Scope, Arc<Waiters>>>,
}

/// The calls of one executor that wait at this engine.
#[derive(Debug, Default)]
struct Waiters {
    calls: AtomicUsize,
    freed: Notify,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Waiter<'a> {
    bounds: &'a Bounds,
    scope: Scope,
    of_executor: Arc<Waiters>,
}

impl Bounds {
    pub(crate) fn are_in_use(&self) -> bool {
        self.are_in_use.load(SeqCst)
    }

    fn used(&self) {
        self.are_in_use.store(true, SeqCst);
    }

    pub(crate) fn wait(&self, bound: &Limit) -> Waiter<'_> {
        self.used();
        let scope = bound.scope.clone();
        let mut waiting = self.waiting.lock();
        let of_executor = Arc::clone(waiting.entry(scope.clone()).or_default());
        of_executor.calls.fetch_add(1, SeqCst);
        Waiter { bounds: self, scope, of_executor }
    }

    /// An executor has given up a place.
    pub(crate) fn wake(&self, scope: &Scope) {
        if let Some(it) = self.waiting.lock().get(scope) {
            it.freed.notify_waiters();
        }
    }
}

impl Waiter<'_> {
    /// To be asked before the limiter is.
    pub(crate) fn freed(&self) -> Notified<'_> {
        self.of_executor.freed.notified()
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut waiting = self.bounds.waiting.lock();
        if self.of_executor.calls.fetch_sub(1, SeqCst) == 1 {
            waiting.remove(&self.scope);
        }
    }
}

/// Executors that have a bound, by what they said last; read from the registry, a namespace at a time.
#[derive(Debug, Default)]
pub(crate) struct Bounded {
    known: HashMap<Name, HashSet<String>>,
}

impl Bounded {
    /// Reads what is needed to know of the executors of these tasks.
    pub(crate) async fn read_for(&mut self, core: &Core, tasks: &[Task]) -> Result<(), BackendError> {
        for it in tasks.iter().filter(|it| it.lease.is_some()) {
            let namespace = &it.ask.queue.namespace;
            if !self.known.contains_key(namespace) {
                self.known.insert(namespace.clone(), read(core, namespace).await?);
            }
        }
        Ok(())
    }

    /// What the lease of a task counts for.
    pub(crate) fn scope(&self, task: &Task) -> Option<Scope> {
        let namespace = &task.ask.queue.namespace;
        let executor = &task.lease.as_ref()?.executor;
        let is_bounded = self.known.get(namespace).is_some_and(|it| it.contains(executor));
        is_bounded.then(|| Some(Scope::Executor(namespace.clone(), Name::new(executor).ok()?))).flatten()
    }
}

async fn read(core: &Core, namespace: &Name) -> Result<HashSet<String>, BackendError> {
    let (mut bounded, mut from) = (HashSet::new(), String::new());
    loop {
        let page = core.store.executors(namespace, &from, PAGE).await?;
        let next = page.last().filter(|_| page.len() == PAGE).map(|it| format!("{}-", it.name));
        let with_a_bound = page.into_iter().filter(|it| it.profile.concurrency.is_some());
        bounded.extend(with_a_bound.map(|it| it.name.as_str().to_owned()));
        match next {
            Some(next) => from = next,
            None => return Ok(bounded),
        }
    }
}

impl Engine {
    /// As `lease`, for an executor that holds at most so many tasks: of all queues of the namespace, at all engines.
    ///
    /// # Errors
    /// A failing back end.
    pub fn lease_within(
        &self,
        request: hand_over::LeaseRequest,
        concurrency: u32,
    ) -> BoxFuture<'_, Result<Vec<Assignment>, Error>> {
        Box::pin(async move {
            self.lease_only(request, Only { concurrency: Some(concurrency), kinds: None }).await
        })
    }

    /// Attempts have ended for which an executor said how many it holds at most: their places are free.
    ///
    /// # Errors
    /// Only of the engine as a whole.
    pub async fn give_up_places(&self, ended: Vec<Member>) -> Result<(), Error> {
        if ended.is_empty() {
            return Ok(());
        }
        let core = Arc::clone(&self.core);
        self.run(async move {
            core.admissions.bounds.used();
            freed::free(&core, &ended).await;
            Ok(())
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[test]
    fn all_calls_of_an_executor_hear_that_a_place_is_free_and_those_of_others_do_not() {
        let bounds = Bounds::default();
        assert!(!bounds.are_in_use());
        let limit = |name: &str| {
            let scope = Scope::Executor(Name::default_namespace(), Name::new(name).unwrap());
            Limit { scope, most: 1 }
        };
        let (one, same, other) =
            (bounds.wait(&limit("a")), bounds.wait(&limit("a")), bounds.wait(&limit("b")));
        assert!(bounds.are_in_use());
        let (one_freed, same_freed, other_freed) = (one.freed(), same.freed(), other.freed());
        bounds.wake(&limit("a").scope);
        assert_eq!(one_freed.now_or_never(), Some(()));
        assert_eq!(same_freed.now_or_never(), Some(()));
        assert_eq!(other_freed.now_or_never(), None);
        drop((one, other));
        assert_eq!(bounds.waiting.lock().len(), 1);
        drop(same);
        assert!(bounds.waiting.lock().is_empty(), "nothing is kept of those that wait no more");
    }
}
