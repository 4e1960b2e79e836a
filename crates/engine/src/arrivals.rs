//! Executors that wait for tasks of one queue. A task that fires while an executor waits is given to that executor directly;
//! the queue's line holds only tasks without a waiting executor. Holds no durable state: a task that was given to a waiter is
//! in the store, and its partition's next owner serves the task again if this engine dies.

pub(crate) mod by_queue;
mod poller;
mod preleased_tasks;
pub(crate) mod state;

pub(crate) use poller::QueuePoller;

use crate::{
    core::Core,
    pipeline::{ahead, line},
};
use state::{Given, Idle, QueueWaiters};
use std::sync::Arc;
use tokio::sync::oneshot;

/// The numbers of registered waiters begin at 1.
const NO_NUMBER: u64 = 0;

impl QueueWaiters {
    /// Registers an executor that found no task, and now waits for at most `max`. It gets fired preleased tasks
    /// immediately.
    pub(crate) fn register(self: &Arc<Self>, core: &Arc<Core>, max: usize) -> WaiterGuard {
        let (gives, given) = oneshot::channel();
        let mut registered = self.registered.lock();
        registered.last += 1;
        let number = registered.last;
        registered.idle.push_back(Idle { number, max, gives });
        registered.give(core.current_time());
        WaiterGuard { core: Arc::clone(core), waiters: Arc::clone(self), number, given, never_given: None }
    }

    /// Returns the guard of an executor that is not registered: it gets no tasks.
    pub(crate) fn unregistered(self: &Arc<Self>, core: &Arc<Core>) -> WaiterGuard {
        let (gives, given) = oneshot::channel();
        WaiterGuard {
            core: Arc::clone(core),
            waiters: Arc::clone(self),
            number: NO_NUMBER,
            given,
            never_given: Some(gives),
        }
    }

    /// The executor that was given these tasks does not take them: they are offered to others.
    pub(crate) fn pass_on(self: &Arc<Self>, core: &Arc<Core>, given: Given) {
        let entries = match given {
            Given::Leased(leased) => return ahead::offer_preleased(core, self, leased),
            Given::Fired(entries) if entries.is_empty() => return,
            Given::Fired(entries) => entries,
        };
        line::serve(core, &entries);
        entries.iter().for_each(|entry| core.arrived(&entry.queue, 1));
    }
}

/// If the caller hangs up, the guard is dropped, and its tasks are offered to others.
#[derive(Debug)]
pub(crate) struct WaiterGuard {
    core: Arc<Core>,
    waiters: Arc<QueueWaiters>,
    number: u64,
    given: oneshot::Receiver<Given>,
    /// Keeps the channel of a caller open that is not registered, so that it waits on.
    never_given: Option<oneshot::Sender<Given>>,
}

const NOTHING: Given = Given::Fired(Vec::new());

impl WaiterGuard {
    /// Waits for fired tasks. May be abandoned at any instant.
    pub(crate) async fn given(&mut self) -> Given {
        (&mut self.given).await.unwrap_or(NOTHING)
    }

    /// Unregisters the waiter. Returns the tasks that it was given at the last instant.
    pub(crate) fn leave(mut self) -> Given {
        self.unregister()
    }

    fn unregister(&mut self) -> Given {
        if self.never_given.is_some() {
            return NOTHING;
        }
        let mut registered = self.waiters.registered.lock();
        // Sorted by number, because thousands of waiters may look again at one instant.
        if let Ok(at) = registered.idle.binary_search_by_key(&self.number, |idle| idle.number) {
            registered.idle.remove(at);
        }
        drop(registered);
        self.given.try_recv().unwrap_or(NOTHING)
    }
}

impl Drop for WaiterGuard {
    fn drop(&mut self) {
        let given = self.unregister();
        self.waiters.pass_on(&self.core, given);
    }
}
