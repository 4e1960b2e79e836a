//! Every way to ask wrongly, with the status, the code and the pointer that it gets.

use crate::world::{Ask, World, ask, get, post};
use serde_json::{Value, json};

const REF: &str = "t00000000000000000000000001";

struct Case {
    ask: Ask,
    status: u16,
    code: &'static str,
    /// None: no field is to blame.
    pointer: Option<&'static str>,
}

fn case(ask: Ask, status: u16, code: &'static str, pointer: impl Into<Option<&'static str>>) -> Case {
    Case { ask, status, code, pointer: pointer.into() }
}

async fn check(cases: Vec<Case>) {
    let world = World::new();
    for Case { ask, status, code, pointer } in cases {
        let what = format!("{} {} {}", ask.method, ask.path, String::from_utf8_lossy(&ask.body));
        let answer = world.send(ask).await;
        assert_eq!(answer.status, status, "{what}: {}", answer.text);
        let problem = answer.expect_problem(status, code);
        let pointers: Vec<&str> = problem["errors"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|error| error["pointer"].as_str().unwrap())
            .collect();
        assert_eq!(pointers.first().copied(), pointer, "{what}: {problem}");
        assert!(!problem["title"].as_str().unwrap().is_empty());
    }
    assert_eq!(world.engine.store().books().await.unwrap().accepted, 0, "nothing was done");
}

fn insert(body: Value) -> Ask {
    post("/v1/tasks", &body)
}

fn raw(body: impl Into<Vec<u8>>) -> Ask {
    ask("POST", "/v1/tasks").raw("application/json", body)
}

