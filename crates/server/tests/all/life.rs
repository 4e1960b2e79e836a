//! A2, A3 and A11, row by row, through the API: on SQLite and memory, and on MySQL and Redis. The state `blocked` is not
//! reached, because no event leads there as long as there are no workflows; its rows are held in the store's own suite.

use crate::world::{HOUR_MS, STATES, World, ask, get, post};
use punctual_contract::{Hot, Store};
use punctual_domain::state::{State, TRANSITIONS};
use punctual_hot::{RedisHot, RedisOptions};
use punctual_store::{MysqlOptions, MysqlStore};
use punctual_testkit::{patience::until, servers};
use serde_json::{Value, json};
use std::sync::Arc;

const DAY_MS: u64 = 24 * HOUR_MS;

async fn on_mysql_and_redis() -> World {
    let (mysql, redis) = (servers::mariadb().await, servers::redis().await);
    let options = MysqlOptions { partitions: 4, ..MysqlOptions::default() };
    let store = MysqlStore::open(&[mysql.fresh_database().await], options).await.unwrap();
    let options = RedisOptions { partitions: 4, prefix: redis.fresh_prefix(), ..RedisOptions::default() };
    let hot = RedisHot::connect(&redis.url(), options).await.unwrap();
    let (store, hot): (Arc<dyn Store>, Arc<dyn Hot>) = (Arc::new(store), Arc::new(hot));
    World::over(store, hot)
}

mod on_sqlite_and_memory {
    use crate::world::World;

    #[tokio::test]
    async fn every_row_of_a2() {
        super::every_row_of_a2(World::new()).await;
    }
    #[tokio::test]
    async fn every_row_of_a3() {
        super::every_row_of_a3(World::new()).await;
    }
    #[tokio::test]
    async fn every_row_of_a11() {
        super::every_row_of_a11(World::new()).await;
    }
}

mod on_mysql_and_redis {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_row_of_a2() {
        super::every_row_of_a2(super::on_mysql_and_redis().await).await;
    }
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_row_of_a3() {
        super::every_row_of_a3(super::on_mysql_and_redis().await).await;
    }
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_row_of_a11() {
        super::every_row_of_a11(super::on_mysql_and_redis().await).await;
    }
}

/// State, its phase, and what an insert of the same version does.
const ROWS: [(&str, &str, &str); 11] = [
    ("scheduled", "pending", "replaced"),
    ("dispatching", "pending", "replaced"),
    ("ready", "pending", "replaced"),
    ("dispatched", "processing", "existing"),
    ("running", "processing", "existing"),
    ("dispatch_failed", "pending", "replaced"),
    ("retrying", "pending", "replaced"),
    ("succeeded", "success", "existing"),
    ("dead", "failed", "replaced"),
    ("cancelled", "stopped", "replaced"),
    ("stopped", "stopped", "replaced"),
];

