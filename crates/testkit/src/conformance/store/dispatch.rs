//! Hand-overs of tasks: attempts, fences, leases, races.

use super::sample::{
    EXECUTOR, KEEP, LATER, LEASE_END, NEXT, NOW, apply, dispatch, full, grant, insert, moved, read, step,
    version,
};
use punctual_contract::{
    Store,
    store::{Applied, Change, Dispatched, Grant},
};
use punctual_domain::{
    state::State,
    task::{Lease, NewTask, Task},
};
use std::sync::Arc;
use tokio::task::JoinSet;

async fn claimed(store: &dyn Store, ask: NewTask) -> Task {
    let task = insert(store, ask).await.task;
    moved(store, &task, Change::Claim, NOW).await
}

pub async fn a_dispatch_spends_an_attempt_and_makes_fence_and_lease(store: Arc<dyn Store>) {
    let before = claimed(&*store, version(1, 0)).await;
    let assignment = dispatch(&*store, grant(&before, NOW.plus(4)), LATER).await.unwrap();
    let task = read(&*store, before.place).await;
    assert!(task.fence > before.fence);
    assert_eq!((task.state, task.attempt, task.fence), (State::Dispatched, 1, assignment.fence));
    assert_eq!((task.fired_at, task.due_at), (Some(NOW.plus(4)), NOW));
    let executor = EXECUTOR.to_owned();
    let lease = Lease { executor, until: LEASE_END, since: LATER, cancel_requested: false };
    assert_eq!(task.lease, Some(lease));
}

/// Ids ascend as they were inserted; due times and the times of firing do not, and the latter are no sum of the former.
pub async fn each_of_many_keeps_its_own_instant_of_firing(store: Arc<dyn Store>) {
    for (round, count) in (0..).zip([5_i64, 12, 40, 300]) {
        let due = |nth: i64| NOW.plus(-(nth * 37 % 101));
        let ask = |nth: i64| NewTask { execute_at: due(nth), ..version(1_000 * round + nth, 0) };
        let inserted = store.insert((0..count).map(ask).collect(), "test", NOW.plus(-200)).await.unwrap();
        let fired = |nth: i64| NOW.plus(nth * 53 % 89);
        let mut grants: Vec<Grant> =
            (0..).zip(&inserted).map(|(nth, inserted)| grant(&inserted.task, fired(nth))).collect();
        grants.reverse();
        let made = store.dispatch(grants, LATER).await.unwrap();
        assert!(made.iter().all(|dispatched| matches!(dispatched, Dispatched::Made(_))), "{count}");
        for (nth, inserted) in (0..).zip(&inserted) {
            assert_eq!(
                read(&*store, inserted.task.place).await.fired_at,
                Some(fired(nth)),
                "{nth} of {count}"
            );
        }
    }
}

pub async fn an_assignment_says_all_that_an_executor_needs(store: Arc<dyn Store>) {
    let asked = NewTask { execute_at: NOW.plus(-7), ..full(1) };
    let task = claimed(&*store, asked.clone()).await;
    let lease = dispatch(&*store, grant(&task, NOW.plus(2)), NOW).await.unwrap();
    assert_eq!((lease.place.id, lease.place.partition), (task.place.id, task.place.partition));
    assert_eq!((lease.task_id, lease.task_version, lease.attempt, lease.max_attempts), (1, 3, 1, 7));
    assert_eq!((lease.queue, lease.kind, lease.priority), (asked.queue, asked.kind, asked.priority));
    assert_eq!((lease.payload, lease.traceparent), (asked.payload, asked.traceparent));
    assert_eq!((lease.timeout_ms, lease.labels), (asked.timeout_ms, asked.labels));
    assert_eq!((lease.execute_at, lease.due_at), (NOW.plus(-7), NOW));
    assert_eq!(
        (lease.fired_at, lease.lease_until),
        (NOW.plus(2), NOW.plus(30_002)),
        "it begins when it fires"
    );
}

pub async fn a_lease_ends_no_later_than_the_timeout_allows(store: Arc<dyn Store>) {
    let table = [(Some(1_000), LATER.plus(1_000)), (Some(9_999_999), LEASE_END), (None, LEASE_END)];
    for (id, (timeout_ms, until)) in (0..).zip(table) {
        let task = claimed(&*store, NewTask { timeout_ms, ..version(id, 0) }).await;
        let assignment = dispatch(&*store, grant(&task, NOW), LATER).await.unwrap();
        assert_eq!(assignment.lease_until, until, "{timeout_ms:?}");
        assert_eq!(read(&*store, task.place).await.lease.unwrap().until, until, "{timeout_ms:?}");
    }
}

