//! What an executor could not read is refused at the door, wherever a caller may say it, and nothing of it reaches those
//! who did nothing wrong.

use crate::world::{Ask, World, ask, post};
use serde_json::{Value, json};

/// What no reader makes a value of, and the pointer below the field that names it.
fn unreadable() -> [(String, &'static str); 5] {
    [
        (format!("{}1{}", "[".repeat(129), "]".repeat(129)), "/0"),
        (format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000)), "/a"),
        (r#""\ud800""#.to_owned(), ""),
        (r#"{"k":["\udc00\ud800"]}"#.to_owned(), "/k/0"),
        ("[0,1e400]".to_owned(), "/1"),
    ]
}

fn raw(method: &'static str, path: String, body: String) -> Ask {
    ask(method, path).raw("application/json", body)
}

#[track_caller]
fn names(problem: &Value, field: &str, below: &str) {
    let pointer = problem["errors"][0]["pointer"].as_str().unwrap_or_default();
    assert!(pointer.starts_with(&format!("{field}{below}")), "{field}{below}: {problem}");
}

#[tokio::test]
async fn a_payload_that_no_executor_could_read_is_refused_by_insert_and_change() {
    let world = World::new();
    let task = world.insert(json!({"queue": "q", "delay_ms": 1_000, "payload": "kept"})).await;
    let task_ref = task["ref"].as_str().unwrap();
    for (payload, below) in unreadable() {
        let insert = format!(r#"{{"queue":"q","payload":{payload}}}"#);
        let refused = world.send(raw("POST", "/v1/tasks".into(), insert)).await;
        names(&refused.expect_problem(400, "request.invalid"), "/payload", below);
        let change = raw("PATCH", format!("/v1/tasks/{task_ref}"), format!(r#"{{"payload":{payload}}}"#));
        names(&world.send(change).await.expect_problem(400, "request.invalid"), "/payload", below);
    }
    world.advance(1_000).await;
    let leased = world.lease("q").await;
    let payloads: Vec<&Value> = leased.iter().map(|task| &task["payload"]).collect();
    assert_eq!(payloads, [&json!("kept")], "nothing that was refused is there");
}

#[tokio::test]
async fn in_a_batch_it_does_not_spoil_the_others() {
    let world = World::new();
    for (payload, below) in unreadable() {
        let batch = format!(
            r#"{{"tasks":[{{"queue":"q","payload":1}},{{"queue":"q","payload":{payload}}},{{"queue":"q","payload":2}}]}}"#
        );
        let answer = world.send(raw("POST", "/v1/tasks/batch".into(), batch)).await.expect(200);
        let statuses: Vec<&Value> =
            answer["results"].as_array().unwrap().iter().map(|result| &result["status"]).collect();
        assert_eq!(statuses, [201, 400, 201], "{answer}");
        names(&answer["results"][1]["error"], "/tasks/1/payload", below);
        world.advance(0).await;
        let mut payloads: Vec<i64> =
            world.lease("q").await.iter().map(|task| task["payload"].as_i64().unwrap()).collect();
        payloads.sort_unstable();
        assert_eq!(payloads, [1, 2]);
    }
}

#[tokio::test]
async fn a_result_or_a_progress_that_nobody_could_read_is_refused_and_the_task_stays_whose_it_was() {
    let world = World::new();
    let task = world.insert(json!({"queue": "q"})).await;
    world.advance(0).await;
    let leased = world.lease("q").await.remove(0);
    let holder = format!(r#""ref":{},"token":{}"#, leased["ref"], leased["token"]);
    for (value, below) in unreadable() {
        let outcomes = format!(
            r#"{{"executor":"x1","outcomes":[{{{holder},"outcome":"succeeded","result":{value}}}]}}"#
        );
        let receipt = world.send(raw("POST", "/v1/outcomes".into(), outcomes)).await.expect(200);
        names(&receipt["results"][0]["error"], "/outcomes/0/result", below);
        let beat = format!(r#"{{"executor":"x1","leases":[{{{holder},"progress":{value}}}]}}"#);
        let refused = world.send(raw("POST", "/v1/heartbeats".into(), beat)).await;
        names(&refused.expect_problem(400, "request.invalid"), "/leases/0/progress", below);
    }
    let still = world.task(task["ref"].as_str().unwrap()).await;
    assert_eq!((&still["state"], still.get("result")), (&json!("dispatched"), None));
    let done = world.report(&leased, json!({"outcome": "succeeded", "result": {"id": 3}})).await;
    assert_eq!(done["status"], "accepted");
}

#[tokio::test]
async fn a_leap_second_fires_after_it_and_never_before() {
    let world = World::new();
    let body = json!({"queue": "q", "execute_at": "2027-06-30T23:59:60.500Z"});
    let task = world.send(post("/v1/tasks", &body)).await.expect(201);
    let midnight = json!("2027-07-01T00:00:00.000Z");
    assert!(task["execute_at"].as_str() >= midnight.as_str(), "{task}");
}
