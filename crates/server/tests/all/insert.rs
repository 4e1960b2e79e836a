//! Insert: what is stored, requirement A2 in every state, batches, sizes.

use crate::world::{HOUR_MS, START_MS, STATES, World, ask, post};
use serde_json::{Value, json};

#[tokio::test]
async fn a_task_without_options_gets_the_defaults_and_is_due_now() {
    let world = World::new();
    let answer = world.send(post("/v1/tasks", &json!({"queue": "mail"}))).await;
    assert!(answer.header("etag").is_some());
    let location = answer.header("location").unwrap().to_owned();
    let task = answer.expect(201);
    assert_eq!(location, format!("/v1/tasks/{}", task["ref"].as_str().unwrap()));
    for (field, want) in [
        ("outcome", json!("created")),
        ("namespace", json!("default")),
        ("queue", json!("mail")),
        ("kind", json!("default")),
        ("task_version", json!(0)),
        ("priority", json!(3)),
        ("state", json!("scheduled")),
        ("phase", json!("pending")),
        ("execute_at", json!("2026-01-01T00:00:00.000Z")),
        ("execute_at_ms", json!(START_MS)),
        ("attempt", json!(0)),
        ("max_attempts", json!(5)),
        ("created_at_ms", json!(START_MS)),
        ("updated_at_ms", json!(START_MS)),
    ] {
        assert_eq!(task[field], want, "{field}");
    }
    assert!(task["task_id"].as_i64().unwrap() > 0);
}

#[tokio::test]
async fn everything_that_is_asked_for_is_kept() {
    let world = World::new();
    let asked = json!({
        "queue": "mail", "kind": "welcome", "task_id": "9223372036854775807", "task_version": -3, "priority": 1,
        "execute_at": "2026-01-01T02:00:00.5+01:00", "payload": {"n": 1}, "max_attempts": 2,
        "retry": {"strategy": "list", "delays_ms": [60000, 300000]}, "timeout_ms": 5000, "deadline_ms": 60000,
        "labels": {"team": "a"}
    });
    let inserted = world.send(post("/v1/tasks", &asked).header("punctual-namespace", "eu")).await.expect(201);
    let path = format!("/v1/tasks/{}", inserted["ref"].as_str().unwrap());
    let task = world.send(ask("GET", path).header("punctual-namespace", "eu")).await.expect(200);
    assert_eq!(task["task_id"], i64::MAX);
    assert_eq!(task["task_version"], -3);
    assert_eq!(task["execute_at_ms"], START_MS + 3_600_500);
    assert_eq!(task["namespace"], "eu");
    for field in
        ["kind", "priority", "payload", "max_attempts", "retry", "timeout_ms", "deadline_ms", "labels"]
    {
        assert_eq!(task[field], asked[field], "{field}");
    }
    let history = task["history"].as_array().unwrap();
    assert_eq!(
        (history.len(), &history[0]["event"], &history[0]["by"]),
        (1, &json!("insert"), &json!("api"))
    );
}

