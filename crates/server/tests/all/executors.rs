//! Lease, outcomes, heartbeats.

use crate::world::{START_MS, World, ask, get, post};
use punctual_contract::Store as _;
use punctual_domain::place::TaskRef;
use punctual_store::{FileJournal, JournalOptions};
use serde_json::{Value, json};
use std::sync::Arc;

#[tokio::test]
async fn a_task_runs_from_insert_to_its_result() {
    let world = World::new();
    let task = world.insert(json!({"queue": "q", "kind": "k", "delay_ms": 50, "payload": {"a": 1}})).await;
    world.advance(49).await;
    assert_eq!(world.lease("q").await, [] as [Value; 0], "never early");
    world.advance(1).await;
    let leased = world.lease("q").await.remove(0);
    for (field, want) in [
        ("ref", task["ref"].clone()),
        ("task_id", task["task_id"].clone()),
        ("task_version", json!(0)),
        ("queue", json!("q")),
        ("kind", json!("k")),
        ("attempt", json!(1)),
        ("max_attempts", json!(5)),
        ("payload", json!({"a": 1})),
        ("execute_at_ms", json!(START_MS + 50)),
        ("fired_at_ms", json!(START_MS + 50)),
        ("lease_until_ms", json!(START_MS + 50 + 30_000)),
    ] {
        assert_eq!(leased[field], want, "{field}");
    }
    let outcome =
        json!({"outcome": "succeeded", "status_code": 7, "status_msg": "sent", "result": {"id": 3}});
    assert_eq!(
        world.report(&leased, outcome.clone()).await,
        json!({"ref": task["ref"], "status": "accepted"})
    );
    assert_eq!(world.report(&leased, outcome).await["status"], "stale");
    let done = world.task(task["ref"].as_str().unwrap()).await;
    let by: Vec<&str> =
        done["history"].as_array().unwrap().iter().map(|entry| entry["by"].as_str().unwrap()).collect();
    assert_eq!(by[by.len() - 2..], ["x1", "x1"], "who took it and who reported");
    assert_eq!(
        (&done["state"], &done["phase"], &done["lateness_ms"]),
        (&json!("succeeded"), &json!("success"), &json!(0))
    );
    assert_eq!(done["result"], json!({"status_code": 7, "status_msg": "sent", "result": {"id": 3}}));
    let events: Vec<&str> =
        done["history"].as_array().unwrap().iter().map(|entry| entry["event"].as_str().unwrap()).collect();
    assert_eq!(events.first(), Some(&"insert"));
    assert_eq!(events.last(), Some(&"succeed"));
    assert!(events.contains(&"dispatch"), "{events:?}");
}

#[tokio::test]
async fn one_lease_is_of_several_queues_and_each_task_says_of_which() {
    let world = World::new();
    for queue in ["mail", "sms", "sms", "sms", "push"] {
        world.insert(json!({"queue": queue})).await;
    }
    world.advance(0).await;
    let asked = json!({"queues": [{"name": "mail"}, {"name": "sms", "max": 2}, {"name": "nothing"}], "max": 10,
        "executor": "x1"});
    let leased = world.send(post("/v1/lease", &asked)).await.expect(200);
    let mut queues: Vec<_> =
        leased["tasks"].as_array().unwrap().iter().map(|task| task["queue"].as_str().unwrap()).collect();
    queues.sort_unstable();
    assert_eq!(queues, ["mail", "sms", "sms"]);
    for task in leased["tasks"].as_array().unwrap() {
        assert_eq!(world.report(task, json!({"outcome": "succeeded"})).await["status"], "accepted");
    }
    world.advance(1_000).await;
    let executor = world.send(get("/v1/executors/x1")).await.expect(200);
    assert_eq!(executor["queues"], json!(["mail", "nothing", "sms"]));
    let one = json!({"queues": [{"name": "push", "max": 3}]});
    assert_eq!(world.send(post("/v1/lease", &one)).await.expect(200)["tasks"][0]["queue"], "push");
}

