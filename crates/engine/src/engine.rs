//! One engine: the door through which servers, tests and users' test clocks come in. Runs by itself (`start`) or
//! turn by turn under a clock that somebody else moves (`turn`); the steps are the same.

use crate::{
    access,
    answer::{Cancelled, Changed, Error, Settled},
    audit,
    change::{self, Subject},
    clock, control,
    core::Core,
    executors, idle,
    maintenance::{
        compensate, deletion, leases, mark_ready, offer_again::OfferAgain, overdue, reconcile, retention,
        sweep::Sweep, unused,
    },
    meters::{Meters, ProcessMeters},
    options::Options,
    outside, parts,
    pipeline::{
        admit, ahead, claim, fire, from_store, hand_over, intake,
        kinds::Restrictions,
        outcome, preload, push,
        slots::{self, SharedSlots, Slots},
        unknown,
    },
    redrive, search, shares,
    sharing::{adopt, announce, own},
    supervisor::Supervisor,
    why::{self, Why},
};
use futures_util::future::BoxFuture;
use punctual_contract::{
    Blobs, Bus, Clock, Error as BackendError, Hot, Limiter, Ownership, Signals, Store,
    hot::{Depth, Lane},
    limiter::Holders,
    store::{Assignment, Beat, Change, Extended, Inserted, Page, Query, Scan, all_of},
};
use punctual_domain::{
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    task::{NewTask, Task},
    time::Millis,
};
use std::sync::Arc;

/// What an engine stands on.
#[derive(Debug, Clone)]
pub struct Backends {
    pub store: Arc<dyn Store>,
    pub hot: Arc<dyn Hot>,
    pub limiter: Arc<dyn Limiter>,
    pub bus: Arc<dyn Bus>,
    pub clock: Arc<dyn Clock>,
    /// Where long payloads and results are. None: everything is in the store.
    pub blobs: Option<Arc<dyn Blobs>>,
    /// None: no other engine works on this store.
    pub shared: Option<Shared>,
}

/// What engines that share a store and a hot set agree by.
#[derive(Debug, Clone)]
pub struct Shared {
    pub ownership: Arc<dyn Ownership>,
    pub signals: Arc<dyn Signals>,
}

/// Cheap to clone; all clones are the same engine.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) core: Arc<Core>,
    pub(crate) sweep: Arc<Sweep>,
    pub(crate) offer_again: Arc<OfferAgain>,
}

/// An engine at work.
#[derive(Debug)]
pub struct Running {
    pub(crate) engine: Engine,
    pub(crate) supervisor: Supervisor,
    pub(crate) wheel_thread: std::thread::JoinHandle<()>,
}

/// What one turn did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Turn {
    /// Partitions taken over.
    pub gained: usize,
    pub preloaded: usize,
    pub claimed: usize,
    pub fired: usize,
    pub leases_ended: usize,
    pub swept: usize,
    pub retired: usize,
}

impl Engine {
    /// Hears of each attempt and each task that this engine ends, by a report or without one. It must not wait. False: another
    /// hears already.
    pub fn hear_ends(&self, listener: impl Fn(TaskRef) + Send + Sync + 'static) -> bool {
        self.core.ends.listen(Box::new(listener))
    }

    #[must_use]
    pub fn new(backends: Backends, options: Options) -> Self {
        let core = Arc::new(Core::new(backends, options));
        Self { core, sweep: Arc::default(), offer_again: Arc::default() }
    }

