//! What cannot be handed over while its database is unavailable keeps nothing waiting that can: the others of its queue, of other databases, and
//! of partitions that another engine has. And places of limits are kept meanwhile.

use super::{ForLaterRig, LONG_MS, hands_over, ids, journal, owns_all, ready_rig, request, rig, rig_with};
use crate::{
    crash_points::{Embedded, Ground, OnServers, queue, succeeded},
    limits::set_queue,
};
use punctual_contract::{
    limiter::{Held, Member},
    store::Assignment,
};
use punctual_domain::{
    name::Name,
    settings::QueueSettings,
    state::State,
    task::{Content, NewTask},
};
use punctual_engine::{LeaseRequest, Reported};
use punctual_testkit::{
    faults::{Dials, StoreGroup},
    patience::{HANG_LIMIT, until},
};
use std::{collections::HashSet, sync::Arc};

/// Payloads that no entry brings along: only the database has them.
async fn inserted_large(rig: &ForLaterRig, count: usize) {
    let payload = Content::json(format!("\"{}\"", "x".repeat(2_000)));
    let at = rig.engine.now().plus(-1_000);
    let task = || NewTask { payload: payload.clone(), ..NewTask::new(queue(), Name::new("k").unwrap(), at) };
    rig.engine.insert((0..count).map(|_| task()).collect(), "test").await.unwrap();
}

async fn leased_one_by_one(rig: &ForLaterRig, count: usize) -> Vec<Assignment> {
    let leased = parking_lot::Mutex::new(Vec::new());
    until("those behind are handed over", || async {
        let one = LeaseRequest { max: 1, ..request(queue(), "ann", LONG_MS) };
        let more = rig.engine.lease(one).await.unwrap_or_default();
        leased.lock().extend(more);
        leased.lock().len() >= count
    })
    .await;
    leased.into_inner()
}

/// The large tasks are at the head of the queue, and an executor asks for one task at a time.
async fn what_only_the_database_has_keeps_nothing_behind_it_waiting(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = ready_rig(&*ground, directory.path()).await;
    inserted_large(&rig, 3).await;
    let places = rig.inserted(4).await;
    rig.lose_database();
    let leased = leased_one_by_one(&rig, 4).await;
    let small: HashSet<i64> = places.iter().map(|place| place.id).collect();
    assert_eq!(leased.iter().map(|lease| lease.place.id).collect::<HashSet<_>>(), small);
    rig.nothing_is_leased().await;
    for lease in &leased {
        assert_eq!(rig.record_outcomes(succeeded(lease)).await, Reported::ForLater);
    }
    rig.store.faults.heal();
    // Those that were set aside come from the database, each once.
    let large = rig.handed_over(3, "ann", LONG_MS).await;
    for lease in &large {
        assert_eq!((lease.attempt, small.contains(&lease.place.id)), (1, false));
        rig.ends_well(lease).await;
    }
    for lease in leased.iter().chain(&large) {
        rig.has_ended_well(lease).await;
    }
    rig.nothing_is_leased().await;
    rig.stop().await;
}

