//! Truncated, altered, missing or outdated data: never "no such task", never another task.

use super::{Batches, NOW, SHARD, archive, namespace, open, task, tasks};
use punctual_store::ArchiveError;
use std::path::{Path, PathBuf};

/// All files below a directory whose names end so.
pub(super) fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.append(&mut files(&path, ending));
        } else if path.to_str().unwrap().ends_with(ending) {
            found.push(path);
        }
    }
    found
}

fn only(dir: &Path, ending: &str) -> PathBuf {
    let mut found = files(dir, ending);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn change(file: &Path, at: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[at] ^= 0x20;
    std::fs::write(file, bytes).unwrap();
}

#[tokio::test]
async fn an_export_that_breaks_off_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let archive_storage = open(dir.path()).await;
    let mut source = Batches { fails_at_end: true, ..Batches::new(&tasks(0..5_000), 500) };
    let broken = archive_storage.write_bucket(SHARD, NOW, &mut source).await.unwrap_err();
    assert!(broken.to_string().contains("the database is gone"), "{broken}");
    assert!(source.archived.is_empty());
    archive_storage.refresh().await.unwrap();
    assert_eq!(archive_storage.list().await.unwrap(), []);
    assert_eq!(archive_storage.read(task(1).place).await.unwrap(), None);
    assert_eq!(files(dir.path(), ""), [] as [PathBuf; 0], "and leaves nothing");
}

#[tokio::test]
async fn data_without_its_index_is_not_there_and_the_next_export_does_not_mind_it() {
    let dir = tempfile::tempdir().unwrap();
    archive(dir.path(), &tasks(0..10)).await;
    std::fs::remove_file(only(dir.path(), ".index")).unwrap();
    let archive_storage = open(dir.path()).await;
    assert_eq!(archive_storage.list().await.unwrap(), []);
    assert_eq!(archive_storage.read(task(1).place).await.unwrap(), None);
    archive(dir.path(), &tasks(0..10)).await;
    archive_storage.refresh().await.unwrap();
    assert_eq!(archive_storage.read(task(1).place).await.unwrap(), Some(task(1)));
}

#[tokio::test]
async fn a_changed_byte_of_the_data_is_seen_by_whoever_reads_that_block_and_by_a_check() {
    let dir = tempfile::tempdir().unwrap();
    archive(dir.path(), &tasks(0..3_000)).await;
    let data = only(dir.path(), ".tasks.zst");
    let length = usize::try_from(data.metadata().unwrap().len()).unwrap();
    change(&data, length / 2);
    let archive_storage = open(dir.path()).await;
    assert_eq!(archive_storage.read(task(1).place).await.unwrap(), Some(task(1)), "another block");
    let damaged = archive_storage.read(task(1_500).place).await.unwrap_err();
    assert!(matches!(damaged, ArchiveError::Damaged { .. }), "{damaged:?}");
    let name = data.file_name().unwrap().to_str().unwrap();
    assert!(damaged.to_string().contains(name), "{damaged}");
    let index = archive_storage.list().await.unwrap().remove(0).index;
    assert!(matches!(archive_storage.verify(&index).await, Err(ArchiveError::Damaged { .. })));
}

#[tokio::test]
async fn data_that_is_cut_off_or_missing_is_an_error_and_not_an_absence() {
    let dir = tempfile::tempdir().unwrap();
    archive(dir.path(), &tasks(0..3_000)).await;
    let data = only(dir.path(), ".tasks.zst");
    let bytes = std::fs::read(&data).unwrap();
    let archive_storage = open(dir.path()).await;
    std::fs::write(&data, &bytes[..bytes.len() * 2 / 3]).unwrap();
    assert!(archive_storage.read(task(2_999).place).await.is_err());
    std::fs::remove_file(&data).unwrap();
    let missing = archive_storage.read(task(1).place).await.unwrap_err();
    assert!(missing.to_string().contains("its index is there"), "{missing}");
}

#[tokio::test]
async fn no_changed_byte_of_an_index_makes_a_task_disappear() {
    let dir = tempfile::tempdir().unwrap();
    archive(dir.path(), &tasks(0..2_000)).await;
    let index = only(dir.path(), ".index");
    let whole = std::fs::read(&index).unwrap();
    let mut refused = 0;
    for at in (0..whole.len()).step_by(1_511) {
        change(&index, at);
        let archive_storage = open(dir.path()).await;
        for id in [0, 999, 1_999] {
            match archive_storage.read(task(id).place).await {
                Ok(found) => assert_eq!(found, Some(task(id)), "byte {at}"),
                Err(_) => refused += 1,
            }
        }
        std::fs::write(&index, &whole).unwrap();
    }
    assert!(refused > 3, "{refused}");
    for length in [0, 10, 16_384, 40_000, whole.len() - 1] {
        std::fs::write(&index, &whole[..length]).unwrap();
        let found = open(dir.path()).await.read(task(999).place).await;
        assert!(found.as_ref().is_err() || found.unwrap() == Some(task(999)), "{length} bytes");
    }
}

#[tokio::test]
async fn a_format_of_the_future_is_refused_by_its_number_and_hides_no_other_archive() {
    let dir = tempfile::tempdir().unwrap();
    archive(dir.path(), &tasks([1])).await;
    let index = only(dir.path(), ".index");
    archive(dir.path(), &tasks([2])).await;
    let mut bytes = std::fs::read(&index).unwrap();
    let digit = bytes.iter().position(|byte| *byte == b'\n').unwrap() - 1;
    bytes[digit] = b'7';
    std::fs::write(&index, bytes).unwrap();
    let archive_storage = open(dir.path()).await;
    assert_eq!(archive_storage.read(task(2).place).await.unwrap(), Some(task(2)));
    for refused in
        [archive_storage.read(task(1).place).await.map(drop), archive_storage.list().await.map(drop)]
    {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, ArchiveError::NewerFormat { found: 7, .. }), "{refused:?}");
        assert!(refused.to_string().contains("format 7, and this program reads up to 1"), "{refused}");
    }
    let found = archive_storage.find(None, &namespace(), 1_001, 9).await;
    assert!(found.is_err());
}

#[tokio::test]
async fn a_file_of_somebody_else_is_refused_as_such() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("mine.index"), "<html>").unwrap();
    let foreign = open(dir.path()).await.list().await.unwrap_err();
    assert!(matches!(foreign, ArchiveError::Foreign { .. }), "{foreign:?}");
    assert!(foreign.to_string().contains("mine.index"), "{foreign}");
}
