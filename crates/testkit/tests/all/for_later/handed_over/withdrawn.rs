//! Tasks that callers withdraw or bury around a hand-over without the database: each caller gets the true
//! state, and no executor gets a withdrawn task.

use super::{ForLaterRig, LONG_MS, hands_over, owns_all, ready_rig, request, rig};
use crate::{
    crash_points::{Embedded, Ground, OnServers, queue},
    limits::set_queue,
};
use punctual_contract::store::{Assignment, Change, Step};
use punctual_domain::{
    history::Note, insert::Decision, name::Name, place::TaskRef, state::State, task::NewTask,
};
use punctual_engine::{Cancelled, Changed};
use punctual_testkit::{
    faults::{Dials, StoreGroup},
    patience::{HANG_LIMIT, until},
};
use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering::SeqCst},
};
use tokio::{task::JoinSet, time::timeout};

impl ForLaterRig {
    async fn state(&self, place: TaskRef) -> State {
        self.truth.read(&[place]).await.unwrap().remove(0).unwrap().state
    }

    async fn is_ready(&self, place: TaskRef) {
        until("the database has it as ready", || async { self.state(place).await == State::Ready }).await;
    }
}

/// Before step 5 the tasks are ready in the database, but executors have them: a caller that cancels or
/// buries one gets that answer.
async fn what_executors_have_is_not_withdrawn_before_its_lease_is_written(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = ready_rig(&*ground, directory.path()).await;
    for place in rig.inserted(3).await {
        rig.is_ready(place).await;
    }
    rig.lose_database();
    rig.journal.hides.store(true, SeqCst);
    let mut leased = rig.handed_over(3, "ann", LONG_MS).await;
    rig.inserted(1).await;
    leased.extend(rig.handed_over(1, "ann", LONG_MS).await);
    rig.store.faults.heal();
    for lease in [&leased[0], &leased[3]] {
        let stopped = rig.engine.cancel(lease.place, true, "test").await.unwrap();
        assert!(matches!(stopped, Cancelled::AlreadyFired(_)), "{stopped:?}");
    }
    let buried = rig.engine.bury(leased[1].place, None, "test").await.unwrap();
    assert!(matches!(buried, Changed::Refused(_)), "{buried:?}");
    rig.journal.hides.store(false, SeqCst);
    for lease in &leased {
        until("its lease is written", || async { rig.state(lease.place).await == State::Dispatched }).await;
        rig.ends_well(lease).await;
    }
    assert_eq!((rig.numbers().leases_written, rig.numbers().leases_refused), (4, 0));
    rig.stop().await;
}

/// One of two databases fails, and tasks that fired there are deferred. It answers again, and some of the
/// tasks are withdrawn or buried before they are offered again. Then it is unavailable once more.
async fn what_was_withdrawn_while_it_was_set_aside_is_not_handed_over(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = rig(&*ground, directory.path()).await;
    owns_all(&rig).await;
    rig.store.split(2);
    let is_away = |place: &TaskRef| place.partition.0 % 2 == 1;
    let (away, good): (Vec<TaskRef>, Vec<TaskRef>) = rig.inserted(20).await.into_iter().partition(is_away);
    assert!(away.len() > 2 && !good.is_empty(), "{} and {}", away.len(), good.len());
    rig.store.faults.set(StoreGroup::Scan, Dials::REFUSES);
    rig.store.set_part_away(Some(1));
    let leased = rig.handed_over(good.len(), "ann", LONG_MS).await;
    assert!(leased.iter().all(|lease| !is_away(&lease.place)));
    rig.nothing_is_leased().await;
    rig.store.set_part_away(None);
    let (cancelled, buried) = (away[0], away[1]);
    let stopped = rig.engine.cancel(cancelled, true, "test").await.unwrap();
    assert!(matches!(stopped, Cancelled::Cancelled(_)), "{stopped:?}");
    rig.is_ready(buried).await;
    let changed = rig.engine.bury(buried, None, "test").await.unwrap();
    assert!(matches!(changed, Changed::Changed(_)), "{changed:?}");
    set_queue(&rig.engine, &queue(), hands_over()).await;
    rig.store.faults.heal();
    let before = rig.runs_of("parts");
    until("what was set aside is offered", || async { rig.runs_of("parts") > before + 5 }).await;
    rig.store.set_part_away(Some(1));
    let leased = parking_lot::Mutex::new(Vec::<Assignment>::new());
    until("all others are handed over", || async {
        let more = rig.engine.lease(request(queue(), "ann", LONG_MS)).await.unwrap_or_default();
        leased.lock().extend(more);
        leased.lock().len() >= away.len() - 2
    })
    .await;
    rig.nothing_is_leased().await;
    let handed_over: HashSet<i64> = leased.into_inner().iter().map(|lease| lease.place.id).collect();
    assert!(!handed_over.contains(&cancelled.id), "an executor has what was withdrawn");
    assert!(!handed_over.contains(&buried.id), "an executor has what is dead");
    assert_eq!(handed_over.len(), away.len() - 2);
    rig.store.set_part_away(None);
    rig.stop().await;
}

