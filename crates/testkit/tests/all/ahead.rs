//! Preleases (`engine::pipeline::ahead`): tasks that are withdrawn or changed between the lease and the due
//! time, the holders afterwards, and engines that die between any two steps. On the embedded back ends and on
//! real MySQL and Redis.

mod counted;
mod elsewhere;
mod lying;
mod taken_back;
mod urgent;

use crate::crash_points::{
    CrashPointsRig, Embedded, Ground, Held, OnServers, WallClock, queue, rig, rig_with, succeeded,
};
use counted::{
    what_fires_late_and_ends_at_once_says_how_late_it_fired,
    what_kills_every_engine_that_hands_it_over_is_dead_at_last,
};
use punctual_contract::{
    Clock as _, Store as _,
    store::{Assignment, Change, Query},
};
use taken_back::{a_lease_that_is_made_meanwhile_is_taken_back_with_it, two_who_take_it_back_say_the_same};
use urgent::{
    of_two_versions_due_at_one_instant_the_newer_goes_first, ten_executors_get_the_urgent_ones_of_a_hundred,
};

use punctual_domain::{
    name::Name,
    state::{Event, State},
    task::{NewTask, Task},
};
use punctual_engine::{Cancelled, Changed, LeaseRequest, Options, Reported, Running};
use punctual_testkit::{
    faults::StoreGroup,
    patience::{HANG_LIMIT, until},
};
use std::sync::Arc;
use tokio::{runtime::Runtime, task::JoinSet, time::timeout};

const LEASE_MS: i64 = 10 * 60_000;
/// Longer than anything here takes to come.
const WAIT_MS: u64 = HANG_LIMIT.as_secs() * 1_000;

fn request(wait_ms: u64) -> LeaseRequest {
    let executor = "ann".to_owned();
    LeaseRequest { queue: Arc::new(queue()), max: 10, wait_ms, lease_ms: LEASE_MS, executor, version: None }
}

/// An executor that waits for the next task.
fn waits(rig: &CrashPointsRig, wait_ms: u64) -> Executor {
    let engine = rig.engine.clone();
    let mut executor = JoinSet::new();
    executor.spawn(async move { engine.lease(request(wait_ms)).await.unwrap() });
    executor
}

/// An executor's call, with the tasks that it gets.
type Executor = JoinSet<Vec<Assignment>>;

async fn got(mut executor: Executor) -> Vec<Assignment> {
    executor.join_next().await.unwrap().unwrap()
}

/// Until an engine owns each partition.
async fn warm_up(rig: &CrashPointsRig) {
    for _ in 0..8 {
        rig.insert(0).await;
        let lease = leased(rig).await;
        assert_eq!(
            rig.engine.record_outcomes(vec![succeeded(&lease)], "ann").await.unwrap(),
            [Reported::Accepted]
        );
    }
}

async fn leased(rig: &CrashPointsRig) -> Assignment {
    loop {
        if let Some(lease) = rig.engine.lease(request(WAIT_MS)).await.unwrap().pop() {
            return lease;
        }
    }
}

/// So early that a slow server leaves time for something between a lease and its instant.
const AHEAD_MS: i64 = 200;
/// After an answer that took longer, nothing is leased ahead for a while.
const TRIES: usize = 40;

async fn early_rig(ground: &dyn Ground) -> CrashPointsRig {
    rig_with(ground, false, |options| Options { ahead_ms: AHEAD_MS, ..options }).await
}

/// A task whose lease is made ahead of its instant. The instant is not reached until the clock is released.
/// Also returns the waiting executor. If the engine is too late for a task, the next one is tried.
async fn leased_ahead(rig: &CrashPointsRig, ask: impl Fn(NewTask) -> NewTask) -> (Task, Executor, Held) {
    for _ in 0..TRIES {
        let executor = waits(rig, 3_000);
        let at = rig.engine.now().plus(600);
        let held = rig.clock.hold_before(at);
        let task = ask(NewTask::new(queue(), Name::new("k").unwrap(), at));
        let place = rig.engine.insert(vec![task], "test").await.unwrap().remove(0).task.place;
        let is_decided =
            || async { WallClock.now() >= at || rig.store_task(place).await.state == State::Dispatched };
        until("it is handed over, or its instant is there", is_decided).await;
        let now = rig.store_task(place).await;
        assert!(matches!(now.state, State::Scheduled | State::Dispatching | State::Dispatched), "{now:?}");
        if now.state == State::Dispatched && WallClock.now() < at {
            return (now, executor, held);
        }
        held.let_go();
        let late = match got(executor).await.pop() {
            Some(lease) => lease,
            None => leased(rig).await,
        };
        assert_eq!(
            rig.engine.record_outcomes(vec![succeeded(&late)], "ann").await.unwrap(),
            [Reported::Accepted]
        );
    }
    panic!("{TRIES} times nothing was leased ahead of its instant");
}