/// One of two is unavailable. Its tasks are handed over without it, and the other's by it.
async fn of_several_databases_one_is_away(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = ready_rig(&*ground, directory.path()).await;
    rig.store.split(2);
    inserted_large(&rig, 4).await;
    let places = rig.inserted(20).await;
    rig.store.set_part_away(Some(1));
    let is_away = |lease: &Assignment| lease.place.partition.0 % 2 == 1;
    let small: HashSet<i64> = places.iter().map(|place| place.id).collect();
    let leased = parking_lot::Mutex::new(Vec::new());
    until("all that can be is handed over", || async {
        let more = rig.engine.lease(request(queue(), "ann", LONG_MS)).await.unwrap_or_default();
        leased.lock().extend(more);
        leased.lock().iter().filter(|lease: &&Assignment| small.contains(&lease.place.id)).count() == 20
    })
    .await;
    let leased = leased.into_inner();
    assert_eq!(
        leased.iter().map(|lease| lease.place.id).collect::<HashSet<_>>().len(),
        leased.len(),
        "each once"
    );
    let without = leased.iter().filter(|lease| is_away(lease)).count();
    assert_eq!(rig.numbers().handed_over, without as u64);
    assert!(without > 0 && without < 20, "{without}");
    for lease in &leased {
        let wanted = if is_away(lease) { Reported::ForLater } else { Reported::Accepted };
        assert_eq!(rig.record_outcomes(succeeded(lease)).await, wanted);
    }
    rig.store.set_part_away(None);
    let rest = rig.handed_over(24 - leased.len(), "ann", LONG_MS).await;
    for lease in &rest {
        rig.ends_well(lease).await;
    }
    for lease in leased.iter().chain(&rest) {
        rig.has_ended_well(lease).await;
    }
    assert_eq!((rig.numbers().leases_refused, rig.numbers().stale), (0, 0));
    rig.stop().await;
}

async fn held(rig: &ForLaterRig, lease: &Assignment) -> Option<Held> {
    let member = Member { id: lease.place.id, fence: lease.fence };
    rig.limiter.find(&[member]).await.unwrap().pop()
}

/// The database answers reads, and shows no lease of the task. The grant is a minute old.
async fn a_place_is_kept_as_long_as_its_lease_is_not_written(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = rig(&*ground, directory.path()).await;
    let limited = QueueSettings { concurrency: Some(1), ..hands_over() };
    set_queue(&rig.engine, &queue(), limited).await;
    owns_all(&rig).await;
    rig.inserted(2).await;
    for group in [StoreGroup::Apply, StoreGroup::Dispatch, StoreGroup::Extend, StoreGroup::Leases] {
        rig.store.faults.set(group, Dials::REFUSES);
    }
    let first = rig.handed_over(1, "ann", LONG_MS).await.remove(0);
    let place = held(&rig, &first).await.expect("it holds a place");
    let now = rig.engine.now();
    let old = Held { granted_at: now.plus(-60_000), until: now.plus(-1), ..place };
    rig.limiter.restore(vec![old]).await.unwrap();
    let before = rig.runs_of("reconcile");
    until("places were looked at", || async { rig.runs_of("reconcile") > before + 3 }).await;
    let kept = held(&rig, &first).await.expect("it holds its place still");
    assert!(kept.granted_at > now.plus(-1), "another engine that looks finds it granted lately");
    rig.nothing_is_leased().await;
    assert_eq!(rig.record_outcomes(succeeded(&first)).await, Reported::ForLater);
    rig.store.faults.heal();
    rig.has_ended_well(&first).await;
    let second = rig.handed_over(1, "ann", LONG_MS).await.remove(0);
    assert_ne!(second.place.id, first.place.id);
    assert!(held(&rig, &first).await.is_none(), "its place is the second one's");
    rig.ends_well(&second).await;
    rig.stop().await;
}

/// The database is known to be unavailable: what cannot be handed over without it takes no place of a limit from what can.
async fn what_only_the_database_has_takes_no_place(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = rig(&*ground, directory.path()).await;
    let limited = QueueSettings { concurrency: Some(2), ..hands_over() };
    set_queue(&rig.engine, &queue(), limited).await;
    owns_all(&rig).await;
    rig.inserted(1).await;
    rig.lose_database();
    let first = leased_one_by_one(&rig, 1).await.remove(0);
    inserted_large(&rig, 3).await;
    let place = rig.inserted(1).await.remove(0);
    let second = leased_one_by_one(&rig, 1).await.remove(0);
    assert_eq!(second.place.id, place.id);
    for lease in [&first, &second] {
        assert_eq!(rig.record_outcomes(succeeded(lease)).await, Reported::ForLater);
    }
    rig.store.faults.heal();
    for _ in 0..3 {
        let lease = leased_one_by_one(&rig, 1).await.remove(0);
        assert_eq!(lease.attempt, 1);
        rig.ends_well(&lease).await;
    }
    rig.stop().await;
}

