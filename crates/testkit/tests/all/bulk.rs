//! Bulk operations on a real engine and both kinds of back ends: previewed tasks are changed, once each, at
//! the requested rate, if any engine dies between two steps. Only the test moves the clock.

mod actions;
mod crashing;
mod databases;
mod previews;
mod rig;

use punctual_bulk::Error;
use punctual_contract::hot::Keeps;
use punctual_domain::{
    bulk::{Bulk, BulkState, Filter, Tally},
    name::Name,
    state::State,
};
use punctual_testkit::faults::{BulkGroup, Dials, StoreGroup};
use rig::{BATCH, CANCEL, Rig, bulk, name, on_both};
use tokio::task::JoinSet;

const DEFAULT: fn() -> Name = Name::default_namespace;

on_both!(what_is_previewed_is_cancelled_and_nothing_else);
async fn what_is_previewed_is_cancelled_and_nothing_else(rig: Rig) {
    let mine = rig.insert("mail", 25).await;
    let others = rig.insert("sms", 5).await;
    let previewed = rig.runner.preview(&DEFAULT(), bulk(CANCEL, "mail"), "ada").await.unwrap();
    let progress = &previewed.stored.progress;
    assert_eq!((progress.count, progress.count_is_exact, previewed.sample.len()), (25, true, 10));
    assert_eq!(rig.run().await, 0, "nothing happens before it is confirmed");
    assert!(rig.tasks().await.iter().all(|task| task.state == State::Scheduled));
    rig.clock.advance_ms(5);
    let later = rig.insert("mail", 3).await;
    let id = previewed.stored.id;
    rig.runner.confirm(&DEFAULT(), id, |step| step == 1, "bob").await.unwrap();
    let ended = rig.until_the_end(id).await;
    assert_eq!(ended.state, BulkState::Done);
    assert_eq!(ended.progress.tally, Tally { done: 25, skipped: 0, failed: 0 });
    assert_eq!(ended.progress.confirmed_by.as_deref(), Some("bob"));
    for each_task in &mine {
        let task = rig.task(each_task).await;
        assert_eq!(task.state, State::Cancelled);
        assert_eq!(task.history.last().unwrap().by, format!("bulk:{id}"));
    }
    for task in others.iter().chain(&later) {
        assert_eq!(rig.task(task).await.state, State::Scheduled, "it is another's, or came later");
    }
    rig.is_balanced().await;
    let depth = rig.engine.depth().await.unwrap();
    let kept = if rig.hot.keeps() == Keeps::Due { others.len() + later.len() } else { 0 };
    assert_eq!(depth.due, kept, "what is cancelled is out of the hot set");
}

on_both!(only_what_was_previewed_is_confirmed_and_not_for_ever);
async fn only_what_was_previewed_is_confirmed_and_not_for_ever(rig: Rig) {
    rig.insert("mail", 1).await;
    let previewed = rig.runner.preview(&DEFAULT(), bulk(CANCEL, "mail"), "ada").await.unwrap();
    let id = previewed.stored.id;
    let confirmed = rig.runner.confirm(&DEFAULT(), id, |_| false, "ada").await;
    assert!(matches!(confirmed, Err(Error::Otherwise(1))), "{confirmed:?}");
    rig.clock.advance_ms(3_600_001);
    let confirmed = rig.runner.confirm(&DEFAULT(), id, |_| true, "ada").await;
    assert!(matches!(confirmed, Err(Error::TooOld)), "{confirmed:?}");
    assert_eq!(rig.get(id).await.state, BulkState::Previewed);
    let again = rig.confirmed(bulk(CANCEL, "mail")).await;
    let twice = rig.runner.confirm(&DEFAULT(), again.id, |step| step == 1, "ada").await.unwrap();
    assert_eq!(twice.after, again, "confirmed again it stays as it is");
    let nothing = Filter { state: Some(State::Succeeded), ..Filter::default() };
    let nothing = Bulk { filter: nothing, ..bulk(CANCEL, "mail") };
    let refused = rig.runner.preview(&DEFAULT(), nothing, "ada").await;
    assert!(matches!(refused, Err(Error::Nothing)), "{refused:?}");
}

