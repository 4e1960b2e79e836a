//! Time that is set back, and machines that stood still, under one engine that is turned by hand on a manual clock. Which
//! time an engine believes is tested in `engine::clock`; what it does with the binary, in the tests of `cli`.

use crate::engine::queue;
use punctual_bus::MemoryBus;
use punctual_contract::{Clock, Store, Trust, clock::Standing, store::Assignment};
use punctual_domain::{name::Name, place::TaskRef, state::State, task::NewTask, time::Millis};
use punctual_engine::{Backends, Engine, LeaseRequest, Options};
use punctual_hot::{MemoryHot, MemoryLimiter};
use punctual_store::SqliteStore;
use punctual_testkit::clock::ManualClock;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

const HOUR_MS: u64 = 3_600_000;
const BEGIN: Millis = Millis(1_000_000_000);

/// A manual clock that also says when time was broken.
#[derive(Clone, Debug)]
struct Breakable {
    clock: ManualClock,
    breaks: Arc<AtomicU64>,
}

impl Clock for Breakable {
    fn now(&self) -> Millis {
        self.clock.now()
    }

    fn until(&self, at: Millis) -> Duration {
        self.clock.until(at)
    }

    fn trust(&self) -> Option<&dyn Trust> {
        Some(self)
    }
}

impl Trust for Breakable {
    fn steady(&self) -> Duration {
        Duration::ZERO
    }

    fn hear(&self, _: Millis, _: Duration) {}

    fn breaks(&self) -> u64 {
        self.breaks.load(SeqCst)
    }

    fn standing(&self) -> Standing {
        Standing { breaks: self.breaks(), ..Standing::default() }
    }
}

struct Rig {
    clock: Breakable,
    store: Arc<dyn Store>,
    engine: Engine,
}

fn rig(options: Options) -> Rig {
    let clock = Breakable { clock: ManualClock::at(BEGIN), breaks: Arc::default() };
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory(&Default::default()).unwrap());
    let backends = Backends {
        store: Arc::clone(&store),
        hot: Arc::new(MemoryHot::new(punctual_hot::Options { partitions: store.partitions() })),
        limiter: Arc::new(MemoryLimiter::default()),
        bus: Arc::new(MemoryBus::default()),
        clock: Arc::new(clock.clone()),
        blobs: None,
        shared: None,
    };
    Rig { clock, store, engine: Engine::new(backends, options) }
}

impl Rig {
    fn task(&self, delay_ms: i64) -> NewTask {
        NewTask::new(queue(), Name::new("k").unwrap(), self.clock.now().plus(delay_ms))
    }

    async fn insert(&self, delay_ms: i64) -> TaskRef {
        self.engine.insert(vec![self.task(delay_ms)], "test").await.unwrap().remove(0).task.place
    }

    async fn lease(&self, lease_ms: i64) -> Vec<Assignment> {
        let (executor, queue) = ("ann".to_owned(), Arc::new(queue()));
        let request = LeaseRequest { queue, max: 10, wait_ms: 0, lease_ms, executor, version: None };
        self.engine.lease(request).await.unwrap()
    }

    async fn state(&self, place: TaskRef) -> State {
        self.engine.read(place).await.unwrap().state
    }

    fn stands_still(&self) {
        self.clock.breaks.fetch_add(1, SeqCst);
    }

    /// The clock was so far ahead for a turn.
    async fn was_ahead(&self, ms: u64) {
        self.clock.clock.advance_ms(ms);
        self.engine.turn().await.unwrap();
        self.clock.clock.go_back(Duration::from_millis(ms));
        self.engine.turn().await.unwrap();
    }
}

