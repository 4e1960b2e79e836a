//! Permissions of engines with archives: none deletes unarchived data, whatever its options, and an archive
//! storage belongs to one store.

use super::{
    address,
    mysql::{DAY, MysqlWorld, NOW, OPTIONS, THEN, ask, move_all, opened},
    namespace,
};
use punctual_contract::{Store, store::Change};
use punctual_domain::{
    place::TaskRef,
    state::State,
    task::{NewTask, Task},
    time::Millis,
};
use punctual_store::{ArchiveStorage, ArchiveStorageOptions, Error, MysqlOptions, MysqlStore, SqliteStore};
use punctual_testkit::servers;
use std::{path::Path, sync::Arc};

const EVENTS: &str = include_str!("../../../../../scripts/mysql-events.sql");

async fn archive_storage(dir: &Path) -> Arc<ArchiveStorage> {
    Arc::new(ArchiveStorage::open(&address(dir), ArchiveStorageOptions::default()).await.unwrap())
}

async fn plain(url: &str) -> MysqlStore {
    MysqlStore::open(&[url.to_owned()], MysqlOptions::default()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn where_there_are_archives_retention_deletes_nothing_also_by_an_engine_that_has_none() {
    let world = MysqlWorld::with_tasks().await;
    for store in [&world.store, &plain(&world.url).await] {
        for _ in 0..5 {
            let retired = store.retire(NOW, NOW, 1_000).await.unwrap();
            assert_eq!((retired.stopped, retired.deleted), (0, 0));
        }
        assert_eq!(world.sql("SELECT COUNT(*) FROM task").await, "300");
    }
    assert_eq!(world.run(OPTIONS, NOW).await.archived, 300);
    world.has_everything("after all").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_engine_without_archives_or_with_others_drops_nothing_and_does_not_start() {
    let world = MysqlWorld::with_tasks().await;
    let without = plain(&world.url).await;
    let report = without.buckets(OPTIONS).run_once(NOW).await.unwrap();
    assert_eq!((report.not_archived, report.dropped, report.forgotten), (1, 0, 0), "{report:?}");
    assert!(report.made > 0, "new buckets are made all the same");
    let refused = without.has_no_archive().await.unwrap_err();
    assert!(matches!(refused, Error::NoArchives { .. }), "{refused}");
    assert!(refused.to_string().contains("archive.url"), "{refused}");

    let elsewhere = tempfile::tempdir().unwrap();
    let refused =
        plain(&world.url).await.with_archive(archive_storage(elsewhere.path()).await).await.unwrap_err();
    assert!(matches!(refused, Error::OtherArchives { found: None, .. }), "{refused}");
    assert!(
        refused.to_string().contains("it is empty") && refused.to_string().contains("mount"),
        "{refused}"
    );
    assert_eq!(
        std::fs::read_dir(elsewhere.path()).unwrap().count(),
        0,
        "nothing is left where it was refused"
    );

    let other_store = plain(&servers::migrated_database().await).await;
    let refused = other_store.with_archive(archive_storage(world.dir.path()).await).await.unwrap_err();
    assert!(matches!(refused, Error::OtherArchives { found: Some(_), .. }), "{refused}");
    let file = tempfile::tempdir().unwrap();
    let embedded = SqliteStore::open(file.path().join("p.db"), &Default::default()).unwrap();
    let refused = embedded.with_archive(archive_storage(world.dir.path()).await).await.unwrap_err();
    assert!(matches!(refused, Error::OtherArchives { found: Some(_), .. }), "{refused}");
    world.has_everything("after all").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn engines_that_start_at_the_same_time_agree_about_the_place() {
    let url = servers::migrated_database().await;
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (plain(&url).await, plain(&url).await);
    let (first, second) = (archive_storage(dir.path()).await, archive_storage(dir.path()).await);
    let both = tokio::join!(one.with_archive(first), other.with_archive(second));
    assert!(both.0.is_ok() && both.1.is_ok(), "{both:?}");
    assert!(plain(&url).await.has_no_archive().await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_events_of_the_database_drop_nothing_where_there_are_archives() {
    let world = MysqlWorld::with_tasks().await;
    world.sql(EVENTS).await;
    world.event(&format!("CALL punctual_buckets({}, 24, 48, 72)", NOW.0)).await;
    assert_eq!(world.sql("SELECT COUNT(*) FROM task").await, "300");
    let report = world.run(OPTIONS, NOW).await;
    assert_eq!((report.archived, report.forgotten), (300, 300), "{report:?}");
    world.has_everything("after all").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_over_long_before_its_time_is_archived_with_the_present() {
    let world = MysqlWorld::with_tasks().await;
    let in_a_year = Millis(THEN.0 + 365 * DAY);
    let ahead = NewTask { task_id: Some(1), execute_at: in_a_year, ..ask(0) };
    let place = world.store.insert(vec![ahead], "caller", THEN).await.unwrap().remove(0).task.place;
    let cancel = Change::Cancel { keep_until: Millis(THEN.0 + DAY) };
    move_all(&world.store, [place].iter(), &cancel).await;
    let of_id = "SELECT due_at FROM task WHERE task_id = 1";
    world.store.retire(Millis(THEN.0 + DAY - 1), NOW, 1_000).await.unwrap();
    assert_eq!(world.sql(of_id).await, in_a_year.0.to_string(), "while it is kept it stays");
    world.store.retire(Millis(THEN.0 + DAY), NOW, 1_000).await.unwrap();
    assert_eq!(world.sql(of_id).await, (THEN.0 + DAY).to_string());
    assert_eq!(world.run(OPTIONS, NOW).await.archived, 301);
    let found = world.store.read(&[place]).await.unwrap().remove(0).unwrap();
    assert_eq!((found.place, found.state), (place, State::Cancelled));
    let (books, audit) = (world.store.books().await.unwrap(), world.store.audit().await.unwrap());
    assert_eq!((books.unaccounted(), &books), (0, &audit));
}

/// Archived, put back, and carried over at once, by three engines.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn engines_that_keep_house_at_the_same_time_archive_and_carry_every_task_once() {
    let world = MysqlWorld::with_tasks().await;
    let asks: Vec<NewTask> = (0..40).map(|nth| NewTask { task_id: Some(9_000 + nth), ..ask(nth) }).collect();
    let stuck = world.store.insert(asks, "caller", THEN).await.unwrap();
    let stuck: Vec<TaskRef> = stuck.iter().map(|inserted| inserted.task.place).collect();
    let mut engines = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let store = opened(&world.url, &world.dir).await;
        engines.spawn(async move {
            let buckets = store.buckets(OPTIONS);
            let (mut archived, mut carried) = (0, 0);
            for turn in 0..10 {
                let report = buckets.run_once(Millis(NOW.0 + turn)).await.unwrap();
                (archived, carried) = (archived + report.archived, carried + report.carried);
            }
            (archived, carried)
        });
    }
    let done = engines.join_all().await;
    let sums = done.iter().fold((0, 0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    assert_eq!(sums, (300, 40), "{done:?}");
    world.has_everything("after three").await;
    let found: Vec<Task> = world.store.read(&stuck).await.unwrap().into_iter().flatten().collect();
    assert!(
        found.len() == 40 && found.iter().all(|task| task.state == State::Scheduled && task.due_at >= NOW)
    );
    for task in &found {
        let versions = world.store.versions(&namespace(), task.task_id(), None, 5).await.unwrap();
        assert_eq!(versions, std::slice::from_ref(task));
    }
    let (books, audit) = (world.store.books().await.unwrap(), world.store.audit().await.unwrap());
    assert_eq!((books.unaccounted(), books.deleted, &books), (0, 300, &audit));
}
