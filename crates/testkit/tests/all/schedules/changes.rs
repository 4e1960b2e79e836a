//! Schedules that are changed while their runs come: each instant once, by the old document or by the new one.

use super::rig::{MINUTE_MS, START, SchedulesRig, every_minute, key, on_both, shown};
use punctual_contract::store::Assignment;
use punctual_domain::{
    schedule::{Missed, Outcome, Overlap, Payload, RunKind, Schedule},
    state::State,
};
use punctual_testkit::faults::{Dials, StoreGroup};

fn described(schedule: &Schedule, text: &str) -> Schedule {
    Schedule { description: Some(text.to_owned()), ..schedule.clone() }
}

fn every_half_second() -> Schedule {
    Schedule { cron: Vec::new(), every_ms: Some(500), ..every_minute() }
}

fn instants(leased: &[Assignment]) -> Vec<i64> {
    let mut all: Vec<i64> = leased
        .iter()
        .map(|lease| lease.labels["scheduled_at_ms"].parse::<i64>().unwrap() - START.0)
        .collect();
    all.sort_unstable();
    all
}

on_both!(an_identical_document_changes_nothing);
async fn an_identical_document_changes_nothing(rig: SchedulesRig) {
    let first = rig.put("digest", every_minute()).await;
    rig.planned().await;
    let again = rig.put("digest", every_minute()).await;
    assert_eq!((again.cancelled, again.fired), (0, 0));
    assert_eq!(again.schedule.revision, first.schedule.revision);
    assert_eq!(rig.tasks().await.len(), 1, "its run stands as it was made");
    let resumed = rig.planner.resume(&key("digest"), "ada").await.unwrap();
    assert_eq!(resumed.schedule.revision, first.schedule.revision, "it was not paused");
    assert_eq!(shown(&rig.runs("digest").await), [(1, Outcome::Created)]);
}

on_both!(what_fires_between_a_change_and_its_taking_back_is_decided);
async fn what_fires_between_a_change_and_its_taking_back_is_decided(rig: SchedulesRig) {
    rig.put("digest", every_half_second()).await;
    rig.pass(1_000).await;
    assert_eq!(instants(&rig.leased().await), [500, 1_000]);
    // The change is committed, and then its engine dies: two instants come before anybody continues with it.
    rig.store.faults.set(StoreGroup::Apply, Dials::REFUSES);
    assert!(
        rig.planner.put(&key("digest"), described(&every_half_second(), "b"), "ada", |_| true).await.is_err()
    );
    rig.store.faults.heal();
    rig.clock.advance_ms(1_000);
    rig.engine.run_once().await.unwrap();
    assert_eq!(instants(&rig.leased().await), [1_500, 2_000], "by the old document");
    let other = rig.beside();
    other.pass(2_000).await;
    assert_eq!(instants(&other.leased().await), [2_500, 3_000, 3_500, 4_000], "each once");
}

on_both!(a_change_at_the_very_instant_runs_each_instant_once);
async fn a_change_at_the_very_instant_runs_each_instant_once(rig: SchedulesRig) {
    rig.put("digest", every_half_second()).await;
    rig.pass(2_000).await;
    let mut came = instants(&rig.leased().await);
    for nth in 0..10 {
        rig.clock.advance_ms(500);
        // Before, while and after what is due now fires.
        if nth % 2 == 0 {
            rig.engine.run_once().await.unwrap();
        }
        rig.put("digest", described(&every_half_second(), &nth.to_string())).await;
        rig.planned().await;
        rig.engine.run_once().await.unwrap();
        came.extend(instants(&rig.leased().await));
    }
    assert_eq!(came, (1..=14).map(|nth| nth * 500).collect::<Vec<_>>());
}

on_both!(a_run_that_its_jitter_puts_off_comes_once_whatever_is_changed_meanwhile);
async fn a_run_that_its_jitter_puts_off_comes_once_whatever_is_changed_meanwhile(rig: SchedulesRig) {
    let hourly = Schedule { cron: vec!["48 * * * *".to_owned()], jitter_ms: 50_000, ..every_minute() };
    let names = ["left", "stored", "patched", "paused"];
    for name in names {
        rig.put(name, hourly.clone()).await;
    }
    // Up to the instant, and not to the time of each.
    let instant =
        rig.planner.next(&rig.planner.get(&key("left")).await.unwrap(), 1).await.unwrap()[0].scheduled_at;
    rig.pass(instant.since(rig.now())).await;
    let waiting = rig.tasks().await.iter().filter(|task| task.state == State::Scheduled).count();
    assert_eq!(waiting, 4, "each is put off");
    rig.put("stored", hourly.clone()).await;
    let patched = |schedule: &Schedule| Ok(described(schedule, "the same, with a word"));
    rig.planner.patch(&key("patched"), "ada", |_| true, patched).await.unwrap();
    rig.planner.pause(&key("paused"), None, None, "ada").await.unwrap();
    rig.planner.resume(&key("paused"), "ada").await.unwrap();
    rig.pass(MINUTE_MS).await;
    let leased = rig.leased().await;
    let mut came: Vec<&str> = leased.iter().map(|lease| lease.labels["schedule"].as_str()).collect();
    came.sort_unstable();
    assert_eq!(came, ["left", "patched", "paused", "stored"], "each once");
    let made_again = leased.iter().find(|lease| lease.labels["schedule"] == "patched").unwrap();
    let as_before = leased.iter().find(|lease| lease.labels["schedule"] == "stored").unwrap();
    assert_eq!((as_before.task_version, made_again.task_version), (1, 2), "no version is a revision");
}

