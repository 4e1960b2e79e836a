//! Schedules on a real engine and both kinds of back ends: runs are made ahead of time and once, if any
//! engine dies between two steps; changed or paused ones are revoked; policies hold with real tasks. Only the
//! test moves the clock.

mod asked_for;
mod changes;
mod crashing;
mod identity;
mod policies;
mod rig;

use punctual_contract::schedules::ScheduleKey;
use punctual_domain::{
    name::Name,
    schedule::{Outcome, Payload, Schedule},
    state::State,
    time::Millis,
};
use rig::{MINUTE_MS, START, SchedulesRig, every_minute, key, on_both, shown};

on_both!(a_run_is_made_a_minute_ahead_fires_at_its_instant_and_stands_in_the_history);
async fn a_run_is_made_a_minute_ahead_fires_at_its_instant_and_stands_in_the_history(rig: SchedulesRig) {
    rig.put("digest", every_minute()).await;
    rig.planned().await;
    let tasks = rig.tasks().await;
    assert_eq!(tasks.len(), 1, "{tasks:?}");
    assert_eq!((tasks[0].ask.execute_at, tasks[0].state), (START.plus(MINUTE_MS), State::Scheduled));
    rig.pass(59_999).await;
    assert_eq!(rig.leased().await, []);
    rig.pass(1).await;
    let leased = rig.leased().await;
    assert_eq!(leased.len(), 1);
    assert_eq!((leased[0].execute_at, leased[0].fired_at), (START.plus(MINUTE_MS), START.plus(MINUTE_MS)));
    assert_eq!(leased[0].labels.get("schedule").map(String::as_str), Some("digest"));
    let runs = rig.runs("digest").await;
    assert_eq!(shown(&runs), [(2, Outcome::Created), (1, Outcome::Created)]);
    assert_eq!(runs[1].task_ref.as_deref(), Some(leased[0].place.to_string().as_str()));
    let stored = rig.planner.get(&key("digest")).await.unwrap();
    assert_eq!(stored.progress.runs, 2);
    assert_eq!(rig.planner.next(&stored, 2).await.unwrap()[0].at, START.plus(2 * MINUTE_MS));
}

on_both!(two_engines_that_plan_at_once_make_one);
async fn two_engines_that_plan_at_once_make_one(rig: SchedulesRig) {
    for nth in 0..20 {
        rig.put(&format!("s{nth}"), every_minute()).await;
    }
    let other = rig.beside();
    for _ in 0..5 {
        let now = rig.now();
        let (a, b) = tokio::join!(rig.planner.run_once(now), other.planner.run_once(now));
        assert_eq!((a.is_ok(), b.is_ok()), (true, true), "{a:?} {b:?}");
        rig.clock.advance_ms(60_000);
    }
    let tasks = rig.tasks().await;
    assert_eq!(tasks.len(), 20 * 5);
    assert!(tasks.iter().all(|task| task.history.len() <= 1), "none was made twice");
    for nth in 0..20 {
        assert_eq!(rig.runs(&format!("s{nth}")).await.len(), 5);
    }
}

