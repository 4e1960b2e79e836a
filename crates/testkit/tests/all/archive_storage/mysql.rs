//! Buckets that are archived and dropped: at every step, and after a crash at any of them, each task can be read by its
//! reference and by its id, as it was.

use super::{Failed, address, damage::files, namespace};
use punctual_contract::{
    Store,
    store::{Applied, Change, Step},
};
use punctual_domain::{
    history::Note,
    name::{Name, QueueKey},
    place::TaskRef,
    state::State,
    task::{Content, NewTask, Task},
    time::Millis,
};
use punctual_store::{
    ArchiveStorage, ArchiveStorageOptions, BucketOptions, BucketReport, MysqlOptions, MysqlStore,
};
use punctual_testkit::servers::{self, MariaDb};
use std::sync::Arc;
use tempfile::TempDir;

pub(super) const DAY: i64 = 86_400_000;
/// When the tasks were: 2026-11-14T02:30:00Z
pub(super) const THEN: Millis = Millis(1_794_623_400_000);
pub(super) const NOW: Millis = Millis(THEN.0 + 10 * DAY);
pub(super) const OPTIONS: BucketOptions = BucketOptions {
    width_hours: 24,
    first_hours: 24,
    rows: 10_000_000,
    ahead_hours: 48,
    keep_hours: 72,
    carry_rows: 100_000,
    batch_rows: 40,
    batches_per_run: 1_000,
    cut_rows: 10_000,
};
/// One statement of work a run: a crash after each.
pub(super) const STEPWISE: BucketOptions = BucketOptions { batches_per_run: 1, ..OPTIONS };
const TASKS: i64 = 300;

pub(super) struct MysqlWorld {
    server: &'static MariaDb,
    pub(super) url: String,
    pub(super) dir: TempDir,
    pub(super) store: MysqlStore,
    /// As they were before they were archived.
    pub(super) tasks: Vec<Task>,
}

impl MysqlWorld {
    /// Tasks that are over: some with long payloads, some moved in time.
    pub(super) async fn with_tasks() -> Self {
        let server = servers::mariadb().await;
        let url = servers::migrated_database().await;
        let dir = tempfile::tempdir().unwrap();
        let store = opened(&url, &dir).await;
        store.buckets(OPTIONS).run_once(THEN).await.unwrap();
        let asks = (0..TASKS).map(ask).collect();
        let inserted = store.insert(asks, "caller", THEN).await.unwrap();
        let places: Vec<TaskRef> = inserted.iter().map(|inserted| inserted.task.place).collect();
        let later = Change::Reschedule {
            execute_at: Some(Millis(THEN.0 + 7_200_000)),
            priority: None,
            payload: None,
            queue: None,
        };
        move_all(&store, places.iter().step_by(3), &later).await;
        move_all(&store, places.iter(), &Change::Cancel { keep_until: Millis(THEN.0 + DAY) }).await;
        let tasks = store.read(&places).await.unwrap().into_iter().map(Option::unwrap).collect();
        Self { server, url, dir, store, tasks }
    }

    pub(super) async fn run(&self, options: BucketOptions, now: Millis) -> BucketReport {
        self.store.buckets(options).run_once(now).await.unwrap()
    }

    pub(super) async fn sql(&self, text: &str) -> String {
        self.server.sql(self.url.rsplit('/').next().unwrap(), text).await.trim().to_owned()
    }

    pub(super) async fn event(&self, call: &str) {
        self.server.event(self.url.rsplit('/').next().unwrap(), call).await;
    }

    /// By reference and by id, with this engine and with one that has just started.
    pub(super) async fn has_everything(&self, when: &str) {
        let places: Vec<TaskRef> = self.tasks.iter().map(|task| task.place).collect();
        for store in [&self.store, &opened(&self.url, &self.dir).await] {
            let found = store.read(&places).await.unwrap();
            let missing = found.iter().filter(|task| task.is_none()).count();
            assert_eq!(missing, 0, "{when}");
            let found: Vec<Task> = found.into_iter().flatten().collect();
            assert_eq!(found, self.tasks, "{when}");
            for task in self.tasks.iter().step_by(29) {
                for version in [None, Some(0)] {
                    let found = store.versions(&namespace(), task.task_id(), version, 5).await.unwrap();
                    assert_eq!(found, std::slice::from_ref(task), "{when}");
                }
            }
        }
    }
}

pub(super) async fn opened(url: &str, dir: &TempDir) -> MysqlStore {
    let options = ArchiveStorageOptions { tasks_per_archive: 100, ..ArchiveStorageOptions::default() };
    let archive_storage = ArchiveStorage::open(&address(dir.path()), options).await.unwrap();
    let store = MysqlStore::open(&[url.to_owned()], MysqlOptions::default()).await.unwrap();
    store.with_archive(Arc::new(archive_storage)).await.unwrap()
}

pub(super) fn ask(nth: i64) -> NewTask {
    let queue = QueueKey { namespace: namespace(), queue: Name::new("mail").unwrap() };
    let payload = if nth % 2 == 0 { "short".to_owned() } else { "long".repeat(1_000) };
    NewTask {
        task_id: Some(5_000 + nth),
        payload: Content::binary(payload.into_bytes()),
        ..NewTask::new(queue, Name::new("send").unwrap(), Millis(THEN.0 + nth * 1_000))
    }
}

