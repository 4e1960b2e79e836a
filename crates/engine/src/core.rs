//! What all parts of one engine share. Holds no rule of a task: those are in `domain` and in the steps.

use crate::{
    access::Access,
    account::Accounts,
    alerts::Alerts,
    arrivals::Arrival,
    audit::Audit,
    backlog::Backlog,
    caps::Caps,
    clock::{
        Watch,
        moment::{Moment, Present},
    },
    durability::Durability,
    ends::Ends,
    engine::{Backends, Shared},
    evaluations::Evaluations,
    executors::Roster,
    live::Live,
    maintenance::{
        compensate::Unsent, deletion::Deletions, leases::LeaseLooks, mark_ready::MarkPace,
        overdue::OverdueWatch, reconcile::Reconciler, unanswered::Unanswered,
    },
    meters::Meters,
    options::Options,
    parts::Parts,
    pipeline::{
        admit::Admissions, ahead::Ahead, from_store::FromStore, missed::Missed, room::Room, settle::Settling,
        timer::Timer,
    },
    quota::Quotas,
    readiness::Writers,
    settings::Settings,
    shares::Shares,
    sharing::{
        announce::Announcer, fitness::Pulse, holdings::Holdings, listen::Asked, reach::Reach,
        step_aside::Aside, terms::Overtaken,
    },
};
use futures_util::future::BoxFuture;
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use punctual_contract::{Blobs, Bus, Clock, Hot, Limiter, Store, Trust, hot::HotEntry};
use punctual_domain::{
    history::Note, identity::IdentitySecret, name::QueueKey, place::Partition, settings::Mode, time::Millis,
};
use std::{
    future::Future,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};
use tokio::sync::{Notify, oneshot};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) hot: Arc<dyn Hot>,
    pub(crate) limiter: Arc<dyn Limiter>,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) identity_secret: tokio::sync::OnceCell<IdentitySecret>,
    pub(crate) evaluations: Evaluations,
    pub(crate) watch: Watch,
    pub(crate) aside: Aside,
    /// Long payloads and results. None: everything is in the store.
    pub(crate) blobs: Option<Arc<dyn Blobs>>,
    /// Up to where objects were looked at that may be unused.
    pub(crate) unused_after: Mutex<String>,
    /// None: no other engine works on this store.
    pub(crate) shared: Option<Shared>,
    pub(crate) options: Options,
    pub(crate) settings: Settings,
    pub(crate) access: Access,
    pub(crate) audit: Audit,
    pub(crate) roster: Roster,
    pub(crate) caps: Caps,
    pub(crate) quotas: Quotas,
    pub(crate) backlog: Backlog,
    pub(crate) accounts: Accounts,
    pub(crate) alerts: Alerts,
    pub(crate) durability: Durability,
    pub(crate) overdue: OverdueWatch,
    pub(crate) timer: Arc<Timer>,
    /// Of the service that fires.
    pub(crate) firing: Pulse,
    pub(crate) writers: Writers,
    /// Databases that this engine's writers reach, as far as others must know.
    pub(crate) reach: Reach,
    pub(crate) holdings: Holdings,
    /// Partitions in which the hot set has seen newer terms than this engine's.
    pub(crate) overtaken: Overtaken,
    /// What is on the wheel, is leased ahead of its instant, or has fired and is not settled with the store.
    pub(crate) live: Live,
    pub(crate) meters: Meters,
    pub(crate) ends: Ends,
    pub(crate) stopping: CancellationToken,
    pub(crate) mark_pace: MarkPace,
    /// Taken or admitted, and the answer was lost.
    pub(crate) unanswered: Unanswered,
    /// Could not be sent: the compensator's.
    pub(crate) unsent: Unsent,
    /// What the other engines are to hear of, and what they asked for.
    pub(crate) announcer: Announcer,
    pub(crate) asked: Asked,
    /// Asks for a look ahead of the period: at who owns what, at partitions just taken over.
    pub(crate) look_at_ownership: Notify,
    pub(crate) rebalance: Notify,
    pub(crate) look_through: Notify,
    /// What is new here has been looked through: the rest of its horizon is to be loaded.
    pub(crate) preload: Notify,
    pub(crate) settling: Settling,
    pub(crate) ahead: Ahead,
    pub(crate) parts: Parts,
    pub(crate) lease_looks: LeaseLooks,
    pub(crate) room: Room,
    pub(crate) from_store: FromStore,
    pub(crate) missed: Missed,
    pub(crate) admissions: Admissions,
    pub(crate) shares: Shares,
    pub(crate) reconciler: Reconciler,
    pub(crate) deletions: Deletions,
    /// The preloader had more than the hot set has room for.
    pub(crate) is_crowded: AtomicBool,
    /// What this process keeps to itself is on its way to the others.
    pub(crate) is_sharing: AtomicBool,
    /// Some of it did not get there, or nobody knows.
    pub(crate) has_unshared: AtomicBool,
    tasks: TaskTracker,
    claiming: TaskTracker,
    arrivals: Mutex<HashMap<Arc<QueueKey>, Arc<Arrival>>>,
}

