//! Search, versions, queues, and waiting for the end of a task.

use crate::world::{HOUR_MS, START_MS, World, ask, get, post, send_to};
use punctual_testkit::faults::{Dials, StoreGroup};
use serde_json::{Value, json};

fn ids(page: &Value) -> Vec<i64> {
    page["items"].as_array().unwrap().iter().map(|entry| entry["task_id"].as_i64().unwrap()).collect()
}

async fn filled() -> World {
    let world = World::new();
    for (id, queue, kind, team, hours) in
        [(1, "a", "x", "red", 1), (2, "a", "y", "blue", 2), (3, "b", "x", "red", 3), (4, "b", "y", "a=b", 4)]
    {
        let body = json!({"queue": queue, "kind": kind, "task_id": id, "labels": {"team": team}, "delay_ms": hours * HOUR_MS});
        world.insert(body).await;
    }
    world
}

#[tokio::test]
async fn a_search_takes_what_fits_all_conditions() {
    let world = filled().await;
    let two_hours = START_MS + 2 * i64::try_from(HOUR_MS).unwrap();
    for (query, want) in [
        ("".to_owned(), vec![4, 3, 2, 1]),
        ("queue=a".to_owned(), vec![2, 1]),
        ("queue=a&kind=x".to_owned(), vec![1]),
        ("label=team=red".to_owned(), vec![3, 1]),
        ("label=team:red".to_owned(), vec![3, 1]),
        ("label=team%3Da%3Db".to_owned(), vec![4]),
        ("state=scheduled&queue=b".to_owned(), vec![4, 3]),
        ("state=dead".to_owned(), vec![]),
        (format!("due_after={two_hours}"), vec![4, 3, 2]),
        (format!("due_before={two_hours}"), vec![1]),
        ("due_before=2026-01-01T02:00:00Z".to_owned(), vec![1]),
        ("task_id=2".to_owned(), vec![2]),
        ("task_id=2&queue=b".to_owned(), vec![]),
        ("task_id=2&task_version=0&label=team:blue".to_owned(), vec![2]),
        ("task_id=99".to_owned(), vec![]),
    ] {
        let page = world.send(get(format!("/v1/tasks?{query}"))).await.expect(200);
        assert_eq!(ids(&page), want, "{query}");
    }
    let elsewhere = get("/v1/tasks").header("punctual-namespace", "eu");
    assert_eq!(ids(&world.send(elsewhere).await.expect(200)), [] as [i64; 0]);
}

#[tokio::test]
async fn pages_follow_each_other_to_the_end() {
    let world = filled().await;
    let (mut seen, mut path) = (Vec::new(), "/v1/tasks?limit=3".to_owned());
    loop {
        let page = world.send(get(&path)).await.expect(200);
        seen.extend(ids(&page));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/v1/tasks?limit=3&cursor={cursor}");
    }
    assert_eq!(seen, [4, 3, 2, 1]);
}

#[tokio::test]
async fn the_versions_of_an_id_come_highest_first() {
    let world = World::new();
    for version in [1, 3, 7] {
        world.insert(json!({"queue": "q", "task_id": 5, "task_version": version, "delay_ms": HOUR_MS})).await;
    }
    let versions = |page: &Value| -> Vec<i64> {
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["task_version"].as_i64().unwrap())
            .collect()
    };
    assert_eq!(versions(&world.send(get("/v1/tasks?task_id=5")).await.expect(200)), [7, 3, 1]);
    assert_eq!(versions(&world.send(get("/v1/tasks?task_id=5&task_version=3")).await.expect(200)), [3]);
    assert_eq!(versions(&world.send(get("/v1/tasks?task_id=5&limit=2")).await.expect(200)), [7, 3]);
}