on_both!(a_pause_takes_back_what_had_not_fired_and_a_resume_goes_on);
async fn a_pause_takes_back_what_had_not_fired_and_a_resume_goes_on(rig: SchedulesRig) {
    rig.put("digest", Schedule { missed: punctual_domain::schedule::Missed::Skip, ..every_minute() }).await;
    rig.pass(MINUTE_MS + 30_000).await;
    assert_eq!(rig.leased().await.len(), 1);
    let paused = rig.planner.pause(&key("digest"), Some("why not".to_owned()), None, "ada").await.unwrap();
    assert_eq!((paused.cancelled, paused.fired), (1, 0));
    let states: Vec<State> = rig.tasks().await.iter().map(|task| task.state).collect();
    assert!(states.contains(&State::Cancelled) && !states.contains(&State::Scheduled), "{states:?}");
    assert_eq!(shown(&rig.runs("digest").await), [(2, Outcome::Cancelled), (1, Outcome::Created)]);
    assert_eq!(rig.planner.next(&paused.schedule, 5).await.unwrap(), []);
    rig.pass(3 * MINUTE_MS).await;
    assert_eq!(rig.leased().await, [], "nothing of it fires");
    rig.planner.resume(&key("digest"), "ada").await.unwrap();
    rig.planned().await;
    let runs = rig.runs("digest").await;
    let reported =
        [(5, Outcome::Created), (4, Outcome::Missed), (2, Outcome::Cancelled), (1, Outcome::Created)];
    assert_eq!(shown(&runs), reported);
    assert!(runs[1].reason.as_ref().unwrap().contains("it was paused"), "{runs:?}");
    rig.pass(30_000).await;
    assert_eq!(rig.leased().await.len(), 1);
    let progress = rig.planner.get(&key("digest")).await.unwrap().progress;
    let (now, next) = (runs[0].key.at, runs[0].key.at.plus(MINUTE_MS));
    let last = |at: Millis| progress.last_run(at);
    assert_eq!(
        (last(now), last(next.plus(-1)), last(next)),
        (Some(now), Some(now), Some(next)),
        "one is made ahead"
    );
}

on_both!(a_pause_and_a_resume_before_the_instant_lose_no_run_and_make_none_twice);
async fn a_pause_and_a_resume_before_the_instant_lose_no_run_and_make_none_twice(rig: SchedulesRig) {
    rig.put("digest", every_minute()).await;
    rig.planned().await;
    for _ in 0..3 {
        rig.planner.pause(&key("digest"), None, None, "ada").await.unwrap();
        rig.planner.resume(&key("digest"), "ada").await.unwrap();
        rig.planned().await;
    }
    rig.pass(MINUTE_MS).await;
    assert_eq!(rig.leased().await.len(), 1);
    assert_eq!(rig.planner.get(&key("digest")).await.unwrap().progress.runs, 2, "with the next, ahead");
}

on_both!(a_change_takes_back_what_the_old_document_made_and_makes_what_the_new_one_says);
async fn a_change_takes_back_what_the_old_document_made_and_makes_what_the_new_one_says(rig: SchedulesRig) {
    rig.put("digest", every_minute()).await;
    rig.planned().await;
    let changed = Schedule { cron: vec!["30 * * * * *".to_owned()], ..every_minute() };
    let taken = rig.put("digest", changed).await;
    assert_eq!(taken.cancelled, 1);
    rig.planned().await;
    rig.pass(MINUTE_MS).await;
    let leased: Vec<Millis> = rig.leased().await.iter().map(|lease| lease.execute_at).collect();
    assert_eq!(leased, [START.plus(30_000)], "and not the full minute");
}

on_both!(a_schedule_that_is_deleted_leaves_nothing_that_fires);
async fn a_schedule_that_is_deleted_leaves_nothing_that_fires(rig: SchedulesRig) {
    rig.put("digest", every_minute()).await;
    rig.planned().await;
    let taken = rig.planner.delete(&key("digest"), "ada", |_| true).await.unwrap();
    assert_eq!(taken.cancelled, 1);
    assert!(matches!(rig.planner.get(&key("digest")).await, Err(punctual_schedules::Error::NotFound)));
    rig.pass(2 * MINUTE_MS).await;
    assert_eq!(rig.leased().await, []);
    // Made anew, it runs at the instants that the old one had.
    rig.put("digest", every_minute()).await;
    rig.pass(MINUTE_MS).await;
    assert_eq!(rig.leased().await.len(), 1);
}

on_both!(all_that_are_due_at_one_instant_are_made_before_it);
async fn all_that_are_due_at_one_instant_are_made_before_it(rig: SchedulesRig) {
    const SCHEDULES: usize = 1_200;
    for nth in 0..SCHEDULES {
        rig.put(&format!("s{nth}"), every_minute()).await;
    }
    assert_eq!(rig.planned().await, SCHEDULES);
    let tasks = rig.tasks().await;
    assert_eq!(tasks.len(), SCHEDULES);
    assert!(tasks.iter().all(|task| task.ask.execute_at == START.plus(MINUTE_MS)));
    assert_eq!(rig.planned().await, 0, "and then there is nothing to do");
}

