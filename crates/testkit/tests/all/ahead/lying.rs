//! Tasks that fire while all executors are busy, and wait in the line of their queue until an executor
//! returns.

use super::*;
use punctual_contract::{Hot as _, hot::Keeps};
use punctual_domain::place::TaskRef;
use punctual_engine::{Engine, ServiceNumbers};
use punctual_testkit::faults::Gate;
use std::collections::{BTreeMap, BTreeSet};

fn of_service(engine: &Engine, name: &str, number: impl FnOnce(&ServiceNumbers) -> u64) -> u64 {
    number(engine.meters().services().iter().find(|service| service.name == name).unwrap())
}

/// An executor that holds `first`, which the store has not released yet.
struct Busy {
    rig: CrashPointsRig,
    running: Running,
    executor: Executor,
    first: TaskRef,
    gate: Arc<Gate>,
}

impl Busy {
    async fn on(ground: &dyn Ground) -> Self {
        let rig = rig(ground, false).await;
        let running = rig.engine.start().unwrap();
        warm_up(&rig).await;
        let partitions = u64::from(rig.store.partitions());
        let are_looked_through = || async {
            match rig.hot.keeps() {
                Keeps::Due => of_service(&rig.engine, "adopt", |numbers| numbers.handled) >= partitions,
                Keeps::Nothing => of_service(&rig.engine, "from_store", |numbers| numbers.runs) > 0,
            }
        };
        until("nothing of another engine is there", are_looked_through).await;
        assert_eq!(rig.engine.lease(request(0)).await.unwrap(), []);
        let executor = waits(&rig, WAIT_MS);
        let gate = rig.store.faults.hold(StoreGroup::Dispatch);
        let first = rig.insert(0).await;
        gate.reached().await;
        Self { rig, running, executor, first, gate }
    }

    async fn fired(&self, count: usize) {
        until("they have fired", || async { self.rig.engine.depth().await.unwrap().fired == count }).await;
    }

    /// A task has fired a moment before it is ready.
    async fn ready(&self) -> usize {
        self.rig.engine.depth().await.unwrap().ready.iter().map(|(_, count)| count).sum()
    }

    fn task(&self) -> NewTask {
        NewTask::new(queue(), Name::new("k").unwrap(), self.rig.engine.now())
    }

    /// The next tasks, in their order, as one executor receives them.
    async fn next(&self, count: usize) -> Vec<Assignment> {
        let mut next = Vec::new();
        while next.len() < count {
            let its = timeout(HANG_LIMIT, self.rig.engine.lease(request(WAIT_MS))).await.unwrap().unwrap();
            assert!(!its.is_empty(), "{} of {count}", next.len());
            next.extend(its);
        }
        next
    }

    /// Takes what there is until it is so many, each once.
    async fn all(&mut self, engine: &Engine, count: usize) -> BTreeMap<i64, Assignment> {
        let mut all = BTreeMap::new();
        let mut add = |its: Vec<Assignment>| {
            for lease in its {
                assert_eq!(lease.attempt, 1, "{lease:?}");
                assert!(all.insert(lease.place.id, lease).is_none(), "it came twice");
            }
            all.len()
        };
        let mut come = add(self.executor.join_next().await.unwrap().unwrap());
        while come < count {
            let its = timeout(HANG_LIMIT, engine.lease(request(WAIT_MS))).await.unwrap().unwrap();
            assert!(!its.is_empty(), "{come} of {count}");
            come = add(its);
        }
        assert_eq!(engine.lease(request(50)).await.unwrap(), []);
        all
    }

    async fn end(self, all: BTreeMap<i64, Assignment>) {
        let outcomes = all.values().map(succeeded).collect();
        let recorded = self.rig.engine.record_outcomes(outcomes, "ann").await.unwrap();
        assert!(recorded.iter().all(|recorded| *recorded == Reported::Accepted), "{recorded:?}");
        self.running.stop().await;
        self.rig.is_whole().await;
    }
}

/// The sweep over overdue tasks does not take a waiting task, or one that is being handed over, for lost.
async fn it_is_left_alone_however_long_it_waits(ground: Arc<dyn Ground>) {
    let mut busy = Busy::on(&*ground).await;
    let second = busy.rig.insert(0).await;
    busy.fired(2).await;
    let (fired_at, engine) = (busy.rig.engine.now(), busy.rig.engine.clone());
    let runs = |service| of_service(&engine, service, |service| service.runs);
    let is_long_ago = || async { engine.now() > fired_at.plus(3_500) };
    until("it fired long ago", is_long_ago).await;
    let looks = runs("refill");
    // One may have begun before.
    until("what is lost would have been found", || async { runs("refill") > looks + 1 }).await;
    assert_eq!((engine.meters().swept_total(), engine.depth().await.unwrap().fired), (0, 2));
    busy.gate.open();
    let mut all = busy.executor.join_next().await.unwrap().unwrap();
    all.extend(busy.next(1).await);
    assert_eq!(all.iter().map(|lease| lease.place).collect::<Vec<_>>(), [busy.first, second]);
    busy.end(all.into_iter().map(|lease| (lease.place.id, lease)).collect()).await;
}

