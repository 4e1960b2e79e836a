//! Time that is set back, and machines that were suspended, under one engine that the test steps on a manual
//! clock. Which time an engine believes is tested in `engine::clock`; the binary's behaviour is tested in
//! `cli`.

use crate::engine::queue;
use punctual_bus::MemoryBus;
use punctual_contract::{Clock, Store, Trust, clock::ClockStatus, store::Assignment};
use punctual_domain::{
    name::Name,
    outcome::Report,
    place::TaskRef,
    state::{Event, State},
    task::{NewTask, Task, TaskResult},
    time::Millis,
};
use punctual_engine::{Backends, Engine, LeaseRequest, Options, OutcomeReport, Reported};
use punctual_hot::{MemoryLimiter, NoHot};
use punctual_store::SqliteStore;
use punctual_testkit::{
    clock::ManualClock,
    patience::{HANG_LIMIT, until},
};
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    task::Poll,
    time::Duration,
};
use tokio::time::timeout;

const HOUR_MS: u64 = 3_600_000;
/// Of a call that waits: longer than a test does.
const WAIT_MS: u64 = 2_000 * HANG_LIMIT.as_secs();
const BEGIN: Millis = Millis(1_000_000_000);

/// A manual clock that also says when time was broken.
#[derive(Clone, Debug)]
struct Breakable {
    clock: ManualClock,
    discontinuities: Arc<AtomicU64>,
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

    fn observe(&self, _: Millis, _: Duration) {}

    fn discontinuities(&self) -> u64 {
        self.discontinuities.load(SeqCst)
    }

    fn status(&self) -> ClockStatus {
        ClockStatus { discontinuities: self.discontinuities(), ..ClockStatus::default() }
    }
}

/// Of an executor.
type Call = Pin<Box<dyn Future<Output = Vec<Assignment>>>>;

/// It has no answer yet, and continues as far as it can.
async fn poll_once(call: &mut Call) {
    let polled = std::future::poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
    assert!(polled.is_pending(), "{polled:?}");
    tokio::task::yield_now().await;
}

/// Before the time is over for which it waits.
async fn answer(call: Call) -> Vec<Assignment> {
    timeout(HANG_LIMIT, call).await.expect("it is answered")
}

fn request(wait_ms: u64, lease_ms: i64) -> LeaseRequest {
    let executor = "ann".to_owned();
    LeaseRequest { queue: Arc::new(queue()), max: 10, wait_ms, lease_ms, executor, version: None }
}

struct ClocksRig {
    clock: Breakable,
    store: Arc<dyn Store>,
    engine: Engine,
}

fn rig(options: Options) -> ClocksRig {
    let clock = Breakable { clock: ManualClock::at(BEGIN), discontinuities: Arc::default() };
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory(&Default::default()).unwrap());
    let backends = Backends {
        store: Arc::clone(&store),
        hot: Arc::new(NoHot),
        limiter: Arc::new(MemoryLimiter::default()),
        bus: Arc::new(MemoryBus::default()),
        clock: Arc::new(clock.clone()),
        blobs: None,
        shared: None,
    };
    ClocksRig { clock, store, engine: Engine::new(backends, options) }
}

impl ClocksRig {
    fn task(&self, delay_ms: i64) -> NewTask {
        NewTask::new(queue(), Name::new("k").unwrap(), self.clock.now().plus(delay_ms))
    }

    async fn insert(&self, delay_ms: i64) -> TaskRef {
        self.engine.insert(vec![self.task(delay_ms)], "test").await.unwrap().remove(0).task.place
    }

    async fn lease(&self, lease_ms: i64) -> Vec<Assignment> {
        self.engine.lease(request(0, lease_ms)).await.unwrap()
    }

    /// A call that waits for a task. On one thread: it continues only where it is polled.
    async fn waits(&self) -> Call {
        self.engine.run_once().await.unwrap();
        let engine = self.engine.clone();
        let mut call: Call = Box::pin(async move { engine.lease(request(WAIT_MS, 1_000)).await.unwrap() });
        for _ in 0..100 {
            poll_once(&mut call).await;
        }
        call
    }

    async fn state(&self, place: TaskRef) -> State {
        self.engine.read(place).await.unwrap().state
    }

    fn stands_still(&self) {
        self.clock.discontinuities.fetch_add(1, SeqCst);
    }

