//! An engine that dies between two steps of a bulk operation: another continues, each task is changed once, and all are counted
//! once. The table is in docs/consistency-tests.md, "Bulk operations".

use super::rig::{CANCEL, HOUR_MS, Rig, START, bulk, on_both};
use punctual_contract::bulk::StoredBulk;
use punctual_domain::{
    bulk::{Action, Bulk, BulkState, NewTime, Tally},
    state::{Event, State},
    task::Task,
};
use punctual_testkit::faults::{BulkGroup, Dials, Faults, StoreGroup};
use std::{fmt::Debug, hash::Hash};
use tokio::task::JoinSet;

const TASKS: i64 = 25;

/// An engine that is dropped before its call of this number from the beginning. False: it came to its end.
async fn dies_at<G: Copy + Eq + Hash + Debug + Send>(
    rig: &Rig,
    faults: &Faults<G>,
    group: G,
    nth: usize,
) -> bool {
    let mut gate = faults.hold(group);
    let (runner, engine, clock) = (rig.runner.clone(), rig.engine.clone(), rig.clock.clone());
    let mut running = JoinSet::new();
    running.spawn(async move {
        for _ in 0..6 {
            runner.run_once(engine.now()).await.unwrap();
            clock.advance_ms(1_000);
        }
    });
    for call in 0..=nth {
        tokio::select! {
            () = gate.reached() => {}
            ended = running.join_next() => {
                ended.unwrap().unwrap();
                gate.open();
                return false;
            }
        }
        if call < nth {
            let next = faults.hold(group);
            gate.open();
            gate = next;
        }
    }
    running.abort_all();
    assert!(running.join_next().await.unwrap().unwrap_err().is_cancelled());
    // What it had sent continues without it, as in a database whose client has died.
    gate.open();
    true
}

/// Each is changed once, and accounted for once.
pub(super) async fn is_whole(rig: &Rig, tasks: &[Task], ended: &StoredBulk, event: Event) {
    assert_eq!(ended.state, BulkState::Done);
    let all = u64::try_from(tasks.len()).unwrap();
    assert_eq!(ended.progress.tally, Tally { done: all, skipped: 0, failed: 0 });
    for task in tasks {
        let history = rig.task(task).await.history;
        let mark = format!("bulk:{}", ended.id);
        let marked: Vec<_> =
            history.iter().filter(|entry| entry.by == mark).map(|entry| entry.event).collect();
        assert_eq!(marked, [Some(event)], "changed once");
    }
    rig.is_balanced().await;
}

async fn goes_on_after<G: Copy + Eq + Hash + Debug + Send>(
    fresh: impl AsyncFn() -> Rig,
    (of, group, every): (impl Fn(&Rig) -> &Faults<G>, G, usize),
    (action, event): (Action, Event),
) -> usize {
    let mut nth = 0;
    loop {
        let rig = fresh().await;
        let tasks = rig.insert("mail", TASKS).await;
        let id = rig.confirmed(bulk(action.clone(), "mail")).await.id;
        let died = dies_at(&rig, of(&rig), group, nth).await;
        let survivor = rig.beside();
        let ended = survivor.until_the_end(id).await;
        is_whole(&survivor, &tasks, &ended, event).await;
        if !died {
            return nth;
        }
        nth += every;
    }
}

/// By an hour: done twice, it would be two.
pub(super) fn later() -> (Action, Event) {
    (Action::Reschedule(NewTime::ByMs(HOUR_MS)), Event::Reschedule)
}

