//! The client with a server in the same process: the calls sent, the retries, and the errors.

use std::time::Duration;

use crate::fake::Fake;
use punctual_sdk::protocol::{ActionOutcome, Code, Int64, Problem};
use punctual_sdk::{Client, Error, InsertTask, NewTask, PatchTask, SearchTasks};
use tokio::time::Instant;

fn paths(fake: &Fake) -> Vec<String> {
    fake.kept().calls.iter().map(|(path, _)| path.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_insert_whose_answer_was_lost_is_sent_again_and_does_not_double() {
    let fake = Fake::new();
    fake.change(|kept| kept.lose_answers.extend(["/tasks"; 2]));
    let task = fake.client().insert(&InsertTask::new("q")).await.unwrap();
    assert_eq!(task.r#ref, "t1");
    let kept = fake.kept();
    assert_eq!((kept.inserted.len(), kept.calls.len()), (1, 3));
    let keys: Vec<_> = kept.calls.iter().map(|(_, headers)| headers["idempotency-key"].clone()).collect();
    assert!(keys.iter().all(|key| *key == keys[0]) && keys[0].len() == 32);
}

#[tokio::test(start_paused = true)]
async fn two_inserts_have_two_keys_and_one_with_an_id_needs_none() {
    let fake = Fake::new();
    let client = fake.client();
    client.insert(&InsertTask::new("q")).await.unwrap();
    client.insert(&InsertTask::new("q")).await.unwrap();
    client.insert(&InsertTask { task_id: Some(Int64(7)), ..InsertTask::new("q") }).await.unwrap();
    let kept = fake.kept();
    let keys: Vec<_> = kept.calls.iter().map(|(_, headers)| headers.get("idempotency-key")).collect();
    assert!(keys[0].is_some() && keys[0] != keys[1] && keys[2].is_none(), "{keys:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_safe_to_repeat_is_sent_once_when_its_answer_is_lost() {
    let fake = Fake::new();
    let client = fake.client();
    fake.change(|kept| kept.lose_answers.extend(["/cancel", "/t1"]));
    let error = client.cancel("t1").await.unwrap_err();
    assert!(matches!(error, Error::Indeterminate { .. }) && error.may_have_happened());
    let later = PatchTask { delay_ms: Some(5), ..PatchTask::default() };
    assert!(client.reschedule("t1", &later).await.unwrap_err().may_have_happened());
    assert_eq!(paths(&fake), ["POST /v1/tasks/t1/cancel", "PATCH /v1/tasks/t1"]);
}

#[tokio::test(start_paused = true)]
async fn a_change_to_a_fixed_time_is_safe_to_repeat() {
    let fake = Fake::new();
    fake.change(|kept| kept.lose_answers.push_back("/t1"));
    let fixed = PatchTask { execute_at_ms: Some(1_900_000_000_000), ..PatchTask::default() };
    fake.client().reschedule("t1", &fixed).await.unwrap();
    assert_eq!(paths(&fake).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_was_not_sent_did_not_happen_and_is_tried_again() {
    let fake = Fake::new();
    fake.away(true);
    let client = fake.client();
    let began = Instant::now();
    let error = client.cancel("t1").await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }) && !error.may_have_happened());
    // Five tries, four waits of 50 to 400 ms, each at least half.
    assert!(began.elapsed() >= Duration::from_millis(375), "{:?}", began.elapsed());
    fake.away(false);
    assert_eq!(client.cancel("t1").await.unwrap().outcome, ActionOutcome::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_given_the_time_it_asks_for() {
    let fake = Fake::new();
    fake.change(|kept| kept.refuse.push_back(Problem::new(Code::Overload, "").retry_after_ms(7_000)));
    let began = Instant::now();
    assert_eq!(fake.client().cancel("t1").await.unwrap().outcome, ActionOutcome::Cancelled);
    assert_eq!(began.elapsed().as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_final_and_shows_what_stands_in_the_way() {
    let fake = Fake::new();
    let existing = serde_json::from_value(crate::fake::task_json("t9", "existing")).unwrap();
    let refusal = Problem::new(Code::TaskVersionSuperseded, "version 3 is known").with_existing(existing);
    fake.change(|kept| kept.refuse.push_back(refusal));
    let error = fake.client().insert(&InsertTask::new("q")).await.unwrap_err();
    assert!(error.is(Code::TaskVersionSuperseded) && !error.may_have_happened());
    assert_eq!(error.problem().unwrap().existing.as_ref().unwrap().r#ref, "t9");
    assert_eq!(paths(&fake).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_error_may_have_happened_and_only_safe_calls_are_repeated() {
    let fake = Fake::new();
    let client = fake.client();
    fake.change(|kept| kept.refuse.push_back(Problem::new(Code::StoreUnavailable, "")));
    let error = client.redrive("t1").await.unwrap_err();
    assert!(error.is(Code::StoreUnavailable) && error.may_have_happened());
    fake.change(|kept| kept.refuse.push_back(Problem::new(Code::StoreUnavailable, "")));
    assert_eq!(client.get("t1").await.unwrap().r#ref, "t1");
    assert_eq!(paths(&fake), ["POST /v1/tasks/t1/redrive", "GET /v1/tasks/t1", "GET /v1/tasks/t1"]);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_task_is_waited_for_in_calls_of_twenty_seconds() {
    let fake = Fake::new();
    let client = fake.client();
    assert_eq!(client.wait("t1", Duration::from_secs(20)).await.unwrap().ended_as, None);
    assert_eq!(paths(&fake), ["GET /v1/tasks/t1?wait_ms=20000"]);
    client.wait("t1", Duration::from_millis(20_150)).await.unwrap();
    let waits = [
        "GET /v1/tasks/t1?wait_ms=20000",
        "GET /v1/tasks/t1?wait_ms=20000",
        "GET /v1/tasks/t1?wait_ms=19950",
    ];
    assert_eq!(paths(&fake)[1..], waits);
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_sent_in_parts_and_answered_in_order() {
    let fake = Fake::new();
    let mut tasks = vec![InsertTask::new("q"); 20_001];
    tasks[10_002].priority = Some(9);
    let results = fake.client().insert_batch(&tasks).await.unwrap();
    assert_eq!(fake.kept().batches, [10_000, 10_000, 1]);
    assert_eq!(results.len(), tasks.len());
    assert_eq!(results[0].task.as_ref().unwrap().r#ref, "t1");
    assert_eq!(results[20_000].task.as_ref().unwrap().r#ref, "t20000");
    assert_eq!((results[10_002].status, results[10_002].task.is_none()), (400, true));
    assert_eq!(fake.kept().inserted.len(), 20_000);
}

#[tokio::test(start_paused = true)]
async fn an_iterator_is_inserted_part_by_part_and_each_part_is_told_before_the_next_is_made() {
    let fake = Fake::new();
    let made = std::cell::Cell::new(0);
    let tasks = (0..20_001).map(|nth| {
        made.set(nth + 1);
        NewTask::to("q").priority(3)
    });
    let mut reported = Vec::new();
    fake.client().insert_all(tasks, |results| reported.push((results.len(), made.get()))).await.unwrap();
    assert_eq!(reported, [(10_000, 10_000), (10_000, 20_000), (1, 20_001)]);
    assert_eq!(fake.kept().inserted.len(), 20_001);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_stops_half_way_says_how_far_it_came() {
    let fake = Fake::new();
    let tasks = vec![InsertTask::new("q"); 10_001];
    let client = Client::builder().transport(fake.transport()).tries(1).build().unwrap();
    fake.change(|kept| kept.refuse_batch_after = Some((1, Problem::new(Code::Internal, ""))));
    let error = client.insert_batch(&tasks).await.unwrap_err();
    assert_eq!(error.done.len(), 10_000);
    assert!(error.source.may_have_happened());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_valid_is_refused_before_it_is_sent() {
    let fake = Fake::new();
    let client = fake.client();
    let error = client.insert(&InsertTask::new("a b")).await.unwrap_err();
    assert_eq!(error.problem().unwrap().errors[0].pointer, "/queue");
    assert!(client.reschedule("t1", &PatchTask::default()).await.unwrap_err().is(Code::RequestInvalid));
    assert!(client.list(&SearchTasks { limit: Some(0), ..SearchTasks::default() }).await.is_err());
    assert!(paths(&fake).is_empty());
}

#[tokio::test(start_paused = true)]
async fn every_call_goes_to_its_place_with_token_and_namespace() {
    let fake = Fake::new();
    let builder = Client::builder().transport(fake.transport()).token("secret").namespace("shop");
    let client = builder.build().unwrap();
    assert_eq!(client.get("a/b").await.unwrap().r#ref, "t1");
    assert_eq!(client.find(7, Some(2)).await.unwrap().len(), 1);
    let search = SearchTasks { label: Some("team=a b".into()), limit: Some(5), ..SearchTasks::default() };
    assert_eq!(client.list(&search).await.unwrap().next_cursor.as_deref(), Some("more"));
    assert_eq!(client.run_now("t1").await.unwrap().outcome, ActionOutcome::Scheduled);
    assert_eq!(client.redrive("t1").await.unwrap().outcome, ActionOutcome::Redriven);
    assert_eq!(client.cancel_or_stop("t1").await.unwrap().outcome, ActionOutcome::Cancelled);
    assert_eq!(client.why("t1").await.unwrap().reason, "It waits.");
    let expected = [
        "GET /v1/tasks/a%2Fb",
        "GET /v1/tasks?task_id=7&task_version=2",
        "GET /v1/tasks?label=team%3Da+b&limit=5",
        "POST /v1/tasks/t1/run-now",
        "POST /v1/tasks/t1/redrive",
        "POST /v1/tasks/t1/cancel",
        "GET /v1/tasks/t1/why",
    ];
    assert_eq!(paths(&fake), expected);
    for (_, headers) in &fake.kept().calls {
        assert_eq!(
            (headers["authorization"].as_bytes(), headers["punctual-namespace"].as_bytes()),
            (&b"Bearer secret"[..], &b"shop"[..])
        );
    }
}
