//! The ledger over the API: it is counted on request, and what a count finds is in the answer, an alert, the metrics and the list of
//! databases.

use crate::world::{World, ask, get};
use punctual_contract::{LedgerStore as _, Store as _};
use serde_json::{Value, json};

async fn ledger(world: &World) -> Value {
    world.send(get("/v1/shards/0/ledger")).await.expect(200)
}

async fn count(world: &World) -> usize {
    world.cluster.count_ledgers(world.engine.now()).await.unwrap()
}

/// The value of a metric with these labels in its line.
async fn metric(world: &World, name: &str, labels: &str) -> Option<f64> {
    let text = world.send(get("/metrics")).await.text;
    let line = text.lines().find(|line| line.starts_with(name) && line.contains(labels))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

#[tokio::test]
async fn a_database_is_counted_when_it_is_requested() {
    let world = World::new();
    world.bring_to("succeeded", 1).await;
    world.bring_to("scheduled", 2).await;
    world.bring_to("running", 3).await;
    let never = ledger(&world).await;
    assert_eq!((&never["is_requested"], &never["checked_at"]), (&json!(false), &Value::Null));
    assert_eq!(count(&world).await, 1, "the first time without a request");
    assert_eq!(count(&world).await, 0, "it rests");
    let counted = ledger(&world).await;
    let totals = ["accepted", "deleted", "waiting", "in_flight", "finished", "unaccounted"];
    assert_eq!(totals.map(|name| counted[name].as_i64().unwrap()), [3, 0, 1, 1, 1, 0], "{counted}");
    assert!(counted["checked_at"].is_string() && counted["findings"] == json!([]), "{counted}");
    world.bring_to("scheduled", 4).await;
    let requested = world.send(ask("POST", "/v1/shards/0/ledger/check")).await.expect(202);
    assert_eq!((&requested["is_requested"], &requested["accepted"]), (&json!(true), &json!(3)));
    assert_eq!(count(&world).await, 1);
    let counted = ledger(&world).await;
    assert_eq!((&counted["is_requested"], &counted["accepted"]), (&json!(false), &json!(4)));
    let partitions = counted["partitions"].as_array().unwrap();
    let waiting: i64 = partitions.iter().map(|partition| partition["waiting"].as_i64().unwrap()).sum();
    assert_eq!(waiting, 2, "{counted}");
    for partition in partitions {
        let number = |name: &str| partition[name].as_i64().unwrap();
        let rows = ["waiting", "in_flight", "finished"].map(number).iter().sum::<i64>();
        assert_eq!(number("accepted"), rows + number("deleted") + number("unaccounted"), "{partition}");
        assert!(partition["checked_at"].is_string(), "{partition}");
    }
    let shards = world.send(get("/v1/shards")).await.expect(200);
    assert_eq!(shards["items"][0]["unaccounted"], json!(0), "{shards}");
    assert_eq!(metric(&world, "punctual_tasks_unaccounted ", "").await, Some(0.0));
    assert!(metric(&world, "punctual_ledger_count_time_seconds", "database=\"0\"").await.unwrap() > 0.0);
    for shard in ["1", "-1", "x"] {
        world.send(get(format!("/v1/shards/{shard}/ledger"))).await.expect_problem(400, "request.invalid");
        let asked = ask("POST", format!("/v1/shards/{shard}/ledger/check"));
        world.send(asked).await.expect_problem(400, "request.invalid");
    }
    world.clock.advance_ms(10 * 60_000);
    assert_eq!(count(&world).await, 1, "it has rested");
}

#[tokio::test]
async fn what_a_count_finds_is_named_in_answer_alert_and_metrics() {
    let world = World::new();
    world.bring_to("scheduled", 1).await;
    let fault = json!({
        "fault": "lost", "id": 77, "partition": 2, "namespace": "default", "task_id": 5, "task_version": 0,
        "queue": "mail", "state": "retrying", "due_ms": 1_000, "reference": "t000000000000000000000000001",
    });
    let report = json!({
        "began_ms": world.engine.now().0 - 1_000, "took_ms": 5, "accepted": 2, "unaccounted": 1,
        "partitions": [{"partition": 2, "accepted": 2, "waiting": 1, "unaccounted": 1}],
        "differences": [{"namespace": "default", "queue": "mail", "state": "retrying", "account": 1, "rows": 0}],
        "faults": [fault],
    });
    world.store.save_ledger_report(0, &report.to_string(), 0).await.unwrap();
    assert_eq!(count(&world).await, 0, "the report is young");
    let found = ledger(&world).await;
    let named = &found["findings"][0];
    assert_eq!(
        (&named["id"], &named["task_id"], &named["due_at_ms"]),
        (&json!(77), &json!(5), &json!(1_000))
    );
    let text = "lost task 5 version 0 (row 77) of default/mail, last retrying";
    assert_eq!(named["text"], text);
    let books = &found["findings"][1];
    let (kinds, account) =
        ([&named["kind"], &books["kind"]], (&books["account"], &books["rows"], &books["last_state"]));
    assert_eq!(
        (kinds, account),
        ([&json!("lost"), &json!("books")], (&json!(1), &json!(0), &json!("retrying")))
    );
    assert_eq!(
        (&named["ref"], &named["last_state"]),
        (&json!("t000000000000000000000000001"), &json!("retrying"))
    );
    let alerts = world.send(get("/v1/alerts")).await.expect(200);
    let alert = &alerts["items"][0];
    assert_eq!((&alert["name"], &alert["severity"]), (&json!("unaccounted"), &json!("critical")), "{alerts}");
    assert!(alert["text"].as_str().unwrap().contains(text), "{alert}");
    assert_eq!(metric(&world, "punctual_tasks_unaccounted ", "").await, Some(1.0));
    let of_partition = "partition=\"2\",status=\"unaccounted\"";
    assert_eq!(metric(&world, "punctual_ledger_tasks", of_partition).await, Some(1.0));
    assert_eq!(world.store.books().await.unwrap().unaccounted(), 0);
    let stats = world.send(get("/v1/stats")).await.expect(200);
    assert_eq!(stats["backlog"]["unaccounted"], json!(1), "{stats}");
    world.send(ask("POST", "/v1/shards/0/ledger/check")).await.expect(202);
    assert_eq!(count(&world).await, 1);
    assert_eq!(world.send(get("/v1/alerts")).await.expect(200)["items"], json!([]));
}
