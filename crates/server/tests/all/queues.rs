//! What is set for queues and limits, pause and resume, caps, defaults.

use crate::world::{Ask, World, ask, get, post};
use serde_json::{Value, json};

fn put(path: &str, body: &Value) -> Ask {
    ask("PUT", path).json(body)
}

#[tokio::test]
async fn a_queue_is_set_whole_read_back_and_put_back() {
    let world = World::new();
    world.send(get("/v1/queues/mail")).await.expect_problem(404, "queue.not_found");
    let settings = json!({
        "concurrency": 10, "key_concurrency": 2, "rate": {"limit": 100, "period_ms": 1000, "burst": 20},
        "key_rate": {"limit": 1, "period_ms": 1000, "burst": 1}, "choice": {"by": "weights", "weights": [5, 4, 3, 2, 0]},
        "retries": {"lower_by": 1, "share_percent": 25, "concurrency": 3}, "max_waiting": 1000,
        "retry": {"strategy": "fixed", "delay_ms": 300}, "max_attempts": 7, "timeout_ms": 30_000,
        "pending_timeout_ms": 60_000, "keep": {"succeeded_ms": 1, "dead_ms": 2, "cancelled_ms": 3},
        "lateness_budget_ms": 250, "mode": "pull", "weight": 3
    });
    let answer = world.send(put("/v1/queues/mail", &settings)).await;
    assert_eq!(answer.header("etag"), Some("\"1\""));
    let set = answer.expect(200);
    for (name, value) in settings.as_object().unwrap() {
        assert_eq!(&set[name], value, "{name}");
    }
    assert_eq!(
        (&set["queue"], &set["namespace"], &set["pause"]),
        (&json!("mail"), &json!("default"), &Value::Null)
    );
    assert_eq!(world.send(get("/v1/queues/mail")).await.expect(200), set);
    let again = world.send(put("/v1/queues/mail", &set)).await.expect(200);
    assert_eq!((&again["revision"], &again["rate"]), (&json!(2), &set["rate"]));
    let bare = world.send(put("/v1/queues/mail", &json!({"concurrency": 3}))).await.expect(200);
    assert_eq!(
        (&bare["concurrency"], &bare["rate"]),
        (&json!(3), &Value::Null),
        "what is left out is not set"
    );
    let gone = world.send(ask("DELETE", "/v1/queues/mail")).await.expect(200);
    assert_eq!((&gone["revision"], &gone["concurrency"]), (&json!(0), &Value::Null));
}

#[tokio::test]
async fn a_patch_changes_only_what_it_names() {
    let world = World::new();
    let patch = |body: Value| ask("PATCH", "/v1/queues/mail").json(&body);
    let set =
        json!({"concurrency": 3, "max_waiting": 9, "rate": {"limit": 5, "period_ms": 1000, "burst": 1}});
    world.send(put("/v1/queues/mail", &set)).await.expect(200);
    let changed = world.send(patch(json!({"concurrency": 10}))).await.expect(200);
    assert_eq!((&changed["concurrency"], &changed["max_waiting"]), (&json!(10), &json!(9)));
    assert_eq!((&changed["rate"], &changed["revision"]), (&set["rate"], &json!(2)));
    assert_eq!(world.send(get("/v1/queues/mail")).await.expect(200), changed);
    let less = world.send(patch(json!({"rate": null, "pause": {"reason": "why"}}))).await.expect(200);
    assert_eq!((&less["rate"], &less["concurrency"]), (&Value::Null, &json!(10)));
    assert_eq!(less["pause"]["reason"], "why");
    let still = world.send(patch(json!({"weight": 2}))).await.expect(200);
    assert_eq!((&still["pause"], &still["weight"]), (&less["pause"], &json!(2)), "a pause stays");
    assert_eq!(world.send(patch(json!({"pause": false}))).await.expect(200)["pause"], Value::Null);
    let bad = world.send(patch(json!({"concurrency": 0}))).await.expect_problem(400, "request.invalid");
    assert_eq!(bad["errors"][0]["pointer"], "/concurrency");
    world.send(patch(json!({"concurency": 1}))).await.expect_problem(400, "request.unknown_field");
    world.send(patch(json!({"concurrency": "x"}))).await.expect_problem(400, "request.invalid");
    let stale = patch(json!({"weight": 3})).header("if-match", "\"1\"");
    world.send(stale).await.expect_problem(412, "precondition.failed");
    let fresh = world.send(patch(json!({"weight": 3})).header("if-match", "\"5\"")).await.expect(200);
    assert_eq!((&fresh["weight"], &fresh["max_waiting"]), (&json!(3), &json!(9)));
}

