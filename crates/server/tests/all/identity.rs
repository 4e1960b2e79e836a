//! Identity on the wire: keys instead of ids, what happens to a call that names an existing one, and ids that any reader of JSON
//! can hold.

use crate::world::{HOUR_MS, World, ask, get, post};
use serde_json::{Value, json};

/// Beyond it JavaScript takes one number for another.
const EXACT_MAX: i64 = 1 << 53;

fn keyed(key: &str) -> Value {
    json!({"queue": "q", "key": key, "delay_ms": HOUR_MS})
}

#[tokio::test]
async fn a_key_is_an_identity_wherever_a_reference_is() {
    let world = World::new();
    let mut asked = keyed("order/7 é?");
    asked["name"] = json!("Ada's order");
    let inserted = world.insert(asked.clone()).await;
    assert_eq!((&inserted["key"], &inserted["name"]), (&asked["key"], &asked["name"]));
    assert!(inserted["task_id"].as_i64().unwrap() < EXACT_MAX);
    let again = world.send(post("/v1/tasks", &asked)).await.expect(201);
    assert_eq!((&again["outcome"], &again["ref"]), (&json!("replaced"), &inserted["ref"]));
    asked["task_version"] = json!(3);
    let newer = world.insert(asked.clone()).await;
    let path = "/v1/tasks/key:order%2F7%20%C3%A9%3F";
    assert_eq!(world.send(get(path)).await.expect(200)["ref"], newer["ref"], "the highest version");
    asked["task_version"] = json!(2);
    let refused = world.send(post("/v1/tasks", &asked)).await.expect_problem(409, "task.version_superseded");
    assert_eq!(refused["existing"]["key"], "order/7 é?");
    assert!(refused["detail"].as_str().unwrap().contains("order/7 é?"), "{refused}");
    let all = world.send(get("/v1/tasks?key=order%2F7%20%C3%A9%3F")).await.expect(200);
    let found: Vec<_> = all["items"].as_array().unwrap().iter().map(|entry| &entry["task_version"]).collect();
    assert_eq!((found, &all["search"]["along"]), (vec![&json!(3), &json!(0)], &json!("task_id")));
    let one = world.send(get("/v1/tasks?key=order%2F7%20%C3%A9%3F&task_version=0")).await.expect(200);
    assert_eq!(one["items"][0]["ref"], inserted["ref"]);
    assert!(world.send(get(format!("{path}/why"))).await.status == 200);
    world.send(ask("PATCH", path).json(&json!({"priority": 1}))).await.expect(200);
    let cancelled = world.send(post(format!("{path}/cancel"), &json!({}))).await.expect(200);
    assert_eq!(cancelled["task"]["ref"], newer["ref"]);
    for (path, namespace) in
        [("/v1/tasks/key:order", "default"), (path, "other"), ("/v1/tasks/key:", "default")]
    {
        let none = get(path).header("punctual-namespace", namespace);
        world.send(none).await.expect_problem(404, "task.not_found");
    }
}

#[tokio::test]
async fn keys_and_what_becomes_of_conflicts_have_rules() {
    let world = World::new();
    let long = "k".repeat(129);
    for (body, pointer) in [
        (json!({"queue": "q", "key": ""}), "/key"),
        (json!({"queue": "q", "key": long}), "/key"),
        (json!({"queue": "q", "key": "k", "task_id": 7}), "/key"),
        (json!({"queue": "q", "name": ""}), "/name"),
        (json!({"queue": "q", "on_conflict": "maybe"}), "/on_conflict"),
    ] {
        let refused = world.send(post("/v1/tasks", &body)).await.expect_problem(400, "request.invalid");
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{refused}");
    }
    world.insert(json!({"queue": "q", "key": "k".repeat(128)})).await;
    world.send(get("/v1/tasks?key=a&task_id=1")).await.expect_problem(400, "request.invalid");
}

