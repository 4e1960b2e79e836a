//! The store in one or several MySQL or MariaDB databases, for many engines at once. Partitions are spread over the
//! databases; each has a few connections that write, and what comes to one of them at the same time is committed
//! together. Reads run beside them. Must not rest on anything that an engine remembers: another may have changed it.

mod access;
mod alike;
mod archive;
mod audit;
mod background;
mod buckets;
mod bulk;
mod calls;
mod chunks;
mod cluster;
mod connections;
mod count;
mod doctor;
mod due;
mod durability;
mod evaluations;
mod executors;
mod floor;
mod hosted;
mod ids;
mod inbox;
mod insert;
mod job;
mod labels;
mod late_commits;
mod lease;
mod lease_ends;
mod ledger;
mod line;
mod lookup;
mod migrate;
mod moves;
mod moving;
mod namespaces;
mod open;
mod options;
mod overdue;
mod ownership;
mod parameters;
mod parts;
mod pauses;
mod payloads;
mod place;
mod query;
mod repair;
mod reply;
mod retention;
mod routing;
mod row;
mod scan;
mod schedules;
mod search;
mod session;
mod settings;
mod shards;
mod state;
mod statements;
mod statements_moves;
mod stats;
mod timeouts;
mod tls;
mod trips;
mod walk;
mod workflows;
mod writer;

use crate::{
    Error, archived,
    change_log::{self, ChangeLog},
};
use async_trait::async_trait;
use background::to_its_end;
pub use buckets::{BucketOptions, BucketReport, BucketSurvey, Buckets};
use calls::{answered, insert, polled_once, push, spread};
pub use doctor::{BucketsAhead, ClockReading, MysqlDoctor, MysqlRights, MysqlSettings, MysqlTls};
pub use durability::Weakness;
pub use inbox::{InboxStatus, InboxTableName, MysqlInbox, ShownRefusal};
use job::{Caller, Job, JobKind, Keeping, RefusedJob, Retire};
use line::WriterKind;
pub use migrate::Schema;
pub use moving::{MoveProgress, MoveStep, Moved};
pub use options::MysqlOptions;
pub use ownership::MysqlOwnership;
use punctual_contract::{
    Error as CallError, Store,
    hot::HotEntry,
    store::{
        Applied, Beat, Books, Change, Dispatched, Extended, Grant, Inserted, LeasePosition, OverdueLook,
        OverduePage, Page, Query, Reply, ReplyKey, Reservation, Reserved, Retired, Scan, Step, Stepped,
    },
};
use punctual_domain::{
    executor::{DesiredState, Executor, Roll, Sign},
    name::Name,
    place::{Partition, TaskRef},
    task::{NewTask, Task},
    time::Millis,
};
pub use repair::ShardRepair;
use routing::state::Patience;
pub use state::MysqlStore;
pub use stats::ShardStats;
use std::{sync::Arc, task::Poll};
use timeouts::LONG;
pub(crate) use tls::way_out;
use tokio::{sync::oneshot, task::JoinError};

/// Rows that one job of retention takes.
const RETIRE_CHUNK_ROWS: usize = 500;

impl MysqlStore {
    /// The migrations that opening the store applied. Empty if the schema was current.
    #[must_use]
    pub fn migrated(&self) -> &[String] {
        &self.migrated
    }

    /// The housekeeping of the buckets of all databases.
    #[must_use]
    pub fn buckets(&self, options: BucketOptions) -> Buckets {
        let inner = Arc::downgrade(&self.inner);
        let members = move || {
            let inner = inner.upgrade();
            inner.iter().flat_map(|inner| inner.members()).map(|member| member.readers.clone()).collect()
        };
        let buckets = Buckets::new(buckets::Members(Box::new(members)), options);
        match &self.archive {
            Some(archive) => buckets.archiving_to(Arc::clone(&archive.archive_storage), archive.place),
            None => buckets,
        }
    }

    /// Finishes what was begun and closes all connections. Later calls are refused with `Closed`.
    pub async fn close(&self) {
        self.inner.close_lines();
        self.inner.routing.close();
        let running = std::mem::take(&mut *self.running.lock());
        for writer in running {
            if writer.await.is_err() {
                tracing::error!("a task of the store had panicked");
            }
        }
        for shard in &self.inner.shards {
            shard.readers.close().await;
        }
        self.inner.catalog.close().await;
        self.inner.access.close().await;
    }

