//! An engine's facts about a task are sent to the store with the call: from its entry, its hand-over, or its
//! read for the next attempt. Facts that may have changed are omitted, and then the row is read. On the
//! embedded back ends and on real MySQL and Redis.

use crate::crash_points::{CrashPointsRig, Embedded, Ground, OnServers, queue, rig, succeeded};
use punctual_contract::{
    Store as _,
    store::{Applied, Assignment, Beat, Change, Step},
};
use punctual_domain::{
    history::Note,
    name::Name,
    outcome::Report,
    place::TaskRef,
    retry::RetryPolicy,
    state::{Event, State},
    task::{NewTask, TaskResult},
};
use punctual_engine::{LeaseRequest, OutcomeReport, Reported};
use punctual_testkit::{
    faults::{Dials, Said, StoreGroup},
    patience::{HANG_LIMIT, until},
};
use std::sync::Arc;

const LEASE_MS: i64 = 10 * 60_000;

async fn leased(rig: &CrashPointsRig) -> Assignment {
    let wait_ms = u64::try_from(HANG_LIMIT.as_millis()).unwrap();
    let executor = "ann".to_owned();
    let (queue, lease_ms) = (Arc::new(queue()), LEASE_MS);
    loop {
        let (queue, executor) = (Arc::clone(&queue), executor.clone());
        let request = LeaseRequest { queue, max: 10, wait_ms, lease_ms, executor, version: None };
        if let Some(lease) = rig.engine.lease(request).await.unwrap().pop() {
            return lease;
        }
    }
}

async fn accepted(rig: &CrashPointsRig, report: OutcomeReport) {
    assert_eq!(rig.engine.record_outcomes(vec![report], "ann").await.unwrap(), [Reported::Accepted]);
}

async fn is_balanced(rig: &CrashPointsRig) {
    let books = rig.store.books().await.unwrap();
    assert_eq!((books.unaccounted(), &books), (0, &rig.store.audit().await.unwrap()));
}

/// The state that the last move left.
async fn last_move(rig: &CrashPointsRig, place: TaskRef) -> (Option<Event>, Option<State>) {
    let task = rig.store.read(&[place]).await.unwrap().remove(0).unwrap();
    let last = task.history.last().unwrap();
    (last.event, last.from)
}

async fn what_is_inserted_and_handed_over_here_is_known(ground: Arc<dyn Ground>) {
    let rig = rig(&*ground, false).await;
    let running = rig.engine.start().unwrap();
    for _ in 0..8 {
        let place = rig.insert(0).await;
        let lease = leased(&rig).await;
        assert_eq!((lease.place, lease.attempt), (place, 1));
        accepted(&rig, succeeded(&lease)).await;
    }
    let said = rig.store.said();
    assert_eq!((said.known_grants, said.known_successes, said.successes), (said.grants, 8, 8), "{said:?}");
    running.stop().await;
    is_balanced(&rig).await;
}

/// Once an attempt has begun, its row no longer matches the facts of the hand-over.
async fn a_sign_of_life_ends_what_is_known_of_an_attempt(ground: Arc<dyn Ground>) {
    let rig = rig(&*ground, false).await;
    let running = rig.engine.start().unwrap();
    rig.insert(0).await;
    let lease = leased(&rig).await;
    let beat = Beat {
        place: lease.place,
        fence: lease.fence,
        lease_until: lease.lease_until,
        progress: None,
        log: None,
        executor: "ann".to_owned(),
        handed_over_at: None,
    };
    rig.engine.extend(vec![beat]).await.unwrap();
    rig.store.said();
    accepted(&rig, succeeded(&lease)).await;
    assert_eq!(rig.store.said(), Said { successes: 1, ..Said::default() });
    assert_eq!(last_move(&rig, lease.place).await, (Some(Event::Succeed), Some(State::Running)));
    running.stop().await;
    is_balanced(&rig).await;
}

/// It has begun, and this engine has not learned of it: the heartbeat came to another one.
async fn an_attempt_that_began_elsewhere_ends_all_the_same(ground: Arc<dyn Ground>) {
    let rig = rig(&*ground, false).await;
    let running = rig.engine.start().unwrap();
    rig.insert(0).await;
    let lease = leased(&rig).await;
    let note = Note { by: "other".to_owned(), ..Note::default() };
    let start = Step {
        place: lease.place,
        fence: Some(lease.fence),
        change: Change::Start,
        note,
        fired_at: None,
        known: None,
    };
    let applied = rig.store.apply(vec![start], rig.engine.now()).await.unwrap();
    assert!(applied.iter().all(|stepped| *stepped == Applied::Moved));
    rig.store.said();
    accepted(&rig, succeeded(&lease)).await;
    assert_eq!(rig.store.said().known_successes, 1);
    assert_eq!(last_move(&rig, lease.place).await, (Some(Event::Succeed), Some(State::Running)));
    running.stop().await;
    is_balanced(&rig).await;
}