pub(super) async fn move_all(store: &MysqlStore, places: impl Iterator<Item = &TaskRef>, change: &Change) {
    let note = Note { by: "caller".to_owned(), ..Note::default() };
    let step = |place: &TaskRef| Step {
        place: *place,
        fence: None,
        change: change.clone(),
        note: note.clone(),
        fired_at: None,
        known: None,
    };
    let applied = store.apply(places.map(step).collect(), THEN).await.unwrap();
    assert!(applied.iter().all(|stepped| *stepped == Applied::Moved));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_bucket_is_archived_and_dropped_and_its_tasks_can_be_read() {
    let world = MysqlWorld::with_tasks().await;
    world.has_everything("before").await;
    let report = world.run(OPTIONS, NOW).await;
    assert_eq!((report.archived, report.forgotten, report.not_archived), (300, 300, 0), "{report:?}");
    assert_eq!(world.sql("SELECT COUNT(*) FROM task").await, "0");
    assert_eq!(world.sql("SELECT COUNT(*) FROM registry").await, "0");
    world.has_everything("after").await;
    assert_eq!(files(world.dir.path(), ".index").len(), 2, "the first batch, and the others");
    let nowhere = TaskRef { id: 77_777_777, ..world.tasks[0].place };
    assert_eq!(world.store.read(&[nowhere]).await.unwrap(), [None]);
    assert_eq!(world.store.versions(&namespace(), 4_999, None, 5).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_step_a_crash_follows_nothing_is_missing_and_the_next_run_goes_on() {
    let world = MysqlWorld::with_tasks().await;
    let (mut archived, mut forgotten, mut runs) = (0, 0, 0);
    loop {
        let report = world.run(STEPWISE, NOW).await;
        archived += report.archived;
        forgotten += report.forgotten;
        assert!(forgotten == 0 || archived == 300, "nothing is forgotten before all is archived");
        runs += 1;
        assert!(runs < 100, "{report:?}");
        world.has_everything(&format!("after run {runs}: {report:?}")).await;
        if !report.is_unfinished && forgotten == 300 {
            break;
        }
    }
    assert!(runs > 10, "{runs} steps were seen");
    assert_eq!(archived, 300);
    let (books, audit) = (world.store.books().await.unwrap(), world.store.audit().await.unwrap());
    assert_eq!((books.unaccounted(), books.deleted), (0, 300));
    assert_eq!(books, audit);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_crash_between_an_archive_and_its_mark_writes_it_again_and_no_task_is_found_twice() {
    let world = MysqlWorld::with_tasks().await;
    let mut archived = 0;
    while archived < 200 {
        archived += world.run(STEPWISE, NOW).await.archived;
    }
    world.sql("UPDATE gone_to SET partition_no = -1, due_at = 0, id = 0 WHERE one = 2").await;
    let again = world.run(OPTIONS, NOW).await;
    assert_eq!((again.not_archived, again.archived, again.forgotten), (0, 300, 300), "{again:?}");
    world.has_everything("after a repetition").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn while_cold_storage_is_away_nothing_is_forgotten_and_everything_can_be_read() -> Result<(), Failed> {
    let world = MysqlWorld::with_tasks().await;
    // A file where a directory must be.
    std::fs::write(world.dir.path().join("shard-0000"), "")?;
    for _ in 0..2 {
        let report = world.run(OPTIONS, NOW).await;
        assert_eq!((report.not_archived, report.archived, report.forgotten), (1, 0, 0), "{report:?}");
        assert_eq!(world.sql("SELECT COUNT(*) FROM task").await, "300", "where they can be changed");
        world.has_everything("without cold storage").await;
    }
    std::fs::remove_file(world.dir.path().join("shard-0000"))?;
    let report = world.run(OPTIONS, NOW).await;
    assert_eq!((report.not_archived, report.archived, report.forgotten), (0, 300, 300), "{report:?}");
    world.has_everything("after it came back").await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_second_bucket_is_archived_from_its_beginning_and_archived_versions_stand_beside_new_ones() {
    let world = MysqlWorld::with_tasks().await;
    world.run(OPTIONS, NOW).await;
    let asks: Vec<NewTask> =
        (0..50).map(|nth| NewTask { task_version: 1, execute_at: Millis(NOW.0 + nth), ..ask(nth) }).collect();
    let inserted = world.store.insert(asks, "caller", NOW).await.unwrap();
    let both = world.store.versions(&namespace(), 5_007, None, 5).await.unwrap();
    assert_eq!(both[0].place, inserted[7].task.place);
    assert_eq!(both[1..], [world.tasks[7].clone()]);
    assert_eq!(world.store.versions(&namespace(), 5_007, None, 1).await.unwrap(), both[..1]);
    assert_eq!(world.store.versions(&namespace(), 5_007, Some(0), 5).await.unwrap(), both[1..]);
    let places: Vec<TaskRef> = inserted.iter().map(|inserted| inserted.task.place).collect();
    move_all(&world.store, places.iter(), &Change::Cancel { keep_until: NOW }).await;
    let report = world.run(OPTIONS, Millis(NOW.0 + 10 * DAY)).await;
    assert_eq!((report.archived, report.forgotten), (50, 50), "{report:?}");
    let found = world.store.versions(&namespace(), 5_007, None, 5).await.unwrap();
    let states: Vec<(i64, State)> = found.iter().map(|task| (task.ask.task_version, task.state)).collect();
    assert_eq!(states, [(1, State::Cancelled), (0, State::Cancelled)]);
    assert!(world.store.read(&places).await.unwrap().iter().all(Option::is_some));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_engine_learns_of_archives_that_another_wrote() {
    let world = MysqlWorld::with_tasks().await;
    let other = opened(&world.url, &world.dir).await;
    world.run(OPTIONS, NOW).await;
    let task = &world.tasks[5];
    assert_eq!(other.read(&[task.place]).await.unwrap(), [Some(task.clone())]);
}
