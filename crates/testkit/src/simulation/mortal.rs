//! Back ends as one engine sees them, up to the call at which its process dies or stops for a while: what comes after
//! that call never happens, or happens when the process continues. So an engine can be cut between any two of its steps.

mod workflows;

use async_trait::async_trait;
use parking_lot::Mutex;
use punctual_contract::{
    Bus, Error, Hot, IdentityStore, Limiter, Ownership, ScheduleStore, SettingStore, Store,
    bus::Delivery,
    hot::{HotEntry, Keeps, Wholeness, Withdrawn},
    limiter::{
        Demand, Flowing, Held, Holders, Limit, Member, Rebuilding, Room, SlotRequest as Asked, Verdict,
    },
    ownership::{Live, Owner, Says, Tenure},
    schedules::{
        Advance, OlderDocuments, RecordRun, Run, RunKey, RunQuery, RunTask, SaveSchedule, ScheduleKey,
        StoredSchedule,
    },
    settings::{SaveSetting, Saved, SettingChange, Settings},
    store::{
        Applied, Assignment, Beat, Books, Dispatched, Extended, Grant, Inserted, LeasePosition, OverdueLook,
        OverduePage, Page, Query, Reply, ReplyKey, Reservation, Reserved, Retired, Scan, Step, Stepped,
    },
};
use punctual_domain::{
    executor::{DesiredState, Executor, Roll, Sign},
    identity::IdentitySecret,
    limits::Scope as LimitScope,
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    schedule::Outcome,
    settings::Scope,
    task::{NewTask, Task},
    time::Millis,
};
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;

/// What comes when the calls are used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LifeEnd {
    Death,
    Sleep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LifePhase {
    Awake,
    Until { left: usize, end: LifeEnd },
    Asleep,
    Dead,
}

/// The life of one engine's process.
#[derive(Debug)]
pub(super) struct Life {
    phase: Mutex<LifePhase>,
    fell_asleep: Notify,
    changed: Notify,
}

impl Life {
    pub(super) fn new() -> Arc<Self> {
        let phase = Mutex::new(LifePhase::Awake);
        Arc::new(Self { phase, fell_asleep: Notify::new(), changed: Notify::new() })
    }

    pub(super) fn end_after(&self, left: usize, end: LifeEnd) {
        *self.phase.lock() = LifePhase::Until { left, end };
    }

    pub(super) fn die(&self) {
        self.go_to(LifePhase::Dead);
    }

    pub(super) fn wake(&self) {
        self.go_to(LifePhase::Awake);
    }

    fn go_to(&self, phase: LifePhase) {
        *self.phase.lock() = phase;
        self.changed.notify_waiters();
    }

    pub(super) fn is_dead(&self) -> bool {
        *self.phase.lock() == LifePhase::Dead
    }

    /// Returns when a call has found that it must wait.
    pub(super) async fn fell_asleep(&self) {
        self.fell_asleep.notified().await;
    }

    fn next(&self) -> LifePhase {
        let mut phase = self.phase.lock();
        *phase = match *phase {
            LifePhase::Until { left: 0, end: LifeEnd::Death } => LifePhase::Dead,
            LifePhase::Until { left: 0, end: LifeEnd::Sleep } => LifePhase::Asleep,
            LifePhase::Until { left, end } => LifePhase::Until { left: left - 1, end },
            other => other,
        };
        *phase
    }

    /// `call` is a future that has not begun: what is never polled never happens.
    async fn call<T>(&self, call: impl Future<Output = Result<T, Error>> + Send) -> Result<T, Error> {
        loop {
            let changed = self.changed.notified();
            match self.next() {
                LifePhase::Awake | LifePhase::Until { .. } => return call.await,
                LifePhase::Dead => return Err(Error::did_not_happen("do anything", "the engine is dead")),
                LifePhase::Asleep => {
                    self.fell_asleep.notify_one();
                    changed.await;
                }
            }
        }
    }
}

