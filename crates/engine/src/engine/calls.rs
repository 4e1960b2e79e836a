//! The calls of an engine that run steps on tasks. A step that changes something runs to its end. Holds no
//! rule of its own.

use super::{Depth, Engine};
use crate::{
    answer::{Cancelled, Changed, Error, Reported},
    change::{self, Subject},
    core::Core,
    for_later, long_payloads, parts,
    pipeline::{
        admit, hand_over, intake, line, outcome,
        request::{LeaseRequest, Only, Restrictions},
        slots::{self, SharedSlots, Slots},
    },
    redrive, search,
    why::{self, Why},
};
use futures_util::future::BoxFuture;
use punctual_contract::{
    Error as BackendError,
    hot::ParkReason,
    limiter::Holders,
    store::{Assignment, Beat, Change, Extended, Inserted, Page, Query, all_of},
};
use punctual_domain::{
    name::{Name, QueueKey},
    place::TaskRef,
    task::{NewTask, Task},
};
use std::sync::Arc;

impl Engine {
    /// Stores tasks and sees that they fire. Acknowledged means durable.
    ///
    /// # Errors
    /// When the store fails; the error states whether the tasks may be stored all the same.
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

    /// Inserts like [`Engine::insert`], with an answer for each task: a failing database does not affect tasks of the
    /// others.
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

    /// The task with its payload and result, where these are stored outside of the store.
    ///
    /// # Errors
    /// [`Error::NotFound`], a failing store, or a content that cannot be read.
    pub fn whole(&self, task: Task) -> BoxFuture<'_, Result<Task, Error>> {
        Box::pin(async move { long_payloads::whole(&self.core, task).await })
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