#[tokio::test]
async fn queues_come_in_pages_and_by_what_they_are() {
    let world = World::new();
    for name in ["mail", "mail.eu", "sms", "web"] {
        world.send(put(&format!("/v1/queues/{name}"), &json!({"concurrency": 1}))).await.expect(200);
    }
    world.send(post("/v1/queues/sms/pause", &json!({}))).await.expect(200);
    let listed = async |query: &str| {
        let page = world.send(get(format!("/v1/queues{query}"))).await.expect(200);
        let names =
            page["items"].as_array().unwrap().iter().map(|entry| entry["queue"].as_str().unwrap().to_owned());
        (names.collect::<Vec<_>>(), page["next_cursor"].as_str().map(str::to_owned))
    };
    assert_eq!(listed("").await, (["mail", "mail.eu", "sms", "web"].map(String::from).to_vec(), None));
    let (first, next) = listed("?limit=3").await;
    let (rest, end) = listed(&format!("?limit=3&cursor={}", next.unwrap())).await;
    assert_eq!((first.len(), rest, end), (3, vec!["web".to_owned()], None));
    assert_eq!(listed("?prefix=mail").await.0, ["mail", "mail.eu"]);
    assert_eq!(listed("?paused=true").await.0, ["sms"]);
    assert_eq!(listed("?paused=false&limit=2").await.0, ["mail", "mail.eu"]);
    world.send(get("/v1/queues?limit=0")).await.expect_problem(400, "request.invalid");
    world.send(get("/v1/queues?size=1")).await.expect_problem(400, "request.unknown_field");
    let none = world.send(get("/v1/alerts?severity=critical&queue=web&limit=1")).await.expect(200);
    assert_eq!(none, json!({"items": [], "next_cursor": null}));
}

/// A caller that has seen it paused must not take later tasks for earlier ones.
#[tokio::test]
async fn a_queue_without_settings_keeps_its_revision_growing_when_it_is_resumed() {
    let world = World::new();
    for round in 0..3 {
        let paused = world.send(post("/v1/queues/mail/pause", &json!({}))).await;
        let tag = paused.header("etag").unwrap().to_owned();
        assert_eq!(paused.expect(200)["revision"], 2 * round + 1);
        let resumed = world.send(post("/v1/queues/mail/resume", &json!({}))).await.expect(200);
        assert_eq!((&resumed["revision"], &resumed["pause"]), (&json!(2 * round + 2), &Value::Null));
        assert_eq!(world.send(get("/v1/queues/mail")).await.expect(200)["revision"], 2 * round + 2);
        let stale = put("/v1/queues/mail", &json!({"concurrency": 1})).header("if-match", tag);
        world.send(stale).await.expect_problem(412, "precondition.failed");
    }
    world.send(ask("DELETE", "/v1/queues/mail")).await.expect(200);
    world.send(get("/v1/queues/mail")).await.expect_problem(404, "queue.not_found");
}

#[tokio::test]
async fn a_queue_that_is_not_valid_is_refused_with_every_fault() {
    let world = World::new();
    let bad = json!({"concurrency": 0, "rate": {"limit": 1, "period_ms": 1000, "burst": 0}, "keep": {"dead_ms": -1}});
    let problem = world.send(put("/v1/queues/mail", &bad)).await.expect_problem(400, "request.invalid");
    let pointers: Vec<_> =
        problem["errors"].as_array().unwrap().iter().map(|error| error["pointer"].clone()).collect();
    assert_eq!(pointers, ["/concurrency", "/rate/burst", "/keep/dead_ms"]);
    assert!(problem["errors"][0]["detail"].as_str().unwrap().contains("not 0; leave it out"), "{problem}");
    let unknown = put("/v1/queues/mail", &json!({"concurency": 1}));
    world.send(unknown).await.expect_problem(400, "request.unknown_field");
    world.send(get("/v1/queues/mail")).await.expect_problem(404, "queue.not_found");
}