/// One task has fired and is ready, the other waits in the table: both are postponed by inserts that replace
/// them.
async fn what_was_replaced_is_not_handed_over(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = ready_rig(&*ground, directory.path()).await;
    let now = rig.engine.now();
    let (soon, later) = (now.plus(2_000), now.plus(LONG_MS));
    let task = |id, at| NewTask { task_id: Some(id), ..NewTask::new(queue(), Name::new("k").unwrap(), at) };
    let inserted = rig.engine.insert(vec![task(1, now), task(2, soon)], "test").await.unwrap();
    rig.is_ready(inserted[0].task.place).await;
    let replaced = rig.engine.insert(vec![task(1, later), task(2, later)], "test").await.unwrap();
    assert!(replaced.iter().all(|one| one.decision == Decision::Replace), "{replaced:?}");
    rig.lose_database();
    until("both would have been due", || async { rig.engine.now() > soon.plus(500) }).await;
    rig.nothing_is_leased().await;
    rig.store.faults.heal();
    for one in replaced {
        assert_eq!(rig.state(one.task.place).await, State::Scheduled);
    }
    rig.stop().await;
}

/// It waits in the table, is put off, and then its queue is set to hand over.
async fn what_was_replaced_before_its_queue_hands_over_is_not_handed_over(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = rig(&*ground, directory.path()).await;
    owns_all(&rig).await;
    let soon = rig.engine.now().plus(2_000);
    let task = |at| NewTask { task_id: Some(1), ..NewTask::new(queue(), Name::new("k").unwrap(), at) };
    rig.engine.insert(vec![task(soon)], "test").await.unwrap();
    let replaced = rig.engine.insert(vec![task(soon.plus(LONG_MS))], "test").await.unwrap().remove(0);
    assert_eq!(replaced.decision, Decision::Replace);
    set_queue(&rig.engine, &queue(), hands_over()).await;
    rig.lose_database();
    until("it would have been due", || async { rig.engine.now() > soon.plus(500) }).await;
    rig.nothing_is_leased().await;
    rig.store.faults.heal();
    assert_eq!(rig.state(replaced.task.place).await, State::Scheduled);
    rig.stop().await;
}

/// Due beyond what an engine keeps in its table, so it is in the hot set; its new version is due beyond the horizon, and is not.
async fn what_was_replaced_in_the_hot_set_is_not_handed_over(ground: Arc<dyn Ground>) {
    const BEYOND_THE_TABLE_MS: i64 = 12_000;
    let directory = tempfile::tempdir().unwrap();
    let rig = ready_rig(&*ground, directory.path()).await;
    let soon = rig.engine.now().plus(BEYOND_THE_TABLE_MS);
    let task = |at| NewTask { task_id: Some(1), ..NewTask::new(queue(), Name::new("k").unwrap(), at) };
    rig.engine.insert(vec![task(soon)], "test").await.unwrap();
    let replaced = rig.engine.insert(vec![task(soon.plus(2 * LONG_MS))], "test").await.unwrap().remove(0);
    assert_eq!(replaced.decision, Decision::Replace);
    rig.lose_database();
    until("it would have been due", || async { rig.engine.now() > soon.plus(500) }).await;
    rig.nothing_is_leased().await;
    rig.store.faults.heal();
    assert_eq!(rig.state(replaced.task.place).await, State::Scheduled);
    rig.stop().await;
}

/// No engine knows whether the database has cancelled the tasks: it has cancelled one, and not the other.
async fn what_may_be_cancelled_waits_for_its_database(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = ready_rig(&*ground, directory.path()).await;
    let at = rig.engine.now().plus(2_000);
    let task = || NewTask::new(queue(), Name::new("k").unwrap(), at);
    let inserted = rig.engine.insert(vec![task(), task()], "test").await.unwrap();
    let [cancelled, not] = [&inserted[0], &inserted[1]].map(|one| one.task.place);
    rig.store.faults.set(StoreGroup::Scan, Dials::REFUSES);
    for (place, dials) in [(cancelled, Dials::ANSWERS_LOST), (not, Dials::SILENT)] {
        rig.store.faults.set(StoreGroup::Apply, dials);
        rig.engine.cancel(place, false, "test").await.unwrap_err();
    }
    rig.lose_database();
    until("both would have been due", || async { rig.engine.now() > at.plus(500) }).await;
    rig.nothing_is_leased().await;
    rig.store.faults.heal();
    let lease = rig.handed_over(1, "ann", LONG_MS).await.remove(0);
    assert_eq!(lease.place.id, not.id);
    assert_eq!(rig.state(cancelled).await, State::Cancelled);
    rig.stop().await;
}