async fn it_stays_while_its_queue_is_paused(ground: Arc<dyn Ground>) {
    let mut busy = Busy::on(&*ground).await;
    busy.rig.insert(0).await;
    busy.fired(2).await;
    busy.rig.engine.pause(queue(), None, "ann").await.unwrap();
    busy.gate.open();
    assert_eq!(busy.rig.engine.lease(request(200)).await.unwrap(), []);
    busy.rig.engine.resume(queue(), "ann").await.unwrap();
    let engine = busy.rig.engine.clone();
    let all = busy.all(&engine, 2).await;
    busy.end(all).await;
}

async fn a_stopping_engine_leaves_it_to_the_next(ground: Arc<dyn Ground>) {
    let mut busy = Busy::on(&*ground).await;
    let second = busy.rig.insert(0).await;
    busy.fired(2).await;
    busy.gate.open();
    let (next, first) = (rig(&*ground, false).await, busy.first);
    std::mem::replace(&mut busy.running, next.engine.start().unwrap()).stop().await;
    let all = busy.all(&next.engine, 2).await;
    assert_eq!(all.keys().copied().collect::<Vec<_>>(), [first.id, second.id]);
    busy.rig = next;
    busy.end(all).await;
}

async fn what_its_executor_does_not_take_comes_to_who_asks_later(ground: Arc<dyn Ground>) {
    let mut busy = Busy::on(&*ground).await;
    for _ in 0..30 {
        busy.rig.insert(0).await;
    }
    busy.fired(31).await;
    busy.gate.open();
    let engine = busy.rig.engine.clone();
    let all = busy.all(&engine, 31).await;
    busy.end(all).await;
}

async fn of_two_versions_the_newer_comes_first(ground: Arc<dyn Ground>) {
    let mut busy = Busy::on(&*ground).await;
    for task_version in [1, 2] {
        let task = NewTask { task_id: Some(7), task_version, ..busy.task() };
        busy.rig.engine.insert(vec![task], "test").await.unwrap();
    }
    until("both are ready", || async { busy.ready().await >= 2 }).await;
    busy.gate.open();
    let mut all = busy.executor.join_next().await.unwrap().unwrap();
    while all.len() < 3 {
        all.extend(timeout(HANG_LIMIT, busy.rig.engine.lease(request(WAIT_MS))).await.unwrap().unwrap());
    }
    assert_eq!(all.iter().map(|lease| lease.task_version).collect::<Vec<_>>(), [0, 2, 1]);
    busy.end(all.into_iter().map(|lease| (lease.place.id, lease)).collect()).await;
}

/// A task that waits at the engine that fired it is still given to an idle executor of another engine.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_executor_at_another_engine_gets_it() {
    let ground = OnServers::ground_of(16).await;
    let busy = Busy::on(&*ground).await;
    let other = rig(&*ground, false).await;
    let running = other.engine.start().unwrap();
    let is_shared = || busy.rig.engine.owned() > 0 && other.engine.owned() > 0;
    until("both own partitions", || async { is_shared() }).await;
    let mut wanted = BTreeSet::new();
    for _ in 0..16 {
        wanted.insert(busy.rig.insert(0).await.id);
    }
    let mut came = BTreeSet::new();
    while !came.is_superset(&wanted) {
        let its = timeout(HANG_LIMIT, other.engine.lease(request(WAIT_MS))).await.unwrap().unwrap();
        assert!(!its.is_empty(), "{came:?} of {wanted:?}");
        assert!(its.iter().all(|lease| came.insert(lease.place.id)), "one came twice: {its:?}");
    }
    // Whose partition has changed hands is offered again.
    came.remove(&busy.first.id);
    assert_eq!(came, wanted);
    busy.gate.open();
    running.stop().await;
    busy.running.stop().await;
}

macro_rules! on {
    ($ground:ident, $at:expr; $($case:ident)*) => {
        mod $ground {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case($at.await).await;
            })*
        }
    };
}

macro_rules! on_each_ground {
    ($($cases:tt)*) => {
        on! { embedded, Embedded::ground(); $($cases)* }
        on! { with_a_stand_in, Embedded::with_due_in_hot_set(); $($cases)* }
        on! { on_servers, OnServers::ground(); $($cases)* }
    };
}

on_each_ground! {
    of_two_versions_the_newer_comes_first
    it_stays_while_its_queue_is_paused
    a_stopping_engine_leaves_it_to_the_next
    what_its_executor_does_not_take_comes_to_who_asks_later
    it_is_left_alone_however_long_it_waits
    all_come_in_their_order
}

/// The entries of the engine's table have one order, which includes versions of tasks.
async fn all_come_in_their_order(ground: Arc<dyn Ground>) {
    let mut busy = Busy::on(&*ground).await;
    let second = busy.rig.insert(0).await;
    busy.fired(2).await;
    let third = NewTask { task_id: Some(7), task_version: 1, ..busy.task() };
    let third = busy.rig.engine.insert(vec![third], "test").await.unwrap().remove(0).task.place;
    busy.fired(3).await;
    until("a later instant", || async { busy.rig.engine.now() > third.due_at }).await;
    let fourth = busy.rig.insert(0).await;
    busy.fired(4).await;
    until("all but the first are ready", || async { busy.ready().await == 3 }).await;
    busy.gate.open();
    let mut all = busy.executor.join_next().await.unwrap().unwrap();
    all.extend(busy.next(3).await);
    let came: Vec<TaskRef> = all.iter().map(|lease| lease.place).collect();
    assert_eq!(came, [busy.first, second, third, fourth]);
    busy.end(all.into_iter().map(|lease| (lease.place.id, lease)).collect()).await;
}
