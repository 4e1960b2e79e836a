//! Long payloads and results of tasks that go elsewhere: into an archive and back, and with their partition to another
//! database.

use super::{
    MIB,
    kept::Kept,
    rig::{LargeRig, START, bytes, text},
};
use serde_json::{Value, json};

/// A task that has succeeded with a long result.
async fn succeeded(rig: &LargeRig) -> Value {
    let asked = json!({"queue": "q", "task_id": 7, "delay_ms": 0, "payload_base64": text(&bytes(MIB, 1))});
    let inserted = rig.post("/v1/tasks", &asked).await.expect(201);
    rig.advance(0).await;
    let leased = rig.lease().await.remove(0);
    let outcome = json!({"outcome": "succeeded", "result_base64": text(&bytes(2 * MIB, 2))});
    assert_eq!(rig.report(&leased, outcome).await, "accepted");
    inserted
}

async fn has_both(rig: &LargeRig, task: &Value) {
    let by_ref = rig.get(&format!("/v1/tasks/{}", task["ref"].as_str().unwrap())).await;
    for shown in [by_ref, rig.task(7).await] {
        assert_eq!(shown["payload_base64"], text(&bytes(MIB, 1)));
        assert_eq!(shown["result"]["result_base64"], text(&bytes(2 * MIB, 2)));
    }
}

async fn an_archived_task_has_its_long_contents(kept: Kept) {
    let rig = LargeRig::over(kept).await;
    let task = succeeded(&rig).await;
    has_both(&rig, &task).await;
    rig.days_pass(5).await;
    assert_eq!(rig.archive().await, 1);
    assert_eq!(rig.rows().await, 0, "no row has it any more");
    has_both(&rig, &task).await;
    rig.days_pass(3).await;
    assert_eq!(rig.objects().await.len(), 2, "its objects are not taken for those of a forgotten task");
    has_both(&rig, &task).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_file_archived_tasks_have_their_long_contents() {
    let dir = tempfile::tempdir().unwrap();
    an_archived_task_has_its_long_contents(Kept::sqlite_with_archives(dir.path()).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_databases_archived_tasks_have_their_long_contents() {
    let dir = tempfile::tempdir().unwrap();
    an_archived_task_has_its_long_contents(Kept::mysql_with_archives(dir.path(), START).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_moves_takes_its_long_contents_along() {
    let rig = LargeRig::over(Kept::mysql().await).await;
    let asked = |id: i64| json!({"queue": "q", "task_id": id, "delay_ms": 5_000, "payload_base64": text(&bytes(MIB, 1))});
    let task = succeeded(&rig).await;
    for id in 20..24 {
        rig.post("/v1/tasks", &asked(id)).await.expect(201);
    }
    for database in [1, 0] {
        rig.kept.gather(database).await;
        has_both(&rig, &task).await;
    }
    rig.kept.gather(1).await;
    rig.days_pass(1).await;
    assert_eq!(rig.objects().await.len(), 6, "all are still some task's");
    rig.advance(5_000).await;
    // A call goes without what a busy database has not leased in time; that is given back, and is leased again.
    let mut leased = Vec::new();
    for _ in 0..20 {
        rig.advance(500).await;
        leased.append(&mut rig.lease().await);
        if leased.len() == 4 {
            break;
        }
    }
    assert_eq!(leased.len(), 4);
    for entry in &leased {
        assert_eq!(entry["payload_base64"], text(&bytes(MIB, 1)));
        let outcome = json!({"outcome": "succeeded", "result_base64": text(&bytes(MIB, 3))});
        assert_eq!(rig.report(entry, outcome).await, "accepted");
    }
    rig.kept.gather(0).await;
    assert_eq!(rig.task(20).await["result"]["result_base64"], text(&bytes(MIB, 3)));
}