/// Runs `what` between a lease and its instant, and returns the result. If the instant was reached before the
/// end on a slow machine, the next task is tried.
async fn between<T>(rig: &CrashPointsRig, what: impl AsyncFn(&Task) -> T) -> (Task, Executor, Held, T) {
    for _ in 0..TRIES {
        let (task, executor, held) = leased_ahead(rig, |task| task).await;
        let done = what(&task).await;
        if WallClock.now() < task.due_at {
            return (task, executor, held, done);
        }
        held.let_go();
        let late = match got(executor).await.pop() {
            Some(lease) => lease,
            None if rig.store_task(task.place).await.state == State::Cancelled => continue,
            None => leased(rig).await,
        };
        assert_eq!(
            rig.engine.record_outcomes(vec![succeeded(&late)], "ann").await.unwrap(),
            [Reported::Accepted]
        );
    }
    panic!("{TRIES} times it took until the instant was there");
}

impl CrashPointsRig {
    async fn store_task(&self, place: punctual_domain::place::TaskRef) -> Task {
        self.engine.read(place).await.unwrap()
    }

    async fn is_whole(&self) {
        let books = self.store.books().await.unwrap();
        assert_eq!((books.unaccounted(), &books), (0, &self.store.audit().await.unwrap()));
    }
}

async fn who_waits_gets_it_at_its_instant_and_the_store_learns_who(ground: Arc<dyn Ground>) {
    let rig = rig(&*ground, false).await;
    let running = rig.engine.start().unwrap();
    warm_up(&rig).await;
    let (task, executor, held) =
        leased_ahead(&rig, |task| NewTask { timeout_ms: Some(30_000), ..task }).await;
    let lease = task.lease.as_ref().unwrap();
    assert!(lease.is_ahead(), "{lease:?}");
    assert_eq!(lease.since, task.due_at, "the attempt begins when it fires");
    held.let_go();
    let assignment = got(executor).await.remove(0);
    assert_eq!((assignment.place, assignment.attempt, assignment.fence), (task.place, 1, task.fence));
    assert!(assignment.fired_at >= assignment.due_at && rig.engine.now() >= assignment.due_at);
    assert_eq!(
        assignment.lease_until,
        task.due_at.plus(30_000),
        "no longer than its timeout, from its instant"
    );
    let reported = || async { !rig.store_task(task.place).await.lease.unwrap().is_ahead() };
    until("the store is told", reported).await;
    let now = rig.store_task(task.place).await;
    let lease = now.lease.unwrap();
    assert_eq!(
        (now.state, lease.executor.as_str(), lease.until),
        (State::Dispatched, "ann", assignment.lease_until)
    );
    assert_eq!(now.fired_at, Some(assignment.fired_at));
    let line = now.history.last().unwrap();
    assert_eq!((line.event, line.at), (Some(Event::Dispatch), task.due_at), "not before its instant");
    assert_eq!(
        rig.engine.record_outcomes(vec![succeeded(&assignment)], "ann").await.unwrap(),
        [Reported::Accepted]
    );
    running.stop().await;
    rig.is_whole().await;
}

async fn what_is_cancelled_between_lease_and_instant_is_never_handed_over(ground: Arc<dyn Ground>) {
    let rig = early_rig(&*ground).await;
    let running = rig.engine.start().unwrap();
    warm_up(&rig).await;
    let cancel = async |task: &Task| rig.engine.cancel(task.place, false, "ann").await.unwrap();
    let (task, executor, held, cancelled) = between(&rig, cancel).await;
    assert!(matches!(cancelled, Cancelled::Cancelled(_)), "{cancelled:?}");
    held.let_go();
    assert_eq!(got(executor).await, []);
    let task = rig.store_task(task.place).await;
    assert_eq!((task.state, task.attempt), (State::Cancelled, 0));
    running.stop().await;
    rig.is_whole().await;
}

