//! What engines have died of says so wherever it is shown, until an operator lets it continue.

use crate::world::{START_MS, World, ask, get, post};
use punctual_contract::{
    EvaluationStore as _,
    evaluations::{Crowd, EvaluationKind, EvaluationPass, Subject},
};
use punctual_domain::{name::Name, time::Millis};
use serde_json::json;

impl World {
    /// Two engines have begun to evaluate it, and did not come to an end.
    async fn is_set_aside(&self, kind: EvaluationKind, id: i64) {
        for engine in ["one", "another"] {
            let turn = EvaluationPass { kind, engine: engine.to_owned(), number: 1 };
            let subject = Subject { id, namespace: Name::default_namespace(), name: "poison".to_owned() };
            let subjects = [subject];
            let begun = self.documents.begin_evaluations(&turn, &subjects, Crowd::Alone, Millis(START_MS));
            begun.await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_schedule_that_is_set_aside_says_so_until_it_is_resumed() {
    let world = World::new();
    let document = json!({"cron": "@daily", "task": {"queue": "mail"}});
    world.send(ask("PUT", "/v1/schedules/poison").json(&document)).await.expect(201);
    assert!(world.send(get("/v1/schedules/poison")).await.expect(200).get("set_aside").is_none());
    world.is_set_aside(EvaluationKind::Schedule, 1).await;
    let shown = world.send(get("/v1/schedules/poison")).await.expect(200);
    assert_eq!(shown["set_aside"]["since_ms"], START_MS);
    let reason = shown["set_aside"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("2 engines died"), "{reason}");
    let listed = world.send(get("/v1/schedules")).await.expect(200);
    assert_eq!(listed["items"][0]["set_aside"], shown["set_aside"]);
    world.send(post("/v1/schedules/poison/resume", &json!({}))).await.expect(200);
    assert!(world.send(get("/v1/schedules/poison")).await.expect(200).get("set_aside").is_none());
}

#[tokio::test]
async fn a_workflow_that_is_set_aside_says_so_until_it_is_retried() {
    let world = World::new();
    let document = json!({"nodes": {"a": {"task": {"queue": "mail"}}}});
    let begun = world.send(post("/v1/workflows", &document)).await.expect(201);
    let path = format!("/v1/workflows/{}", begun["ref"].as_str().unwrap());
    world.is_set_aside(EvaluationKind::Workflow, 1).await;
    assert_eq!(world.send(get(&path)).await.expect(200)["set_aside"]["since_ms"], START_MS);
    let listed = world.send(get("/v1/workflows")).await.expect(200);
    assert_eq!(listed["items"][0]["set_aside"]["since_ms"], START_MS);
    // It is running: nothing of it has failed.
    let retried = world.send(post(format!("{path}/retry"), &json!({}))).await.expect(200);
    assert!(retried.get("set_aside").is_none());
}