#[tokio::test]
async fn when_time_is_set_back_what_others_insert_is_loaded_again_and_fires_in_its_time() {
    let rig = rig(Options::default());
    rig.engine.turn().await.unwrap();
    rig.clock.clock.advance_ms(4 * HOUR_MS);
    rig.engine.turn().await.unwrap();
    // As by another engine whose clock is right: behind the frontier of this one, and not loaded by it.
    let near = NewTask::new(queue(), Name::new("k").unwrap(), BEGIN.plus(5_000));
    rig.store.insert(vec![near], "other", BEGIN).await.unwrap();
    rig.clock.clock.go_back(Duration::from_millis(4 * HOUR_MS));
    rig.engine.turn().await.unwrap();
    rig.engine.turn().await.unwrap();
    rig.clock.clock.advance_ms(4_999);
    rig.engine.turn().await.unwrap();
    assert!(rig.lease(1_000).await.is_empty(), "not before its time");
    rig.clock.clock.advance_ms(1);
    let turn = rig.engine.turn().await.unwrap();
    assert_eq!((turn.fired, turn.swept), (1, 0), "not found only when it is overdue");
    assert_eq!(rig.lease(1_000).await.len(), 1);
}

#[tokio::test]
async fn when_time_is_set_back_a_lease_keeps_what_was_left_of_it() {
    let rig = rig(Options::default());
    rig.engine.turn().await.unwrap();
    rig.clock.clock.advance_ms(HOUR_MS);
    let (begun, not_begun) = (rig.insert(0).await, rig.insert(0).await);
    rig.engine.turn().await.unwrap();
    assert_eq!(rig.lease(10_000).await.len(), 2);
    rig.clock.clock.advance_ms(4_000);
    rig.engine.turn().await.unwrap();
    rig.clock.clock.go_back(Duration::from_millis(HOUR_MS + 4_000));
    rig.engine.turn().await.unwrap();
    for place in [begun, not_begun] {
        let task = rig.engine.read(place).await.unwrap();
        assert_eq!((task.state, task.lease.unwrap().until), (State::Dispatched, rig.clock.now().plus(6_000)));
    }
    rig.clock.clock.advance_ms(5_999);
    assert_eq!(rig.engine.turn().await.unwrap().leases_ended, 0);
    rig.clock.clock.advance_ms(1);
    assert_eq!(rig.engine.turn().await.unwrap().leases_ended, 2);
    assert_eq!(rig.state(begun).await, State::Retrying);
}

#[tokio::test]
async fn what_was_inserted_before_a_clock_that_was_ahead_is_right_again_fires_in_its_time() {
    let rig = rig(Options::default());
    let place = rig.insert(8 * 3_600_000).await;
    rig.was_ahead(4 * HOUR_MS).await;
    rig.clock.clock.advance_ms(8 * HOUR_MS - 1);
    rig.engine.turn().await.unwrap();
    assert!(rig.lease(1_000).await.is_empty());
    rig.clock.clock.advance_ms(1);
    assert_eq!(rig.engine.turn().await.unwrap().fired, 1);
    assert_eq!(rig.lease(1_000).await.remove(0).place, place);
}

/// Leased ahead of its instant, and then `between`.
async fn leased_ahead(between: impl Fn(&Rig)) -> (Rig, TaskRef, Vec<Assignment>) {
    let rig = rig(Options { ahead_room_min: 1, ..Options::default() });
    rig.engine.turn().await.unwrap();
    let place = rig.insert(90).await;
    rig.engine.turn().await.unwrap();
    assert_eq!(rig.state(place).await, State::Dispatched, "leased ahead");
    between(&rig);
    rig.clock.clock.advance_ms(90);
    rig.engine.turn().await.unwrap();
    let leased = rig.lease(1_000).await;
    (rig, place, leased)
}

#[tokio::test]
async fn what_was_leased_before_a_suspend_is_given_back_instead_of_handed_over() {
    let (rig, place, leased) = leased_ahead(|_| ()).await;
    let gone_through = |task: &punctual_domain::task::Task| {
        task.history.iter().any(|it| it.reason.as_deref() == Some("too_late_for_its_lease"))
    };
    assert_eq!(leased.len(), 1);
    assert!(!gone_through(&rig.engine.read(place).await.unwrap()));
    let (rig, place, leased) = leased_ahead(Rig::stands_still).await;
    let task = rig.engine.read(place).await.unwrap();
    assert!(gone_through(&task), "{task:?}");
    assert_eq!(leased.iter().map(|it| (it.place, it.attempt)).collect::<Vec<_>>(), [(place, 1)]);
}