on_both!(a_shorter_interval_counts_at_once);
async fn a_shorter_interval_counts_at_once(rig: SchedulesRig) {
    let all = [Overlap::Allow, Overlap::Skip, Overlap::BufferOne, Overlap::BufferAll, Overlap::CancelOther];
    for (nth, overlap) in all.into_iter().enumerate() {
        let name = format!("s{nth}");
        rig.put(&name, Schedule { overlap, ..every_minute() }).await;
        rig.planned().await;
        let often = Schedule { cron: vec!["*/5 * * * * *".to_owned()], overlap, ..every_minute() };
        assert_eq!(rig.put(&name, often).await.cancelled, 1, "{overlap:?}");
    }
    rig.pass(6_000).await;
    assert_eq!(rig.leased().await.len(), all.len(), "one each after five seconds");
}

on_both!(a_run_that_is_left_out_holds_nothing_up);
async fn a_run_that_is_left_out_holds_nothing_up(rig: SchedulesRig) {
    let mut schedule = Schedule { overlap: Overlap::Skip, max_runs: Some(3), ..every_minute() };
    schedule.task.payload = Some(Payload::Json(r#"{"n": {"$expr": "1 / (run - 2)"}}"#.to_owned()));
    rig.put("digest", schedule).await;
    let mut came = 0;
    for _ in 0..5 {
        rig.pass(MINUTE_MS).await;
        let leased = rig.leased().await;
        came += leased.len();
        rig.succeed(&leased).await;
    }
    let runs = rig.runs("digest").await;
    let reported =
        [(4, Outcome::Created), (3, Outcome::Created), (2, Outcome::Skipped), (1, Outcome::Created)];
    assert_eq!((came, shown(&runs)), (3, reported.to_vec()), "three runs, and one that was none");
}

on_both!(six_hundred_runs_are_taken_back_in_one_batch);
async fn six_hundred_runs_are_taken_back_in_one_batch(rig: SchedulesRig) {
    let often = Schedule { cron: Vec::new(), every_ms: Some(100), ..every_minute() };
    rig.put("digest", often.clone()).await;
    while rig.planned().await > 0 {}
    assert_eq!(rig.tasks().await.len(), 600);
    let calls = |group| rig.store.faults.counts(group).passed;
    let before = (calls(StoreGroup::Apply), calls(StoreGroup::Read));
    let taken = rig.put("digest", described(&often, "b")).await;
    assert_eq!((taken.cancelled, taken.fired), (600, 0));
    let after = (calls(StoreGroup::Apply), calls(StoreGroup::Read));
    assert!(after.0 - before.0 <= 2 && after.1 - before.1 <= 2, "{before:?} {after:?}");
}

on_both!(many_that_store_one_document_at_once_store_it_once);
async fn many_that_store_one_document_at_once_store_it_once(rig: SchedulesRig) {
    let mut storing = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let planner = rig.beside().planner;
        storing.spawn(async move { planner.put(&key("digest"), every_minute(), "ada", |_| true).await });
    }
    let all = storing.join_all().await;
    let revisions: Vec<i64> = all.into_iter().map(|result| result.unwrap().schedule.revision).collect();
    assert!(revisions.iter().all(|revision| *revision == revisions[0]), "{revisions:?}");
    let mut deleting = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let planner = rig.beside().planner;
        deleting.spawn(async move { planner.delete(&key("digest"), "ada", |_| true).await });
    }
    let all = deleting.join_all().await;
    assert!(all.iter().any(Result::is_ok), "{all:?}");
    let refused = |result: &Result<_, punctual_schedules::Error>| {
        matches!(result, Ok(_) | Err(punctual_schedules::Error::NotFound))
    };
    assert!(all.iter().all(refused), "{all:?}");
}

on_both!(what_could_not_be_handed_over_in_time_is_judged_as_missed);
async fn what_could_not_be_handed_over_in_time_is_judged_as_missed(rig: SchedulesRig) {
    let hourly = |missed| Schedule { cron: vec!["48 * * * *".to_owned()], missed, ..every_minute() };
    let all = [("skip", Missed::Skip), ("latest", Missed::Latest), ("all", Missed::All)];
    for (name, missed) in all {
        rig.put(name, hourly(missed)).await;
    }
    let stored = rig.planner.get(&key("skip")).await.unwrap();
    let instant = rig.planner.next(&stored, 1).await.unwrap()[0].at;
    rig.clock.advance_ms(u64::try_from(instant.since(rig.now()) - 30_000).unwrap());
    // The database of their tasks is unavailable until a minute after the instant.
    rig.store.faults.set(StoreGroup::Insert, Dials::REFUSES);
    let _ = rig.planner.run_once(rig.now()).await;
    rig.clock.advance_ms(90_000);
    let _ = rig.planner.run_once(rig.now()).await;
    rig.store.faults.heal();
    rig.pass(20_000).await;
    let leased = rig.leased().await;
    let mut came: Vec<&str> = leased.iter().map(|lease| lease.labels["schedule"].as_str()).collect();
    came.sort_unstable();
    assert_eq!(came, ["all", "latest"]);
    let runs = rig.runs("skip").await;
    assert_eq!((runs[0].outcome, runs[0].key.at), (Outcome::Missed, instant));
    assert!(runs[0].reason.as_ref().unwrap().contains("in time"), "{runs:?}");
}

on_both!(what_somebody_has_asked_for_stays_when_the_schedule_is_changed);
async fn what_somebody_has_asked_for_stays_when_the_schedule_is_changed(rig: SchedulesRig) {
    rig.put("digest", every_minute()).await;
    rig.planner.run_now(&key("digest")).await.unwrap();
    rig.put("digest", described(&every_minute(), "b")).await;
    rig.engine.run_once().await.unwrap();
    assert_eq!(rig.leased().await.len(), 1);
    assert!(rig.runs("digest").await.iter().any(|run| run.key.kind == RunKind::Manual));
}