#[tokio::test]
async fn payloads_come_back_letter_for_letter() {
    let world = World::new();
    for payload in [r#"{"b" : 1.50,"a":9007199254740993}"#, "null", "\"é\"", "[ ]"] {
        let body = format!(r#"{{"queue":"q","payload":{payload}}}"#);
        let answer = world.send(ask("POST", "/v1/tasks").raw("application/json; charset=utf-8", body)).await;
        assert!(answer.text.contains(&format!("\"payload\":{payload},")), "{}", answer.text);
    }
    let bytes = world.insert(json!({"queue": "q", "payload_base64": "AP8="})).await;
    assert_eq!((&bytes["payload_base64"], &bytes["payload"]), (&json!("AP8="), &Value::Null));
}

#[tokio::test]
async fn a_time_in_the_past_is_due_at_once_and_shown_as_it_was_asked() {
    let world = World::new();
    // 2001-01-01T00:00:00.005Z.
    const PAST_MS: i64 = 978_307_200_005;
    let task = world.insert(json!({"queue": "q", "execute_at_ms": PAST_MS})).await;
    assert_eq!(
        (&task["execute_at_ms"], &task["execute_at"]),
        (&json!(PAST_MS), &json!("2001-01-01T00:00:00.005Z"))
    );
    world.advance(0).await;
    let leased = world.lease("q").await.remove(0);
    assert_eq!((&leased["execute_at_ms"], &leased["fired_at_ms"]), (&json!(PAST_MS), &json!(START_MS)));
}

#[tokio::test]
async fn every_row_of_requirement_a2_in_every_state() {
    for state in STATES {
        let world = World::new();
        let task_ref = world.bring_to(state, 7).await;
        let of_version = |version: i64| {
            post(
                "/v1/tasks",
                &json!({"queue": "again", "task_id": 7, "task_version": version, "delay_ms": HOUR_MS}),
            )
        };
        let older = world.send(of_version(4)).await.expect_problem(409, "task.version_superseded");
        assert_eq!(
            (&older["existing"]["ref"], &older["existing"]["state"]),
            (&json!(task_ref), &json!(state))
        );

        let same = world.send(of_version(5)).await;
        let (status, outcome) = match state {
            "dispatched" | "running" | "succeeded" => (200, "existing"),
            _ => (201, "replaced"),
        };
        let same = same.expect(status);
        assert_eq!(same["outcome"], outcome, "{state}");
        assert_eq!(same["ref"], json!(task_ref), "{state}");
        let (queue, now) = if status == 200 { (state, state) } else { ("again", "scheduled") };
        assert_eq!((&same["queue"], &same["state"]), (&json!(queue), &json!(now)));

        let newer = world.send(of_version(6)).await.expect(201);
        assert_eq!(
            (&newer["outcome"], newer["ref"] == json!(task_ref)),
            (&json!("created"), false),
            "{state}"
        );
    }
}

#[tokio::test]
async fn one_bad_item_does_not_spoil_a_batch() {
    let world = World::new();
    world.insert(json!({"queue": "q", "task_id": 1, "task_version": 9, "delay_ms": HOUR_MS})).await;
    let batch = json!({"tasks": [
        {"queue": "q", "payload": 1},
        {"queue": "not a name", "priority": 9},
        {"queue": "q", "task_id": 1, "task_version": 8},
        {"queue": "q", "color": "red"},
        {"queue": "q", "retry": {"strategy": "fixed", "delay_ms": -1}},
        5,
        {"queue": "q", "task_id": 1, "task_version": 9},
        {"queue": "q", "task_id": 2}
    ]});
    let answer = world.send(post("/v1/tasks/batch", &batch)).await.expect(200);
    let results = answer["results"].as_array().unwrap();
    let statuses: Vec<u64> = results.iter().map(|result| result["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [201, 400, 409, 400, 400, 400, 201, 201]);
    let pointers = |nth: usize| -> Vec<&str> {
        let errors = results[nth]["error"]["errors"].as_array().unwrap();
        errors.iter().map(|error| error["pointer"].as_str().unwrap()).collect()
    };
    assert_eq!(pointers(1), ["/tasks/1/queue", "/tasks/1/priority"]);
    assert_eq!(results[2]["error"]["code"], "task.version_superseded");
    assert_eq!(results[2]["error"]["existing"]["task_version"], 9);
    assert_eq!(pointers(3), ["/tasks/3/color"]);
    assert_eq!(pointers(4), ["/tasks/4/retry/delay_ms"]);
    assert_eq!(pointers(5), ["/tasks/5"]);
    assert_eq!(results[6]["task"]["outcome"], "replaced");
    assert_eq!(results[7]["task"]["task_id"], 2);
}

#[tokio::test]
async fn ten_thousand_tasks_fit_a_batch_and_one_more_does_not() {
    let world = World::new();
    let batch = |len: usize| json!({"tasks": vec![json!({"queue": "q", "payload": "x".repeat(200)}); len]});
    let answer = world.send(post("/v1/tasks/batch", &batch(10_000))).await.expect(200);
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), 10_000);
    assert!(results.iter().all(|result| result["status"] == 201 && result["task"].get("history").is_none()));
    world.send(post("/v1/tasks/batch", &batch(10_001))).await.expect_problem(400, "request.invalid");
    let none = world.send(post("/v1/tasks/batch", &json!({"tasks": []}))).await.expect(200);
    assert_eq!(none["results"], json!([]));
}

const MIB: usize = 1 << 20;

#[tokio::test]
async fn a_payload_of_one_mebibyte_is_taken_and_one_byte_more_is_not() {
    let world = World::new();
    let with = |len: usize| json!({"queue": "q", "payload": "x".repeat(len - 2)});
    world.insert(with(MIB)).await;
    let refused =
        world.send(post("/v1/tasks", &with(MIB + 1))).await.expect_problem(413, "request.too_large");
    assert_eq!(refused["errors"][0]["pointer"], "/payload");
    let batch = json!({"tasks": [with(MIB + 1), with(MIB)]});
    let results = world.send(post("/v1/tasks/batch", &batch)).await.expect(200)["results"].clone();
    assert_eq!((&results[0]["status"], &results[1]["status"]), (&json!(413), &json!(201)));
    assert_eq!(results[0]["error"]["errors"][0]["pointer"], "/tasks/0/payload");
}

#[tokio::test]
async fn a_body_of_sixteen_mebibytes_is_taken_and_one_byte_more_is_not() {
    let world = World::new();
    let padded = |len: usize| {
        let mut body = br#"{"tasks":[{"queue":"q"}]}"#.to_vec();
        body.resize(len, b' ');
        ask("POST", "/v1/tasks/batch").raw("application/json", body)
    };
    let answer = world.send(padded(16 * MIB)).await.expect(200);
    assert_eq!(answer["results"][0]["status"], 201);
    world.send(padded(16 * MIB + 1)).await.expect_problem(413, "request.too_large");
    let declared = padded(100).header("content-length", (1_u64 << 40).to_string());
    world.send(declared).await.expect_problem(413, "request.too_large");
}

#[tokio::test]
async fn a_trace_context_travels_to_the_executor() {
    let world = World::new();
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    world.send(post("/v1/tasks", &json!({"queue": "q"})).header("traceparent", trace)).await.expect(201);
    world.advance(1).await;
    assert_eq!(world.lease("q").await[0]["traceparent"], trace);
}
