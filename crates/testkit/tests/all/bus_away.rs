//! A bus that is unavailable for a while, on the embedded back ends and on real MySQL and Redis: refused
//! tasks are shown as `dispatch_failed`, spend no attempt, and are sent when the bus is back. A fault around
//! the bus makes it unavailable, so that the hot set on the same server is not.

use crate::crash_points::{
    CrashPointsRig, Embedded, Ground, OnServers, delivered, queue, rig_with, succeeded,
};
use punctual_contract::{Bus as _, Store as _, store::Query};
use punctual_domain::{
    place::TaskRef,
    state::{Event, State},
    task::Task,
};
use punctual_engine::{Options, Reported};
use punctual_testkit::{
    faults::{BusGroup, Dials, StoreGroup},
    patience::{HANG_LIMIT, until},
};
use std::collections::HashSet;

/// Nothing here may end with a lease.
async fn rig(ground: &dyn Ground) -> CrashPointsRig {
    rig_with(ground, true, |options| Options { push_lease_ms: 60_000, ..options }).await
}

async fn all_are(rig: &CrashPointsRig, places: &[TaskRef], state: State) {
    until("all are in this state", || async {
        let tasks = rig.store.read(places).await.unwrap();
        tasks.iter().flatten().all(|task| task.state == state)
    })
    .await;
}

async fn come_when_it_is_back(ground: &dyn Ground) {
    const TASKS: usize = 120;
    let rig = rig(ground).await;
    rig.bus.faults.set(BusGroup::Publish, Dials::REFUSES);
    // Takes its partitions over: what comes in while one is looked through may be loaded once more, after it has fired. The
    // store then refuses a second lease, but both firings are counted.
    rig.engine.run_once().await.unwrap();
    let running = rig.engine.start().unwrap();
    let mut places = Vec::new();
    for nth in 0..TASKS {
        places.push(rig.insert(i64::try_from(nth % 300).unwrap()).await);
    }
    until("each has failed", || async {
        let has_failed =
            |task: &Task| task.history.iter().any(|line| line.event == Some(Event::FailDispatch));
        rig.store.read(&places).await.unwrap().iter().flatten().all(has_failed)
    })
    .await;
    // What the compensator brings back is not leased while the test looks.
    let gate = rig.store.faults.hold(StoreGroup::Dispatch);
    gate.reached().await;
    all_are(&rig, &places, State::DispatchFailed).await;
    let (task, why) = rig.engine.why(places[0]).await.unwrap();
    assert_eq!((task.attempt, why.blocking), (0, Some("bus")), "{why:?}");
    let error = task.last_error.unwrap();
    assert!(error.contains("refused by a fault") && why.reason.contains(&error), "{error}: {}", why.reason);
    let failed = task.history.iter().find(|entry| entry.event == Some(Event::FailDispatch)).unwrap();
    assert!(failed.error.as_deref().is_some_and(|error| error.contains("refused by a fault")), "{failed:?}");
    assert_eq!(rig.engine.list(&failed_query()).await.unwrap().tasks.len(), TASKS);
    assert!(rig.engine.meters().publish_failures_total() >= 2 * 120, "each was tried twice at once");

    rig.bus.faults.heal();
    gate.open();
    let mut came = HashSet::new();
    while came.len() < TASKS {
        let received = rig.bus.receive(&queue(), 100, HANG_LIMIT, rig.engine.now()).await.unwrap();
        assert!(!received.is_empty(), "{} of {TASKS} came", came.len());
        for delivery in received {
            rig.bus.acknowledge(&queue(), &[delivery.id]).await.unwrap();
            let message = delivery.message;
            assert!(message.fired_at >= message.due_at, "early: {message:?}");
            assert_eq!(message.attempt, 1, "what was not sent spent no attempt");
            assert!(came.insert(message.place.id), "{message:?} comes twice");
            let recorded = rig.engine.record_outcomes(vec![succeeded(&message)], "subscriber").await.unwrap();
            assert_eq!(recorded, [Reported::Accepted]);
        }
    }
    assert!(rig.engine.meters().compensated_total() >= 120);
    assert_eq!(rig.engine.unsent(), 0);
    let fired: u64 = rig
        .engine
        .meters()
        .queues()
        .iter()
        .map(|queue| queue.lateness.iter().map(|bucket| bucket.tasks).sum::<u64>())
        .sum();
    let swept = rig.engine.meters().swept_total();
    assert_eq!(fired, 120, "lateness is that of the first firing, once a task; {swept} were swept");
    let books = rig.store.books().await.unwrap();
    assert_eq!((books.unaccounted(), &books), (0, &rig.store.audit().await.unwrap()));
    running.stop().await;
}

fn failed_query() -> Query {
    Query { state: Some(State::DispatchFailed), limit: 1_000, ..Query::default() }
}

/// The store is unavailable when the failure is to be marked: the compensator marks it, and the lease need not run out.
async fn a_mark_that_fails_is_made_when_the_task_is_refused_again(ground: &dyn Ground) {
    let rig = rig(ground).await;
    rig.bus.faults.set(BusGroup::Publish, Dials::REFUSES);
    let gate = rig.bus.faults.hold(BusGroup::Publish);
    let running = rig.engine.start().unwrap();
    let place = rig.insert(0).await;
    gate.reached().await;
    rig.store.faults.set(StoreGroup::Apply, Dials::SILENT);
    let before = rig.store.faults.counts(StoreGroup::Apply).vanished;
    gate.open();
    // The mark, and its repetition.
    until("both vanished", || async { rig.store.faults.counts(StoreGroup::Apply).vanished >= before + 2 })
        .await;
    assert_eq!(rig.engine.read(place).await.unwrap().state, State::Dispatched, "nobody knows yet");
    rig.store.faults.heal();
    all_are(&rig, &[place], State::DispatchFailed).await;
    rig.bus.faults.heal();
    let lease = delivered(&rig).await;
    assert_eq!(
        (lease.place, lease.attempt),
        (place, 1),
        "the compensator gave the attempt back, not the lease's end"
    );
    assert_eq!(
        rig.engine.record_outcomes(vec![succeeded(&lease)], "subscriber").await.unwrap(),
        [Reported::Accepted]
    );
    running.stop().await;
}

macro_rules! on_each_ground {
    ($($case:ident: $run:ident;)*) => {
        mod embedded {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                $run(&*Embedded::ground().await).await;
            })*
        }
        mod on_servers {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                $run(&*OnServers::ground().await).await;
            })*
        }
    };
}

on_each_ground! {
    tasks_that_it_does_not_take_are_visible_and_come_when_it_is_back: come_when_it_is_back;
    a_failure_that_could_not_be_marked_is_marked_later: a_mark_that_fails_is_made_when_the_task_is_refused_again;
}
