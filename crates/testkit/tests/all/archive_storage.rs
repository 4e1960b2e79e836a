//! Archive storage: archived tasks are read unchanged, whichever engine wrote them and whatever happened
//! meanwhile; damaged or unknown data is refused and never skipped.

mod again;
mod any_task;
mod damage;
mod engines;
mod mysql;
mod places;
mod sqlite;

use proptest::prelude::*;
use punctual_domain::{
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    state::State,
    task::{Content, NewTask, Task},
    time::Millis,
};
use punctual_store::{ArchiveError, ArchiveSource, ArchiveStorage, ArchiveStorageOptions};
use std::{collections::VecDeque, path::Path};

const NOW: Millis = Millis(1_800_000_000_000);
const DUE: Millis = Millis(1_799_000_000_000);
const SHARD: u16 = 3;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Tasks in batches. Counts the tasks it returned, and those that it was notified are archived.
#[derive(Default)]
struct Batches {
    left: VecDeque<Vec<Task>>,
    answered: usize,
    archived: Vec<usize>,
    fails_at_end: bool,
}

impl Batches {
    fn new(tasks: &[Task], batch: usize) -> Self {
        Self { left: tasks.chunks(batch).map(<[Task]>::to_vec).collect(), ..Self::default() }
    }
}

impl ArchiveSource for Batches {
    async fn next(&mut self) -> Result<Vec<Task>, Failed> {
        match self.left.pop_front() {
            Some(batch) => {
                self.answered += batch.len();
                Ok(batch)
            }
            None if self.fails_at_end => Err("the database is gone".into()),
            None => Ok(Vec::new()),
        }
    }

    async fn is_archived(&mut self) -> Result<(), Failed> {
        self.archived.push(self.answered);
        Ok(())
    }
}

fn address(dir: &Path) -> String {
    format!("file://{}", dir.display())
}

async fn open(dir: &Path) -> ArchiveStorage {
    ArchiveStorage::open(&address(dir), ArchiveStorageOptions::default()).await.unwrap()
}

async fn archive(dir: &Path, tasks: &[Task]) {
    open(dir).await.write_bucket(SHARD, NOW, &mut Batches::new(tasks, 100)).await.unwrap();
}

fn namespace() -> Name {
    Name::default_namespace()
}

