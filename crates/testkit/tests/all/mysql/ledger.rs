//! What a count of all rows finds on MySQL: each kind of damage, by name, and nothing else. Seen to fail: without a fingerprint of the
//! due time, a row that was moved by hand was not found.

use super::{NOW, ask, fresh, open, sql};
use punctual_contract::{
    LedgerStore as _, Store as _,
    ledger::{FaultKind, LedgerCount, LedgerFault},
    store::{Change, Step},
};
use punctual_domain::{history::Note, state::State, task::Task};
use punctual_store::MysqlStore;

const TASKS: i64 = 40;

/// Every other one waits elsewhere than it was inserted.
async fn filled(urls: &[String]) -> (MysqlStore, Vec<Task>) {
    let store = open(urls).await;
    let inserted = store.insert((1..=TASKS).map(ask).collect(), "test", NOW).await.unwrap();
    let tasks: Vec<Task> = inserted.into_iter().map(|inserted| inserted.task).collect();
    let later = |task: &Task| Step {
        place: task.place,
        fence: Some(task.fence),
        change: Change::Reschedule {
            execute_at: Some(NOW.plus(5_000 + task.place.id)),
            priority: None,
            payload: None,
            queue: None,
        },
        note: Note::default(),
        fired_at: None,
        known: None,
    };
    store.apply(tasks.iter().step_by(2).map(later).collect(), NOW).await.unwrap();
    let places: Vec<_> = tasks.iter().map(|task| task.place).collect();
    let tasks = store.read(&places).await.unwrap().into_iter().flatten().collect();
    (store, tasks)
}

async fn count(store: &MysqlStore) -> LedgerCount {
    store.count_ledger(0).await.unwrap().expect("nothing rebuilds the database")
}

async fn sound(store: &MysqlStore) {
    let count = count(store).await;
    assert!(count.unaccounted() == 0 && count.faults.is_empty(), "{count:?}");
}

/// The one fault that is found.
async fn only_fault(store: &MysqlStore) -> LedgerFault {
    let count = count(store).await;
    assert_eq!((count.unaccounted(), count.faults.len()), (1, 1), "{count:?}");
    let checked = store.check().await.unwrap();
    assert!(!checked[0].is_sound() && checked[0].ledger.faults == count.faults, "{checked:?}");
    count.faults[0].clone()
}

fn is(fault: &LedgerFault, kind: FaultKind, task: &Task) {
    assert_eq!((fault.kind, fault.id), (kind, task.place.id), "{fault:?}");
    let named = fault.task.as_ref().unwrap();
    assert_eq!((Some(named.task_id), named.task_version), (task.ask.task_id, task.ask.task_version));
    assert_eq!((fault.queue.as_ref(), fault.state), (Some(&task.ask.queue), Some(task.state)), "{fault:?}");
}

#[tokio::test]
async fn a_row_that_was_deleted_is_named_with_the_last_known_state() {
    let urls = fresh(1).await;
    let (store, tasks) = filled(&urls).await;
    sound(&store).await;
    for task in &tasks[..2] {
        let id = task.place.id;
        sql(
            &urls[0],
            &format!(
                "CREATE TABLE kept AS SELECT * FROM task WHERE id = {id}; DELETE FROM task WHERE id = {id}"
            ),
        )
        .await;
        let fault = only_fault(&store).await;
        is(&fault, FaultKind::Lost, task);
        assert_eq!(fault.partition, Some(task.place.partition));
        sql(&urls[0], "INSERT INTO task SELECT * FROM kept; DROP TABLE kept").await;
        sound(&store).await;
    }
}

#[tokio::test]
async fn a_second_row_of_a_task_is_named() {
    let urls = fresh(1).await;
    let (store, tasks) = filled(&urls).await;
    for task in &tasks[..2] {
        let id = task.place.id;
        for other in ["due_at + 777", "place_due_at"] {
            if other == "place_due_at" && task.due_at == task.place.due_at {
                continue;
            }
            let double = format!(
                "CREATE TABLE kept AS SELECT * FROM task WHERE id = {id}; \
                 UPDATE kept SET due_at = {other}; INSERT INTO task SELECT * FROM kept"
            );
            sql(&urls[0], &double).await;
            is(&only_fault(&store).await, FaultKind::Doubled, task);
            sql(
                &urls[0],
                "DELETE task FROM task JOIN kept USING (partition_no, due_at, id); DROP TABLE kept",
            )
            .await;
            sound(&store).await;
        }
    }
}