    /// One turn of every service at the clock's present time, for whoever moves the clock by hand. An engine that
    /// was started must not be turned.
    ///
    /// # Errors
    /// The first failure of a back end; what was done before it stays done.
    pub fn turn(&self) -> BoxFuture<'_, Result<Turn, BackendError>> {
        Box::pin(async move {
            let core = &self.core;
            clock::run_once(core).await?;
            let now = core.now();
            // Whether or not it can be known who owns what: what is held is gone on with.
            let owned = own::run_once(core).await;
            control::run_once(core).await?;
            access::run_once(core).await?;
            let fired_from_store = from_store::run_once(core).await?;
            adopt::run_once(core).await?;
            let preloaded = preload::run_once(core, now).await?;
            core.claims_settled().await;
            let claimed = claim::run_once(core, now).await? + claim::run_again(core, now).await?;
            ahead::run_once(core).await?;
            core.claims_settled().await;
            core.timer.expired(now);
            let mut fired = fired_from_store + fire::fire_all(core).await? + fire::fire_again(core).await?;
            unknown::run_once(core, now).await?;
            parts::run_once(core).await?;
            let leases_ended = leases::run_once(core, now).await?;
            let swept = self.sweep.run_once(core, now).await?;
            reconcile::run_once(core, now).await?;
            self.offer_again.run_once(core, now).await?;
            compensate::run_once(core, now).await?;
            core.claims_settled().await;
            fired += fire::fire_all(core).await?;
            for queue in core.push_queues().into_iter().map(Arc::new) {
                while push::run_once(core, &queue, 0).await?.published > 0 {}
            }
            mark_ready::run_once(core, now).await?;
            let retired = retention::run_once(core, now).await?;
            deletion::run_once(core, now).await?;
            unused::run_once(core, now).await?;
            executors::run_once(core, now).await?;
            idle::run_once(core, now).await?;
            audit::run_once(core, now).await?;
            shares::run_once(core, now).await?;
            announce::run_once(core).await?;
            overdue::turn(core, now).await?;
            Ok(Turn { gained: owned?, preloaded, claimed, fired, leases_ended, swept, retired })
        })
    }

    /// Ends the work of an engine that is turned by hand, as [`Running::stop`] does: what was claimed is handed back,
    /// and the other engines know that everything is free.
    pub fn leave(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.core.stopping.cancel();
            self.core.settle_down().await;
            ahead::clear(&self.core).await;
            self.core.claims_settled().await;
            // Fired and not handed over: marked ready.
            while let Ok(1..) = mark_ready::run_once(&self.core, Millis::MAX).await {}
            for written in
                [access::note_used(&self.core).await, audit::write_noted(&self.core).await.map(drop)]
            {
                if let Err(error) = written {
                    tracing::warn!(%error, "what was refused, or when tokens were used, could not be written");
                }
            }
            own::leave(&self.core).await;
        })
    }

    /// Tells the other engines at once what they are to hear of; a running engine does so by itself.
    ///
    /// # Errors
    /// When it cannot be announced; then they find it at their next look.
    pub fn announce(&self) -> BoxFuture<'_, Result<usize, BackendError>> {
        Box::pin(async move { announce::run_once(&self.core).await })
    }

    /// The next instant at which a turn has something to do; None: nothing is waiting and no lease is out.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn next_turn_at(&self) -> Result<Option<Millis>, BackendError> {
        let mut next: Option<Millis> = None;
        for partition in self.core.partitions() {
            let scan = Scan { partition, until: Millis::MAX, after: None, limit: 1 };
            let due = self.core.store.scan(scan).await?.first().map(|it| it.due_at);
            next = next.into_iter().chain(due).min();
        }
        let ends = self.core.store.leases_ended(Millis::MAX, 1).await?;
        Ok(next.into_iter().chain(ends.first().and_then(|it| it.lease.as_ref()).map(|it| it.until)).min())
    }

    /// Stores tasks and sees that they fire. Acknowledged means durable.
    ///
    /// # Errors
    /// When the store fails; the error says whether the tasks may be stored all the same.
    pub fn insert<'a>(
        &'a self,
        tasks: Vec<NewTask>,
        by: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Inserted>, Error>> {
        Box::pin(async move {
            let (core, by) = (Arc::clone(&self.core), by.to_owned());
            self.run(async move { Ok(all_of(intake::insert(&core, tasks, &by).await?)?) }).await
        })
    }

    /// As [`Engine::insert`], with an answer for each: what one database refuses says nothing of the others.
    ///
    /// # Errors
    /// When none of them could be tried.
    pub fn insert_each<'a>(
        &'a self,
        tasks: Vec<NewTask>,
        by: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Result<Inserted, BackendError>>, Error>> {
        Box::pin(async move {
            let (core, by) = (Arc::clone(&self.core), by.to_owned());
            self.run(async move { Ok(intake::insert(&core, tasks, &by).await?) }).await
        })
    }

    /// # Errors
    /// [`Error::NotFound`], or a failing store.
    pub fn read(&self, place: TaskRef) -> BoxFuture<'_, Result<Task, Error>> {
        Box::pin(async move { change::read(&self.core, place).await })
    }

    /// The task with its payload and result, where these are kept outside of the store.
    ///
    /// # Errors
    /// [`Error::NotFound`], a failing store, or a content that cannot be read.
    pub fn whole(&self, task: Task) -> BoxFuture<'_, Result<Task, Error>> {
        Box::pin(async move { outside::whole(&self.core, task).await })
    }

    /// The versions of a caller's id, the highest first.
    ///
    /// # Errors
    /// A failing store.
    pub fn versions<'a>(
        &'a self,
        namespace: &'a Name,
        task_id: i64,
        version: Option<i64>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Task>, Error>> {
        Box::pin(async move { Ok(self.core.store.versions(namespace, task_id, version, limit).await?) })
    }

    /// # Errors
    /// A failing store.
    pub fn list<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move { Ok(self.core.store.list(query).await?) })
    }

    /// The first `wanted` that match and that `sees` lets pass, looking on for two seconds. The query's limit is of one look.
    ///
    /// # Errors
    /// A failing store.
    pub fn search<'a>(
        &'a self,
        query: &'a Query,
        wanted: usize,
        sees: impl Fn(&Task) -> bool + Send + Sync + 'a,
    ) -> BoxFuture<'a, Result<search::Found, Error>> {
        Box::pin(async move { Ok(search::filled(&self.core, query, wanted, sees).await?) })
    }

    /// # Errors
    /// [`Error::NotFound`], a failing back end, or [`Error::Contended`].
    pub async fn cancel(&self, place: TaskRef, stop_if_fired: bool, by: &str) -> Result<Cancelled, Error> {
        let (core, by) = (Arc::clone(&self.core), by.to_owned());
        self.run(async move { change::cancel_and_read(&core, place, stop_if_fired, &by, &|_| true).await })
            .await
    }

    /// Changes time, priority, payload or queue of a task that has not fired. `change` must be a `Reschedule`. None: the
    /// task is not as `expected` says.
    ///
    /// # Errors
    /// [`Error::NotFound`], a failing back end, or [`Error::Contended`].
    pub async fn reschedule(
        &self,
        place: TaskRef,
        change: Change,
        by: &str,
        expected: impl Fn(&Task) -> bool + Send + Sync + 'static,
    ) -> Result<Option<Changed>, Error> {
        let (core, by) = (Arc::clone(&self.core), by.to_owned());
        self.run(async move { change::reschedule(&core, Subject::At(place), change, &by, &expected).await })
            .await
    }

    /// Makes a waiting task due now.
    ///
    /// # Errors
    /// As [`Engine::reschedule`].
    pub async fn run_now(&self, place: TaskRef, by: &str) -> Result<Changed, Error> {
        let change = Change::Reschedule {
            execute_at: Some(self.core.now()),
            priority: None,
            payload: None,
            queue: None,
        };
        let changed = self.reschedule(place, change, by, |_| true).await?;
        changed.ok_or(Error::Contended)
    }

    /// Gives a dead task new attempts, now, with what is changed of it in the same step: an `Amend`, a `Reschedule`, or both.
    ///
    /// # Errors
    /// [`Error::NotFound`] or a failing back end.
    pub async fn redrive(&self, place: TaskRef, changes: Vec<Change>, by: &str) -> Result<Changed, Error> {
        let (core, by) = (Arc::clone(&self.core), by.to_owned());
        let redriven =
            async move { change::redrive(&core, Subject::At(place), changes, &by, &|_| true).await };
        self.run(redriven).await?.ok_or(Error::Contended)
    }

    /// Gives many dead tasks new attempts, spread over time. A failure leaves some of them redriven: the call can be
    /// made again.
    ///
    /// # Errors
    /// A failing store.
    pub async fn redrive_many(
        &self,
        asked: redrive::RedriveMany,
        by: &str,
    ) -> Result<redrive::Redriven, Error> {
        let (core, by) = (Arc::clone(&self.core), by.to_owned());
        self.run(async move { Ok(redrive::many(&core, asked, &by).await?) }).await
    }

    /// # Errors
    /// [`Error::NotFound`] or a failing store.
    pub async fn why(&self, place: TaskRef) -> Result<(Task, Why), Error> {
        let task = change::read(&self.core, place).await?;
        let why = why::why(&self.core, &task).await;
        Ok((task, why))
    }

    /// Waits for ready tasks and leases them. Dropping the future loses no task.
    ///
    /// # Errors
    /// A failing back end.
    pub fn lease(&self, request: hand_over::LeaseRequest) -> BoxFuture<'_, Result<Vec<Assignment>, Error>> {
        Box::pin(async move { Ok(hand_over::lease(&self.core, request, Restrictions::default()).await?) })
    }

    /// Settles attempts; answers in order.
    ///
    /// # Errors
    /// A failing store, also where only one of several databases fails.
    pub fn settle<'a>(
        &'a self,
        reports: Vec<outcome::OutcomeReport>,
        by: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Settled>, Error>> {
        Box::pin(async move { Ok(all_of(self.settle_each(reports, by).await?)?) })
    }

    /// As `settle`, but each has an answer of its own: a database that fails says nothing of the others' attempts.
    ///
    /// # Errors
    /// Only of the engine as a whole.
    pub fn settle_each<'a>(
        &'a self,
        reports: Vec<outcome::OutcomeReport>,
        by: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Result<Settled, BackendError>>, Error>> {
        Box::pin(async move {
            let (core, by) = (Arc::clone(&self.core), by.to_owned());
            self.run(async move { Ok(outcome::settle(&core, reports, &by).await) }).await
        })
    }

    /// Extends leases; answers in order.
    ///
    /// # Errors
    /// A failing store, also where only one of several databases fails.
    pub fn extend(&self, beats: Vec<Beat>) -> BoxFuture<'_, Result<Vec<Extended>, Error>> {
        Box::pin(async move { Ok(all_of(self.extend_each(beats).await?)?) })
    }

    /// Tasks, in order; each has an answer of its own: a database that fails says nothing of the others' tasks.
    ///
    /// # Errors
    /// Only of the engine as a whole.
    pub async fn read_each(
        &self,
        places: Vec<TaskRef>,
    ) -> Result<Vec<Result<Option<Task>, BackendError>>, Error> {
        let core = Arc::clone(&self.core);
        let read = |core: Arc<Core>, places: Vec<TaskRef>| async move { core.store.read(&places).await };
        self.run(
            async move { Ok(parts::ask_each(&core, "read tasks", places, |it| it.partition, read).await) },
        )
        .await
    }

    /// As `extend`, but each has an answer of its own.
    ///
    /// # Errors
    /// Only of the engine as a whole.
    pub fn extend_each(
        &self,
        beats: Vec<Beat>,
    ) -> BoxFuture<'_, Result<Vec<Result<Extended, BackendError>>, Error>> {
        Box::pin(async move {
            let core = Arc::clone(&self.core);
            let extend = |core: Arc<Core>, beats| async move { core.store.extend(beats, core.now()).await };
            // They have begun: their rows are not as they were handed over.
            core.live.lock().forget_attempts(beats.iter().map(|beat| (beat.place.id, beat.fence)));
            self.run(async move {
                Ok(parts::ask_each(&core, "extend leases", beats, |it| it.place.partition, extend).await)
            })
            .await
        })
    }

    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let panicked = || BackendError::may_have_happened("serve a request", "the work panicked");
        self.core.to_its_end(work).await.unwrap_or_else(|| Err(panicked().into()))
    }

    #[must_use]
    pub fn now(&self) -> Millis {
        self.core.now()
    }

    #[must_use]
    pub fn meters(&self) -> &Meters {
        &self.core.meters
    }

    /// What the process counts of itself.
    #[must_use]
    pub fn process_meters(&self) -> &ProcessMeters {
        &self.core.options.process
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.core.options.name
    }

    /// The store, for what needs no engine: account, replies, search.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        self.core.store.as_ref()
    }

    /// Where the tasks of push queues are received.
    #[must_use]
    pub fn bus(&self) -> &Arc<dyn Bus> {
        &self.core.bus
    }

    /// Of the hot set; what lies in this engine counts as ready.
    ///
    /// # Errors
    /// A failing hot set.
    pub async fn depth(&self) -> Result<Depth, Error> {
        let mut depth = self.core.hot.depth().await?;
        for (queue, lying) in self.core.lying() {
            match depth.ready.iter_mut().find(|it| it.0 == queue) {
                Some((_, ready)) => *ready += lying,
                None => depth.ready.push((queue, lying)),
            }
        }
        Ok(depth)
    }

    /// The slots of the queues that have a limit of their own.
    ///
    /// # Errors
    /// A failing limiter.
    pub async fn slots(&self) -> Result<Vec<Slots>, Error> {
        Ok(slots::slots(&self.core).await?)
    }

    /// Slots of the limits that queues share.
    ///
    /// # Errors
    /// A failing limiter.
    pub async fn shared_slots(&self) -> Result<Vec<SharedSlots>, Error> {
        Ok(slots::shared_slots(&self.core).await?)
    }

    /// Who holds slots of a queue: its own limit, and the first of the holders. None: it counts for no limit.
    ///
    /// # Errors
    /// A limiter that is away.
    pub async fn holders(
        &self,
        queue: &QueueKey,
        limit: usize,
    ) -> Result<Option<(Option<u32>, Holders)>, Error> {
        Ok(admit::holders(&self.core, queue, limit).await?)
    }

    /// What is put aside in a queue, by what it waits for.
    ///
    /// # Errors
    /// A failing hot set.
    pub async fn parked(&self, queue: &QueueKey, limit: usize) -> Result<Vec<(Lane, usize)>, Error> {
        Ok(self.core.hot.lanes(queue, None, limit).await?)
    }

    /// Tasks claimed and on the wheel.
    #[must_use]
    pub fn claimed(&self) -> usize {
        self.core.live.lock().len()
    }

    /// Tasks that could not be sent, as far as this engine knows, and wait for the compensator.
    #[must_use]
    pub fn unsent(&self) -> usize {
        self.core.unsent.len()
    }

    /// How full the hot set was when last looked at, in thousandths; 0: it has no bound.
    #[must_use]
    pub fn hot_fullness(&self) -> u32 {
        self.core.room.fullness()
    }

    /// The hot set did not answer when last asked: firing goes on from the store.
    #[must_use]
    pub fn hot_is_away(&self) -> bool {
        self.core.from_store.is_away()
    }

    /// The hot set was found to be another cluster's: nothing of it is used.
    #[must_use]
    pub fn hot_is_another_clusters(&self) -> bool {
        self.core.hot.stranger().is_some()
    }

    /// Partitions that this engine works on.
    #[must_use]
    pub fn owned(&self) -> usize {
        self.core.holdings.len()
    }

    /// Whether it works on a partition.
    #[must_use]
    pub fn owns(&self, partition: Partition) -> bool {
        self.core.holdings.tenure(partition).is_some()
    }

    /// Executors that wait at this engine for the tasks of a queue.
    #[must_use]
    pub fn waiting(&self, queue: &QueueKey) -> usize {
        self.core.waiting(queue)
    }

    /// The engine has been told to stop; long polls end.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.core.stopping.is_cancelled()
    }
}

impl Running {
    /// Stops: no task fires any more, what is under way is finished, what was claimed is handed back, and the other
    /// engines know that everything is free.
    pub fn stop(self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.engine.core.stopping.cancel();
            self.engine.core.timer.stop();
            self.supervisor.stopped().await;
            if self.wheel_thread.join().is_err() {
                tracing::error!("the wheel's thread had panicked");
            }
            self.engine.leave().await;
        })
    }
}