/// A task that is over, with a payload, whose caller's id is `1000 + id`.
fn task(id: i64) -> Task {
    let queue = QueueKey { namespace: namespace(), queue: Name::new("mail").unwrap() };
    let place = TaskRef { partition: Partition(7), due_at: DUE, id };
    let ask = NewTask {
        task_id: Some(1_000 + id),
        payload: Content::json(format!(r#"{{"n":{id}}}"#)),
        ..NewTask::new(queue, Name::new("send").unwrap(), DUE)
    };
    Task {
        place,
        ask,
        state: State::Stopped,
        fence: 3,
        attempt: 1,
        due_at: DUE,
        fired_at: Some(DUE),
        created_at: Millis(DUE.0 - 5),
        updated_at: Millis(DUE.0 + 5),
        keep_until: Some(Millis(DUE.0 + 10)),
        lease: None,
        progress: None,
        log: None,
        result: None,
        last_error: None,
        history: Vec::new(),
    }
}

fn tasks(ids: impl IntoIterator<Item = i64>) -> Vec<Task> {
    ids.into_iter().map(task).collect()
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_field_comes_back_as_it_was(archived in prop::collection::vec(any_task::task(), 1..6)) {
        // One id is one task.
        let archived: Vec<Task> = (1..).zip(archived).map(|(id, task)| Task { place: TaskRef { id, ..task.place }, ..task }).collect();
        let dir = tempfile::tempdir().unwrap();
        block_on(async {
            archive(dir.path(), &archived).await;
            let archive_storage = open(dir.path()).await;
            for task in &archived {
                let found = archive_storage.read(task.place).await.unwrap();
                prop_assert_eq!(found.as_ref(), Some(task));
            }
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn every_task_of_many_blocks_and_archives_is_found_by_reference_and_by_id_and_no_other_is() {
    let dir = tempfile::tempdir().unwrap();
    let options = ArchiveStorageOptions { tasks_per_archive: 3_000, ..ArchiveStorageOptions::default() };
    let writer = ArchiveStorage::open(&address(dir.path()), options).await.unwrap();
    let all = tasks(0..10_000);
    let mut source = Batches::new(&all, 700);
    let written = writer.write_bucket(SHARD, NOW, &mut source).await.unwrap();
    assert_eq!((written.tasks, written.archives), (10_000, 3));
    assert_eq!(source.archived, [3_500, 7_000, 10_000], "after each archive");
    let archive_storage = open(dir.path()).await;
    for task in all.iter().step_by(37).chain(all.last()) {
        assert_eq!(archive_storage.read(task.place).await.unwrap().as_ref(), Some(task));
        let found = archive_storage.find(Some(Partition(7)), &namespace(), task.task_id(), 9).await.unwrap();
        assert_eq!(found, std::slice::from_ref(task));
    }
    for task in tasks(10_000..10_200) {
        assert_eq!(archive_storage.read(task.place).await.unwrap(), None);
        assert_eq!(archive_storage.find(None, &namespace(), task.task_id(), 9).await.unwrap(), []);
    }
    let elsewhere = TaskRef { due_at: Millis(DUE.0 + 1), ..task(5).place };
    assert_eq!(archive_storage.read(elsewhere).await.unwrap(), None, "a reference is more than its id");
    assert_eq!(archive_storage.find(None, &Name::new("other").unwrap(), 1_005, 9).await.unwrap(), []);
}

#[tokio::test]
async fn versions_come_highest_first_and_no_more_than_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let version = |id, task_version| {
        let task = task(id);
        Task { ask: NewTask { task_id: Some(42), task_version, ..task.ask.clone() }, ..task }
    };
    let (one, two, three) = (version(1, 1), version(2, 2), version(3, 3));
    archive(dir.path(), &[two.clone(), one.clone()]).await;
    archive(dir.path(), std::slice::from_ref(&three)).await;
    let archive_storage = open(dir.path()).await;
    assert_eq!(
        archive_storage.find(None, &namespace(), 42, 9).await.unwrap(),
        [three.clone(), two.clone(), one]
    );
    assert_eq!(archive_storage.find(None, &namespace(), 42, 2).await.unwrap(), [three, two]);
}

#[tokio::test]
async fn the_same_tasks_written_by_two_at_once_are_found_once_each() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (open(dir.path()).await, open(dir.path()).await);
    let all = tasks(0..2_500);
    let (mut first, mut second) = (Batches::new(&all, 100), Batches::new(&all, 300));
    let both =
        tokio::join!(one.write_bucket(SHARD, NOW, &mut first), other.write_bucket(SHARD, NOW, &mut second));
    assert_eq!((both.0.unwrap().tasks, both.1.unwrap().tasks), (2_500, 2_500));
    let archive_storage = open(dir.path()).await;
    assert_eq!(archive_storage.list().await.unwrap().len(), 2);
    for task in all.iter().step_by(500) {
        assert_eq!(
            archive_storage.find(None, &namespace(), task.task_id(), 9).await.unwrap(),
            std::slice::from_ref(task)
        );
    }
}

#[tokio::test]
async fn of_a_task_that_was_archived_twice_its_later_life_counts() {
    let dir = tempfile::tempdir().unwrap();
    let later = Task { fence: 9, state: State::Dead, ..task(1) };
    archive(dir.path(), std::slice::from_ref(&later)).await;
    archive(dir.path(), &tasks([1])).await;
    let archive_storage = open(dir.path()).await;
    assert_eq!(archive_storage.read(later.place).await.unwrap(), Some(later.clone()));
    assert_eq!(archive_storage.find(None, &namespace(), 1_001, 9).await.unwrap(), [later]);
}

#[tokio::test]
async fn what_another_published_or_removed_is_known_after_a_refresh() {
    let dir = tempfile::tempdir().unwrap();
    let archive_storage = open(dir.path()).await;
    assert_eq!(archive_storage.read(task(1).place).await.unwrap(), None);
    archive(dir.path(), &tasks([1])).await;
    archive_storage.refresh().await.unwrap();
    assert_eq!(archive_storage.read(task(1).place).await.unwrap(), Some(task(1)));
    for file in damage::files(dir.path(), "") {
        std::fs::remove_file(file).unwrap();
    }
    archive_storage.refresh().await.unwrap();
    assert_eq!(archive_storage.read(task(1).place).await.unwrap(), None);
    assert_eq!(archive_storage.list().await.unwrap(), []);
}

#[tokio::test]
async fn a_list_says_what_each_archive_has() {
    let dir = tempfile::tempdir().unwrap();
    let mut late = task(2);
    (late.due_at, late.place.partition) = (Millis(DUE.0 + 9), Partition(8));
    archive(dir.path(), &[task(1), late]).await;
    let archive_storage = open(dir.path()).await;
    let listed = archive_storage.list().await.unwrap();
    let archive_info = &listed[0];
    assert_eq!((archive_info.shard, archive_info.tasks, archive_info.exported_at), (SHARD, 2, NOW));
    assert_eq!((archive_info.partitions, archive_info.due_at), ((7, 8), (DUE, Millis(DUE.0 + 9))));
    assert!(archive_info.index.starts_with("shard-0003/2027-01-03/1799000000000-"), "{}", archive_info.index);
    assert_eq!(archive_storage.verify(&archive_info.index).await.unwrap(), 2);
}

#[tokio::test]
async fn an_id_that_is_nowhere_costs_a_page_of_each_archive_and_then_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for nth in 0..20 {
        archive(dir.path(), &tasks(nth * 3_000..(nth + 1) * 3_000)).await;
    }
    let archive_storage = open(dir.path()).await;
    let before = archive_storage.pages_read();
    for task_id in 0..50 {
        assert_eq!(archive_storage.find(None, &namespace(), -1 - task_id, 9).await.unwrap(), []);
    }
    // The filter of 3,000 tasks is one page; one unknown id in a hundred is looked for in five more.
    let read = archive_storage.pages_read() - before;
    assert!((20..=20 * 6).contains(&read), "{read} pages");
}

#[tokio::test]
async fn an_address_that_cannot_be_used_is_refused_with_its_reason() {
    for (url, reason) in [
        ("file://relative/path", "from the root"),
        ("/var/archive", "file:///"),
        ("ftp://host/x", "file:///"),
        ("file:///dev/null/x", "cannot be used"),
    ] {
        let refused = ArchiveStorage::open(url, ArchiveStorageOptions::default()).await.unwrap_err();
        assert!(matches!(refused, ArchiveError::Address { .. }), "{refused:?}");
        assert!(refused.to_string().contains(reason) && refused.to_string().contains(url), "{refused}");
    }
}