#[tokio::test]
async fn a_row_in_another_bucket_or_partition_is_named() {
    let urls = fresh(1).await;
    let (store, tasks) = filled(&urls).await;
    for task in &tasks[..2] {
        let id = task.place.id;
        sql(&urls[0], &format!("UPDATE task SET due_at = due_at + 86400000 WHERE id = {id}")).await;
        let fault = only_fault(&store).await;
        is(&fault, FaultKind::Misplaced, task);
        assert_eq!(fault.due_at, Some(task.due_at.plus(86_400_000)));
        sql(&urls[0], &format!("UPDATE task SET due_at = due_at - 86400000 WHERE id = {id}")).await;
        sound(&store).await;
        let (here, there) = (task.place.partition.0, (task.place.partition.0 + 1) % store.partitions());
        sql(&urls[0], &format!("UPDATE task SET partition_no = {there} WHERE id = {id}")).await;
        let fault = only_fault(&store).await;
        is(&fault, FaultKind::Misplaced, task);
        assert_eq!(fault.partition.map(|partition| partition.0), Some(there));
        sql(&urls[0], &format!("UPDATE task SET partition_no = {here} WHERE id = {id}")).await;
        sound(&store).await;
    }
}

#[tokio::test]
async fn an_entry_without_a_row_and_a_row_without_an_entry_are_named() {
    let urls = fresh(1).await;
    let (store, tasks) = filled(&urls).await;
    let partition = tasks[0].place.partition.0;
    let entry = format!("INSERT INTO registry VALUES ({partition}, 'default', 7777, 0, 987654, {})", NOW.0);
    sql(&urls[0], &entry).await;
    let fault = only_fault(&store).await;
    assert_eq!((fault.kind, fault.id, fault.state), (FaultKind::Lost, 987_654, None));
    assert_eq!(fault.due_at, Some(NOW));
    sql(&urls[0], "DELETE FROM registry WHERE id = 987654").await;
    sound(&store).await;
    for task in &tasks[..2] {
        let id = task.place.id;
        sql(&urls[0], &format!("CREATE TABLE kept AS SELECT * FROM registry WHERE id = {id}; DELETE FROM registry WHERE id = {id}"))
            .await;
        is(&only_fault(&store).await, FaultKind::Unregistered, task);
        sql(&urls[0], "INSERT INTO registry SELECT * FROM kept; DROP TABLE kept").await;
        sound(&store).await;
    }
}

#[tokio::test]
async fn an_account_that_was_altered_is_found_with_queue_and_state() {
    let urls = fresh(1).await;
    let (store, _) = filled(&urls).await;
    sql(&urls[0], "UPDATE books SET state = 9 WHERE state = 1").await;
    let counted = count(&store).await;
    assert_eq!((counted.unaccounted(), counted.differences.len()), (TASKS, 2), "{counted:?}");
    let scheduled = &counted.differences[0];
    assert_eq!((scheduled.state, scheduled.books, scheduled.rows), (State::Scheduled, 0, TASKS));
    sql(&urls[0], "UPDATE books SET state = 1 WHERE state = 9").await;
    sound(&store).await;
    sql(&urls[0], "INSERT INTO counters (slot, name, value) VALUES (-9, 'accepted', 3)").await;
    assert_eq!(count(&store).await.unaccounted(), 3);
    sql(&urls[0], "UPDATE counters SET value = 0 WHERE slot = -9").await;
    sql(&urls[0], "DELETE FROM task WHERE id % 2 = 0; DELETE FROM registry WHERE id % 2 = 0").await;
    let counted = count(&store).await;
    assert_eq!((counted.unaccounted(), counted.faults.len()), (TASKS / 2, 0), "row and entry are gone");
}
