//! What a process keeps in its own memory is bounded (D7, N10): tasks that do not fit wait in the store and fire on time, and
//! names of queues that no caller uses any more are forgotten.

use crate::engine::queue;
use punctual_bus::MemoryBus;
use punctual_contract::{Hot, Store, store::Assignment};
use punctual_domain::{
    name::{Name, QueueKey},
    outcome::Report,
    settings::{Mode, QueueSettings},
    task::{NewTask, TaskResult},
    time::Millis,
};
use punctual_engine::{Backends, Engine, LeaseRequest, Options, OutcomeReport};
use punctual_hot::{MemoryLimiter, NoHot};
use punctual_store::SqliteStore;
use punctual_testkit::{
    clock::ManualClock,
    shared::{ENTRY_BYTES, SharedHot},
};
use std::sync::Arc;

const START: Millis = Millis(1_767_225_600_000);
const MINUTE_MS: i64 = 60_000;

struct RoomRig {
    clock: ManualClock,
    engine: Engine,
}

impl RoomRig {
    /// Embedded.
    fn new() -> Self {
        Self::with(Options::default())
    }

    fn with(options: Options) -> Self {
        Self::over(Arc::new(NoHot), options)
    }

    fn over(hot: Arc<dyn Hot>, options: Options) -> Self {
        let clock = ManualClock::at(START);
        let backends = Backends {
            store: Arc::new(SqliteStore::in_memory(&Default::default()).unwrap()),
            hot,
            limiter: Arc::new(MemoryLimiter::default()),
            bus: Arc::new(MemoryBus::default()),
            clock: Arc::new(clock.clone()),
            blobs: None,
            shared: None,
        };
        Self { clock, engine: Engine::new(backends, options) }
    }

    /// In memory, before its instant.
    async fn due(&self) -> usize {
        self.engine.depth().await.unwrap().due
    }

    async fn lease(&self, queue: &QueueKey) -> Vec<Assignment> {
        let (queue, executor) = (Arc::new(queue.clone()), "test".to_owned());
        let request =
            LeaseRequest { queue, max: 1_000, wait_ms: 0, lease_ms: 600_000, executor, version: None };
        self.engine.lease(request).await.unwrap()
    }

    async fn succeed(&self, leased: &[Assignment]) {
        let succeeded = |lease: &Assignment| OutcomeReport {
            place: lease.place,
            fence: lease.fence,
            report: Report::Succeeded,
            result: TaskResult::default(),
        };
        self.engine.record_outcomes(leased.iter().map(succeeded).collect(), "test").await.unwrap();
    }
}

fn task(queue: &QueueKey, at: Millis) -> NewTask {
    NewTask::new(queue.clone(), Name::new("k").unwrap(), at)
}

const TASKS: i64 = 10_000;
const STEP_MS: i64 = 20_000;

#[tokio::test]
async fn what_does_not_fit_into_a_hot_set_waits_in_the_store_and_is_on_time() {
    const ROOM: usize = 2_000;
    /// Partitions are preloaded three at a time, and how full it is is looked at after each page of a thousand.
    const PAGES: usize = 3_000;
    let partitions = SqliteStore::in_memory(&Default::default()).unwrap().partitions();
    let hot = SharedHot::new(partitions).with_memory_max(ENTRY_BYTES * u64::try_from(ROOM).unwrap());
    let most = all_are_on_time(RoomRig::over(Arc::new(hot), Options::default()), ROOM + PAGES).await;
    assert!((ROOM / 2..=ROOM).contains(&most), "{most} in memory");
}

/// Whatever is inserted: an embedded engine reads a few seconds ahead.
#[tokio::test]
async fn only_what_is_due_within_seconds_is_in_the_memory_of_an_embedded_engine() {
    // Of ten seconds, and a few that have the same instant.
    let near = usize::try_from(TASKS * 10_000 / (40 * MINUTE_MS)).unwrap() + 20;
    assert_eq!(all_are_on_time(RoomRig::new(), near).await, 0, "none of it was near");
}

/// Tasks over 40 minutes, of which no more than `due_max` are in memory ahead of their instants. How many were after the inserts.
async fn all_are_on_time(rig: RoomRig, due_max: usize) -> usize {
    rig.engine.run_once().await.unwrap();
    let mut most = 0;
    for batch in 0..20 {
        // Spread over 40 minutes, all within the horizon of an hour, and each batch over all of them.
        let at = |nth: i64| START.plus(5 * MINUTE_MS + (nth * 20 + batch) * 40 * MINUTE_MS / TASKS);
        let tasks = (0..TASKS / 20).map(|nth| task(&queue(), at(nth))).collect();
        rig.engine.insert(tasks, "test").await.unwrap();
        most = most.max(rig.due().await);
    }
    let (mut came, mut latest_ms) = (0, 0);
    for _ in 0..46 * MINUTE_MS / STEP_MS {
        rig.clock.advance_ms(u64::try_from(STEP_MS).unwrap());
        rig.engine.run_once().await.unwrap();
        let due = rig.due().await;
        assert!(due <= due_max, "{due}: what was left in the store came too early");
        let leased = rig.lease(&queue()).await;
        latest_ms = leased.iter().map(|lease| lease.fired_at.since(lease.due_at)).fold(latest_ms, i64::max);
        came += leased.len();
        rig.succeed(&leased).await;
    }
    assert_eq!(came, usize::try_from(TASKS).unwrap());
    assert!(latest_ms < STEP_MS, "{latest_ms} ms late, where the clock moves {STEP_MS} ms at a time");
    most
}

/// An older build has set the queue to push, without a reachable bus: its tasks wait for executors that pull.
#[tokio::test]
async fn a_queue_that_cannot_be_pushed_is_pulled_whatever_is_set() {
    let rig = RoomRig::with(Options { can_push: false, ..Options::default() });
    let push = QueueSettings { mode: Some(Mode::Push), ..QueueSettings::default() };
    rig.engine.put_queue(queue(), push, None, "test", |_| true).await.unwrap();
    rig.engine.insert(vec![task(&queue(), START)], "test").await.unwrap();
    rig.engine.run_once().await.unwrap();
    rig.engine.run_once().await.unwrap();
    let leased = rig.lease(&queue()).await;
    assert_eq!(leased.iter().map(|lease| lease.attempt).collect::<Vec<_>>(), [1]);
}

#[tokio::test]
async fn names_of_queues_that_nobody_uses_any_more_are_forgotten() {
    const QUEUES: usize = 200;
    let rig = RoomRig::new();
    rig.engine.run_once().await.unwrap();
    let name = |nth: usize| QueueKey { queue: Name::new(&format!("customer-{nth}")).unwrap(), ..queue() };
    for nth in 0..QUEUES {
        rig.engine.insert(vec![task(&name(nth), rig.engine.now())], "test").await.unwrap();
    }
    rig.engine.run_once().await.unwrap();
    for nth in 0..QUEUES {
        let leased = rig.lease(&name(nth)).await;
        assert_eq!(leased.len(), 1, "{nth}");
        rig.succeed(&leased).await;
    }
    let used = rig.engine.queues_held();
    assert!(used >= QUEUES, "{used}");
    for _ in 0..26 {
        rig.clock.advance_ms(3_600_000);
        rig.engine.insert(vec![task(&name(0), rig.engine.now())], "test").await.unwrap();
        rig.engine.run_once().await.unwrap();
        rig.succeed(&rig.lease(&name(0)).await).await;
    }
    let held = rig.engine.queues_held();
    assert!((1..10).contains(&held), "{held} of {used}: the one that is used, and no other");
}
