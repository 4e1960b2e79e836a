//! An engine that dies between two steps of making a run: the next one, or another, continues, and the run is made once. The
//! table is in docs/consistency-tests.md, "Schedules".

use super::rig::{MINUTE_MS, START, SchedulesRig, every_minute, key, on_both, shown};
use punctual_contract::{
    schedules::{Advance, NewRun},
    store::Applied,
};
use punctual_domain::{
    schedule::{Outcome, Overlap, RunKind, Schedule},
    state::State,
};
use punctual_schedules::Planner;
use punctual_testkit::faults::{Dials, StoreGroup};

/// As an engine leaves it that dies when it has committed a step and made no task of it.
async fn dies_after_the_commit(rig: &SchedulesRig) {
    dies_after_the_commit_of(rig, "digest").await;
}

async fn dies_after_the_commit_of(rig: &SchedulesRig, name: &str) {
    let stored = rig.planner.get(&key(name)).await.unwrap();
    let at = START.plus(MINUTE_MS);
    let mut progress = stored.progress.clone();
    (progress.decided_until, progress.runs, progress.last_run_at) = (at, 1, Some(at));
    let run = NewRun {
        kind: RunKind::Planned,
        at,
        execute_at: at,
        revision: stored.revision,
        version: Some(1),
        number: 1,
        outcome: Outcome::Created,
        reason: None,
    };
    let wake_at = Some(at);
    let advance =
        Advance { id: stored.id, step: stored.step, progress, wake_at, runs: vec![run], takes_back: None };
    let applied = rig.schedules.advance_schedules(vec![advance], rig.now()).await.unwrap();
    assert_eq!(applied, [Applied::Moved]);
}

on_both!(after_the_commit_before_its_task_another_engine_makes_it_in_time);
async fn after_the_commit_before_its_task_another_engine_makes_it_in_time(rig: SchedulesRig) {
    rig.put("digest", every_minute()).await;
    dies_after_the_commit(&rig).await;
    assert_eq!(rig.tasks().await.len(), 0);
    let other = rig.beside();
    other.pass(30_000).await;
    assert_eq!(other.tasks().await.len(), 1, "within ten seconds and a look");
    other.pass(30_000).await;
    let leased = other.leased().await;
    assert_eq!(leased.len(), 1);
    assert_eq!(leased[0].fired_at, START.plus(MINUTE_MS));
    assert!(other.runs("digest").await.iter().all(|run| run.is_recorded));
}

on_both!(after_its_task_before_it_is_noted_it_is_noted_and_not_made_again);
async fn after_its_task_before_it_is_noted_it_is_noted_and_not_made_again(rig: SchedulesRig) {
    rig.put("digest", every_minute()).await;
    rig.store.faults.set(StoreGroup::Insert, Dials::ANSWERS_LOST);
    assert!(rig.planner.run_once(rig.now()).await.is_err(), "its answer was lost");
    rig.store.faults.heal();
    assert_eq!(rig.tasks().await.len(), 1);
    assert!(!rig.runs("digest").await[0].is_recorded);
    let other = rig.beside();
    other.pass(59_000).await;
    assert!(other.runs("digest").await.iter().all(|run| run.is_recorded));
    let first: Vec<_> =
        other.tasks().await.into_iter().filter(|task| task.due_at == START.plus(MINUTE_MS)).collect();
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].fence, 1, "the one that was made: nobody replaced it");
}

on_both!(a_task_that_is_made_late_by_a_sleeping_engine_does_not_run_again);
async fn a_task_that_is_made_late_by_a_sleeping_engine_does_not_run_again(rig: SchedulesRig) {
    rig.put("digest", every_minute()).await;
    dies_after_the_commit(&rig).await;
    let sleeper = rig.beside();
    rig.pass(MINUTE_MS).await;
    let leased = rig.leased().await;
    assert_eq!(leased.len(), 1);
    let rejected = punctual_engine::OutcomeReport {
        place: leased[0].place,
        fence: leased[0].fence,
        report: punctual_domain::outcome::Report::Reject,
        result: punctual_domain::task::TaskResult::default(),
    };
    rig.engine.record_outcomes(vec![rejected], "test").await.unwrap();
    assert_eq!(rig.engine.read(leased[0].place).await.unwrap().state, State::Dead);
    // What it had in hand when it fell asleep, it inserts now.
    let asked = rig.engine.read(leased[0].place).await.unwrap().ask;
    let asked =
        punctual_domain::task::NewTask { on_conflict: punctual_domain::insert::OnConflict::Keep, ..asked };
    sleeper.engine.insert(vec![asked], "schedule").await.unwrap();
    assert_eq!(rig.engine.read(leased[0].place).await.unwrap().state, State::Dead, "it stays as it ended");
    rig.pass(1_000).await;
    assert_eq!(rig.leased().await, []);
}

