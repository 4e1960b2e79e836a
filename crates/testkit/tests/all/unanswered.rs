//! The hot set executes a request, and its answer is lost: its tasks are handed over immediately, not when a
//! look at overdue tasks finds them after seconds. The clock does not move here, so that nothing can result
//! from waiting. In memory, and on MySQL and Redis.

use crate::crash_points::{Embedded, Ground, OnServers, Stand, queue, succeeded};
use punctual_contract::store::Assignment;
use punctual_domain::{name::Name, task::NewTask, time::Millis};
use punctual_engine::{Backends, Engine, LeaseRequest, Options, Reported};
use punctual_testkit::{
    clock::ManualClock,
    faults::{Dials, FaultyHot, HotGroup},
    patience::until,
};
use std::{sync::Arc, time::SystemTime};
use tokio::task::JoinSet;

struct UnansweredRig {
    engine: Engine,
    hot: Arc<FaultyHot>,
    clock: ManualClock,
}

impl UnansweredRig {
    async fn new(ground: &dyn Ground) -> Self {
        let Stand { store, hot, limiter, bus, shared } = ground.stand().await;
        // MySQL compares leases of partitions by its own clock, which continues.
        let clock = ManualClock::at(wall_now());
        let hot = Arc::new(FaultyHot::new(hot, 1));
        let (blobs, clocks) = (None, Arc::new(clock.clone()));
        let backends = Backends { store, hot: hot.clone(), limiter, bus, clock: clocks, blobs, shared };
        let engine = Engine::new(backends, Options::default());
        until("it has its partitions", || async {
            let _ = engine.run_once().await;
            engine.owned() > 0
        })
        .await;
        Self { engine, hot, clock }
    }

    /// In the hot set, and due half a second from now.
    async fn loaded(&self, count: usize) -> Millis {
        let at = self.engine.now().plus(15_000);
        let tasks = (0..count).map(|_| NewTask::new(queue(), Name::new("k").unwrap(), at)).collect();
        self.engine.insert(tasks, "test").await.unwrap();
        assert_eq!(self.engine.on_wheel(), 0, "they are not near");
        self.clock.set(at.plus(-500));
        at
    }

    /// The same, drained.
    async fn drained(&self, count: usize) -> Millis {
        let at = self.loaded(count).await;
        self.engine.run_once().await.unwrap();
        assert_eq!(self.engine.on_wheel(), count);
        at
    }

    async fn leased(&self, max: usize) -> Vec<Assignment> {
        self.engine.lease(request(max, 0)).await.unwrap()
    }

    async fn all_end_well(&self, leased: Vec<Assignment>) {
        let recorded =
            self.engine.record_outcomes(leased.iter().map(succeeded).collect(), "test").await.unwrap();
        assert!(recorded.iter().all(|recorded| *recorded == Reported::Accepted), "{recorded:?}");
        assert!(leased.iter().all(|lease| lease.attempt == 1), "{leased:?}");
        // No caller waits for what was handed over to leave a hot set that is a server.
        until("nothing is left", || async {
            self.engine.run_once().await.unwrap();
            let depth = self.engine.depth().await.unwrap();
            (depth.due, depth.fired) == (0, 0)
        })
        .await;
    }
}

fn request(max: usize, wait_ms: u64) -> LeaseRequest {
    let (queue, executor) = (Arc::new(queue()), "test".to_owned());
    LeaseRequest { queue, max, wait_ms, lease_ms: 30_000, executor, version: None }
}

#[expect(clippy::disallowed_methods, reason = "where the clock of this test begins")]
fn wall_now() -> Millis {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Millis(i64::try_from(since.as_millis()).unwrap())
}

async fn what_was_drained_without_an_answer_fires_at_its_instant(ground: Arc<dyn Ground>) {
    let rig = UnansweredRig::new(&*ground).await;
    let at = rig.loaded(40).await;
    rig.hot.faults.set(HotGroup::Drain, Dials::ANSWERS_LOST);
    assert!(rig.engine.run_once().await.is_err(), "the answers were lost");
    let depth = rig.engine.depth().await.unwrap();
    assert_eq!((depth.due, depth.fired), (0, 0), "and all has been carried out: {depth:?}");
    rig.hot.faults.set(HotGroup::Drain, Dials::SOUND);
    rig.engine.run_once().await.unwrap();
    assert_eq!(rig.engine.on_wheel(), 40, "read from the store");
    assert!(rig.leased(100).await.is_empty(), "never early");
    rig.clock.set(at);
    rig.engine.run_once().await.unwrap();
    let leased = rig.leased(100).await;
    assert_eq!(leased.len(), 40);
    assert!(leased.iter().all(|lease| lease.fired_at == at));
    assert!(rig.leased(100).await.is_empty(), "each once");
    rig.all_end_well(leased).await;
}

async fn what_was_leased_ahead_fires_whatever_the_hot_set_does(ground: Arc<dyn Ground>) {
    let rig = UnansweredRig::new(&*ground).await;
    let mut executor = JoinSet::new();
    let engine = rig.engine.clone();
    executor.spawn(async move { engine.lease(request(10, 20_000)).await });
    until("it waits", || async { rig.engine.waiting(&queue()) == 1 }).await;
    let at = rig.drained(1).await;
    rig.clock.set(at.plus(-50));
    rig.engine.run_once().await.unwrap();
    rig.clock.set(at);
    rig.hot.faults.set_all(Dials::SILENT);
    // It ends with an error, and fires before that.
    let _ = rig.engine.run_once().await;
    let leased = executor.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(leased.len(), 1);
    rig.hot.faults.set_all(Dials::SOUND);
    rig.all_end_well(leased).await;
}

async fn one_look_that_fails_is_not_a_hot_set_that_is_away(ground: Arc<dyn Ground>) {
    let rig = UnansweredRig::new(&*ground).await;
    rig.hot.faults.set_once(HotGroup::Look, Dials::SILENT);
    let _ = rig.engine.run_once().await;
    assert!(!rig.engine.hot_is_away(), "it was asked once more");
    rig.hot.faults.set(HotGroup::Look, Dials::SILENT);
    let _ = rig.engine.run_once().await;
    assert!(rig.engine.hot_is_away());
}

macro_rules! on_both {
    ($($case:ident)*) => {$(
        mod $case {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn in_memory() {
                super::$case(super::Embedded::with_due_in_hot_set().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_mysql_and_redis() {
                super::$case(super::OnServers::ground().await).await;
            }
        }
    )*};
}

on_both! {
    what_was_drained_without_an_answer_fires_at_its_instant
    what_was_leased_ahead_fires_whatever_the_hot_set_does
    one_look_that_fails_is_not_a_hot_set_that_is_away
}
