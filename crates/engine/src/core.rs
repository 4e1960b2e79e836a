//! State that the steps of one engine share: its back ends, and its memory in groups. Every type of a field is defined in a
//! file that imports neither this one nor a step: state below, steps above. Holds no rule of a task: those are in `domain`
//! and in the steps.

use crate::{
    account::state::Accounts,
    agenda::state::Agendas,
    arrivals::by_queue::Arrivals,
    backends::{Backends, SharedBackends},
    callers::Callers,
    clock::steady_reading::{CurrentTime, SteadyReading},
    ends::Ends,
    evaluations::state::Evaluations,
    health::Health,
    limits::Limits,
    live::Live,
    maintenance::state::Maintenance,
    meters::Meters,
    options::Options,
    parts::state::Parts,
    pipeline::{filling::Filling, firing_state::Firing, store_fallback::state::FromStore},
    settings::Settings,
    sharing::{holdings::Holdings, state::Sharing},
    work::BackgroundTasks,
};
use hashbrown::HashSet;
use punctual_contract::{
    Blobs, Bus, Clock, Error, Hot, Limiter, Store, Trust,
    hot::{HotEntry, ParkReason},
    store::Scan,
};
use punctual_domain::{history::Note, name::QueueKey, place::Partition, settings::Mode, time::Millis};
use std::{sync::Arc, time::Duration};

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) hot: Arc<dyn Hot>,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Storage of long payloads and results. `None` if they are in the store.
    pub(crate) blobs: Option<Arc<dyn Blobs>>,
    /// If no other engine uses this store, replacements that work alone.
    pub(crate) shared: SharedBackends,

    pub(crate) options: Options,
    pub(crate) settings: Settings,
    pub(crate) meters: Meters,
    pub(crate) accounts: Accounts,
    pub(crate) agendas: Agendas,
    pub(crate) evaluations: Evaluations,
    pub(crate) callers: Callers,
    pub(crate) health: Health,
    pub(crate) limits: Limits,
    pub(crate) maintenance: Maintenance,
    pub(crate) sharing: Sharing,
    pub(crate) work: BackgroundTasks,

    pub(crate) holdings: Holdings,
    pub(crate) parts: Parts,
    pub(crate) filling: Filling,
    pub(crate) firing: Firing,
    /// Tasks that are due soon, are preleased, or have fired and are not yet acknowledged by the store.
    pub(crate) live: Live,
    pub(crate) store_fallback: FromStore,
    pub(crate) arrivals: Arrivals,
    pub(crate) ends: Ends,
}

impl Core {
    pub(crate) fn new(backends: Backends, options: Options) -> Self {
        let Backends { store, hot, limiter, bus, clock, shared, blobs } = backends;
        let (partitions, sole) = (store.partitions(), shared.is_none());
        let shared = shared.unwrap_or_else(|| SharedBackends::alone(&options.name, partitions));
        shared.signals.belongs_to(&options.name);
        let store_fallback = FromStore::new(hot, !sole);
        Self {
            meters: Meters::default(),
            settings: Settings::default(),
            accounts: Accounts::default(),
            agendas: Agendas::default(),
            evaluations: Evaluations::of(&options.name, !sole),
            callers: Callers::new(options.admin_token),
            health: Health::default(),
            limits: Limits::new(store_fallback.circuit_breaker_limiter(limiter)),
            maintenance: Maintenance::default(),
            sharing: Sharing::default(),
            work: BackgroundTasks::default(),
            holdings: Holdings::new(partitions, sole),
            parts: Parts::default(),
            filling: Filling::default(),
            firing: Firing::new(clock.now()),
            live: Live::new(partitions, sole),
            arrivals: Arrivals::default(),
            ends: Ends::default(),
            store,
            hot: store_fallback.circuit_breaker_hot(),
            store_fallback,
            bus,
            clock,
            blobs,
            shared,
            options,
        }
    }

    /// The queues whose tasks are published, of those that the options or the settings name.
    pub(crate) fn push_queues(&self) -> HashSet<QueueKey> {
        let known = self.settings.known();
        let named = self.options.push_queues.iter().chain(known.queues.keys());
        named.filter(|queue| self.pushes(queue)).cloned().collect()
    }

    /// True if the tasks of a queue are published: its own setting decides, or else the options of the start. Never
    /// where workers cannot read the bus: then tasks wait for executors that pull.
    pub(crate) fn pushes(&self, queue: &QueueKey) -> bool {
        self.options.can_push
            && !self.settings.is_scanned(queue)
            && match self.settings.known().queues.get(queue).and_then(|settings| settings.mode) {
                Some(mode) => mode == Mode::Push,
                None => self.options.push_queues.contains(queue),
            }
    }

    /// Splits entries into those of scanned queues, and the others.
    pub(crate) fn split_scanned(&self, entries: Vec<HotEntry>) -> (Vec<HotEntry>, Vec<HotEntry>) {
        let known = self.settings.known();
        if known.scanned.is_empty() {
            return (Vec::new(), entries);
        }
        entries.into_iter().partition(|entry| known.is_scanned(&entry.queue))
    }

    /// The limiter of scanned queues, where `limiter` is not in the store itself.
    pub(crate) fn stored_limiter(&self) -> Option<&Arc<dyn Limiter>> {
        self.shared.stored_limiter.as_ref()
    }

