//! The embedded store with archives: ended tasks are archived before they are deleted, whatever happens in
//! between.

use super::{Failed, address, damage::files, namespace};
use punctual_contract::{
    Store,
    store::{Applied, Change, Grant, Step},
};
use punctual_domain::{
    history::Note,
    name::{Name, QueueKey},
    place::TaskRef,
    state::State,
    task::{Content, NewTask, Task, TaskResult},
    time::Millis,
};
use punctual_store::{ArchiveOptions, ArchiveReport, ArchiveStorage, ArchiveStorageOptions, SqliteStore};
use std::sync::Arc;
use tempfile::TempDir;

const DAY: i64 = 86_400_000;
const THEN: Millis = Millis(1_794_623_400_000);
const OVER: Millis = Millis(THEN.0 + DAY);
const AT_ONCE: ArchiveOptions = ArchiveOptions { rows_min: 1, wait_ms: 0, rows_max: 100_000 };

struct SqliteWorld {
    dir: TempDir,
    store: SqliteStore,
    /// As they were before they were archived.
    tasks: Vec<Task>,
}

async fn opened(dir: &TempDir) -> SqliteStore {
    let options = ArchiveStorageOptions { tasks_per_archive: 400, ..ArchiveStorageOptions::default() };
    let archive_storage = ArchiveStorage::open(&address(&dir.path().join("cold")), options).await.unwrap();
    let store = SqliteStore::open(dir.path().join("punctual.db"), &Default::default()).unwrap();
    store.with_archive(Arc::new(archive_storage)).await.unwrap()
}

fn ask(nth: i64) -> NewTask {
    let queue = QueueKey { namespace: namespace(), queue: Name::new("mail").unwrap() };
    let payload = if nth % 2 == 0 { "short".to_owned() } else { "long".repeat(1_000) };
    NewTask {
        task_id: Some(5_000 + nth),
        payload: Content::binary(payload.into_bytes()),
        ..NewTask::new(queue, Name::new("send").unwrap(), Millis(THEN.0 + 10_000 + nth))
    }
}

async fn apply(store: &SqliteStore, places: &[TaskRef], change: Change) {
    let note = Note { by: "caller".to_owned(), ..Note::default() };
    let step = |place: &TaskRef| Step {
        place: *place,
        fence: None,
        change: change.clone(),
        note: note.clone(),
        fired_at: None,
        known: None,
    };
    let applied = store.apply(places.iter().map(step).collect(), THEN).await.unwrap();
    assert!(applied.iter().all(|stepped| *stepped == Applied::Moved));
}

impl SqliteWorld {
    /// Cancelled tasks: all over at one instant.
    async fn with_tasks(tasks: i64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = opened(&dir).await;
        let inserted = store.insert((0..tasks).map(ask).collect(), "caller", THEN).await.unwrap();
        let places: Vec<TaskRef> = inserted.iter().map(|inserted| inserted.task.place).collect();
        apply(&store, &places, Change::Cancel { keep_until: OVER }).await;
        let tasks = store.read(&places).await.unwrap().into_iter().map(Option::unwrap).collect();
        Self { dir, store, tasks }
    }

    async fn archive(&self, now: Millis) -> ArchiveReport {
        self.store.archive_once(now, AT_ONCE).await.unwrap()
    }

    async fn has_everything(&self, when: &str) {
        let places: Vec<TaskRef> = self.tasks.iter().map(|task| task.place).collect();
        let found: Vec<Task> = self.store.read(&places).await.unwrap().into_iter().flatten().collect();
        assert!(found == self.tasks, "{when}: {} of {}", found.len(), self.tasks.len());
        for task in self.tasks.iter().step_by(97) {
            for version in [None, Some(0)] {
                let found = self.store.versions(&namespace(), task.task_id(), version, 5).await.unwrap();
                assert_eq!(found, std::slice::from_ref(task), "{when}");
            }
        }
    }