impl Core {
    pub(crate) fn new(backends: Backends, options: Options) -> Self {
        let Backends { store, hot, limiter, bus, clock, shared, blobs } = backends;
        let (partitions, sole) = (store.partitions(), shared.is_none());
        Self {
            identity_secret: tokio::sync::OnceCell::new(),
            evaluations: Evaluations::of(&options.name, !sole),
            timer: Arc::new(Timer::new(clock.now())),
            firing: Pulse::default(),
            writers: Writers::default(),
            reach: Reach::default(),
            holdings: Holdings::new(partitions, sole),
            overtaken: Overtaken::default(),
            live: Live::new(partitions, sole),
            meters: Meters::default(),
            ends: Ends::default(),
            stopping: CancellationToken::new(),
            mark_pace: MarkPace::default(),
            unanswered: Unanswered::default(),
            unsent: Unsent::default(),
            announcer: Announcer::default(),
            asked: Asked::default(),
            look_at_ownership: Notify::new(),
            rebalance: Notify::new(),
            look_through: Notify::new(),
            preload: Notify::new(),
            is_crowded: AtomicBool::new(false),
            is_sharing: AtomicBool::new(false),
            has_unshared: AtomicBool::new(false),
            settling: Settling::default(),
            ahead: Ahead::default(),
            parts: Parts::default(),
            lease_looks: LeaseLooks::default(),
            room: Room::default(),
            settings: Settings::default(),
            access: Access::new(options.admin_token),
            audit: Audit::default(),
            roster: Roster::default(),
            caps: Caps::default(),
            quotas: Quotas::default(),
            backlog: Backlog::default(),
            accounts: Accounts::default(),
            alerts: Alerts::default(),
            durability: Durability::default(),
            overdue: OverdueWatch::default(),
            from_store: FromStore::default(),
            missed: Missed::default(),
            admissions: Admissions::default(),
            shares: Shares::default(),
            reconciler: Reconciler::default(),
            deletions: Deletions::default(),
            tasks: TaskTracker::new(),
            claiming: TaskTracker::new(),
            arrivals: Mutex::default(),
            store,
            hot,
            limiter,
            bus,
            clock,
            watch: Watch::default(),
            aside: Aside::default(),
            blobs,
            unused_after: Mutex::default(),
            shared,
            options,
        }
    }

    /// The queues whose tasks are published: those that are set to, and those of the start that are not set otherwise. None
    /// where nobody could read them: those wait for whoever pulls.
    pub(crate) fn push_queues(&self) -> HashSet<QueueKey> {
        if !self.options.can_push {
            return HashSet::new();
        }
        let known = self.settings.known();
        let mut queues: HashSet<QueueKey> = self.options.push_queues.iter().cloned().collect();
        for (queue, settings) in &known.queues {
            match settings.mode {
                Some(Mode::Push) => drop(queues.insert(queue.clone())),
                Some(Mode::Pull) => drop(queues.remove(queue)),
                None => {}
            }
        }
        queues
    }

    pub(crate) fn now(&self) -> Millis {
        self.clock.now()
    }

    pub(crate) fn breaks(&self) -> u64 {
        self.clock.trust().map_or(0, Trust::breaks)
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment::now(self.breaks())
    }

    pub(crate) fn present(&self) -> Present {
        Present { breaks: self.breaks(), now: self.now() }
    }

    pub(crate) fn partitions(&self) -> impl Iterator<Item = Partition> + use<> {
        (0..self.store.partitions()).map(Partition)
    }

    /// The partitions that this engine works on.
    pub(crate) fn owned(&self) -> impl Iterator<Item = Partition> + use<> {
        self.holdings.tenures().into_iter().map(|it| it.partition)
    }

    /// Whether it falls to this engine to do what one engine is to do for all.
    pub(crate) fn leads(&self) -> bool {
        self.holdings.tenure(Partition(0)).is_some()
    }

    /// The same for one part of the store: whoever works on its first partition reaches it, as far as anybody does.
    pub(crate) fn leads_in(&self, part: usize) -> bool {
        let is_there = |it: &Partition| self.store.parts() == 1 || self.store.part_of(*it) == part;
        let first = self.partitions().find(is_there);
        first.map_or_else(|| self.leads(), |it| self.holdings.tenure(it).is_some())
    }