async fn every_row_of_a2(world: World) {
    for (nth, (state, _, same)) in (1_i64..).zip(ROWS) {
        let queue = |relation: &str| format!("{state}-{relation}");
        let wish = |id: i64, version: i64, relation: &str| {
            json!({"queue": queue(relation), "task_id": id, "task_version": version, "delay_ms": HOUR_MS,
                "payload": {"new": true}})
        };
        let id = nth * 10;
        let task_ref = world.bring_to_in(&queue("lower"), state, id).await;
        let refused = world.send(post("/v1/tasks", &wish(id, 4, "lower"))).await;
        let refused = refused.expect_problem(409, "task.version_superseded");
        assert_eq!(
            refused["existing"]["ref"], task_ref,
            "{state}: a lower version is shown the existing one"
        );
        assert_eq!(world.task(&task_ref).await["state"], state, "and leaves it alone");

        let id = nth * 10 + 1;
        let task_ref = world.bring_to_in(&queue("same"), state, id).await;
        let answer = world.send(post("/v1/tasks", &wish(id, 5, "same"))).await;
        let answer = answer.expect(if same == "existing" { 200 } else { 201 });
        assert_eq!(
            (&answer["outcome"], &answer["ref"]),
            (&json!(same), &json!(task_ref)),
            "{state}: the same version"
        );
        let task = world.task(&task_ref).await;
        let replaced = same == "replaced";
        assert_eq!(task["payload"] == json!({"new": true}), replaced, "{state}: {task}");
        assert_eq!(task["state"], if replaced { "scheduled" } else { state });
        assert!(!replaced || task["attempt"] == 0, "{state}: {task}");

        let id = nth * 10 + 2;
        let task_ref = world.bring_to_in(&queue("higher"), state, id).await;
        let answer = world.send(post("/v1/tasks", &wish(id, 6, "higher"))).await.expect(201);
        assert_eq!(answer["outcome"], "created", "{state}: a higher version");
        assert_ne!(answer["ref"], task_ref);
        assert_eq!(world.task(&task_ref).await["state"], state, "the lower one goes on");
        let versions = world.send(get(format!("/v1/tasks?task_id={id}"))).await.expect(200);
        let versions: Vec<_> = versions["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|version| version["task_version"].clone())
            .collect();
        assert_eq!(versions, [6, 5]);
    }
    a_higher_version_is_served_first(&world).await;
}

async fn a_higher_version_is_served_first(world: &World) {
    let wish = |version: i64| json!({"queue": "versions", "task_id": 999, "task_version": version});
    for version in [1, 2, 3] {
        world.insert(wish(version)).await;
        world.advance(10).await;
    }
    let mut served = Vec::new();
    for _ in 0..3 {
        let answer = world.send(post("/v1/queues/versions/lease", &json!({"max": 1}))).await.expect(200);
        served.push(answer["tasks"][0]["task_version"].clone());
    }
    assert_eq!(served, [3, 2, 1]);
}

async fn every_row_of_a3(world: World) {
    assert_eq!(ROWS.map(|row| row.0), STATES, "each state that can be reached has its row");
    let missing: Vec<State> =
        State::ALL.into_iter().filter(|state| !STATES.contains(&state.word())).collect();
    assert_eq!(missing, [State::Blocked]);
    assert!(
        TRANSITIONS.iter().all(|transition| transition.to != State::Blocked),
        "nothing leads there: else it needs its row"
    );
    for (id, (state, phase, _)) in (1_i64..).zip(ROWS) {
        let task_ref = world.bring_to_in(&format!("{state}-phase"), state, id).await;
        assert_eq!(world.task(&task_ref).await["phase"], phase, "{state}");
    }
    // Success is kept for 24 hours, so that repeated requests are answered; then it is stopped, and then deleted.
    let task_ref = world.bring_to_in("kept", "succeeded", 99).await;
    let again = || post("/v1/tasks", &json!({"queue": "kept", "task_id": 99, "task_version": 5}));
    world.advance(DAY_MS - 1).await;
    let answer = world.send(again()).await.expect(200);
    assert_eq!((&answer["outcome"], &answer["ref"]), (&json!("existing"), &json!(task_ref)));
    world.advance(1).await;
    let task = world.task(&task_ref).await;
    assert_eq!((&task["state"], &task["phase"]), (&json!("stopped"), &json!("stopped")));
    world.advance(HOUR_MS - 1).await;
    assert_eq!(world.task(&task_ref).await["state"], "stopped");
    world.advance(1).await;
    world.send(get(format!("/v1/tasks/{task_ref}"))).await.expect_problem(404, "task.not_found");
    assert_eq!(world.send(again()).await.expect(201)["outcome"], "created", "as if it had never been");
}

/// Moves on and does what is due, a few times: what one turn finds, the next may finish.
async fn pass(world: &World, ms: u64) {
    world.advance(ms).await;
    world.advance(0).await;
}

/// No executor waits until what it may not start any more is buried.
async fn buried(world: &World, task_ref: &str) -> Value {
    let is_dead = || async { world.task(task_ref).await["state"] == "dead" };
    until("it is buried", is_dead).await;
    let task = world.task(task_ref).await;
    assert_eq!(task["phase"], "failed", "{task}");
    task
}

async fn every_row_of_a11(world: World) {
    pending_too_long(&world).await;
    pending_too_long_for_its_queue(&world).await;
    processing_too_long(&world).await;
    finished_long_ago(&world).await;
}

async fn pending_too_long(world: &World) {
    let late = json!({"queue": "pending", "task_id": 1, "deadline_ms": 5_000});
    let task_ref = world.insert(late).await["ref"].as_str().unwrap().to_owned();
    world.advance(0).await;
    pass(world, 4_999).await;
    assert_eq!(world.task(&task_ref).await["phase"], "pending");
    pass(world, 1_001).await;
    world.lease("pending").await;
    let task = buried(world, &task_ref).await;
    assert_eq!(task["attempt"], 0, "nobody has begun it");
    let last = task["history"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["event"], &last["reason"]), (&json!("expire"), &json!("deadline")), "{last}");
}