on_both!(a_count_that_no_account_has_is_walked_and_says_when_it_is_an_estimate);
async fn a_count_that_no_account_has_is_walked_and_says_when_it_is_an_estimate(rig: Rig) {
    rig.insert("mail", 12).await;
    let of_kind = |kind: &str| {
        let filter = Filter { kind: Some(name(kind)), ..Filter::default() };
        Bulk { filter, ..bulk(CANCEL, "mail") }
    };
    for (kind, count) in [("k", 12), ("other", 0)] {
        let previewed = rig.runner.preview(&DEFAULT(), of_kind(kind), "ada").await.unwrap();
        let progress = previewed.stored.progress;
        assert_eq!((progress.count, progress.count_is_exact), (count, true), "{kind}");
    }
}

on_both!(a_rate_is_kept_to);
async fn a_rate_is_kept_to(rig: Rig) {
    rig.insert("mail", 50).await;
    let id = rig.confirmed(Bulk { rate: 10, ..bulk(CANCEL, "mail") }).await.id;
    let mut done = Vec::new();
    for _ in 0..8 {
        rig.run().await;
        rig.run().await;
        done.push(rig.get(id).await.progress.tally.done);
        rig.clock.advance_ms(1_000);
    }
    assert_eq!(done, [10, 20, 30, 40, 50, 50, 50, 50], "ten a second");
    assert_eq!(rig.get(id).await.state, BulkState::Done);
}

on_both!(a_pause_holds_a_resume_goes_on_and_a_stop_is_for_good);
async fn a_pause_holds_a_resume_goes_on_and_a_stop_is_for_good(rig: Rig) {
    rig.insert("mail", 50).await;
    let id = rig.confirmed(Bulk { rate: 10, ..bulk(CANCEL, "mail") }).await.id;
    rig.run().await;
    let paused = rig.runner.pause(&DEFAULT(), id, Some("too fast"), "bob").await.unwrap().after;
    assert_eq!((paused.state, paused.wake_at), (BulkState::Paused, None));
    assert_eq!(paused.progress.note.as_deref(), Some("paused by bob: too fast"));
    for _ in 0..5 {
        rig.clock.advance_ms(1_000);
        assert_eq!(rig.run().await, 0);
    }
    assert_eq!(rig.get(id).await.progress.tally.done, 10);
    rig.runner.resume(&DEFAULT(), id).await.unwrap();
    rig.run().await;
    assert_eq!(rig.get(id).await.progress.tally.done, 20, "no more than its rate, however long it stood");
    rig.runner.stop(&DEFAULT(), id, None, "bob").await.unwrap();
    for call in [
        rig.runner.resume(&DEFAULT(), id).await,
        rig.runner.pause(&DEFAULT(), id, None, "bob").await,
        rig.runner.confirm(&DEFAULT(), id, |_| true, "bob").await,
        rig.runner.repeat(&DEFAULT(), id).await,
    ] {
        assert!(matches!(call, Err(Error::IsIn(BulkState::Stopped))), "{call:?}");
    }
    rig.clock.advance_ms(10_000);
    assert_eq!(rig.run().await, 0);
    let states: Vec<State> = rig.tasks().await.iter().map(|task| task.state).collect();
    assert_eq!(states.iter().filter(|state| **state == State::Cancelled).count(), 20);
    rig.is_balanced().await;
}

on_both!(what_a_pause_meets_under_way_is_accounted_for);
async fn what_a_pause_meets_under_way_is_accounted_for(rig: Rig) {
    rig.insert("mail", 30).await;
    let id = rig.confirmed(bulk(CANCEL, "mail")).await.id;
    let gate = rig.store.faults.hold(StoreGroup::Apply);
    let (runner, now) = (rig.runner.clone(), rig.now());
    let mut running = JoinSet::new();
    running.spawn(async move { runner.run_once(now).await });
    gate.reached().await;
    let paused = rig.runner.pause(&DEFAULT(), id, None, "bob").await.unwrap().after;
    assert_eq!(paused.progress.tally.done, 0);
    gate.open();
    running.join_next().await.unwrap().unwrap().unwrap();
    let after = rig.get(id).await;
    let batch = u64::try_from(BATCH).unwrap();
    assert_eq!(
        (after.state, after.progress.tally.done),
        (BulkState::Paused, batch),
        "that batch and no other"
    );
    let cancelled = rig.tasks().await.iter().filter(|task| task.state == State::Cancelled).count();
    assert_eq!(cancelled, BATCH);
    rig.runner.resume(&DEFAULT(), id).await.unwrap();
    assert_eq!(rig.until_the_end(id).await.progress.tally.done, 30);
}

