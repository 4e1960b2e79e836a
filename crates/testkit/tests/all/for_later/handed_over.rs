//! Tasks that executors get while their database is unavailable, in a queue that allows it: handed over once, written down when the database
//! is back, and what a crash, a hang or another engine between any two steps does (`engine::for_later::hand_over` numbers them).

mod ahead;
mod behind;
mod dying;
mod inserted;
mod seeds;
mod withdrawn;

use super::{ForLaterRig, LONG_MS, SHORT_MS, journal, rig, rig_with};
use crate::{
    crash_points::{Embedded, Ground, OnServers, queue, succeeded},
    limits::set_queue,
};
use punctual_contract::store::{Assignment, Beat, Change, Extended, Grant, Step};
use punctual_domain::{
    history::Note,
    name::{Name, QueueKey},
    place::TaskRef,
    settings::{Pause, QueueSettings, WhileStoreIsAway},
    state::State,
    task::{Content, NewTask},
    time::Millis,
};
use punctual_engine::{Cancelled, LeaseRequest, Reported};
use punctual_testkit::{
    faults::{Dials, StoreGroup},
    patience::until,
};
use std::{
    path::Path,
    sync::{Arc, atomic::Ordering::SeqCst},
};

fn hands_over() -> QueueSettings {
    QueueSettings { while_store_is_away: Some(WhileStoreIsAway::HandOver), ..QueueSettings::default() }
}

/// An engine that owns every partition, and a queue that hands over.
async fn ready_rig(ground: &dyn Ground, directory: &Path) -> ForLaterRig {
    let rig = rig(ground, directory).await;
    set_queue(&rig.engine, &queue(), hands_over()).await;
    owns_all(&rig).await;
    rig
}

async fn owns_all(rig: &ForLaterRig) {
    until("all partitions are owned", || async { rig.engine.owned() == usize::from(rig.truth.partitions()) })
        .await;
}

fn request(queue: QueueKey, executor: &str, lease_ms: i64) -> LeaseRequest {
    let (queue, executor) = (Arc::new(queue), executor.to_owned());
    LeaseRequest { queue, max: 10, wait_ms: 500, lease_ms, executor, version: None }
}

impl ForLaterRig {
    async fn inserted(&self, count: usize) -> Vec<TaskRef> {
        let task = || NewTask {
            payload: Content::json("{\"n\":1}"),
            ..NewTask::new(queue(), Name::new("k").unwrap(), self.engine.now())
        };
        let inserted = self.engine.insert((0..count).map(|_| task()).collect(), "test").await.unwrap();
        inserted.into_iter().map(|inserted| inserted.task.place).collect()
    }

    /// Until so many have come, however many calls it takes; a database that is unavailable may refuse some.
    async fn handed_over(&self, count: usize, executor: &str, lease_ms: i64) -> Vec<Assignment> {
        self.handed_over_of(&queue(), count, executor, lease_ms).await
    }

    async fn handed_over_of(
        &self,
        queue: &QueueKey,
        count: usize,
        executor: &str,
        lease_ms: i64,
    ) -> Vec<Assignment> {
        let leased = parking_lot::Mutex::new(Vec::new());
        until("all are handed over", || async {
            let more =
                self.engine.lease(request(queue.clone(), executor, lease_ms)).await.unwrap_or_default();
            let mut leased = leased.lock();
            leased.extend(more);
            leased.len() >= count
        })
        .await;
        leased.into_inner()
    }

    async fn heartbeat(&self, of: &Assignment, ms: i64) -> Extended {
        let beat = Beat {
            place: of.place,
            fence: of.fence,
            lease_until: self.engine.now().plus(ms),
            progress: None,
            log: None,
            executor: "ann".to_owned(),
            handed_over_at: None,
        };
        self.engine.extend(vec![beat]).await.unwrap().remove(0)
    }

    /// Nothing more comes of the queue.
    async fn nothing_is_leased(&self) {
        self.nothing_is_leased_of(&queue()).await;
    }

    async fn nothing_is_leased_of(&self, queue: &QueueKey) {
        let leased = self.engine.lease(request(queue.clone(), "bob", LONG_MS)).await.unwrap_or_default();
        assert!(leased.is_empty(), "{leased:?}");
    }
}

fn ids(leased: &[Assignment]) -> Vec<i64> {
    let mut ids: Vec<i64> = leased.iter().map(|lease| lease.place.id).collect();
    ids.sort_unstable();
    ids
}