async fn a_next_attempt_is_known_from_its_read(ground: Arc<dyn Ground>) {
    let rig = rig(&*ground, false).await;
    let running = rig.engine.start().unwrap();
    let retry = RetryPolicy::Fixed { delay_ms: 0 };
    let task = NewTask { retry, ..NewTask::new(queue(), Name::new("k").unwrap(), rig.engine.now()) };
    rig.engine.insert(vec![task], "test").await.unwrap();
    let lease = leased(&rig).await;
    rig.store.said();
    let failed = OutcomeReport {
        report: Report::Failed { after_ms: None },
        result: TaskResult::default(),
        ..succeeded(&lease)
    };
    accepted(&rig, failed).await;
    let again = leased(&rig).await;
    assert_eq!((again.place, again.attempt), (lease.place, 2));
    accepted(&rig, succeeded(&again)).await;
    let said = rig.store.said();
    assert_eq!((said.known_grants, said.known_successes), (said.grants, 1), "{said:?}");
    running.stop().await;
    is_balanced(&rig).await;
}

/// No executor has asked for the task: the owner of the partition has marked it as ready in the store.
async fn what_was_marked_as_ready_is_looked_at(ground: Arc<dyn Ground>) {
    let rig = rig(&*ground, false).await;
    let running = rig.engine.start().unwrap();
    let place = rig.insert(0).await;
    let is_marked = || async {
        let task = rig.store.read(&[place]).await.unwrap().remove(0).unwrap();
        task.state == State::Ready
    };
    until("it is marked", is_marked).await;
    // The mark is known to its engine when its call has ended.
    until("it is handed over", || async {
        let lease = leased(&rig).await;
        assert_eq!(lease.place, place);
        true
    })
    .await;
    assert_eq!(last_move(&rig, place).await, (Some(Event::Dispatch), Some(State::Ready)));
    running.stop().await;
    is_balanced(&rig).await;
}

/// The lease was made, and its answer is lost; then it is returned, and the task is handed over again.
async fn a_hand_over_whose_answer_is_lost_leaves_nothing_known(ground: Arc<dyn Ground>) {
    let rig = rig(&*ground, false).await;
    let running = rig.engine.start().unwrap();
    rig.store.faults.set(StoreGroup::Dispatch, Dials::ANSWERS_LOST);
    let place = rig.insert(0).await;
    let is_made = || async {
        let asks = rig.engine.clone();
        let request = LeaseRequest {
            queue: Arc::new(queue()),
            max: 1,
            wait_ms: 50,
            lease_ms: LEASE_MS,
            executor: "ann".to_owned(),
            version: None,
        };
        drop(asks.lease(request).await);
        rig.store.read(&[place]).await.unwrap().remove(0).unwrap().fence > 1
    };
    until("its answer was lost", is_made).await;
    rig.store.faults.set(StoreGroup::Dispatch, Dials::SOUND);
    let lease = leased(&rig).await;
    assert_eq!((lease.place, lease.attempt), (place, 1), "no attempt was spent that nobody had");
    accepted(&rig, succeeded(&lease)).await;
    running.stop().await;
    is_balanced(&rig).await;
}

/// The next engine has no facts of its predecessor's hand-overs. Its scan reads the facts that a hand-over
/// needs.
async fn an_engine_that_died_leaves_attempts_that_are_looked_at(ground: Arc<dyn Ground>) {
    let died = rig(&*ground, false).await;
    let running = died.engine.start().unwrap();
    died.insert(0).await;
    let lease = leased(&died).await;
    let waits = died.insert(0).await;
    running.stop().await;
    let rig = rig(&*ground, false).await;
    let running = rig.engine.start().unwrap();
    accepted(&rig, succeeded(&lease)).await;
    let other = leased(&rig).await;
    assert_eq!(other.place, waits);
    let said = rig.store.said();
    // On a slow machine an engine has marked it as ready before it was handed over: then it is looked at.
    let was_marked = last_move(&rig, waits).await == (Some(Event::Dispatch), Some(State::Ready));
    let known = if was_marked { 0 } else { said.grants };
    assert_eq!((said.known_grants, said.successes, said.known_successes), (known, 1, 0), "{said:?}");
    accepted(&rig, succeeded(&other)).await;
    assert_eq!(rig.store.said().known_successes, 1);
    running.stop().await;
    is_balanced(&rig).await;
}

macro_rules! on_each_ground {
    ($($case:ident;)*) => {
        mod embedded {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(Embedded::ground().await).await;
            })*
        }
        mod on_servers {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(OnServers::ground().await).await;
            })*
        }
    };
}

on_each_ground! {
    what_is_inserted_and_handed_over_here_is_known;
    a_sign_of_life_ends_what_is_known_of_an_attempt;
    an_attempt_that_began_elsewhere_ends_all_the_same;
    a_next_attempt_is_known_from_its_read;
    what_was_marked_as_ready_is_looked_at;
    a_hand_over_whose_answer_is_lost_leaves_nothing_known;
    an_engine_that_died_leaves_attempts_that_are_looked_at;
}
