//! Inserts of tasks that executors got during an outage of the database, before it knows their leases (A2): a
//! running attempt is the answer, and is not replaced. A pause does not keep started attempts from being
//! written to the database.

use super::{ForLaterRig, LONG_MS, hands_over, ready_rig, request};
use crate::{
    crash_points::{Embedded, Ground, OnServers, queue},
    limits::set_queue,
};
use punctual_contract::store::{Assignment, Inserted};
use punctual_domain::{
    insert::Decision,
    name::Name,
    settings::{Pause, QueueSettings},
    state::State,
    task::NewTask,
    time::Millis,
};
use punctual_testkit::{
    faults::{Dials, StoreGroup},
    patience::until,
};
use std::sync::{Arc, atomic::Ordering::SeqCst};

impl ForLaterRig {
    fn wish(&self, task_id: i64) -> NewTask {
        let task_id = Some(task_id);
        let task = NewTask::new(queue(), Name::new("k").unwrap(), self.engine.now());
        NewTask { task_id, task_version: 1, ..task }
    }

    /// An executor has it while the database is unavailable, which is back then, and does not see the lease as long as the journal hides it.
    async fn with_executor(&self, task_id: i64) -> Assignment {
        self.engine.insert(vec![self.wish(task_id)], "test").await.unwrap();
        self.lose_database();
        self.journal.hides.store(true, SeqCst);
        let lease = self.handed_over(1, "ann", LONG_MS).await.remove(0);
        self.store.faults.heal();
        lease
    }

    async fn insert_again(&self, task_id: i64) -> Inserted {
        self.engine.insert(vec![self.wish(task_id)], "test").await.unwrap().remove(0)
    }

    async fn is_written(&self, lease: &Assignment) {
        until("its lease is written", || async { self.task(lease).await.state == State::Dispatched }).await;
    }

    /// The second insert returns the running attempt, and the outcome of that attempt counts.
    async fn is_still(&self, lease: &Assignment, again: &Inserted) {
        assert_eq!((again.decision, again.task.place.id), (Decision::ReturnExisting, lease.place.id));
        assert_eq!((again.task.state, again.task.fence), (State::Dispatched, lease.fence));
        self.ends_well(lease).await;
        assert_eq!(self.insert_again(lease.task_id).await.decision, Decision::ReturnExisting);
        let numbers = self.numbers();
        assert_eq!((numbers.leases_written, numbers.leases_refused), (1, 0));
    }
}

/// The database is back, and its lease cannot be written yet: the insert is refused, and others are not. When it can be, the insert waits
/// for it and is answered.
async fn what_an_executor_has_is_answered_and_not_replaced(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = ready_rig(&*ground, directory.path()).await;
    let lease = rig.with_executor(7).await;
    let older = NewTask { task_version: 0, ..rig.wish(7) };
    let answers = rig.engine.insert_each(vec![rig.wish(7), rig.wish(8), older], "test").await.unwrap();
    let decisions: Vec<Option<Decision>> =
        answers.iter().map(|answer| answer.as_ref().ok().map(|inserted| inserted.decision)).collect();
    assert_eq!(decisions, [None, Some(Decision::Create), Some(Decision::Superseded)]);
    rig.store.faults.set(StoreGroup::Dispatch, Dials::REFUSES);
    let (again, ()) = tokio::join!(rig.insert_again(7), async {
        rig.journal.hides.store(false, SeqCst);
        rig.store.faults.heal();
    });
    rig.is_still(&lease, &again).await;
    rig.stop().await;
}

/// A pause stops tasks before they begin, and this one has begun.
async fn a_pause_keeps_no_lease_from_the_database(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = ready_rig(&*ground, directory.path()).await;
    let lease = rig.with_executor(7).await;
    let pause = Some(Pause { at: Millis(1), by: "ann".to_owned(), reason: None });
    set_queue(&rig.engine, &queue(), QueueSettings { pause, ..hands_over() }).await;
    rig.insert_again(8).await;
    rig.journal.hides.store(false, SeqCst);
    rig.is_written(&lease).await;
    rig.nothing_is_leased().await;
    let again = rig.insert_again(7).await;
    rig.is_still(&lease, &again).await;
    rig.stop().await;
}

/// The database hangs during an insert that replaces a task. Meanwhile no executor gets that task, and others
/// are handed over.
async fn what_an_insert_is_about_to_replace_is_not_handed_over(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = ready_rig(&*ground, directory.path()).await;
    let at = rig.engine.now().plus(1_500);
    let wishes = [7, 8].map(|id| NewTask { execute_at: at, ..rig.wish(id) });
    let inserted = rig.engine.insert(wishes.to_vec(), "test").await.unwrap();
    let gate = rig.store.faults.hold(StoreGroup::Insert);
    rig.lose_database();
    let later = NewTask { execute_at: rig.engine.now().plus(LONG_MS), ..rig.wish(7) };
    let engine = rig.engine.clone();
    #[expect(clippy::disallowed_methods, reason = "a caller that waits")]
    let caller = tokio::spawn(async move { engine.insert(vec![later], "test").await });
    gate.reached().await;
    let lease = rig.handed_over(1, "ann", LONG_MS).await.remove(0);
    assert_eq!(lease.place.id, inserted[1].task.place.id);
    rig.nothing_is_leased().await;
    gate.open();
    let replaced = caller.await.unwrap().unwrap().remove(0);
    assert_eq!((replaced.decision, replaced.task.state), (Decision::Replace, State::Scheduled));
    rig.store.faults.heal();
    rig.is_written(&lease).await;
    assert!(rig.engine.lease(request(queue(), "bob", LONG_MS)).await.unwrap().is_empty());
    assert_eq!(rig.numbers().leases_refused, 0);
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
    what_an_executor_has_is_answered_and_not_replaced
    a_pause_keeps_no_lease_from_the_database
    what_an_insert_is_about_to_replace_is_not_handed_over
}