/// The database refuses leases, and does not answer reads of tasks that cannot be handed over without it.
async fn whoever_is_handed_something_does_not_wait_for_what_is_not(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = rig(&*ground, directory.path()).await;
    let limited = QueueSettings { concurrency: Some(10), ..hands_over() };
    set_queue(&rig.engine, &queue(), limited).await;
    owns_all(&rig).await;
    rig.inserted(1).await;
    let before = rig.handed_over(1, "ann", LONG_MS).await.remove(0);
    rig.ends_well(&before).await;
    let gate = rig.store.faults.hold(StoreGroup::Read);
    rig.lose_database();
    inserted_large(&rig, 1).await;
    let place = rig.inserted(1).await.remove(0);
    let leased = tokio::time::timeout(HANG_LIMIT / 2, rig.handed_over(1, "ann", LONG_MS)).await;
    let leased = leased.expect("an executor waits for a database that says nothing").remove(0);
    assert_eq!(leased.place.id, place.id);
    assert_eq!(rig.record_outcomes(succeeded(&leased)).await, Reported::ForLater);
    gate.open();
    rig.store.faults.heal();
    rig.has_ended_well(&leased).await;
    rig.stop().await;
}

/// Engine A cannot reach the database, and another engine takes over a share of its partitions. A hands over
/// tasks of the partitions that it still owns, the other engine those it took over. Each task runs once.
#[tokio::test(flavor = "multi_thread")]
async fn partitions_that_are_lost_during_the_outage_are_the_other_engines() {
    let ground = OnServers::ground_of(16).await;
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let rig = ready_rig(&*ground, here.path()).await;
    let places = rig.inserted(40).await;
    rig.lose_database();
    let other = rig_with(&*ground, journal(there.path(), 1 << 20)).await;
    until("they share", || async {
        rig.engine.owned() > 0 && other.engine.owned() > 0 && rig.engine.owned() + other.engine.owned() == 16
    })
    .await;
    let (mine, theirs) = (parking_lot::Mutex::new(Vec::new()), parking_lot::Mutex::new(Vec::new()));
    until("all have come", || async {
        let more = rig.engine.lease(request(queue(), "ann", LONG_MS)).await.unwrap_or_default();
        mine.lock().extend(more);
        let more = other.engine.lease(request(queue(), "bob", LONG_MS)).await.unwrap_or_default();
        theirs.lock().extend(more);
        mine.lock().len() + theirs.lock().len() >= places.len()
    })
    .await;
    let (mine, theirs): (Vec<Assignment>, Vec<Assignment>) = (mine.into_inner(), theirs.into_inner());
    let all: Vec<Assignment> = mine.iter().chain(&theirs).cloned().collect();
    let mut wanted: Vec<i64> = places.iter().map(|place| place.id).collect();
    wanted.sort_unstable();
    assert_eq!(ids(&all), wanted, "each once");
    assert!(!mine.is_empty() && !theirs.is_empty(), "{} and {}", mine.len(), theirs.len());
    assert_eq!(rig.numbers().handed_over, mine.len() as u64);
    for lease in &mine {
        assert_eq!(rig.record_outcomes(succeeded(lease)).await, Reported::ForLater);
    }
    for lease in &theirs {
        other.ends_well(lease).await;
    }
    rig.store.faults.heal();
    rig.nothing_waits().await;
    for lease in &all {
        let task = rig.task(lease).await;
        assert_eq!((task.state, task.attempt), (State::Succeeded, 1), "{task:?}");
    }
    assert_eq!((rig.numbers().leases_refused, rig.numbers().stale), (0, 0));
    rig.stop().await;
    other.stop().await;
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
    what_only_the_database_has_keeps_nothing_behind_it_waiting
    of_several_databases_one_is_away
    a_place_is_kept_as_long_as_its_lease_is_not_written
    what_only_the_database_has_takes_no_place
    whoever_is_handed_something_does_not_wait_for_what_is_not
}