#[tokio::test]
async fn a_lease_of_several_queues_names_them_and_one_of_a_queue_does_not() {
    let world = World::new();
    for (path, body, pointer) in [
        ("/v1/lease", json!({}), "/queues"),
        ("/v1/lease", json!({"queues": []}), "/queues"),
        ("/v1/lease", json!({"queues": [{"name": "a b"}]}), "/queues/0/name"),
        ("/v1/lease", json!({"queues": [{"name": "a"}, {"name": "a"}]}), "/queues/1/name"),
        ("/v1/lease", json!({"queues": [{"name": "a", "max": 0}]}), "/queues/0/max"),
        ("/v1/lease", json!({"queues": [{"name": "a"}], "only_kinds": true}), "/only_kinds"),
        ("/v1/queues/q/lease", json!({"queues": [{"name": "a"}]}), "/queues"),
    ] {
        let problem = world.send(post(path, &body)).await.expect_problem(400, "request.invalid");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{body}");
    }
}

#[tokio::test]
async fn who_takes_only_some_kinds_leaves_the_others_and_the_queue_shows_for_whom_they_wait() {
    let world = World::new();
    for kind in ["mail", "sms", "mail", "fax"] {
        world.insert(json!({"queue": "q", "kind": kind})).await;
    }
    world.advance(0).await;
    let only = |kinds: &[&str]| json!({"max": 10, "kinds": kinds, "only_kinds": true});
    let lease = async |path: &str, body: Value| {
        let leased = world.send(post(path, &body)).await.expect(200)["tasks"].as_array().unwrap().clone();
        leased.iter().map(|entry| entry["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(lease("/v1/queues/q/lease", only(&["sms"])).await, ["sms"]);
    let queue = world.send(get("/v1/queues/q")).await.expect(200);
    let parked = json!([
        {"waits_for": "kind", "name": "fax", "tasks": 1}, {"waits_for": "kind", "name": "mail", "tasks": 2}
    ]);
    assert_eq!(queue["parked"], parked);
    let mut several = only(&["mail", "x"]);
    several["queues"] = json!([{"name": "other"}, {"name": "q"}]);
    assert_eq!(lease("/v1/lease", several).await, ["mail", "mail"]);
    assert_eq!(lease("/v1/queues/q/lease", json!({"kinds": ["y"]})).await, ["fax"], "shown, and no filter");
}

/// One database of two is unavailable: each outcome and each lease of the other has its answer.
#[tokio::test]
async fn of_a_report_over_two_databases_what_the_one_that_is_well_has_is_answered() {
    let world = World::new();
    for _ in 0..24 {
        world.insert(json!({"queue": "q"})).await;
    }
    world.advance(0).await;
    let leased = world.lease("q").await;
    assert_eq!(leased.len(), 24);
    world.store.split(2);
    let in_second = |task: &Value| {
        let place: TaskRef = task["ref"].as_str().unwrap().parse().unwrap();
        world.store.part_of(place.partition) == 1
    };
    let lost = leased.iter().filter(|entry| in_second(entry)).count();
    assert!(lost > 0 && lost < 24, "{lost}");
    world.store.set_part_away(Some(1));
    let leases: Vec<Value> =
        leased.iter().map(|task| json!({"ref": task["ref"], "token": task["token"]})).collect();
    let beats = json!({"executor": "x1", "leases": leases});
    let news = world.send(post("/v1/heartbeats", &beats)).await.expect(200);
    for (value, news) in leased.iter().zip(news["leases"].as_array().unwrap()) {
        assert_eq!((&news["ref"], &news["lost"]), (&value["ref"], &json!(false)));
        assert_eq!(news["unavailable"] == json!(true), in_second(value), "{news}");
        assert_eq!(news["lease_until_ms"].is_null(), in_second(value), "{news}");
    }
    let report = |task: &Value| json!({"ref": task["ref"], "token": task["token"], "outcome": "succeeded"});
    let outcomes = json!({"executor": "x1", "outcomes": leased.iter().map(report).collect::<Vec<_>>()});
    let receipts = world.send(post("/v1/outcomes", &outcomes)).await.expect(200);
    for (value, receipt) in leased.iter().zip(receipts["results"].as_array().unwrap()) {
        let (status, code) =
            if in_second(value) { ("unavailable", "store.unavailable") } else { ("accepted", "") };
        assert_eq!(receipt["status"], status, "{receipt}");
        assert_eq!(receipt["error"]["code"].as_str().unwrap_or_default(), code, "{receipt}");
    }
    // Where nothing can be answered the call is refused, as one database is.
    let second: Vec<Value> = leased.iter().filter(|entry| in_second(entry)).map(report).collect();
    let of_second = json!({"executor": "x1", "outcomes": second});
    world.send(post("/v1/outcomes", &of_second)).await.expect_problem(503, "store.unavailable");
    world.store.set_part_away(None);
    let again = world.send(post("/v1/outcomes", &outcomes)).await.expect(200);
    for (value, receipt) in leased.iter().zip(again["results"].as_array().unwrap()) {
        assert_eq!(receipt["status"], if in_second(value) { "accepted" } else { "stale" }, "{receipt}");
    }
}

#[tokio::test]
async fn a_failed_attempt_comes_back_after_its_backoff_and_dies_after_the_last() {
    let world = World::new();
    let retry = json!({"strategy": "fixed", "delay_ms": 5_000});
    let task = world.insert(json!({"queue": "q", "max_attempts": 2, "retry": retry})).await;
    let task_ref = task["ref"].as_str().unwrap();
    world.advance(0).await;
    let first = world.lease("q").await.remove(0);
    assert_eq!(
        world.report(&first, json!({"outcome": "failed", "status_msg": "no"})).await["status"],
        "accepted"
    );
    let waiting = world.task(task_ref).await;
    assert_eq!((&waiting["state"], &waiting["phase"]), (&json!("retrying"), &json!("pending")));
    assert_eq!((&waiting["execute_at_ms"], waiting.get("lateness_ms")), (&json!(START_MS + 5_000), None));
    assert_eq!(waiting["last_error"], "no");
    world.advance(4_999).await;
    assert_eq!(world.lease("q").await, [] as [Value; 0]);
    world.advance(1).await;
    let second = world.lease("q").await.remove(0);
    assert_eq!(second["attempt"], 2);
    assert_eq!(
        world.report(&first, json!({"outcome": "succeeded"})).await["status"],
        "stale",
        "the token is the first's"
    );
    assert_eq!(world.report(&second, json!({"outcome": "failed"})).await["status"], "accepted");
    assert_eq!(world.task(task_ref).await["state"], "dead");
}

#[tokio::test]
async fn a_snooze_does_not_count_and_a_rejection_is_final() {
    let world = World::new();
    let task_ref = world.insert(json!({"queue": "q"})).await["ref"].as_str().unwrap().to_owned();
    world.advance(0).await;
    let leased = world.lease("q").await.remove(0);
    assert_eq!(
        world.report(&leased, json!({"outcome": "snooze", "retry_after_ms": 5_000})).await["status"],
        "accepted"
    );
    let task = world.task(&task_ref).await;
    assert_eq!((&task["state"], &task["attempt"]), (&json!("scheduled"), &json!(0)));
    world.advance(5_000).await;
    let again = world.lease("q").await.remove(0);
    assert_eq!(again["attempt"], 1);
    assert_eq!(world.report(&again, json!({"outcome": "reject"})).await["status"], "accepted");
    assert_eq!(world.task(&task_ref).await["phase"], "failed");
}

#[tokio::test]
async fn one_bad_outcome_does_not_hold_back_the_others() {
    let world = World::new();
    for _ in 0..2 {
        world.insert(json!({"queue": "q"})).await;
    }
    world.advance(0).await;
    let leased = world.lease("q").await;
    let good = |nth: usize| json!({"ref": leased[nth]["ref"], "token": leased[nth]["token"], "outcome": "succeeded"});
    let with = |mut answer: Value, field: &str, value: Value| {
        answer[field] = value;
        answer
    };
    let outcomes = json!({"outcomes": [
        good(0),
        with(good(1), "token", json!("what?")),
        with(good(1), "outcome", json!("perhaps")),
        with(good(1), "ref", json!("t0")),
        with(good(1), "token", json!("999-30000")),
        with(good(1), "retry_after_ms", json!(5)),
        with(good(1), "result", json!("x".repeat(1 << 20))),
        good(1),
    ]});
    let results = world.send(post("/v1/outcomes", &outcomes)).await.expect(200)["results"].clone();
    let statuses: Vec<&str> =
        results.as_array().unwrap().iter().map(|result| result["status"].as_str().unwrap()).collect();
    assert_eq!(
        statuses,
        ["accepted", "invalid", "invalid", "stale", "stale", "invalid", "invalid", "accepted"]
    );
    for (nth, pointer) in [
        (1, "/outcomes/1/token"),
        (2, "/outcomes/2/outcome"),
        (5, "/outcomes/5/retry_after_ms"),
        (6, "/outcomes/6/result"),
    ] {
        assert_eq!(results[nth]["error"]["errors"][0]["pointer"], pointer, "{results}");
    }
    assert_eq!(results[1]["ref"], leased[1]["ref"]);
}

#[tokio::test]
async fn a_heartbeat_extends_by_what_was_leased_and_tells_what_is_lost() {
    let world = World::new();
    world.insert(json!({"queue": "q", "retry": {"strategy": "immediate"}})).await;
    world.advance(0).await;
    let leased = world.lease("q").await.remove(0);
    world.advance(20_000).await;
    let news = world.beat(&leased).await;
    assert_eq!((&news["lost"], &news["lease_until_ms"]), (&json!(false), &json!(START_MS + 50_000)));
    let strange = json!({"executor": "x1", "capacity": 3, "leases": [
        {"ref": "nonsense", "token": "1-30000"}, {"ref": leased["ref"], "token": "nonsense"},
        {"ref": leased["ref"], "token": leased["token"], "progress": {"percent": 50}}
    ]});
    let news = world.send(post("/v1/heartbeats", &strange)).await.expect(200)["leases"].clone();
    assert_eq!(
        (&news[0]["lost"], &news[1]["lost"], &news[2]["lost"]),
        (&json!(true), &json!(true), &json!(false))
    );
    world.advance(30_001).await;
    assert_eq!(world.beat(&leased).await["lost"], true);
    world.advance(1).await;
    assert_eq!(world.lease("q").await[0]["attempt"], 2, "what a silent executor had is run again");
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_is_woken_by_the_firing_and_not_by_its_timeout() {
    let world = World::new();
    world.insert(json!({"queue": "q", "delay_ms": 500})).await;
    world.advance(0).await;
    let began = tokio::time::Instant::now();
    let poll = world.send(post("/v1/queues/q/lease", &json!({"wait_ms": 60_000})));
    let fire = async {
        // The poll is looked at first, and waits by now.
        world.advance(500).await;
    };
    let (answer, ()) = tokio::join!(poll, fire);
    assert_eq!(answer.expect(200)["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(began.elapsed().as_millis(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_without_tasks_ends_at_its_time() {
    let world = World::new();
    let began = tokio::time::Instant::now();
    let answer = world.send(post("/v1/queues/q/lease", &json!({"wait_ms": 3_000}))).await.expect(200);
    assert_eq!((answer["tasks"].as_array().unwrap().len(), began.elapsed().as_secs()), (0, 3));
}

#[tokio::test]
async fn a_lease_needs_no_body_and_takes_at_most_what_it_asks() {
    let world = World::new();
    for _ in 0..3 {
        world.insert(json!({"queue": "q"})).await;
    }
    world.advance(0).await;
    let one = world.send(ask("POST", "/v1/queues/q/lease")).await.expect(200);
    assert_eq!(one["tasks"].as_array().unwrap().len(), 1);
    let two = world.send(post("/v1/queues/q/lease", &json!({"max": 2}))).await.expect(200);
    assert_eq!(two["tasks"].as_array().unwrap().len(), 2);
    let elsewhere = post("/v1/queues/q/lease", &json!({})).header("punctual-namespace", "eu");
    assert_eq!(world.send(elsewhere).await.expect(200)["tasks"], json!([]));
}

#[tokio::test]
async fn an_executor_is_held_to_the_concurrency_that_it_names() {
    let world = World::new();
    for queue in ["q", "q", "q", "r", "r"] {
        world.insert(json!({"queue": queue})).await;
    }
    world.advance(0).await;
    let body = json!({"max": 10, "executor": "w1", "concurrency": 2, "host": "machine-1"});
    let lease = async |queue: &str| {
        let answer = world.send(post(format!("/v1/queues/{queue}/lease"), &body)).await.expect(200);
        answer["tasks"].as_array().unwrap().clone()
    };
    let first = lease("q").await;
    assert_eq!((first.len(), lease("r").await.len(), lease("q").await.len()), (2, 0, 0));
    let beat = json!({"executor": "w1", "leases": [{"ref": first[0]["ref"], "token": first[0]["token"]}]});
    let beat = world.send(post("/v1/heartbeats", &beat)).await.expect(200);
    assert_eq!(beat["leases"][0]["lost"], json!(false), "its token is a token like others");
    assert_eq!(world.report(&first[0], json!({"outcome": "succeeded"})).await["status"], "accepted");
    let retried = json!({"outcome": "failed", "retry_after_ms": 60_000});
    assert_eq!(world.report(&first[1], retried).await["status"], "accepted");
    assert_eq!((lease("r").await.len(), lease("q").await.len()), (2, 0), "both places are free, and no more");
    world.advance(1_000).await;
    let shown = world.send(ask("GET", "/v1/executors/w1")).await.expect(200);
    assert_eq!((&shown["host"], &shown["concurrency"]), (&json!("machine-1"), &json!(2)));
    let nobody = json!({"concurrency": 2});
    let refused =
        world.send(post("/v1/queues/q/lease", &nobody)).await.expect_problem(400, "request.invalid");
    assert_eq!(refused["errors"][0]["pointer"], "/concurrency");
}

#[tokio::test]
async fn an_outcome_is_accepted_however_long_its_error_is() {
    let world = World::new();
    let task = world.insert(json!({"queue": "q", "max_attempts": 1})).await;
    world.advance(0).await;
    let leased = world.lease("q").await.remove(0);
    let stack = "at frame\n".repeat(20_000);
    let failed = json!({"outcome": "failed", "status_msg": stack});
    assert_eq!(world.report(&leased, failed).await["status"], "accepted");
    let dead = world.task(task["ref"].as_str().unwrap()).await;
    let kept = dead["last_error"].as_str().unwrap();
    assert!(kept.len() > 65_000 && kept.starts_with("at frame\nat frame\n"), "{}", kept.len());
    assert!(kept.ends_with("… (cut: the beginning of 180000 bytes)"), "{}", &kept[kept.len() - 60..]);
    let last = dead["history"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["error"], &dead["result"]["status_msg"]), (&dead["last_error"], &dead["last_error"]));
}

/// One database of two is unavailable, and the engine has a journal: nothing is to be reported again, and what handlers said is heard.
#[tokio::test]
async fn what_a_database_that_is_away_does_not_take_is_accepted_for_later_with_what_was_said() {
    let world = World::new();
    let directory = tempfile::tempdir().unwrap();
    let options = JournalOptions {
        directory: directory.path().to_owned(),
        bytes_max: 1 << 20,
        owner: [1; 16],
        is_alone: true,
    };
    let (journal, _) = FileJournal::open(&options).unwrap();
    assert!(world.engine.keep_outcomes_in(Arc::new(journal)));
    for _ in 0..24 {
        world.insert(json!({"queue": "q"})).await;
    }
    world.advance(0).await;
    let leased = world.lease("q").await;
    world.store.split(2);
    let in_second = |task: &Value| {
        let place: TaskRef = task["ref"].as_str().unwrap().parse().unwrap();
        world.store.part_of(place.partition) == 1
    };
    let away = leased.iter().filter(|task| in_second(task)).count();
    assert!(away > 0 && away < 24, "{away}");
    world.store.set_part_away(Some(1));
    let report = |task: &Value| json!({"ref": task["ref"], "token": task["token"], "outcome": "succeeded", "log": [{"text": "all is said"}]});
    let outcomes = json!({"executor": "x1", "outcomes": leased.iter().map(report).collect::<Vec<_>>()});
    for again in ["accepted", "stale"] {
        let receipts = world.send(post("/v1/outcomes", &outcomes)).await.expect(200);
        for (task, receipt) in leased.iter().zip(receipts["results"].as_array().unwrap()) {
            let status = if in_second(task) { "accepted_for_later" } else { again };
            assert_eq!(receipt["status"], status, "{receipt}");
        }
    }
    let waiting = |metrics: &str| metrics.contains(&format!("punctual_outcomes_journal_waiting {away}\n"));
    assert!(waiting(&world.send(get("/metrics")).await.text));
    world.store.set_part_away(None);
    world.advance(0).await;
    for task in &leased {
        let task = world.task(task["ref"].as_str().unwrap()).await;
        assert_eq!((&task["state"], &task["attempt"]), (&json!("succeeded"), &json!(1)), "{task}");
        assert!(task["log"].to_string().contains("all is said"), "{task}");
    }
    let receipts = world.send(post("/v1/outcomes", &outcomes)).await.expect(200);
    assert!(receipts["results"].as_array().unwrap().iter().all(|receipt| receipt["status"] == "stale"));
}