on_both!(a_pause_also_keeps_from_running_what_an_engine_has_committed_and_not_made);
async fn a_pause_also_keeps_from_running_what_an_engine_has_committed_and_not_made(rig: SchedulesRig) {
    rig.put("digest", every_minute()).await;
    dies_after_the_commit(&rig).await;
    let paused = rig.planner.pause(&key("digest"), None, None, "ada").await.unwrap();
    assert_eq!(paused.cancelled, 1);
    assert_eq!(shown(&rig.runs("digest").await), [(1, Outcome::Cancelled)]);
    // The engine that had committed it wakes up, and makes its task.
    let task = rig.tasks().await.remove(0);
    assert_eq!((task.state, task.ask.task_version), (State::Cancelled, 1));
    let asked =
        punctual_domain::task::NewTask { on_conflict: punctual_domain::insert::OnConflict::Keep, ..task.ask };
    rig.engine.insert(vec![asked], "schedule").await.unwrap();
    rig.pass(2 * MINUTE_MS).await;
    assert_eq!(rig.leased().await, []);
}

on_both!(a_pause_that_died_half_way_is_carried_to_its_end);
async fn a_pause_that_died_half_way_is_carried_to_its_end(rig: SchedulesRig) {
    rig.put("digest", every_minute()).await;
    rig.planned().await;
    // The change is committed, and then every cancel fails.
    rig.store.faults.set(StoreGroup::Apply, Dials::REFUSES);
    let paused = rig.planner.pause(&key("digest"), None, None, "ada").await;
    assert!(paused.is_err(), "the answer is not that nothing was done: {paused:?}");
    rig.store.faults.heal();
    let stored = rig.planner.get(&key("digest")).await.unwrap();
    assert!(stored.schedule.pause.is_some() && stored.progress.takes_back);
    let other = rig.beside();
    other.pass(2 * MINUTE_MS).await;
    assert_eq!(other.leased().await, []);
    assert_eq!(shown(&other.runs("digest").await), [(1, Outcome::Cancelled)]);
}

on_both!(a_schedule_whose_last_run_cannot_be_looked_at_holds_up_no_other);
async fn a_schedule_whose_last_run_cannot_be_looked_at_holds_up_no_other(rig: SchedulesRig) {
    rig.put("digest", Schedule { overlap: Overlap::Skip, ..every_minute() }).await;
    rig.pass(MINUTE_MS + 1_000).await;
    rig.put("other", every_minute()).await;
    rig.store.faults.set(StoreGroup::Read, Dials::REFUSES);
    rig.clock.advance_ms(15_000);
    assert!(rig.planner.run_once(rig.now()).await.is_err(), "the operator is told");
    assert_eq!(shown(&rig.runs("other").await), [(2, Outcome::Created)]);
    rig.store.faults.heal();
    rig.pass(MINUTE_MS).await;
    assert_eq!(shown(&rig.runs("digest").await), [(2, Outcome::Skipped), (1, Outcome::Created)]);
}

on_both!(what_cannot_be_made_now_stands_in_nobodys_way);
async fn what_cannot_be_made_now_stands_in_nobodys_way(rig: SchedulesRig) {
    for name in ["digest", "other"] {
        rig.put(name, every_minute()).await;
        dies_after_the_commit_of(&rig, name).await;
        rig.clock.advance_ms(1);
    }
    // It is to be revoked, and that fails: no other engine may make it meanwhile.
    rig.store.faults.set(StoreGroup::Apply, Dials::REFUSES);
    assert!(rig.planner.pause(&key("digest"), None, None, "ada").await.is_err());
    let one_at_a_time = punctual_schedules::Options { batch: 1, ..punctual_schedules::Options::default() };
    let planner = Planner::new(rig.engine.clone(), rig.schedules.clone(), one_at_a_time);
    rig.clock.advance_ms(11_000);
    assert!(planner.run_once(rig.now()).await.is_err(), "the operator is told");
    let is_recorded = async |name: &str| rig.runs(name).await.iter().all(|run| run.is_recorded);
    assert_eq!((is_recorded("digest").await, is_recorded("other").await), (false, true));
}
