//! Opening, closing, grouping, failing and coming back, on real files.

use super::super::{
    Runs, SqliteStore, insert,
    lanes::Lane,
    threads::{self, Threads},
};
use super::{NOW, Options, ask, go, numbered, one, read};
use crate::Error;
use punctual_contract::{Happened, Store as _, store::Change};
use punctual_domain::task::{Content, NewTask};
use rusqlite::Connection;
use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, sync::mpsc};
use tempfile::TempDir;

pub(super) struct Place {
    dir: TempDir,
}

impl Place {
    pub(super) fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.dir.path().join("tasks.db")
    }

    pub(super) fn open(&self) -> SqliteStore {
        SqliteStore::open(self.path(), &Options::default()).unwrap()
    }

    fn refusal(&self) -> Error {
        SqliteStore::open(self.path(), &Options::default()).unwrap_err()
    }
}

fn threads(store: &SqliteStore) -> &Threads {
    match &store.runs {
        Runs::OnThreads(threads) => threads,
        Runs::Inline(_) => panic!("a store on a file has threads"),
    }
}

/// Holds the writer in a transaction of its own until the sender is used or dropped.
fn hold(store: &SqliteStore) -> mpsc::Sender<()> {
    let (release, held) = mpsc::channel();
    let (begin, begun) = mpsc::channel();
    let job = move |_: &Connection, _: &mut super::super::ledger::Ledger| {
        begin.send(()).unwrap();
        let _ = held.recv();
        Ok(())
    };
    drop(threads(store).write("hold", Lane::Urgent, 1, job));
    begun.recv().unwrap();
    release
}

#[tokio::test]
async fn migrations_run_once_and_in_order() {
    let place = Place::new();
    let all = super::super::open::migrations();
    assert_eq!(SqliteStore::migrate(place.path(), &Options::default()).unwrap(), all);
    assert!(SqliteStore::migrate(place.path(), &Options::default()).unwrap().is_empty());
    let store = place.open();
    assert!(store.migrated().is_empty());
    one(&store, ask("mail")).await;
}

#[tokio::test]
async fn what_was_stored_is_there_after_reopening_and_ids_go_on() {
    let place = Place::new();
    let long = punctual_domain::task::Content::binary(vec![7; 50_000]);
    let store = SqliteStore::open(place.path(), &Options { partitions: 3, ..Options::default() }).unwrap();
    let before = one(&store, punctual_domain::task::NewTask { payload: long, ..ask("mail") }).await;
    let books = store.books().await.unwrap();
    drop(store);
    let store = place.open();
    assert_eq!(store.partitions(), 3, "the number that rows were placed by wins");
    assert_eq!(read(&store, &before).await.unwrap(), before);
    assert_eq!(store.books().await.unwrap(), books);
    assert!(one(&store, ask("mail")).await.place.id > before.place.id);
}

const PAYLOAD_BYTES: &str = include_str!("../../../../../migrations/sqlite/0006_payload_bytes.sql");

#[tokio::test]
async fn payloads_of_tasks_from_before_an_upgrade_are_counted_by_it() {
    let (place, long) = (Place::new(), Content::binary(vec![7; 70_000]));
    let store = place.open();
    let outside = Content::outside(true, "ab/cd", 3_000_000);
    for payload in [Content::json("{}"), long, outside] {
        one(&store, NewTask { payload, ..ask("mail") }).await;
    }
    let over = one(&store, ask("mail")).await;
    go(&store, &over, Change::Cancel { keep_until: NOW }).await;
    store.close();
    let before = Connection::open(place.path()).unwrap();
    before.execute_batch("ALTER TABLE books DROP COLUMN bytes").unwrap();
    before.execute_batch(PAYLOAD_BYTES).unwrap();
    drop(before);
    let store = place.open();
    let books = store.books().await.unwrap();
    assert_eq!(
        books.pending_bytes.iter().map(|pending_bytes| pending_bytes.bytes).sum::<i64>(),
        2 + 70_000 + 3_000_000
    );
    assert_eq!(books, store.audit().await.unwrap());
}

