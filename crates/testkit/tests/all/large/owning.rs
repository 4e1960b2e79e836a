//! A storage of long payloads belongs to one store: no other store uses it, and no empty storage is used
//! instead. In a storage without the store's mark, that store deletes nothing and treats nothing as lost.

use super::{
    MIB,
    kept::Kept,
    rig::{LargeRig, bytes, text},
};
use punctual_contract::Blobs as _;
use punctual_store::ObjectBlobs;
use punctual_testkit::patience::until;
use serde_json::json;

const MARKER: &str = "punctual-payload-place.json";

async fn marker(place: &ObjectBlobs) -> String {
    String::from_utf8(place.get(MARKER).await.unwrap().unwrap()).unwrap()
}

async fn refused(store: &Kept, place: &ObjectBlobs) -> String {
    store.own(place.clone()).await.unwrap_err().to_string()
}

async fn a_place_is_its_first_store_s(first: Kept, others: [Kept; 2]) {
    let place = ObjectBlobs::in_memory();
    assert!(!place.is_own().await.unwrap(), "nobody's yet");
    let owned = first.own(place.clone()).await.unwrap();
    assert!(owned.is_own().await.unwrap());
    let said = marker(&place).await;
    for other in others {
        let refused = refused(&other, &place).await;
        let number = said.trim_end_matches('}').rsplit(':').next().unwrap();
        assert!(refused.contains("payloads.url") && refused.contains(number), "{refused}, {said}");
        assert!(refused.contains("a place of its own"), "the way out: {refused}");
        assert_eq!(marker(&place).await, said, "and stays as it was");
    }
    assert!(first.own(place).await.unwrap().is_own().await.unwrap(), "its store comes again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_of_a_file_is_refused_to_others() {
    a_place_is_its_first_store_s(Kept::sqlite(), [Kept::sqlite(), Kept::mysql().await]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_of_databases_is_refused_to_others() {
    a_place_is_its_first_store_s(Kept::mysql().await, [Kept::mysql().await, Kept::sqlite()]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_place_is_not_taken_instead_of_the_one_that_was_named() {
    for store in [Kept::sqlite(), Kept::mysql().await] {
        let place = ObjectBlobs::in_memory();
        store.own(place.clone()).await.unwrap();
        let empty = ObjectBlobs::in_memory();
        let refused = refused(&store, &empty).await;
        assert!(refused.contains("it is empty") && refused.contains("mount"), "{refused}");
        assert_eq!(empty.get(MARKER).await.unwrap(), None, "it was left as it was");
        let copy = ObjectBlobs::in_memory();
        copy.put(MARKER, marker(&place).await.into_bytes()).await.unwrap();
        store.own(copy).await.expect("objects may move, with their marker");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_who_come_at_once_one_has_the_place() {
    let place = ObjectBlobs::in_memory();
    let stores: Vec<Kept> = std::iter::repeat_with(Kept::sqlite).take(8).collect();
    let owned = futures_util::future::join_all(stores.iter().map(|store| store.own(place.clone()))).await;
    assert_eq!(owned.iter().filter(|result| result.is_ok()).count(), 1, "{owned:?}");
}

async fn nothing_is_deleted_or_lost_in_a_place_that_is_another_s(rig: LargeRig) {
    let asked = |id: i64, delay_ms: i64| {
        json!({"queue": "q", "task_id": id, "delay_ms": delay_ms, "max_attempts": 1,
            "payload_base64": text(&bytes(MIB, 1))})
    };
    rig.post("/v1/tasks", &asked(1, 0)).await.expect(201);
    // What an insert replaced is for the sweeper.
    rig.post("/v1/tasks", &asked(2, 900_000_000)).await.expect(201);
    rig.post("/v1/tasks", &asked(2, 900_000_000)).await.expect(201);
    assert_eq!(rig.objects().await.len(), 3);
    let ours = marker(&rig.place).await;
    rig.place.put(MARKER, br#"{"punctual_payload_place":7}"#.to_vec()).await.unwrap();
    rig.days_pass(2).await;
    assert_eq!(rig.objects().await.len(), 3, "nothing there is this store's to delete");

    // Its object is not in this place, as far as one sees: that is no loss.
    let key = rig.key_of(1).await;
    let object = rig.place.get(&key).await.unwrap().unwrap();
    rig.place.delete(std::slice::from_ref(&key)).await.unwrap();
    assert!(rig.lease().await.is_empty());
    until("it is marked", || async { rig.row_of(1).await.state.word() == "dispatch_failed" }).await;
    let task = rig.row_of(1).await;
    assert_eq!(task.attempt, 0);
    let error = task.last_error.unwrap_or_default();
    assert!(error.contains("not marked as this store's"), "{error}");

    rig.place.put(&key, object).await.unwrap();
    rig.place.put(MARKER, ours.into_bytes()).await.unwrap();
    rig.days_pass(1).await;
    assert_eq!(rig.objects().await.len(), 2, "what was replaced is gone now");
    assert_eq!(rig.lease().await.remove(0)["payload_base64"], text(&bytes(MIB, 1)));
}

super::rig::on_each_store!(nothing_is_deleted_or_lost_in_a_place_that_is_another_s);
