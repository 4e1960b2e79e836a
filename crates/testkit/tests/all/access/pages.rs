//! Pages of lists for tokens that reach only a part: full until the last, and without a trace of the rest.

use super::site::{AccessSite, get, post};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const NS: &str = "shop";

async fn both(case: impl AsyncFn(AccessSite)) {
    case(AccessSite::sqlite().await).await;
    case(AccessSite::mysql().await).await;
}

/// All pages of a list; each but the last has `limit` items.
async fn pages(site: &AccessSite, token: &str, path: &str, limit: usize) -> Vec<Value> {
    let (mut items, mut cursor) = (Vec::new(), String::new());
    loop {
        let asked = format!("{path}{}limit={limit}{cursor}", if path.contains('?') { '&' } else { '?' });
        let page = site.send(get(&asked).within(NS).with(token)).await.expect(200);
        assert!(!page.to_string().contains("orders"), "{asked} shows what is not reached: {page}");
        let found = page["items"].as_array().unwrap();
        items.extend(found.iter().cloned());
        let Some(next) = page["next_cursor"].as_str() else { break };
        assert_eq!(found.len(), limit, "{asked} is short, and there is another page");
        cursor = format!("&cursor={next}");
    }
    items
}

fn ids(items: &[Value]) -> Vec<i64> {
    items.iter().map(|item| item["task_id"].as_i64().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_tasks_are_full_although_few_are_reached() {
    both(async |site| {
        let task = |id: i64| {
            let queue = if id % 50 == 0 { "mail-eu" } else { "orders" };
            json!({"queue": queue, "task_id": id, "delay_ms": 3_600_000})
        };
        let tasks: Vec<Value> = (1..=600).map(task).collect();
        site.admin(post("/v1/tasks/batch", json!({"tasks": tasks})).within(NS)).await.expect(200);
        let (_, token) = site.token("viewer", &[NS], &["mail-*"]).await;
        let wanted: BTreeSet<i64> = (1..=600).filter(|id| id % 50 == 0).collect();
        for limit in [1, 5, 100] {
            let found = ids(&pages(&site, &token, "/v1/tasks", limit).await);
            assert_eq!(found.len(), wanted.len(), "each once");
            assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), wanted);
        }
        assert_eq!(pages(&site, &token, "/v1/tasks?queue=mail-eu", 5).await.len(), 12);
        let none = site.send(get("/v1/tasks?queue=orders&limit=5").within(NS).with(&token)).await.expect(200);
        assert_eq!(none, json!({"items": [], "next_cursor": null, "search": {"along": "queue", "is_complete": true, "examined": 0}}));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_dead_letters_are_full_although_few_are_reached() {
    both(async |site| {
        for queue in ["orders", "mail-eu"] {
            let tasks: Vec<Value> = (0..30).map(|_| json!({"queue": queue})).collect();
            site.admin(post("/v1/tasks/batch", json!({"tasks": tasks})).within(NS)).await.expect(200);
            site.run_once(1_000).await;
            let leased = site.lease(NS, queue).await;
            let dead =
                |task: &Value| json!({"ref": task["ref"], "token": task["token"], "outcome": "reject"});
            let outcomes: Vec<Value> = leased.iter().map(dead).collect();
            site.admin(post("/v1/outcomes", json!({"outcomes": outcomes})).within(NS)).await.expect(200);
        }
        let (_, token) = site.token("operator", &[NS], &["orde", "mail-*"]).await;
        assert_eq!(pages(&site, &token, "/v1/dead-letters", 4).await.len(), 30);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_executors_are_full_and_no_cursor_names_one_that_is_not_reached() {
    both(async |site| {
        for nth in 0..30 {
            let (queue, name) = if nth % 10 == 9 {
                ("mail-eu", format!("x{nth:02}-mail"))
            } else {
                ("orders", format!("x{nth:02}-orders"))
            };
            let beat = json!({"executor": name, "queues": [queue], "leases": []});
            site.admin(post("/v1/heartbeats", beat).within(NS)).await.expect(200);
        }
        site.run_once(5_000).await;
        let (_, token) = site.token("viewer", &[NS], &["mail-*"]).await;
        for limit in [1, 2, 100] {
            let found = pages(&site, &token, "/v1/executors", limit).await;
            let names: Vec<&str> = found.iter().map(|entry| entry["name"].as_str().unwrap()).collect();
            assert_eq!(names, ["x09-mail", "x19-mail", "x29-mail"]);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_the_audit_are_full_although_few_entries_are_reached() {
    both(async |site| {
        for nth in 0..40 {
            let namespace = if nth % 10 == 0 { NS } else { "orders" };
            site.admin(post("/v1/queues/q/pause", json!({})).within(namespace)).await.expect(200);
        }
        let (_, token) = site.token("admin", &[NS], &["*"]).await;
        for limit in [1, 3, 100] {
            let found = pages(&site, &token, "/v1/audit?action=pause_queue", limit).await;
            assert_eq!(found.len(), 4);
        }
        let none =
            site.send(get("/v1/audit?namespace=orders&limit=2").within(NS).with(&token)).await.expect(200);
        assert_eq!(none, json!({"items": [], "next_cursor": null}));
    })
    .await;
}