async fn what_is_put_off_between_lease_and_instant_comes_then_and_once(ground: Arc<dyn Ground>) {
    let rig = early_rig(&*ground).await;
    let running = rig.engine.start().unwrap();
    warm_up(&rig).await;
    let put_off = async |task: &Task| {
        let execute_at = Some(task.due_at.plus(500));
        let change = Change::Reschedule { execute_at, priority: None, payload: None, queue: None };
        rig.engine.reschedule(task.place, change, "ann", |_| true).await.unwrap()
    };
    let (task, executor, held, changed) = between(&rig, put_off).await;
    let at = task.due_at.plus(500);
    assert!(matches!(changed, Some(Changed::Changed(_))), "{changed:?}");
    held.let_go();
    let leased = got(executor).await;
    assert_eq!(
        leased.iter().map(|lease| (lease.place.id, lease.due_at, lease.attempt)).collect::<Vec<_>>(),
        [(task.place.id, at, 1)]
    );
    assert!(leased[0].fired_at >= at);
    assert_eq!(rig.engine.lease(request(100)).await.unwrap(), []);
    running.stop().await;
}

async fn whose_executor_has_gone_goes_to_the_next_with_the_same_attempt(ground: Arc<dyn Ground>) {
    let rig = rig(&*ground, false).await;
    let running = rig.engine.start().unwrap();
    warm_up(&rig).await;
    let (task, executor, held) = leased_ahead(&rig, |task| task).await;
    drop(executor);
    held.let_go();
    // Longer than it stays there for an executor.
    until("it is given back", || async { rig.store_task(task.place).await.state != State::Dispatched }).await;
    let lease = leased(&rig).await;
    assert_eq!((lease.place.id, lease.attempt), (task.place.id, 1));
    assert!(lease.fired_at >= lease.due_at && lease.fence > task.fence);
    running.stop().await;
}

async fn nothing_that_is_leased_starts_after_the_answer_to_a_pause(ground: Arc<dyn Ground>) {
    let rig = rig(&*ground, false).await;
    let running = rig.engine.start().unwrap();
    warm_up(&rig).await;
    let (task, executor, held) = leased_ahead(&rig, |task| task).await;
    rig.engine.pause(queue(), None, "ann").await.unwrap();
    held.let_go();
    assert_eq!(got(executor).await, []);
    rig.engine.resume(queue(), "ann").await.unwrap();
    let lease = leased(&rig).await;
    assert_eq!((lease.place.id, lease.attempt), (task.place.id, 1));
    running.stop().await;
}

/// A task that has fired where executors were expected, and found none: its lease was to follow at once, so that nothing
/// was written of it. The store takes no move until the gate opens.
async fn fired_without_a_mark(
    ground: &dyn Ground,
) -> (CrashPointsRig, Running, Task, Arc<punctual_testkit::faults::Gate>) {
    let rig = rig_with(ground, false, |options| Options { ahead_room_min: 10, ..options }).await;
    let running = rig.engine.start().unwrap();
    warm_up(&rig).await;
    let gate = rig.store.faults.hold(StoreGroup::Apply);
    let place = rig.insert(0).await;
    // What tells the store which tasks wait for an executor.
    gate.reached().await;
    let task = rig.store_task(place).await;
    assert_eq!((task.state, task.history.len()), (State::Scheduled, 1));
    (rig, running, task, gate)
}

async fn what_fired_without_a_mark_is_shown_and_handed_over(ground: Arc<dyn Ground>) {
    let (rig, running, task, gate) = fired_without_a_mark(&*ground).await;
    let (_, why) = rig.engine.why(task.place).await.unwrap();
    assert!(why.blocking == Some("executor") && why.reason.starts_with("It has fired"), "{why:?}");
    gate.open();
    until("it is marked", || async { rig.store_task(task.place).await.state == State::Ready }).await;
    let ready = rig.store_task(task.place).await;
    let events: Vec<Option<Event>> = ready.history.iter().map(|entry| entry.event).collect();
    assert_eq!(events, [None, Some(Event::Claim), Some(Event::Fire)]);
    let lease = leased(&rig).await;
    assert_eq!((lease.place, lease.attempt), (task.place, 1));
    assert_eq!(
        rig.engine.record_outcomes(vec![succeeded(&lease)], "ann").await.unwrap(),
        [Reported::Accepted]
    );
    running.stop().await;
    rig.is_whole().await;
}