#[tokio::test]
async fn a_body_that_is_not_json_or_not_declared_as_it() {
    let form = |content_type: &str| ask("POST", "/v1/tasks").raw(content_type, r#"{"queue":"q"}"#);
    let bare = Ask { body: br#"{"queue":"q"}"#.to_vec(), ..ask("POST", "/v1/tasks") };
    check(vec![
        case(raw("{"), 400, "request.malformed_json", ""),
        case(raw(r#"{"queue":"q",}"#), 400, "request.malformed_json", ""),
        case(raw(r#"{"queue":"q"} x"#), 400, "request.malformed_json", ""),
        case(raw(b"{\"queue\":\"\xff\"}".to_vec()), 400, "request.malformed_json", ""),
        case(raw(b"{\"queue\":\"q\",\"payload\":\"\xff\"}".to_vec()), 400, "request.malformed_json", ""),
        case(raw(""), 400, "request.malformed_json", ""),
        case(ask("POST", "/v1/tasks"), 400, "request.malformed_json", ""),
        case(raw("[1]"), 400, "request.invalid", ""),
        case(raw("[\"q\"]"), 400, "request.invalid", ""),
        case(bare, 415, "request.unsupported_media_type", None),
        case(form("text/plain"), 415, "request.unsupported_media_type", None),
        case(form("application/x-www-form-urlencoded"), 415, "request.unsupported_media_type", None),
        case(form("application/jsonp"), 415, "request.unsupported_media_type", None),
    ])
    .await;
    let world = World::new();
    let answer = world.send(raw("{\"queue\":\n  nope}")).await;
    assert!(answer.expect(400)["detail"].as_str().unwrap().contains("line 2 column"));
    for media in ["application/json", "Application/JSON; charset=latin1", "application/merge-patch+json"] {
        world.send(form(media)).await.expect(201);
    }
}

#[tokio::test]
async fn a_field_that_is_missing_unknown_or_of_the_wrong_type() {
    check(vec![
        case(insert(json!({})), 400, "request.invalid", "/queue"),
        case(insert(json!({"queue": "q", "colour": 1})), 400, "request.unknown_field", "/colour"),
        case(insert(json!({"queue": 5})), 400, "request.invalid", "/queue"),
        case(insert(json!({"queue": "q", "priority": "high"})), 400, "request.invalid", "/priority"),
        case(insert(json!({"queue": "q", "task_id": 1.5})), 400, "request.invalid", "/task_id"),
        case(insert(json!({"queue": "q", "task_id": "12a"})), 400, "request.invalid", "/task_id"),
        case(insert(json!({"queue": "q", "payload_base64": "?"})), 400, "request.invalid", "/payload_base64"),
        case(raw(r#"{"queue":"q","task_id":9223372036854775808}"#), 400, "request.invalid", "/task_id"),
        case(raw(r#"{"queue":"q","queue":"r"}"#), 400, "request.invalid", "/queue"),
        case(post("/v1/tasks/batch", &json!({})), 400, "request.invalid", "/tasks"),
        case(post("/v1/tasks/batch", &json!({"tasks": 1})), 400, "request.invalid", "/tasks"),
        case(post("/v1/tasks/batch", &json!({"task": []})), 400, "request.unknown_field", "/task"),
        case(post("/v1/outcomes", &json!({"outcomes": {}})), 400, "request.invalid", "/outcomes"),
        case(
            post("/v1/heartbeats", &json!({"executor": "x", "leases": [{}]})),
            400,
            "request.invalid",
            "/leases/0/ref",
        ),
        case(post("/v1/heartbeats", &json!({"leases": []})), 400, "request.invalid", "/executor"),
        case(
            post(format!("/v1/tasks/{REF}/cancel"), &json!({"stop": 1})),
            400,
            "request.unknown_field",
            "/stop",
        ),
        case(post(format!("/v1/tasks/{REF}/run-now"), &json!({"a": 1})), 400, "request.unknown_field", "/a"),
        case(post(format!("/v1/tasks/{REF}/redrive"), &json!([])), 400, "request.invalid", ""),
    ])
    .await;
}

#[tokio::test]
async fn a_value_that_is_out_of_its_range() {
    let with = |field: &str, value: Value| {
        let mut body = json!({"queue": "q"});
        body[field] = value;
        insert(body)
    };
    let retry = |value: Value| with("retry", value);
    check(vec![
        case(with("queue", json!("")), 400, "request.invalid", "/queue"),
        case(with("queue", json!("a b")), 400, "request.invalid", "/queue"),
        case(with("queue", json!("q".repeat(129))), 400, "request.invalid", "/queue"),
        case(with("kind", json!("a/b")), 400, "request.invalid", "/kind"),
        case(with("priority", json!(0)), 400, "request.invalid", "/priority"),
        case(with("priority", json!(6)), 400, "request.invalid", "/priority"),
        case(with("delay_ms", json!(-1)), 400, "request.invalid", "/delay_ms"),
        case(with("delay_ms", json!(253_402_300_799_999_i64)), 400, "request.invalid", "/delay_ms"),
        case(with("execute_at_ms", json!(-1)), 400, "request.invalid", "/execute_at_ms"),
        case(with("execute_at_ms", json!(1_795_216_260)), 400, "request.invalid", "/execute_at_ms"),
        case(with("queue", json!(".")), 400, "request.invalid", "/queue"),
        case(with("queue", json!("..")), 400, "request.invalid", "/queue"),
        case(insert(json!({"queue": "q"})).header("punctual-namespace", ".."), 400, "request.invalid", None),
        case(post("/v1/queues/%2e%2e/lease", &json!({})), 400, "request.invalid", "/queue"),
        case(post("/v1/queues/q/lease", &json!({"executor": ".."})), 400, "request.invalid", "/executor"),
        case(ask("PUT", "/v1/namespaces/%2E").json(&json!({})), 400, "request.invalid", "/namespace"),
        case(with("execute_at", json!("tomorrow")), 400, "request.invalid", "/execute_at"),
        case(with("max_attempts", json!(0)), 400, "request.invalid", "/max_attempts"),
        case(with("max_attempts", json!(1001)), 400, "request.invalid", "/max_attempts"),
        case(with("timeout_ms", json!(0)), 400, "request.invalid", "/timeout_ms"),
        case(with("deadline_ms", json!(0)), 400, "request.invalid", "/deadline_ms"),
        case(with("labels", json!({"": "x"})), 400, "request.invalid", "/labels/"),
        case(retry(json!({"strategy": "fixed", "delay_ms": -1})), 400, "request.invalid", "/retry/delay_ms"),
        case(
            retry(json!({"strategy": "exponential", "delay_ms": 1, "factor": 0.5})),
            400,
            "request.invalid",
            "/retry/factor",
        ),
        case(
            retry(json!({"strategy": "exponential", "delay_ms": 1, "factor": 101})),
            400,
            "request.invalid",
            "/retry/factor",
        ),
        case(retry(json!({"strategy": "list", "delays_ms": []})), 400, "request.invalid", "/retry/delays_ms"),
        case(retry(json!({"strategy": "hope"})), 400, "request.invalid", "/retry/strategy"),
        case(
            insert(json!({"queue": "q", "delay_ms": 1, "execute_at_ms": 1})),
            400,
            "request.invalid",
            "/execute_at_ms",
        ),
        case(
            insert(json!({"queue": "q", "payload": 1, "payload_base64": ""})),
            400,
            "request.invalid",
            "/payload_base64",
        ),
        case(post("/v1/queues/q/lease", &json!({"max": 0})), 400, "request.invalid", "/max"),
        case(post("/v1/queues/q/lease", &json!({"wait_ms": 60_001})), 400, "request.invalid", "/wait_ms"),
        case(post("/v1/queues/q/lease", &json!({"lease_ms": 99})), 400, "request.invalid", "/lease_ms"),
        case(post("/v1/queues/q/lease", &json!({"executor": ""})), 400, "request.invalid", "/executor"),
        case(ask("PATCH", format!("/v1/tasks/{REF}")).json(&json!({})), 400, "request.invalid", ""),
        case(
            ask("PATCH", format!("/v1/tasks/{REF}")).json(&json!({"priority": 9})),
            400,
            "request.invalid",
            "/priority",
        ),
    ])
    .await;
}

#[tokio::test]
async fn an_address_a_method_or_a_parameter_that_is_not_there() {
    check(vec![
        case(get("/nope"), 404, "request.unknown_route", None),
        case(get("/v1/task"), 404, "request.unknown_route", None),
        case(get("/v1/tasks/"), 404, "request.unknown_route", None),
        case(get("/docs/errors/nope"), 404, "request.unknown_route", None),
        case(get("/docs/nope.js"), 404, "request.unknown_route", None),
        case(ask("DELETE", "/v1/tasks"), 405, "request.method_not_allowed", None),
        case(get("/v1/outcomes"), 405, "request.method_not_allowed", None),
        case(get("/v1/tasks?lable=a=b"), 400, "request.unknown_field", "/lable"),
        case(get("/v1/tasks?limit=0"), 400, "request.invalid", "/limit"),
        case(get("/v1/tasks?limit=1001"), 400, "request.invalid", "/limit"),
        case(get("/v1/tasks?limit=many"), 400, "request.invalid", "/limit"),
        case(get("/v1/tasks?state=asleep"), 400, "request.invalid", "/state"),
        case(get("/v1/tasks?label=team"), 400, "request.invalid", "/label"),
        case(get("/v1/tasks?cursor=7"), 400, "request.invalid", "/cursor"),
        case(get("/v1/tasks?task_id=7&cursor=c0000000000000007"), 400, "request.invalid", "/cursor"),
        case(get("/v1/tasks?task_version=7"), 400, "request.invalid", "/task_version"),
        case(get("/v1/tasks?due_after=soon"), 400, "request.invalid", "/due_after"),
        case(get("/v1/limits?limit=1"), 400, "request.unknown_field", "/limit"),
        case(get(format!("/v1/tasks/{REF}?verbose=1")), 400, "request.unknown_field", "/verbose"),
        case(post("/v1/tasks?dry_run=1", &json!({"queue": "q"})), 400, "request.unknown_field", "/dry_run"),
        case(get(format!("/v1/tasks/{REF}")), 404, "task.not_found", None),
        case(get("/v1/tasks/7"), 404, "task.not_found", None),
        case(get("/v1/tasks/%FF"), 400, "request.invalid", None),
        case(post("/v1/queues/a%20b/lease", &json!({})), 400, "request.invalid", "/queue"),
        case(post("/v1/queues/%FF/lease", &json!({})), 400, "request.invalid", None),
    ])
    .await;
}

#[tokio::test]
async fn a_header_that_is_not_valid() {
    let with = |name: &'static str, value: &str| insert(json!({"queue": "q"})).header(name, value);
    check(vec![
        case(with("punctual-namespace", ""), 400, "request.invalid", None),
        case(with("punctual-namespace", "a b"), 400, "request.invalid", None),
        case(with("punctual-namespace", "é"), 400, "request.invalid", None),
        case(get("/v1/tasks").header("punctual-namespace", "a/b"), 400, "request.invalid", None),
        case(
            post("/v1/queues/q/lease", &json!({})).header("punctual-namespace", "a/b"),
            400,
            "request.invalid",
            None,
        ),
        case(with("idempotency-key", ""), 400, "request.invalid", None),
        case(with("idempotency-key", "a b"), 400, "request.invalid", None),
        case(with("idempotency-key", &"k".repeat(256)), 400, "request.invalid", None),
    ])
    .await;
}

#[tokio::test]
async fn a_wrong_method_is_told_the_right_ones() {
    let world = World::new();
    for (method, path, allow) in [
        ("PUT", "/v1/tasks", "GET,HEAD,POST"),
        ("GET", "/v1/outcomes", "POST"),
        ("POST", "/livez", "GET,HEAD"),
    ] {
        let answer = world.send(ask(method, path)).await;
        let mut allowed: Vec<&str> = answer.header("allow").unwrap().split(',').collect();
        allowed.sort_unstable();
        assert_eq!(allowed.join(","), allow);
        answer.expect_problem(405, "request.method_not_allowed");
    }
}

#[tokio::test]
async fn every_answer_carries_the_id_of_its_request() {
    let world = World::new();
    let own = world.send(get("/v1/tasks").header("x-request-id", "abc-1")).await;
    assert_eq!(own.header("x-request-id"), Some("abc-1"));
    let first = world.send(get("/nope")).await.header("x-request-id").unwrap().to_owned();
    let second = world.send(get("/nope").header("x-request-id", "with space")).await;
    assert_ne!(second.header("x-request-id"), Some(first.as_str()));
    assert_ne!(second.header("x-request-id"), Some("with space"));
}
