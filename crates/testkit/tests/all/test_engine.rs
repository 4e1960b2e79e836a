//! The users' test clock (N9): what a user's test would look like.

use punctual_sdk::{
    HandlerError, Handlers, InsertTask, Task, Vanished,
    protocol::{PutSchedule, ScheduledTask},
};
use punctual_testkit::test_engine::{START, TestEngine};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

/// Kind and milliseconds since the start, of each attempt.
pub(crate) type Runs = Arc<Mutex<Vec<(String, i64)>>>;

/// Notes at which of the engine's milliseconds each attempt was planned, and fails the first `failures` of them.
pub(crate) fn recording(failures: u32) -> (Handlers, Runs) {
    let runs = Runs::default();
    let (seen, mut handlers) = (Arc::clone(&runs), Handlers::default());
    handlers.handle_any(move |task: Task| {
        let seen = Arc::clone(&seen);
        async move {
            seen.lock().unwrap().push((task.kind().to_owned(), task.fired_at_ms() - START.0));
            if task.attempt() <= failures { Err(HandlerError::failed("not yet")) } else { Ok(()) }
        }
    });
    (handlers, runs)
}

pub(crate) fn task(kind: &str, delay_ms: i64) -> InsertTask {
    InsertTask { kind: Some(kind.into()), delay_ms: Some(delay_ms), ..InsertTask::new("mail") }
}

#[tokio::test]
async fn a_week_passes_at_once_and_each_task_runs_at_its_own_millisecond() {
    let (handlers, runs) = recording(0);
    let mut engine = TestEngine::new();
    engine.work("mail", handlers);
    let week = Duration::from_secs(7 * 86_400);
    for (kind, delay_ms) in [("late", 604_799_999), ("soon", 1_500), ("now", 0), ("never", 604_800_001)] {
        engine.client().insert(&task(kind, delay_ms)).await.unwrap();
    }
    assert_eq!(engine.advance(week).await, 3);
    let want = [("now", 0), ("soon", 1_500), ("late", 604_799_999)].map(|(kind, at)| (kind.to_owned(), at));
    assert_eq!(*runs.lock().unwrap(), want);
    assert_eq!(engine.now_ms(), START.0 + 604_800_000);
}

#[tokio::test]
async fn a_task_that_is_cancelled_a_millisecond_before_never_runs() {
    let (handlers, runs) = recording(0);
    let mut engine = TestEngine::new();
    engine.work("mail", handlers);
    let inserted = engine.client().insert(&task("k", 1_000)).await.unwrap();
    engine.advance(Duration::from_millis(999)).await;
    engine.client().cancel(&inserted.r#ref).await.unwrap();
    engine.advance(Duration::from_secs(60)).await;
    assert!(runs.lock().unwrap().is_empty());
}

fn declared(of: &[(&str, i64)]) -> BTreeMap<String, PutSchedule> {
    let one = |(name, every_ms): &(&str, i64)| {
        let schedule =
            PutSchedule { every_ms: Some(*every_ms), ..PutSchedule::new(ScheduledTask::new("mail")) };
        ((*name).to_owned(), schedule)
    };
    of.iter().map(one).collect()
}

#[tokio::test]
async fn schedules_that_are_declared_in_code_run_in_test_time() {
    let (handlers, runs) = recording(0);
    let mut engine = TestEngine::new();
    engine.work("mail", handlers);
    let client = engine.client();
    let wanted = declared(&[("hourly", 3_600_000)]);
    let done = client.synchronise_schedules("service", &wanted, Vanished::Delete).await.unwrap();
    assert_eq!(done.created, ["hourly"]);
    assert_eq!(engine.advance(Duration::from_secs(86_400)).await, 24);
    let at: Vec<i64> = runs.lock().unwrap().iter().map(|run| run.1).collect();
    assert_eq!(at, (1..=24).map(|hour| hour * 3_600_000).collect::<Vec<i64>>(), "to the millisecond");
}

#[tokio::test]
async fn a_program_that_starts_makes_its_schedules_what_it_declares_and_touches_no_others() {
    let engine = TestEngine::new();
    let client = engine.client();
    let other =
        PutSchedule { owner: Some("somebody".into()), ..declared(&[("theirs", 1_000)])["theirs"].clone() };
    client.put_schedule("theirs", &other, Some(0)).await.unwrap();
    let of = |all: &[(&str, i64)], vanished| {
        let (client, wanted) = (client.clone(), declared(all));
        async move { client.synchronise_schedules("service", &wanted, vanished).await }
    };
    let first = of(&[("a", 60_000), ("b", 60_000), ("c", 60_000)], Vanished::Keep).await.unwrap();
    assert_eq!(first.created, ["a", "b", "c"]);
    let again = of(&[("a", 60_000), ("b", 90_000), ("c", 60_000)], Vanished::Keep).await.unwrap();
    assert_eq!(
        (again.changed, again.unchanged),
        (vec!["b".to_owned()], vec!["a".to_owned(), "c".to_owned()])
    );
    let disabled = of(&[("a", 60_000), ("b", 90_000)], Vanished::Disable).await.unwrap();
    assert_eq!(disabled.retired, ["c"]);
    assert!(!client.schedule("c").await.unwrap().enabled);
    let deleted = of(&[("a", 60_000)], Vanished::Delete).await.unwrap();
    assert_eq!(deleted.retired, ["b", "c"]);
    let names = client.schedules(10, None).await.unwrap().items;
    assert_eq!(names.iter().map(|name| name.name.as_str()).collect::<Vec<_>>(), ["a", "theirs"]);
    assert!(of(&[("theirs", 1_000)], Vanished::Keep).await.is_err(), "it belongs to somebody else");
}
