//! Long payloads and results, which are kept outside of the store (A4), through the API: they come back byte for byte, they
//! are gone when nothing refers to them, and while their objects are unavailable nothing is lost. On both back ends.

mod crashing;
mod elsewhere;
mod kept;
mod lost;
mod owning;
mod rig;

use punctual_testkit::patience::until;
use rig::{DAY_MS, LargeRig, bytes, on_each_store, text};
use serde_json::{Value, json};

const MIB: usize = 1 << 20;

async fn a_task_has_its_long_payload_and_its_long_result(rig: LargeRig) {
    let (payload, result) = (bytes(MIB, 1), bytes(3 * MIB, 2));
    let asked = json!({"queue": "q", "task_id": 7, "delay_ms": 1_000, "payload_base64": text(&payload)});
    let inserted = rig.post("/v1/tasks", &asked).await.expect(201);
    assert_eq!(inserted["payload_base64"], Value::Null, "not in the answer");
    let path = format!("/v1/tasks/{}", inserted["ref"].as_str().unwrap());
    assert_eq!(rig.get(&path).await["payload_base64"], text(&payload));
    assert_eq!(rig.objects().await.len(), 1);
    let row = rig.row(&inserted).await;
    assert!(row.ask.payload.is_outside && row.ask.payload.bytes.len() < 200, "{:?}", row.ask.payload);

    rig.advance(1_000).await;
    let leased = rig.lease().await.remove(0);
    assert_eq!(leased["payload_base64"], text(&payload));
    let outcome = json!({"outcome": "succeeded", "result_base64": text(&result)});
    assert_eq!(rig.report(&leased, outcome).await, "accepted");
    let task = rig.get(&path).await;
    assert_eq!((&task["state"], &task["payload_base64"]), (&json!("succeeded"), &json!(text(&payload))));
    assert_eq!(task["result"]["result_base64"], text(&result));
    let found = rig.get("/v1/tasks?queue=q").await;
    assert_eq!(found["items"][0]["payload_base64"], Value::Null, "lists leave it out");
    assert_eq!(rig.objects().await.len(), 2);

    // Retention: a day as a success, an hour as a stopped one; then they are looked at.
    rig.days_pass(3).await;
    rig.send("GET", &path, Value::Null).await.expect(404);
    assert_eq!(rig.objects().await, [""; 0], "both are gone with the task");
}

async fn a_long_error_is_kept_whole_outside_of_the_row(rig: LargeRig) {
    let asked = json!({"queue": "q", "retry": {"strategy": "fixed", "delay_ms": 1_000}, "max_attempts": 2});
    let inserted = rig.post("/v1/tasks", &asked).await.expect(201);
    let path = format!("/v1/tasks/{}", inserted["ref"].as_str().unwrap());
    let error = |line: &str| format!("the end of all\n{}", format!("{line} é \"x\"\n").repeat(10_000));
    for line in ["first", "second"] {
        rig.advance(1_000).await;
        let leased = rig.lease().await.remove(0);
        let said = json!({"outcome": "failed", "status_msg": error(line)});
        assert_eq!(rig.report(&leased, said).await, "accepted");
        let task = rig.get(&path).await;
        assert!(task["result"]["result"] == error(line), "whole");
        for cut in [&task["last_error"], &task["result"]["status_msg"]] {
            let cut = cut.as_str().unwrap();
            assert!(cut.len() < 65_536 && cut.contains("(cut: the beginning of "), "{}", cut.len());
        }
        let row = rig.row(&inserted).await;
        assert!(row.result.unwrap().content.unwrap().is_outside);
        // That of the attempt before goes.
        rig.until_objects(1).await;
    }
    assert_eq!(rig.get(&path).await["state"], "dead");
}

