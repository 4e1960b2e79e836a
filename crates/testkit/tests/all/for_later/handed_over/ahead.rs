//! Preleases that were requested, and calls whose answers were lost, beside hand-overs without the database.

use super::{LONG_MS, SHORT_MS, hands_over, owns_all, ready_rig, request, rig};
use crate::{
    crash_points::{Embedded, Ground, OnServers, queue, succeeded},
    limits::set_queue,
};
use punctual_contract::store::{Change, Extended, Grant, Step};
use punctual_domain::{
    content::Content,
    history::Note,
    limits::Scope,
    name::Name,
    settings::QueueSettings,
    state::State,
    task::{Demands, NewTask, TaskResult},
};
use punctual_engine::{LeaseRequest, Reported};
use punctual_testkit::{
    faults::{Dials, StoreGroup},
    patience::until,
    servers::redis,
};
use std::sync::Arc;

/// A lease ahead of the instant was made, but its answer is lost; then the queue is set to hand over without
/// the store. Only the database knows whether the lease was made. No executor gets the task from the journal,
/// and the attempt, which no executor had, is returned.
async fn a_lease_ahead_whose_answer_was_lost_waits_for_the_database(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = rig(&*ground, directory.path()).await;
    owns_all(&rig).await;
    let place = loop {
        rig.lose_database();
        rig.store.faults.set_once(StoreGroup::Dispatch, Dials::ANSWERS_LOST);
        let at = rig.engine.now().plus(1_500);
        let task = NewTask::new(queue(), Name::new("k").unwrap(), at);
        let place = rig.engine.insert(vec![task], "test").await.unwrap().remove(0).task.place;
        let waits = LeaseRequest { wait_ms: 1_700, ..request(queue(), "ann", LONG_MS) };
        let leased = rig.engine.lease(waits).await.unwrap_or_default();
        assert!(leased.is_empty(), "its database is away: {leased:?}");
        let row = rig.truth.read(&[place]).await.unwrap().remove(0).unwrap();
        if row.lease.is_some_and(|lease| lease.executor.starts_with("(engine-")) {
            break place;
        }
        // The executor came too late for a lease ahead.
        rig.store.faults.heal();
        let lease = rig.handed_over(1, "ann", LONG_MS).await.remove(0);
        assert_ne!(rig.record_outcomes(succeeded(&lease)).await, Reported::Stale);
    };
    set_queue(&rig.engine, &queue(), hands_over()).await;
    rig.nothing_is_leased().await;
    rig.nothing_is_leased().await;
    rig.store.faults.heal();
    let lease = rig.handed_over(1, "ann", LONG_MS).await.remove(0);
    assert_eq!((lease.place.id, lease.attempt), (place.id, 1), "no attempt is spent");
    rig.ends_well(&lease).await;
    let numbers = rig.numbers();
    assert_eq!((numbers.handed_over, numbers.leases_refused), (0, 0));
    rig.stop().await;
}

/// A lease was made, and its answer is lost. Heartbeats come to this engine alone, and the lease in the database is over when that is
/// back: it is lost there, and was not made anew.
async fn a_lease_that_is_over_in_the_database_is_answered_as_lost(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = ready_rig(&*ground, directory.path()).await;
    rig.inserted(1).await;
    for group in [StoreGroup::Apply, StoreGroup::Extend, StoreGroup::Read, StoreGroup::Leases] {
        rig.store.faults.set(group, Dials::REFUSES);
    }
    rig.store.faults.set(StoreGroup::Dispatch, Dials::ANSWERS_LOST);
    let lease = rig.handed_over(1, "ann", SHORT_MS).await.remove(0);
    assert!(matches!(rig.heartbeat(&lease, LONG_MS).await, Extended::Held { .. }));
    let until_in_database = rig.task(&lease).await.lease.unwrap().until;
    until("it is over in the database", || async { rig.engine.now() > until_in_database }).await;
    // Nothing ends it there.
    for group in [StoreGroup::Dispatch, StoreGroup::Read, StoreGroup::Apply, StoreGroup::Extend] {
        rig.store.faults.set(group, Dials::SOUND);
    }
    rig.nothing_waits().await;
    assert_eq!(rig.heartbeat(&lease, LONG_MS).await, Extended::Lost);
    assert_eq!(rig.numbers().leases_written, 0, "nothing was made of it");
    rig.stop().await;
}

