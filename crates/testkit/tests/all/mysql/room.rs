//! Rows are inserted with room for what their moves add, so that a page full of them is not rebuilt and split as they
//! grow (decision 0021).

use super::{NOW, ask, fresh, migrate, open, sql};
use punctual_contract::{
    Store as _,
    store::{Assignment, Change, Grant, Step},
};
use punctual_domain::{history::Note, task::TaskResult};

/// Of what moves change, in the longest row.
const SIZE: &str = "SELECT MAX(LENGTH(room) + LENGTH(history) + IFNULL(LENGTH(lease_executor), 0) \
     + IFNULL(LENGTH(result_msg), 0) + 8 * ((fired_at IS NOT NULL) + (lease_since IS NOT NULL) \
     + (lease_until IS NOT NULL) + (keep_until IS NOT NULL) + (result_code IS NOT NULL))) FROM task";

#[tokio::test]
async fn a_row_does_not_grow_by_its_hand_over_and_its_outcome() {
    // By names, by ranges, and, where they are all different, by the statement for any rows.
    for (tasks, executors) in [(1, 1), (40, 1), (400, 1), (40, 20)] {
        let urls = fresh(1).await;
        let store = open(&urls).await;
        let size = || async { sql(&urls[0], SIZE).await.parse::<usize>().unwrap() };
        let inserted = store.insert((1..=tasks).map(ask).collect(), "api", NOW).await.unwrap();
        let at_first = size().await;
        let executor = |nth: usize| format!("mail-worker-7f9c4d-{:02}.example", nth % executors);
        let grant = |nth, place, fence| Grant {
            place,
            fence,
            fired_at: NOW,
            lease_until: NOW.plus(30_000),
            executor: executor(nth),
            namespace: punctual_domain::name::Name::default_namespace(),
            has_begun: false,
            known: None,
        };
        let tasks_of = inserted.iter().enumerate();
        let grants = tasks_of.map(|(nth, task)| grant(nth, task.task.place, task.task.fence)).collect();
        let given = store.dispatch(grants, NOW).await.unwrap();
        let given: Vec<Assignment> = given.into_iter().map(|dispatched| dispatched.made().unwrap()).collect();
        assert!(size().await <= at_first, "{} and {at_first} bytes", size().await);
        let success = |lease: &Assignment| Step {
            place: lease.place,
            fence: Some(lease.fence),
            change: Change::Succeed {
                result: TaskResult { status_code: 0, status_msg: String::new(), content: None },
                keep_until: NOW.plus(1_000_000),
            },
            note: Note { by: executor(usize::try_from(lease.task_id).unwrap()), ..Note::default() },
            fired_at: None,
            known: None,
        };
        store.apply(given.iter().map(success).collect(), NOW).await.unwrap();
        assert!(size().await <= at_first, "{} and {at_first} bytes", size().await);
        assert_eq!(
            sql(&urls[0], "SELECT COUNT(*), SUM(LENGTH(room)) FROM task").await,
            format!("{tasks}\t0")
        );
    }
}

const MADE: &str = include_str!("../../../../../migrations/mysql/0005_room.sql");

/// Rows that existed before have no room, after any interruption, and their buckets are exchanged as before.
#[tokio::test]
async fn tables_that_stand_already_are_altered_once_and_stay_alike() {
    let urls = fresh(1).await;
    let url = urls[0].as_str();
    migrate(&urls).await.unwrap();
    for table in ["task", "task_gone"] {
        sql(url, &format!("ALTER TABLE {table} DROP COLUMN room, FORCE, ALGORITHM = INPLACE")).await;
    }
    sql(url, "DELETE FROM migration WHERE name >= '0005_room'").await;
    let before: String = "INSERT INTO task (partition_no, due_at, id, namespace, task_id, task_version, queue, kind, \
         priority, state, fence, attempt, max_attempts, execute_at, created_at, updated_at, place_due_at, \
         cancel_requested, payload_is_json, history) VALUES (0, 5, 1, 'default', 1, 0, 'mail', 'send', 3, 1, 1, 0, 5, \
         5, 5, 5, 5, 0, 1, '')"
        .to_owned();
    sql(url, &before).await;
    // Interrupted after its first table.
    let first: String = MADE.split_inclusive("DEALLOCATE PREPARE alter_task;\n").take(1).collect();
    sql(url, &first).await;
    assert_eq!(
        migrate(&urls).await.unwrap(),
        [
            "0005_room",
            "0006_has_hot",
            "0007_access",
            "0008_without_databases",
            "0009_audit_key",
            "0010_schedules",
            "0011_payload_bytes",
            "0012_workflows",
            "0013_bulk",
            "0014_indexed_labels",
            "0015_dead",
            "0016_workflow_marks",
            "0017_uncounted_bytes",
            "0018_cluster",
            "0019_retention",
            "0020_queue_samples",
            "0021_run_identity",
            "0022_evaluations",
            "0023_task_chunks",
            "0024_token_required_at",
            "0025_limiter",
            "0026_ledger"
        ]
    );
    assert_eq!(sql(url, "SELECT LENGTH(room) FROM task").await, "0");
    sql(url, &before.replace("(0, 5, 1,", "(0, 5, 2,")).await;
    assert_eq!(sql(url, "SELECT LENGTH(room) FROM task WHERE id = 2").await, "200");
    sql(
        url,
        "ALTER TABLE task REORGANIZE PARTITION pmax INTO (PARTITION p9 VALUES LESS THAN (9), \
         PARTITION pmax VALUES LESS THAN MAXVALUE); ALTER TABLE task EXCHANGE PARTITION p9 WITH TABLE task_gone",
    )
    .await;
    assert_eq!(sql(url, "SELECT COUNT(*), SUM(LENGTH(room)) FROM task_gone").await, "2\t200");
}
