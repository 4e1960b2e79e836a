//! Retries: the delay from a failed attempt to the next one, for each strategy of a policy. How a delay is computed is tested where it
//! is computed (`domain::retry`); a store's part is in `conformance::store::retries`.

use super::test_engine::{recording, task};
use punctual_sdk::{InsertTask, protocol::State};
use punctual_testkit::test_engine::TestEngine;
use std::time::Duration;

/// The milliseconds at which attempts ran: the first two fail, the third succeeds.
async fn runs(policy: &str) -> Vec<i64> {
    let (handlers, runs) = recording(2);
    let mut engine = TestEngine::new();
    engine.work("mail", handlers);
    let retry = serde_json::from_str(policy).unwrap();
    let asked = InsertTask { retry: Some(retry), ..task("k", 100) };
    let inserted = engine.client().insert(&asked).await.unwrap();
    engine.advance(Duration::from_secs(5)).await;
    let task = engine.client().get(&inserted.r#ref).await.unwrap();
    assert_eq!((task.state, task.attempt, task.lateness_ms), (State::Succeeded, 3, Some(0)));
    runs.lock().unwrap().iter().map(|run| run.1).collect()
}

#[tokio::test]
async fn the_delay_of_a_retry_is_that_of_the_policy_and_a_success_ends_the_retries() {
    for (policy, at) in [
        (r#"{"strategy":"immediate"}"#, [100, 100, 100]),
        (r#"{"strategy":"fixed","delay_ms":300}"#, [100, 400, 700]),
        (
            r#"{"strategy":"exponential","delay_ms":100,"factor":3.0,"max_delay_ms":2000,"jitter":0.0}"#,
            [100, 200, 500],
        ),
        (r#"{"strategy":"list","delays_ms":[50,500]}"#, [100, 150, 650]),
    ] {
        assert_eq!(runs(policy).await, at, "{policy}");
    }
}
