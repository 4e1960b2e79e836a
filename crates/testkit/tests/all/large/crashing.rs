//! What a crash, or an answer that is lost, leaves between the steps of `engine::outside`: never a task without its
//! content, and an object that no task has for a day at most, and the next look.

use super::{
    MIB,
    rig::{DAY_MS, LargeRig, bytes, on_each_store, text},
};
use punctual_testkit::faults::{Dials, StoreGroup};
use serde_json::{Value, json};

fn asked(seed: u64) -> Value {
    json!({"queue": "q", "task_id": 1, "delay_ms": DAY_MS * 30, "payload_base64": text(&bytes(MIB, seed))})
}

async fn after_the_object_before_the_row_of_an_insert(mut rig: LargeRig) {
    let gate = rig.store.faults.hold(StoreGroup::Insert);
    {
        let body = asked(1);
        let insert = rig.post("/v1/tasks", &body);
        tokio::select! {
            _ = insert => panic!("it is held at the gate"),
            () = gate.reached() => {}
        }
    }
    // It stays at the gate for good: as far as the store knows, it is dead.
    rig.start_again();
    assert_eq!(rig.objects().await.len(), 1);
    rig.advance(DAY_MS / 2).await;
    assert_eq!(rig.objects().await.len(), 1, "its row may still come");
    rig.days_pass(1).await;
    assert_eq!(rig.objects().await, [""; 0]);
    assert_eq!(rig.get("/v1/tasks?task_id=1").await["items"], json!([]));
}

async fn an_insert_that_failed_for_certain_takes_its_object_back(rig: LargeRig) {
    rig.store.faults.set(StoreGroup::Insert, Dials::REFUSES);
    assert_eq!(rig.post("/v1/tasks", &asked(1)).await.status, 503);
    assert_eq!(rig.puts(), 1);
    rig.until_objects(0).await;
}

async fn an_insert_whose_answer_is_lost_keeps_its_object_as_long_as_its_row(rig: LargeRig) {
    rig.store.faults.set(StoreGroup::Insert, Dials::ANSWERS_LOST);
    assert!(rig.post("/v1/tasks", &asked(1)).await.status >= 500);
    rig.store.faults.set(StoreGroup::Insert, Dials::SILENT);
    assert!(rig.post("/v1/tasks", &asked(2)).await.status >= 500);
    rig.store.faults.heal();
    assert_eq!(rig.objects().await.len(), 2);
    rig.days_pass(2).await;
    assert_eq!(rig.objects().await.len(), 1, "the one that never came to be is gone");
    assert_eq!(rig.task(1).await["payload_base64"], text(&bytes(MIB, 1)));
}

async fn an_outcome_whose_answer_is_lost_keeps_the_result_that_was_accepted(rig: LargeRig) {
    rig.post("/v1/tasks", &json!({"queue": "q", "task_id": 5, "delay_ms": 0})).await.expect(201);
    rig.advance(0).await;
    let leased = rig.lease().await.remove(0);
    let outcome = |seed| json!({"outcome": "succeeded", "result_base64": text(&bytes(MIB, seed))});
    rig.store.faults.set(StoreGroup::Apply, Dials::SILENT);
    assert!(rig.try_report(&leased, outcome(1)).await.status >= 500);
    rig.store.faults.set(StoreGroup::Apply, Dials::REFUSES);
    assert!(rig.try_report(&leased, outcome(2)).await.status >= 500);
    rig.until_objects(1).await;
    rig.store.faults.set(StoreGroup::Apply, Dials::ANSWERS_LOST);
    assert!(rig.try_report(&leased, outcome(3)).await.status >= 500);
    rig.store.faults.heal();
    assert_eq!(rig.report(&leased, outcome(4)).await, "stale", "the third was accepted");
    rig.until_objects(2).await;
    assert_eq!(rig.task(5).await["result"]["result_base64"], text(&bytes(MIB, 3)));
}

async fn nothing_is_deleted_while_the_store_cannot_be_asked(rig: LargeRig) {
    rig.post("/v1/tasks", &asked(1)).await.expect(201);
    rig.days_pass(1).await;
    rig.store.faults.set(StoreGroup::Read, Dials::REFUSES);
    assert!(rig.try_advance(DAY_MS).await.is_err());
    assert_eq!(rig.objects().await.len(), 1);
}

on_each_store!(
    after_the_object_before_the_row_of_an_insert,
    an_insert_that_failed_for_certain_takes_its_object_back,
    an_insert_whose_answer_is_lost_keeps_its_object_as_long_as_its_row,
    an_outcome_whose_answer_is_lost_keeps_the_result_that_was_accepted,
    nothing_is_deleted_while_the_store_cannot_be_asked,
);