    /// To the next the caller.
    async fn comes_with_its_attempt_given_back(&self, place: TaskRef) {
        // What no executor fetched stays there for a short time.
        self.clock.clock.advance_ms(100);
        until("it is given back", || async {
            self.engine.run_once().await.unwrap();
            releases(&self.engine.read(place).await.unwrap()) == 1
        })
        .await;
        self.engine.run_once().await.unwrap();
        let leased = self.lease(1_000).await;
        assert_eq!(leased.iter().map(|lease| (lease.place, lease.attempt)).collect::<Vec<_>>(), [(place, 1)]);
    }

    async fn succeeds(&self, lease: &Assignment) {
        let outcome = OutcomeReport {
            place: lease.place,
            fence: lease.fence,
            report: Report::Succeeded,
            result: TaskResult::default(),
        };
        assert_eq!(self.engine.record_outcomes(vec![outcome], "ann").await.unwrap(), [Reported::Accepted]);
    }
}

#[tokio::test]
async fn when_time_is_set_back_what_others_insert_is_loaded_again_and_fires_in_its_time() {
    let rig = rig(Options::default());
    rig.engine.run_once().await.unwrap();
    rig.clock.clock.advance_ms(4 * HOUR_MS);
    rig.engine.run_once().await.unwrap();
    // As by another engine whose clock is right: behind the frontier of this one, and not loaded by it.
    let near = NewTask::new(queue(), Name::new("k").unwrap(), BEGIN.plus(5_000));
    rig.store.insert(vec![near], "other", BEGIN).await.unwrap();
    rig.clock.clock.go_back(Duration::from_millis(4 * HOUR_MS));
    rig.engine.run_once().await.unwrap();
    rig.engine.run_once().await.unwrap();
    rig.clock.clock.advance_ms(4_999);
    rig.engine.run_once().await.unwrap();
    assert!(rig.lease(1_000).await.is_empty(), "not before its time");
    rig.clock.clock.advance_ms(1);
    let turn = rig.engine.run_once().await.unwrap();
    assert_eq!((turn.fired, turn.swept), (1, 0), "not found only when it is overdue");
    assert_eq!(rig.lease(1_000).await.len(), 1);
}

#[tokio::test]
async fn when_time_is_set_back_a_lease_keeps_what_was_left_of_it() {
    let rig = rig(Options::default());
    rig.engine.run_once().await.unwrap();
    rig.clock.clock.advance_ms(HOUR_MS);
    let (begun, not_begun) = (rig.insert(0).await, rig.insert(0).await);
    rig.engine.run_once().await.unwrap();
    assert_eq!(rig.lease(10_000).await.len(), 2);
    rig.clock.clock.advance_ms(4_000);
    rig.engine.run_once().await.unwrap();
    rig.clock.clock.go_back(Duration::from_millis(HOUR_MS + 4_000));
    rig.engine.run_once().await.unwrap();
    for place in [begun, not_begun] {
        let task = rig.engine.read(place).await.unwrap();
        assert_eq!((task.state, task.lease.unwrap().until), (State::Dispatched, rig.clock.now().plus(6_000)));
    }
    rig.clock.clock.advance_ms(5_999);
    assert_eq!(rig.engine.run_once().await.unwrap().leases_ended, 0);
    rig.clock.clock.advance_ms(1);
    assert_eq!(rig.engine.run_once().await.unwrap().leases_ended, 2);
    assert_eq!(rig.state(begun).await, State::Retrying);
}

#[tokio::test]
async fn what_was_inserted_before_a_clock_that_was_ahead_is_right_again_fires_in_its_time() {
    let rig = rig(Options { ahead_room_min: 1, ..Options::default() });
    let far = rig.insert(8 * 3_600_000).await;
    // By the clock that is ahead, it comes near.
    let near = rig.insert(4 * 3_600_000 + 90).await;
    rig.clock.clock.advance_ms(4 * HOUR_MS);
    rig.engine.run_once().await.unwrap();
    assert_eq!(rig.state(near).await, State::Dispatched, "leased ahead of its instant");
    rig.clock.clock.go_back(Duration::from_millis(4 * HOUR_MS));
    rig.engine.run_once().await.unwrap();
    let given_back = rig.engine.read(near).await.unwrap();
    assert_ne!(given_back.state, State::Dispatched, "nobody has it for four hours");
    assert_eq!((given_back.attempt, releases(&given_back)), (0, 1));
    for (place, in_ms) in [(near, 4 * HOUR_MS + 90), (far, 4 * HOUR_MS - 90)] {
        rig.clock.clock.advance_ms(in_ms - 1);
        rig.engine.run_once().await.unwrap();
        assert!(rig.lease(1_000).await.is_empty(), "not before its time");
        rig.clock.clock.advance_ms(1);
        rig.engine.run_once().await.unwrap();
        let leased = rig.lease(1_000).await;
        assert_eq!(leased.iter().map(|lease| (lease.place, lease.attempt)).collect::<Vec<_>>(), [(place, 1)]);
        assert!(leased[0].fired_at >= leased[0].due_at);
        rig.succeeds(&leased[0]).await;
    }
}