#[tokio::test]
async fn settings_that_changed_meanwhile_are_not_overwritten() {
    let world = World::new();
    let change = |tag: &str, concurrency: u32| {
        put("/v1/queues/mail", &json!({"concurrency": concurrency})).header("if-match", tag)
    };
    world.send(change("*", 1)).await.expect_problem(412, "precondition.failed");
    assert_eq!(world.send(change("\"0\"", 1)).await.expect(200)["revision"], 1);
    world.send(change("\"0\"", 2)).await.expect_problem(412, "precondition.failed");
    assert_eq!(world.send(change("\"9\", \"1\"", 2)).await.expect(200)["concurrency"], 2);
    let limits = |tag: &str| put("/v1/limits", &json!({"concurrency": 5})).header("if-match", tag);
    world.send(limits("\"7\"")).await.expect_problem(412, "precondition.failed");
    assert_eq!(world.send(limits("\"0\"")).await.expect(200)["concurrency"], 5);
}

#[tokio::test]
async fn a_namespace_has_a_weight_and_everything_has_none() {
    let world = World::new();
    let set = world.send(put("/v1/namespaces/eu", &json!({"weight": 3}))).await.expect(200);
    assert_eq!((&set["weight"], &set["concurrency"]), (&json!(3), &Value::Null));
    assert_eq!(world.send(get("/v1/namespaces/eu")).await.expect(200)["weight"], 3);
    for weight in [0, 1_001] {
        let refused = put("/v1/namespaces/eu", &json!({ "weight": weight }));
        let problem = world.send(refused).await.expect_problem(400, "request.invalid");
        let detail = problem["errors"][0]["detail"].as_str().unwrap();
        assert!(detail.contains("between 1 and 1000") && detail.contains("leave it out for 1"), "{problem}");
    }
    let refused = put("/v1/limits", &json!({"weight": 3, "concurrency": 5}));
    let problem = world.send(refused).await.expect_problem(400, "request.invalid");
    assert_eq!(problem["errors"][0]["pointer"], "/weight");
    assert!(problem["errors"][0]["detail"].as_str().unwrap().contains("namespaces"), "{problem}");
    assert_eq!(
        world.send(get("/v1/limits")).await.expect(200)["concurrency"],
        Value::Null,
        "nothing of it is set"
    );
}

#[tokio::test]
async fn limits_of_a_namespace_and_of_everything_are_set_and_read() {
    let world = World::new();
    for path in ["/v1/namespaces/eu", "/v1/limits"] {
        assert_eq!(world.send(get(path)).await.expect(200)["revision"], 0);
        let wanted = json!({"concurrency": 5, "max_waiting": 10});
        let set = world.send(put(path, &wanted)).await.expect(200);
        assert_eq!((&set["concurrency"], &set["max_waiting"]), (&json!(5), &json!(10)));
        assert_eq!(world.send(get(path)).await.expect(200), set);
        let none = put(path, &json!({"max_waiting": 0}));
        world.send(none).await.expect_problem(400, "request.invalid");
        assert_eq!(world.send(put(path, &json!({}))).await.expect(200)["concurrency"], Value::Null);
    }
}

