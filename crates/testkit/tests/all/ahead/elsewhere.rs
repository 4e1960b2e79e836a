//! What one engine has leased ahead of its instant, and another engine is asked to cancel or to put off. Only the engine that has the
//! lease knows whether the task is handed over: the other one must not take the lease back.

use super::{CrashPointsRig, Ground, LEASE_MS, OnServers, early_rig, got, leased_ahead, until, warm_up};
use crate::crash_points::WallClock;
use punctual_contract::{
    Clock as _, Hot as _,
    hot::{Details, HotEntry},
    store::Change,
};
use punctual_domain::{
    state::State,
    task::{Priority, Task},
    time::Millis,
};
use punctual_engine::{Cancelled, Changed};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};
use tokio::task::JoinSet;

/// As it was before its lease.
fn copy_of(task: &Task) -> HotEntry {
    HotEntry {
        place: task.place,
        due_at: task.due_at,
        fence: task.fence - 1,
        queue: Arc::new(task.ask.queue.clone()),
        priority: Priority::default(),
        task_id: task.task_id(),
        task_version: task.ask.task_version,
        deadline_at: Millis::MAX,
        state: State::Scheduled,
        fired_at: Millis::ZERO,
        attempt: 0,
        details: Arc::new(Details { kind: Some(task.ask.kind.clone()), ..Details::default() }),
    }
}

#[derive(Clone, Copy, Debug)]
enum ChangeRequest {
    Cancel,
    PutOff,
}

/// Whether the engine answers that it made the change.
async fn is_granted(rig: &CrashPointsRig, task: &Task, request: ChangeRequest) -> bool {
    match request {
        ChangeRequest::Cancel => {
            matches!(rig.engine.cancel(task.place, false, "bob").await.unwrap(), Cancelled::Cancelled(_))
        }
        ChangeRequest::PutOff => {
            let execute_at = Some(task.due_at.plus(LEASE_MS));
            let change = Change::Reschedule { execute_at, priority: None, payload: None, queue: None };
            let changed = rig.engine.reschedule(task.place, change, "bob", |_| true).await.unwrap();
            matches!(changed, Some(Changed::Changed(_)))
        }
    }
}

/// The task is in the hot set too: it was loaded there while its owner read it from the store.
async fn decides_for_both(request: ChangeRequest) {
    let ground: Arc<dyn Ground> = OnServers::ground().await;
    let (rig, other) = (early_rig(&*ground).await, early_rig(&*ground).await);
    let running = rig.engine.start().unwrap();
    warm_up(&rig).await;
    let (task, executor, held) = leased_ahead(&rig, |task| task).await;
    rig.hot.load(vec![copy_of(&task)]).await.unwrap();
    let has_answer = Arc::<AtomicBool>::default();
    let mut call = JoinSet::new();
    {
        let (has_answer, task) = (Arc::clone(&has_answer), task.clone());
        call.spawn(async move {
            let is_granted = is_granted(&other, &task, request).await;
            has_answer.store(true, SeqCst);
            is_granted
        });
    }
    let is_decided = || async { has_answer.load(SeqCst) || WallClock.now() >= task.due_at };
    until("the other engine has answered, or the instant is there", is_decided).await;
    held.let_go();
    let given = got(executor).await;
    let is_handed_over = given.iter().any(|lease| lease.place.id == task.place.id);
    let is_granted = call.join_next().await.unwrap().unwrap();
    assert_ne!(is_granted, is_handed_over, "{request:?}: {given:?}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_at_another_engine_does_not_take_the_lease_back() {
    decides_for_both(ChangeRequest::Cancel).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_not_put_off_at_another_engine_while_it_is_handed_over_here() {
    decides_for_both(ChangeRequest::PutOff).await;
}