/// A back end, as far as this life goes.
#[derive(Debug)]
pub(super) struct Mortal<B: ?Sized> {
    pub(super) inner: Arc<B>,
    pub(super) life: Arc<Life>,
}

#[async_trait]
impl SettingStore for Mortal<dyn Store> {
    async fn settings_revision(&self) -> Result<i64, Error> {
        self.life.call(self.inner.settings_revision()).await
    }
    async fn settings(&self) -> Result<Settings, Error> {
        self.life.call(self.inner.settings()).await
    }
    async fn save_setting(&self, save: SaveSetting, now: Millis) -> Result<Saved, Error> {
        self.life.call(self.inner.save_setting(save, now)).await
    }
    async fn setting_changes(
        &self,
        scope: &Scope,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<SettingChange>, Error> {
        self.life.call(self.inner.setting_changes(scope, before, limit)).await
    }
}

#[async_trait]
impl Store for Mortal<dyn Store> {
    async fn insert_each(
        &self,
        tasks: Vec<NewTask>,
        by: &str,
        now: Millis,
    ) -> Result<Vec<Result<Inserted, Error>>, Error> {
        self.life.call(self.inner.insert_each(tasks, by, now)).await
    }
    async fn apply(&self, steps: Vec<Step>, now: Millis) -> Result<Vec<Stepped>, Error> {
        self.life.call(self.inner.apply(steps, now)).await
    }
    async fn dispatch(&self, grants: Vec<Grant>, now: Millis) -> Result<Vec<Dispatched>, Error> {
        self.life.call(self.inner.dispatch(grants, now)).await
    }
    async fn extend(&self, beats: Vec<Beat>, now: Millis) -> Result<Vec<Extended>, Error> {
        self.life.call(self.inner.extend(beats, now)).await
    }
    async fn request_stop(&self, place: TaskRef, now: Millis) -> Result<Applied, Error> {
        self.life.call(self.inner.request_stop(place, now)).await
    }
    async fn scan(&self, scan: Scan) -> Result<Vec<HotEntry>, Error> {
        self.life.call(self.inner.scan(scan)).await
    }
    async fn overdue(&self, look: OverdueLook) -> Result<OverduePage, Error> {
        self.life.call(self.inner.overdue(look)).await
    }
    async fn leases_ended_in(&self, part: usize, now: Millis, limit: usize) -> Result<Vec<Task>, Error> {
        self.life.call(self.inner.leases_ended_in(part, now, limit)).await
    }
    async fn in_flight(
        &self,
        after: Option<LeasePosition>,
        limit: usize,
    ) -> Result<(Vec<Task>, Option<LeasePosition>), Error> {
        self.life.call(self.inner.in_flight(after, limit)).await
    }
    async fn read(&self, places: &[TaskRef]) -> Result<Vec<Option<Task>>, Error> {
        self.life.call(self.inner.read(places)).await
    }
    async fn versions(
        &self,
        namespace: &Name,
        task_id: i64,
        version: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Task>, Error> {
        self.life.call(self.inner.versions(namespace, task_id, version, limit)).await
    }
    async fn latest_versions(&self, namespace: &Name, task_ids: &[i64]) -> Result<Vec<Task>, Error> {
        self.life.call(self.inner.latest_versions(namespace, task_ids)).await
    }
    async fn list(&self, query: &Query) -> Result<Page, Error> {
        self.life.call(self.inner.list(query)).await
    }
    async fn retire_in(
        &self,
        part: usize,
        now: Millis,
        stopped_until: Millis,
        limit: usize,
    ) -> Result<Retired, Error> {
        self.life.call(self.inner.retire_in(part, now, stopped_until, limit)).await
    }
    async fn books(&self) -> Result<Books, Error> {
        self.life.call(self.inner.books()).await
    }
    async fn audit(&self) -> Result<Books, Error> {
        self.life.call(self.inner.audit()).await
    }
    async fn check_writers_in(&self, part: usize) -> Result<(), Error> {
        self.life.call(self.inner.check_writers_in(part)).await
    }
    async fn reserve_reply(
        &self,
        key: &ReplyKey,
        reservation: &Reservation,
        now: Millis,
    ) -> Result<Reserved, Error> {
        self.life.call(self.inner.reserve_reply(key, reservation, now)).await
    }
    async fn release_reply(&self, key: &ReplyKey, owner: &str) -> Result<(), Error> {
        self.life.call(self.inner.release_reply(key, owner)).await
    }
    async fn save_reply(&self, key: &ReplyKey, reply: &Reply) -> Result<(), Error> {
        self.life.call(self.inner.save_reply(key, reply)).await
    }
    async fn load_reply(&self, key: &ReplyKey, now: Millis) -> Result<Option<Reply>, Error> {
        self.life.call(self.inner.load_reply(key, now)).await
    }
    async fn note_executors(&self, signs: Vec<Sign>) -> Result<Vec<(Name, Name, DesiredState)>, Error> {
        self.life.call(self.inner.note_executors(signs)).await
    }
    async fn executors(&self, namespace: &Name, from: &str, limit: usize) -> Result<Vec<Executor>, Error> {
        self.life.call(self.inner.executors(namespace, from, limit)).await
    }
    async fn desired_state_of_executor(
        &self,
        namespace: &Name,
        name: &Name,
        desired: DesiredState,
    ) -> Result<Option<DesiredState>, Error> {
        self.life.call(self.inner.desired_state_of_executor(namespace, name, desired)).await
    }
    async fn sweep_silent(
        &self,
        now: Millis,
        silent_since: Millis,
        left_before: Millis,
    ) -> Result<Roll, Error> {
        self.life.call(self.inner.sweep_silent(now, silent_since, left_before)).await
    }
    fn partitions(&self) -> u16 {
        self.inner.partitions()
    }
    fn parts(&self) -> usize {
        self.inner.parts()
    }
    fn part_of(&self, partition: Partition) -> usize {
        self.inner.part_of(partition)
    }
}

#[async_trait]
impl Hot for Mortal<dyn Hot> {
    fn keeps(&self) -> Keeps {
        self.inner.keeps()
    }
    async fn load(&self, entries: Vec<HotEntry>) -> Result<usize, Error> {
        self.life.call(self.inner.load(entries)).await
    }
    async fn drain(
        &self,
        tenures: &[Tenure],
        until: Millis,
        limit: usize,
    ) -> Vec<Result<Vec<HotEntry>, Error>> {
        let call = async { Ok(self.inner.drain(tenures, until, limit).await) };
        let dead = |error: Error| tenures.iter().map(|_| Err(error.clone())).collect();
        self.life.call(call).await.unwrap_or_else(dead)
    }
    async fn withdraw(&self, partition: Partition, id: i64, fence: i64) -> Result<Withdrawn, Error> {
        self.life.call(self.inner.withdraw(partition, id, fence)).await
    }
    async fn count_due(&self) -> Result<usize, Error> {
        self.life.call(self.inner.count_due()).await
    }
    async fn clear(&self, tenure: Tenure) -> Result<(), Error> {
        self.life.call(self.inner.clear(tenure)).await
    }
    async fn is_whole(&self, tenures: &[Tenure]) -> Result<Vec<Wholeness>, Error> {
        self.life.call(self.inner.is_whole(tenures)).await
    }
    async fn fullness(&self) -> Result<u32, Error> {
        self.life.call(self.inner.fullness()).await
    }
}

#[async_trait]
impl Limiter for Mortal<dyn Limiter> {
    async fn grant(&self, wishes: Vec<Asked>, now: Millis) -> Result<Vec<Verdict>, Error> {
        self.life.call(self.inner.grant(wishes, now)).await
    }
    async fn room(&self, limits: &[Limit], rates: &[Flowing], now: Millis) -> Result<Room, Error> {
        self.life.call(self.inner.room(limits, rates, now)).await
    }
    async fn release(&self, members: &[Member]) -> Result<Vec<Option<Held>>, Error> {
        self.life.call(self.inner.release(members)).await
    }
    async fn retract(&self, granted: &[(Member, Millis)]) -> Result<Vec<Option<Held>>, Error> {
        self.life.call(self.inner.retract(granted)).await
    }
    async fn prolong(&self, members: &[(Member, Millis)]) -> Result<(), Error> {
        self.life.call(self.inner.prolong(members)).await
    }
    async fn restore(&self, held: Vec<Held>) -> Result<(), Error> {
        self.life.call(self.inner.restore(held)).await
    }
    async fn members(&self, until: Millis, skip: usize, limit: usize) -> Result<Vec<Held>, Error> {
        self.life.call(self.inner.members(until, skip, limit)).await
    }
    async fn holders(&self, scope: &LimitScope, limit: usize) -> Result<Holders, Error> {
        self.life.call(self.inner.holders(scope, limit)).await
    }
    async fn held(&self, scopes: &[LimitScope]) -> Result<Vec<usize>, Error> {
        self.life.call(self.inner.held(scopes)).await
    }
    async fn demands(&self, engine: &str, seen: &[Demand], now: Millis) -> Result<Vec<Demand>, Error> {
        self.life.call(self.inner.demands(engine, seen, now)).await
    }
    async fn is_whole(&self) -> Result<bool, Error> {
        self.life.call(self.inner.is_whole()).await
    }
    async fn find(&self, members: &[Member]) -> Result<Vec<Held>, Error> {
        self.life.call(self.inner.find(members)).await
    }
    async fn begin_anew(&self, who: Rebuilding) -> Result<(), Error> {
        self.life.call(self.inner.begin_anew(who)).await
    }
    async fn make_whole(&self, who: Rebuilding) -> Result<bool, Error> {
        self.life.call(self.inner.make_whole(who)).await
    }
}

#[async_trait]
impl Ownership for Mortal<dyn Ownership> {
    async fn beat(&self, engine: &str, ttl: Duration, says: &Says) -> Result<Vec<Live>, Error> {
        self.life.call(self.inner.beat(engine, ttl, says)).await
    }
    async fn acquire(
        &self,
        engine: &str,
        partitions: &[Partition],
        ttl: Duration,
    ) -> Result<Vec<Option<Tenure>>, Error> {
        self.life.call(self.inner.acquire(engine, partitions, ttl)).await
    }
    async fn renew(&self, engine: &str, held: &[Tenure], ttl: Duration) -> Result<Vec<bool>, Error> {
        self.life.call(self.inner.renew(engine, held, ttl)).await
    }
    async fn raise(&self, engine: &str, held: &[Tenure], above: i64) -> Result<Vec<Option<Tenure>>, Error> {
        self.life.call(self.inner.raise(engine, held, above)).await
    }
    async fn release(&self, engine: &str, held: &[Tenure]) -> Result<(), Error> {
        self.life.call(self.inner.release(engine, held)).await
    }
    async fn leave(&self, engine: &str) -> Result<(), Error> {
        self.life.call(self.inner.leave(engine)).await
    }
    async fn now(&self) -> Result<Option<Millis>, Error> {
        self.life.call(self.inner.now()).await
    }
    async fn owners(&self) -> Result<Vec<Owner>, Error> {
        self.life.call(self.inner.owners()).await
    }
}

#[async_trait]
impl Bus for Mortal<dyn Bus> {
    async fn publish(&self, messages: Vec<Assignment>) -> Vec<Result<(), Error>> {
        let count = messages.len();
        let published = self.life.call(async { Ok(self.inner.publish(messages).await) }).await;
        let dead = || Err(Error::did_not_happen("publish a message", "the engine is dead"));
        published.unwrap_or_else(|_| (0..count).map(|_| dead()).collect())
    }
    async fn receive(
        &self,
        queue: &QueueKey,
        limit: usize,
        wait: Duration,
        now: Millis,
    ) -> Result<Vec<Delivery>, Error> {
        self.life.call(self.inner.receive(queue, limit, wait, now)).await
    }
    async fn acknowledge(&self, queue: &QueueKey, ids: &[u64]) -> Result<(), Error> {
        self.life.call(self.inner.acknowledge(queue, ids)).await
    }
    async fn reclaim(&self, queue: &QueueKey, before: Millis) -> Result<usize, Error> {
        self.life.call(self.inner.reclaim(queue, before)).await
    }
}

crate::evaluations::leaves_evaluations_out!(Mortal<dyn ScheduleStore>);

#[async_trait]
impl IdentityStore for Mortal<dyn ScheduleStore> {
    async fn identity_secret(&self, offered: IdentitySecret) -> Result<IdentitySecret, Error> {
        self.life.call(self.inner.identity_secret(offered)).await
    }
}

#[async_trait]
impl ScheduleStore for Mortal<dyn ScheduleStore> {
    async fn schedule(&self, key: &ScheduleKey) -> Result<Option<StoredSchedule>, Error> {
        self.life.call(self.inner.schedule(key)).await
    }
    async fn schedules(
        &self,
        namespace: &Name,
        after: &str,
        limit: usize,
    ) -> Result<Vec<StoredSchedule>, Error> {
        self.life.call(self.inner.schedules(namespace, after, limit)).await
    }
    async fn save_schedule(&self, save: SaveSchedule, now: Millis) -> Result<Option<StoredSchedule>, Error> {
        self.life.call(self.inner.save_schedule(save, now)).await
    }
    async fn remove_schedule(&self, id: i64, step: i64) -> Result<Applied, Error> {
        self.life.call(self.inner.remove_schedule(id, step)).await
    }
    async fn due_schedules(
        &self,
        slots: u32,
        now: Millis,
        limit: usize,
    ) -> Result<Vec<StoredSchedule>, Error> {
        self.life.call(self.inner.due_schedules(slots, now, limit)).await
    }
    async fn next_wake(&self) -> Result<Option<Millis>, Error> {
        self.life.call(self.inner.next_wake()).await
    }
    async fn advance_schedules(&self, all: Vec<Advance>, now: Millis) -> Result<Vec<Applied>, Error> {
        self.life.call(self.inner.advance_schedules(all, now)).await
    }
    async fn record_runs(&self, runs: Vec<RecordRun>) -> Result<(), Error> {
        self.life.call(self.inner.record_runs(runs)).await
    }
    async fn unsettled_runs(
        &self,
        of: Option<OlderDocuments>,
        before: Millis,
        limit: usize,
    ) -> Result<Vec<(StoredSchedule, Run)>, Error> {
        self.life.call(self.inner.unsettled_runs(of, before, limit)).await
    }
    async fn put_off_runs(&self, runs: Vec<RunKey>, now: Millis) -> Result<(), Error> {
        self.life.call(self.inner.put_off_runs(runs, now)).await
    }
    async fn runs(&self, query: &RunQuery) -> Result<Vec<Run>, Error> {
        self.life.call(self.inner.runs(query)).await
    }
    async fn run_tasks(&self, runs: Vec<RunKey>) -> Result<Vec<RunTask>, Error> {
        self.life.call(self.inner.run_tasks(runs)).await
    }
    async fn withdraw_runs(&self, runs: Vec<RunKey>, outcome: Outcome, reason: &str) -> Result<(), Error> {
        self.life.call(self.inner.withdraw_runs(runs, outcome, reason)).await
    }
    async fn forget_runs(&self, created_before: Millis, limit: usize) -> Result<usize, Error> {
        self.life.call(self.inner.forget_runs(created_before, limit)).await
    }
}