#[tokio::test]
async fn a_second_engine_is_refused_until_the_first_is_closed() {
    let place = Place::new();
    let first = place.open();
    let refused = place.refusal();
    assert!(matches!(refused, Error::InUse { .. }), "{refused:?}");
    assert!(refused.to_string().contains("tasks.db"));
    first.close();
    let second = place.open();
    let error = first.books().await.unwrap_err();
    assert_eq!(error.happened, Happened::No);
    let error = first.insert(vec![ask("mail")], "test", NOW).await.unwrap_err();
    assert_eq!(error.happened, Happened::No, "{error}");
    one(&second, ask("mail")).await;
}

#[test]
fn files_of_others_are_refused_and_left_alone() {
    let place = Place::new();
    let text = "this is a letter, and no database at all; ".repeat(100);
    fs::write(place.path(), &text).unwrap();
    assert!(matches!(place.refusal(), Error::NotADatabase { .. }));
    assert_eq!(fs::read_to_string(place.path()).unwrap(), text);
    fs::remove_file(place.path()).unwrap();
    let other = Connection::open(place.path()).unwrap();
    other.execute_batch("CREATE TABLE song (id INTEGER)").unwrap();
    drop(other);
    let before = fs::read(place.path()).unwrap();
    assert!(matches!(place.refusal(), Error::Foreign { .. }));
    assert_eq!(fs::read(place.path()).unwrap(), before);
}

#[test]
fn a_newer_schema_is_refused() {
    let place = Place::new();
    drop(place.open());
    let conn = Connection::open(place.path()).unwrap();
    conn.execute_batch("PRAGMA user_version = 99").unwrap();
    drop(conn);
    assert!(matches!(place.refusal(), Error::NewerSchema { found: 99, .. }));
}

#[tokio::test]
async fn what_is_made_can_be_read_by_nobody_else_and_what_is_there_keeps_its_mode() {
    let place = Place::new();
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let store = place.open();
    one(&store, ask("mail")).await;
    let mut names = Vec::new();
    for file in fs::read_dir(place.dir.path()).unwrap() {
        let path = file.unwrap().path();
        names.push(path.file_name().unwrap().to_str().unwrap().to_owned());
        assert_eq!(mode(path), 0o600, "{names:?}");
    }
    names.sort();
    assert_eq!(names, ["tasks.db", "tasks.db-shm", "tasks.db-wal", "tasks.db.lock"]);
    drop(store);
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o640)).unwrap();
    drop(place.open());
    assert_eq!(mode(place.path()), 0o640, "the operator's own");
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let place = Place::new();
    let inside = place.path().join("not-there").join("tasks.db");
    let error = SqliteStore::open(&inside, &Options::default()).unwrap_err();
    assert!(matches!(error, Error::Unwritable { .. }), "{error:?}");
    assert!(error.to_string().contains("not-there"), "{error}");
    assert!(SqliteStore::open(place.path(), &Options { partitions: 0, ..Options::default() }).is_err());
}

#[tokio::test]
async fn calls_that_come_together_share_a_transaction() {
    let place = Place::new();
    let store = place.open();
    let release = hold(&store);
    let jobs = 200;
    let insert = |_| {
        let job = move |conn: &Connection, ledger: &mut super::super::ledger::Ledger| {
            let context = insert::InsertContext { partitions: 8, by: "test", now: NOW };
            insert::insert(conn, ledger, &context, vec![ask("mail")])
        };
        threads(&store).write("insert", Lane::Bulk, 1, job)
    };
    let answers: Vec<_> = (0..jobs).map(insert).collect();
    drop(release);
    for answer in answers {
        assert_eq!(threads::answer("insert", answer).await.unwrap().len(), 1);
    }
    let activity = store.activity();
    assert_eq!((activity.jobs, activity.transactions), (jobs + 1, 2));
}