    /// The first `wanted` matches that `sees` accepts, searching for up to two seconds. The query's limit is
    /// per read.
    ///
    /// # Errors
    /// A failing store.
    pub fn search<'a>(
        &'a self,
        query: &'a Query,
        wanted: usize,
        sees: impl Fn(&Task) -> bool + Send + Sync + 'a,
    ) -> BoxFuture<'a, Result<search::SearchResult, Error>> {
        Box::pin(async move { Ok(search::filled(&self.core, query, wanted, sees).await?) })
    }

    /// # Errors
    /// [`Error::NotFound`], a failing back end, or [`Error::Contended`].
    pub async fn cancel(&self, place: TaskRef, stop_if_fired: bool, by: &str) -> Result<Cancelled, Error> {
        let (core, by) = (Arc::clone(&self.core), by.to_owned());
        self.run(async move { change::cancel_and_read(&core, place, stop_if_fired, &by, &|_| true).await })
            .await
    }

    /// Changes time, priority, payload or queue of an unfired task. `change` must be a `Reschedule`. `None` if
    /// `expected` refused the task.
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
    /// Fails like [`Engine::reschedule`].
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

    /// Gives a dead task new attempts now. Its other changes, an `Amend`, a `Reschedule` or both, are part of
    /// the same step.
    ///
    /// # Errors
    /// [`Error::NotFound`] or a failing back end.
    pub async fn redrive(&self, place: TaskRef, changes: Vec<Change>, by: &str) -> Result<Changed, Error> {
        let (core, by) = (Arc::clone(&self.core), by.to_owned());
        let redriven =
            async move { change::dead::redrive(&core, Subject::At(place), changes, &by, &|_| true).await };
        self.run(redriven).await?.ok_or(Error::Contended)
    }

    /// Gives many dead tasks new attempts, spread over time. A failure leaves some of them redriven: the call
    /// can be repeated.
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
    pub fn lease(&self, request: LeaseRequest) -> BoxFuture<'_, Result<Vec<Assignment>, Error>> {
        Box::pin(async move { Ok(hand_over::lease(&self.core, request, Restrictions::default()).await?) })
    }

    /// Leases like `lease`, for an executor that does not accept every task. Only leases that declared the
    /// concurrency count for it.
    ///
    /// # Errors
    /// A failing back end.
    pub fn lease_only(
        &self,
        request: LeaseRequest,
        only: Only,
    ) -> BoxFuture<'_, Result<Vec<Assignment>, Error>> {
        Box::pin(async move {
            let Some(restrictions) = only.restrictions(&request) else { return Ok(Vec::new()) };
            Ok(hand_over::lease(&self.core, request, restrictions).await?)
        })
    }

    /// Waits until one of several queues of a namespace has tasks, and leases at most `max`. Each request also bounds
    /// its own queue. The first request's wait time counts for all.
    ///
    /// # Errors
    /// A failing back end, if nothing was leased before it failed.
    pub fn lease_from_several(
        &self,
        requests: Vec<LeaseRequest>,
        max: usize,
        only: Only,
    ) -> BoxFuture<'_, Result<Vec<Assignment>, Error>> {
        Box::pin(async move {
            let Some(first) = requests.first() else { return Ok(Vec::new()) };
            let Some(restrictions) = only.restrictions(first) else { return Ok(Vec::new()) };
            Ok(hand_over::several::lease(&self.core, requests, max, restrictions).await?)
        })
    }

    /// Leases like `lease`, for an executor that holds at most `concurrency` tasks: of all queues of the namespace,
    /// at all engines.
    ///
    /// # Errors
    /// A failing back end.
    pub fn lease_within(
        &self,
        request: LeaseRequest,
        concurrency: u32,
    ) -> BoxFuture<'_, Result<Vec<Assignment>, Error>> {
        Box::pin(async move {
            self.lease_only(request, Only { concurrency: Some(concurrency), kinds: None }).await
        })
    }

    /// Settles attempts; answers in order.
    ///
    /// # Errors
    /// A failing store, also where only one of several databases fails.
    pub fn record_outcomes<'a>(
        &'a self,
        reports: Vec<outcome::OutcomeReport>,
        by: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Reported>, Error>> {
        Box::pin(async move { Ok(all_of(self.record_each(reports, by).await?)?) })
    }

    /// Records like `record_outcomes`, with an answer for each report: a failing database does not affect attempts of
    /// the others.
    ///
    /// # Errors
    /// Fails only if the engine itself fails.
    pub fn record_each<'a>(
        &'a self,
        reports: Vec<outcome::OutcomeReport>,
        by: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Result<Reported, BackendError>>, Error>> {
        Box::pin(
            async move { self.record_submitted(reports.into_iter().map(Into::into).collect(), by).await },
        )
    }

    /// Extends leases; answers in order.
    ///
    /// # Errors
    /// A failing store, also where only one of several databases fails.
    pub fn extend(&self, beats: Vec<Beat>) -> BoxFuture<'_, Result<Vec<Extended>, Error>> {
        Box::pin(async move { Ok(all_of(self.extend_each(beats).await?)?) })
    }

    /// Tasks in order, with an answer for each: a failing database does not affect tasks of the others.
    ///
    /// # Errors
    /// Fails only if the engine itself fails.
    pub async fn read_each(
        &self,
        places: Vec<TaskRef>,
    ) -> Result<Vec<Result<Option<Task>, BackendError>>, Error> {
        let core = Arc::clone(&self.core);
        let read = |core: Arc<Core>, places: Vec<TaskRef>| async move { core.store.read(&places).await };
        self.run(async move {
            Ok(parts::ask_each(&core, "read tasks", places, |place| place.partition, read).await)
        })
        .await
    }

    /// Extends like `extend`, but each heartbeat has its own answer.
    ///
    /// # Errors
    /// Fails only if the engine itself fails.
    pub fn extend_each(
        &self,
        beats: Vec<Beat>,
    ) -> BoxFuture<'_, Result<Vec<Result<Extended, BackendError>>, Error>> {
        Box::pin(async move {
            let core = Arc::clone(&self.core);
            self.run(async move { Ok(for_later::extend_each(&core, beats).await) }).await
        })
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

    /// The holders of a queue's slots: its limit, and the first holders. `None` if the queue counts for no limit.
    ///
    /// # Errors
    /// A limiter that is unavailable.
    pub async fn holders(
        &self,
        queue: &QueueKey,
        limit: usize,
    ) -> Result<Option<(Option<u32>, Holders)>, Error> {
        Ok(admit::holders(&self.core, queue, limit).await?)
    }

    /// Due tasks of the hot set and of this engine's table; fired tasks of this engine's table alone.
    ///
    /// # Errors
    /// A failing hot set.
    pub async fn depth(&self) -> Result<Depth, Error> {
        let due = self.core.hot.count_due().await?;
        let table = self.core.live.lock();
        let (mut ready, mut parked) = (Vec::new(), Vec::new());
        for (queue, stored_task) in table.count_served() {
            ready.extend((stored_task.ready > 0).then(|| (Arc::clone(&queue), stored_task.ready)));
            parked.extend((stored_task.parked > 0).then_some((queue, stored_task.parked)));
        }
        ready.sort_unstable();
        parked.sort_unstable();
        Ok(Depth { due: due + table.len(), fired: table.count_fired(), ready, parked })
    }

    /// The parked tasks of a queue, by what they wait for.
    ///
    /// # Errors
    /// A failing hot set.
    pub async fn parked(&self, queue: &QueueKey, limit: usize) -> Result<Vec<(ParkReason, usize)>, Error> {
        Ok(line::lanes(&self.core, queue, None, limit))
    }
}