    async fn one<A>(
        &self,
        (doing, lane): (&'static str, WriterKind),
        partition: Partition,
        work: impl Fn(Caller<A, ()>) -> JobKind,
    ) -> Result<A, CallError> {
        let mut patience = Patience::new();
        loop {
            let (caller, answer) = oneshot::channel();
            push(self.inner.line(lane, partition), Job::new(doing, work(caller)));
            let closed = match answered(doing, answer).await {
                Ok(answer) => return Ok(answer),
                Err(RefusedJob::Failed(error)) => return Err(error),
                Err(RefusedJob::Elsewhere((), closed)) => closed,
            };
            let followed = self.inner.follow(&mut patience, &closed).await;
            followed.map_err(|error| CallError::did_not_happen(doing, error))?;
        }
    }
}

#[async_trait]
impl Store for MysqlStore {
    async fn insert_each(
        &self,
        tasks: Vec<NewTask>,
        by: &str,
        now: Millis,
    ) -> Result<Vec<Result<Inserted, CallError>>, CallError> {
        self.inner.floors.observe_time(now);
        let mut work = Box::pin(insert(Arc::clone(&self.inner), tasks, by.into(), now));
        // Its turn is that of its caller; from then on it runs to its end whether a caller waits for it or not.
        let done = match polled_once(work.as_mut()).await {
            Poll::Ready(done) => done,
            Poll::Pending => {
                let panicked = |error: JoinError| {
                    CallError::may_have_happened("insert tasks", Error::Panicked(error.to_string()))
                };
                to_its_end(work).await.map_err(panicked)?
            }
        }?;
        change_log::inserted(&done, by);
        Ok(done)
    }

    async fn apply(&self, steps: Vec<Step>, now: Millis) -> Result<Vec<Stepped>, CallError> {
        self.inner.floors.observe_time(now);
        let work = |part, caller| JobKind::Apply(part, now, caller);
        // Leases that are given back have to be before they end: they do not wait for outcomes.
        let log = ChangeLog::of_steps(&steps);
        let is_urgent = steps.iter().all(|step| matches!(step.change, Change::Release));
        let lane = if is_urgent { WriterKind::Urgent } else { WriterKind::Moves };
        let place = |step: &Step| step.place.partition;
        let done = spread(&self.inner, ("move tasks", lane, usize::MAX), steps, place, work).await.all()?;
        log.stepped(&done);
        Ok(done)
    }

    async fn dispatch(&self, grants: Vec<Grant>, now: Millis) -> Result<Vec<Dispatched>, CallError> {
        self.inner.floors.observe_time(now);
        let work = |part, caller| JobKind::Dispatch(part, now, caller);
        let log = ChangeLog::of_grants(&grants);
        let place = |grant: &Grant| grant.place.partition;
        let lane = ("dispatch tasks", WriterKind::Urgent, usize::MAX);
        let done = spread(&self.inner, lane, grants, place, work).await.all()?;
        log.dispatched(&done);
        Ok(done)
    }

    async fn extend(&self, beats: Vec<Beat>, now: Millis) -> Result<Vec<Extended>, CallError> {
        self.inner.floors.observe_time(now);
        let work = |part, caller| JobKind::Extend(part, now, caller);
        let log = ChangeLog::of_beats(&beats);
        let place = |beat: &Beat| beat.place.partition;
        let lane = ("extend leases", WriterKind::Urgent, usize::MAX);
        let done = spread(&self.inner, lane, beats, place, work).await.all()?;
        log.extended(&done);
        Ok(done)
    }

    async fn request_stop(&self, place: TaskRef, now: Millis) -> Result<Applied, CallError> {
        self.one(("ask a task to stop", WriterKind::Urgent), place.partition, |caller| {
            JobKind::Stop(place, now, caller)
        })
        .await
    }

    async fn scan(&self, scan: Scan) -> Result<Vec<HotEntry>, CallError> {
        self.reading("scan a partition", |inner| search::scan(inner, scan)).await
    }

    async fn scan_together(&self, scans: Vec<Scan>) -> Result<Vec<Option<Vec<HotEntry>>>, CallError> {
        self.reading("scan partitions", |inner| search::scan_together(inner, scans)).await
    }

    async fn overdue(&self, look: OverdueLook) -> Result<OverduePage, CallError> {
        self.reading("look for what is overdue", |inner| search::overdue(inner, look)).await
    }

    async fn leases_ended_in(&self, part: usize, now: Millis, limit: usize) -> Result<Vec<Task>, CallError> {
        self.reading("look for ended leases", move |inner| search::leases_ended(inner, part, now, limit))
            .await
    }

    async fn in_flight(
        &self,
        after: Option<LeasePosition>,
        limit: usize,
    ) -> Result<(Vec<Task>, Option<LeasePosition>), CallError> {
        self.reading("read what is in flight", move |inner| search::in_flight(inner, after, limit)).await
    }

    async fn read(&self, places: &[TaskRef]) -> Result<Vec<Option<Task>>, CallError> {
        let asked = places.to_vec();
        let found = self.reading("read tasks", |inner| search::read(inner, asked)).await?;
        match &self.archive {
            Some(archive) if found.contains(&None) => archive.read(self, places, found).await,
            _ => Ok(found),
        }
    }