async fn all_is_handed_over_and_counts_when_the_database_is_back(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = ready_rig(&*ground, directory.path()).await;
    let places = rig.inserted(5).await;
    rig.lose_database();
    let leased = rig.handed_over(5, "ann", LONG_MS).await;
    assert_eq!(ids(&leased), {
        let mut ids: Vec<i64> = places.iter().map(|place| place.id).collect();
        ids.sort_unstable();
        ids
    });
    for lease in &leased {
        assert_eq!((lease.attempt, &lease.payload), (1, &Content::json("{\"n\":1}")));
        assert_eq!(rig.task(lease).await.attempt, 0, "the database has not heard of it");
    }
    rig.nothing_is_leased().await;
    let now = rig.engine.now();
    let Extended::Held { lease_until, .. } = rig.heartbeat(&leased[0], LONG_MS).await else {
        panic!("its lease is not over");
    };
    assert!(lease_until >= now.plus(LONG_MS));
    for lease in &leased[..4] {
        assert_eq!(rig.record_outcomes(succeeded(lease)).await, Reported::ForLater);
    }
    let numbers = rig.numbers();
    assert_eq!((numbers.handed_over, numbers.leases_waiting, numbers.leases_written), (5, 5, 0));
    rig.store.faults.heal();
    for lease in &leased[..4] {
        rig.has_ended_well(lease).await;
    }
    let last = rig.task(&leased[4]).await;
    assert_eq!((last.state, last.lease.unwrap().executor.as_str()), (State::Dispatched, "ann"));
    assert!(matches!(rig.heartbeat(&leased[4], LONG_MS).await, Extended::Held { .. }), "by the database");
    rig.ends_well(&leased[4]).await;
    // Counted after the commit that the reads above have seen.
    until("all outcomes are counted", || async { rig.numbers().applied + rig.numbers().stale == 4 }).await;
    let numbers = rig.numbers();
    assert_eq!((numbers.leases_written, numbers.leases_refused, numbers.leases_waiting), (5, 0, 0));
    assert_eq!((numbers.applied, numbers.stale), (4, 0));
    rig.nothing_is_leased().await;
    rig.stop().await;
}

/// In a queue without the setting, where something of a task is missing, and in a pause.
async fn what_may_not_be_handed_over_waits_for_its_database(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = ready_rig(&*ground, directory.path()).await;
    let plain = QueueKey { queue: Name::new("plain").unwrap(), ..queue() };
    let task = NewTask::new(plain.clone(), Name::new("k").unwrap(), rig.engine.now());
    rig.engine.insert(vec![task], "test").await.unwrap();
    rig.lose_database();
    rig.nothing_is_leased_of(&plain).await;
    rig.store.faults.heal();
    let leased = rig.handed_over_of(&plain, 1, "ann", LONG_MS).await;
    rig.ends_well(&leased[0]).await;
    let long = Content::json(format!("\"{}\"", "x".repeat(2_000)));
    let task = NewTask { payload: long, ..NewTask::new(queue(), Name::new("k").unwrap(), rig.engine.now()) };
    rig.engine.insert(vec![task], "test").await.unwrap();
    rig.lose_database();
    rig.nothing_is_leased().await;
    let pause = Some(Pause { at: Millis(1), by: "ann".to_owned(), reason: None });
    rig.store.faults.heal();
    let leased = rig.handed_over(1, "ann", LONG_MS).await;
    assert_eq!(leased[0].attempt, 1);
    rig.ends_well(&leased[0]).await;
    set_queue(&rig.engine, &queue(), QueueSettings { pause, ..hands_over() }).await;
    rig.inserted(1).await;
    rig.lose_database();
    rig.nothing_is_leased().await;
    assert_eq!(rig.numbers().handed_over, 0);
    rig.stop().await;
}

/// Step 1: the lease was made, and its answer is lost.
async fn a_lease_whose_answer_was_lost_is_the_same_attempt(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = ready_rig(&*ground, directory.path()).await;
    rig.inserted(2).await;
    for group in [StoreGroup::Apply, StoreGroup::Extend, StoreGroup::Read, StoreGroup::Leases] {
        rig.store.faults.set(group, Dials::REFUSES);
    }
    rig.store.faults.set(StoreGroup::Dispatch, Dials::ANSWERS_LOST);
    let leased = rig.handed_over(2, "ann", LONG_MS).await;
    let row = rig.task(&leased[0]).await;
    assert_eq!((row.state, row.fence), (State::Dispatched, leased[0].fence), "the database has made it");
    assert_eq!(rig.record_outcomes(succeeded(&leased[0])).await, Reported::ForLater);
    assert!(matches!(rig.heartbeat(&leased[1], 2 * LONG_MS).await, Extended::Held { .. }));
    rig.store.faults.heal();
    rig.has_ended_well(&leased[0]).await;
    until("the sign of life is known", || async {
        let row = rig.task(&leased[1]).await;
        row.lease.is_some_and(|lease| lease.until > rig.engine.now().plus(LONG_MS))
    })
    .await;
    rig.ends_well(&leased[1]).await;
    assert_eq!((rig.numbers().leases_written, rig.numbers().leases_refused), (2, 0));
    rig.stop().await;
}