    async fn is_accounted_for(&self, deleted: i64) {
        let (books, audit) = (self.store.books().await.unwrap(), self.store.audit().await.unwrap());
        assert_eq!((books.unaccounted(), books.deleted, &books), (0, deleted, &audit));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_over_is_archived_and_deleted_and_can_be_read_also_after_a_restart() {
    let world = SqliteWorld::with_tasks(1_000).await;
    assert_eq!(world.archive(Millis(OVER.0 - 1)).await, ArchiveReport::default(), "its time lasts");
    for _ in 0..3 {
        let retired = world.store.retire(OVER, OVER, 1_000).await.unwrap();
        assert_eq!(retired.deleted, 0, "retention leaves it to the archive");
    }
    let report = world.archive(OVER).await;
    assert_eq!((report.archived, report.forgotten), (1_000, 1_000), "{report:?}");
    assert!(report.archived_bytes > 0);
    assert_eq!(files(world.dir.path(), ".index").len(), 2, "630 in growing batches, and the rest");
    world.is_accounted_for(1_000).await;
    world.has_everything("after").await;
    assert_eq!(world.archive(OVER).await, ArchiveReport::default(), "once");
    let SqliteWorld { dir, store, tasks } = world;
    store.close();
    let world = SqliteWorld { store: opened(&dir).await, dir, tasks };
    world.has_everything("after a restart").await;
    let nowhere = TaskRef { id: 77_777, ..world.tasks[0].place };
    assert_eq!(world.store.read(&[nowhere]).await.unwrap(), [None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn little_waits_for_more_or_for_a_day() {
    let world = SqliteWorld::with_tasks(20).await;
    let options = ArchiveOptions { rows_min: 21, wait_ms: DAY, ..AT_ONCE };
    let run = async |now| world.store.archive_once(now, options).await.unwrap().archived;
    assert_eq!(run(Millis(OVER.0 + DAY - 1)).await, 0);
    assert_eq!(run(Millis(OVER.0 + DAY)).await, 20);
    world.has_everything("after a day").await;
    let enough = SqliteWorld::with_tasks(21).await;
    assert_eq!(enough.store.archive_once(OVER, options).await.unwrap().archived, 21);
}

#[tokio::test(flavor = "multi_thread")]
async fn successes_are_stopped_though_others_wait_for_their_archive() {
    let world = SqliteWorld::with_tasks(600).await;
    let place = world.store.insert(vec![ask(9_000)], "caller", THEN).await.unwrap().remove(0).task.place;
    apply(&world.store, &[place], Change::Claim).await;
    apply(&world.store, &[place], Change::Fire { fired_at: THEN }).await;
    let fence = world.store.read(&[place]).await.unwrap().remove(0).unwrap().fence;
    let (lease_until, executor) = (Millis(THEN.0 + 60_000), "executor".to_owned());
    let grant = Grant {
        place,
        fence,
        fired_at: THEN,
        lease_until,
        executor,
        namespace: punctual_domain::name::Name::default_namespace(),
        has_begun: false,
        known: None,
    };
    assert!(world.store.dispatch(vec![grant], THEN).await.unwrap().remove(0).made().is_some());
    let result = TaskResult { status_code: 0, status_msg: String::new(), content: None };
    apply(&world.store, &[place], Change::Succeed { result, keep_until: Millis(OVER.0 + 5) }).await;
    let stopped = |now: i64| world.store.retire(Millis(now), Millis(now + DAY), 100);
    assert_eq!(stopped(OVER.0 + 4).await.unwrap().stopped, 0);
    assert_eq!(stopped(OVER.0 + 5).await.unwrap().stopped, 1, "600 others are over before it");
    assert_eq!(stopped(OVER.0 + 6).await.unwrap().stopped, 0);
    assert_eq!(world.archive(Millis(OVER.0 + 7)).await.archived, 600);
    assert_eq!(world.archive(Millis(OVER.0 + 5 + DAY)).await.archived, 1);
    let found = world.store.read(&[place]).await.unwrap().remove(0).unwrap();
    assert_eq!(found.state, State::Stopped);
    world.is_accounted_for(601).await;
}

/// The engine dies after the archive and before it deleted anything: the file as it was then, beside the new archives.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_between_the_archive_and_the_deletion_loses_and_doubles_nothing() -> Result<(), Failed> {
    let world = SqliteWorld::with_tasks(500).await;
    world.store.close();
    let saved = world.dir.path().join("saved.db");
    std::fs::copy(world.dir.path().join("punctual.db"), &saved)?;
    let SqliteWorld { dir, tasks, .. } = world;
    let world = SqliteWorld { store: opened(&dir).await, dir, tasks };
    assert_eq!(world.archive(OVER).await.forgotten, 500);
    world.store.close();
    let SqliteWorld { dir, tasks, .. } = world;
    std::fs::copy(&saved, dir.path().join("punctual.db"))?;
    let world = SqliteWorld { store: opened(&dir).await, dir, tasks };
    world.is_accounted_for(0).await;
    world.has_everything("after the crash").await;
    let again = world.archive(OVER).await;
    assert_eq!((again.archived, again.forgotten), (500, 500));
    world.has_everything("after the repetition").await;
    world.is_accounted_for(500).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn while_cold_storage_is_away_nothing_is_deleted() -> Result<(), Failed> {
    let world = SqliteWorld::with_tasks(100).await;
    let in_the_way = world.dir.path().join("cold").join("shard-0000");
    std::fs::write(&in_the_way, "")?;
    assert!(world.store.archive_once(OVER, AT_ONCE).await.is_err());
    world.is_accounted_for(0).await;
    world.has_everything("without cold storage").await;
    std::fs::remove_file(in_the_way)?;
    assert_eq!(world.archive(OVER).await.forgotten, 100);
    world.has_everything("after it came back").await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_with_archives_is_not_worked_on_without_them_and_deletes_nothing_if_it_is() {
    let world = SqliteWorld::with_tasks(10).await;
    world.store.close();
    let store = SqliteStore::open(world.dir.path().join("punctual.db"), &Default::default()).unwrap();
    let refused = store.has_no_archive().await.unwrap_err().to_string();
    assert!(refused.contains("archive.url"), "{refused}");
    assert_eq!(store.retire(OVER, OVER, 100).await.unwrap().deleted, 0);
    assert_eq!(store.archive_once(OVER, AT_ONCE).await.unwrap(), ArchiveReport::default());
    assert_eq!(store.audit().await.unwrap().deleted, 0);
}