async fn an_outcome_is_not_refused_for_its_long_error_and_keeps_a_result_of_its_own(rig: LargeRig) {
    let long = "x".repeat(100_000);
    for id in [1, 2, 3] {
        rig.post("/v1/tasks", &json!({"queue": "q", "task_id": id})).await.expect(201);
    }
    rig.advance(0).await;
    let leased = rig.lease().await;
    let own = json!({"outcome": "reject", "status_msg": long, "result": {"own": 1}});
    let done = json!({"outcome": "succeeded", "status_msg": long});
    assert_eq!(rig.report(&leased[0], own).await, "accepted");
    assert_eq!(rig.report(&leased[1], done).await, "accepted");
    rig.away(true);
    assert_eq!(rig.report(&leased[2], json!({"outcome": "reject", "status_msg": long})).await, "accepted");
    rig.away(false);
    let of = async |nth: usize| rig.get(&format!("/v1/tasks/{}", leased[nth]["ref"].as_str().unwrap())).await;
    assert_eq!(of(0).await["result"]["result"], json!({"own": 1}));
    for nth in [1, 2] {
        let task = of(nth).await;
        let said = task["result"]["status_msg"].as_str().unwrap();
        assert!(said.starts_with("xxx") && said.contains("(cut: the beginning of 100000 bytes)"), "{nth}");
        assert_eq!(task["result"]["result"], Value::Null, "{nth}");
    }
    assert_eq!(rig.objects().await, [""; 0]);
}

