//! The same POST under the same key has one effect and one answer.

use crate::world::{Answer, Ask, HOUR_MS, World, ask, post, send_to};
use punctual_contract::store::{ReplyKey, Reservation, Reserved};
use punctual_domain::name::Name;
use punctual_testkit::{
    faults::{Dials, StoreGroup},
    patience::HANG_LIMIT,
};
use serde_json::{Value, json};
use std::time::Duration;

fn keyed(key: &str, request: Ask) -> Ask {
    request.header("idempotency-key", key)
}

fn is_replayed(answer: &Answer) -> bool {
    answer.header("idempotency-replayed") == Some("true")
}

async fn accepted(world: &World) -> i64 {
    world.engine.store().books().await.unwrap().accepted
}

#[tokio::test]
async fn a_repeated_insert_gets_the_first_answer() {
    let world = World::new();
    let request = || keyed("k1", post("/v1/tasks", &json!({"queue": "q", "delay_ms": 50})));
    let first = world.send(request()).await;
    assert!(!is_replayed(&first));
    world.advance(1_000).await;
    let second = world.send(request()).await;
    assert!(is_replayed(&second));
    assert_eq!(
        (second.status, &second.text, second.header("content-type")),
        (201, &first.text, Some("application/json"))
    );
    assert_eq!(accepted(&world).await, 1);
    let elsewhere = request().header("punctual-namespace", "eu");
    assert!(!is_replayed(&world.send(elsewhere).await), "keys are the namespace's own");
}

#[tokio::test]
async fn a_key_for_another_request_is_refused() {
    let world = World::new();
    let body = json!({"queue": "q"});
    world.send(keyed("k1", post("/v1/tasks", &body))).await.expect(201);
    let other = world.send(keyed("k1", post("/v1/tasks", &json!({"queue": "r"})))).await;
    other.expect_problem(422, "idempotency.key_reused");
    let elsewhere = world.send(keyed("k1", post("/v1/tasks/batch", &json!({"tasks": [body]})))).await;
    elsewhere.expect_problem(422, "idempotency.key_reused");
}

#[tokio::test]
async fn a_definite_refusal_is_replayed_and_a_correctable_one_is_not() {
    let world = World::new();
    let task_ref = world.bring_to("ready", 7).await;
    let cancel = || keyed("k1", ask("POST", format!("/v1/tasks/{task_ref}/cancel")));
    world.send(cancel()).await.expect_problem(409, "task.already_fired");
    let again = world.send(cancel()).await;
    assert!(is_replayed(&again));
    again.expect_problem(409, "task.already_fired");

    world.send(keyed("k2", post("/v1/tasks", &json!({"queue": "a b"})))).await.expect(400);
    world.send(keyed("k2", post("/v1/tasks", &json!({"queue": "ab"})))).await.expect(201);
}

