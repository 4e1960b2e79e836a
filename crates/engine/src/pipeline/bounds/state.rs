//! Calls of executors with a bound that wait here for one of their places. Asks no limiter.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::limiter::Limit;
use punctual_domain::limits::Scope;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};
use tokio::sync::{Notify, futures::Notified};

/// This engine's memory of bounded executors. Losing any of it costs an interval.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    /// A bounded executor has requested tasks here, or ended an attempt here, since this process began. So
    /// attempts may hold slots although no limit is set.
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
    pub(super) bounds: &'a Bounds,
    scope: Scope,
    of_executor: Arc<Waiters>,
}

impl Bounds {
    pub(crate) fn are_in_use(&self) -> bool {
        self.are_in_use.load(SeqCst)
    }

    pub(super) fn used(&self) {
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
        if let Some(waiters) = self.waiting.lock().get(scope) {
            waiters.freed.notify_waiters();
        }
    }
}

impl Waiter<'_> {
    /// The notification of a freed slot. The caller must create it before it asks the limiter.
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

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use punctual_domain::name::Name;

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