/// Step 1 hangs. The call makes the lease at last, and it is the same attempt.
async fn a_database_that_says_nothing_is_not_waited_for(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = ready_rig(&*ground, directory.path()).await;
    rig.inserted(3).await;
    let gates = [StoreGroup::Dispatch, StoreGroup::Apply, StoreGroup::Read, StoreGroup::Extend]
        .map(|group| rig.store.faults.hold(group));
    let leased = rig.handed_over(3, "ann", LONG_MS).await;
    assert_eq!(rig.record_outcomes(succeeded(&leased[0])).await, Reported::ForLater);
    assert!(matches!(rig.heartbeat(&leased[1], LONG_MS).await, Extended::Held { .. }));
    gates.iter().for_each(|gate| gate.open());
    rig.has_ended_well(&leased[0]).await;
    for lease in &leased[1..] {
        rig.ends_well(lease).await;
        assert_eq!(rig.task(lease).await.attempt, 1);
    }
    rig.stop().await;
}

/// Its executor is silent, and its lease ends: it waits for the database like any other.
async fn it_is_handed_over_once_while_its_database_is_away(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = ready_rig(&*ground, directory.path()).await;
    rig.inserted(1).await;
    rig.lose_database();
    let first = rig.handed_over(1, "ann", SHORT_MS).await.remove(0);
    until("its lease is over", || async { rig.engine.now() > first.lease_until }).await;
    assert_eq!(rig.heartbeat(&first, LONG_MS).await, Extended::Lost);
    rig.nothing_is_leased().await;
    rig.store.faults.heal();
    let second = rig.handed_over(1, "bob", LONG_MS).await.remove(0);
    assert_eq!((second.place.id, second.attempt), (first.place.id, 2));
    assert_eq!(rig.record_outcomes(succeeded(&first)).await, Reported::Stale);
    rig.ends_well(&second).await;
    rig.stop().await;
}

/// Step 5 is refused: another engine reached the database.
async fn what_was_cancelled_or_leased_elsewhere_meanwhile_is_refused(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = ready_rig(&*ground, directory.path()).await;
    rig.inserted(3).await;
    rig.lose_database();
    let leased = rig.handed_over(3, "ann", LONG_MS).await;
    let [cancelled, elsewhere, silent] = leased.try_into().unwrap();
    for lease in [&cancelled, &elsewhere] {
        assert_eq!(rig.record_outcomes(succeeded(lease)).await, Reported::ForLater);
    }
    let now = rig.engine.now();
    let change = Change::Cancel { keep_until: now.plus(LONG_MS) };
    let (place, note) = (cancelled.place, Note::default());
    let step = Step { place, fence: None, change, note, fired_at: None, known: None };
    rig.truth.apply(vec![step], now).await.unwrap();
    let of_bob = |lease: &Assignment| Grant {
        place: lease.place,
        fence: lease.fence - 1,
        fired_at: lease.fired_at,
        lease_until: now.plus(LONG_MS),
        executor: "bob".to_owned(),
        namespace: queue().namespace,
        has_begun: false,
        known: None,
    };
    let grants = vec![of_bob(&elsewhere), of_bob(&silent)];
    assert!(rig.truth.dispatch(grants, now).await.unwrap().into_iter().all(|made| made.made().is_some()));
    rig.store.faults.heal();
    rig.nothing_waits().await;
    assert_eq!(rig.task(&cancelled).await.state, State::Cancelled);
    for lease in [&elsewhere, &silent] {
        let row = rig.task(lease).await;
        assert_eq!((row.state, row.lease.unwrap().executor.as_str()), (State::Dispatched, "bob"));
    }
    assert_eq!(rig.heartbeat(&silent, LONG_MS).await, Extended::Lost);
    assert_eq!(rig.record_outcomes(succeeded(&silent)).await, Reported::Stale, "it is bob's attempt");
    let numbers = rig.numbers();
    assert_eq!((numbers.leases_refused, numbers.leases_written, numbers.leases_waiting), (3, 0, 0));
    assert_eq!((numbers.applied, numbers.stale), (0, 2));
    rig.stop().await;
}

