//! `Engine`: a handle on the shared state of one engine, for servers, tests and test clocks. The calls that take steps are in
//! `engine::calls`, manual runs in `engine::run_once`; each other module adds its own answers. Imports no step: every module
//! that adds a call imports this one.

mod calls;
pub(crate) mod run_once;

use crate::{
    answer::Error,
    backends::Backends,
    core::Core,
    meters::{Meters, ProcessMeters},
    options::Options,
    webhooks,
};
use punctual_contract::{Bus, Error as BackendError, Store, hot::Keeps};
use punctual_domain::{
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    settings::QueueSettings,
    time::Millis,
};
use std::{sync::Arc, time::Duration};

/// The number of tasks in each place, as one engine knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Tasks in the hot set, and in this engine's table before their instants.
    pub due: usize,
    /// Tasks that have fired here, and were not delivered, or are not known to be.
    pub fired: usize,
    /// Per queue, the tasks that wait for an executor.
    pub ready: Vec<(Arc<QueueKey>, usize)>,
    /// Per queue, the parked tasks.
    pub parked: Vec<(Arc<QueueKey>, usize)>,
}

/// Cheap to clone; all clones are the same engine.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) core: Arc<Core>,
}

impl Engine {
    #[must_use]
    pub fn new(backends: Backends, options: Options) -> Self {
        Self { core: Arc::new(Core::new(backends, options)) }
    }

    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let panicked = || BackendError::may_have_happened("serve a request", "the work panicked");
        self.core.work.to_its_end(work).await.unwrap_or_else(|| Err(panicked().into()))
    }

    /// Registers a listener for each attempt and task that this engine ends, with or without a report. It must not
    /// block. False if another listener is registered.
    pub fn on_attempt_end(&self, listener: impl Fn(TaskRef) + Send + Sync + 'static) -> bool {
        self.core.ends.listen(Box::new(listener))
    }

    #[must_use]
    pub fn now(&self) -> Millis {
        self.core.now()
    }

    #[must_use]
    pub fn meters(&self) -> &Meters {
        &self.core.meters
    }

    /// The process's own measurements.
    #[must_use]
    pub fn process_meters(&self) -> &ProcessMeters {
        &self.core.options.process
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.core.options.name
    }

    /// The store, for calls that need no engine: account, replies, search.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        self.core.store.as_ref()
    }

    /// The bus where the tasks of push queues are received.
    #[must_use]
    pub fn bus(&self) -> &Arc<dyn Bus> {
        &self.core.bus
    }

    /// Tasks that fired here and have no known executor, for tests: place, fence, and firing time.
    #[doc(hidden)]
    #[must_use]
    pub fn fired(&self) -> Vec<(TaskRef, i64, Millis)> {
        self.core.live.lock().fired()
    }

    /// Tasks in the table that are offered to executors here, for tests: id, fence and task.
    #[doc(hidden)]
    #[must_use]
    pub fn served(&self) -> Vec<(i64, i64, i64)> {
        self.core.live.lock().served().collect()
    }

    /// Removes a task that has fired and waits here, as no engine does, for tests.
    #[doc(hidden)]
    pub fn lose(&self, id: i64) {
        self.core.live.lock().forget_fired(id, i64::MAX);
    }

    /// True if the task waits for its instant here with this fence, for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn will_fire(&self, id: i64, fence: i64) -> bool {
        self.core.live.lock().waits(id, fence)
    }

    /// Tasks in this engine's table that have not fired.
    #[must_use]
    pub fn on_wheel(&self) -> usize {
        self.core.live.lock().len()
    }

    /// Tasks that could not be sent, as far as this engine knows, and wait for the compensator.
    #[must_use]
    pub fn unsent(&self) -> usize {
        self.core.maintenance.unsent.len()
    }

    /// The fill level of the hot set at the last check, in thousandths; 0 if it has no bound.
    #[must_use]
    pub fn hot_fullness(&self) -> u32 {
        self.core.filling.room.fullness()
    }

    /// The hot set did not answer when last asked: firing continues from the store.
    #[must_use]
    pub fn hot_is_away(&self) -> bool {
        self.has_hot_set() && self.core.store_fallback.is_away()
    }

    /// False if there is no hot set, and firing always uses the store.
    #[must_use]
    pub fn has_hot_set(&self) -> bool {
        self.core.store_fallback.hot_set_keeps() != Keeps::Nothing
    }

    /// The hot set belongs to another cluster: none of it is used.
    #[must_use]
    pub fn hot_is_another_clusters(&self) -> bool {
        self.core.hot.stranger().is_some()
    }

    /// Partitions that this engine works on.
    #[must_use]
    pub fn owned(&self) -> usize {
        self.core.holdings.len()
    }

    /// True if this engine works on a partition.
    #[must_use]
    pub fn owns(&self, partition: Partition) -> bool {
        self.core.holdings.tenure(partition).is_some()
    }

    /// Executors that wait at this engine for the tasks of a queue.
    #[must_use]
    pub fn waiting(&self, queue: &QueueKey) -> usize {
        self.core.arrivals.waiting(queue)
    }

    /// The engine is stopping; long polls end.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.core.work.stopping.is_cancelled()
    }

    /// The expected wait of an insert of this namespace for the store, if that exceeds the limit.
    #[must_use]
    pub fn insert_backlog(&self, namespace: &Name) -> Option<Duration> {
        let most = Duration::from_millis(self.core.options.insert_wait_max_ms);
        Some(self.core.limits.backlog.wait(namespace)).filter(|duration| *duration > most)
    }

    /// Sentences for alerts about one inbox, in place of those before.
    pub fn report_inbox(&self, name: &str, behind: Option<String>, refused: Option<String>) {
        self.core.health.inboxes.report(name, behind, refused);
    }

    /// The queues whose tasks are delivered to receivers, as far as this engine knows.
    #[must_use]
    pub fn webhook_queues(&self) -> Vec<(QueueKey, Arc<QueueSettings>)> {
        let known = self.core.settings.known();
        webhooks::queues(&known).map(|(queue, settings)| (queue.clone(), Arc::clone(settings))).collect()
    }

    /// Webhook queues to which nothing is delivered now, each with the reason, in place of those before.
    pub fn report_webhooks(&self, held_back: Vec<(Arc<QueueKey>, String)>) {
        self.core.health.held_back.report(held_back);
    }

    /// The minimum time for which a task of this queue is known by its key, in any final state, in ms.
    #[must_use]
    pub fn known_for_ms(&self, queue: &QueueKey) -> i64 {
        let keep = self.core.keep(Some(queue));
        keep.succeeded_ms.min(keep.cancelled_ms).min(keep.dead_ms)
    }

    /// Records the current weaknesses of the store's servers, one sentence each; empty: none.
    pub fn found_weaknesses(&self, weaknesses: Vec<String>) {
        self.core.health.durability.found(weaknesses);
    }

    /// The weaknesses as of the last check.
    #[must_use]
    pub fn weaknesses(&self) -> Vec<String> {
        self.core.health.durability.weaknesses()
    }
}