/// Redis loses all that it has of the limiter while executors hold the places of their queue and of a key, and no row says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_limiter_that_is_lost_meanwhile_has_the_places_again() {
    let directory = tempfile::tempdir().unwrap();
    let ground = OnServers::at(redis().await.url()).await;
    let rig = ready_rig(&ground, directory.path()).await;
    let limits = QueueSettings { concurrency: Some(2), key_concurrency: Some(1), ..hands_over() };
    set_queue(&rig.engine, &queue(), limits).await;
    let task = |key: &str| {
        let demands = Demands { concurrency_key: Some(key.to_owned()), ..Demands::default() };
        NewTask { demands, ..NewTask::new(queue(), Name::new("k").unwrap(), rig.engine.now()) }
    };
    rig.engine.insert(vec![task("a"), task("b"), task("c")], "test").await.unwrap();
    rig.lose_database();
    let leased = rig.handed_over(2, "ann", LONG_MS).await;
    let key = |what: &str| format!("{}:{{limits}}:{what}", ground.prefix());
    let keys = ["whole", "members", "until", "holds", "buckets"].map(key);
    let words: Vec<&str> = std::iter::once("DEL").chain(keys.iter().map(String::as_str)).collect();
    redis().await.command(&words).await;
    until("the limiter has its members again", || async { rig.limiter.is_whole().await.unwrap() }).await;
    let scopes = ["a", "b"].map(|key| Scope::Key(queue(), key.to_owned()));
    until("the attempts have their places", || async {
        rig.limiter.held(&scopes).await.unwrap() == [1, 1]
            && rig.limiter.held(&[Scope::Queue(queue())]).await.unwrap() == [2]
    })
    .await;
    rig.nothing_is_leased().await;
    for lease in &leased {
        assert_eq!(rig.record_outcomes(succeeded(lease)).await, Reported::ForLater);
    }
    rig.store.faults.heal();
    let third = rig.handed_over(1, "bob", LONG_MS).await.remove(0);
    assert!(leased.iter().all(|lease| lease.place.id != third.place.id));
    // For later, where the engine has not yet noticed that the database is back.
    assert_ne!(rig.record_outcomes(succeeded(&third)).await, Reported::Stale);
    until("all places are free", || async {
        rig.limiter.held(&[Scope::Queue(queue())]).await.unwrap() == [0]
    })
    .await;
    rig.stop().await;
}

/// A scan for overdue tasks has read the task. Before the scan is answered, another engine leases the task,
/// and it ends. The task is not handed over because of the scan.
async fn what_another_engine_has_finished_meanwhile_is_not_handed_over(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = ready_rig(&*ground, directory.path()).await;
    rig.has_looked().await;
    let now = rig.engine.now();
    let gate = rig.store.hold_found();
    let task = NewTask { payload: Content::json("1"), ..NewTask::new(queue(), Name::new("k").unwrap(), now) };
    let inserted = rig.truth.insert(vec![task], "another engine", now).await.unwrap().remove(0).task;
    gate.reached().await;
    let grant = Grant {
        place: inserted.place,
        fence: inserted.fence,
        fired_at: now,
        lease_until: now.plus(LONG_MS),
        executor: "bob".to_owned(),
        namespace: queue().namespace,
        has_begun: false,
        known: None,
    };
    let lease = rig.truth.dispatch(vec![grant], now).await.unwrap().remove(0).made().unwrap();
    let change = Change::Succeed { result: TaskResult::default(), keep_until: now.plus(LONG_MS) };
    let (place, fence, note) = (lease.place, Some(lease.fence), Note::default());
    rig.truth
        .apply(vec![Step { place, fence, change, note, fired_at: None, known: None }], now)
        .await
        .unwrap();
    assert_eq!(rig.task(&lease).await.state, State::Succeeded);
    rig.lose_database();
    let looks = || rig.runs_of("refill");
    let before = looks();
    gate.open();
    until("what was read is here", || async { looks() > before + 1 }).await;
    rig.nothing_is_leased().await;
    assert_eq!(rig.numbers().handed_over, 0);
    rig.stop().await;
}

/// A task that is too late cannot be buried. The engine tries again when the database answers a call, and not
/// continuously while an executor waits.
async fn what_cannot_be_buried_is_not_tried_again_at_once(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = rig(&*ground, directory.path()).await;
    owns_all(&rig).await;
    set_queue(
        &rig.engine,
        &queue(),
        QueueSettings { pending_timeout_ms: Some(1_000), ..QueueSettings::default() },
    )
    .await;
    rig.store.faults.set(StoreGroup::Apply, Dials::REFUSES);
    let place = rig.inserted(1).await.remove(0);
    until("it is late", || async { rig.engine.now() > place.due_at.plus(1_500) }).await;
    let (looks, tries) = (|| rig.runs_of("refill"), || rig.store.faults.counts(StoreGroup::Apply).failed());
    let (looked, tried) = (looks(), tries());
    let all_wait = async {
        while looks() < looked + 4 {
            let waits = LeaseRequest { wait_ms: 5_000, ..request(queue(), "ann", LONG_MS) };
            assert!(rig.engine.lease(waits).await.unwrap_or_default().is_empty());
        }
    };
    all_wait.await;
    let (looked, tried) = (looks() - looked, tries() - tried);
    // Some ten in a second: looks whether the database is back, and marks of what is ready.
    assert!((1..=50 * looked).contains(&tried), "{tried} tries in {looked} looks");
    rig.store.faults.heal();
    let is_dead =
        || async { rig.truth.read(&[place]).await.unwrap().remove(0).unwrap().state == State::Dead };
    until("it is buried", || async {
        drop(rig.engine.lease(request(queue(), "ann", LONG_MS)).await);
        is_dead().await
    })
    .await;
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
    a_lease_ahead_whose_answer_was_lost_waits_for_the_database
    a_lease_that_is_over_in_the_database_is_answered_as_lost
    what_another_engine_has_finished_meanwhile_is_not_handed_over
    what_cannot_be_buried_is_not_tried_again_at_once
}
