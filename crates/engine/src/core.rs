//! What all parts of one engine share. Holds no rule of a task: those are in `domain` and in the steps.

use crate::{
    meters::Meters,
    options::Options,
    pipeline::{claim::Claims, timer::Timer},
};
use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::{Bus, Clock, Hot, Store, hot::HotEntry, ownership::Tenure};
use punctual_domain::{
    history::Note,
    name::QueueKey,
    place::{Partition, TaskRef},
    time::Millis,
};
use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) hot: Arc<dyn Hot>,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: Options,
    pub(crate) timer: Arc<Timer>,
    pub(crate) claims: Claims,
    pub(crate) meters: Meters,
    pub(crate) stopping: CancellationToken,
    /// Fired tasks that the store does not know to be ready yet, by id.
    pub(crate) unmarked: Mutex<HashMap<i64, Unmarked>>,
    /// Fired, but the store or the ready sets could not be reached: tried again every second.
    pub(crate) held_back: Mutex<Vec<HotEntry>>,
    tasks: TaskTracker,
    claiming: TaskTracker,
    arrivals: Mutex<HashMap<Arc<QueueKey>, Arc<Notify>>>,
    /// By partition: everything due at or before this is in the hot set, or on its way there.
    frontiers: Vec<AtomicI64>,
}

/// A task that fired and has not been handed over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unmarked {
    pub(crate) place: TaskRef,
    pub(crate) fence: i64,
    pub(crate) fired_at: Millis,
}

impl Core {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        hot: Arc<dyn Hot>,
        bus: Arc<dyn Bus>,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Self {
        let partitions = usize::from(store.partitions());
        Self {
            timer: Arc::new(Timer::new(clock.now())),
            claims: Claims::new(partitions),
            meters: Meters::default(),
            stopping: CancellationToken::new(),
            unmarked: Mutex::default(),
            held_back: Mutex::default(),
            tasks: TaskTracker::new(),
            claiming: TaskTracker::new(),
            arrivals: Mutex::default(),
            frontiers: (0..partitions).map(|_| AtomicI64::new(i64::MIN)).collect(),
            store,
            hot,
            bus,
            clock,
            options,
        }
    }

    pub(crate) fn now(&self) -> Millis {
        self.clock.now()
    }

    /// The right by which this engine takes what is due.
    #[expect(clippy::unused_self, reason = "it will know its terms when engines share")]
    pub(crate) const fn tenure(&self, partition: Partition) -> Tenure {
        Tenure::sole(partition)
    }

    pub(crate) fn partitions(&self) -> impl Iterator<Item = Partition> + use<> {
        (0..self.store.partitions()).map(Partition)
    }

    /// Runs `work` to its end, whatever becomes of the caller: a client that hangs up drops the future that waits
    /// here, not the work. None: the work panicked, which is logged where it happened.
    pub(crate) async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        self.tasks.spawn(work).await.ok()
    }

    /// Starts `work`, which nobody waits for but `settle_down`.
    pub(crate) fn detach(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(work);
    }

    /// Starts a claim that nobody waits for but `claims_settled`.
    pub(crate) fn detach_claim(&self, claim: impl Future<Output = ()> + Send + 'static) {
        self.claiming.spawn(claim);
    }

    /// Waits for the claims that are out.
    pub(crate) async fn claims_settled(&self) {
        self.claiming.close();
        self.claiming.wait().await;
        self.claiming.reopen();
    }

    /// Waits for all work that was started.
    pub(crate) async fn settle_down(&self) {
        self.claims_settled().await;
        self.tasks.close();
        self.tasks.wait().await;
    }

    pub(crate) fn arrival(&self, queue: &Arc<QueueKey>) -> Arc<Notify> {
        Arc::clone(self.arrivals.lock().entry(Arc::clone(queue)).or_default())
    }

    pub(crate) fn frontier(&self, partition: Partition) -> Millis {
        self.frontiers
            .get(usize::from(partition.0))
            .map_or(Millis::ZERO, |it| Millis(it.load(Ordering::SeqCst)))
    }

    pub(crate) fn set_frontier(&self, partition: Partition, until: Millis) {
        if let Some(it) = self.frontiers.get(usize::from(partition.0)) {
            it.store(until.0, Ordering::SeqCst);
        }
    }

    /// A note of the engine's own doing.
    pub(crate) fn note(&self) -> Note {
        Note { by: self.options.name.clone(), ..Note::default() }
    }
}