#[tokio::test]
async fn an_answer_that_was_never_kept_does_not_double_the_tasks() {
    let world = World::new();
    let single = || keyed("k1", post("/v1/tasks", &json!({"queue": "q", "payload": 1, "delay_ms": HOUR_MS})));
    let tasks = json!([{"queue": "q"}, {"queue": "a b"}, {"queue": "q", "task_id": 9}, {"queue": "q"}]);
    let batch = || keyed("k2", post("/v1/tasks/batch", &json!({"tasks": tasks})));
    // Keeping the answer fails: for the next try it is as after a crash between the work and the keeping.
    let first = world.without_replies_kept(single()).await.expect(201);
    let all = world.without_replies_kept(batch()).await.expect(200);
    assert_eq!(accepted(&world).await, 4);

    world.clock.advance_ms(5_000);
    let second = world.send(single()).await;
    assert!(!is_replayed(&second));
    let second = second.expect(200);
    assert_eq!((&second["outcome"], &second["ref"]), (&json!("existing"), &first["ref"]));
    assert_eq!(second["execute_at_ms"], first["execute_at_ms"], "the first plan stands");
    let again = world.send(batch()).await.expect(200);
    let statuses: Vec<u64> = (0..4).map(|nth| again["results"][nth]["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [200, 400, 201, 200]);
    for nth in [0, 2, 3] {
        assert_eq!(again["results"][nth]["task"]["ref"], all["results"][nth]["task"]["ref"]);
    }
    assert_eq!(accepted(&world).await, 4);
}

#[tokio::test]
async fn an_insert_under_a_key_costs_one_read_whether_or_not_it_was_tried_before() {
    let world = World::new();
    let reads = || world.store.faults.counts(StoreGroup::Read).passed;
    let single = || keyed("k1", post("/v1/tasks", &json!({"queue": "q", "delay_ms": HOUR_MS})));
    let tasks: Vec<_> = (0..20).map(|_| json!({"queue": "q", "delay_ms": HOUR_MS})).collect();
    let batch = || keyed("k2", post("/v1/tasks/batch", &json!({"tasks": tasks})));
    let before = reads();
    world.without_replies_kept(single()).await.expect(201);
    assert_eq!(reads() - before, 1, "a new one");
    world.send(single()).await.expect(200);
    assert_eq!(reads() - before, 2, "tried before");
    world.send(batch()).await.expect(200);
    assert_eq!(reads() - before, 3, "twenty new ones: the first is looked for");
}

#[tokio::test]
async fn a_task_of_another_wish_under_the_same_key_is_not_passed_off_as_this_one() {
    let world = World::new();
    let of = |queue: &str| keyed("k1", post("/v1/tasks", &json!({"queue": queue, "delay_ms": HOUR_MS})));
    world.without_replies_kept(of("q")).await.expect(201);
    world.send(of("r")).await.expect_problem(422, "idempotency.key_reused");
    assert_eq!(accepted(&world).await, 1);
}

#[tokio::test]
async fn items_that_were_told_to_come_later_are_worked_on_when_the_batch_comes_again() {
    let world = World::new();
    let room = |tasks: u64| ask("PUT", "/v1/queues/q").json(&json!({"max_waiting": tasks}));
    world.send(room(2)).await.expect(200);
    let waiting = json!({"queue": "q", "delay_ms": HOUR_MS});
    let tasks = json!([
        {"queue": "q", "task_id": 9, "delay_ms": HOUR_MS}, waiting, {"queue": "a b"}, waiting, waiting
    ]);
    let batch = || keyed("k", post("/v1/tasks/batch", &json!({"tasks": tasks})));
    let statuses = |answer: &Value| -> Vec<u64> {
        answer["results"].as_array().unwrap().iter().map(|item| item["status"].as_u64().unwrap()).collect()
    };
    let first = world.send(batch()).await.expect(200);
    assert_eq!(statuses(&first), [201, 201, 400, 429, 429]);
    let again = world.send(batch()).await;
    assert!(!is_replayed(&again), "it was tried again");
    assert_eq!(statuses(&again.expect(200)), [201, 201, 400, 429, 429], "there is no room yet");

    // What became of an item is not done over, whatever has become of its task since.
    let withdrawn = first["results"][0]["task"]["ref"].as_str().unwrap();
    world.send(ask("POST", format!("/v1/tasks/{withdrawn}/cancel"))).await.expect(200);
    // What waits is counted again after a second of the runtime's clock.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(1)).await;
    tokio::time::resume();
    let second = world.send(batch()).await.expect(200);
    assert_eq!(statuses(&second), [201, 201, 400, 201, 429]);
    world.send(room(9)).await.expect(200);
    let third = world.send(batch()).await.expect(200);
    assert_eq!(statuses(&third), [201, 201, 400, 201, 201]);
    for nth in [0, 1, 3] {
        assert_eq!(third["results"][nth]["task"], second["results"][nth]["task"]);
    }
    assert_eq!(accepted(&world).await, 4);
    let last = world.send(batch()).await;
    assert!(is_replayed(&last), "now all is answered for good");
    assert_eq!(last.expect(200), third);
}

#[tokio::test]
async fn the_order_of_fields_makes_no_other_request() {
    let world = World::new();
    let of = |body: &'static str| keyed("k", ask("POST", "/v1/tasks").raw("application/json", body));
    let first = world.send(of(r#"{"queue":"q","payload":{"a":1,"b":2},"delay_ms":60000}"#)).await.expect(201);
    let second = world.send(of(r#"{"delay_ms": 60000, "payload": {"b": 2, "a": 1}, "queue": "q"}"#)).await;
    assert!(is_replayed(&second));
    assert_eq!(second.expect(201), first);
    let other = world.send(of(r#"{"delay_ms":60000,"payload":{"b":1,"a":2},"queue":"q"}"#)).await;
    other.expect_problem(422, "idempotency.key_reused");
}

#[tokio::test]
async fn a_failure_is_not_kept() {
    let world = World::new();
    let request = || keyed("k1", post("/v1/tasks", &json!({"queue": "q"})));
    world.store.faults.set(StoreGroup::Insert, Dials::ANSWERS_LOST);
    world.send(request()).await.expect_problem(503, "store.outcome_unknown");
    world.store.faults.heal();
    let second = world.send(request()).await.expect(200);
    assert_eq!((&second["outcome"], accepted(&world).await), (&json!("existing"), 1));
}

#[tokio::test]
async fn a_second_request_while_the_first_is_worked_on_is_told_to_wait() {
    let world = World::new();
    let poll = || keyed("k1", post("/v1/queues/q/lease", &json!({"wait_ms": 60_000})));
    world.insert(json!({"queue": "q", "delay_ms": 500})).await;
    let second = async {
        let answer = world.send(poll()).await;
        world.advance(500).await;
        answer
    };
    let (first, second) = tokio::join!(world.send(poll()), second);
    second.expect_problem(409, "idempotency.in_progress");
    assert_eq!(first.expect(200)["tasks"].as_array().unwrap().len(), 1);
    assert!(is_replayed(&world.send(poll()).await));
}

#[tokio::test]
async fn the_same_key_at_two_engines_at_once_has_one_effect() {
    let world = World::new();
    let other = world.another_router();
    let body = json!({"queue": "q", "task_id": 7, "delay_ms": HOUR_MS});
    let request = || keyed("k1", post("/v1/tasks", &body));
    let gate = world.store.faults.hold(StoreGroup::Insert);
    let meanwhile = async {
        gate.reached().await;
        // Without a reservation it would come to the gate as well, and never be answered.
        let second = tokio::time::timeout(HANG_LIMIT, send_to(other.clone(), request())).await;
        gate.open();
        second.expect("an answer while the first is worked on")
    };
    let (first, second) = tokio::join!(world.send(request()), meanwhile);
    second.expect_problem(409, "idempotency.in_progress");
    assert_eq!(first.status, 201);
    let third = send_to(other, request()).await;
    assert!(is_replayed(&third));
    assert_eq!((third.status, &third.text), (201, &first.text));
    assert_eq!(first.expect(201)["outcome"], "created");
    assert_eq!(accepted(&world).await, 1);
}

#[tokio::test]
async fn a_key_that_an_engine_died_with_is_free_again_after_half_a_minute() {
    let world = World::new();
    let now = world.engine.now();
    let key = ReplyKey { namespace: Name::default_namespace(), key: "k1".to_owned() };
    let dead = Reservation { request_hash: 1, owner: "dead/1".to_owned(), until: now.plus(30_000) };
    assert_eq!(world.engine.store().reserve_reply(&key, &dead, now).await.unwrap(), Reserved::Ours);
    let request = || keyed("k1", post("/v1/tasks", &json!({"queue": "q", "delay_ms": HOUR_MS})));
    world.send(request()).await.expect_problem(409, "idempotency.in_progress");
    world.clock.advance_ms(29_999);
    world.send(request()).await.expect_problem(409, "idempotency.in_progress");
    world.clock.advance_ms(1);
    world.send(request()).await.expect(201);
    assert!(is_replayed(&world.send(request()).await));
}

/// An engine is stopped in the middle of the work for longer than it has reserved the key, another does it meanwhile, and
/// then the first continues. A task that has its id from the key is left as it is; one with the caller's own id is replaced,
/// which the answer says. The answer that is kept is the later one.
#[tokio::test]
async fn a_key_protects_an_engine_that_stands_still_for_half_a_minute_only_by_the_id_that_comes_from_it() {
    let own_id = json!({"queue": "q", "task_id": 7, "delay_ms": HOUR_MS});
    let id_of_key = json!({"queue": "q", "delay_ms": HOUR_MS});
    for (body, first_status, first_outcome) in [(id_of_key, 200, "existing"), (own_id, 201, "replaced")] {
        let world = World::new();
        let other = world.another_router();
        let request = || keyed("k1", post("/v1/tasks", &body));
        let current = world.store.faults.hold(StoreGroup::Insert);
        let meanwhile = async {
            current.reached().await;
            // Who comes from now on passes.
            world.store.faults.hold(StoreGroup::Insert).open();
            world.clock.advance_ms(29_999);
            let early = send_to(other.clone(), request()).await;
            early.expect_problem(409, "idempotency.in_progress");
            world.clock.advance_ms(1);
            let second = send_to(other.clone(), request()).await;
            current.open();
            second
        };
        let (first, second) = tokio::join!(world.send(request()), meanwhile);
        assert_eq!(second.expect(201)["outcome"], "created");
        let kept = first.text.clone();
        assert_eq!(first.expect(first_status)["outcome"], first_outcome);
        assert_eq!(accepted(&world).await, 1);
        let third = send_to(other, request()).await;
        assert!(is_replayed(&third));
        assert_eq!((third.status, third.text), (first_status, kept));
    }
}

#[tokio::test]
async fn an_answer_is_forgotten_after_a_day() {
    let world = World::new();
    let request =
        || keyed("k1", post("/v1/tasks", &json!({"queue": "q", "task_id": 1, "delay_ms": 100 * HOUR_MS})));
    world.send(request()).await.expect(201);
    world.clock.advance_ms(24 * HOUR_MS - 1);
    assert!(is_replayed(&world.send(request()).await));
    world.clock.advance_ms(2);
    let later = world.send(request()).await;
    assert!(!is_replayed(&later));
    assert_eq!(later.expect(201)["outcome"], "replaced");
}