#[tokio::test]
async fn queues_are_listed_with_what_stands_in_them() {
    let world = filled().await;
    world.insert(json!({"queue": "b"})).await;
    world.advance(0).await;
    let items = world.send(get("/v1/queues")).await.expect(200)["items"].clone();
    assert_eq!(
        items[0],
        json!({
            "queue": "a", "namespace": "default", "revision": 0, "pause": null, "tasks": {"scheduled": 2},
            "waiting": 2, "ready": 0, "counted": {
                "inserted": 2, "fired": 0, "retried": 0, "dead": 0, "cancelled": 0,
                "lateness": {"early": 0, "over_budget": 0}
            },
            "rates": {
                "inserted": 0.0, "fired": 0.0, "dispatched": 0.0, "succeeded": 0.0, "retried": 0.0,
                "dead": 0.0, "cancelled": 0.0
            }
        })
    );
    assert_eq!(
        (&items[1]["queue"], &items[1]["tasks"]["scheduled"], &items[1]["ready"]),
        (&json!("b"), &json!(2), &json!(1))
    );
    let elsewhere = get("/v1/queues").header("punctual-namespace", "eu");
    assert_eq!(world.send(elsewhere).await.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn the_health_of_each_part_is_told() {
    let world = World::new();
    assert_eq!(world.send(get("/livez")).await.expect(200)["status"], "alive");
    let ready = world.send(get("/readyz")).await.expect(200);
    let names: Vec<&str> =
        ready["parts"].as_array().unwrap().iter().map(|part| part["name"].as_str().unwrap()).collect();
    assert_eq!(
        (&ready["status"], names),
        (&json!("ready"), vec!["engine", "services", "store", "writers", "hot"])
    );
}

/// Answers `GET /v1/tasks/{ref}?wait_ms=`, and meanwhile does something.
async fn waiting_for(world: &World, task_ref: &str, meanwhile: impl Future<Output = ()>) -> Value {
    let waiting = world.send(get(format!("/v1/tasks/{task_ref}?wait_ms=60000")));
    tokio::join!(waiting, meanwhile).0.expect(200)
}

#[tokio::test]
async fn a_read_waits_until_the_task_has_ended() {
    let world = World::new();
    let task_ref = world.bring_to("running", 1).await;
    assert_eq!(
        world.send(get(format!("/v1/tasks/{task_ref}?wait_ms=1"))).await.expect(200)["state"],
        "running"
    );
    let cancelled = world.bring_to("scheduled", 2).await;
    let answer = waiting_for(&world, &cancelled, async {
        world.send(ask("POST", format!("/v1/tasks/{cancelled}/cancel"))).await.expect(200);
    });
    assert_eq!(answer.await["state"], "cancelled");
    let elsewhere = world.bring_to("scheduled", 4).await;
    let waiting = send_to(world.another_router(), get(format!("/v1/tasks/{elsewhere}?wait_ms=60000")));
    let cancelling = world.send(ask("POST", format!("/v1/tasks/{elsewhere}/cancel")));
    let (waited, _) = tokio::join!(waiting, cancelling);
    assert_eq!(waited.expect(200)["state"], "cancelled", "another engine has ended the task");
    let dead = world.bring_to("dead", 3).await;
    assert_eq!(world.send(get(format!("/v1/tasks/{dead}?wait_ms=60000"))).await.expect(200)["state"], "dead");
    for (query, pointer) in [("wait_ms=60001", "/wait_ms"), ("wait_ms=x", "/wait_ms"), ("wait=1", "/wait")] {
        let refused = world.send(get(format!("/v1/tasks/{dead}?{query}"))).await;
        assert_eq!(
            (refused.status, &refused.body["errors"][0]["pointer"]),
            (400, &json!(pointer)),
            "{query}"
        );
    }
}

#[tokio::test]
async fn an_insert_is_answered_although_the_store_fails_while_it_waits() {
    let world = World::new();
    world.store.faults.set(StoreGroup::Read, Dials::REFUSES);
    let inserted = world.send(post("/v1/tasks?wait_ms=250", &json!({"queue": "mail", "delay_ms": HOUR_MS})));
    let inserted = inserted.await.expect(201);
    assert_eq!((&inserted["state"], &inserted["outcome"]), (&json!("scheduled"), &json!("created")));
    world.store.faults.heal();
    assert_eq!(world.task(inserted["ref"].as_str().unwrap()).await["state"], "scheduled");
}

#[tokio::test]
async fn an_insert_waits_until_the_task_has_ended() {
    let world = World::new();
    let body = json!({"queue": "mail", "task_id": 7, "payload": {"a": 1}});
    let inserting = world.send(post("/v1/tasks?wait_ms=60000", &body));
    let working = async {
        loop {
            world.advance(1).await;
            if let Some(leased) = world.lease("mail").await.pop() {
                return world.report(&leased, json!({"outcome": "succeeded", "result": {"b": 2}})).await;
            }
            tokio::task::yield_now().await;
        }
    };
    let (inserted, reported) = tokio::join!(inserting, working);
    assert_eq!(reported["status"], "accepted");
    let inserted = inserted.expect(201);
    assert_eq!(
        (&inserted["state"], &inserted["outcome"], &inserted["result"]["result"]),
        (&json!("succeeded"), &json!("created"), &json!({"b": 2}))
    );
    let again = world.send(post("/v1/tasks?wait_ms=60000", &body)).await.expect(200);
    assert_eq!((&again["state"], &again["outcome"]), (&json!("succeeded"), &json!("existing")));
}
