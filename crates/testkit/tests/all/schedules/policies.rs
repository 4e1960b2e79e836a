//! A schedule's policies for a run that has not ended, and for missed instants, with real tasks and
//! executors.

use super::rig::{MINUTE_MS, START, SchedulesRig, every_minute, key, on_both, shown};
use punctual_domain::{
    schedule::{Missed, Outcome, Overlap, Payload, Schedule},
    time::Millis,
};
use punctual_testkit::faults::StoreGroup;

on_both!(a_run_that_is_not_over_makes_the_next_be_skipped_and_an_executor_s_outcome_ends_it);
async fn a_run_that_is_not_over_makes_the_next_be_skipped_and_an_executor_s_outcome_ends_it(
    rig: SchedulesRig,
) {
    rig.put("digest", Schedule { overlap: Overlap::Skip, ..every_minute() }).await;
    rig.pass(MINUTE_MS).await;
    let first = rig.leased().await;
    assert_eq!(first.len(), 1);
    rig.pass(MINUTE_MS).await;
    assert_eq!(shown(&rig.runs("digest").await), [(2, Outcome::Skipped), (1, Outcome::Created)]);
    rig.pass(20_000).await;
    rig.succeed(&first).await;
    rig.pass(40_000).await;
    let third = rig.leased().await;
    assert_eq!(third.len(), 1);
    assert_eq!(third[0].fired_at, START.plus(3 * MINUTE_MS), "made ahead of its time, it is as exact as any");
}

on_both!(one_run_waits_for_the_one_before_and_begins_when_it_ends);
async fn one_run_waits_for_the_one_before_and_begins_when_it_ends(rig: SchedulesRig) {
    rig.put("digest", Schedule { overlap: Overlap::BufferOne, ..every_minute() }).await;
    rig.pass(MINUTE_MS).await;
    let first = rig.leased().await;
    rig.pass(2 * MINUTE_MS).await;
    let reported = [(3, Outcome::Skipped), (2, Outcome::Buffered), (1, Outcome::Created)];
    assert_eq!(shown(&rig.runs("digest").await), reported);
    rig.succeed(&first).await;
    rig.pass(5_000).await;
    let second = rig.leased().await;
    assert_eq!(second.len(), 1);
    assert_eq!(second[0].labels["scheduled_at_ms"], START.plus(2 * MINUTE_MS).0.to_string());
}

on_both!(the_old_run_is_asked_to_stop_for_the_new_one);
async fn the_old_run_is_asked_to_stop_for_the_new_one(rig: SchedulesRig) {
    rig.put("digest", Schedule { overlap: Overlap::CancelOther, ..every_minute() }).await;
    rig.pass(MINUTE_MS).await;
    let first = rig.leased().await;
    rig.pass(MINUTE_MS).await;
    let old = rig.engine.read(first[0].place).await.unwrap();
    assert!(old.lease.unwrap().cancel_requested);
    assert_eq!(rig.leased().await.len(), 1, "and the new one does not wait for that");
}

on_both!(of_several_late_runs_one_begins_and_the_one_that_goes_on_is_asked_to_stop);
async fn of_several_late_runs_one_begins_and_the_one_that_goes_on_is_asked_to_stop(rig: SchedulesRig) {
    let schedule = Schedule { overlap: Overlap::CancelOther, missed: Missed::All, ..every_minute() };
    rig.put("digest", schedule).await;
    rig.pass(MINUTE_MS).await;
    let first = rig.leased().await;
    // No engine looks for some minutes.
    rig.clock.advance_ms(u64::try_from(3 * MINUTE_MS + 20_000).unwrap());
    rig.planned().await;
    rig.engine.run_once().await.unwrap();
    let old = rig.engine.read(first[0].place).await.unwrap();
    assert!(old.lease.unwrap().cancel_requested, "the run that goes on");
    let begun: Vec<String> =
        rig.leased().await.iter().map(|lease| lease.labels["scheduled_at_ms"].clone()).collect();
    assert_eq!(begun, [START.plus(4 * MINUTE_MS).0.to_string()], "the last of the late ones, and no other");
    let wanted = [(4, Outcome::Created), (3, Outcome::Skipped), (2, Outcome::Skipped), (1, Outcome::Created)];
    assert_eq!(shown(&rig.runs("digest").await), wanted);
}

/// Some ten thousand steps each.
fn dear_payload() -> Payload {
    let ten = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]";
    let walks = format!("[0, 1].all(z, {ten}.all(a, {ten}.all(b, {ten}.all(c, a + b + c + z >= 0))))");
    let all: Vec<serde_json::Value> = (0..100).map(|_| serde_json::json!({ "$expr": walks })).collect();
    Payload::Json(serde_json::Value::from(all).to_string())
}

on_both!(a_schedule_with_dear_payloads_gives_others_their_turn_after_a_few_runs);
async fn a_schedule_with_dear_payloads_gives_others_their_turn_after_a_few_runs(rig: SchedulesRig) {
    let mut dear = Schedule { cron: Vec::new(), every_ms: Some(100), ..every_minute() };
    dear.task.payload = Some(dear_payload());
    rig.put("dear", dear).await;
    let mut made = 0;
    for passes in 1..=3 {
        rig.planned().await;
        let all = rig.runs("dear").await.len();
        assert!((made + 1..=passes * 40).contains(&all), "{all} runs in {passes} passes, {made} before");
        made = all;
        rig.clock.advance_ms(1);
    }
    rig.put("plain", every_minute()).await;
    rig.planned().await;
    assert_eq!(shown(&rig.runs("plain").await), [(1, Outcome::Created)]);
}