    async fn versions(
        &self,
        namespace: &Name,
        task_id: i64,
        version: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Task>, CallError> {
        let name = namespace.clone();
        let work = |inner| search::versions(inner, name, task_id, version, limit);
        let found = self.reading("read versions", work).await?;
        match &self.archive {
            Some(archive) => archive.versions(self, (namespace, task_id), version, (limit, found)).await,
            None => Ok(found),
        }
    }

    async fn latest_versions(&self, namespace: &Name, task_ids: &[i64]) -> Result<Vec<Task>, CallError> {
        let (name, ids) = (namespace.clone(), task_ids.to_vec());
        let work = |inner| search::latest_versions(inner, name, ids);
        let mut found = self.reading("read the latest versions", work).await?;
        if let Some(archive) = &self.archive {
            for task_id in archived::missing_ids(task_ids, &found) {
                let of = (namespace, task_id);
                found.extend(archive.versions(self, of, None, (1, Vec::new())).await?);
            }
        }
        Ok(found)
    }

    async fn list(&self, query: &Query) -> Result<Page, CallError> {
        let query = query.clone();
        self.reading_within(LONG, "search tasks", |inner| search::list(inner, query)).await
    }

    async fn retire_in(
        &self,
        part: usize,
        now: Millis,
        stopped_until: Millis,
        limit: usize,
    ) -> Result<Retired, CallError> {
        const DOING: &str = "end retention";
        let mut retired = Retired::default();
        let line = self
            .inner
            .members()
            .get(part)
            .and_then(|member| member.lines.get(WriterKind::Bulk as usize)?.first());
        loop {
            let left = limit - retired.stopped - retired.deleted;
            let asked = Retire { now, stopped_until, limit: left.min(RETIRE_CHUNK_ROWS) };
            if left == 0 {
                return Ok(retired);
            }
            let (caller, answer) = oneshot::channel();
            push(line, Job::new(DOING, JobKind::Retire(asked, caller)));
            let more = match answered(DOING, answer).await {
                Ok(more) => more,
                Err(RefusedJob::Failed(error)) => return Err(error),
                // It writes only where it may, so there is no such answer.
                Err(RefusedJob::Elsewhere((), _)) => Retired::default(),
            };
            retired.stopped += more.stopped;
            retired.deleted += more.deleted;
            retired.has_more |= more.has_more;
            if more.stopped + more.deleted < asked.limit {
                return Ok(retired);
            }
        }
    }

    async fn books(&self) -> Result<Books, CallError> {
        self.reading("read the books", |inner| search::account(inner, search::Account::Running)).await
    }

    async fn audit(&self) -> Result<Books, CallError> {
        self.reading_within(LONG, "audit the books", |inner| search::account(inner, search::Account::Counted))
            .await
    }

    async fn check_writers_in(&self, part: usize) -> Result<(), CallError> {
        calls::check_writers(&self.inner, part).await
    }

    async fn reserve_reply(
        &self,
        key: &ReplyKey,
        reservation: &Reservation,
        now: Millis,
    ) -> Result<Reserved, CallError> {
        self.keep("reserve a reply", key, || Keeping::Reserve(reservation.clone(), now)).await
    }

    async fn release_reply(&self, key: &ReplyKey, owner: &str) -> Result<(), CallError> {
        self.keep("release a reply", key, || Keeping::Release(owner.to_owned())).await.map(drop)
    }

    async fn save_reply(&self, key: &ReplyKey, reply: &Reply) -> Result<(), CallError> {
        self.keep("keep a reply", key, || Keeping::Save(reply.clone())).await.map(drop)
    }

    async fn load_reply(&self, key: &ReplyKey, now: Millis) -> Result<Option<Reply>, CallError> {
        let key = key.clone();
        self.reading("look up a reply", |inner| search::load_reply(inner, key, now)).await
    }

    async fn note_executors(&self, signs: Vec<Sign>) -> Result<Vec<(Name, Name, DesiredState)>, CallError> {
        executors::note(self.inner.catalog.clone(), signs).await
    }

    async fn executors(
        &self,
        namespace: &Name,
        from: &str,
        limit: usize,
    ) -> Result<Vec<Executor>, CallError> {
        executors::list(self.inner.catalog.clone(), namespace.clone(), from.to_owned(), limit).await
    }

    async fn desired_state_of_executor(
        &self,
        namespace: &Name,
        name: &Name,
        desired: DesiredState,
    ) -> Result<Option<DesiredState>, CallError> {
        executors::set_desired_state(self.inner.catalog.clone(), namespace.clone(), name.clone(), desired)
            .await
    }

    async fn sweep_silent(
        &self,
        now: Millis,
        silent_since: Millis,
        left_before: Millis,
    ) -> Result<Roll, CallError> {
        executors::sweep_silent(self.inner.catalog.clone(), now, silent_since, left_before).await
    }

    fn partitions(&self) -> u16 {
        self.inner.cluster.partitions
    }

    fn parts(&self) -> usize {
        self.inner.members().len()
    }

    fn part_of(&self, partition: Partition) -> usize {
        self.inner.routing.placement().shard_of(partition)
    }
}
