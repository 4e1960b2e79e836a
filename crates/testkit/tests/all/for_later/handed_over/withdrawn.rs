//! Tasks that callers withdraw or bury around a hand-over without the database: each is told what is so, and nobody gets what was
//! withdrawn.

use super::{LONG_MS, Rig, hands_over, owns_all, ready_rig, request, rig};
use crate::{
    crash_points::{Embedded, Ground, OnServers, queue, succeeded},
    limits::set_queue,
};
use punctual_contract::store::Assignment;
use punctual_domain::{place::TaskRef, state::State};
use punctual_engine::{Cancelled, Changed, Settled};
use punctual_testkit::{
    faults::{Dials, StoreGroup},
    patience::until,
};
use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering::SeqCst},
};

impl Rig {
    async fn state(&self, place: TaskRef) -> State {
        self.truth.read(&[place]).await.unwrap().remove(0).unwrap().state
    }

    async fn is_ready(&self, place: TaskRef) {
        until("the database has it as ready", || async { self.state(place).await == State::Ready }).await;
    }
}

/// Before step 5 the database has them as ready, and executors have them: whoever wants them stopped or buried is told so.
async fn what_executors_have_is_not_withdrawn_before_its_lease_is_written(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = ready_rig(&*ground, directory.path()).await;
    for place in rig.inserted(3).await {
        rig.is_ready(place).await;
    }
    rig.goes_away();
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
        assert_eq!(rig.settle(succeeded(lease)).await, Settled::Accepted);
    }
    assert_eq!((rig.numbers().leases_written, rig.numbers().leases_refused), (4, 0));
    rig.stop().await;
}

/// One of two databases fails, and what has fired there is set aside. It is back, and some of it is withdrawn or buried before it is
/// offered again. Then it is away once more.
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
    rig.nothing_comes().await;
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
    rig.nothing_comes().await;
    let handed_over: HashSet<i64> = leased.into_inner().iter().map(|lease| lease.place.id).collect();
    assert!(!handed_over.contains(&cancelled.id), "an executor has what was withdrawn");
    assert!(!handed_over.contains(&buried.id), "an executor has what is dead");
    assert_eq!(handed_over.len(), away.len() - 2);
    rig.store.set_part_away(None);
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
}