#[tokio::test(flavor = "multi_thread")]
async fn another_engine_goes_on_wherever_one_has_died_on_sqlite() {
    let fresh = async || Rig::sqlite();
    let commits = goes_on_after(fresh, (|rig| &rig.bulks.faults, BulkGroup::Write, 1), later()).await;
    assert!(commits >= 4, "{commits} commits");
    goes_on_after(fresh, (|rig| &rig.bulks.faults, BulkGroup::Read, 1), later()).await;
    let moves = goes_on_after(fresh, (|rig| &rig.store.faults, StoreGroup::Apply, 2), later()).await;
    // Those of one batch come together.
    assert!(moves >= 3, "{moves} moves");
    goes_on_after(fresh, (|rig| &rig.bulks.faults, BulkGroup::Write, 1), (CANCEL, Event::Cancel)).await;
    goes_on_after(fresh, (|rig| &rig.store.faults, StoreGroup::Apply, 5), (CANCEL, Event::Cancel)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_engine_goes_on_wherever_one_has_died_on_mysql_and_redis() {
    goes_on_after(Rig::mysql, (|rig| &rig.bulks.faults, BulkGroup::Write, 1), later()).await;
    goes_on_after(Rig::mysql, (|rig| &rig.store.faults, StoreGroup::Apply, 7), later()).await;
    goes_on_after(Rig::mysql, (|rig| &rig.store.faults, StoreGroup::Apply, 11), (CANCEL, Event::Cancel))
        .await;
}

on_both!(a_batch_that_was_done_and_not_committed_is_counted_and_not_done_again);
async fn a_batch_that_was_done_and_not_committed_is_counted_and_not_done_again(rig: Rig) {
    let tasks = rig.insert("mail", TASKS).await;
    let (action, event) = later();
    let id = rig.confirmed(bulk(action, "mail")).await.id;
    // The first commit plans a batch; the one after it accounts for that.
    rig.bulks.faults.set(BulkGroup::Write, Dials::REFUSES);
    assert!(rig.runner.run_once(rig.now()).await.is_err());
    rig.bulks.faults.heal();
    let gate = rig.store.faults.hold(StoreGroup::Apply);
    let (runner, now) = (rig.runner.clone(), rig.now());
    let mut running = JoinSet::new();
    running.spawn(async move { runner.run_once(now).await });
    gate.reached().await;
    rig.bulks.faults.set(BulkGroup::Write, Dials::REFUSES);
    gate.open();
    assert!(running.join_next().await.unwrap().unwrap().is_err(), "its commit was refused");
    let stored = rig.get(id).await;
    assert_eq!((stored.progress.tally, stored.progress.batch.len()), (Tally::default(), 10));
    let moved = rig.tasks().await.iter().filter(|task| task.ask.execute_at > START.plus(HOUR_MS)).count();
    assert_eq!(moved, 10, "it has happened");
    rig.bulks.faults.heal();
    let other = rig.beside();
    let ended = other.until_the_end(id).await;
    is_whole(&other, &tasks, &ended, event).await;
    assert!(other.tasks().await.iter().all(|task| task.ask.execute_at == START.plus(2 * HOUR_MS)));
}

on_both!(answers_that_are_lost_change_nothing_twice);
async fn answers_that_are_lost_change_nothing_twice(rig: Rig) {
    let tasks = rig.insert("mail", TASKS).await;
    let (action, event) = later();
    let id = rig.confirmed(bulk(action, "mail")).await.id;
    rig.store.faults.set(StoreGroup::Apply, Dials { happens: 1.0, reported: 0.5 });
    rig.bulks.faults.set(BulkGroup::Write, Dials { happens: 0.8, reported: 0.6 });
    for _ in 0..20 {
        drop(rig.runner.run_once(rig.now()).await);
        rig.clock.advance_ms(1_000);
    }
    rig.store.faults.heal();
    rig.bulks.faults.heal();
    let ended = rig.until_the_end(id).await;
    is_whole(&rig, &tasks, &ended, event).await;
}

on_both!(two_engines_at_one_operation_change_each_task_once);
async fn two_engines_at_one_operation_change_each_task_once(rig: Rig) {
    let tasks = rig.insert("mail", 60).await;
    let (action, event) = later();
    let id = rig.confirmed(Bulk { rate: 100_000, ..bulk(action, "mail") }).await.id;
    let other = rig.beside();
    for _ in 0..10 {
        let now = rig.now();
        let (a, b) = tokio::join!(rig.runner.run_once(now), other.runner.run_once(now));
        assert!(a.is_ok() && b.is_ok(), "{a:?} {b:?}");
        rig.clock.advance_ms(100);
    }
    let ended = rig.until_the_end(id).await;
    is_whole(&rig, &tasks, &ended, event).await;
    assert!(rig.tasks().await.iter().all(|task| task.state == State::Scheduled));
}
