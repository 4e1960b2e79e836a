//! What a count of all rows finds: each kind of damage, by name, and nothing else; beside an engine, and in a file without
//! one.

use super::{NOW, memory, now, numbered};
use crate::{Options, SqliteDoctor, SqliteStore, sqlite::ledger::Ledger};
use punctual_contract::{
    LedgerStore as _, Store as _,
    ledger::{FaultKind, LedgerCount, LedgerFault},
};
use punctual_domain::{state::State, task::Task};
use rusqlite::Connection;

const TASKS: i64 = 100;

fn filled(store: &SqliteStore) -> Vec<Task> {
    let inserted = now(store.insert((1..=TASKS).map(|id| numbered(id, 0)).collect(), "test", NOW)).unwrap();
    inserted.into_iter().map(|inserted| inserted.task).collect()
}

fn sql(store: &SqliteStore, text: &str) {
    let text = text.to_owned();
    let job = move |conn: &Connection, _: &mut Ledger| conn.execute_batch(&text);
    now(store.writing("alter", 1, job)).unwrap();
}

fn count(store: &SqliteStore) -> LedgerCount {
    now(store.count_ledger(0)).unwrap().unwrap()
}

fn sound(store: &SqliteStore) {
    let count = count(store);
    assert!(count.unaccounted() == 0 && count.faults.is_empty(), "{count:?}");
}

fn only_fault(store: &SqliteStore) -> LedgerFault {
    let count = count(store);
    assert_eq!((count.unaccounted(), count.faults.len()), (1, 1), "{count:?}");
    count.faults[0].clone()
}

#[test]
fn a_row_that_was_deleted_is_named_with_the_last_known_state() {
    let store = memory();
    let tasks = filled(&store);
    sound(&store);
    for task in [&tasks[0], &tasks[31], &tasks[32], &tasks[99]] {
        let id = task.place.id;
        sql(
            &store,
            &format!(
                "CREATE TABLE kept AS SELECT * FROM task WHERE id = {id}; DELETE FROM task WHERE id = {id}"
            ),
        );
        let fault = only_fault(&store);
        assert_eq!((fault.kind, fault.id), (FaultKind::Lost, id));
        assert_eq!((fault.queue.as_ref(), fault.state), (Some(&task.ask.queue), Some(State::Scheduled)));
        sql(&store, "INSERT INTO task SELECT * FROM kept; DROP TABLE kept");
        sound(&store);
    }
    sql(&store, "DELETE FROM task");
    let count = count(&store);
    assert_eq!((count.unaccounted(), count.faults.len()), (TASKS, 100), "as many as are named");
}

#[test]
fn a_row_that_came_in_another_way_is_named() {
    let store = memory();
    let tasks = filled(&store);
    let id = tasks[7].place.id;
    // Its double: under an id that was never used, and under one of before.
    for other in [1_000_000, 0] {
        sql(
            &store,
            &format!(
                "CREATE TABLE kept AS SELECT * FROM task WHERE id = {id}; \
                 UPDATE kept SET id = {other}, task_version = 77; INSERT INTO task SELECT * FROM kept; DROP TABLE kept"
            ),
        );
        let fault = only_fault(&store);
        assert_eq!((fault.kind, fault.id), (FaultKind::Unregistered, other));
        assert_eq!(fault.task.map(|task| task.task_version), Some(77));
        sql(&store, &format!("DELETE FROM task WHERE id = {other}"));
        sound(&store);
    }
}

#[test]
fn a_row_in_another_partition_or_at_another_time_is_named() {
    let store = memory();
    let tasks = filled(&store);
    let task = &tasks[40];
    let id = task.place.id;
    for (there, back) in [
        ("partition = (partition + 1) % 4", format!("partition = {}", task.place.partition.0)),
        ("wait_at = wait_at + 86400000", "wait_at = wait_at - 86400000".to_owned()),
    ] {
        sql(&store, &format!("UPDATE task SET {there} WHERE id = {id}"));
        let fault = only_fault(&store);
        assert_eq!((fault.kind, fault.id, fault.state), (FaultKind::Misplaced, id, Some(State::Scheduled)));
        sql(&store, &format!("UPDATE task SET {back} WHERE id = {id}"));
        sound(&store);
    }
}