pub async fn an_old_fence_is_not_dispatched(store: Arc<dyn Store>) {
    let task = claimed(&*store, version(1, 0)).await;
    let change = Change::Reschedule { execute_at: Some(NEXT), priority: None, payload: None, queue: None };
    let changed = moved(&*store, &task, change, NOW).await;
    let changed = moved(&*store, &changed, Change::Claim, NOW).await;
    assert_eq!(dispatch(&*store, grant(&task, NOW), NOW).await, None);
    assert_eq!(read(&*store, task.place).await, changed);
    assert!(dispatch(&*store, grant(&changed, NOW), NOW).await.is_some());
}

pub async fn one_task_twice_in_a_batch_is_handed_over_once(store: Arc<dyn Store>) {
    let task = claimed(&*store, version(1, 0)).await;
    let other = Grant { executor: "executor-2".to_owned(), ..grant(&task, NOW) };
    let assigned = store.dispatch(vec![grant(&task, NOW), other], NOW).await.unwrap();
    let made = |dispatched: &Dispatched| matches!(dispatched, Dispatched::Made(_));
    assert_eq!(assigned.iter().map(made).collect::<Vec<_>>(), [true, false]);
    let task = read(&*store, task.place).await;
    assert_eq!((task.lease.unwrap().executor.as_str(), task.attempt), (EXECUTOR, 1));
}

pub async fn grants_are_answered_in_their_order(store: Arc<dyn Store>) {
    let mut grants = Vec::new();
    for id in 0..200 {
        let task = insert(&*store, version(id, 0)).await.task;
        let change = if id % 4 == 1 { Change::Cancel { keep_until: KEEP } } else { Change::Claim };
        let task = moved(&*store, &task, change, NOW).await;
        grants.push((id, grant(&task, NOW)));
    }
    fastrand::Rng::with_seed(5).shuffle(&mut grants);
    let ids: Vec<i64> = grants.iter().map(|(id, _)| *id).collect();
    let assigned = store.dispatch(grants.into_iter().map(|(_, grant)| grant).collect(), NOW).await.unwrap();
    assert_eq!(assigned.len(), 200);
    for (id, dispatched) in ids.iter().zip(assigned) {
        assert_eq!(dispatched.made().map(|lease| lease.task_id), (id % 4 != 1).then_some(*id));
    }
}

pub async fn of_many_who_dispatch_one_task_one_gets_it(store: Arc<dyn Store>) {
    let task = claimed(&*store, version(1, 0)).await;
    let mut engines = JoinSet::new();
    for number in 0..64 {
        let grant = Grant { executor: format!("executor-{number}"), ..grant(&task, NOW) };
        let store = Arc::clone(&store);
        engines.spawn(async move { (grant.executor.clone(), dispatch(&*store, grant, NOW).await) });
    }
    let won: Vec<_> = engines.join_all().await.into_iter().filter(|(_, lease)| lease.is_some()).collect();
    assert_eq!(won.len(), 1);
    let task = read(&*store, task.place).await;
    assert_eq!((task.attempt, &task.lease.unwrap().executor), (1, &won[0].0));
}

pub async fn a_cancel_and_a_dispatch_never_both_win(store: Arc<dyn Store>) {
    for id in 0..50 {
        let task = claimed(&*store, version(id, 0)).await;
        let mut race = JoinSet::new();
        let (one, cancel) = (Arc::clone(&store), step(&task, Change::Cancel { keep_until: KEEP }));
        race.spawn(async move { apply(&*one, cancel, NOW).await == Applied::Moved });
        let (two, grant) = (Arc::clone(&store), grant(&task, NOW));
        race.spawn(async move { dispatch(&*two, grant, NOW).await.is_some() });
        let won = race.join_all().await.into_iter().filter(|flag| *flag).count();
        assert_eq!(won, 1, "exactly one");
        let state = read(&*store, task.place).await.state;
        assert!(matches!(state, State::Cancelled | State::Dispatched));
    }
}

pub async fn each_attempt_has_a_higher_fence_than_the_last(store: Arc<dyn Store>) {
    let mut task = insert(&*store, version(1, 0)).await.task;
    let mut last = task.fence;
    for attempt in 1..6 {
        task = moved(&*store, &task, Change::Claim, NOW).await;
        let assignment = dispatch(&*store, grant(&task, NOW), NOW).await.unwrap();
        assert_eq!(assignment.attempt, attempt);
        assert!(assignment.fence > last, "{} after {last}", assignment.fence);
        last = assignment.fence;
        task = read(&*store, task.place).await;
        task = moved(&*store, &task, Change::Retry { due_at: NOW, result: None }, NOW).await;
    }
}