/// Whether a caller asks for it or not.
async fn pending_too_long_for_its_queue(world: &World) {
    for (id, is_asked_for) in [(4, false), (5, true)] {
        let queue = format!("impatient-{id}");
        let set = ask("PUT", format!("/v1/queues/{queue}")).json(&json!({"pending_timeout_ms": 20_000}));
        world.send(set).await.expect(200);
        // It is pending for long before its time, which does not count.
        let task = world.insert(json!({"queue": queue, "task_id": id, "delay_ms": 60_000})).await;
        let task_ref = task["ref"].as_str().unwrap().to_owned();
        pass(world, 60_000).await;
        pass(world, 20_000).await;
        let task = world.task(&task_ref).await;
        assert_eq!((&task["state"], &task["phase"]), (&json!("ready"), &json!("pending")), "{task}");
        world.clock.advance_ms(1);
        if is_asked_for {
            assert!(world.lease(&queue).await.is_empty(), "it may not start any more");
        } else {
            pass(world, 0).await;
        }
        let task = buried(world, &task_ref).await;
        assert_eq!(task["attempt"], 0, "nobody has begun it");
        let last = task["history"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(
            (&last["event"], &last["reason"]),
            (&json!("expire"), &json!("pending_timeout")),
            "{last}"
        );
        let why = world.send(get(format!("/v1/tasks/{task_ref}/why"))).await.expect(200);
        assert!(why["reason"].as_str().unwrap().contains("pending_timeout_ms"), "{why}");
    }
}

async fn processing_too_long(world: &World) {
    // However many heartbeats it gives.
    let slow = json!({"queue": "slow", "task_id": 2, "timeout_ms": 5_000, "max_attempts": 2,
        "retry": {"strategy": "fixed", "delay_ms": 10_000}});
    let task_ref = world.insert(slow).await["ref"].as_str().unwrap().to_owned();
    world.advance(0).await;
    for (attempt, state, phase) in [(1, "retrying", "pending"), (2, "dead", "failed")] {
        let leased = world.lease("slow").await.remove(0);
        assert_eq!(leased["attempt"], attempt);
        pass(world, 4_000).await;
        assert_eq!(world.beat(&leased).await["lost"], false);
        pass(world, 1_000).await;
        let task = world.task(&task_ref).await;
        assert_eq!((&task["state"], &task["phase"]), (&json!(state), &json!(phase)), "{task}");
        assert_eq!(world.report(&leased, json!({"outcome": "succeeded"})).await["status"], "stale");
        pass(world, 10_000).await;
    }
    // One that falls silent.
    let silent = json!({"queue": "silent", "task_id": 3, "max_attempts": 1});
    let task_ref = world.insert(silent).await["ref"].as_str().unwrap().to_owned();
    world.advance(0).await;
    assert_eq!(world.lease("silent").await.len(), 1);
    pass(world, 30_000).await;
    let task: Value = world.task(&task_ref).await;
    assert_eq!(task["state"], "dead", "{task}");
    assert_eq!(task["history"].as_array().unwrap().last().unwrap()["reason"], "lease_expired");
}

async fn finished_long_ago(world: &World) {
    // Days that each is kept after it ended.
    for (id, state, days) in [(10, "dead", 30), (11, "cancelled", 7)] {
        let task_ref = world.bring_to_in(&format!("{state}-kept"), state, id).await;
        pass(world, days * DAY_MS - 1).await;
        assert_eq!(world.task(&task_ref).await["state"], state);
        pass(world, 1).await;
        let gone = world.send(get(format!("/v1/tasks/{task_ref}"))).await;
        gone.expect_problem(404, "task.not_found");
        world.send(ask("POST", format!("/v1/tasks/{task_ref}/redrive"))).await.expect(404);
    }
}
