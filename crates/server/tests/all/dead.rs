//! Dead letters: looked for, and redriven many at a time.

use crate::world::{START_MS, World, get, post};
use punctual_testkit::faults::{Dials, Rise, StoreGroup, Wall};
use serde_json::{Value, json};
use std::sync::Arc;

impl World {
    /// A task that died of `error`, one second after the one before.
    async fn dead(&self, id: i64, queue: &str, error: &str) {
        let body = json!({"queue": queue, "task_id": id, "kind": format!("k{id}"), "labels": {"odd": (id % 2).to_string()}});
        self.insert(body).await;
        self.advance(0).await;
        let leased = self.lease(queue).await.remove(0);
        let reject = json!({"outcome": "reject", "status_msg": error});
        assert_eq!(self.report(&leased, reject).await["status"], "accepted");
        self.advance(1_000).await;
    }

    async fn five_dead() -> Self {
        let world = Self::new();
        for (id, queue, error) in [
            (1, "mail", "mailbox full"),
            (2, "mail", "no such user"),
            (3, "sms", "mailbox full"),
            (4, "mail", "mailbox full of 100% spam"),
            (5, "mail", "Mailbox gone"),
        ] {
            world.dead(id, queue, error).await;
        }
        world
    }

    async fn redrive(&self, request: Value) -> Value {
        self.send(post("/v1/dead-letters/redrive", &request)).await.expect(200)
    }

    async fn dead_ids(&self, query: &str) -> Vec<i64> {
        let page = self.send(get(format!("/v1/dead-letters?{query}"))).await.expect(200);
        page["items"].as_array().unwrap().iter().map(|entry| entry["task_id"].as_i64().unwrap()).collect()
    }
}

#[tokio::test]
async fn the_dead_are_found_by_each_filter() {
    let world = World::five_dead().await;
    world.insert(json!({"queue": "mail", "task_id": 9})).await;
    let since = START_MS + 2_000;
    for (query, want) in [
        (String::new(), vec![5, 4, 3, 2, 1]),
        ("queue=sms".into(), vec![3]),
        ("kind=k2".into(), vec![2]),
        ("label=odd%3D0".into(), vec![4, 2]),
        ("error=mailbox+full".into(), vec![4, 3, 1]),
        ("error=100%25".into(), vec![4]),
        (format!("since={since}"), vec![5, 4, 3]),
        (format!("since={since}&error=full&queue=mail"), vec![4]),
        ("queue=none".into(), vec![]),
    ] {
        assert_eq!(world.dead_ids(&query).await, want, "{query}");
    }
    let page = world.send(get("/v1/dead-letters?limit=2")).await.expect(200);
    assert_eq!(page["items"][0]["last_error"], "Mailbox gone");
    let cursor = page["next_cursor"].as_str().unwrap();
    assert_eq!(world.dead_ids(&format!("limit=2&cursor={cursor}")).await, [3, 2]);
    for bad in ["colour=red", "label=x", "cursor=x", "limit=0", "since=soon", "error="] {
        world.send(get(format!("/v1/dead-letters?{bad}"))).await.expect(400);
    }
}

#[tokio::test]
async fn many_are_redriven_at_a_rate_and_a_call_goes_on_where_one_ended() {
    let world = World::five_dead().await;
    let now = START_MS + 5_000;
    let request = json!({"error": "ailbox", "limit": 3, "rate_per_second": 0.5});
    let mut dry = request.clone();
    dry["dry_run"] = json!(true);
    let would = world.redrive(dry).await;
    assert_eq!((&would["tasks"], &would["dry_run"]), (&json!(3), &json!(true)));
    assert_eq!(world.dead_ids("").await.len(), 5, "nothing was done");
    let first = world.redrive(request.clone()).await;
    assert_eq!((&first["tasks"], &first["skipped"]), (&json!(3), &json!(0)));
    assert_eq!(first["until_ms"], now + 6_000);
    assert_eq!(world.dead_ids("").await, [2, 1]);
    let mut on = request;
    on["cursor"] = first["next_cursor"].clone();
    on["start_at_ms"] = first["until_ms"].clone();
    let second = world.redrive(on).await;
    assert_eq!((&second["tasks"], &second["next_cursor"]), (&json!(1), &Value::Null));
    assert_eq!(world.dead_ids("").await, [2]);
    let mut fired = Vec::new();
    world.advance(0).await;
    for _ in 0..9 {
        for entry in [world.lease("mail").await, world.lease("sms").await].concat() {
            fired.push((
                entry["task_id"].as_i64().unwrap(),
                entry["fired_at_ms"].as_i64().unwrap() - now,
                entry["attempt"].clone(),
            ));
        }
        world.advance(1_000).await;
    }
    let want = [(5, 0), (4, 2_000), (3, 4_000), (1, 6_000)].map(|(id, at)| (id, at, json!(1)));
    assert_eq!(fired, want, "evenly, and each with all its attempts");
}