async fn what_fired_without_a_mark_is_told_to_have_fired_and_can_be_stopped(ground: Arc<dyn Ground>) {
    let (rig, running, task, gate) = fired_without_a_mark(&*ground).await;
    let too_late = rig.engine.cancel(task.place, false, "ann").await.unwrap();
    assert!(matches!(too_late, Cancelled::AlreadyFired(_)), "{too_late:?}");
    let (engine, place) = (rig.engine.clone(), task.place);
    let mut callers = JoinSet::new();
    callers.spawn(async move { engine.cancel(place, true, "ann").await.unwrap() });
    gate.reached().await;
    gate.open();
    let stopped = callers.join_next().await.unwrap().unwrap();
    assert!(matches!(stopped, Cancelled::Cancelled(_)), "{stopped:?}");
    assert_eq!(rig.engine.lease(request(100)).await.unwrap(), []);
    let task = rig.store_task(task.place).await;
    assert_eq!((task.state, task.attempt), (State::Cancelled, 0));
    running.stop().await;
    rig.is_whole().await;
}

/// The engine dies without a shutdown, after it fired the task.
fn fires_without_a_mark_and_dies(ground: &Arc<dyn Ground>) {
    let (reported, heard) = std::sync::mpsc::channel();
    let doomed = Runtime::new().unwrap();
    let its = Arc::clone(ground);
    doomed.spawn(async move {
        let (_rig, _running, task, _gate) = fired_without_a_mark(&*its).await;
        reported.send(task).unwrap();
        std::future::pending::<()>().await;
    });
    let task = heard.recv().unwrap();
    doomed.shutdown_background();
    Runtime::new().unwrap().block_on(async {
        let rig = rig(&**ground, false).await;
        let running = rig.engine.start().unwrap();
        let lease = timeout(HANG_LIMIT, leased(&rig)).await.unwrap();
        assert_eq!((lease.place.id, lease.attempt, lease.fence), (task.place.id, 1, task.fence + 1));
        assert_eq!(
            rig.engine.record_outcomes(vec![succeeded(&lease)], "ann").await.unwrap(),
            [Reported::Accepted]
        );
        assert_eq!(rig.engine.lease(request(100)).await.unwrap(), [], "it does not come twice");
        running.stop().await;
        rig.is_whole().await;
    });
}

async fn what_a_stopping_engine_has_leased_is_handed_back(ground: Arc<dyn Ground>) {
    let first = rig(&*ground, false).await;
    let running = first.engine.start().unwrap();
    warm_up(&first).await;
    let (task, executor, held) = leased_ahead(&first, |task| task).await;
    held.let_go();
    running.stop().await;
    let leased = got(executor).await;
    if let Some(lease) = leased.first() {
        // It had come to its instant before the engine came to its stop.
        assert_eq!(lease.place, task.place);
        return;
    }
    let after = first.store_task(task.place).await;
    assert!(matches!(after.state, State::Ready | State::Scheduled), "{after:?}");
    assert_eq!(after.attempt, 0);
    first.is_whole().await;
}

/// Where an engine dies that has leased ahead.
#[derive(Clone, Copy, Debug)]
enum At {
    /// The lease is made, its instant has not come.
    Leased,
    /// An executor has it, and the store does not know which.
    HandedOver,
}