on_both!(one_whose_next_run_is_far_is_looked_at_every_day);
async fn one_whose_next_run_is_far_is_looked_at_every_day(rig: SchedulesRig) {
    rig.put("leap", Schedule { cron: vec!["0 0 29 2 *".to_owned()], ..every_minute() }).await;
    rig.planned().await;
    assert_eq!(rig.planner.next_run_at().await.unwrap(), Some(START.plus(24 * 60 * MINUTE_MS)));
}

on_both!(each_run_has_its_own_payload);
async fn each_run_has_its_own_payload(rig: SchedulesRig) {
    let payload = r#"{"at": {"$expr": "scheduled_at"}, "file": {"$expr": "schedule + '-' + string(run)"}}"#;
    let mut schedule = every_minute();
    schedule.task.payload = Some(Payload::Json(payload.to_owned()));
    rig.put("digest", schedule).await;
    rig.pass(2 * MINUTE_MS).await;
    let payloads: Vec<String> = rig
        .leased()
        .await
        .iter()
        .map(|lease| String::from_utf8_lossy(&lease.payload.bytes).into_owned())
        .collect();
    let at = |minute: i64| rfc3339(START.plus(minute * MINUTE_MS));
    let wanted = [1, 2].map(|run| format!(r#"{{"at": "{}", "file": "digest-{run}"}}"#, at(run)));
    assert_eq!(payloads, wanted);
}

fn rfc3339(at: Millis) -> String {
    punctual_sdk::protocol::At::from_ms(at.0).to_string()
}

on_both!(a_payload_that_cannot_be_filled_in_is_told_and_stops_nothing_else);
async fn a_payload_that_cannot_be_filled_in_is_told_and_stops_nothing_else(rig: SchedulesRig) {
    let mut schedule = every_minute();
    schedule.task.payload = Some(Payload::Json(r#"{"n": {"$expr": "1 / (run - 2)"}}"#.to_owned()));
    rig.put("digest", schedule).await;
    rig.pass(3 * MINUTE_MS).await;
    let runs = rig.runs("digest").await;
    assert_eq!(runs[2].outcome, Outcome::Skipped, "{runs:?}");
    assert!(runs[2].reason.as_ref().unwrap().contains("1 / (run - 2)"), "{runs:?}");
    assert_eq!(rig.leased().await.len(), 2, "the first and the third");
}

on_both!(a_name_belongs_to_its_namespace);
async fn a_name_belongs_to_its_namespace(rig: SchedulesRig) {
    let other = ScheduleKey { namespace: Name::new("other").unwrap(), name: key("digest").name };
    rig.put("digest", every_minute()).await;
    rig.planner.put(&other, every_minute(), "ada", |revision| revision == 0).await.unwrap();
    assert_eq!(rig.planned().await, 2);
    rig.planner.delete(&other, "ada", |_| true).await.unwrap();
    assert_eq!(rig.runs("digest").await.len(), 1);
}

on_both!(a_namespace_that_is_deleted_takes_its_schedules_along);
async fn a_namespace_that_is_deleted_takes_its_schedules_along(rig: SchedulesRig) {
    let other = ScheduleKey { namespace: Name::new("other").unwrap(), name: key("digest").name };
    rig.planner.put(&other, every_minute(), "ada", |revision| revision == 0).await.unwrap();
    rig.put("digest", every_minute()).await;
    rig.pass(1_000).await;
    assert_eq!(rig.tasks().await.len(), 2);
    rig.engine.delete_namespace(other.namespace.clone(), "ada").await.unwrap();
    rig.pass(90_000).await;
    assert!(matches!(rig.planner.get(&other).await, Err(punctual_schedules::Error::NotFound)));
    let tasks = rig.tasks().await;
    assert!(
        tasks.len() >= 2 && tasks.iter().all(|task| task.ask.queue.namespace != other.namespace),
        "{tasks:?}"
    );
}
