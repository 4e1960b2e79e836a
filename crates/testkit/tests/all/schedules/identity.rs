//! The ids of runs' tasks: derived from the schedule, the instant and a secret of the cluster; a task of
//! another origin with such an id is skipped.

use super::rig::{MINUTE_MS, START, SchedulesRig, every_minute, on_both};
use punctual_contract::{
    schedules::{Advance, NewRun, StoredSchedule},
    store::Applied,
};
use punctual_domain::{
    identity::IdentitySecret,
    insert::OnConflict,
    schedule::{Outcome, RunIdentity, RunKind, UnkeyedIdentity},
    task::NewTask,
    time::Millis,
};

async fn id_of(rig: &SchedulesRig, stored: &StoredSchedule, at: Millis, salt: u8) -> i64 {
    let secret = rig.schedules.identity_secret(IdentitySecret::new([1; 32])).await.unwrap();
    let (schedule, created_at, kind) = (stored.id, stored.created_at, RunKind::Planned);
    RunIdentity { schedule, created_at, kind, at }.task_id(&secret, salt)
}

on_both!(a_task_that_stands_under_the_id_of_a_run_is_seen_and_passed_by);
async fn a_task_that_stands_under_the_id_of_a_run_is_seen_and_passed_by(rig: SchedulesRig) {
    let stored = rig.put("digest", every_minute()).await.schedule;
    let at = START.plus(MINUTE_MS);
    // As a run of this schedule looks, in another queue, and inserted by another.
    let template = &stored.schedule.task;
    let mut forged =
        template.task(&stored.key.namespace, at.plus(1), &rig.engine.known_settings(&rig.queue()));
    forged.queue.queue = punctual_domain::name::Name::new("other").unwrap();
    forged.task_id = Some(id_of(&rig, &stored, at, 0).await);
    forged.task_version = 1;
    forged.labels.insert("schedule".to_owned(), "digest".to_owned());
    forged.labels.insert("scheduled_at_ms".to_owned(), at.0.to_string());
    rig.engine.insert(vec![forged], "mallory").await.unwrap();
    rig.pass(MINUTE_MS).await;
    let leased = rig.leased().await;
    assert_eq!(leased.len(), 1, "the run comes all the same");
    assert_eq!(leased[0].task_id, id_of(&rig, &stored, at, 1).await);
    let runs = rig.runs("digest").await;
    let run = runs.iter().find(|run| run.key.at == at).unwrap();
    assert!(run.reason.as_ref().unwrap().contains("another task had its id"), "{run:?}");
    assert_eq!(rig.engine.meters().identity_conflicts_total(), 1);
}

on_both!(every_engine_has_the_same_secret);
async fn every_engine_has_the_same_secret(rig: SchedulesRig) {
    let stored = rig.put("digest", every_minute()).await.schedule;
    let other = rig.beside();
    rig.planned().await;
    other.pass(MINUTE_MS).await;
    let leased = other.leased().await;
    assert_eq!(leased[0].task_id, id_of(&rig, &stored, START.plus(MINUTE_MS), 0).await);
    let without = UnkeyedIdentity {
        namespace: &stored.key.namespace,
        schedule: &stored.key.name,
        kind: RunKind::Planned,
        at: START.plus(MINUTE_MS),
    };
    assert_ne!(leased[0].task_id, without.task_id(0));
}

on_both!(a_run_that_was_decided_before_the_upgrade_keeps_its_name);
async fn a_run_that_was_decided_before_the_upgrade_keeps_its_name(rig: SchedulesRig) {
    let stored = rig.put("digest", every_minute()).await.schedule;
    let at = START.plus(MINUTE_MS);
    let run = NewRun {
        kind: RunKind::Planned,
        at,
        execute_at: at,
        revision: stored.revision,
        version: None,
        number: 1,
        outcome: Outcome::Created,
        reason: None,
    };
    let mut progress = stored.progress.clone();
    (progress.decided_until, progress.runs) = (at, 1);
    let (id, step, wake_at) = (stored.id, stored.step, Some(at));
    let advance = Advance { id, step, progress, wake_at, runs: vec![run], takes_back: None };
    assert_eq!(rig.schedules.advance_schedules(vec![advance], rig.now()).await.unwrap(), [Applied::Moved]);
    // The old engine has inserted its task, and was replaced before it said so in the history.
    let (namespace, schedule) = (&stored.key.namespace, &stored.key.name);
    let unkeyed = UnkeyedIdentity { namespace, schedule, kind: RunKind::Planned, at };
    let task = NewTask {
        task_id: Some(unkeyed.task_id(0)),
        task_version: stored.revision,
        on_conflict: OnConflict::Keep,
        ..stored.schedule.task.task(namespace, at, &rig.engine.known_settings(&rig.queue()))
    };
    rig.engine.insert(vec![task], "schedule").await.unwrap();
    rig.pass(MINUTE_MS).await;
    let leased = rig.leased().await;
    assert_eq!(leased.len(), 1, "once");
    assert_eq!(leased[0].task_id, unkeyed.task_id(0));
    // And what was decided before is revoked as everything else: then it has a keyed id.
    rig.pass(30_000).await;
    let runs = rig.runs("digest").await;
    assert!(runs.iter().all(|run| run.is_recorded), "{runs:?}");
}