/// Before step 5 the row is as it was, and the engine that has handed the task over knows better.
async fn whoever_cancels_before_the_lease_is_written_is_told_that_it_has_fired(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = ready_rig(&*ground, directory.path()).await;
    rig.inserted(1).await;
    rig.lose_database();
    rig.journal.hides.store(true, SeqCst);
    let lease = rig.handed_over(1, "ann", LONG_MS).await.remove(0);
    rig.store.faults.heal();
    assert!(
        rig.task(&lease).await.state.waits_for_its_time() || rig.task(&lease).await.state == State::Ready
    );
    let cancelled = rig.engine.cancel(lease.place, false, "test").await.unwrap();
    assert!(matches!(cancelled, Cancelled::AlreadyFired(_)), "{cancelled:?}");
    let (_, why) = rig.engine.why(lease.place).await.unwrap();
    assert!(why.reason.contains("while its database did not answer"), "{why:?}");
    assert_eq!(why.owner.as_deref(), Some("ann"));
    rig.nothing_is_leased().await;
    rig.journal.hides.store(false, SeqCst);
    until("its lease is written", || async { rig.task(&lease).await.state == State::Dispatched }).await;
    rig.ends_well(&lease).await;
    rig.stop().await;
}

/// Step 2 fails: nothing is handed over.
async fn without_room_in_the_journal_it_waits(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = rig_with(&*ground, journal(directory.path(), 64)).await;
    set_queue(&rig.engine, &queue(), hands_over()).await;
    owns_all(&rig).await;
    rig.inserted(1).await;
    rig.lose_database();
    rig.nothing_is_leased().await;
    assert_eq!((rig.numbers().handed_over, rig.numbers().waiting.records), (0, 0));
    rig.store.faults.heal();
    let lease = rig.handed_over(1, "ann", LONG_MS).await.remove(0);
    assert_eq!(lease.attempt, 1);
    rig.stop().await;
}

/// A read of the store that began before an attempt, and is answered after its end, says that the task waits.
async fn what_was_read_before_an_attempt_is_not_handed_over_after_it(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = ready_rig(&*ground, directory.path()).await;
    let gate = rig.store.hold_found();
    rig.inserted(1).await;
    // The refill looks at what is overdue.
    gate.reached().await;
    let lease = rig.handed_over(1, "ann", LONG_MS).await.remove(0);
    rig.ends_well(&lease).await;
    rig.lose_database();
    let looks = || rig.runs_of("refill");
    let before = looks();
    gate.open();
    until("what was read is here", || async { looks() > before + 1 }).await;
    rig.nothing_is_leased().await;
    assert_eq!(rig.numbers().handed_over, 0);
    rig.stop().await;
}

/// The executor hangs up while the engine calls the database: the lease is returned with the attempt.
async fn what_nobody_heard_of_is_given_back(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = ready_rig(&*ground, directory.path()).await;
    rig.inserted(1).await;
    let gate = rig.store.faults.hold(StoreGroup::Dispatch);
    let engine = rig.engine.clone();
    #[expect(clippy::disallowed_methods, reason = "a caller that hangs up")]
    let caller = tokio::spawn(async move { engine.lease(request(queue(), "ann", LONG_MS)).await });
    gate.reached().await;
    caller.abort();
    until("it is in the journal", || async { rig.numbers().handed_over == 1 }).await;
    gate.open();
    let lease = rig.handed_over(1, "bob", LONG_MS).await.remove(0);
    assert_eq!(lease.attempt, 1, "no attempt is spent");
    rig.ends_well(&lease).await;
    rig.stop().await;
}

/// An outcome that came to another engine waits there until the lease is written here.
async fn an_outcome_at_another_engine_waits_for_its_lease(ground: Arc<dyn Ground>) {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let rig = ready_rig(&*ground, here.path()).await;
    rig.inserted(1).await;
    rig.lose_database();
    let lease = rig.handed_over(1, "ann", LONG_MS).await.remove(0);
    let other = rig_with(&*ground, journal(there.path(), 1 << 20)).await;
    other.lose_database();
    assert_eq!(other.record_outcomes(succeeded(&lease)).await, Reported::ForLater);
    other.store.faults.heal();
    let looks = other.store.faults.counts(StoreGroup::Apply).passed;
    until("it was tried", || async { other.store.faults.counts(StoreGroup::Apply).passed > looks }).await;
    assert_eq!(other.numbers().waiting.records, 1);
    rig.store.faults.heal();
    other.has_ended_well(&lease).await;
    assert_eq!(rig.task(&lease).await.attempt, 1);
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
    all_is_handed_over_and_counts_when_the_database_is_back
    what_may_not_be_handed_over_waits_for_its_database
    a_lease_whose_answer_was_lost_is_the_same_attempt
    a_database_that_says_nothing_is_not_waited_for
    it_is_handed_over_once_while_its_database_is_away
    what_was_cancelled_or_leased_elsewhere_meanwhile_is_refused
    whoever_cancels_before_the_lease_is_written_is_told_that_it_has_fired
    without_room_in_the_journal_it_waits
    what_was_read_before_an_attempt_is_not_handed_over_after_it
    what_nobody_heard_of_is_given_back
    an_outcome_at_another_engine_waits_for_its_lease
}