/// The database has cancelled the task after all, by a call that this engine had given up: the engine still
/// has the old entry. Then a caller gets the answer that the task is cancelled.
async fn what_a_caller_was_told_is_cancelled_is_not_handed_over(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = ready_rig(&*ground, directory.path()).await;
    let at = rig.engine.now().plus(2_000);
    let task = NewTask::new(queue(), Name::new("k").unwrap(), at);
    let place = rig.engine.insert(vec![task], "test").await.unwrap()[0].task.place;
    let fence = rig.truth.read(&[place]).await.unwrap().remove(0).unwrap().fence;
    let late = Step {
        place,
        fence: Some(fence),
        change: Change::Cancel { keep_until: at.plus(LONG_MS) },
        note: Note::default(),
        fired_at: None,
        known: None,
    };
    rig.truth.apply(vec![late], rig.engine.now()).await.unwrap();
    let reported = rig.engine.cancel(place, false, "test").await.unwrap();
    assert!(matches!(reported, Cancelled::Cancelled(_)), "{reported:?}");
    rig.lose_database();
    until("it would have been due", || async { rig.engine.now() > at.plus(500) }).await;
    rig.nothing_is_leased().await;
    rig.stop().await;
}

/// It has fired, and an engine waits for the database to make its lease, which does not answer. Meanwhile the database cancels it.
async fn what_is_cancelled_while_its_lease_is_asked_for_is_not_handed_over(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = ready_rig(&*ground, directory.path()).await;
    let place = rig.inserted(1).await[0];
    rig.is_ready(place).await;
    let gate = rig.store.faults.hold(StoreGroup::Dispatch);
    let (engine, mut asking) = (rig.engine.clone(), JoinSet::new());
    asking.spawn(async move { engine.lease(request(queue(), "ann", LONG_MS)).await });
    gate.reached().await;
    let reported = rig.engine.cancel(place, true, "test").await.unwrap();
    assert!(matches!(reported, Cancelled::Cancelled(_)), "{reported:?}");
    let leased = timeout(HANG_LIMIT, asking.join_next()).await.unwrap().unwrap().unwrap();
    assert!(leased.unwrap_or_default().is_empty());
    rig.nothing_is_leased().await;
    gate.open();
    rig.stop().await;
}

/// The database makes no leases and takes its time for a cancel. Meanwhile a read brings the task again, as it was, and it is due.
async fn what_is_read_again_while_its_cancel_is_under_way_is_not_handed_over(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = ready_rig(&*ground, directory.path()).await;
    let at = rig.engine.now().plus(1_000);
    let task = NewTask::new(queue(), Name::new("k").unwrap(), at);
    let place = rig.engine.insert(vec![task], "test").await.unwrap()[0].task.place;
    let gate = rig.store.faults.hold(StoreGroup::Apply);
    let (engine, mut cancelling) = (rig.engine.clone(), JoinSet::new());
    cancelling.spawn(async move { engine.cancel(place, false, "test").await });
    gate.reached().await;
    rig.store.faults.set(StoreGroup::Dispatch, Dials::REFUSES);
    until("it is overdue", || async { rig.engine.now() > at.plus(2_500) }).await;
    let before = rig.runs_of("refill");
    until("what is overdue was looked at", || async { rig.runs_of("refill") > before + 1 }).await;
    rig.nothing_is_leased().await;
    rig.store.faults.heal();
    gate.open();
    let answer = timeout(HANG_LIMIT, cancelling.join_next()).await.unwrap().unwrap().unwrap().unwrap();
    assert!(matches!(answer, Cancelled::Cancelled(_)), "{answer:?}");
    rig.nothing_is_leased().await;
    rig.stop().await;
}

macro_rules! on_both {
    ($($case:ident)*) => {
        mod embedded {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(Embedded::ground().await).await;
            })*
        }
        mod servers {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(OnServers::ground().await).await;
            })*
        }
    };
}

on_both! {
    what_executors_have_is_not_withdrawn_before_its_lease_is_written
    what_was_withdrawn_while_it_was_set_aside_is_not_handed_over
    what_was_replaced_is_not_handed_over
    what_was_replaced_before_its_queue_hands_over_is_not_handed_over
    what_was_replaced_in_the_hot_set_is_not_handed_over
    what_may_be_cancelled_waits_for_its_database
    what_a_caller_was_told_is_cancelled_is_not_handed_over
    what_is_cancelled_while_its_lease_is_asked_for_is_not_handed_over
    what_is_read_again_while_its_cancel_is_under_way_is_not_handed_over
}
