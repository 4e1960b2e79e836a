//! A payload whose object is lost: its task does not run for ever, but spends its attempts, and is then dead, with a
//! reason that names the object. One that only cannot be reached spends none.

use super::{
    MIB,
    rig::{LargeRig, bytes, on_each_store, text},
};
use punctual_contract::Blobs as _;
use punctual_testkit::patience::until;
use serde_json::{Value, json};

fn asked(id: i64) -> Value {
    json!({"queue": "q", "task_id": id, "delay_ms": 0, "max_attempts": 3,
        "retry": {"strategy": "fixed", "delay_ms": 5_000}, "payload_base64": text(&bytes(MIB, 1))})
}

async fn a_task_whose_object_is_gone_is_dead_after_its_attempts_and_says_which(rig: LargeRig) {
    rig.post("/v1/tasks", &asked(1)).await.expect(201);
    let key = rig.key_of(1).await;
    let object = rig.place.get(&key).await.unwrap().unwrap();
    rig.place.delete(std::slice::from_ref(&key)).await.unwrap();
    for (attempt, state) in [(1, "retrying"), (2, "retrying"), (3, "dead")] {
        rig.advance(0).await;
        assert!(rig.lease().await.is_empty());
        let task = rig.row_of(1).await;
        assert_eq!((task.attempt, task.state.word()), (attempt, state), "{task:?}");
        rig.advance(4_999).await;
        assert!(rig.lease().await.is_empty(), "the retry policy holds");
        assert_eq!(rig.row_of(1).await.attempt, attempt);
        rig.advance(1).await;
    }
    rig.advance(3_600_000).await;
    assert!(rig.lease().await.is_empty());

    let task = rig.task(1).await;
    assert_eq!(task["payload_base64"], Value::Null, "it is shown without what is lost");
    assert_eq!(task["payload_outside_bytes"], MIB);
    assert!(task["last_error"].as_str().unwrap().contains(&key), "{task}");
    let last = task["history"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["event"], &last["reason"]), (&json!("bury"), &json!("payload_lost")), "{last}");
    let dead = rig.get("/v1/dead-letters?queue=q").await;
    assert_eq!(dead["items"][0]["task_id"], 1, "{dead}");
    let why = rig.get(&format!("/v1/tasks/{}/why", task["ref"].as_str().unwrap())).await;
    assert!(why["reason"].as_str().unwrap().contains(&key), "{why}");

    // It was found in a backup.
    rig.place.put(&key, object).await.unwrap();
    rig.send("POST", &format!("/v1/tasks/{}/redrive", task["ref"].as_str().unwrap()), json!({}))
        .await
        .expect(200);
    rig.advance(0).await;
    assert_eq!(rig.lease().await.remove(0)["payload_base64"], text(&bytes(MIB, 1)));
}

async fn an_object_that_was_cut_is_not_handed_over(rig: LargeRig) {
    rig.post("/v1/tasks", &asked(1)).await.expect(201);
    let key = rig.key_of(1).await;
    rig.place.put(&key, bytes(MIB - 1, 1)).await.unwrap();
    rig.advance(0).await;
    assert!(rig.lease().await.is_empty());
    let task = rig.row_of(1).await;
    assert_eq!(task.state.word(), "retrying");
    let error = task.last_error.unwrap_or_default();
    assert!(error.contains("1048575") && error.contains("1048576"), "{error}");
}

async fn a_place_that_is_away_for_hours_spends_no_attempt(rig: LargeRig) {
    rig.post("/v1/tasks", &asked(1)).await.expect(201);
    rig.away(true);
    for _ in 0..100 {
        // What looks for unused objects cannot, and says so.
        let _ = rig.try_advance(60_000).await;
        assert!(rig.lease().await.is_empty());
    }
    until("it is marked", || async { rig.row_of(1).await.state.word() == "dispatch_failed" }).await;
    assert_eq!(rig.row_of(1).await.attempt, 0);
    rig.away(false);
    rig.advance(60_000).await;
    rig.advance(0).await;
    assert_eq!(rig.lease().await.remove(0)["attempt"], 1);
}

async fn answers_without_a_long_content_say_how_long_it_is(rig: LargeRig) {
    let inserted = rig.post("/v1/tasks", &asked(1)).await.expect(201);
    assert_eq!(inserted["payload_outside_bytes"], MIB);
    rig.advance(0).await;
    let leased = rig.lease().await.remove(0);
    let outcome = json!({"outcome": "reject", "status_msg": "no", "result_base64": text(&bytes(2 * MIB, 2))});
    assert_eq!(rig.report(&leased, outcome).await, "accepted");
    for path in ["/v1/tasks?queue=q", "/v1/tasks?task_id=1", "/v1/dead-letters?queue=q"] {
        let found = rig.get(path).await["items"][0].clone();
        assert_eq!(found["payload_outside_bytes"], MIB, "{path}: {found}");
        assert_eq!(found["result"]["result_outside_bytes"], 2 * MIB, "{path}: {found}");
        assert_eq!(
            (&found["payload_base64"], &found["result"]["result_base64"]),
            (&Value::Null, &Value::Null)
        );
    }
    let whole = rig.task(1).await;
    assert_eq!(
        (&whole["payload_outside_bytes"], &whole["payload_base64"]),
        (&Value::Null, &json!(text(&bytes(MIB, 1))))
    );
    assert_eq!(whole["result"]["result_outside_bytes"], Value::Null);
    assert_eq!(whole["result"]["result_base64"], text(&bytes(2 * MIB, 2)));
}

on_each_store!(
    a_task_whose_object_is_gone_is_dead_after_its_attempts_and_says_which,
    an_object_that_was_cut_is_not_handed_over,
    a_place_that_is_away_for_hours_spends_no_attempt,
    answers_without_a_long_content_say_how_long_it_is,
);
