//! Firing from the store, a run at a time, by an engine that is turned by hand: what a hot set that hangs, and a backlog that takes
//! several runs, must not keep from firing.

use punctual_bus::MemoryBus;
use punctual_domain::{
    name::{Name, QueueKey},
    task::NewTask,
    time::Millis,
};
use punctual_engine::{Backends, Engine, LeaseRequest, Options, Shared};
use punctual_hot::MemoryLimiter;
use punctual_store::{SqliteStore, sqlite};
use punctual_testkit::{
    clock::ManualClock,
    faults::{Dials, FaultyHot, HotGroup},
    patience::until,
    shared::{MemoryOwnership, SharedHot, SignalHub},
};
use std::sync::Arc;
use tokio::task::JoinSet;

/// More than one run looks at in a partition.
const BACKLOG: i64 = 10_500;
const BATCH: i64 = 500;

struct Rig {
    engine: Engine,
    hot: Arc<FaultyHot>,
    clock: ManualClock,
}

impl Rig {
    /// One partition, and a hot set that refuses everything.
    async fn away() -> Self {
        let options = sqlite::Options { partitions: 1, ..sqlite::Options::default() };
        let hot = SharedHot::new(1);
        let hot = Arc::new(FaultyHot::new(Arc::new(hot), 1));
        let clock = ManualClock::at(Millis(1_700_000_000_000));
        let ownership = Arc::new(MemoryOwnership::new(Arc::new(clock.clone())));
        let signals = SignalHub::default().join();
        let backends = Backends {
            store: Arc::new(SqliteStore::in_memory(&options).unwrap()),
            hot: hot.clone(),
            limiter: Arc::new(MemoryLimiter::default()),
            bus: Arc::new(MemoryBus::default()),
            clock: Arc::new(clock.clone()),
            blobs: None,
            shared: Some(Shared { ownership, signals, stored_limiter: None }),
        };
        let rig = Self { engine: Engine::new(backends, Options::default()), hot, clock };
        until("it owns its partition", || async {
            drop(rig.engine.turn().await);
            rig.engine.owned() > 0
        })
        .await;
        rig.hot.faults.set_all(Dials::REFUSES);
        rig.turn().await;
        assert!(rig.engine.hot_is_away());
        rig
    }

    /// What needs the hot set fails at the end of it.
    async fn turn(&self) {
        drop(self.engine.turn().await);
    }

    fn fired(&self) -> u64 {
        self.engine.meters().fired_from_store_total()
    }

    /// Due after so many milliseconds, each a millisecond after the one before. Only the store knows of them.
    async fn insert(&self, queue: &QueueKey, count: i64, after_ms: i64) {
        let now = self.engine.now();
        let task = |nth| NewTask::new(queue.clone(), Name::new("k").unwrap(), now.plus(after_ms + nth));
        let tasks = (0..count).map(task).collect();
        self.engine.store().insert(tasks, "test", now).await.unwrap();
    }
}

fn queue(name: &str) -> QueueKey {
    QueueKey { namespace: Name::default_namespace(), queue: Name::new(name).unwrap() }
}

#[tokio::test]
async fn a_backlog_that_takes_several_runs_keeps_no_new_task_waiting() {
    let rig = Rig::away().await;
    for batch in 0..BACKLOG / BATCH {
        rig.insert(&queue("slow"), BATCH, batch * BATCH).await;
    }
    rig.clock.advance_ms(60_000);
    let backlog = u64::try_from(BACKLOG).unwrap();
    until("all of it has fired", || async {
        rig.turn().await;
        rig.fired() == backlog
    })
    .await;
    // Another pass begins with the next run, and ends with the one after it.
    rig.insert(&queue("quick"), 1, 1).await;
    rig.clock.advance_ms(1);
    rig.turn().await;
    assert_eq!(rig.fired(), backlog + 1, "it has fired in the first run");
    let request = LeaseRequest {
        queue: Arc::new(queue("quick")),
        max: 1,
        wait_ms: 0,
        lease_ms: 30_000,
        executor: "test".to_owned(),
        version: None,
    };
    assert_eq!(rig.engine.lease(request).await.unwrap().len(), 1);
}

/// Time goes on only while everything waits: whether the look has ended by then is no matter of speed.
#[tokio::test(start_paused = true)]
async fn a_hot_set_that_hangs_keeps_no_task_from_firing() {
    let rig = Rig::away().await;
    rig.insert(&queue("q"), 1, 0).await;
    let gate = rig.hot.faults.hold(HotGroup::Look);
    let engine = rig.engine.clone();
    let mut turn = JoinSet::new();
    turn.spawn(async move { drop(engine.turn().await) });
    gate.reached().await;
    until("it fires", || async { rig.fired() == 1 }).await;
    assert!(turn.try_join_next().is_none() && gate.came() == 0, "the first look is still waited for");
    gate.open();
    turn.join_all().await;
}