fn dies(ground: &Arc<dyn Ground>, at: At) {
    let survivor = Runtime::new().unwrap();
    let (reported, heard) = std::sync::mpsc::channel();
    let doomed = Runtime::new().unwrap();
    let its = Arc::clone(ground);
    doomed.spawn(async move {
        let rig = rig(&*its, false).await;
        let _running = rig.engine.start().unwrap();
        warm_up(&rig).await;
        let telling = rig.store.faults.hold(StoreGroup::Extend);
        let (task, first, _kept) = loop {
            let (task, executor, held) = leased_ahead(&rig, |task| task).await;
            if matches!(at, At::Leased) {
                break (task, None, Some((executor, held)));
            }
            held.let_go();
            let first = match got(executor).await.pop() {
                Some(lease) => lease,
                None => leased(&rig).await,
            };
            if first.fence == task.fence {
                telling.reached().await;
                break (task, Some(first), None);
            }
            // Too late for its lease, which was given back: it came the usual way.
            assert_eq!(
                rig.engine.record_outcomes(vec![succeeded(&first)], "ann").await.unwrap(),
                [Reported::Accepted]
            );
        };
        reported.send((task, first)).unwrap();
        std::future::pending::<()>().await;
    });
    let (task, first) = heard.recv().unwrap();
    doomed.shutdown_background();
    survivor.block_on(async {
        let rig = rig(&**ground, false).await;
        let running = rig.engine.start().unwrap();
        let lease = timeout(HANG_LIMIT, leased(&rig)).await.unwrap();
        assert_eq!(
            (lease.place.id, lease.attempt),
            (task.place.id, 1),
            "what nobody is known to have spent no attempt"
        );
        assert!(lease.fired_at >= lease.due_at && lease.fence > task.fence, "{lease:?}");
        if let Some(first) = first {
            let recorded = rig.engine.record_outcomes(vec![succeeded(&first)], "ann").await.unwrap();
            assert_eq!(
                recorded,
                [Reported::Stale],
                "the engine that handed it over is dead, and it was given on"
            );
        }
        assert_eq!(
            rig.engine.record_outcomes(vec![succeeded(&lease)], "ann").await.unwrap(),
            [Reported::Accepted]
        );
        let query = Query { limit: 20, ..Query::default() };
        let all = rig.store.list(&query).await.unwrap().tasks;
        assert!(all.iter().all(|task| task.state == State::Succeeded), "{all:?}");
        running.stop().await;
        rig.is_whole().await;
    });
}

macro_rules! on_each_ground {
    ($($case:ident)*) => {
        mod embedded {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(Embedded::ground().await).await;
            })*
            #[test]
            fn an_engine_dies_between_the_lease_and_the_instant() {
                dies(&Runtime::new().unwrap().block_on(Embedded::ground()), At::Leased);
            }
            #[test]
            fn an_engine_dies_before_it_tells_who_has_it() {
                dies(&Runtime::new().unwrap().block_on(Embedded::ground()), At::HandedOver);
            }
            #[test]
            fn an_engine_dies_after_what_it_fired_without_a_mark() {
                fires_without_a_mark_and_dies(&Runtime::new().unwrap().block_on(Embedded::ground()));
            }
        }
        mod on_servers {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(OnServers::ground().await).await;
            })*
            #[test]
            fn an_engine_dies_between_the_lease_and_the_instant() {
                dies(&Runtime::new().unwrap().block_on(OnServers::ground()), At::Leased);
            }
            #[test]
            fn an_engine_dies_before_it_tells_who_has_it() {
                dies(&Runtime::new().unwrap().block_on(OnServers::ground()), At::HandedOver);
            }
            #[test]
            fn an_engine_dies_after_what_it_fired_without_a_mark() {
                fires_without_a_mark_and_dies(&Runtime::new().unwrap().block_on(OnServers::ground()));
            }
        }
    };
}

on_each_ground! {
    who_waits_gets_it_at_its_instant_and_the_store_learns_who
    what_fires_late_and_ends_at_once_says_how_late_it_fired
    what_kills_every_engine_that_hands_it_over_is_dead_at_last
    what_is_cancelled_between_lease_and_instant_is_never_handed_over
    what_is_put_off_between_lease_and_instant_comes_then_and_once
    two_who_take_it_back_say_the_same
    a_lease_that_is_made_meanwhile_is_taken_back_with_it
    whose_executor_has_gone_goes_to_the_next_with_the_same_attempt
    nothing_that_is_leased_starts_after_the_answer_to_a_pause
    what_fired_without_a_mark_is_shown_and_handed_over
    what_fired_without_a_mark_is_told_to_have_fired_and_can_be_stopped
    what_a_stopping_engine_has_leased_is_handed_back
    ten_executors_get_the_urgent_ones_of_a_hundred
    of_two_versions_due_at_one_instant_the_newer_goes_first
}