on_both!(what_changed_since_the_preview_is_passed_over);
async fn what_changed_since_the_preview_is_passed_over(rig: Rig) {
    let tasks = rig.insert("mail", 5).await;
    let id = rig.confirmed(bulk(CANCEL, "mail")).await.id;
    rig.bulks.faults.set(BulkGroup::Write, Dials::REFUSES);
    drop(rig.runner.run_once(rig.now()).await);
    rig.bulks.faults.heal();
    rig.engine.cancel(tasks[0].place, false, "somebody").await.unwrap();
    rig.engine.run_now(tasks[1].place, "somebody").await.unwrap();
    rig.engine.run_once().await.unwrap();
    let ended = rig.until_the_end(id).await;
    assert_eq!(
        ended.progress.tally,
        Tally { done: 3, skipped: 1, failed: 0 },
        "one is not met, one has fired"
    );
    assert_eq!(rig.task(&tasks[0]).await.history.last().unwrap().by, "somebody");
    let fired = rig.task(&tasks[1]).await.state;
    assert!(matches!(fired, State::Scheduled | State::Ready), "it waits for an executor: {fired:?}");
}

on_both!(what_cannot_be_reached_is_tried_again_and_then_listed_and_repeated);
async fn what_cannot_be_reached_is_tried_again_and_then_listed_and_repeated(rig: Rig) {
    rig.insert("mail", 15).await;
    let id = rig.confirmed(bulk(CANCEL, "mail")).await.id;
    rig.store.faults.set(StoreGroup::Apply, Dials::REFUSES);
    rig.run().await;
    let stored = rig.get(id).await;
    assert_eq!((stored.state, stored.progress.tally), (BulkState::Running, Tally::default()));
    assert!(stored.progress.waits_for.is_some(), "it says why it does not go on");
    assert_eq!(rig.run().await, 0, "not at once");
    let ended = rig.until_the_end(id).await;
    assert_eq!(ended.progress.tally, Tally { done: 0, skipped: 0, failed: 15 });
    let failures = rig.runner.failures(id, i64::MIN, 100).await.unwrap();
    assert_eq!(failures.len(), 15);
    assert!(failures[0].error.contains("refused by a fault"), "{failures:?}");
    rig.store.faults.heal();
    rig.runner.repeat(&DEFAULT(), id).await.unwrap();
    let ended = rig.until_the_end(id).await;
    assert_eq!(ended.progress.tally, Tally { done: 15, skipped: 0, failed: 0 });
    assert_eq!(rig.runner.failures(id, i64::MIN, 100).await.unwrap(), []);
    assert!(rig.tasks().await.iter().all(|task| task.state == State::Cancelled));
}

on_both!(an_operation_of_a_namespace_that_is_deleted_stops_and_goes_with_it);
async fn an_operation_of_a_namespace_that_is_deleted_stops_and_goes_with_it(rig: Rig) {
    rig.insert("mail", 50).await;
    let id = rig.confirmed(Bulk { rate: 1, ..bulk(CANCEL, "mail") }).await.id;
    rig.run().await;
    rig.engine.delete_namespace(DEFAULT(), "ada").await.unwrap();
    for _ in 0..30 {
        rig.clock.advance_ms(1_000);
        rig.engine.run_once().await.unwrap();
        rig.run().await;
    }
    let gone = rig.runner.get(&DEFAULT(), id).await;
    assert!(matches!(gone, Err(Error::NotFound)), "{gone:?}");
    assert_eq!(rig.tasks().await.len(), 0);
}