#[tokio::test]
async fn each_word_for_a_conflict_has_its_answer_also_in_a_batch() {
    let world = World::new();
    let first = world.insert(keyed("a")).await;
    let with = |on_conflict: &str| {
        let mut body = keyed("a");
        body["on_conflict"] = json!(on_conflict);
        body
    };
    let kept = world.send(post("/v1/tasks", &with("keep"))).await.expect(200);
    assert_eq!((&kept["outcome"], &kept["ref"]), (&json!("existing"), &first["ref"]));
    let refused = world.send(post("/v1/tasks", &with("fail"))).await.expect_problem(409, "task.exists");
    assert_eq!(refused["existing"]["ref"], first["ref"]);
    assert!(refused["detail"].as_str().unwrap().contains("scheduled"), "{refused}");
    let batch = json!({"tasks": [with("fail"), with("keep"), with("replace"), keyed("b"), with("fail")]});
    let answer = world.send(post("/v1/tasks/batch", &batch)).await.expect(200);
    let results = answer["results"].as_array().unwrap();
    let got: Vec<_> = results.iter().map(|result| result["status"].as_u64().unwrap()).collect();
    assert_eq!(got, [409, 200, 201, 201, 409]);
    assert_eq!(results[0]["error"]["code"], "task.exists");
    assert_eq!(results[2]["task"]["outcome"], "replaced");
    let id = first["task_id"].clone();
    let stolen = world.send(post("/v1/tasks", &json!({"queue": "q", "task_id": id}))).await;
    stolen.expect_problem(409, "task.exists");
}

/// Whatever the engine makes them of.
#[tokio::test]
async fn ids_that_the_engine_makes_are_exact_in_javascript() {
    let world = World::new();
    let mut ids = Vec::new();
    for nth in 0..50 {
        let body = json!({"queue": "q", "delay_ms": HOUR_MS});
        let request = post("/v1/tasks", &body).header("idempotency-key", format!("key-{nth}"));
        ids.push(world.send(request).await.expect(201)["task_id"].clone());
        ids.push(world.insert(body).await["task_id"].clone());
        ids.push(world.insert(keyed(&nth.to_string())).await["task_id"].clone());
    }
    for id in ids {
        let id = id.as_i64().unwrap();
        assert!((1..EXACT_MAX).contains(&id), "{id}");
        let page = world.send(get(format!("/v1/tasks?task_id={id}"))).await.expect(200);
        assert_eq!(page["items"].as_array().unwrap().len(), 1);
    }
}

/// A try that was lost is found by its request; its stored name is not shown.
#[tokio::test]
async fn a_request_that_is_sent_again_finds_its_task_and_shows_no_key() {
    let world = World::new();
    let request = || {
        let body = json!({"queue": "q", "delay_ms": HOUR_MS, "payload": 1});
        post("/v1/tasks", &body).header("idempotency-key", "k1")
    };
    let first = world.without_replies_kept(request()).await.expect(201);
    let again = world.send(request()).await.expect(200);
    assert_eq!((&again["ref"], &again["outcome"]), (&first["ref"], &json!("existing")));
    assert_eq!((first.get("key"), again.get("key")), (None, None));
    world.send(get("/v1/tasks/key:k1")).await.expect_problem(404, "task.not_found");
}

/// As an engine of 0.1 has stored it: under a number that comes from the request.
#[tokio::test]
async fn what_an_older_engine_stored_for_a_request_is_found_by_its_repetition() {
    let world = World::new();
    let older = json!({"queue": "q", "task_id": OLDER_ID, "delay_ms": HOUR_MS, "payload": 1});
    let older = world.insert(older).await;
    let body = json!({"queue": "q", "delay_ms": HOUR_MS, "payload": 1});
    let again = world.send(post("/v1/tasks", &body).header("idempotency-key", "k1")).await.expect(200);
    assert_eq!(again["ref"], older["ref"]);
}
/// Of the first task under the key `k1` in the namespace `default`, sent without a token.
const OLDER_ID: i64 = 7_562_772_815_593_823_001;