#[tokio::test]
async fn a_job_that_fails_or_panics_spoils_no_other_and_leaves_nothing() {
    let place = Place::new();
    let store = place.open();
    let release = hold(&store);
    let insert = |ending: &'static str| {
        let job = move |conn: &Connection, ledger: &mut super::super::ledger::Ledger| {
            let context = insert::InsertContext { partitions: 8, by: "test", now: NOW };
            insert::insert(conn, ledger, &context, vec![ask("mail"), ask("sms")])?;
            assert_ne!(ending, "panic", "on purpose");
            if ending == "fail" { Err(rusqlite::Error::InvalidQuery) } else { Ok(()) }
        };
        threads(&store).write("insert", Lane::Urgent, 1, job)
    };
    let answers: Vec<_> = ["good", "fail", "good", "panic", "good"].into_iter().map(insert).collect();
    drop(release);
    let mut results = Vec::new();
    for answer in answers {
        results.push(threads::answer("insert", answer).await.map_err(|error| error.happened));
    }
    assert_eq!(results, [Ok(()), Err(Happened::No), Ok(()), Err(Happened::No), Ok(())]);
    let books = store.books().await.unwrap();
    assert_eq!((books.accepted, books.unaccounted()), (6, 0));
    assert_eq!(books, store.audit().await.unwrap());
    assert_eq!(store.activity().transactions, 2);
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_its_work_to_be_done() {
    let place = Place::new();
    let store = place.open();
    let release = hold(&store);
    let mut insert = Box::pin(store.insert((0..1_200).map(|_| ask("mail")).collect(), "test", NOW));
    let poll = std::future::poll_fn(|cx| std::task::Poll::Ready(insert.as_mut().poll(cx).is_pending()));
    assert!(poll.await, "the writer is held");
    drop(insert);
    drop(release);
    one(&store, ask("mail")).await;
    assert_eq!(store.books().await.unwrap().accepted, 1_201, "all chunks, though nobody waited");
}

#[tokio::test]
async fn a_full_disk_is_an_answer_and_is_survived() {
    let place = Place::new();
    let store = place.open();
    one(&store, ask("mail")).await;
    let pages = |count: i64| {
        let job = move |conn: &Connection, _: &mut super::super::ledger::Ledger| {
            conn.query_row(&format!("PRAGMA max_page_count = {count}"), [], |row| row.get::<_, i64>(0))
        };
        threads::answer("limit", threads(&store).write("limit", Lane::Urgent, 1, job))
    };
    pages(1).await.unwrap();
    let before = store.books().await.unwrap();
    // Of a payload that is longer than a page, not even the first chunk fits.
    let long = Content::binary(vec![1; 5_000]);
    let long = |_| NewTask { payload: long.clone(), ..ask("mail") };
    let error = store.insert((0..2_000).map(long).collect(), "test", NOW).await.unwrap_err();
    assert_eq!(error.happened, Happened::No, "{error}");
    assert_eq!(store.books().await.unwrap(), before);
    assert_eq!(store.audit().await.unwrap(), before);
    pages(1_000_000).await.unwrap();
    store.insert((0..2_000).map(|_| ask("mail")).collect(), "test", NOW).await.unwrap();
    let books = store.books().await.unwrap();
    assert_eq!((books.accepted, books.unaccounted()), (2_001, 0));
}

#[tokio::test]
async fn a_part_of_an_insert_that_fails_makes_the_whole_uncertain() {
    let place = Place::new();
    let store = place.open();
    let taken = store.insert((0..700).map(|_| ask("mail")).collect(), "test", NOW).await.unwrap();
    assert!(taken.is_sorted_by_key(|inserted| inserted.task.place.id), "in the order of what was asked");
    let trigger = |conn: &Connection, _: &mut super::super::ledger::Ledger| {
        conn.execute_batch(
            "CREATE TRIGGER no BEFORE INSERT ON task WHEN new.task_id = 600 BEGIN SELECT RAISE(ABORT, 'no'); END",
        )
    };
    threads::answer("trap", threads(&store).write("trap", Lane::Urgent, 1, trigger)).await.unwrap();
    let error = store.insert((0..700).map(|nth| numbered(nth, 0)).collect(), "test", NOW).await.unwrap_err();
    assert_eq!(error.happened, Happened::Maybe, "the first 500 were committed: {error}");
    assert_eq!(store.books().await.unwrap(), store.audit().await.unwrap());
    let again = store.insert(vec![numbered(600, 0)], "test", NOW).await.unwrap_err();
    assert_eq!(again.happened, Happened::No);
}

#[tokio::test]
async fn the_log_is_moved_while_the_store_runs_and_gone_when_it_is_closed() {
    let place = Place::new();
    let store = place.open();
    let log = || fs::metadata(place.path().with_extension("db-wal")).map_or(0, |metadata| metadata.len());
    one(&store, ask("mail")).await;
    assert!(log() > 0 && store.activity().log_pages > 0);
    store.close();
    assert_eq!(log(), 0);
    let conn = Connection::open(place.path()).unwrap();
    assert_eq!(conn.query_row("SELECT count(*) FROM task", [], |row| row.get::<_, i64>(0)).unwrap(), 1);
}