#[tokio::test]
async fn a_paused_queue_hands_nothing_over_and_goes_on_in_its_order() {
    let world = World::new();
    for (id, priority) in [(1, 5), (2, 1), (3, 3)] {
        world.insert(json!({"queue": "mail", "task_id": id, "priority": priority, "delay_ms": 10})).await;
    }
    let pause = json!({"reason": "provider is down", "by": "ann"});
    let paused = world.send(post("/v1/queues/mail/pause", &pause)).await.expect(200);
    assert_eq!(
        (&paused["pause"]["by"], &paused["pause"]["reason"]),
        (&json!("ann"), &json!("provider is down"))
    );
    world.advance(50).await;
    assert_eq!(world.lease("mail").await, [] as [Value; 0]);
    let later = json!({"reason": "again", "by": "bob"});
    let again = world.send(post("/v1/queues/mail/pause", &later)).await.expect(200);
    assert_eq!(again["pause"], paused["pause"], "who paused first, and why, stays");
    let waiting = world.insert(json!({"queue": "mail", "task_id": 4, "delay_ms": 60_000})).await;
    let task = waiting["ref"].as_str().unwrap();
    world.send(ask("POST", format!("/v1/tasks/{task}/cancel"))).await.expect(200);
    let listed = world.send(get("/v1/queues")).await.expect(200);
    assert_eq!((&listed["items"][0]["waiting"], &listed["items"][0]["ready"]), (&json!(3), &json!(3)));
    let due = world.send(get("/v1/tasks?task_id=1")).await.expect(200)["items"][0]["ref"].clone();
    let why = world.send(get(format!("/v1/tasks/{}/why", due.as_str().unwrap()))).await.expect(200);
    assert_eq!((&why["blocking"], &why["owner"]), (&json!("pause"), &json!("ann")));
    let put_meanwhile = world
        .send(put(
            "/v1/queues/mail",
            &json!({
                "max_attempts": 3, "choice": {"by": "highest_first", "percent": 100}
            }),
        ))
        .await
        .expect(200);
    assert_eq!(put_meanwhile["pause"], paused["pause"], "settings leave a pause alone");
    assert_eq!(world.lease("mail").await, [] as [Value; 0]);
    let resumed = world.send(ask("POST", "/v1/queues/mail/resume")).await.expect(200);
    assert_eq!(resumed["pause"], Value::Null);
    let ids: Vec<_> = world.lease("mail").await.iter().map(|entry| entry["task_id"].clone()).collect();
    assert_eq!(ids, [2, 3, 1]);
}