    /// The limiter that holds the limits of a queue.
    pub(crate) fn limiter_of(&self, queue: &QueueKey) -> &Arc<dyn Limiter> {
        self.stored_limiter().filter(|_| self.settings.is_scanned(queue)).unwrap_or(&self.limits.limiter)
    }

    /// All that hold limits.
    pub(crate) fn limiters(&self) -> impl Iterator<Item = &Arc<dyn Limiter>> {
        let stored = self.stored_limiter().filter(|_| !self.settings.known().scanned.is_empty());
        std::iter::once(&self.limits.limiter).chain(stored)
    }

    /// The hot set is unavailable, and with it the limits of this queue.
    pub(crate) fn hides_limits_of(&self, queue: &QueueKey) -> bool {
        Arc::ptr_eq(self.limiter_of(queue), &self.limits.limiter) && self.store_fallback.hides_limits()
    }

    pub(crate) fn now(&self) -> Millis {
        self.clock.now()
    }

    pub(crate) fn discontinuities(&self) -> u64 {
        self.clock.trust().map_or(0, Trust::discontinuities)
    }

    pub(crate) fn steady_reading(&self) -> SteadyReading {
        self.current_time().steady_reading()
    }

    pub(crate) fn current_time(&self) -> CurrentTime {
        // A break between the two makes the result older, not younger.
        let discontinuities = self.discontinuities();
        CurrentTime { discontinuities, now: self.now(), steady: self.steady() }
    }

    /// The time on a clock that runs evenly. If nothing watches the clock, it is the clock itself.
    fn steady(&self) -> Duration {
        self.clock.trust().map_or_else(
            || Duration::from_millis(u64::try_from(self.now().0).unwrap_or_default()),
            Trust::steady,
        )
    }

    pub(crate) fn partitions(&self) -> impl Iterator<Item = Partition> + use<> {
        (0..self.store.partitions()).map(Partition)
    }

    /// The partitions that this engine works on.
    pub(crate) fn owned(&self) -> impl Iterator<Item = Partition> + use<> {
        self.holdings.tenures().into_iter().map(|tenure| tenure.partition)
    }

    /// True if this engine does the work that one engine does for all.
    pub(crate) fn leads(&self) -> bool {
        self.holdings.tenure(Partition(0)).is_some()
    }

    /// The same for one database: the owner of its first partition reaches it, if any engine does.
    pub(crate) fn leads_in(&self, part: usize) -> bool {
        let is_there = |partition: &Partition| self.store.part_of(*partition) == part;
        let first = self.partitions().find(is_there);
        first.map_or_else(|| self.leads(), |partition| self.holdings.tenure(partition).is_some())
    }

    /// Tasks were added to a queue's line here. Wakes one executor that waits here. If there are more tasks
    /// than waiters, notifies the other engines.
    pub(crate) fn arrived(&self, queue: &Arc<QueueKey>, count: usize) {
        let waiters = self.arrivals.of(queue);
        waiters.wake_one();
        if count > waiters.waiting() {
            self.announce_ready(queue);
        }
    }

    /// Wakes all waiters of a queue, here and elsewhere: not every one of them can take the available tasks.
    pub(crate) fn wake_queue(&self, queue: &Arc<QueueKey>) {
        self.arrivals.of(queue).wake_all();
        self.announce_ready(queue);
    }

    /// Notifies the other engines that tasks of the queue wait here. Tasks of scanned queues are found in the
    /// store.
    pub(crate) fn announce_ready(&self, queue: &Arc<QueueKey>) {
        if self.holdings.has_others() && !self.settings.is_scanned(queue) {
            self.sharing.announcer.ready(queue);
        }
    }

    /// Notifies the other engines that attempts of the queue, or of one of its lanes, have ended. For scanned queues
    /// they check the store.
    pub(crate) fn announce_freed(&self, queue: &Arc<QueueKey>, lane: Option<ParkReason>, places: usize) {
        if self.holdings.has_others() && !self.settings.is_scanned(queue) {
            self.sharing.announcer.freed(queue, lane, places);
        }
    }

    /// Tasks that wait in the store.
    pub(crate) async fn read_waiting(&self, scan: Scan) -> Result<Vec<HotEntry>, Error> {
        let began = self.now();
        let rows = self.store.scan(scan).await?;
        self.live.lock().unchanged(&rows, began);
        Ok(rows)
    }

    /// Reads like `read_waiting`, several partitions of one part of the store. `None` for a partition that must be
    /// read separately; that read also returns the reason.
    pub(crate) async fn read_waiting_together(&self, scans: Vec<Scan>) -> Vec<Option<Vec<HotEntry>>> {
        let (began, count) = (self.now(), scans.len());
        let found = self.store.scan_together(scans).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "partitions could not be read together");
            Vec::new()
        });
        let mut table = self.live.lock();
        found.iter().flatten().for_each(|rows| table.unchanged(rows, began));
        drop(table);
        found.into_iter().chain(std::iter::repeat_with(|| None)).take(count).collect()
    }

    /// The number of queue names in memory, each counted as often as it is stored.
    pub(crate) fn queues_held(&self) -> usize {
        self.arrivals.queues_held() + self.limits.admissions.queues_held() + self.meters.queues_held()
    }

    /// The time after which a waiting executor polls again, even if it was not woken.
    pub(crate) fn look_again(&self) -> Duration {
        self.shared.signals.look_after()
    }

    /// A note of the engine's own doing.
    pub(crate) fn note(&self) -> Note {
        Note { by: self.options.name.clone(), ..Note::default() }
    }
}
