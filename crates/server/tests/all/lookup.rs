//! Search, versions, queues.

use crate::world::{HOUR_MS, START_MS, World, get};
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