#[tokio::test]
async fn a_redrive_is_done_once_under_its_key_and_holds_its_rules() {
    let world = World::five_dead().await;
    let asked = || {
        post("/v1/dead-letters/redrive", &json!({"limit": 2, "all": true})).header("idempotency-key", "k1")
    };
    let first = world.send(asked()).await;
    let again = world.send(asked()).await;
    assert_eq!((first.text, again.header("idempotency-replayed")), (again.text.clone(), Some("true")));
    assert_eq!(world.dead_ids("").await.len(), 3);
    world
        .send(post("/v1/dead-letters/redrive", &json!({"queue": "mail", "rate_per_second": 0})))
        .await
        .expect(400);
    let unbounded = world.send(post("/v1/dead-letters/redrive", &json!({"limit": 2}))).await;
    let unbounded = unbounded.expect_problem(400, "request.invalid");
    assert_eq!(unbounded["errors"][0]["pointer"], "/all");
    assert_eq!(world.redrive(json!({"dry_run": true})).await["tasks"], 3, "to count them needs no filter");
    let elsewhere =
        post("/v1/dead-letters/redrive", &json!({"all": true})).header("punctual-namespace", "other");
    assert_eq!(world.send(elsewhere).await.expect(200)["tasks"], 0);
    assert_eq!(world.redrive(json!({"all": true})).await["tasks"], 3);
    assert_eq!(world.redrive(json!({"all": true})).await["tasks"], 0);
}

#[tokio::test]
async fn a_redrive_that_failed_can_be_made_again() {
    let world = World::five_dead().await;
    world.store.faults.set(StoreGroup::Apply, Dials::ANSWERS_LOST);
    let lost = world.send(post("/v1/dead-letters/redrive", &json!({"all": true}))).await;
    lost.expect_problem(503, "store.outcome_unknown");
    world.store.faults.heal();
    world.redrive(json!({"all": true})).await;
    assert_eq!(world.dead_ids("").await, [] as [i64; 0]);
    world.advance(5_000).await;
    world.advance(5_000).await;
    assert_eq!(world.lease("mail").await.len() + world.lease("sms").await.len(), 5, "each once");
}

/// Of more than one page: the first is done when the second cannot be read.
#[tokio::test]
async fn a_redrive_that_fails_halfway_is_not_said_to_have_done_nothing() {
    const DEAD: usize = 501;
    let world = World::new();
    let tasks: Vec<_> = (0..DEAD).map(|_| json!({"queue": "mail"})).collect();
    world.send(post("/v1/tasks/batch", &json!({"tasks": tasks}))).await.expect(200);
    world.advance(0).await;
    let leased = world.send(post("/v1/queues/mail/lease", &json!({"max": DEAD}))).await.expect(200);
    let reject = |task: &Value| json!({"ref": task["ref"], "token": task["token"], "outcome": "reject"});
    let outcomes: Vec<_> = leased["tasks"].as_array().unwrap().iter().map(reject).collect();
    assert_eq!(outcomes.len(), DEAD);
    world.send(post("/v1/outcomes", &json!({"outcomes": outcomes}))).await.expect(200);
    let wall = Arc::new(Wall::default());
    world.store.faults.set_wall(&wall);
    let all = || post("/v1/dead-letters/redrive", &json!({"all": true, "limit": DEAD}));
    wall.raise(Rise::BehindChanges(0));
    world.send(all()).await.expect_problem(503, "store.unavailable");
    wall.raise(Rise::BehindChanges(1));
    world.send(all()).await.expect_problem(503, "store.outcome_unknown");
    assert!(wall.down() > 0);
    assert_eq!(world.dead_ids("limit=1000").await.len(), 1, "the first page was redriven");
}