#[test]
fn a_register_and_an_account_that_were_altered_are_found() {
    let store = memory();
    filled(&store);
    sql(&store, "INSERT INTO registered VALUES (900, 4)");
    let fault = only_fault(&store);
    assert_eq!((fault.kind, fault.id, fault.state), (FaultKind::Lost, 900 * 32 + 2, None));
    sql(
        &store,
        "DELETE FROM registered WHERE ids_of = 900; UPDATE registered SET bits = bits & ~2 WHERE ids_of = 1",
    );
    let fault = only_fault(&store);
    assert_eq!((fault.kind, fault.id), (FaultKind::Unregistered, 33));
    sql(&store, "UPDATE registered SET bits = bits | 2 WHERE ids_of = 1");
    sound(&store);
    sql(&store, "UPDATE books SET state = 9");
    let counted = count(&store);
    assert_eq!((counted.unaccounted(), counted.differences.len()), (TASKS, 2), "{counted:?}");
    sql(&store, "UPDATE books SET state = 1; UPDATE meta SET value = value + 3 WHERE key = 'accepted'");
    assert_eq!(count(&store).unaccounted(), 3);
}

#[test]
fn a_register_that_is_new_has_what_stood_before() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = SqliteStore::open(&path, &Options::default()).unwrap();
    runtime.block_on(store.insert((1..=TASKS).map(|id| numbered(id, 0)).collect(), "test", NOW)).unwrap();
    store.close();
    let conn = Connection::open(&path).unwrap();
    let before = "DROP TABLE registered; DROP TABLE partition_account; DROP TABLE ledger_report; DELETE FROM task WHERE id % 7 = 0;
        UPDATE books SET tasks = (SELECT count(*) FROM task); UPDATE meta SET value = (SELECT count(*) FROM task)
        WHERE key = 'accepted'; PRAGMA user_version = 17;";
    conn.execute_batch(before).unwrap();
    drop(conn);
    assert!(SqliteDoctor::new(&path).check().is_err(), "of another release");
    let store = SqliteStore::open(&path, &Options::default()).unwrap();
    let count = runtime.block_on(store.count_ledger(0)).unwrap().unwrap();
    assert_eq!((count.unaccounted(), count.registered), (0, TASKS - TASKS / 7), "{count:?}");
    let accepted: i64 = count.partitions.iter().map(|partition| partition.accepted).sum();
    assert_eq!(accepted, TASKS - TASKS / 7);
}

#[test]
fn a_file_is_checked_beside_an_engine_and_without_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = SqliteStore::open(&path, &Options::default()).unwrap();
    runtime.block_on(store.insert((1..=TASKS).map(|id| numbered(id, 0)).collect(), "test", NOW)).unwrap();
    let doctor = SqliteDoctor::new(&path);
    assert!(doctor.check().unwrap().is_sound(), "in its log");
    let count = runtime.block_on(store.count_ledger(0)).unwrap().unwrap();
    assert_eq!((count.unaccounted(), count.rows()), (0, TASKS));
    store.close();
    assert!(doctor.check().unwrap().is_sound());
    Connection::open(&path).unwrap().execute("DELETE FROM task WHERE id = 5", []).unwrap();
    let checked = doctor.check().unwrap();
    assert!(!checked.is_sound() && checked.ledger.faults[0].id == 5, "{checked:?}");
    let store = SqliteStore::open(&path, &Options::default()).unwrap();
    let count = runtime.block_on(store.count_ledger(0)).unwrap().unwrap();
    assert_eq!(count.faults, checked.ledger.faults);
    assert!(SqliteStore::repair(&path).is_err(), "an engine has it");
    store.close();
    assert_eq!(SqliteStore::repair(&path).unwrap().ledger.faults, checked.ledger.faults);
    let repaired = doctor.check().unwrap();
    assert!(repaired.is_sound() && repaired.books.accepted == TASKS - 1, "{repaired:?}");
}
