//! Preleases follow the order of hand-overs: by urgency, and of two versions of a task the newer first.

use super::*;
use punctual_domain::task::Priority;

const EXECUTORS: usize = 10;
const TASKS: usize = 100;
const ROUNDS: usize = 3;
/// Of the 30 first, the default choice gives 24 to the urgent ones; less than this in one of a million runs.
const URGENT_MIN: usize = 13;

/// Executors that wait for one task each.
fn wait_for_one(rig: &CrashPointsRig, count: usize) -> Executor {
    let mut executors = JoinSet::new();
    for _ in 0..count {
        let engine = rig.engine.clone();
        executors
            .spawn(async move { engine.lease(LeaseRequest { max: 1, ..request(WAIT_MS) }).await.unwrap() });
    }
    executors
}

async fn finish(rig: &CrashPointsRig, leased: &[Assignment]) {
    let reports = leased.iter().map(succeeded).collect();
    assert!(
        rig.engine
            .record_outcomes(reports, "ann")
            .await
            .unwrap()
            .iter()
            .all(|recorded| *recorded == Reported::Accepted)
    );
}

pub(super) async fn ten_executors_get_the_urgent_ones_of_a_hundred(ground: Arc<dyn Ground>) {
    let rig = rig(&*ground, false).await;
    let running = rig.engine.start().unwrap();
    warm_up(&rig).await;
    let mut urgent = 0;
    for _ in 0..ROUNDS {
        let executors = wait_for_one(&rig, EXECUTORS);
        let at = rig.engine.now().plus(1_500);
        let task = |nth: usize| {
            let priority = if nth % 10 == 9 { Priority::HIGHEST } else { Priority::default() };
            NewTask { priority, ..NewTask::new(queue(), Name::new("k").unwrap(), at) }
        };
        rig.engine.insert((0..TASKS).map(task).collect(), "test").await.unwrap();
        let first: Vec<Assignment> = executors.join_all().await.into_iter().flatten().collect();
        assert_eq!(first.len(), EXECUTORS);
        assert!(first.iter().all(|lease| lease.fired_at >= lease.due_at), "{first:?}");
        urgent += first.iter().filter(|lease| lease.priority == Priority::HIGHEST).count();
        finish(&rig, &first).await;
        let mut left = TASKS - EXECUTORS;
        while left > 0 {
            let next = rig.engine.lease(LeaseRequest { max: TASKS, ..request(WAIT_MS) }).await.unwrap();
            finish(&rig, &next).await;
            left -= next.len();
        }
    }
    assert!(urgent >= URGENT_MIN, "{urgent} of the {} first were urgent", ROUNDS * EXECUTORS);
    running.stop().await;
    rig.is_whole().await;
}

pub(super) async fn of_two_versions_due_at_one_instant_the_newer_goes_first(ground: Arc<dyn Ground>) {
    let rig = rig(&*ground, false).await;
    let running = rig.engine.start().unwrap();
    warm_up(&rig).await;
    for round in 1..=ROUNDS {
        let executors = wait_for_one(&rig, 1);
        let at = rig.engine.now().plus(1_500);
        let of = |task_version| NewTask {
            task_id: i64::try_from(round).ok(),
            task_version,
            ..NewTask::new(queue(), Name::new("k").unwrap(), at)
        };
        rig.engine.insert(vec![of(1), of(2)], "test").await.unwrap();
        let first = got(executors).await;
        assert_eq!(first.iter().map(|lease| lease.task_version).collect::<Vec<_>>(), [2]);
        finish(&rig, &first).await;
        let other = leased(&rig).await;
        assert_eq!(other.task_version, 1);
        finish(&rig, &[other]).await;
    }
    running.stop().await;
    rig.is_whole().await;
}
