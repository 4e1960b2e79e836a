//! Slots for tasks that run at the same time: a bound for the worker, and one for each of its queues. A
//! request already has its slots, so no task waits in a worker that cannot run it while another could.

use std::sync::Arc;

use futures_util::future::select_all;
use punctual_protocol::limits::LEASE_MAX;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A queue that a worker takes tasks of.
#[derive(Clone, Debug)]
pub(super) struct WorkerQueue {
    pub(super) name: String,
    pub(super) slots: Arc<Semaphore>,
}

impl WorkerQueue {
    pub(super) fn new(name: String, concurrency: Option<usize>) -> Self {
        Self { name, slots: Arc::new(Semaphore::new(concurrency.unwrap_or(Semaphore::MAX_PERMITS))) }
    }

    async fn one(&self) -> OwnedSemaphorePermit {
        self.slots.clone().acquire_owned().await.expect(NEVER_CLOSED)
    }

    /// Acquires all free slots, up to `most`.
    fn free(&self, most: usize) -> Option<OwnedSemaphorePermit> {
        take(&self.slots, most)
    }
}

const NEVER_CLOSED: &str = "the slots are never closed";

fn take(slots: &Arc<Semaphore>, most: usize) -> Option<OwnedSemaphorePermit> {
    let free = u32::try_from(slots.available_permits().min(most)).unwrap_or(LEASE_MAX).min(LEASE_MAX);
    slots.clone().try_acquire_many_owned(free).ok().filter(|permit| permit.num_permits() > 0)
}

/// The slot of one task, until it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    _of_worker: OwnedSemaphorePermit,
    _of_queue: OwnedSemaphorePermit,
}

/// The slots of one request.
#[derive(Debug)]
pub(super) struct Slots {
    of_worker: OwnedSemaphorePermit,
    of_queues: Vec<(String, OwnedSemaphorePermit)>,
}

impl Slots {
    /// One for a queue that may be idle, so that its long poll does not keep the others' tasks from running; or all that
    /// there are.
    pub(super) async fn of(queue: &WorkerQueue, worker: &Arc<Semaphore>, all: bool) -> Self {
        let mut of_queue = queue.one().await;
        let mut of_worker = worker.clone().acquire_owned().await.expect(NEVER_CLOSED);
        let most = queue.slots.available_permits().min(usize::try_from(LEASE_MAX - 1).unwrap_or(0));
        // Another queue's loop may be faster; then there is just the one.
        if let Some(more) = all.then(|| take(worker, most)).flatten() {
            if let Some(its) = queue.free(more.num_permits()) {
                of_queue.merge(its);
            }
            of_worker.merge(more);
        }
        Self { of_worker, of_queues: vec![(queue.name.clone(), of_queue)] }
    }

    /// All free slots, of all queues that have some.
    pub(super) async fn of_several(queues: &[WorkerQueue], worker: &Arc<Semaphore>) -> Self {
        // Not held: only this function takes them.
        drop(select_all(queues.iter().map(|queue| Box::pin(queue.one()))).await);
        let mut of_worker = worker.clone().acquire_owned().await.expect(NEVER_CLOSED);
        if let Some(more) = take(worker, usize::try_from(LEASE_MAX - 1).unwrap_or(0)) {
            of_worker.merge(more);
        }
        let most = of_worker.num_permits();
        let free = |line: &WorkerQueue| Some((line.name.clone(), line.free(most)?));
        Self { of_queues: queues.iter().filter_map(free).collect(), of_worker }
    }

    /// The number of tasks that can be received.
    pub(super) fn count(&self) -> usize {
        self.of_worker.num_permits()
    }

    /// The number of tasks of each queue that can be received.
    pub(super) fn by_queue(&self) -> impl Iterator<Item = (&str, usize)> {
        self.of_queues.iter().map(|(name, slots)| (name.as_str(), slots.num_permits()))
    }

    /// Returns `None` if the server sends more tasks than requested.
    pub(super) fn split(&mut self, queue: &str) -> Option<Slot> {
        let its = match self.of_queues.as_mut_slice() {
            [only] => Some(only),
            several => several.iter_mut().find(|pair| pair.0 == queue),
        }?;
        let of_queue = its.1.split(1)?;
        Some(Slot { _of_worker: self.of_worker.split(1)?, _of_queue: of_queue })
    }
}