    /// Runs `work` to its end, whatever becomes of the caller: a client that hangs up drops the future that waits
    /// here, not the work. None: the work panicked, which is logged where it happened.
    pub(crate) async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (done, answer) = oneshot::channel();
        self.detach(async move { drop(done.send(work.await)) });
        answer.await.ok()
    }

    /// Starts `work`, which nobody waits for but `settle_down`. In a box: what the runtime makes of each kind of work it is
    /// given was a third of what this crate compiled to.
    pub(crate) fn detach(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(Box::pin(work) as BoxFuture<'static, ()>);
    }

    /// Starts a claim that nobody waits for but `claims_settled`.
    pub(crate) fn detach_claim(&self, claim: impl Future<Output = ()> + Send + 'static) {
        self.claiming.spawn(Box::pin(claim) as BoxFuture<'static, ()>);
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

    pub(crate) fn arrival(&self, queue: &Arc<QueueKey>) -> Arc<Arrival> {
        Arc::clone(self.arrivals.lock().entry(Arc::clone(queue)).or_default())
    }

    /// Something is in a queue's ready set: whoever waits here is woken, and where there are more tasks than that,
    /// whoever waits at another engine.
    pub(crate) fn arrived(&self, queue: &Arc<QueueKey>, count: usize) {
        let arrival = self.arrival(queue);
        arrival.wake_one();
        if self.shared.is_some() && count > arrival.waiting() {
            self.announcer.ready(queue);
        }
    }

    pub(crate) fn waiting(&self, queue: &QueueKey) -> usize {
        self.arrivals.lock().get(queue).map_or(0, |arrival| arrival.waiting())
    }

    pub(crate) fn wake_one(&self, queue: &QueueKey) {
        let arrival = self.arrivals.lock().get(queue).map(Arc::clone);
        if let Some(it) = arrival.filter(|it| it.waiting() > 0) {
            it.wake_one();
        }
    }

    /// All who wait for one queue, here and elsewhere: not every one of them can take what there is.
    pub(crate) fn wake_queue(&self, queue: &Arc<QueueKey>) {
        self.arrival(queue).wake_all();
        if self.shared.is_some() {
            self.announcer.ready(queue);
        }
    }

    /// One who waits for each queue.
    pub(crate) fn wake_each(&self) {
        let arrivals = self.arrivals.lock();
        arrivals.values().filter(|it| it.waiting() > 0).for_each(|it| it.wake_one());
    }

    /// It has fired, and lies here for executors that are busy, or is being handed over, or waits for its part of the store to
    /// answer: nobody else has to look after it.
    pub(crate) fn has(&self, entry: &HotEntry) -> bool {
        self.live.lock().keeps(entry)
    }

    /// Others may have put something into the ready sets.
    pub(crate) fn others_may_have_offered(&self) {
        self.arrivals.lock().values().for_each(|it| it.something_else_came());
    }

    /// Of each queue, what has fired and lies here for executors that are busy.
    pub(crate) fn lying(&self) -> Vec<(Arc<QueueKey>, usize)> {
        let arrivals = self.arrivals.lock();
        let lying = arrivals.iter().map(|(queue, it)| (Arc::clone(queue), it.lying()));
        lying.filter(|it| it.1 > 0).collect()
    }

    pub(crate) fn each_arrival(&self, all: impl Fn(&Arrival)) {
        self.arrivals.lock().values().for_each(|it| all(it));
    }

    /// Where nobody waits, nothing lies, and nobody has asked since: nobody else has it in hand either.
    pub(crate) fn forget_arrivals(&self, before: Millis) {
        let is_in_use =
            |it: &Arc<Arrival>| Arc::strong_count(it) > 1 || it.is_asked_since(before) || it.has_some_here();
        let mut arrivals = self.arrivals.lock();
        arrivals.retain(|_, it| is_in_use(it));
        arrivals.shrink_to_fit();
    }

    /// Names of queues that something is kept by, each as often as it is.
    pub(crate) fn queues_held(&self) -> usize {
        self.arrivals.lock().len() + self.admissions.queues_held() + self.meters.queues_held()
    }

    pub(crate) fn wake_all(&self) {
        self.arrivals.lock().values().for_each(|it| it.wake_all());
    }

    /// A waiting executor looks again after this, whether or not it was woken.
    pub(crate) const fn look_again(&self) -> Duration {
        Duration::from_millis(if self.shared.is_some() { 250 } else { 1_000 })
    }

    /// A note of the engine's own doing.
    pub(crate) fn note(&self) -> Note {
        Note { by: self.options.name.clone(), ..Note::default() }
    }
}
