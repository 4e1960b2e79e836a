//! Counts of preleases: how late they fired, and how often they ended without a known holder of the task.

use super::{TRIES, got, leased, leased_ahead, warm_up};
use crate::crash_points::{CrashPointsRig, Ground, WallClock, queue, rig, succeeded};
use punctual_contract::{
    Clock as _, Store as _,
    store::{Dispatched, Grant},
};
use punctual_domain::{
    name::Name,
    place::TaskRef,
    retry::RetryPolicy,
    state::{Event, State},
    task::{Lease, NewTask, Task},
};
use punctual_engine::Reported;
use punctual_testkit::{faults::StoreGroup, patience::until};
use std::sync::Arc;

/// The task is held back at its instant, and ends before the store records the executor that has it.
pub(super) async fn what_fires_late_and_ends_at_once_says_how_late_it_fired(ground: Arc<dyn Ground>) {
    let rig = rig(&*ground, false).await;
    let running = rig.engine.start().unwrap();
    warm_up(&rig).await;
    let telling = rig.store.faults.hold(StoreGroup::Extend);
    for _ in 0..TRIES {
        let lateness_ms =
            || rig.engine.meters().queues().iter().map(|queue| queue.lateness_sum_ms).sum::<u64>();
        let (task, executor, held) = leased_ahead(&rig, |task| task).await;
        let before = lateness_ms();
        let is_late = || async { WallClock.now() >= task.due_at.plus(15) };
        until("it is late", is_late).await;
        held.let_go();
        let lease = match got(executor).await.pop() {
            Some(lease) => lease,
            None => leased(&rig).await,
        };
        let counted = lateness_ms() - before;
        assert_eq!(
            rig.engine.record_outcomes(vec![succeeded(&lease)], "ann").await.unwrap(),
            [Reported::Accepted]
        );
        let after = rig.store_task(task.place).await;
        assert_eq!(after.fired_at, Some(lease.fired_at));
        if lease.fence == task.fence {
            let late_ms = lease.fired_at.since(task.due_at);
            assert!(late_ms >= 15, "{late_ms}");
            assert_eq!(after.lateness_ms(), Some(late_ms));
            assert_eq!(i64::try_from(counted), Ok(late_ms), "the metrics say the same");
            telling.open();
            running.stop().await;
            return rig.is_whole().await;
        }
        // Too late for its lease, which was given back: it came the usual way.
    }
    panic!("{TRIES} times it came too late for its lease");
}

/// What an engine leaves that leased a task ahead of its instant and was killed by it: the lease, in its name.
async fn dies_with(rig: &CrashPointsRig, place: TaskRef) -> Task {
    let is_there = || async { rig.store_task(place).await.state == State::Ready };
    until("it has fired, and nobody waits", is_there).await;
    let task = rig.store_task(place).await;
    let grant = Grant {
        place,
        fence: task.fence,
        fired_at: task.due_at,
        lease_until: rig.engine.now().plus(1),
        executor: Lease::ahead("dead"),
        namespace: queue().namespace,
        has_begun: false,
        known: None,
    };
    assert!(matches!(
        rig.store.dispatch(vec![grant], rig.engine.now()).await.unwrap()[..],
        [Dispatched::Made(_)]
    ));
    until("its lease ends", || async { rig.store_task(place).await.state != State::Dispatched }).await;
    rig.store_task(place).await
}

pub(super) async fn what_kills_every_engine_that_hands_it_over_is_dead_at_last(ground: Arc<dyn Ground>) {
    let rig = rig(&*ground, false).await;
    let running = rig.engine.start().unwrap();
    warm_up(&rig).await;
    let retry = RetryPolicy::Fixed { delay_ms: 0 };
    let task = NewTask {
        max_attempts: 2,
        retry,
        ..NewTask::new(queue(), Name::new("k").unwrap(), rig.engine.now())
    };
    let place = rig.engine.insert(vec![task], "test").await.unwrap().remove(0).task.place;
    for nth in 1..=4 {
        let back = dies_with(&rig, place).await;
        assert_eq!(back.attempt, 0, "after {nth}");
        let lines = back.history.iter().filter(|entry| entry.reason.as_deref() == Some("not_handed_over"));
        assert_eq!(lines.count(), nth);
    }
    let counted = dies_with(&rig, place).await;
    assert_eq!(counted.attempt, 1, "{counted:?}");
    let dead = dies_with(&rig, place).await;
    assert_eq!((dead.state, dead.attempt), (State::Dead, 2));
    for event in [Event::Retry, Event::Bury] {
        let line = dead.history.iter().find(|entry| entry.event == Some(event)).unwrap();
        assert_eq!(line.reason.as_deref(), Some("lease_expired"));
        assert!(
            line.error.as_ref().unwrap().contains("before it said to whom, as after 4 leases before"),
            "{line:?}"
        );
    }
    assert!(dead.last_error.unwrap().ends_with("from now on the attempt counts"));
    running.stop().await;
    rig.is_whole().await;
}
