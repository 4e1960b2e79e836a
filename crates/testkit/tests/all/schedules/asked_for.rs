//! Runs that a caller asks for: one now, and those of a range.

use super::rig::{MINUTE_MS, START, SchedulesRig, every_minute, key, on_both};
use punctual_domain::{
    schedule::{Outcome, RunKind, Schedule},
    time::Millis,
};
use punctual_schedules::Error;

on_both!(a_run_now_runs_beside_the_others_also_while_paused);
async fn a_run_now_runs_beside_the_others_also_while_paused(rig: SchedulesRig) {
    rig.put("digest", every_minute()).await;
    rig.planner.pause(&key("digest"), None, None, "ada").await.unwrap();
    let run = rig.planner.run_now(&key("digest")).await.unwrap();
    assert_eq!((run.key.kind, run.outcome, run.key.at), (RunKind::Manual, Outcome::Created, START));
    rig.engine.run_once().await.unwrap();
    let leased = rig.leased().await;
    assert_eq!(leased.len(), 1);
    assert_eq!(run.task_ref, Some(leased[0].place.to_string()));
}

on_both!(a_backfill_makes_the_runs_of_a_range_once_and_spreads_them);
async fn a_backfill_makes_the_runs_of_a_range_once_and_spreads_them(rig: SchedulesRig) {
    rig.put("digest", Schedule { cron: vec!["0 * * * *".to_owned()], ..every_minute() }).await;
    let (from, to) = (START.plus(-600 * MINUTE_MS), START);
    for _ in 0..2 {
        let made = rig.planner.backfill(&key("digest"), from, to, Some(1)).await.unwrap();
        assert_eq!(made.found, 10);
        assert_eq!(made.until, Some(START.plus(9_000)));
    }
    assert_eq!(rig.tasks().await.len(), 10, "asked for twice, made once");
    rig.pass(4_500).await;
    assert_eq!(rig.leased().await.len(), 5);
    let runs = rig.runs("digest").await;
    assert_eq!(runs.iter().filter(|run| run.key.kind == RunKind::Backfill).count(), 10);
}

on_both!(a_backfill_is_bounded);
async fn a_backfill_is_bounded(rig: SchedulesRig) {
    rig.put("digest", every_minute()).await;
    let too_long = rig.planner.backfill(&key("digest"), Millis(0), START, None).await;
    assert!(matches!(&too_long, Err(Error::Invalid(invalid)) if invalid.field == "to"), "{too_long:?}");
    let reversed = rig.planner.backfill(&key("digest"), START, Millis(0), None).await;
    assert!(matches!(&reversed, Err(Error::Invalid(invalid)) if invalid.field == "to"), "{reversed:?}");
}
