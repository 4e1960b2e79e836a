//! `/readyz` answers every caller, and gives details only to those that may read the metrics. Seen to fail:
//! with details for all callers; with bad tokens that are not counted; with bad tokens treated as missing
//! ones, and immediately.

use super::site::{AccessSite, get};
use punctual_testkit::faults::{Dials, StoreGroup};
use serde_json::Value;

/// The part of the answer that is about the store.
fn store(answer: &Value) -> &Value {
    let parts = answer["parts"].as_array().unwrap();
    parts.iter().find(|part| part["name"] == "store").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_broken_is_told_to_everybody_and_why_to_those_who_may_know() {
    for site in [AccessSite::sqlite().await, AccessSite::mysql().await] {
        let (_, viewer) = site.token("viewer", &["*"], &["*"]).await;
        let (_, executor) = site.token("executor", &["*"], &["*"]).await;
        let (_, tenant) = site.token("viewer", &["shop"], &["*"]).await;
        let well = site.send(get("/readyz")).await.expect(200);
        assert_eq!(
            (&store(&well)["ok"], &store(&well)["detail"]),
            (&Value::from(true), &Value::from("ready"))
        );
        site.store.faults.set(StoreGroup::Read, Dials::REFUSES);
        for (token, is_reported) in
            [(None, false), (Some(&*executor), false), (Some(&*tenant), false), (Some(&*viewer), true)]
        {
            let asked = token.map_or_else(|| get("/readyz"), |token| get("/readyz").with(token));
            let answer = site.send(asked).await;
            assert_eq!(answer.body["code"], "store.unavailable", "{}", answer.text);
            assert_eq!(store(&answer.body)["ok"], false);
            assert_eq!(answer.text.contains("refused by a fault"), is_reported, "{token:?}: {}", answer.text);
        }
        site.store.faults.heal();
    }
}

#[tokio::test]
async fn whoever_tries_tokens_here_is_counted_as_everywhere() {
    let site = AccessSite::sqlite().await;
    for _ in 0..10 {
        let refused = site.send(get("/readyz").with("punctual_x_y")).await;
        assert!(refused.headers.contains_key("www-authenticate"), "{}", refused.text);
        refused.expect_problem(401, "auth.required");
    }
    site.send(get("/readyz").with("punctual_x_y")).await.expect_problem(429, "auth.slowed");
    site.send(get("/v1/tasks").with("punctual_x_y")).await.expect_problem(429, "auth.slowed");
    let (_, viewer) = site.token("viewer", &["*"], &["*"]).await;
    let well = site.send(get("/readyz").with(&viewer)).await.expect(200);
    assert_eq!(store(&well)["detail"], "answers", "a good one is not locked out");
    assert_eq!(store(&site.send(get("/readyz")).await.expect(200))["detail"], "ready", "nor is a probe");
}

#[tokio::test]
async fn without_tokens_the_machines_own_user_is_told() {
    let site = AccessSite::open().await;
    site.store.faults.set(StoreGroup::Read, Dials::REFUSES);
    let answer = site.send(get("/readyz")).await;
    assert!(answer.text.contains("refused by a fault"), "{}", answer.text);
}
