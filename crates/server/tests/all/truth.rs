//! What answers say is what is so: states, holders, times; and what a request cannot mean is refused by name.

use crate::world::{HOUR_MS, START_MS, World, ask, get, post};
use serde_json::json;

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::test]
async fn a_task_says_who_has_it_until_when_and_what_it_belongs_to() {
    let world = World::new();
    let inserted = post("/v1/tasks", &json!({"queue": "q"})).header("traceparent", TRACE);
    let inserted = world.send(inserted).await.expect(201);
    let path = format!("/v1/tasks/{}", inserted["ref"].as_str().unwrap());
    assert_eq!((&inserted["traceparent"], inserted.get("lease")), (&json!(TRACE), None));
    assert_eq!((inserted.get("started_at"), inserted.get("finished_at")), (None, None));
    world.advance(10).await;
    let leased = world.lease("q").await.remove(0);
    let held = world.send(get(&path)).await.expect(200);
    assert_eq!(
        (&held["lease"]["executor"], &held["lease"]["cancel_requested"]),
        (&json!("x1"), &json!(false))
    );
    assert_eq!(held["lease"]["until_ms"], leased["lease_until_ms"]);
    assert_eq!((&held["started_at_ms"], held.get("finished_at")), (&json!(START_MS + 10), None));
    world.send(post(format!("{path}/cancel"), &json!({"stop_if_fired": true}))).await.expect(200);
    assert_eq!(world.send(get(&path)).await.expect(200)["lease"]["cancel_requested"], true);
    world.advance(1_000).await;
    let outcome = json!({"outcome": "succeeded", "status_code": i64::MIN});
    world.report(&leased, outcome).await;
    let done = world.send(get(&path)).await.expect(200);
    assert_eq!(
        (&done["started_at_ms"], &done["finished_at_ms"]),
        (&json!(START_MS + 10), &json!(START_MS + 1_010))
    );
    assert_eq!((done.get("lease"), &done["result"]["status_code"]), (None, &json!(i64::MIN)));
    world.advance(24 * HOUR_MS + 1).await;
    let stopped = world.send(get(&path)).await.expect(200);
    assert_eq!((&stopped["state"], &stopped["finished_at_ms"]), (&json!("stopped"), &done["finished_at_ms"]));
    assert_eq!((&done["ended_as"], &stopped["ended_as"]), (&json!("succeeded"), &json!("succeeded")));
    assert_eq!(held.get("ended_as"), None);
}

/// The store learns of it a quarter of a second later, and in batches.
#[tokio::test]
async fn a_task_is_ready_from_the_instant_at_which_it_fires() {
    let world = World::new();
    let place =
        world.insert(json!({"queue": "q", "delay_ms": 1_000})).await["ref"].as_str().unwrap().to_owned();
    world.advance(500).await;
    assert_ne!(world.task(&place).await["state"], "ready");
    world.advance(500).await;
    let now = world.task(&place).await;
    assert_eq!(
        (&now["state"], &now["fired_at_ms"], &now["lateness_ms"]),
        (&json!("ready"), &json!(START_MS + 1_000), &json!(0))
    );
    let why = world.send(get(format!("/v1/tasks/{place}/why"))).await.expect(200);
    assert_eq!((&why["state"], &why["blocking"]), (&json!("ready"), &json!("executor")));
    let found = world.send(get("/v1/tasks?queue=q")).await.expect(200);
    assert_eq!(found["items"][0]["state"], "ready");
    assert_eq!(world.lease("q").await.len(), 1);
    assert_eq!(world.task(&place).await["state"], "dispatched");
}

#[tokio::test]
async fn tasks_are_found_by_the_general_word_for_their_state() {
    let world = World::new();
    for (id, state) in (1..).zip(["scheduled", "ready", "running", "succeeded", "dead", "cancelled"]) {
        world.bring_to_in(&format!("of-{state}"), state, id).await;
    }
    let found = async |query: &str| {
        let page = world.send(get(format!("/v1/tasks?{query}"))).await.expect(200);
        let mut ids: Vec<i64> = page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["task_id"].as_i64().unwrap())
            .collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(found("phase=pending").await, [1, 2]);
    assert_eq!(found("phase=processing").await, [3]);
    assert_eq!(found("phase=success").await, [4]);
    assert_eq!(found("phase=failed").await, [5]);
    assert_eq!(found("phase=stopped").await, [6]);
    assert_eq!(found("phase=pending&state=ready").await, [2]);
    assert_eq!(found("phase=failed&state=ready").await, [0; 0]);
    assert_eq!(found("phase=pending&task_id=2").await, [2]);
    assert_eq!(found("phase=failed&task_id=2").await, [0; 0]);
    assert_eq!(found("phase=pending&limit=1").await.len(), 1, "a page is not empty while more match");
    world.send(get("/v1/tasks?phase=waiting")).await.expect_problem(400, "request.invalid");
}

#[tokio::test]
async fn a_dead_task_is_mended_and_redriven_in_one_step() {
    let world = World::new();
    let place = world.bring_to("dead", 7).await;
    let path = format!("/v1/tasks/{place}/redrive");
    let mended = json!({"payload": {"to": "ada"}, "priority": 1, "delay_ms": 5_000});
    let done = world.send(post(&path, &mended)).await.expect(200);
    let task = &done["task"];
    assert_eq!((&done["outcome"], &task["state"]), (&json!("redriven"), &json!("scheduled")));
    assert_eq!((&task["payload"], &task["priority"]), (&mended["payload"], &json!(1)));
    assert_eq!((&task["execute_at_ms"], &task["attempt"]), (&json!(START_MS + 15_000), &json!(0)));
    let again = world.send(post(&path, &mended)).await;
    assert_eq!(again.expect_problem(409, "task.not_dead")["existing"]["state"], "scheduled");
    world.send(post(&path, &json!({"priority": 9}))).await.expect_problem(400, "request.invalid");
    world.advance(4_999).await;
    assert_eq!(world.lease("dead").await.len(), 0, "never early");
    world.advance(1).await;
    let leased = world.lease("dead").await;
    assert_eq!((&leased[0]["payload"], &leased[0]["attempt"]), (&mended["payload"], &json!(1)));
}

#[tokio::test]
async fn a_packed_body_is_refused_by_name_and_the_root_leads_to_the_documentation() {
    let world = World::new();
    let body = json!({"queue": "q"});
    for encoding in ["gzip", "br", "identity, GZIP"] {
        let packed = post("/v1/tasks", &body).header("content-encoding", encoding);
        let refused = world.send(packed).await.expect_problem(415, "request.unsupported_media_type");
        assert!(refused["detail"].as_str().unwrap().contains("Content-Encoding"), "{refused}");
    }
    world.send(post("/v1/tasks", &body).header("content-encoding", "identity")).await.expect(201);
    let root = world.send(get("/")).await;
    assert_eq!((root.status, root.header("location")), (307, Some("/docs/")));
    let wrong = world.send(ask("DELETE", "/v1/queues")).await;
    assert_eq!(wrong.header("allow").map(|header| header.contains("GET")), Some(true));
    let words = world.send(post("/v1/tasks", &json!({"queue": "q", "delay_ms": "x"}))).await.expect(400);
    let said = &words["errors"][0]["detail"];
    assert_eq!(said, "must be a whole number of up to 64 bits, not the text \"x\"");
}
