//! Who the executors are, and how they are sent home; what their handlers say.

use crate::world::{START_MS, World, ask, get, post};
use serde_json::{Value, json};

impl World {
    async fn executors(&self) -> Vec<Value> {
        let answer = self.send(get("/v1/executors")).await.expect(200);
        answer["items"].as_array().unwrap().clone()
    }

    async fn wish(&self, executor: &str, wish: &str) -> Value {
        self.send(ask("POST", format!("/v1/executors/{executor}/{wish}"))).await.expect(200)
    }

    async fn lease_as(&self, executor: &str) -> Value {
        let body = json!({"max": 100, "executor": executor});
        self.send(post("/v1/queues/q/lease", &body)).await.expect(200)
    }
}

fn names(executors: &[Value]) -> Vec<&str> {
    executors.iter().map(|executor| executor["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn an_executor_is_known_by_its_calls_and_shown_with_what_it_holds() {
    let world = World::new();
    world.insert(json!({"queue": "q", "kind": "k", "task_id": 7})).await;
    world.advance(0).await;
    let declared =
        json!({"executor": "w1", "version": "2.1.0", "capacity": 4, "kinds": ["k"], "labels": {"zone": "a"}});
    let leased = world.send(post("/v1/queues/q/lease", &declared)).await.expect(200)["tasks"][0].clone();
    let lease = json!({"ref": leased["ref"], "token": leased["token"]});
    let unknown = json!({"ref": "t00000000000000000000000009", "token": "1-30000"});
    world
        .send(post("/v1/heartbeats", &json!({"executor": "w1", "leases": [lease, unknown]})))
        .await
        .expect(200);
    world.lease("q").await;
    world.send(post("/v1/queues/q/lease", &json!({}))).await.expect(200);
    world.advance(1_000).await;
    assert_eq!(names(&world.executors().await), ["w1", "x1"], "and nobody without a name");
    let answer = world.send(get("/v1/executors/w1")).await.expect(200);
    for (field, want) in [
        ("state", json!("alive")),
        ("version", json!("2.1.0")),
        ("capacity", json!(4)),
        ("queues", json!(["q"])),
        ("kinds", json!(["k"])),
        ("labels", json!({"zone": "a"})),
        ("running", json!(2)),
        ("first_seen_at_ms", json!(START_MS)),
    ] {
        assert_eq!(answer[field], want, "{field}");
    }
    assert_eq!(answer["leases"].as_array().unwrap().len(), 1, "what it holds in truth");
    assert_eq!(
        (&answer["leases"][0]["task_id"], &answer["leases"][0]["state"]),
        (&json!(7), &json!("running"))
    );
    world.report(&leased, json!({"outcome": "succeeded"})).await;
    assert_eq!(world.send(get("/v1/executors/w1")).await.expect(200)["leases"], json!([]));
    world.send(get("/v1/executors/w2")).await.expect_problem(404, "executor.not_found");
    world.send(ask("POST", "/v1/executors/w2/drain")).await.expect_problem(404, "executor.not_found");
    let elsewhere = get("/v1/executors").header("punctual-namespace", "other");
    assert_eq!(world.send(elsewhere).await.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn executors_come_in_pages_by_name() {
    let world = World::new();
    for name in ["c", "a", "b"] {
        world.lease_as(name).await;
    }
    world.advance(0).await;
    let first = world.send(get("/v1/executors?limit=2")).await.expect(200);
    assert_eq!(names(first["items"].as_array().unwrap()), ["a", "b"]);
    let cursor = first["next_cursor"].as_str().unwrap();
    let last = world.send(get(format!("/v1/executors?limit=2&cursor={cursor}"))).await.expect(200);
    assert_eq!((names(last["items"].as_array().unwrap()), &last["next_cursor"]), (vec!["c"], &Value::Null));
}

#[tokio::test]
async fn a_drained_executor_gets_no_new_tasks_and_hears_of_it_in_every_answer() {
    let world = World::new();
    world.insert(json!({"queue": "q"})).await;
    world.advance(0).await;
    let first = world.lease_as("w1").await;
    let task = first["tasks"][0].clone();
    assert_eq!(first.get("wish"), None);
    // Not even written yet.
    assert_eq!(world.wish("w1", "drain").await["state"], "draining");
    world.insert(json!({"queue": "q"})).await;
    world.advance(0).await;
    let none = world.lease_as("w1").await;
    assert_eq!((&none["tasks"], &none["wish"]), (&json!([]), &json!("drain")));
    let lease = json!({"ref": task["ref"], "token": task["token"]});
    let beat =
        world.send(post("/v1/heartbeats", &json!({"executor": "w1", "leases": [lease]}))).await.expect(200);
    assert_eq!(
        (&beat["wish"], &beat["leases"][0]["lost"]),
        (&json!("drain"), &json!(false)),
        "it keeps what it has"
    );
    assert_eq!(world.report(&task, json!({"outcome": "succeeded"})).await["status"], "accepted");
    assert_eq!(world.lease_as("w2").await["tasks"].as_array().unwrap().len(), 1, "others go on");
    world.clock.advance_ms(1);
    world.send(post("/v1/heartbeats", &json!({"executor": "w1", "leaving": true}))).await.expect(200);
    world.advance(0).await;
    assert_eq!(names(&world.executors().await), ["w2"], "it has left");
    world.advance(1).await;
    assert_eq!(world.lease_as("w1").await.get("wish"), None, "one of that name begins anew");
}

#[tokio::test]
async fn a_quiet_executor_waits_until_it_is_resumed() {
    let world = World::new();
    world.lease_as("w1").await;
    assert_eq!(world.wish("w1", "quiet").await["state"], "quiet");
    world.insert(json!({"queue": "q"})).await;
    world.advance(0).await;
    let patient = json!({"executor": "w1", "wait_ms": 60_000});
    let (quiet, resumed) =
        tokio::join!(world.send(post("/v1/queues/q/lease", &patient)), world.wish("w1", "resume"));
    let quiet = quiet.expect(200);
    assert_eq!((&quiet["tasks"], quiet.get("wish")), (&json!([]), None), "its poll ends as it is resumed");
    assert_eq!(resumed["state"], "alive");
    assert_eq!(world.lease_as("w1").await["tasks"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_poll_that_waits_ends_when_its_executor_is_drained() {
    let world = World::new();
    world.lease_as("w1").await;
    let patient = json!({"executor": "w1", "wait_ms": 60_000});
    let (polled, _) =
        tokio::join!(world.send(post("/v1/queues/q/lease", &patient)), world.wish("w1", "drain"));
    let polled = polled.expect(200);
    assert_eq!((&polled["tasks"], &polled["wish"]), (&json!([]), &json!("drain")));
}

#[tokio::test]
async fn a_silent_executor_is_dead_counted_once_and_forgotten_after_a_day() {
    let world = World::new();
    world.send(post("/v1/heartbeats", &json!({"executor": "w1", "leases": []}))).await.expect(200);
    world.advance(0).await;
    world.advance(29_999).await;
    assert_eq!(world.executors().await[0]["state"], "alive");
    world.advance(1).await;
    assert_eq!(world.executors().await[0]["state"], "dead");
    world.advance(10_000).await;
    world.advance(10_000).await;
    let metrics = world.send(get("/metrics")).await.text;
    for line in ["punctual_executors{state=\"dead\"} 1", "punctual_executors_died_total 1"] {
        assert!(metrics.lines().any(|candidate| candidate == line), "{line} in {metrics}");
    }
    world.advance(24 * 3_600_000 + 10_000).await;
    world.advance(10_000).await;
    assert_eq!(world.executors().await, [] as [Value; 0]);
}

#[tokio::test]
async fn what_handlers_say_is_shown_with_the_task() {
    let world = World::new();
    let task = world.insert(json!({"queue": "q"})).await;
    world.advance(0).await;
    let leased = world.lease("q").await.remove(0);
    let lease = json!({"ref": leased["ref"], "token": leased["token"], "progress": {"percent": 40},
        "log": [{"text": "begun", "level": "info", "at_ms": START_MS - 5}, {"text": "second"}]});
    world.clock.advance_ms(10);
    world.send(post("/v1/heartbeats", &json!({"executor": "x1", "leases": [lease]}))).await.expect(200);
    let failed = json!({"outcome": "failed", "log": [{"level": "error", "text": "third"}]});
    assert_eq!(world.report(&leased, failed.clone()).await["status"], "accepted");
    assert_eq!(world.report(&leased, failed).await["status"], "stale");
    let task = world.task(task["ref"].as_str().unwrap()).await;
    let said: Vec<_> = task["log"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (&entry["at_ms"], &entry["level"], &entry["text"]))
        .collect();
    let want = [
        (&json!(START_MS - 5), &json!("info"), &json!("begun")),
        (&json!(START_MS + 10), &Value::Null, &json!("second")),
        (&json!(START_MS + 10), &json!("error"), &json!("third")),
    ];
    assert_eq!(said, want, "a stale report says nothing more");
    assert_eq!((&task["progress"], &task["state"]), (&json!({"percent": 40}), &json!("retrying")));
    let listed = world.send(get("/v1/tasks?queue=q")).await.expect(200);
    assert_eq!(listed["items"][0].get("log"), None, "only with one task");
}

#[tokio::test]
async fn versions_are_checked_where_they_are_given() {
    let world = World::new();
    let bad = json!({"queue": "q", "handler_versions": "two"});
    let problem = world.send(post("/v1/tasks", &bad)).await.expect_problem(400, "request.invalid");
    assert_eq!(problem["errors"][0]["pointer"], "/handler_versions");
    assert!(problem["errors"][0]["detail"].as_str().unwrap().contains(">=2.1, <3"), "{problem}");
    let bad = json!({"executor": "w1", "version": "2.x"});
    let problem = world.send(post("/v1/queues/q/lease", &bad)).await.expect_problem(400, "request.invalid");
    assert_eq!(problem["errors"][0]["pointer"], "/version");
}