#[tokio::test]
async fn changes_are_listed_the_newest_first_in_pages() {
    let world = World::new();
    for concurrency in 1..4 {
        world.send(put("/v1/queues/mail", &json!({"concurrency": concurrency}))).await.expect(200);
    }
    world.send(put("/v1/queues/sms", &json!({"pause": true}))).await.expect(200);
    world.send(ask("DELETE", "/v1/queues/mail")).await.expect(200);
    let page = world.send(get("/v1/queues/mail/changes?limit=3")).await.expect(200);
    let reported = |page: &Value| {
        let items = page["items"].as_array().unwrap();
        items.iter().map(|item| item["settings"]["concurrency"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(reported(&page), [Value::Null, json!(3), json!(2)]);
    let next = page["next_cursor"].as_str().unwrap();
    let rest = world.send(get(format!("/v1/queues/mail/changes?limit=3&cursor={next}"))).await.expect(200);
    assert_eq!((reported(&rest), &rest["next_cursor"]), (vec![json!(1)], &Value::Null));
    world.send(get("/v1/queues/mail/changes?cursor=x")).await.expect_problem(400, "request.invalid");
}

#[tokio::test]
async fn a_full_queue_refuses_what_is_new_and_nothing_else() {
    let world = World::new();
    world.send(put("/v1/queues/mail", &json!({"max_waiting": 2}))).await.expect(200);
    world.insert(json!({"queue": "mail", "task_id": 1, "delay_ms": 60_000})).await;
    let batch = json!({"tasks": [
        {"queue": "mail", "task_id": 2, "delay_ms": 60_000}, {"queue": "mail", "task_id": 3, "delay_ms": 60_000},
        {"queue": "sms", "task_id": 4, "delay_ms": 60_000}, {"queue": "mail", "task_id": 1, "delay_ms": 70_000}
    ]});
    let answer = world.send(post("/v1/tasks/batch", &batch)).await.expect(200);
    let statuses: Vec<_> =
        answer["results"].as_array().unwrap().iter().map(|entry| entry["status"].clone()).collect();
    assert_eq!(statuses, [201, 429, 201, 201], "accepted ones stay, replacements are not refused");
    assert_eq!(answer["results"][1]["error"]["code"], "queue.full");
    let one = world.send(post("/v1/tasks", &json!({"queue": "mail"}))).await;
    assert_eq!(one.header("retry-after"), Some("1"));
    let problem = one.expect_problem(429, "queue.full");
    assert_eq!(problem["detail"], "2 tasks wait in queue \"mail\", which may have 2");
    world.send(put("/v1/queues/mail", &json!({"max_waiting": 3}))).await.expect(200);
    world.insert(json!({"queue": "mail"})).await;
    world.send(put("/v1/limits", &json!({"max_waiting": 1}))).await.expect(200);
    world.send(post("/v1/tasks", &json!({"queue": "other"}))).await.expect_problem(429, "queue.full");
}

#[tokio::test]
async fn inserts_beyond_the_rate_of_a_namespace_are_refused_until_it_brings_more() {
    let world = World::new();
    let rate = json!({"limit": 2, "period_ms": 60_000, "burst": 2});
    let set = world.send(put("/v1/namespaces/default", &json!({"insert_rate": rate}))).await.expect(200);
    assert_eq!(set["insert_rate"], rate);
    let one = |queue: &str| json!({"queue": queue, "delay_ms": 60_000});
    let batch = json!({"tasks": [one("mail"), one("sms"), one("push")]});
    let answer = world.send(post("/v1/tasks/batch", &batch)).await.expect(200);
    let statuses: Vec<_> =
        answer["results"].as_array().unwrap().iter().map(|result| result["status"].clone()).collect();
    assert_eq!(statuses, [201, 201, 429], "of all queues together");
    let refused = world.send(post("/v1/tasks", &one("mail"))).await;
    assert_eq!(refused.header("retry-after"), Some("30"));
    let problem = refused.expect_problem(429, "quota.insert_rate");
    let detail = "namespace \"default\" may insert 2 tasks every 1 min, and 2 at once after a rest";
    assert_eq!(problem["detail"], detail);
    let elsewhere = post("/v1/tasks", &one("mail")).header("punctual-namespace", "other");
    world.send(elsewhere).await.expect(201);
    world.clock.advance_ms(30_000);
    world.insert(one("mail")).await;
    world.send(post("/v1/tasks", &one("mail"))).await.expect_problem(429, "quota.insert_rate");
    world.send(put("/v1/namespaces/default", &json!({}))).await.expect(200);
    world.insert(one("mail")).await;
    let none = put("/v1/limits", &json!({"insert_rate": {"limit": 1, "period_ms": 0, "burst": 1}}));
    let problem = world.send(none).await.expect_problem(400, "request.invalid");
    assert_eq!(problem["errors"][0]["pointer"], "/insert_rate/period_ms");
}

#[tokio::test]
async fn payloads_beyond_the_bytes_of_a_namespace_are_refused_and_what_adds_nothing_is_not() {
    let world = World::new();
    let set = world.send(put("/v1/namespaces/default", &json!({"max_payload_bytes": 30}))).await.expect(200);
    assert_eq!(set["max_payload_bytes"], 30);
    // Two bytes are the quotes.
    let one = |id: i64, bytes: usize| json!({"queue": "mail", "task_id": id, "delay_ms": 60_000, "payload": "x".repeat(bytes - 2)});
    let batch = json!({"tasks": [one(1, 10), one(2, 15), one(3, 6), one(4, 5)]});
    let answer = world.send(post("/v1/tasks/batch", &batch)).await.expect(200);
    let statuses: Vec<_> =
        answer["results"].as_array().unwrap().iter().map(|result| result["status"].clone()).collect();
    assert_eq!(statuses, [201, 201, 429, 201], "a shorter one has room where a longer one has none");
    let read = world.send(get("/v1/namespaces/default")).await.expect(200);
    assert_eq!((&read["usage"]["payload_bytes"], &read["usage"]["waiting"]), (&json!(30), &json!(3)));
    let refused = world.send(post("/v1/tasks", &one(5, 3))).await;
    assert_eq!(refused.header("retry-after"), Some("1"));
    let problem = refused.expect_problem(429, "quota.payload_bytes");
    let detail =
        "the payloads of what waits in namespace \"default\" are 30 bytes, and may be 30 with this one";
    assert_eq!(problem["detail"], detail);
    world.send(post("/v1/tasks", &one(2, 15))).await.expect(201);
    world.send(post("/v1/tasks", &one(2, 16))).await.expect_problem(429, "quota.payload_bytes");
    let task = world.insert(one(1, 10)).await;
    let change = |bytes: usize| {
        let payload = json!({"payload": "x".repeat(bytes - 2)});
        ask("PATCH", format!("/v1/tasks/{}", task["ref"].as_str().unwrap())).json(&payload)
    };
    world.send(change(11)).await.expect_problem(429, "quota.payload_bytes");
    world.send(change(4)).await.expect(200);
    let elsewhere = post("/v1/tasks", &one(1, 300)).header("punctual-namespace", "other");
    world.send(elsewhere).await.expect(201);
    world.send(put("/v1/limits", &json!({"max_payload_bytes": 300}))).await.expect(200);
    let third = post("/v1/tasks", &one(7, 3)).header("punctual-namespace", "third");
    let problem = world.send(third).await.expect_problem(429, "quota.payload_bytes");
    assert!(problem["detail"].as_str().unwrap().contains("all queues together"), "{problem}");
}

#[tokio::test]
async fn tasks_that_do_not_say_have_what_their_queue_says() {
    let world = World::new();
    let defaults =
        json!({"retry": {"strategy": "fixed", "delay_ms": 5_000}, "max_attempts": 2, "timeout_ms": 7_000});
    world.send(put("/v1/queues/mail", &defaults)).await.expect(200);
    let task = world.insert(json!({"queue": "mail"})).await;
    assert_eq!(task["max_attempts"], 2);
    world.insert(json!({"queue": "mail", "max_attempts": 9, "timeout_ms": 1_000})).await;
    world.advance(0).await;
    let leased = world.lease("mail").await;
    let reported: Vec<_> =
        leased.iter().map(|entry| (entry["max_attempts"].clone(), entry["lease_until_ms"].clone())).collect();
    let now = json!(crate::world::START_MS + 7_000);
    assert_eq!(reported, [(json!(2), now), (json!(9), json!(crate::world::START_MS + 1_000))]);
    world.report(&leased[0], json!({"outcome": "failed"})).await;
    let failed = world.task(task["ref"].as_str().unwrap()).await;
    assert_eq!(failed["execute_at_ms"], crate::world::START_MS + 5_000);
    world.advance(4_999).await;
    assert_eq!(world.lease("mail").await, [] as [Value; 0]);
    world.advance(1).await;
    assert_eq!(world.lease("mail").await.len(), 1);
}

#[tokio::test]
async fn a_queue_keeps_what_is_finished_as_long_as_it_says() {
    let world = World::new();
    world.send(put("/v1/queues/mail", &json!({"keep": {"succeeded_ms": 1_000}}))).await.expect(200);
    let (short, long) =
        (world.insert(json!({"queue": "mail"})).await, world.insert(json!({"queue": "sms"})).await);
    world.advance(0).await;
    for queue in ["mail", "sms"] {
        let leased = world.lease(queue).await.remove(0);
        assert_eq!(world.report(&leased, json!({"outcome": "succeeded"})).await["status"], "accepted");
    }
    world.advance(1_001).await;
    assert_eq!(world.task(short["ref"].as_str().unwrap()).await["state"], "stopped");
    assert_eq!(world.task(long["ref"].as_str().unwrap()).await["state"], "succeeded");
}

#[tokio::test]
async fn late_tasks_and_dead_letters_and_long_waits_raise_alerts() {
    let world = World::new();
    let names = async || {
        let page = world.send(get("/v1/alerts")).await.expect(200);
        let items = page["items"].as_array().unwrap().clone();
        items.into_iter().map(|item| (item["name"].clone(), item["queue"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(names().await, []);
    world.send(put("/v1/queues/mail", &json!({"lateness_budget_ms": 250}))).await.expect(200);
    for queue in ["mail", "sms"] {
        world.insert(json!({"queue": queue, "delay_ms": 1_000})).await;
    }
    world.advance(1_251).await;
    // Late by 251 ms, which only one of them minds.
    assert_eq!(
        names().await,
        [(json!("late_tasks"), json!("mail"))],
        "sms has the default budget, and mail one of its own"
    );
    let leased = world.lease("mail").await.remove(0);
    world.report(&leased, json!({"outcome": "reject"})).await;
    let dead = (json!("dead_letters"), json!("mail"));
    assert_eq!(names().await, [(json!("late_tasks"), json!("mail")), dead]);
    // A caller that asks does not make it old news: the look that goes by the period does.
    world.engine.look_for_alerts().await.unwrap();
    world.advance(61_000).await;
    assert_eq!(names().await, [(json!("waiting_long"), json!("sms"))]);
    world.send(ask("POST", "/v1/queues/sms/pause")).await.expect(200);
    world.advance(11_000).await;
    assert_eq!(names().await, [], "what is paused is meant to wait");
}

#[tokio::test]
async fn alerts_of_every_namespace_that_is_reached_are_shown_with_it() {
    let world = World::new();
    for namespace in ["acme", "default"] {
        let task = json!({"queue": "mail", "delay_ms": 1_000});
        world.send(post("/v1/tasks", &task).header("punctual-namespace", namespace)).await.expect(201);
    }
    // They fire, and then wait.
    world.advance(1_000).await;
    world.advance(61_000).await;
    let namespaces = async |query: &str| {
        let page = world.send(get(format!("/v1/alerts{query}"))).await.expect(200);
        let items = page["items"].as_array().unwrap().clone();
        let waiting = items.into_iter().filter(|alert| alert["name"] == "waiting_long");
        waiting.map(|alert| (alert["namespace"].clone(), alert["queue"].clone())).collect::<Vec<_>>()
    };
    let of = |namespace: &str| (json!(namespace), json!("mail"));
    assert_eq!(namespaces("").await, [of("acme"), of("default")]);
    assert_eq!(namespaces("?namespace=acme").await, [of("acme")]);
    assert_eq!(namespaces("?queue=mail").await, [of("default")], "the namespace of the call");
    assert_eq!(namespaces("?queue=mail&namespace=acme").await, [of("acme")]);
    world.send(get("/v1/alerts?namespace=a%20b")).await.expect_problem(400, "request.invalid");
}

#[tokio::test]
async fn a_push_queue_refuses_tasks_that_demand_a_version() {
    let world = World::new();
    let asked = json!({"queue": "mail", "handler_versions": ">=2"});
    world.insert(asked.clone()).await;
    world.send(put("/v1/queues/mail", &json!({"mode": "push"}))).await.expect(200);
    let problem = world.send(post("/v1/tasks", &asked)).await.expect_problem(400, "request.invalid");
    let error = &problem["errors"][0];
    assert_eq!(error["pointer"], "/handler_versions");
    let detail = error["detail"].as_str().unwrap();
    assert!(
        detail.contains(">=2") && detail.contains("mail") && detail.contains("`mode` is `pull`"),
        "{detail}"
    );
    world.insert(json!({"queue": "mail"})).await;
    world.send(put("/v1/queues/mail", &json!({"mode": "pull"}))).await.expect(200);
    world.insert(asked).await;
}

#[tokio::test]
async fn a_queue_whose_first_task_just_came_is_there_however_old_numbers_may_be() {
    let world = World::new();
    let recent = |path: &str| get(path).header("cache-control", "max-age=60");
    world.send(recent("/v1/queues/mail")).await.expect_problem(404, "queue.not_found");
    world
        .send(post("/v1/tasks", &json!({"queue": "mail", "kind": "k", "delay_ms": 60_000})))
        .await
        .expect(201);
    assert_eq!(world.send(recent("/v1/queues/mail")).await.expect(200)["waiting"], 1);
}