on_both!(runs_beside_each_other_are_made_whatever_becomes_of_them);
async fn runs_beside_each_other_are_made_whatever_becomes_of_them(rig: SchedulesRig) {
    rig.put("digest", every_minute()).await;
    rig.pass(3 * MINUTE_MS).await;
    assert_eq!(rig.leased().await.len(), 3);
}

async fn unseen(rig: &SchedulesRig, missed: Missed) -> Vec<(i64, Outcome)> {
    rig.put("digest", Schedule { missed, missed_window_ms: 3 * MINUTE_MS, ..every_minute() }).await;
    rig.clock.advance_ms(600_000 + 20_000);
    rig.planned().await;
    let runs = rig.runs("digest").await;
    let reported = shown(&runs);
    assert!(runs.iter().all(|run| run.outcome != Outcome::Missed || run.reason.is_some()));
    reported
}

on_both!(what_nobody_made_is_left_out_or_made_up_for_as_asked);
async fn what_nobody_made_is_left_out_or_made_up_for_as_asked(rig: SchedulesRig) {
    let next = (11, Outcome::Created);
    assert_eq!(unseen(&rig, Missed::Skip).await, [next, (10, Outcome::Missed)]);
    rig.engine.run_once().await.unwrap();
    assert_eq!(rig.leased().await, []);
}

on_both!(the_latest_that_was_missed_runs_once);
async fn the_latest_that_was_missed_runs_once(rig: SchedulesRig) {
    let next = (11, Outcome::Created);
    assert_eq!(unseen(&rig, Missed::Latest).await, [next, (10, Outcome::Created), (9, Outcome::Missed)]);
    rig.engine.run_once().await.unwrap();
    assert_eq!(rig.leased().await.len(), 1);
}

on_both!(all_that_was_missed_within_the_window_runs);
async fn all_that_was_missed_within_the_window_runs(rig: SchedulesRig) {
    let made = [11, 10, 9, 8].map(|minute| (minute, Outcome::Created));
    let reported = [made.as_slice(), &[(7, Outcome::Missed)]].concat();
    assert_eq!(unseen(&rig, Missed::All).await, reported);
    rig.engine.run_once().await.unwrap();
    assert_eq!(rig.leased().await.len(), 3);
}

on_both!(a_pause_ends_by_itself);
async fn a_pause_ends_by_itself(rig: SchedulesRig) {
    rig.put("digest", Schedule { missed: Missed::Skip, ..every_minute() }).await;
    let until = Some(START.plus(2 * MINUTE_MS + 30_000));
    rig.planner.pause(&key("digest"), None, until, "ada").await.unwrap();
    rig.pass(4 * MINUTE_MS).await;
    let fired: Vec<Millis> = rig.leased().await.iter().map(|lease| lease.execute_at).collect();
    assert_eq!(fired, [START.plus(3 * MINUTE_MS), START.plus(4 * MINUTE_MS)]);
}

on_both!(a_change_takes_back_what_the_jitter_of_before_has_put_off);
async fn a_change_takes_back_what_the_jitter_of_before_has_put_off(rig: SchedulesRig) {
    rig.put("digest", Schedule { jitter_ms: 50_000, ..every_minute() }).await;
    rig.planned().await;
    let first = rig.runs("digest").await.remove(0);
    let late_ms = first.execute_at.since(first.key.at);
    assert!(late_ms > 2_000, "this name's first run is {late_ms} ms late");
    // Its instant has come, and it has not fired.
    rig.pass(MINUTE_MS + 1_000).await;
    let taken = rig.put("digest", Schedule { enabled: false, ..every_minute() }).await;
    assert_eq!(taken.cancelled, 2, "with the one of the next minute");
    rig.pass(2 * MINUTE_MS).await;
    assert_eq!(rig.leased().await, []);
}

on_both!(the_last_runs_of_many_schedules_are_looked_at_together);
async fn the_last_runs_of_many_schedules_are_looked_at_together(rig: SchedulesRig) {
    let names: Vec<String> = (0..60).map(|nth| format!("s{nth}")).collect();
    for name in &names {
        rig.put(name, Schedule { overlap: Overlap::Skip, ..every_minute() }).await;
    }
    rig.pass(MINUTE_MS).await;
    let first = rig.leased().await;
    assert_eq!(first.len(), 60);
    rig.succeed(&first[..20]).await;
    let mut most = 0;
    for _ in 0..62 {
        rig.clock.advance_ms(1_000);
        let before = rig.store.faults.counts(StoreGroup::Read).passed;
        rig.planned().await;
        most = most.max(rig.store.faults.counts(StoreGroup::Read).passed - before);
    }
    assert!((1..=3).contains(&most), "{most} reads for one look at 60 schedules");
    let mut skipped = 0;
    for name in &names {
        let runs = rig.runs(name).await;
        skipped += runs.iter().filter(|run| run.outcome == Outcome::Skipped).count();
    }
    assert_eq!(skipped, 40, "those whose last run is not over");
}