fn is_too_late(reason: Option<&str>) -> bool {
    reason == Some("too_late_for_its_lease")
}

/// Leased ahead of its instant, and then `between`.
async fn leased_ahead(between: impl Fn(&ClocksRig)) -> (ClocksRig, TaskRef, Vec<Assignment>) {
    let rig = rig(Options { ahead_room_min: 1, ..Options::default() });
    rig.engine.run_once().await.unwrap();
    let place = rig.insert(90).await;
    rig.engine.run_once().await.unwrap();
    assert_eq!(rig.state(place).await, State::Dispatched, "leased ahead");
    between(&rig);
    rig.clock.clock.advance_ms(90);
    rig.engine.run_once().await.unwrap();
    let leased = rig.lease(1_000).await;
    (rig, place, leased)
}

#[tokio::test]
async fn what_was_leased_before_a_suspend_is_given_back_instead_of_handed_over() {
    let (rig, place, leased) = leased_ahead(|_| ()).await;
    let gone_through = |task: &Task| task.history.iter().any(|entry| is_too_late(entry.reason.as_deref()));
    assert_eq!(leased.len(), 1);
    assert!(!gone_through(&rig.engine.read(place).await.unwrap()));
    let (rig, place, leased) = leased_ahead(ClocksRig::stands_still).await;
    let task = rig.engine.read(place).await.unwrap();
    assert!(gone_through(&task), "{task:?}");
    assert_eq!(leased.iter().map(|lease| (lease.place, lease.attempt)).collect::<Vec<_>>(), [(place, 1)]);
}

fn releases(task: &Task) -> usize {
    task.history.iter().filter(|entry| entry.event == Some(Event::Release)).count()
}

#[tokio::test]
async fn who_waited_when_the_machine_stood_still_is_not_given_what_fires() {
    let rig = rig(Options { ahead_ms: 0, ..Options::default() });
    let call = rig.waits().await;
    let place = rig.insert(0).await;
    rig.engine.run_once().await.unwrap();
    rig.stands_still();
    assert_eq!(answer(call).await, [], "it may have gone");
    assert_eq!(
        rig.lease(1_000).await.iter().map(|lease| (lease.place, lease.attempt)).collect::<Vec<_>>(),
        [(place, 1)]
    );
    assert_eq!(releases(&rig.engine.read(place).await.unwrap()), 0, "no lease was made for it");
}

#[tokio::test]
async fn who_waited_when_the_machine_stood_still_is_not_given_what_was_leased_ahead() {
    let rig = rig(Options::default());
    let call = rig.waits().await;
    let place = rig.insert(90).await;
    rig.engine.run_once().await.unwrap();
    assert_eq!(rig.state(place).await, State::Dispatched, "leased ahead");
    rig.clock.clock.advance_ms(90);
    rig.engine.run_once().await.unwrap();
    rig.stands_still();
    assert_eq!(answer(call).await, [], "it may have gone");
    rig.comes_with_its_attempt_given_back(place).await;
}

#[tokio::test]
async fn who_asked_before_the_machine_stood_still_is_not_answered_with_a_lease_of_before() {
    let rig = rig(Options { ahead_ms: 0, ..Options::default() });
    let mut call = rig.waits().await;
    let place = rig.insert(0).await;
    rig.engine.run_once().await.unwrap();
    poll_once(&mut call).await;
    until("it is leased", || async { rig.state(place).await == State::Dispatched }).await;
    // The answer to the call is there, and was not read.
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    rig.stands_still();
    assert_eq!(answer(call).await, [], "it may have gone");
    rig.comes_with_its_attempt_given_back(place).await;
}