async fn json_comes_back_letter_for_letter(rig: LargeRig) {
    let letters = "x".repeat(MIB);
    let payload = format!(r#"{{ "b": 1.50,  "a": "{letters}" }}"#);
    let body = format!(r#"{{"queue": "q", "delay_ms": 0, "payload": {payload}}}"#);
    let task = rig.raw("POST", "/v1/tasks", body.into_bytes()).await;
    assert_eq!(task.status, 201, "{}", task.text());
    rig.advance(0).await;
    let leased = rig.raw("POST", "/v1/queues/q/lease", rig::LEASE.to_owned().into_bytes()).await;
    assert!(leased.text().contains(&payload), "as it was sent");
}

async fn what_is_short_stays_in_the_store(rig: LargeRig) {
    let payload = bytes(rig::INLINE_MAX_BYTES, 3);
    let asked = json!({"queue": "q", "delay_ms": 9_000, "payload_base64": text(&payload)});
    let inserted = rig.post("/v1/tasks", &asked).await.expect(201);
    assert_eq!(inserted["payload_base64"], text(&payload));
    assert!(!rig.row(&inserted).await.ask.payload.is_outside);
    assert_eq!(rig.objects().await, [""; 0]);
}

async fn a_payload_that_is_replaced_goes_and_a_refused_one_is_never_kept(rig: LargeRig) {
    let asked = |seed| json!({"queue": "q", "task_id": 1, "delay_ms": 5_000, "payload_base64": text(&bytes(MIB, seed))});
    let first = rig.post("/v1/tasks", &asked(1)).await.expect(201);
    let path = format!("/v1/tasks/{}", first["ref"].as_str().unwrap());
    let patch = json!({"payload_base64": text(&bytes(MIB, 2))});
    rig.send("PATCH", &path, patch).await.expect(200);
    rig.until_objects(1).await;
    assert_eq!(rig.get(&path).await["payload_base64"], text(&bytes(MIB, 2)), "rescheduled");

    rig.post("/v1/tasks", &asked(3)).await.expect(201);
    assert_eq!(rig.get(&path).await["payload_base64"], text(&bytes(MIB, 3)), "replaced by an insert");
    assert_eq!(rig.objects().await.len(), 2, "the one before is left for a day");

    rig.advance(5_000).await;
    let leased = rig.lease().await.remove(0);
    assert_eq!(leased["payload_base64"], text(&bytes(MIB, 3)));
    let existing = rig.post("/v1/tasks", &asked(4)).await.expect(200);
    assert_eq!(existing["outcome"], "existing");
    let lower =
        json!({"queue": "q", "task_id": 1, "task_version": -1, "payload_base64": text(&bytes(MIB, 5))});
    rig.post("/v1/tasks", &lower).await;
    rig.send("PATCH", &path, json!({"payload_base64": text(&bytes(MIB, 6))})).await.expect(409);
    rig.until_objects(2).await;

    let failed = json!({"outcome": "failed", "result_base64": text(&bytes(MIB, 7)), "retry_after_ms": 1_000});
    assert_eq!(rig.report(&leased, failed).await, "accepted");
    rig.until_objects(3).await;
    let late = json!({"outcome": "succeeded", "result_base64": text(&bytes(MIB, 8))});
    assert_eq!(rig.report(&leased, late).await, "stale");
    rig.advance(1_000).await;
    let again = rig.lease().await.remove(0);
    let done =
        json!({"outcome": "failed", "result_base64": text(&bytes(MIB, 9)), "retry_after_ms": DAY_MS * 9});
    assert_eq!(rig.report(&again, done).await, "accepted");
    rig.until_objects(3).await;
    assert_eq!(rig.get(&path).await["result"]["result_base64"], text(&bytes(MIB, 9)), "of the last attempt");
    rig.days_pass(2).await;
    assert_eq!(rig.objects().await.len(), 2, "what the task has stays, however old");
    assert_eq!(rig.get(&path).await["payload_base64"], text(&bytes(MIB, 3)));
}

async fn a_cancelled_task_keeps_its_payload_until_it_is_forgotten(rig: LargeRig) {
    let asked = json!({"queue": "q", "delay_ms": 5_000, "payload_base64": text(&bytes(MIB, 1))});
    let path =
        format!("/v1/tasks/{}", rig.post("/v1/tasks", &asked).await.expect(201)["ref"].as_str().unwrap());
    rig.post(&format!("{path}/cancel"), &json!({})).await.expect(200);
    rig.days_pass(2).await;
    assert_eq!(rig.get(&path).await["payload_base64"], text(&bytes(MIB, 1)), "engine's id, found by the key");
    rig.days_pass(7).await;
    rig.send("GET", &path, Value::Null).await.expect(404);
    assert_eq!(rig.objects().await, [""; 0]);
}

async fn while_its_object_is_away_a_task_waits_with_its_attempt_and_says_why(rig: LargeRig) {
    let asked =
        json!({"queue": "q", "delay_ms": 0, "max_attempts": 1, "payload_base64": text(&bytes(MIB, 1))});
    let path =
        format!("/v1/tasks/{}", rig.post("/v1/tasks", &asked).await.expect(201)["ref"].as_str().unwrap());
    rig.post("/v1/tasks", &json!({"queue": "q", "task_id": 2, "payload": "short"})).await.expect(201);
    rig.advance(0).await;
    rig.away(true);
    let leased = rig.lease().await;
    assert_eq!(leased.len(), 1, "the short one is none of it");
    assert_eq!(leased[0]["payload"], "short");
    until("it is marked", || async { rig.read(&path).await.state.word() == "dispatch_failed" }).await;
    let state = rig.read(&path).await;
    assert_eq!(state.attempt, 0);
    let said =
        state.history.iter().filter_map(|entry| entry.error.as_deref()).any(|text| text.contains("is away"));
    assert!(said, "{:?}", state.history);
    let refused = rig.post("/v1/tasks", &asked).await;
    assert_eq!(refused.status, 503, "{}", refused.text());
    rig.send("GET", &path, Value::Null).await.expect(503);
    assert!(rig.lease().await.is_empty());

    rig.away(false);
    let mut back = Vec::new();
    for _ in 0..60 {
        rig.advance(1_000).await;
        back.extend(rig.lease().await);
    }
    assert_eq!(back.len(), 1);
    assert_eq!((&back[0]["attempt"], &back[0]["payload_base64"]), (&json!(1), &json!(text(&bytes(MIB, 1)))));
}

async fn a_repetition_under_one_key_is_the_same_task(rig: LargeRig) {
    let asked = |seed| json!({"queue": "q", "delay_ms": 5_000, "payload_base64": text(&bytes(MIB, seed))});
    let first = rig.post_with_key("k1", &asked(1)).await.expect(201);
    let again = rig.post_with_key("k1", &asked(1)).await;
    assert_eq!(again.body["ref"], first["ref"], "{}", again.text());
    // The answer is not kept any more: what is in the store is compared, from outside.
    rig.advance(2 * DAY_MS).await;
    let again = rig.post_with_key("k1", &asked(1)).await;
    assert_eq!((again.status, &again.body["ref"]), (200, &first["ref"]), "{}", again.text());
    rig.post_with_key("k1", &asked(2)).await.expect(422);
}

on_each_store!(
    a_task_has_its_long_payload_and_its_long_result,
    a_long_error_is_kept_whole_outside_of_the_row,
    an_outcome_is_not_refused_for_its_long_error_and_keeps_a_result_of_its_own,
    json_comes_back_letter_for_letter,
    what_is_short_stays_in_the_store,
    a_payload_that_is_replaced_goes_and_a_refused_one_is_never_kept,
    a_cancelled_task_keeps_its_payload_until_it_is_forgotten,
    while_its_object_is_away_a_task_waits_with_its_attempt_and_says_why,
    a_repetition_under_one_key_is_the_same_task,
);
